// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm::cuda {

// Computes with A in the public layout, all of its arrays on the device.
void load_plain(const context& ctx, dtype a_type);  // before a launch can be captured
void run_plain(const context& ctx, const problem& p, const sr_bcrs_view& a, const arguments& args);

}  // namespace magicube::spmm::cuda
