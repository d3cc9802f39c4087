// SPDX-License-Identifier: Apache-2.0
// Warp w of the four has rows 16 w to 16 w + 15 of A and D. With g = lane / 4 and t = lane % 4, sum
// i of d is row g + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 t + i % 2; registers of A and metadata
// are those of mma on 16 rows.
#include "emulation/warpgroup.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "source/block.hpp"
#include "source/numbers.hpp"
#include "source/settings.hpp"

namespace emulated {
namespace {

constexpr int rows = 64, most_columns = 256, most_depth = 64, threads = 128;

// ---- matrices in shared memory ------------------------------------------------------------------

// Bits 0-13 the address, 16-29 and 32-45 two distances, all in 16 bytes; 62-63 the swizzle.
struct matrix_in_shared {
    uint32_t start, leading, stride;
    int span;  // bytes that are swizzled, 0: none
    bool across;
    int element_bytes;

    matrix_in_shared(uint64_t descriptor, bool is_across, int bytes, site at)
        : start(static_cast<uint32_t>(descriptor & 0x3fff) << 4),
          leading(static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4),
          stride(static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4),
          across(is_across),
          element_bytes(bytes) {
        constexpr int spans[] = {0, 128, 64, 32};
        span = spans[descriptor >> 62];
        if (descriptor >> 49 & 7) fail("wgmma: base offsets other than 0 are not emulated", at);
        if (across && bytes != 2)
            fail("wgmma: only operands of 16 bits can lie across K (M- or N-major)", at);
    }

    // The address of element (line, k); a line is a row of A or a column of B.
    uint32_t address(int line, int k) const {
        const auto l = static_cast<uint32_t>(line), depth = static_cast<uint32_t>(k);
        const auto bytes = static_cast<uint32_t>(element_bytes), s = static_cast<uint32_t>(span);
        uint32_t at = start;
        if (across && span == 0) {
            // 8 x 8 elements, 16 bytes of lines after 16 bytes.
            at += l / 8 * stride + depth / 8 * leading + depth % 8 * 16 + l % 8 * bytes;
        } else if (across) {
            const uint32_t lines = s / bytes;
            at += l / lines * leading + depth / 8 * stride + depth % 8 * s + l % lines * bytes;
        } else if (span == 0) {
            at += l / 8 * stride + depth * bytes / 16 * leading + l % 8 * 16 + depth * bytes % 16;
        } else {
            at += l / 8 * stride + l % 8 * s + depth * bytes;
        }
        const uint32_t mask = span == 0 ? 0 : s / 16 - 1;
        return at ^ (at >> 7 & mask) << 4;
    }
};

template <class T>
T value_at(const matrix_in_shared& matrix, number type, int line, int k, site at) {
    const auto bytes = static_cast<size_t>(matrix.element_bytes);
    uint32_t word = 0;
    std::memcpy(&word, shared_pointer(matrix.address(line, k), bytes, bytes, at), bytes);
    if constexpr (std::is_same_v<T, int32_t>) {
        return integer_of(type, word, 0);
    } else {
        return any_float_of(type, word, 0);
    }
}

// ---- the product --------------------------------------------------------------------------------

template <class T>
struct argument {
    warpgroup_product product;
    uint32_t a[4];
    T* d;
};

template <class T>
class operation : public deferred_product {
  public:
    operation(void* const* arguments, site at) : at_(at) {
        for (int i = 0; i < threads; ++i) of_[i] = *static_cast<const argument<T>*>(arguments[i]);
    }

    // For one of the threads. Shared memory is read when the first one needs it.
    void execute(int thread) override {
        if (std::exchange(done_[thread], true)) return;
        const warpgroup_product& p = of_[0].product;
        if (!loaded_) load();
        const int warp = thread / 32, lane = thread % 32;
        for (int i = 0; i < p.columns / 2; ++i) {
            const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8;
            const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            T& d = of_[thread].d[i];
            d = add_products(p.adds ? d : T{}, a_[row], b_[column], depth_);
        }
    }

  private:
    void load() {
        const warpgroup_product& p = of_[0].product;
        const int a_bytes = bits_of(p.a_type) / 8, b_bytes = bits_of(p.b_type) / 8;
        const int stored = 32 / a_bytes;
        depth_ = p.sparse ? 2 * stored : stored;
        read_a(stored, a_bytes);
        if (p.sparse) spread(stored);
        const matrix_in_shared from(p.b, p.b_across, b_bytes, at_);
        for (int column = 0; column < p.columns; ++column)
            for (int k = 0; k < depth_; ++k)
                b_[column][k] = value_at<T>(from, p.b_type, column, k, at_);
        loaded_ = true;
    }

    void read_a(int stored, int bytes) {
        const warpgroup_product& p = of_[0].product;
        if (p.a_registers) {
            const int e = 4 / bytes;
            for (int row = 0; row < rows; ++row)
                for (int k = 0; k < stored; ++k) {
                    const int lane = row % 8 * 4 + k % (4 * e) / e;
                    const uint32_t word =
                        of_[row / 16 * 32 + lane].a[row / 8 % 2 + k / (4 * e) * 2];
                    if constexpr (std::is_same_v<T, int32_t>) {
                        a_[row][k] = integer_of(p.a_type, word, k % e);
                    } else {
                        a_[row][k] = any_float_of(p.a_type, word, k % e);
                    }
                }
            return;
        }
        const matrix_in_shared from(p.a, p.a_across, bytes, at_);
        for (int row = 0; row < rows; ++row)
            for (int k = 0; k < stored; ++k) a_[row][k] = value_at<T>(from, p.a_type, row, k, at_);
    }

    // Puts stored elements where the metadata says.
    void spread(int stored) {
        const warpgroup_product& p = of_[0].product;
        for (int row = 0; row < rows; ++row) {
            T values[most_depth] = {};
            for (int k = 0; k < stored; ++k) {
                const metadata_place place(bits_of(p.a_type), p.selector, row % 16, k);
                const uint32_t word = of_[row / 16 * 32 + place.lane].product.metadata;
                const auto position = static_cast<int>(word >> place.shift & 3);
                const auto other = static_cast<int>(word >> (place.shift ^ 2) & 3);
                if (position == other) fail("wgmma.sp: both elements have one position", at_);
                values[k / 2 * 4 + position] = a_[row][k];
            }
            std::copy(values, values + 2 * stored, a_[row]);
        }
    }

    argument<T> of_[threads];
    site at_;
    bool done_[threads] = {}, loaded_ = false;
    int depth_ = 0;
    T a_[rows][most_depth], b_[most_columns][most_depth];
};

template <class T>
void start(void* const* arguments, site at) {
    block& b = running_block();
    const auto product = std::make_shared<operation<T>>(arguments, at);
    const copy_time when = current_settings().copies;
    if (when == copy_time::early || (when == copy_time::mixed && b.coin())) {
        b.finish_products();
        for (int thread = 0; thread < threads; ++thread) product->execute(thread);
    }
    b.add_product(product);
}

template <class T>
void multiply(const warpgroup_product& p, T* d, site at) {
    if (p.columns % 8 != 0 || p.columns < 8 || p.columns > most_columns)
        fail("wgmma: N must be a multiple of 8, at most 256", at);
    if (bits_of(p.a_type) != bits_of(p.b_type) || bits_of(p.a_type) < 8)
        fail("wgmma: these types do not meet", at);
    if (!running_block().current().fenced)
        fail("wgmma: no wgmma.fence stands before the first product", at);
    argument<T> mine{p, {}, d};
    if (p.a_registers) std::copy(p.a_registers, p.a_registers + 4, mine.a);
    running_block().warpgroup_collective(p.sparse ? "wgmma.sp" : "wgmma", &mine, start<T>, at);
}

}  // namespace

void warpgroup_multiply(const warpgroup_product& product, float* d, site at) {
    multiply(product, d, at);
}
void warpgroup_multiply(const warpgroup_product& product, int32_t* d, site at) {
    multiply(product, d, at);
}

void warpgroup_fence(site at) {
    running_block().current().fenced = true;
    collective(~0u, "wgmma.fence", nullptr, nullptr, at);
}

void warpgroup_commit(site at) {
    thread& mine = running_block().current();
    mine.product_groups.push_back(std::move(mine.open_products));
    mine.open_products.clear();
    collective(~0u, "wgmma.commit_group", nullptr, nullptr, at);
}

void warpgroup_wait(int pending, site at) {
    thread& mine = running_block().current();
    while (static_cast<int>(mine.product_groups.size()) > pending) {
        for (const auto& product : mine.product_groups.front())
            product->execute(running_block().current_number() % threads);
        mine.product_groups.erase(mine.product_groups.begin());
    }
    collective(~0u, "wgmma.wait_group", nullptr, nullptr, at);
}

}  // namespace emulated
