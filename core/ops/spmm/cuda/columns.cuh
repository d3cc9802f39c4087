// SPDX-License-Identifier: Apache-2.0
// Which columns of a 16-column chunk an MMA leaves in a lane (g, t) = (lane / 4, lane % 4), and how
// its four sums become the square of two rows and two neighbouring columns that store.cuh takes.
#pragma once

namespace magicube::spmm::cuda {

// Columns 2g and 2g + 1 are rows g and g + 8 of the MMA.
struct paired_columns {
    // First of the two columns, relative to the chunk's first.
    static __device__ __forceinline__ int first_column(int lane) { return lane / 4 * 2; }
    template <class Sum>
    static __device__ __forceinline__ void arrange(const Sum (&q)[4], Sum (&sums)[2][2]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i & 1][i >> 1] = q[i];
    }
};

// Columns g and g + 8; lanes of even and odd g exchange one, so that each has two neighbours.
struct exchanged_columns {
    static __device__ __forceinline__ int first_column(int lane) {
        const int g = lane / 4;
        return g % 2 == 0 ? g : g + 7;
    }
    template <class Sum>
    static __device__ __forceinline__ void arrange(const Sum (&q)[4], Sum (&sums)[2][2]) {
        const bool odd = threadIdx.x & 4;
#pragma unroll
        for (int a = 0; a < 2; ++a) {
            const Sum received = __shfl_xor_sync(~0u, odd ? q[a] : q[a + 2], 4);
            sums[a][0] = odd ? received : q[a];
            sums[a][1] = odd ? q[a + 2] : received;
        }
    }
};

}  // namespace magicube::spmm::cuda
