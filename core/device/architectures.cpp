// SPDX-License-Identifier: Apache-2.0
#include "core/device/architectures.hpp"

#include <cctype>
#include <sstream>

#include "core/common/error.hpp"

namespace magicube {
namespace {

bool entry_runs_on(int capability, const std::string& entry) {
    const auto digits = entry.find('_') + 1;
    if (digits == 0 || digits >= entry.size() || !std::isdigit(entry[digits])) return false;
    const int number = std::stoi(entry.substr(digits));
    if (entry.back() == 'a') return capability == number;
    const bool same_major = capability / 10 == number / 10;
    const bool ptx = entry.rfind("compute_", 0) == 0 && entry.back() != 'f';
    return capability >= number && (ptx || same_major);
}

}  // namespace

bool runs_on(int compute_capability, const std::string& architectures) {
    std::istringstream entries(architectures);
    for (std::string entry; entries >> entry;)
        if (entry_runs_on(compute_capability, entry)) return true;
    return false;
}

std::string arch_mismatch_message(int ordinal, const std::string& device_name,
                                  int compute_capability, const std::string& architectures) {
    return text("CUDA device ", ordinal, " (", device_name, ") is sm_", compute_capability,
                "; this library was built for ", architectures);
}

}  // namespace magicube
