// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of all operations are told about arrays of scales, and the check that an
// execution's arrays lie on the device.
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>

#include "core/device/cuda/check.hpp"
#include "core/ops/epilogue.hpp"

namespace magicube::cuda {

// An array of scales or summands of a batch, on the device.
struct batched_scales {
    const float* data;
    int64_t batch_stride;
    int64_t step;
    float absent;

    MAGICUBE_HOST_DEVICE scale_reader at(int64_t batch) const {
        return {data ? data + batch * batch_stride : nullptr, step, absent};
    }
};

inline batched_scales scales_on_device(const scale_shape& shape, const float* data,
                                       float absent = 1) {
    if (!shape.present()) return {nullptr, 0, 0, absent};
    return {data, shape.batch_stride, shape.per == granularity::tensor ? 0 : 1, absent};
}

// A factor in host memory, or on the device, where only kernels read it.
struct scalar {
    float value;
    const float* pointer;  // null: the value

    MAGICUBE_HOST_DEVICE float get() const { return pointer ? *pointer : value; }
};

inline scalar scalar_argument(const context& ctx, const float* argument, float absent) {
    const bool on_device = ctx.scalars == pointer_mode::device && argument;
    return {on_device ? absent : read_scalar(argument, absent), on_device ? argument : nullptr};
}

struct named_pointer {
    const void* pointer;
    const char* name;
};

// Throws device_mismatch if an array of an execution lies elsewhere; null passes.
inline void require_operands(const context& ctx, std::initializer_list<named_pointer> operands) {
    for (const auto& operand : operands)
        if (operand.pointer) require_on_device(ctx, operand.pointer, operand.name);
}

}  // namespace magicube::cuda
