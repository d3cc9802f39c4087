// SPDX-License-Identifier: Apache-2.0
// How the slab kernel stores C: through slots of shared memory, one box of C each, which the copy
// engine (or the warp, where C is not aligned) moves on while the warp goes on with other work.
//
// Layout    a slot is 1024 bytes: by rows, 8 rows of 128 bytes, 16-byte unit u of row r at u ^ r;
//           by columns, 8 elements of each column, one column after another.
// Mapping   a warp fills its own slots in turn with the sums of 8 rows and 16 columns a chunk; a
//           lane has the square of two rows and two columns that columns.cuh describes.
// Bound     C's bytes. Full sectors whatever the type: pairs of 16-bit elements straight from the
//           registers would be half sectors.
#pragma once

#include "core/ops/spmm/cuda/sm90/slab_launch.hpp"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::spmm::sm90 {

// A warp's slots. Lane 0's groups of bulk copies are its boxes, one each.
class store_ring {
  public:
    __device__ explicit store_ring(uint32_t begin) : begin_(begin) {}

    // The next slot, once it has been read.
    __device__ __forceinline__ uint32_t take(int lane) {
        if (lane == 0) ptx::wait_bulk_reads<store_slots - 1>();
        __syncwarp();
        const uint32_t slot = begin_ + next_ * store_slot_bytes;
        next_ = (next_ + 1) % store_slots;
        return slot;
    }

  private:
    uint32_t begin_;
    int next_ = 0;
};

// 8 rows and the columns of a slot from there on.
struct store_box {
    int64_t batch, row, column;
};

// Moves a slot's elements to where they belong, whatever C's alignment.
template <class Storage>
__device__ __forceinline__ void copy_slot(const cuda::store_arguments& s, const store_box& box,
                                          uint32_t slot, int lane) {
    constexpr int size = sizeof(Storage), columns = store_row_bytes / size, at_once = 8;
    const bool by_rows = s.col_stride == 1;
    auto* c = static_cast<Storage*>(s.c) + box.batch * s.batch_stride + box.row * s.row_stride +
              box.column * s.col_stride;
#pragma unroll 1
    for (int first = lane; first < 8 * columns; first += 32 * at_once) {
        uint32_t elements[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int at = (first + i * 32) * size;
            elements[i] =
                ptx::load_shared<size>(slot + (by_rows ? at ^ (at / store_row_bytes * 16) : at));
        }
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int at = first + i * 32;
            const int row = by_rows ? at / columns : at % 8;
            const int column = by_rows ? at % columns : at / 8;
            if (box.row + row >= s.rows || box.column + column >= s.cols) continue;
            Storage element;
            memcpy(static_cast<void*>(&element), &elements[i], size);
            c[row * s.row_stride + column * s.col_stride] = element;
        }
    }
}

// A slot has been filled by all lanes. The copy engine writes whole units of 16 bytes, so that a
// box which ends inside one is the warp's.
template <class Storage>
__device__ __forceinline__ void send_slot(const slab_arguments& args, const CUtensorMap* map,
                                          const store_box& box, uint32_t slot, int lane) {
    constexpr int64_t a_line = store_row_bytes / sizeof(Storage);
    const bool by_rows = args.store.col_stride == 1;
    const bool whole =
        by_rows ? box.column + a_line <= args.store.cols : box.row + 8 <= args.store.rows;
    if (args.store_by == store_path::engine && whole) {
        ptx::fence_bulk_reads();
        __syncwarp();
        const auto row = static_cast<int>(box.row), column = static_cast<int>(box.column);
        if (lane == 0)
            ptx::store_tile(map, by_rows ? column : row, by_rows ? row : column,
                            static_cast<int>(box.batch), slot);
    } else {
        __syncwarp();
        copy_slot<Storage>(args.store, box, slot, lane);
    }
    if (lane == 0) ptx::commit_bulk();
}

// Two neighbours of a row or a column, aligned to their size.
template <class Storage>
__device__ __forceinline__ void put_pair(uint32_t address, Storage first, Storage second) {
    const auto bits = cuda::pair_of(first, second);
    if constexpr (sizeof(bits) == 8) {
        ptx::store_shared_v2(
            address, make_uint2(static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)));
    } else if constexpr (sizeof(bits) == 4) {
        ptx::store_shared_u32(address, bits);
    } else {
        ptx::store_shared_u16(address, bits);
    }
}

// The scales of a lane's columns: two neighbours of each chunk, from `column` on.
class column_scales {
  public:
    __device__ column_scales(const cuda::store_arguments& s, int64_t batch, int64_t column) {
        const scale_reader scales = s.b_scale.at(batch);
        by_column_ = scales.data && scales.step != 0;
        common_ = by_column_ ? 0.0f : scales[0];
        first_ = scales.data + column;
        left_ = static_cast<int>(min(s.cols - column, int64_t{1024}));
    }

    // Of chunks from one whose first column is `offset` further.
    template <int Chunks>
    __device__ __forceinline__ void read(int offset, float (&scales)[Chunks][2]) const {
#pragma unroll
        for (int i = 0; i < Chunks * 2; ++i) {
            const int at = offset + i / 2 * 16 + i % 2;
            scales[i / 2][i % 2] = common_;
            if (by_column_ && at < left_) scales[i / 2][i % 2] = first_[at];
        }
    }

  private:
    bool by_column_;
    float common_;
    const float* first_;
    int left_;  // columns of C from the first on, or enough
};

// The direct epilogue (store_arguments) of 8 rows, and all columns of a tile, from a box's first
// on. `square(c, sums)` gives the sums of chunk c.
template <class Storage, class Operands, class Sum, class Square>
__device__ __forceinline__ void stage_tile(const slab_arguments& args, const CUtensorMap* map,
                                           store_ring& ring, store_box box, Square&& square) {
    constexpr int size = sizeof(Storage), columns = store_row_bytes / size,
                  slot_chunks = columns / 16;
    constexpr int scaled_at_once = 4;  // chunks, whose scales wait for memory together
    static_assert(Operands::chunks % slot_chunks == 0 && Operands::chunks % scaled_at_once == 0);
    const cuda::store_arguments& s = args.store;
    const int lane = threadIdx.x & 31;
    const int row = lane % 4 * 2, first = Operands::first_column(lane);
    const bool by_rows = s.col_stride == 1;
    const column_scales b_scale(s, box.batch, box.column + first);
    float scale[2], bias[2], scales[scaled_at_once][2] = {};
    if constexpr (!std::is_same_v<Storage, int32_t>) {
        const float alpha = s.alpha_pointer ? *s.alpha_pointer : s.alpha;
        const scale_reader a_scale = s.a_scale.at(box.batch), summand = s.bias.at(box.batch);
#pragma unroll
        for (int a = 0; a < 2; ++a) {
            const int64_t i = min(box.row + row + a, s.rows - 1);
            scale[a] = mul_rn(alpha, a_scale[i]);
            bias[a] = fma_rn(0.0f, 0.0f, summand[i]);
        }
    }
    const int in_row = first * size;
    const int place = by_rows ? row * store_row_bytes + ((in_row / 16 ^ row) * 16) + in_row % 16
                              : (first * 8 + row) * size;
    uint32_t slot = 0;
#pragma unroll
    for (int k = 0; k < Operands::chunks; ++k) {
        if constexpr (!std::is_same_v<Storage, int32_t>) {
            if (k % scaled_at_once == 0) b_scale.read(k * 16, scales);
        }
        Sum sums[2][2];
        square(k, sums);
        Storage y[2][2];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int a = q >> 1, b = q & 1;
            if constexpr (std::is_same_v<Storage, int32_t>) {
                y[a][b] = static_cast<int32_t>(sums[a][b]);
            } else {
                y[a][b] =
                    cuda::round_to<Storage>(fma_rn(mul_rn(scale[a], scales[k % scaled_at_once][b]),
                                                   cuda::to_float(sums[a][b]), bias[a]));
            }
        }
        if (k % slot_chunks == 0) slot = ring.take(lane);
        const int chunk = k % slot_chunks * 16 * size;
        if (by_rows) {
            // Row + 1 lies 128 bytes further, its units exchanged.
            put_pair<Storage>(slot + (place ^ chunk), y[0][0], y[0][1]);
            put_pair<Storage>(slot + (place ^ chunk ^ (store_row_bytes + 16)), y[1][0], y[1][1]);
        } else {
            const uint32_t at = slot + place + chunk * 8;
            put_pair<Storage>(at, y[0][0], y[1][0]);
            put_pair<Storage>(at + 8 * size, y[0][1], y[1][1]);
        }
        if ((k + 1) % slot_chunks == 0) {
            send_slot<Storage>(args, map, box, slot, lane);
            box.column += columns;
        }
    }
}

}  // namespace magicube::spmm::sm90
