// SPDX-License-Identifier: Apache-2.0
// Conversion of SR-BCRS to CSR on CUDA. Arguments are checked but for where pointers lie.
#pragma once

#include "core/formats/csr/convert.hpp"

namespace magicube::cuda {

// Reads the number of elements back: waits for the stream.
int64_t count_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target);

// Stream-ordered. Offsets other than count's for this source leave contents of no use. Null
// col_indices stand for no element.
void fill_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target);

}  // namespace magicube::cuda
