// SPDX-License-Identifier: Apache-2.0
// The shared memory of the block that runs.
#pragma once

#include <cstddef>

namespace emulated {

// Poisons so much memory for a block, and lets it use no more.
void prepare_shared(size_t dynamic_bytes);

// Forgets the barriers and copies of the block before.
void prepare_barriers();

}  // namespace emulated
