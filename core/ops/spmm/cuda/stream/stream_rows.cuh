// SPDX-License-Identifier: Apache-2.0
//
// Rows of B in shared memory, as the stream kernel gathers from them.
//
// Layout    `Units` units of 16 bytes a row: 16 columns of 8 bits each or 8 of 16 bits. Unit u of
//           row k lies at u ^ (k * Units / 8 % Units), so that the same unit of 8 rows that differ
//           mod 8 is found in 8 distinct groups of 4 banks. Row 0 of a segment follows `zero_rows`
//           rows of zeros. Columns from N on hold anything: they reach sums that nobody stores.
// Mapping   all threads of the CTA; reads run along what is contiguous in B. By columns, a thread
//           transposes 4 bytes of 16 columns (or 2 elements of 8) in registers.
// Alignment any of elements; rows of whole words aligned to 4 bytes go by cp.async, other rows
//           element by element.
// Architecture sm_80 and newer.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/registers.cuh"
#include "core/ops/spmm/cuda/stream/stream_launch.hpp"

namespace magicube::spmm::stream {

constexpr int cta_threads = warps * 32;

template <int Units>
__device__ __forceinline__ int unit_place(int row, int unit) {
    if constexpr (Units == 1) return row;
    return row * Units + (unit ^ (row * Units / residues % Units));
}

// Where element `column` of a row lies.
template <class Element, int Units>
__device__ __forceinline__ Element* element_of(uint8_t* rows, int row, int column) {
    constexpr int a_unit = unit_bytes / static_cast<int>(sizeof(Element));
    auto* unit = rows + unit_place<Units>(row, column / a_unit) * unit_bytes;
    return reinterpret_cast<Element*>(unit) + column % a_unit;
}

// Calls load(i) for `Batch` items at once and then store(i, loaded), for all items of the CTA.
template <int Batch, class Load, class Store>
__device__ __forceinline__ void each_item(int64_t count, Load&& load, Store&& store) {
    for (int64_t first = threadIdx.x; first < count; first += Batch * cta_threads) {
        decltype(load(first)) loaded[Batch];
#pragma unroll
        for (int i = 0; i < Batch; ++i)
            if (first + i * cta_threads < count) loaded[i] = load(first + i * cta_threads);
#pragma unroll
        for (int i = 0; i < Batch; ++i)
            if (first + i * cta_threads < count) store(first + i * cta_threads, loaded[i]);
    }
}

// A row is a whole number of vectors, all aligned to their size.
template <int VectorBytes, class Element, int Units>
__device__ __forceinline__ void start_by_rows(const b_source& b, const uint8_t* source, int count,
                                              uint8_t* rows) {
    constexpr int vector_columns = VectorBytes / static_cast<int>(sizeof(Element));
    const int a_row = b.cols / vector_columns;
    const int64_t pitch = b.row_stride * static_cast<int64_t>(sizeof(Element));
    for (int item = threadIdx.x; item < count * a_row; item += cta_threads) {
        const int row = item / a_row, part = item - row * a_row;
        ptx::copy_async<VectorBytes>(ptx::shared_address(element_of<Element, Units>(
                                         rows, row + zero_rows, part * vector_columns)),
                                     source + row * pitch + part * VectorBytes);
    }
}

// int4, rows of whole words of eight columns.
template <int Units>
__device__ __forceinline__ void load_int4_by_rows(const b_source& b, const uint8_t* source,
                                                  int count, uint8_t* rows) {
    const int a_row = b.cols / 8;
    each_item<8>(
        int64_t{count} * a_row,
        [&](int64_t item) {
            const int row = static_cast<int>(item) / a_row;
            return reinterpret_cast<const uint32_t*>(
                source + row * (b.row_stride / 2))[static_cast<int>(item) - row * a_row];
        },
        [&](int64_t item, uint32_t packed) {
            const int row = static_cast<int>(item) / a_row;
            const int part = static_cast<int>(item) - row * a_row;
            *reinterpret_cast<uint2*>(element_of<uint8_t, Units>(rows, row + zero_rows, part * 8)) =
                cuda::unpack_int4(packed);
        });
}

// The units of 4 / sizeof(Element) rows from a word of each of a unit's columns.
template <class Element>
__device__ __forceinline__ void transpose_unit(
    const uint32_t (&words)[unit_bytes / sizeof(Element)],
    uint32_t (&units)[4 / sizeof(Element)][4]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        if constexpr (sizeof(Element) == 1) {
            const uint32_t four[4] = {words[4 * q], words[4 * q + 1], words[4 * q + 2],
                                      words[4 * q + 3]};
            uint32_t rows[4];
            cuda::transpose_bytes(four, rows);
#pragma unroll
            for (int r = 0; r < 4; ++r) units[r][q] = rows[r];
        } else {
            units[0][q] = __byte_perm(words[2 * q], words[2 * q + 1], 0x5410);
            units[1][q] = __byte_perm(words[2 * q], words[2 * q + 1], 0x7632);
        }
    }
}

// Moves the units of rows i to places (i - by) % count, so that no index is dynamic.
template <int Count>
__device__ __forceinline__ void rotate(uint32_t (&units)[Count][4], int by) {
#pragma unroll
    for (int step = 1; step < Count; step *= 2) {
        if (!(by & step)) continue;
        uint32_t moved[Count][4];
#pragma unroll
        for (int r = 0; r < Count; ++r)
#pragma unroll
            for (int q = 0; q < 4; ++q) moved[r][q] = units[(r + step) % Count][q];
#pragma unroll
        for (int r = 0; r < Count; ++r)
#pragma unroll
            for (int q = 0; q < 4; ++q) units[r][q] = moved[r][q];
    }
}

// B's columns are contiguous and aligned to 4 bytes. A word of int4 has eight rows, the even ones
// and the odd ones in turn.
template <class Element, int Units, bool Int4>
__device__ __forceinline__ void load_by_columns(const b_source& b, const uint8_t* source, int count,
                                                uint8_t* rows) {
    constexpr int at_once = 4 / static_cast<int>(sizeof(Element));
    constexpr int turns = Int4 ? 2 : 1;
    constexpr int a_word = at_once * turns;
    constexpr int a_unit = unit_bytes / static_cast<int>(sizeof(Element));
    const int64_t pitch = b.col_stride * static_cast<int64_t>(sizeof(Element)) / turns;
    const int words = count / a_word;
    const int used = (b.cols + a_unit - 1) / a_unit;
    for (int item = threadIdx.x; item < words * used; item += cta_threads) {
        const int unit = item / words, word = item - unit * words;
        uint32_t loaded[a_unit];
#pragma unroll
        for (int j = 0; j < a_unit; ++j) {
            const int column = min(unit * a_unit + j, b.cols - 1);
            loaded[j] = *reinterpret_cast<const uint32_t*>(source + column * pitch + word * 4);
        }
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            uint32_t units[at_once][4];
            if constexpr (Int4) {
                uint32_t unpacked[a_unit];
#pragma unroll
                for (int j = 0; j < a_unit; ++j)
                    unpacked[j] = cuda::unpack_int4(loaded[j], turn == 1);
                transpose_unit<Element>(unpacked, units);
            } else {
                transpose_unit<Element>(loaded, units);
            }
            // Neighbouring lanes start at different rows, so that they write to distinct banks.
            const int by = (threadIdx.x & 7) / (residues / at_once);
            rotate(units, by);
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int row = word * a_word + ((i + by) & (at_once - 1)) * turns + turn;
                *reinterpret_cast<uint4*>(rows +
                                          unit_place<Units>(row + zero_rows, unit) * unit_bytes) =
                    make_uint4(units[i][0], units[i][1], units[i][2], units[i][3]);
            }
        }
    }
    // The rows after the last whole word.
    const int rest = count - words * a_word;
    for (int item = threadIdx.x; item < rest * b.cols; item += cta_threads) {
        const int column = item / rest, row = words * a_word + item - column * rest;
        const uint8_t* line = source + column * pitch;
        *element_of<Element, Units>(rows, row + zero_rows, column) =
            Int4 ? static_cast<Element>(load_int4(line, row))
                 : reinterpret_cast<const Element*>(line)[row];
    }
}

// Any strides, int4 too.
template <class Element, int Units>
__device__ __forceinline__ void load_by_elements(const b_source& b, int64_t first, int count,
                                                 uint8_t* rows) {
    const bool by_rows = b.col_stride == 1;
    const int inner = by_rows ? b.cols : count;
    const auto place = [&](int64_t item, int& row, int& column) {
        const int outer = static_cast<int>(item) / inner;
        const int within = static_cast<int>(item) - outer * inner;
        row = by_rows ? outer : within;
        column = by_rows ? within : outer;
    };
    each_item<8>(
        int64_t{count} * b.cols,
        [&](int64_t item) {
            int row, column;
            place(item, row, column);
            const int64_t at = first + row * b.row_stride + column * b.col_stride;
            if constexpr (sizeof(Element) == 1) {
                if (b.int4) return static_cast<Element>(load_int4(b.data, at));
            }
            return reinterpret_cast<const Element*>(b.data)[at];
        },
        [&](int64_t item, Element loaded) {
            int row, column;
            place(item, row, column);
            *element_of<Element, Units>(rows, row + zero_rows, column) = loaded;
        });
}

// Rows [first, first + count) of a panel of B's columns, in a matrix of the batch, on their way to
// shared memory.
template <class Element, int Units>
struct row_copy {
    static constexpr int panel_columns = Units * unit_bytes / static_cast<int>(sizeof(Element));
    b_source b;     // its columns are the panel's
    int64_t first;  // element
    int count;
    uint8_t* rows;

    __device__ row_copy(const b_source& source, int64_t batch, int panel, int segment,
                        int segment_rows, uint8_t* target)
        : b(source), rows(target) {
        const int column = panel * panel_columns;
        b.cols = min(panel_columns, b.cols - column);
        const int64_t row = int64_t{segment} * segment_rows;
        first = batch * b.batch_stride + row * b.row_stride + column * b.col_stride;
        count = static_cast<int>(min(int64_t{segment_rows}, b.rows - row));
    }
    __device__ const uint8_t* source() const {
        if (b.int4) return b.data + first / 2;
        return b.data + first * static_cast<int64_t>(sizeof(Element));
    }

    // Copies that need no register are under way after this, as one group.
    __device__ __forceinline__ void start() const {
        if (b.path == b_path::rows && !b.int4) {
            if (b.vector_bytes == 16) {
                start_by_rows<16, Element, Units>(b, source(), count, rows);
            } else if (b.vector_bytes == 8) {
                start_by_rows<8, Element, Units>(b, source(), count, rows);
            } else {
                start_by_rows<4, Element, Units>(b, source(), count, rows);
            }
        }
        ptx::commit_copies();
    }
    // All of this thread's are done after this.
    __device__ __forceinline__ void finish() const {
        if (b.path == b_path::elements) {
            load_by_elements<Element, Units>(b, first, count, rows);
        } else if (b.int4) {
            if constexpr (sizeof(Element) == 1) {
                if (b.path == b_path::columns) {
                    load_by_columns<Element, Units, true>(b, source(), count, rows);
                } else {
                    load_int4_by_rows<Units>(b, source(), count, rows);
                }
            }
        } else if (b.path == b_path::columns) {
            load_by_columns<Element, Units, false>(b, source(), count, rows);
        }
        ptx::wait_copies<0>();
    }
};

}  // namespace magicube::spmm::stream
