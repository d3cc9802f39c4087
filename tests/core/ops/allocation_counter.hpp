// SPDX-License-Identifier: Apache-2.0
// How often this program has called operator new, on all threads.
#pragma once

#include <cstdint>

namespace support {

int64_t allocations();

}  // namespace support
