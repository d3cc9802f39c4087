// SPDX-License-Identifier: Apache-2.0
#include "bound.hpp"

#include <algorithm>

namespace bench {
namespace {

// Planes of 8 bits that a kernel splits an integer into.
int planes_of(magicubeDataType_t type) {
    return type == MAGICUBE_INT16 || type == MAGICUBE_INT12 ? 2 : 1;
}

// Multiply-adds a clock and multiprocessor, measured on an H200 from registers alone.
double products_a_clock(const spmm_case& c) {
    constexpr double mma_int8 = 2400, wgmma_int8 = 3570, mma_fp16 = 1190, mma_e4m3 = 3360,
                     fma_fp32 = 128, sparse_wgmma_fp16 = 4080, sparse_mma_int8 = 3605;
    if (c.is_vnm()) return bytes_of(c.lhs, 1) == 2 ? sparse_wgmma_fp16 : sparse_mma_int8;
    switch (c.lhs) {
        case MAGICUBE_FP32:
            return fma_fp32;
        case MAGICUBE_FP16:
        case MAGICUBE_BF16:
            return mma_fp16;
        case MAGICUBE_E4M3:
            return mma_e4m3;
        default:
            return c.vector_length >= 32 ? wgmma_int8 : mma_int8;
    }
}

}  // namespace

work count_work(const session& s, const spmm_case& c, const sparse_data& a, bool cold) {
    const auto n = static_cast<double>(c.n);
    const double gathers = a.gathers(), block_rows = static_cast<double>(a.block_row_count());
    work w{};
    w.nonzeros =
        a.elements_a_row() * (c.is_vnm() ? static_cast<double>(c.m) : block_rows * c.vector_length);
    w.operations = 2 * w.nonzeros * n;
    w.dense_operations = 2 * static_cast<double>(c.m) * static_cast<double>(c.k) * n;
    w.shared_memory_bytes =
        c.is_vnm() ? 0 : gathers * n * std::max(8, magicubeGetDataTypeBits(c.rhs)) / 8;
    w.tensor_core_products =
        gathers * std::max(8, c.vector_length) * n * planes_of(c.lhs) * planes_of(c.rhs);
    constexpr double index_bytes = 2;        // a vector
    constexpr double position_bytes = 0.25;  // a kept element of V:N:M
    const double indices = c.is_vnm() ? gathers * index_bytes + w.nonzeros * position_bytes
                                      : a.elements_a_row() * block_rows * index_bytes;
    const double inputs = w.nonzeros * magicubeGetDataTypeBits(c.lhs) / 8 + indices +
                          static_cast<double>(bytes_of(c.rhs, c.k * c.n));
    const double all = inputs + static_cast<double>(bytes_of(c.out, c.m * c.n));
    w.device_memory_bytes = cold ? inputs : std::max(0.0, all - static_cast<double>(s.cache_bytes));
    return w;
}

bound find_bound(const session& s, const spmm_case& c, const work& w, double megahertz) {
    constexpr double shared_bytes_a_clock = 128;
    const double clocks = s.multiprocessors * std::max(1.0, megahertz);
    const bound tensor_cores{
        s.capability == 90 ? w.tensor_core_products / (products_a_clock(c) * clocks) : 0,
        "Tensor Cores"};
    return std::max(
        {bound{w.shared_memory_bytes / (shared_bytes_a_clock * clocks), "shared memory"},
         tensor_cores, bound{w.device_memory_bytes / s.bytes_per_us, "device memory"}},
        [](const bound& a, const bound& b) { return a.us < b.us; });
}

}  // namespace bench
