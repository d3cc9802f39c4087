// SPDX-License-Identifier: Apache-2.0
// The plain kernel, for implementations that meet operands they cannot take.
#pragma once

#include "core/ops/attention/cuda/arguments.hpp"

namespace magicube::attention::cuda {

void load_plain(const context& ctx);  // before a launch can be captured
void run_plain(const context& ctx, const kernel_arguments& args);

}  // namespace magicube::attention::cuda
