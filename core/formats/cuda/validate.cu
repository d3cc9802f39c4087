// SPDX-License-Identifier: Apache-2.0
#include "core/formats/cuda/validate.hpp"

#include <memory>
#include <vector>

#include "core/device/device.hpp"
#include "core/formats/cuda/launch.cuh"
#include "core/formats/validate.hpp"

namespace magicube::cuda {
namespace {

// Arrays of a matrix in host memory, kept while it is looked at.
class host_arrays {
  public:
    explicit host_arrays(const context& ctx) : ctx_(ctx) {}

    template <class T>
    void read(T*& array, int64_t bytes) {
        if (!array || bytes == 0) return;
        arrays_.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
        copy_memory(ctx_, arrays_.back().get(), array, static_cast<size_t>(bytes));
        array = reinterpret_cast<T*>(arrays_.back().get());
    }
    void read(index_array& array, int64_t count) {
        const char* bytes = static_cast<const char*>(array.data);
        read(bytes, count * index_bytes(array.type));
        array.data = bytes;
    }

  private:
    const context& ctx_;
    std::vector<std::unique_ptr<char[]>> arrays_;
};

void read_indices(host_arrays& host, csr_view& matrix) {
    host.read(matrix.offsets, matrix.rows == 0 ? 0 : matrix.rows + 1);
    host.read(matrix.col_indices, matrix.nnz * 4);
}

void read_indices(host_arrays& host, bsr_view& matrix) {
    host.read(matrix.offsets, matrix.rows == 0 ? 0 : ceil_div(matrix.rows, matrix.block_rows) + 1);
    host.read(matrix.block_col_indices, matrix.nnzb * 4);
}

void read_indices(host_arrays& host, sr_bcrs_view& matrix) {
    const int64_t entries =
        matrix.block_rows() * (matrix.different_patterns ? matrix.batch_count : 1);
    host.read(matrix.row_begin, entries);
    host.read(matrix.row_end, entries);
    host.read(matrix.col_indices, matrix.slots * 4);
    host.read(matrix.element_mask, matrix.slots * ((matrix.vector_length + 7) / 8));
}

void read_indices(host_arrays& host, vnm_view& matrix) {
    const auto* column_loc = static_cast<const char*>(matrix.column_loc);
    host.read(column_loc, column_loc_count(matrix) * column_loc_bytes(matrix.m));
    matrix.column_loc = column_loc;
    host.read(matrix.metadata, metadata_count(matrix));
}

int64_t value_bytes(const sparse_view& matrix) {
    const int64_t count = std::visit([](const auto& view) { return view.value_count(); }, matrix);
    const sparse_common& common = common_of(matrix);
    if (count == 0 || common.batch_count == 0) return 0;
    return storage_bytes(common.type, (common.batch_count - 1) * common.values_stride + count);
}

}  // namespace

void validate_copy(const context& ctx, const sparse_view& matrix, bool values,
                   const char* argument) {
    device_scope scope(ctx.ordinal);
    require_no_capture(ctx);
    sparse_view copied = matrix;
    host_arrays host(ctx);
    const auto read = [&](auto& view) {
        require_arrays_on_device(ctx, view);
        read_indices(host, view);
    };
    std::visit(read, copied);
    if (values) host.read(common_of(copied).values, value_bytes(matrix));
    synchronize(ctx);
    context on_host;
    on_host.threads = ctx.threads;
    validate_pattern(on_host, copied, argument);
    if (values) validate_values(on_host, copied, argument);
}

}  // namespace magicube::cuda
