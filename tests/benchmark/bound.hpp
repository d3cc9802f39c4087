// SPDX-License-Identifier: Apache-2.0
// How fast a product can be at best by what it must compute and move.
#pragma once

#include "device.hpp"
#include "sparse_data.hpp"
#include "spmm_case.hpp"

namespace bench {

struct work {
    double nonzeros;              // scalars of A that exist
    double operations;            // on nonzeros: two for each and column of B
    double dense_operations;      // of the dense product of this size
    double shared_memory_bytes;   // of rows of B gathered from shared memory
    double tensor_core_products;  // by the Tensor Cores, planes of wide integers counted; of V:N:M
                                  // with all four columns of a group
    double device_memory_bytes;   // that cannot be in the L2 cache
};

work count_work(const session& s, const spmm_case& c, const sparse_data& a, bool cold);

struct bound {
    double us = 0;
    const char* by = "";
};

// The greatest of the three times at this clock: shared memory at 128 bytes a clock and
// multiprocessor (left out for V:N:M, whose wide tiles read each row of B many times or once), the
// Tensor Cores at the rates measured on sm_90 (left out on other GPUs), device memory at the rate
// of a large copy.
bound find_bound(const session& s, const spmm_case& c, const work& w, double megahertz);

}  // namespace bench
