// SPDX-License-Identifier: Apache-2.0
// Which GPUs the code in this library runs on, decided from the list of what was built.
#pragma once

#include <string>

namespace magicube {

// Whether a list like "sm_80 sm_90a compute_120" holds code for a GPU of this compute capability
// (10 * major + minor): sm_XY runs on later minors of its major, sm_XYa on that one alone, sm_XYf
// as sm_XY, and PTX (compute_XY) is compiled by the driver for everything later.
bool runs_on(int compute_capability, const std::string& architectures);

// The sentence that goes with status::arch_mismatch.
std::string arch_mismatch_message(int ordinal, const std::string& device_name,
                                  int compute_capability, const std::string& architectures);

}  // namespace magicube
