// SPDX-License-Identifier: Apache-2.0
// The inner loops of cpu_simd, one set for each level of instructions that a processor may have.
// All of them work on groups of four bytes a column: four 8-bit, two 16-bit or one 32-bit element,
// of as many slots of A or rows of B.
#pragma once

#include <cstdint>

#include "core/common/simd_level.hpp"
#include "core/ops/epilogue.hpp"
#include "core/types/view.hpp"

namespace magicube::spmm::cpu {

using magicube::limit_level;
using magicube::simd_level;
using magicube::usable_level;

// Columns of a tile of C: narrow ones where C has few columns.
constexpr int64_t wide_tile = 64;
constexpr int64_t narrow_tile = 16;
constexpr int64_t piece_cols = 4;  // packed rows of B are permuted in pieces of this many columns
constexpr int64_t segment_groups = 64;  // groups whose rows of B lie side by side in the L1 cache
constexpr int64_t longest_vector = 64;

// What a matrix register holds of A, [row][group], and of the rows of B that it meets.
constexpr int64_t matrix_rows = 16;
constexpr int64_t matrix_groups = 16;

// How operands are laid out for a product, and how their sums start.
enum class lane_kind {
    biased_bytes,  // A in [-128, 127] times B + 128; sums start at -128 * the sum of A's row
    bytes,         // A, signed or not, times B
    words,         // 16-bit integers
    floats         // all floating types are packed as fp32
};

constexpr int64_t slots_per_group(lane_kind kind) {
    return kind == lane_kind::words ? 2 : kind == lane_kind::floats ? 1 : 4;
}

constexpr int64_t lane_bytes(lane_kind kind) {
    return 4 / slots_per_group(kind);
}

struct product_kernels {
    // Which piece of a tile's columns lies at each place of a packed row of B.
    uint8_t piece_order[wide_tile / piece_cols];
    // Interleaves `slots` packed rows of B, those named by cols, into groups: panel[group][column].
    // Null for kept_floats, which read the tile of B itself.
    void (*gather)(const char* b, const int32_t* cols, int64_t slots, uint32_t* panel);
    // sums[row][column] (+)= a segment of A, which is an initial sum a row and then
    // [group][row], times a panel. `pitch` is the number of rows in the segment. `first` starts
    // sums anew.
    void (*multiply)(const uint32_t* panel, const uint32_t* segment, int64_t groups, int64_t pitch,
                     int64_t rows, bool first, uint32_t* sums);
    // Both at once, without a panel, for segments of few rows, which would hardly use it again;
    // [rows - 1], null where the registers do not hold their sums.
    void (*direct[2])(const char* b, const int32_t* cols, int64_t slots, const uint32_t* segment,
                      bool first, uint32_t* sums);
    // Packs rows of a whole tile of bytes, `step` apart. Null where bytes are packed otherwise.
    void (*copy_rows)(const char* b, int64_t step, int64_t rows, char* target) = nullptr;
    // All at once by matrix registers, for segments that hold A as those do: [matrix_rows rows]
    // [matrix_groups groups][row][group], groups that do not exist being zero, and no initial sums.
    // Where it is not null, it is the only product here, and runs on threads that have entered.
    void (*multiply_matrix)(const char* b, const int32_t* cols, int64_t slots,
                            const uint32_t* segment, int64_t pitch, bool first,
                            uint32_t* sums) = nullptr;
    void (*enter)(int64_t pitch) = nullptr;
    void (*leave)() = nullptr;
};

// A tile of C, and what follows its sums.
struct tile_output {
    epilogue finish;
    dense_view c;
    int64_t batch;
    int64_t row;
    int64_t rows;
    int64_t col;
    int64_t cols;
};

enum class tile_sum { int32, int64, fp32 };

// Writes a tile of C; sums are rows of the tile's columns.
using finish_function = void (*)(const tile_output&, const void* sums);

// For tiles of one width.
struct tile_kernels {
    int64_t cols;
    const product_kernels* signed_bytes;  // null: bytes are computed as words
    const product_kernels* unsigned_bytes;
    const product_kernels* words;
    const product_kernels* floats;
    const product_kernels* kept_floats;  // A brings two elements of each four slots; see simd_pack
    finish_function (*select_finish)(dtype c_type, tile_sum sum);
    const product_kernels* signed_matrix = nullptr;  // null: there are no matrix registers
    const product_kernels* unsigned_matrix = nullptr;
};

struct simd_kernels {
    const char* name;
    tile_kernels wide;
    tile_kernels narrow;

    // Wide tiles leave more of their columns unused, but do the used ones in fewer instructions.
    const tile_kernels& for_columns(int64_t n) const {
        return n <= 2 * narrow_tile ? narrow : wide;
    }
};

extern const simd_kernels portable_kernels;
#if defined(__x86_64__)
extern const simd_kernels avx2_kernels;
extern const simd_kernels avx512_vnni_kernels;
extern const simd_kernels amx_int8_kernels;
#endif

const simd_kernels& kernels_of(simd_level level);

}  // namespace magicube::spmm::cpu
