// SPDX-License-Identifier: Apache-2.0
// Random scales or summands of a batch.
#pragma once

#include <vector>

#include "core/ops/epilogue.hpp"
#include "support/numbers.hpp"

namespace support {

struct scale_sample {
    magicube::scale_shape shape;
    std::vector<float> data;

    scale_sample() = default;
    scale_sample(magicube::granularity per, int64_t length, bool per_matrix, int64_t batch,
                 generator& random) {
        shape.per = per;
        const int64_t count = per == magicube::granularity::tensor ? 1 : length;
        if (per_matrix) shape.batch_stride = count + 1;
        if (per == magicube::granularity::none) return;
        for (int64_t i = 0; i < count + shape.batch_stride * (batch - 1); ++i)
            data.push_back(static_cast<float>(uniform(random, 1, 1 << 20)) / 524288.0f);
    }
    float at(int64_t batch, int64_t i) const {
        const int64_t step = shape.per == magicube::granularity::tensor ? 0 : 1;
        return data[static_cast<size_t>(batch * shape.batch_stride + i * step)];
    }
};

}  // namespace support
