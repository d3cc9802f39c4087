// SPDX-License-Identifier: Apache-2.0
// Sizes beyond 2^31 on a GPU. Nothing of it runs where there is none, or not enough of its memory.
#include <memory>
#include <optional>

#include "cases.hpp"
#include "core/formats/dense/convert.hpp"
#include "core/prune/prune.hpp"
#include "core/quantize/quantize.hpp"

using namespace magicube;
using namespace support;

namespace {

constexpr int64_t rows = 3;
constexpr int64_t cols = 40;
constexpr int64_t wide_ld = (int64_t{1} << 30) + 16;  // row 2 starts beyond 2^31 elements

class device_memory {
  public:
    device_memory(const context& ctx, int64_t bytes)
        : ctx_(ctx), data_(allocate(ctx.device, ctx.ordinal, static_cast<size_t>(bytes))) {
        set_memory(ctx, data_, 0, static_cast<size_t>(bytes));
    }
    ~device_memory() { deallocate(ctx_.device, ctx_.ordinal, data_); }
    device_memory(const device_memory&) = delete;
    device_memory& operator=(const device_memory&) = delete;
    void* data() const { return data_; }

  private:
    const context& ctx_;
    void* data_;
};

// A matrix with rows far apart on a device, and its rows side by side in host memory.
class wide_matrix {
  public:
    wide_matrix(const context& ctx, dtype type)
        : ctx_(ctx),
          memory_(ctx, storage_bytes(type, (rows - 1) * wide_ld + cols)),
          host_(static_cast<size_t>(rows * cols * storage_bits(type) / 8)) {
        narrow_.rows = rows;
        narrow_.cols = narrow_.ld = cols;
        narrow_.type = type;
        narrow_.values = host_.data();
        wide_ = narrow_;
        wide_.ld = wide_ld;
        wide_.values = memory_.data();
    }
    const dense_view& narrow() const { return narrow_; }
    const dense_view& wide() const { return wide_; }
    std::vector<uint8_t>& bytes() { return host_; }

    void upload() {
        each_row(
            [&](char* device, uint8_t* host, size_t n) { copy_memory(ctx_, device, host, n); });
    }
    std::vector<uint8_t> download() {
        const auto kept = host_;
        each_row(
            [&](char* device, uint8_t* host, size_t n) { copy_memory(ctx_, host, device, n); });
        const auto found = host_;
        host_ = kept;
        return found;
    }

  private:
    template <class Copy>
    void each_row(const Copy& copy) {
        const auto line = static_cast<size_t>(storage_bytes(wide_.type, cols));
        for (int64_t i = 0; i < rows; ++i) {
            copy(static_cast<char*>(memory_.data()) + storage_bytes(wide_.type, i * wide_ld),
                 host_.data() + static_cast<size_t>(i) * line, line);
        }
        synchronize(ctx_);
    }

    const context& ctx_;
    device_memory memory_;
    std::vector<uint8_t> host_;
    dense_view narrow_;
    dense_view wide_;
};

// Null where the memory is not there.
std::unique_ptr<wide_matrix> make_wide(const context& ctx, dtype type) {
    try {
        return std::make_unique<wide_matrix>(ctx, type);
    } catch (const error& e) {
        if (e.code() != status::alloc_failed) throw;
        MESSAGE("not enough memory on the device");
        return nullptr;
    }
}

void check_there_and_back(const context& ctx, wide_matrix& weight, wide_matrix& mask) {
    guarded_array<int64_t> begin(2), end(2);
    sr_bcrs_target target;
    target.vector_length = 2;
    target.stride = 8;
    target.type = dtype::bf16;
    mirror device(ctx);
    target.row_begin = put_guarded(device, begin);
    target.row_end = put_guarded(device, end);
    const dense_source source{weight.wide(), &mask.wide()};
    target.slots = count_sr_bcrs(ctx, source, target);
    guarded_array<int32_t> columns(target.slots);
    guarded_array<uint8_t> element_mask(target.slots);
    packed_array values(kind::bf16, target.slots * 2);
    target.col_indices = put_guarded(device, columns);
    target.element_mask = put_guarded(device, element_mask);
    target.values = put_array(device, values);
    fill_sr_bcrs(ctx, source, target);
    sr_bcrs_view view;
    view.rows = rows;
    view.cols = cols;
    view.values = target.values;
    view.type = dtype::bf16;
    view.vector_length = 2;
    view.stride = 8;
    view.slots = target.slots;
    view.row_begin = {target.row_begin, index_type::int64};
    view.row_end = {target.row_end, index_type::int64};
    view.col_indices = target.col_indices;
    view.element_mask = target.element_mask;
    const auto marks = mask.bytes();
    auto wanted = weight.bytes();
    for (size_t i = 0; i < marks.size(); ++i)
        if (!marks[i]) wanted[2 * i] = wanted[2 * i + 1] = 0;
    sparse_to_dense(ctx, view, weight.wide());
    CHECK(weight.download() == wanted);
    sparse_to_mask(ctx, view, mask.wide());
    CHECK(mask.download() == marks);
}

}  // namespace

TEST_CASE("large: offsets of a matrix beyond 2^31 elements, on a GPU") {
    generator random(70);
    for (const auto& ctx : all_contexts()) {
        if (ctx.on_cpu()) continue;
        const auto weight = make_wide(ctx, dtype::bf16);
        const auto mask = make_wide(ctx, dtype::uint8);
        const auto integers = make_wide(ctx, dtype::int8);
        if (!weight || !mask || !integers) return;
        packed_array numbers(kind::bf16, rows * cols);
        for (int64_t i = 0; i < rows * cols; ++i) {
            numbers.set(i, random_value(random, kind::bf16));
            const uint32_t bits = numbers.raw(i);
            weight->bytes()[static_cast<size_t>(2 * i)] = static_cast<uint8_t>(bits);
            weight->bytes()[static_cast<size_t>(2 * i + 1)] = static_cast<uint8_t>(bits >> 8);
        }
        weight->upload();
        std::vector<char> scratch(1 << 20);
        mirror device(ctx);
        void* on_device = device.put(scratch.data(), scratch.size());

        const prune_params pruning{2, prune_scope::matrix, prune_norm::l2, 0.5, -1};
        prune(context(), weight->narrow(), pruning, mask->narrow(), scratch.data(), scratch.size());
        prune(ctx, weight->wide(), pruning, mask->wide(), on_device, scratch.size());
        CHECK(mask->download() == mask->bytes());

        const quantize_params quantizing{granularity::tensor, calibration::absmax, 0, -1};
        guarded_array<float> scale(1), scale_on_device(1);
        quantize(context(), weight->narrow(), quantizing, integers->narrow(), scale.data(), nullptr,
                 0);
        quantize(ctx, weight->wide(), quantizing, integers->wide(),
                 put_guarded(device, scale_on_device), nullptr, 0);
        CHECK(integers->download() == integers->bytes());
        fetch_guarded(device, scale_on_device);
        CHECK(scale_on_device[0] == scale[0]);

        check_there_and_back(ctx, *weight, *mask);
    }
}

TEST_CASE("large: a number of slots that int32 cannot hold, on a GPU") {
    for (const auto& ctx : all_contexts()) {
        if (ctx.on_cpu()) continue;
        constexpr int64_t count = (int64_t{1} << 26) + 1;
        uint8_t one = 1;
        mirror device(ctx);
        dense_view dense;
        dense.rows = dense.cols = dense.ld = 1;
        dense.type = dtype::uint8;
        dense.values = device.put(&one, 1);
        dense.batch_count = count;
        std::optional<device_memory> begin, end;
        try {
            begin.emplace(ctx, count * 8);
            end.emplace(ctx, count * 8);
        } catch (const error& e) {
            if (e.code() != status::alloc_failed) throw;
            MESSAGE("not enough memory on the device");
            return;
        }
        sr_bcrs_target target;
        target.type = dtype::uint8;
        target.stride = 32;
        target.row_begin = begin->data();
        target.row_end = end->data();
        const dense_source source{dense, nullptr};
        CHECK(count_sr_bcrs(ctx, source, target) == 32 * count);
        int64_t last[2] = {};
        copy_memory(ctx, &last[0], static_cast<int64_t*>(target.row_begin) + count - 1, 8);
        copy_memory(ctx, &last[1], static_cast<int64_t*>(target.row_end) + count - 1, 8);
        synchronize(ctx);
        CHECK(last[0] == 32 * (count - 1));
        CHECK(last[1] == 32 * (count - 1) + 1);
        target.offset_type = index_type::int32;
        CHECK(has(error_of([&] { count_sr_bcrs(ctx, source, target); }),
                  "the number of slots is above 2147483647"));
    }
}
