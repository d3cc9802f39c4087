// SPDX-License-Identifier: Apache-2.0
// How long the best dense library needs for the same product, so that a plan can say where it would
// be the better choice. A model, not a measurement; it claims nothing on the CPU.
#pragma once

#include <cstdint>

#include "core/device/context.hpp"
#include "core/device/device.hpp"
#include "core/types/dtype.hpp"
#include "core/types/pairs.hpp"

namespace magicube {

// C (m x n) = A (m x k) * B (k x n), so many times.
struct dense_product {
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t batch_count;
    precision_pair pair;
    dtype out_type;
};

struct dense_estimate {
    double us = 0;             // 0: nothing is known
    const char* library = "";  // whose product it is, and of which type
};

// The model on a GPU with these properties.
dense_estimate estimate_dense(const gpu_speed& gpu, const dense_product& product);

// The same for a context's device; nothing on the CPU.
dense_estimate estimate_dense(const context& ctx, const dense_product& product);

}  // namespace magicube
