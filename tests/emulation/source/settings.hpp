// SPDX-License-Identifier: Apache-2.0
// What environment variables set; tests/emulation/README.md lists them.
#pragma once

#include <cstdint>

namespace emulated {

enum class copy_time { mixed, early, late };

struct settings {
    int multiprocessors = 3;
    int devices = 1;
    // 0: blocks and threads in order.
    uint64_t seed = 0;
    copy_time copies = copy_time::mixed;
    uint64_t memory_bytes = uint64_t{512} << 20;
};

// Read once; the emulator's own tests change them.
settings& current_settings();

}  // namespace emulated
