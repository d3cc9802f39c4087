// SPDX-License-Identifier: Apache-2.0
// The shared memory of the block that runs.
#pragma once

#include <cstddef>
#include <vector>

#include "source/symbols.hpp"

namespace emulated {

// Poisons a block's memory, and lets it use no more.
void prepare_shared(size_t dynamic_bytes, const std::vector<shared_array>& arrays);

// Forgets the barriers and copies of the block before.
void prepare_barriers();

}  // namespace emulated
