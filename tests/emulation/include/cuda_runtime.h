// SPDX-License-Identifier: Apache-2.0
// Stands in for CUDA's header when .cu files are compiled as C++ for the emulated device: the
// language's words, then the runtime's interface, then what kernels call.
#pragma once

#include <cstddef>
#include <cstdint>
// Before __noinline__ means something: the standard library's headers write it as an attribute.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "emulation/vector_types.hpp"

#define CUDART_VERSION 13000
#define __device__
#define __host__
#define __global__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define MAGICUBE_DYNAMIC_SHARED(TYPE, NAME, ALIGNMENT) \
    TYPE* const NAME = static_cast<TYPE*>(::emulated::dynamic_shared(ALIGNMENT))

#include "emulation/runtime_api.hpp"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#include "emulation/intrinsics.hpp"
