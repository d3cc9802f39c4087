// SPDX-License-Identifier: Apache-2.0
// What every part of the benchmark needs: errors, checks of return codes, rounding, names of types.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

#include "magicube/status.h"
#include "magicube/types.h"

namespace bench {

template <class... Parts>
std::string text(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

// Why something could not be measured.
struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
    throw failure(text(parts...));
}

inline void check(magicubeStatus_t status, const char* call) {
    if (status != MAGICUBE_STATUS_SUCCESS)
        fail(call, ": ", magicubeGetErrorName(status), ": ", magicubeGetLastErrorMessage());
}

inline void check(cudaError_t error, const char* call) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // an error that does not stick must not surface at a later call
    fail(call, ": ", cudaGetErrorString(error));
}

constexpr int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
constexpr int64_t round_up(int64_t a, int64_t b) {
    return ceil_div(a, b) * b;
}

inline bool is_integer(magicubeDataType_t type) {
    return type <= MAGICUBE_INT32;
}

inline int64_t bytes_of(magicubeDataType_t type, int64_t elements) {
    return ceil_div(elements * magicubeGetDataTypeBits(type), 8);
}

}  // namespace bench
