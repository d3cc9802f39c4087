// SPDX-License-Identifier: Apache-2.0
#include "core/ops/operands.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/common/checked.hpp"
#include "core/common/pointers.hpp"

namespace magicube {

void check_batch(int64_t batch_count, const sr_bcrs_view& pattern, const char* argument) {
    require_value(batch_count >= 0, "problem->batch_count is ", batch_count,
                  "; it must be at least 0");
    require_value(pattern.batch_count == batch_count || pattern.batch_count == 1, argument,
                  " has a batch of ", pattern.batch_count,
                  "; it must be problem->batch_count = ", batch_count, " or 1");
}

void check_range(int64_t lowest, int64_t highest, const char* dimension) {
    require_value(lowest >= 0, "problem->", dimension, "_min is ", lowest,
                  "; it must be at least 0");
    require_value(highest >= lowest, "problem->", dimension, "_max is ", highest,
                  "; it must be at least problem->", dimension, "_min = ", lowest);
}

void check_in_range(int64_t size, int64_t lowest, int64_t highest, const char* argument) {
    require_value(size >= lowest && size <= highest, argument, " is ", size,
                  "; the plan was made for ", lowest, " to ", highest);
}

namespace {

std::string names_of(std::initializer_list<granularity> values) {
    std::string names = "NONE";
    for (const auto value : values) names += text(" or ", name_of(value));
    return names;
}

int64_t array_length(const scale_shape& shape, int64_t length) {
    return shape.per == granularity::tensor ? 1 : length;
}

}  // namespace

void check_scale_shape(const scale_shape& shape, std::initializer_list<granularity> allowed,
                       int64_t batch_count, const char* argument) {
    const bool fits =
        !shape.present() || std::find(allowed.begin(), allowed.end(), shape.per) != allowed.end();
    if (!fits) {
        fail(status::invalid_value, argument, " is ", name_of(shape.per), "; it must be ",
             names_of(allowed));
    }
    require_value(shape.batch_stride >= 0, argument, "_batch_stride is ", shape.batch_stride,
                  "; it must be at least 0");
    checked_mul(shape.batch_stride, batch_count, argument);
}

void check_summands(const scale_shape& shape, const float* data, int64_t length,
                    int64_t batch_count, const char* argument) {
    if (!shape.present()) return;
    require_array(data, batch_count == 0 ? 0 : array_length(shape, length), alignof(float),
                  argument);
}

void check_scales(const context& ctx, const scale_shape& shape, const float* data, int64_t length,
                  int64_t batch_count, const char* argument, bool divides) {
    check_summands(shape, data, length, batch_count, argument);
    if (!shape.present() || !ctx.validates()) return;
    const int64_t arrays =
        shape.batch_stride == 0 ? std::min<int64_t>(batch_count, 1) : batch_count;
    for (int64_t batch = 0; batch < arrays; ++batch) {
        for (int64_t i = 0; i < array_length(shape, length); ++i) {
            const int64_t index = batch * shape.batch_stride + i;
            require_value(std::isfinite(data[index]), argument, "[", index, "] is ", data[index],
                          "; it must be finite");
            require_value(!divides || data[index] != 0, argument, "[", index,
                          "] is 0; it must not be");
        }
    }
}

void check_dense(const dense_view& view, const dense_expectation& expected, const char* argument) {
    require_value(view.type == expected.type, argument, " is ", name_of(view.type),
                  "; the plan was made for ", name_of(expected.type));
    const auto order_name = [](order o) { return o == order::row ? "ROW" : "COL"; };
    require_value(view.storage == expected.storage, argument, " has order ",
                  order_name(view.storage), "; the plan was made for ",
                  order_name(expected.storage));
    require_value(view.rows == expected.rows && view.cols == expected.cols, argument, " is ",
                  view.rows, " x ", view.cols, "; it must be ", expected.rows, " x ",
                  expected.cols);
    require_value(view.batch_count == expected.batch_count, argument, " has a batch of ",
                  view.batch_count, "; the plan was made for ", expected.batch_count);
}

int64_t value_stride(const sr_bcrs_view& pattern, int64_t given) {
    if (pattern.different_patterns) return 0;
    return given == 0 ? pattern.value_count() : given;
}

void check_value_stride(const sr_bcrs_view& pattern, int64_t given, dtype type, int64_t batch_count,
                        bool output, const char* argument) {
    require_value(given >= 0, argument, " is ", given, "; it must be at least 0");
    if (pattern.different_patterns) return;
    const int64_t stride = value_stride(pattern, given);
    checked_mul(checked_mul(stride, batch_count, argument), 8, argument);
    require_value(type != dtype::int4 || stride % 2 == 0, argument, " is ", stride,
                  "; it must be even for int4");
    require_value(!output || batch_count <= 1 || stride >= pattern.value_count(), argument, " is ",
                  given, "; it must be 0 or at least ", pattern.value_count(),
                  ", the values of one matrix");
}

void check_value_array(const void* values, dtype type, int64_t count, const char* argument) {
    require_array(values, count, std::max(1, storage_bits(type) / 8), argument);
}

bool ranges_overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
    if (a_bytes == 0 || b_bytes == 0) return false;
    const auto a_begin = reinterpret_cast<uintptr_t>(a);
    const auto b_begin = reinterpret_cast<uintptr_t>(b);
    return a_begin < b_begin + static_cast<uintptr_t>(b_bytes) &&
           b_begin < a_begin + static_cast<uintptr_t>(a_bytes);
}

namespace {

// The bytes of a dense matrix or batch.
struct footprint {
    const char* begin;
    int64_t bytes;   // from the first to one past the last
    int64_t pitch;   // between rows
    int64_t length;  // of a row
    bool solid;      // no gaps
    bool one_grid;   // every row starts a multiple of the pitch after the first

    explicit footprint(const dense_view& view) : begin(static_cast<const char*>(view.values)) {
        const int64_t step = view.batch_count > 1 ? view.batch_stride : 0;
        pitch = storage_bytes(view.type, view.ld);
        length = storage_bytes(view.type, view.inner());
        bytes = storage_bytes(view.type, step) * (view.batch_count - 1) +
                pitch * (view.outer() - 1) + length;
        one_grid = pitch > 0 && step % view.ld == 0;
        solid = (view.ld == view.inner() || view.outer() == 1) &&
                (step == 0 || step == view.outer() * view.inner());
    }
};

}  // namespace

void check_no_overlap(const dense_view& output, const char* output_name, const dense_view& input,
                      const char* input_name) {
    if (output.empty() || input.empty()) return;
    const footprint out(output);
    const footprint in(input);
    if (!ranges_overlap(out.begin, out.bytes, in.begin, in.bytes)) return;
    bool shared = out.solid && in.solid;
    if (!shared && out.one_grid && in.one_grid && out.pitch == in.pitch) {
        // Both are windows of one matrix with this pitch: where does out's row start in in's?
        const int64_t offset = ((out.begin - in.begin) % out.pitch + out.pitch) % out.pitch;
        shared = offset < in.length || offset + out.length > out.pitch;
    }
    require_value(!shared, output_name, " overlaps ", input_name,
                  " in memory; an output must not share memory with an input");
}

}  // namespace magicube
