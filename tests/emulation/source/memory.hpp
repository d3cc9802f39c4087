// SPDX-License-Identifier: Apache-2.0
// Device memory: allocations of the host with guards, known by address.
#pragma once

#include <string>

namespace emulated {

// False, and says so, where something was written behind an allocation; `kernel` ran last.
bool check_guards(const std::string& kernel);

}  // namespace emulated
