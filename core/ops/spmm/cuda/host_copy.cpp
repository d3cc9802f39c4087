// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/host_copy.hpp"

#include "core/device/device.hpp"

namespace magicube::spmm::cuda {
namespace {

const void* read(const context& ctx, std::vector<char>& host, const void* device, int64_t bytes) {
    host.resize(static_cast<size_t>(bytes));
    copy_memory(ctx, host.data(), device, host.size());
    return host.data();
}

}  // namespace

host_copy::host_copy(const context& ctx, const sr_bcrs_view& a) : view_(a) {
    const int64_t block_rows = a.block_rows() * (a.different_patterns ? a.batch_count : 1);
    const int64_t arrays = a.different_patterns || a.values_stride == 0 ? 1 : a.batch_count;
    const int64_t elements =
        a.value_count() == 0 ? 0 : (arrays - 1) * a.values_stride + a.value_count();
    view_.row_begin.data =
        read(ctx, row_begin_, a.row_begin.data, block_rows * index_bytes(a.row_begin.type));
    view_.row_end.data =
        read(ctx, row_end_, a.row_end.data, block_rows * index_bytes(a.row_end.type));
    view_.col_indices =
        static_cast<const int32_t*>(read(ctx, col_indices_, a.col_indices, a.slots * 4));
    view_.values = const_cast<void*>(read(ctx, values_, a.values, storage_bytes(a.type, elements)));
    view_.read_only = true;
    view_.element_mask = nullptr;
    synchronize(ctx);
}

}  // namespace magicube::spmm::cuda
