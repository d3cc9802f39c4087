// SPDX-License-Identifier: Apache-2.0
// The command line.
#pragma once

#include <string>
#include <vector>

#include "spmm_case.hpp"

namespace bench {

struct options {
    std::vector<spmm_case> cases;    // every combination of the listed values
    std::vector<std::string> peers;  // parts of the names of the peers to time; "" is all
    bool cold = false;
    bool baseline = false;
    bool json = false;
    bool markdown = false;
    bool help = false;
    double seconds = 0.5;
    int rounds = 3;
};

extern const char* const usage;

// A mistake in the command line.
struct usage_error : failure {
    using failure::failure;
};

options parse_options(int count, char** arguments);

}  // namespace bench
