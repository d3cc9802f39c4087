// SPDX-License-Identifier: Apache-2.0
//
// SpMM of V:N:M on Sparse Tensor Cores: each tile gathers the rows of B that its block row selects.
//
// Computes  C = epilogue(A * B), A packed as select_format.hpp says, types of 8 or 16 bits.
// Layout    a stage of shared memory holds a unit: 64 rows of B, swizzled (select_operands.cuh),
//           the values and the metadata of the tile. At the end the stages hold the tile's sums.
// Mapping   blockIdx: row tile, column tile, matrix. 8 warps, each `warp_rows` rows by 32 columns:
//           two rows of four warps for tiles of 128 rows, one row of eight otherwise. Of narrow
//           tiles, for few columns, whose time is that of reading A, each warp has 16 rows. All
//           threads copy a stage, 16 bytes at a time, all stages but those of a turn ahead of the
//           products.
// Shared    stages * stage_bytes, at most 110 KB, so that two CTAs share a multiprocessor.
// Architecture sm_80 and newer (e4m3: sm_89). Rows of B aligned to 16 bytes.
// Bound     the bytes of the selected rows from L2 (37 a clock and multiprocessor on the H200),
//           or sparse MMAs (2000 multiply-adds a clock for fp16, as if the 4 columns were dense).
// Source    V:N:M and the selection of columns: VENOM, arXiv 2310.02065.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/spmm/cuda/store.cuh"
#include "core/ops/vnm_mm/cuda/sm80/select_launch.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_operands.cuh"

namespace magicube::vnm_mm::sm80 {

constexpr int cta_warps = 8;
constexpr int cta_threads = cta_warps * 32;
constexpr int most_shared_bytes = 110 * 1024;

template <class Operands, int TileRows, bool Narrow>
struct select_traits {
    static constexpr int element_bytes = Operands::element_bytes;
    static constexpr int warps_down = Narrow ? TileRows / mma_rows : TileRows == 128 ? 2 : 1;
    static constexpr int warp_rows = TileRows / warps_down;
    static constexpr int row_sets = warp_rows / mma_rows;  // of a warp
    static constexpr int tile_columns = cta_warps / warps_down * warp_columns;
    static constexpr int pitch = tile_columns * element_bytes;
    static constexpr int b_bytes = unit_rows * pitch;
    static constexpr int values_bytes = TileRows / mma_rows * value_bytes(element_bytes);
    static constexpr int stage_metadata_bytes = TileRows / mma_rows * metadata_bytes;
    static constexpr int stage_bytes = b_bytes + values_bytes + stage_metadata_bytes;
    static constexpr int fitting = most_shared_bytes / stage_bytes;
    // Of wide tiles six are enough, as measured; narrow ones wait for memory.
    static constexpr int most_stages = Narrow ? 8 : 6;
    static constexpr int stages = fitting < most_stages ? fitting : most_stages;
    // Units between two barriers.
    static constexpr int units_a_turn = Narrow ? 2 : 1;
    static_assert(stages % units_a_turn == 0);
    // Of the tile's sums, with a gap that keeps the pairs of 4 rows in distinct banks.
    static constexpr int sum_pitch = tile_columns + 8;
    static constexpr int sum_bytes = TileRows * sum_pitch * 4;
    static constexpr int shared_bytes =
        stages * stage_bytes > sum_bytes ? stages* stage_bytes : sum_bytes;
};

// Copies units of one tile into stages, the numbers of B's rows a unit ahead.
template <class Traits>
class unit_copier {
  public:
    explicit __device__ unit_copier(const select_arguments& args) : args_(args) {
        const int64_t tile = blockIdx.x;
        const int64_t units = tile * args.units;
        values_ = args.values + blockIdx.z * args.values_apart + units * Traits::values_bytes;
        metadata_ = args.metadata + units * Traits::stage_metadata_bytes;
        columns_ = args.columns + tile / args.tiles_a_block * args.units * unit_rows + first_row();
        const int64_t column = int64_t{blockIdx.y} * Traits::pitch + chunk() * 16;
        b_ = args.b + blockIdx.z * args.b_apart + column;
        const int64_t left = args.b_columns * Traits::element_bytes - column;
        bytes_ = static_cast<int>(max(int64_t{0}, min(left, int64_t{16})));
#pragma unroll
        for (int slot = 0; slot < Traits::units_a_turn; ++slot) read_columns(slot, slot);
    }

    // Starts the copies of the next unit, as one group; of nothing past the last. Units take turns
    // in the slots for the numbers of their rows.
    __device__ __forceinline__ void start(uint32_t stage, int slot) {
        if (next_ < args_.units) {
#pragma unroll
            for (int i = 0; i < rows_a_thread; ++i) {
                if (!copies_rows()) break;
                const int row = first_row() + i * rows_at_once;
                const bool empty = rows_[slot][i] < 0 || bytes_ == 0;
                ptx::copy_async16(chunk_address<Traits::pitch>(stage, row, chunk()),
                                  empty ? args_.b : b_ + rows_[slot][i] * args_.b_pitch,
                                  empty ? 0 : bytes_);
            }
            copy<Traits::values_bytes>(stage + Traits::b_bytes, values_);
            copy<Traits::stage_metadata_bytes>(stage + Traits::b_bytes + Traits::values_bytes,
                                               metadata_);
            values_ += Traits::values_bytes;
            metadata_ += Traits::stage_metadata_bytes;
            read_columns(next_ + Traits::units_a_turn, slot);
            ++next_;
        }
        ptx::commit_copies();
    }

  private:
    static constexpr int chunks = Traits::pitch / 16;
    static constexpr int rows_at_once =
        cta_threads / chunks < unit_rows ? cta_threads / chunks : unit_rows;
    static constexpr int rows_a_thread = unit_rows / rows_at_once;

    __device__ static int chunk() {
        return threadIdx.x % chunks;
    }
    __device__ static int first_row() {
        return threadIdx.x / chunks;
    }

    // Of narrow tiles of bytes not all threads do.
    __device__ static bool copies_rows() {
        return rows_at_once * chunks == cta_threads || first_row() < unit_rows;
    }

    __device__ __forceinline__ void read_columns(int unit, int slot) {
        if (unit >= args_.units || !copies_rows()) return;
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i)
            rows_[slot][i] = columns_[unit * unit_rows + i * rows_at_once];
    }

    template <int Bytes>
    __device__ static void copy(uint32_t target, const uint8_t* source) {
#pragma unroll
        for (int i = 0; i < Bytes; i += cta_threads * 16) {
            const int at = i + static_cast<int>(threadIdx.x) * 16;
            if (at < Bytes) ptx::copy_async16(target + at, source + at, 16);
        }
    }

    const select_arguments& args_;
    const uint8_t* values_;
    const uint8_t* metadata_;
    const int32_t* columns_;
    const uint8_t* b_;
    int bytes_;  // of this thread's chunk that lie in B
    int next_ = 0;
    int64_t rows_[Traits::units_a_turn][rows_a_thread];
};

template <class Operands, class Traits>
using sums_of = typename Operands::sum[Traits::row_sets][Operands::squares][4];

// The products of a unit, of which the tile's rows from `row` on and columns from `column` on are
// the warp's.
template <class Operands, class Traits, int Step = 0>
__device__ __forceinline__ void multiply_unit(sums_of<Operands, Traits>& acc, uint32_t stage,
                                              int row, int column, int lane) {
    uint32_t b[Operands::squares][4];
    Operands::template load<Traits::pitch>(b, stage, Step, column, lane);
    const int set = row / mma_rows;
    const uint32_t values = stage + Traits::b_bytes + set * value_bytes(Traits::element_bytes);
    const uint32_t metadata =
        stage + Traits::b_bytes + Traits::values_bytes + set * metadata_bytes + lane * 4;
#pragma unroll
    for (int m = 0; m < Traits::row_sets; ++m) {
        uint32_t a[4];
        Operands::load_values(a, values + m * value_bytes(Traits::element_bytes), Step, lane);
        const uint32_t positions = ptx::load_shared_u32(metadata + m * metadata_bytes);
#pragma unroll
        for (int s = 0; s < Operands::squares; ++s)
            Operands::template multiply<Step>(acc[m][s], a, b[s], positions);
    }
    if constexpr (Step + 1 < Operands::steps)
        multiply_unit<Operands, Traits, Step + 1>(acc, stage, row, column, lane);
}

// Lanes lie along C's columns if its rows are contiguous, along its rows otherwise.
template <class Storage, class Traits, int TileRows, class Sum>
__device__ __forceinline__ void store_as(const spmm::cuda::store_arguments& s, const Sum* sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t first_row = int64_t{blockIdx.x} * TileRows;
    const int64_t first_column = int64_t{blockIdx.y} * Traits::tile_columns;
    const auto store = [&](auto chunks, auto apart, int row, int column) {
        if (first_row + row >= s.rows) return;
        constexpr int step = decltype(apart)::value;
        spmm::cuda::store_squares<Storage, decltype(chunks)::value, step, Sum>(
            s, blockIdx.z, first_row + row, first_column + column, [&](int k, Sum(&square)[2][2]) {
                const Sum* from = sums + row * Traits::sum_pitch + column + k * step;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    square[i / 2][i % 2] = from[i / 2 * Traits::sum_pitch + i % 2];
            });
    };
    using std::integral_constant;
    if (s.col_stride == 1) {
        constexpr int lanes = Traits::tile_columns < 64 ? Traits::tile_columns / 2 : 32;  // a row
        constexpr int step = lanes * 2;
        for (int row = (warp * 32 + lane) / lanes * 2; row < TileRows;
             row += cta_threads / lanes * 2)
            store(integral_constant<int, Traits::tile_columns / step>{},
                  integral_constant<int, step>{}, row, lane % lanes * 2);
    } else {
        // 16 pairs of rows by 2 pairs of columns.
        for (int block = warp; block < TileRows / 32 * (Traits::tile_columns / 16);
             block += cta_warps)
            store(integral_constant<int, 4>{}, integral_constant<int, 4>{},
                  block % (TileRows / 32) * 32 + lane % 16 * 2,
                  block / (TileRows / 32) * 16 + lane / 16 * 2);
    }
}

template <class Traits, int TileRows, class Sum>
__device__ __forceinline__ void store_sums(const spmm::cuda::store_arguments& s, const Sum* sums) {
    switch (s.type) {
        case dtype::int32:
            if constexpr (std::is_same_v<Sum, int32_t>)
                store_as<int32_t, Traits, TileRows>(s, sums);
            break;
        case dtype::fp16:
            store_as<half, Traits, TileRows>(s, sums);
            break;
        case dtype::bf16:
            store_as<bfloat16, Traits, TileRows>(s, sums);
            break;
        case dtype::int8:
            store_as<int8_t, Traits, TileRows>(s, sums);
            break;
        default:
            store_as<float, Traits, TileRows>(s, sums);
            break;
    }
}

template <class Operands, int TileRows, bool Narrow>
__global__ void __launch_bounds__(cta_threads, 2)
    select_kernel(const __grid_constant__ select_arguments args) {
    using traits = select_traits<Operands, TileRows, Narrow>;
    using sum = typename Operands::sum;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 128);
    const uint32_t first_stage = ptx::shared_address(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp % traits::warps_down * traits::warp_rows;
    const int column = warp / traits::warps_down * warp_columns;

    unit_copier<traits> copier(args);
    constexpr int turn = traits::units_a_turn, ahead = traits::stages - turn;
#pragma unroll
    for (int i = 0; i < ahead; ++i) copier.start(first_stage + i * traits::stage_bytes, i % turn);
    sums_of<Operands, traits> acc = {};
    int read = 0, write = ahead;
    const auto advance = [](int stage) { return stage + 1 == traits::stages ? 0 : stage + 1; };
    for (int unit = 0; unit < args.units; unit += turn) {
        ptx::wait_copies<ahead - turn>();
        __syncthreads();  // the units are there, and all have left the stages before them
#pragma unroll
        for (int i = 0; i < turn; ++i, write = advance(write))
            copier.start(first_stage + write * traits::stage_bytes, i);
#pragma unroll
        for (int i = 0; i < turn; ++i, read = advance(read))
            if (i == 0 || unit + i < args.units)
                multiply_unit<Operands, traits>(acc, first_stage + read * traits::stage_bytes, row,
                                                column, lane);
    }
    ptx::wait_copies<0>();
    __syncthreads();
    auto* sums = reinterpret_cast<sum*>(shared);
#pragma unroll
    for (int m = 0; m < traits::row_sets; ++m)
        Operands::each_pair(acc[m], lane, [&](int i, int j, sum x0, sum x1) {
            sum* target = sums + (row + m * mma_rows + i) * traits::sum_pitch + column + j;
            target[0] = x0;
            target[1] = x1;
        });
    __syncthreads();
    store_sums<traits, TileRows>(args.store, sums);
}

template <class Operands, int TileRows, bool Narrow>
select_info load_select() {
    const auto kernel = select_kernel<Operands, TileRows, Narrow>;
    cudaFuncAttributes attributes{};
    select_info info{};
    info.code = cudaFuncGetAttributes(&attributes, kernel);
    if (info.code == cudaSuccess)
        info.code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         select_traits<Operands, TileRows, Narrow>::shared_bytes);
    // Code that the driver made from PTX has what that PTX was compiled for.
    info.architecture = attributes.ptxVersion;
    return info;
}

template <class Operands, int TileRows, bool Narrow>
cudaError_t launch_select(const select_arguments& args, dim3 grid, cudaStream_t stream) {
    return magicube::cuda::launch_kernel(
        select_kernel<Operands, TileRows, Narrow>,
        {grid, cta_threads, select_traits<Operands, TileRows, Narrow>::shared_bytes, stream}, args);
}

#define MAGICUBE_DEFINE_SELECT(KIND, ROWS, NAME, NARROW)            \
    const select_instance NAME##_##KIND##_##ROWS = {                \
        #KIND,                                                      \
        ROWS,                                                       \
        select_traits<KIND##_operands, ROWS, NARROW>::tile_columns, \
        KIND##_operands::element_bytes,                             \
        NARROW,                                                     \
        load_select<KIND##_operands, ROWS, NARROW>,                 \
        launch_select<KIND##_operands, ROWS, NARROW>};
#define MAGICUBE_DEFINE_SELECTS(KIND)                     \
    MAGICUBE_DEFINE_SELECT(KIND, 32, select, false)       \
    MAGICUBE_DEFINE_SELECT(KIND, 64, select, false)       \
    MAGICUBE_DEFINE_SELECT(KIND, 128, select, false)      \
    MAGICUBE_DEFINE_SELECT(KIND, 32, select_narrow, true) \
    MAGICUBE_DEFINE_SELECT(KIND, 64, select_narrow, true) \
    MAGICUBE_DEFINE_SELECT(KIND, 128, select_narrow, true)

}  // namespace magicube::vnm_mm::sm80
