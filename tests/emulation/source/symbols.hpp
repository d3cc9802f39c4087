// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace emulated {

struct shared_array {
    void* start;
    size_t bytes;
};

struct kernel_symbols {
    std::string name;
    std::vector<shared_array> shared;  // its own static arrays, not those of functions it calls
};

const kernel_symbols& symbols_of(const void* kernel);

}  // namespace emulated
