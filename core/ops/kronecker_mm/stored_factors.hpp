// SPDX-License-Identifier: Apache-2.0
// The factors' values as plans that do not repack them keep them: a copy of each array, in the
// public layout.
#pragma once

#include <vector>

#include "core/device/device.hpp"
#include "core/ops/kronecker_mm/kronecker_mm.hpp"

namespace magicube::kronecker_mm {

// Where the copies lie in a plan's buffer.
struct stored_factors {
    std::vector<int64_t> offsets;
    int64_t bytes = 0;

    explicit stored_factors(const problem& p) {
        buffer_layout layout;
        for (const auto& factor : p.pattern.factors) {
            const int64_t count = p.values == value_mode::per_call ? 0 : factor.value_count();
            offsets.push_back(
                layout.reserve(count, element_alignment(p.pattern.type), "problem's values"));
        }
        bytes = layout.bytes();
    }

    void copy(const context& ctx, const problem& p, const void* const* values, char* buffer) const {
        for (size_t i = 0; i < offsets.size(); ++i) {
            const int64_t size = storage_bytes(p.pattern.type, p.pattern.factors[i].value_count());
            copy_memory(ctx, buffer + offsets[i], values[i], static_cast<size_t>(size));
        }
    }
};

// The arrays of the problem's pattern.
inline std::vector<const void*> value_arrays(const problem& p) {
    std::vector<const void*> values;
    for (const auto& factor : p.pattern.factors) values.push_back(factor.values);
    return values;
}

}  // namespace magicube::kronecker_mm
