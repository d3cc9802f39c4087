// SPDX-License-Identifier: Apache-2.0
// Conversions to CSR.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"

namespace magicube {

// Arrays of the result, which the caller owns.
struct csr_target {
    index_type offset_type = index_type::int64;
    dtype type = dtype::fp32;
    void* offsets = nullptr;  // rows + 1; count writes them, fill reads them
    int32_t* col_indices = nullptr;
    void* values = nullptr;  // null: the pattern alone
};

// Writes the offsets and returns the number of elements.
int64_t count_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target);
int64_t count_csr(const context& ctx, const vnm_view& source, const csr_target& target);

// Writes the other arrays. The offsets are as count left them for this source; anything else is
// INVALID_VALUE on the CPU; on CUDA fill does not wait for the stream, so that it cannot tell.
void fill_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target);
void fill_csr(const context& ctx, const vnm_view& source, const csr_target& target);

}  // namespace magicube
