// SPDX-License-Identifier: Apache-2.0
// A sparse matrix of the device, read back so that the host can pack it. Waits for the stream.
#pragma once

#include <vector>

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"

namespace magicube::spmm::cuda {

class host_copy {
  public:
    host_copy(const context& ctx, const sr_bcrs_view& a);
    host_copy(const host_copy&) = delete;
    host_copy& operator=(const host_copy&) = delete;

    // Its arrays lie in host memory; element masks are left out, since absent values are 0.
    const sr_bcrs_view& view() const { return view_; }

  private:
    sr_bcrs_view view_;
    std::vector<char> row_begin_, row_end_, col_indices_, values_;
};

}  // namespace magicube::spmm::cuda
