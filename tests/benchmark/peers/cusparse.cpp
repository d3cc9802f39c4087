// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>

#include "cusparse_api.hpp"
#include "peers.hpp"

namespace bench {
namespace {

// The arrays of one sparse matrix on the GPU; `offsets` is empty for Blocked-ELL.
struct arrays {
    device_array offsets, col_indices, values;

    int64_t bytes() const { return offsets.bytes() + col_indices.bytes() + values.bytes(); }
};

arrays copy_of(const session& s, const arrays& from) {
    return {duplicate(s, from.offsets), duplicate(s, from.col_indices), duplicate(s, from.values)};
}

using describe_function = std::function<void*(const arrays&)>;

// C = A B in fp16 with fp32 sums; B and C in one order.
class sparse_product {
  public:
    sparse_product(const session& s, const spmm_case& c, const std::shared_ptr<arrays>& a,
                   const describe_function& describe, int algorithm, int order, bool cold)
        : api_(cusparse_api::instance()), first_(a), algorithm_(algorithm) {
        api_.check(api_.set_stream(api_.handle, s.stream), "cusparseSetStream");
        generator random(c.seed);
        c_ = device_array(bytes_of(MAGICUBE_FP16, c.m * c.n));
        c_matrix_ = dense(c.m, c.n, order, c_);
        b_.push_back(upload(s, random_elements(MAGICUBE_FP16, c.k * c.n, random)));
        const int copies = cold_copies(cold, a->bytes() + b_[0].bytes());
        for (int i = 1; i < copies; ++i) {
            more_.push_back(copy_of(s, *a));
            b_.push_back(duplicate(s, b_[0]));
        }
        for (int i = 0; i < copies; ++i) {
            a_matrices_.push_back(describe(i == 0 ? *a : more_[static_cast<size_t>(i - 1)]));
            b_matrices_.push_back(dense(c.k, c.n, order, b_[static_cast<size_t>(i)]));
        }
    }
    sparse_product(const sparse_product&) = delete;
    ~sparse_product() {
        for (void* matrix : a_matrices_) api_.destroy_sparse(matrix);
        for (void* matrix : b_matrices_) api_.destroy_dense(matrix);
        api_.destroy_dense(c_matrix_);
    }

    int copies() const { return static_cast<int>(b_.size()); }

    void launch(int copy) {
        if (buffers_.empty()) prepare();
        const auto i = static_cast<size_t>(copy);
        api_.check(api_.spmm(api_.handle, plain, plain, &one, a_matrices_[i], b_matrices_[i], &zero,
                             c_matrix_, CUDA_R_32F, algorithm_, buffers_[i].data()),
                   "cusparseSpMM");
    }

  private:
    static constexpr int plain = cusparse_api::not_transposed;
    static constexpr float one = 1, zero = 0;

    void* dense(int64_t rows, int64_t cols, int order, const device_array& elements) const {
        void* matrix = nullptr;
        api_.check(api_.create_dense(&matrix, rows, cols, order == api_.row ? cols : rows,
                                     elements.data(), CUDA_R_16F, order),
                   "cusparseCreateDnMat");
        return matrix;
    }

    void prepare() {
        size_t bytes = 0;
        api_.check(api_.buffer_size(api_.handle, plain, plain, &one, a_matrices_[0], b_matrices_[0],
                                    &zero, c_matrix_, CUDA_R_32F, algorithm_, &bytes),
                   "cusparseSpMM_bufferSize");
        std::vector<device_array> buffers;
        for (size_t i = 0; i < a_matrices_.size(); ++i) {
            buffers.emplace_back(static_cast<int64_t>(bytes));
            api_.check(
                api_.preprocess(api_.handle, plain, plain, &one, a_matrices_[i], b_matrices_[i],
                                &zero, c_matrix_, CUDA_R_32F, algorithm_, buffers[i].data()),
                "cusparseSpMM_preprocess");
        }
        buffers_ = std::move(buffers);
    }

    const cusparse_api& api_;
    std::shared_ptr<arrays> first_;
    std::vector<arrays> more_;
    std::vector<device_array> b_, buffers_;
    device_array c_;
    std::vector<void*> a_matrices_, b_matrices_;
    void* c_matrix_ = nullptr;
    int algorithm_;
};

// Every algorithm with both orders of B and C.
std::vector<side> candidates(const session& s, const spmm_case& c, bool cold, arrays a,
                             const describe_function& describe,
                             const std::vector<std::pair<const char*, int>>& algorithms) {
    const auto shared = std::make_shared<arrays>(std::move(a));
    std::vector<side> sides;
    for (int order : {cusparse_api::row, cusparse_api::col}) {
        const char* order_text = order == cusparse_api::row ? "row-major" : "column-major";
        for (const auto& [name, algorithm] : algorithms) {
            const auto product =
                std::make_shared<sparse_product>(s, c, shared, describe, algorithm, order, cold);
            sides.push_back({"", text(name, ", ", order_text), product->copies(),
                             [product](int copy) { product->launch(copy); }});
        }
    }
    return sides;
}

int64_t block_size(const spmm_case& c) {
    return std::max(8, c.vector_length);
}

void require_blocks(const spmm_case& c) {
    const int64_t size = block_size(c);
    if (c.m % size || c.k % size) fail("M and K are no multiples of its block size, ", size);
}

arrays upload_arrays(const session& s, const std::vector<int32_t>& offsets,
                     const std::vector<int32_t>& col_indices, int64_t values, generator& random) {
    return {upload(s, offsets), upload(s, col_indices),
            upload(s, random_elements(MAGICUBE_FP16, values, random))};
}

}  // namespace

std::vector<side> cusparse_csr(const session& s, const spmm_case& c, const pattern& a, bool cold) {
    const auto& api = cusparse_api::instance();
    std::vector<int32_t> offsets{0}, columns;
    for (int64_t row = 0; row < c.m; ++row) {
        const int64_t block_row = row / a.vector_length;
        columns.insert(columns.end(), a.col_indices.data() + a.row_begin[block_row],
                       a.col_indices.data() + a.row_end[block_row]);
        if (columns.size() > INT32_MAX) fail("more nonzeros than 32-bit offsets reach");
        offsets.push_back(static_cast<int32_t>(columns.size()));
    }
    const auto nonzeros = static_cast<int64_t>(columns.size());
    generator random(c.seed);
    const describe_function describe = [=, &api](const arrays& on_device) {
        void* matrix = nullptr;
        api.check(api.create_csr(&matrix, c.m, c.k, nonzeros, on_device.offsets.data(),
                                 on_device.col_indices.data(), on_device.values.data(),
                                 api.index_32, api.index_32, api.base_zero, CUDA_R_16F),
                  "cusparseCreateCsr");
        return matrix;
    };
    return candidates(s, c, cold, upload_arrays(s, offsets, columns, nonzeros, random), describe,
                      {{"CSR_ALG1", api.csr_1}, {"CSR_ALG2", api.csr_2}, {"CSR_ALG3", api.csr_3}});
}

std::vector<side> cusparse_bsr(const session& s, const spmm_case& c, bool cold) {
    const auto& api = cusparse_api::instance();
    require_blocks(c);
    const int64_t size = block_size(c);
    generator random(c.seed);
    const pattern blocks =
        make_pattern({c.m / size, c.k / size, 1, 1, 1 - c.sparsity, c.lengths}, random);
    std::vector<int32_t> offsets{0};
    for (int64_t end : blocks.row_end) offsets.push_back(static_cast<int32_t>(end));
    const int64_t count = blocks.slots();
    const describe_function describe = [=, &api](const arrays& on_device) {
        void* matrix = nullptr;
        api.check(api.create_bsr(&matrix, c.m / size, c.k / size, count, size, size,
                                 on_device.offsets.data(), on_device.col_indices.data(),
                                 on_device.values.data(), api.index_32, api.index_32, api.base_zero,
                                 CUDA_R_16F, api.row),
                  "cusparseCreateBsr");
        return matrix;
    };
    return candidates(s, c, cold,
                      upload_arrays(s, offsets, blocks.col_indices, count * size * size, random),
                      describe, {{"BSR_ALG1", api.bsr_1}});
}

std::vector<side> cusparse_blocked_ell(const session& s, const spmm_case& c, bool cold) {
    const auto& api = cusparse_api::instance();
    require_blocks(c);
    const int64_t size = block_size(c), block_cols = c.k / size;
    const auto blocks_a_row =
        static_cast<int64_t>(std::lround((1 - c.sparsity) * static_cast<double>(block_cols)));
    generator random(c.seed);
    std::vector<int32_t> columns;
    for (int64_t row = 0; row < c.m / size; ++row) {
        append_columns(blocks_a_row, block_cols, random, columns);
    }
    const describe_function describe = [=, &api](const arrays& on_device) {
        void* matrix = nullptr;
        api.check(api.create_blocked_ell(&matrix, c.m, c.k, size, blocks_a_row * size,
                                         on_device.col_indices.data(), on_device.values.data(),
                                         api.index_32, api.base_zero, CUDA_R_16F),
                  "cusparseCreateBlockedEll");
        return matrix;
    };
    return candidates(s, c, cold, upload_arrays(s, {}, columns, c.m * blocks_a_row * size, random),
                      describe, {{"BLOCKED_ELL_ALG1", api.blocked_ell_1}});
}

}  // namespace bench
