// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cpu/simd_pack.hpp"

#include <algorithm>
#include <type_traits>

#include "core/ops/unpack.hpp"

namespace magicube::spmm::cpu {
namespace {

// Below these, matrix registers would hold more zeros than A's values.
constexpr int64_t shortest_matrix_vector = 4;
constexpr int64_t least_matrix_slots = 32;  // of a block row, on average

// The bits of an element of A in its group.
template <dtype A>
uint32_t lane_bits(typename element<A>::value value, lane_kind kind) {
    if constexpr (is_floating(A)) {
        return bits_of(value);
    } else {
        return static_cast<uint32_t>(value) & (kind == lane_kind::words ? 0xffffU : 0xffU);
    }
}

// Where the groups of a segment lie.
struct segment_layout {
    int64_t v_count;
    bool matrix;
    int64_t blocks;  // of matrix_groups groups

    int64_t unit(int64_t group, int64_t v) const {
        if (!matrix) return v_count + group * v_count + v;
        const int64_t height = std::min(v_count, matrix_rows);
        const int64_t block = v / height * blocks + group / matrix_groups;
        return (block * height + v % height) * matrix_groups + group % matrix_groups;
    }
};

template <dtype A>
void pack_segment(const sr_bcrs_view& a, int64_t matrix, int64_t begin, int64_t end,
                  const packing& how, uint32_t* target) {
    const int64_t group_slots = slots_per_group(how.kind);
    const int64_t v_count = a.vector_length;
    const segment_layout layout{v_count, how.matrix,
                                ceil_div(end - begin, group_slots * matrix_groups)};
    uint32_t row_sums[longest_vector] = {};
    std::fill_n(target, packed_block_row_units(v_count, end - begin, how), 0U);
    for (int64_t slot = begin; slot < end; ++slot) {
        const int64_t group = (slot - begin) / group_slots;
        const int64_t first = a.value_index(matrix, slot, 0);
        const auto shift =
            static_cast<unsigned>((slot - begin) % group_slots * 8 * lane_bytes(how.kind));
        for (int64_t v = 0; v < v_count; ++v) {
            if (!a.exists(slot, v)) continue;
            const auto value = element<A>::load(a.values, first + v * a.stride);
            target[layout.unit(group, v)] |= lane_bits<A>(value, how.kind) << shift;
            if constexpr (is_integer(A)) row_sums[v] += static_cast<uint32_t>(value);
        }
    }
    if (how.kind != lane_kind::biased_bytes) return;
    for (int64_t v = 0; v < v_count; ++v) target[v] = 0U - 128 * row_sums[v];
}

// Each row's elements, and zeros up to half of the slots.
template <dtype A>
void pack_kept(const sr_bcrs_view& a, int64_t matrix, int64_t begin, int64_t end,
               uint32_t* target) {
    const int64_t v_count = a.vector_length;
    std::fill_n(target, v_count, 0U);
    uint32_t* unit = target + v_count;
    for (int64_t v = 0; v < v_count; ++v) {
        const uint32_t* const row_end = unit + (end - begin);
        for (int64_t slot = begin; slot < end && unit != row_end; ++slot) {
            if (!a.exists(slot, v)) continue;
            const auto value = element<A>::load(a.values, a.value_index(matrix, slot, v));
            *unit++ = lane_bits<A>(value, lane_kind::floats);
            *unit++ = static_cast<uint32_t>(a.col_indices[slot]);
        }
        while (unit != row_end) {
            *unit++ = 0;
            *unit++ = static_cast<uint32_t>(a.col_indices[begin]);
        }
    }
}

template <dtype A>
void pack_block_row(const sr_bcrs_view& a, int64_t matrix, int64_t index, const packing& how,
                    uint32_t* target) {
    const int64_t end = a.row_end[index];
    for (int64_t slot = a.row_begin[index]; slot < end; slot += how.segment_slots()) {
        const int64_t last = std::min(slot + how.segment_slots(), end);
        if (how.kept) {
            pack_kept<A>(a, matrix, slot, last, target);
        } else {
            pack_segment<A>(a, matrix, slot, last, how, target);
        }
        target += packed_block_row_units(a.vector_length, last - slot, how);
    }
}

enum class encoding { biased, low_byte, word, high_plane, low_plane, number };

// An element of B as it is packed.
template <encoding E, class Value>
auto encode(Value x) {
    if constexpr (E == encoding::number) {
        return static_cast<float>(x);
    } else if constexpr (E == encoding::biased) {
        return static_cast<uint8_t>(x + 128);
    } else if constexpr (E == encoding::low_byte) {
        return static_cast<uint8_t>(x & 0xff);
    } else if constexpr (E == encoding::high_plane) {
        return static_cast<int16_t>((x + 128) >> 8);
    } else if constexpr (E == encoding::low_plane) {
        return static_cast<int16_t>(((x + 128) & 0xff) - 128);
    } else {
        return static_cast<int16_t>(x);
    }
}

// Rows [first, last) of a tile of one plane.
struct tile_rows {
    const dense_view& b;
    const uint8_t* piece_order;
    int64_t tile_cols;
    int64_t matrix;
    int64_t col;
    int64_t first;
    int64_t last;
};

// Of a row-major B. A piece of int4 starts on a byte.
template <dtype B, encoding E, class Packed>
void pack_whole_pieces(const tile_rows& rows, int64_t col, Packed* target) {
    const auto* values = static_cast<const char*>(rows.b.values);
    for (int64_t r = rows.first; r < rows.last; ++r) {
        const void* piece = values + storage_bytes(B, rows.b.index(rows.matrix, r, col));
        for (int64_t j = 0; j < piece_cols; ++j)
            target[r * rows.tile_cols + j] = encode<E>(element<B>::load(piece, j));
    }
}

template <dtype B, encoding E>
void pack_rows(const tile_rows& rows, char* plane) {
    using packed = decltype(encode<E>(typename element<B>::value{}));
    auto* target = reinterpret_cast<packed*>(plane);
    const auto& b = rows.b;
    const bool row_major = b.storage == order::row;
    const int64_t tile_cols = rows.tile_cols;
    if (b.cols - rows.col < tile_cols)
        std::fill(target + rows.first * tile_cols, target + rows.last * tile_cols, encode<E>(0));
    for (int64_t piece = 0; piece < tile_cols / piece_cols; ++piece) {
        const int64_t col = rows.col + rows.piece_order[piece] * piece_cols;
        packed* at = target + piece * piece_cols;
        const int64_t count = std::clamp<int64_t>(b.cols - col, 0, piece_cols);
        if (row_major && count == piece_cols) {
            pack_whole_pieces<B, E>(rows, col, at);
            continue;
        }
        for (int64_t j = 0; j < count; ++j) {
            const int64_t start = b.index(rows.matrix, 0, col + j);
            const int64_t step = row_major ? b.ld : 1;
            for (int64_t r = rows.first; r < rows.last; ++r)
                at[r * tile_cols + j] = encode<E>(element<B>::load(b.values, start + r * step));
        }
    }
}

// Whether whole rows of bytes lie side by side, and there is a kernel for them.
bool copies_rows(const tile_rows& rows, const packing& how) {
    return how.kernels->copy_rows && rows.b.storage == order::row &&
           rows.b.cols - rows.col >= rows.tile_cols;
}

template <dtype B>
void pack_planes(const tile_rows& rows, const packing& how, char* tile) {
    if constexpr (is_floating(B)) {
        pack_rows<B, encoding::number>(rows, tile);
    } else if constexpr (B == dtype::int16) {
        pack_rows<B, encoding::high_plane>(rows, tile);
        pack_rows<B, encoding::low_plane>(rows, tile + rows.b.rows * how.row_bytes());
    } else if (B == dtype::int8 && copies_rows(rows, how)) {
        const auto* first = static_cast<const char*>(rows.b.values) +
                            rows.b.index(rows.matrix, rows.first, rows.col);
        how.kernels->copy_rows(first, rows.b.ld, rows.last - rows.first,
                               tile + rows.first * how.row_bytes());
    } else if (how.kind == lane_kind::words) {
        pack_rows<B, encoding::word>(rows, tile);
    } else if (how.kind == lane_kind::biased_bytes) {
        pack_rows<B, encoding::biased>(rows, tile);
    } else {
        pack_rows<B, encoding::low_byte>(rows, tile);
    }
}

template <class Visitor>
void visit_b(dtype type, const Visitor& visitor) {
    switch (type) {
        case dtype::int4:
            return visitor(type_constant<dtype::int4>{});
        case dtype::int8:
            return visitor(type_constant<dtype::int8>{});
        case dtype::int16:
            return visitor(type_constant<dtype::int16>{});
        case dtype::fp32:
            return visitor(type_constant<dtype::fp32>{});
        case dtype::fp16:
            return visitor(type_constant<dtype::fp16>{});
        case dtype::bf16:
            return visitor(type_constant<dtype::bf16>{});
        case dtype::e4m3:
            return visitor(type_constant<dtype::e4m3>{});
        default:
            fail(status::internal_error, "cpu_simd: no B is ", name_of(type));
    }
}

}  // namespace

packing packing_for(const tile_kernels& kernels, const sr_bcrs_view& a, dtype b, bool two_of_four) {
    const dtype lhs = a.type, rhs = b;
    const int64_t cols = kernels.cols;
    if (is_floating(lhs) && two_of_four)
        return {lane_kind::floats, 1, kernels.kept_floats, cols, true};
    if (is_floating(lhs)) return {lane_kind::floats, 1, kernels.floats, cols};
    const bool bytes = lhs == dtype::uint8 || lhs == dtype::int8 || lhs == dtype::int4;
    const bool fills_registers =
        a.vector_length >= shortest_matrix_vector && a.slots >= least_matrix_slots * a.block_rows();
    const auto* matrix = lhs == dtype::uint8 ? kernels.unsigned_matrix : kernels.signed_matrix;
    if (bytes && matrix && fills_registers) return {lane_kind::bytes, 1, matrix, cols, false, true};
    if (bytes && lhs == dtype::uint8 && kernels.unsigned_bytes)
        return {lane_kind::bytes, 1, kernels.unsigned_bytes, cols};
    if (bytes && lhs != dtype::uint8 && kernels.signed_bytes)
        return {lane_kind::biased_bytes, 1, kernels.signed_bytes, cols};
    return {lane_kind::words, rhs == dtype::int16 ? 2 : 1, kernels.words, cols};
}

int64_t packed_block_row_units(int64_t vector_length, int64_t slots, const packing& how) {
    if (how.matrix)
        return ceil_div(slots, slots_per_group(how.kind) * matrix_groups) * matrix_groups *
               vector_length;
    return (ceil_div(slots, slots_per_group(how.kind)) + ceil_div(slots, how.segment_slots())) *
           vector_length;
}

int64_t packed_a_units(const sr_bcrs_view& a, const packing& how) {
    // Each block row begins at most one group and one segment that it does not fill.
    const int64_t block_rows = checked_mul(a.block_rows(), a.different_patterns ? a.batch_count : 1,
                                           "problem's block rows");
    const int64_t unfilled = how.matrix ? matrix_groups : 2;
    const int64_t full = a.slots / slots_per_group(how.kind) + a.slots / how.segment_slots();
    return checked_mul(checked_add(full, checked_mul(unfilled, block_rows, "problem's block rows"),
                                   "problem's packed slots"),
                       a.vector_length, "problem's packed values");
}

void pack_a(const context& ctx, const sr_bcrs_view& a, const packing& how, const int64_t* starts,
            int64_t arrays, int64_t array_units, uint32_t* target) {
    const int64_t rows = a.block_rows() * (a.different_patterns ? a.batch_count : 1);
    const int64_t row_values = a.value_count() / std::max<int64_t>(rows, 1);
    visit(a.type, [&](auto type) {
        constexpr dtype A = decltype(type)::value;
        const auto body = [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t array = task / rows, index = task % rows;
                pack_block_row<A>(a, array, index, how,
                                  target + array * array_units + starts[index]);
            }
        };
        if constexpr (A != dtype::int32) ctx.parallel(arrays * rows, grain_for(row_values), body);
    });
}

void pack_b(const context& ctx, const dense_view& b, const packing& how, const tile_range& range,
            char* target) {
    constexpr int64_t rows_per_task = 64;  // a column-major B is read in runs
    const int64_t parts = ceil_div(b.rows, rows_per_task);
    const int64_t tile_bytes = b.rows * how.row_bytes() * how.planes;
    visit_b(b.type, [&](auto type) {
        ctx.parallel(range.count * parts, 4, [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t tile = range.first + task / parts;
                const int64_t first = task % parts * rows_per_task;
                const tile_rows rows{b,
                                     how.kernels->piece_order,
                                     how.tile_cols,
                                     tile / range.tiles,
                                     tile % range.tiles * how.tile_cols,
                                     first,
                                     std::min(first + rows_per_task, b.rows)};
                pack_planes<decltype(type)::value>(rows, how, target + task / parts * tile_bytes);
            }
        });
    });
}

}  // namespace magicube::spmm::cpu
