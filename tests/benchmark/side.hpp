// SPDX-License-Identifier: Apache-2.0
// One way to compute a product, as the timer sees it.
#pragma once

#include <functional>
#include <string>

namespace bench {

struct side {
    std::string name;                      // "cuBLASLt-int8"
    std::string variant;                   // the algorithm
    int copies = 1;                        // of its operands, for launches with cold caches
    std::function<void(int copy)> launch;  // on the session's stream
};

}  // namespace bench
