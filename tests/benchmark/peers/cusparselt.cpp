// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "cusparselt_api.hpp"
#include "peers.hpp"

namespace bench {
namespace {

struct pruned_types {
    magicubeDataType_t operand, result;
    cudaDataType operand_type, result_type;
    int compute;
};

constexpr pruned_types int8_types{MAGICUBE_INT8, MAGICUBE_INT32, CUDA_R_8I, CUDA_R_32I,
                                  cusparselt_api::compute_32i};
constexpr pruned_types fp16_types{MAGICUBE_FP16, MAGICUBE_FP16, CUDA_R_16F, CUDA_R_16F,
                                  cusparselt_api::compute_32f};

// C = A B with A of 2:4; K is contiguous in A and B, as its int8 kernels ask for; the order of C is
// given. The library's own search has chosen the algorithm before the first launch.
class pruned_product {
  public:
    pruned_product(const session& s, const spmm_case& c, const pruned_types& types, int c_order,
                   bool cold)
        : api_(cusparselt_api::instance()), session_(s) {
        constexpr int64_t multiple = 32;  // of its sizes
        const int64_t m = round_up(c.m, multiple), k = round_up(c.k, multiple);
        const int64_t n = round_up(c.n, multiple);
        api_.check(api_.structured_init(&api_.handle, &a_matrix_, m, k, k, alignment,
                                        types.operand_type, api_.row, api_.half_sparse),
                   "cusparseLtStructuredDescriptorInit");
        dense(b_matrix_, k, n, types.operand_type, api_.col);
        dense(c_matrix_, m, n, types.result_type, c_order);
        api_.check(
            api_.matmul_init(&api_.handle, &matmul_, api_.not_transposed, api_.not_transposed,
                             &a_matrix_, &b_matrix_, &c_matrix_, &c_matrix_, types.compute),
            "cusparseLtMatmulDescriptorInit");
        api_.check(api_.selection_init(&api_.handle, &selection_, &matmul_, api_.default_algorithm),
                   "cusparseLtMatmulAlgSelectionInit");
        api_.check(api_.plan_init(&api_.handle, &plan_, &matmul_, &selection_),
                   "cusparseLtMatmulPlanInit");
        generator random(c.seed);
        const auto elements = upload(s, random_elements(types.operand, m * k, random));
        api_.check(api_.prune(&api_.handle, &matmul_, elements.data(), elements.data(),
                              api_.prune_strips, s.stream),
                   "cusparseLtSpMMAPrune");
        b_.push_back(upload(s, random_elements(types.operand, k * n, random)));
        c_ = device_array(bytes_of(types.result, m * n));
        a_.push_back(compress(elements));
        search();
        a_[0] = compress(elements);  // as the algorithm that was found wants it
        for (int i = 1; i < cold_copies(cold, a_[0].bytes() + b_[0].bytes()); ++i) {
            a_.push_back(duplicate(s, a_[0]));
            b_.push_back(duplicate(s, b_[0]));
        }
    }
    pruned_product(const pruned_product&) = delete;
    ~pruned_product() {
        api_.plan_destroy(&plan_);
        for (const auto* matrix : {&a_matrix_, &b_matrix_, &c_matrix_}) api_.matrix_destroy(matrix);
    }

    int copies() const { return static_cast<int>(a_.size()); }

    std::string algorithm() const {
        int number = -1;
        api_.check(api_.selection_get(&api_.handle, &selection_, api_.algorithm_number, &number,
                                      sizeof number),
                   "cusparseLtMatmulAlgGetAttribute");
        return text(api_.version, ", algorithm ", number);
    }

    void launch(int copy) {
        const auto i = static_cast<size_t>(copy);
        cudaStream_t stream = session_.stream;
        api_.check(api_.matmul(&api_.handle, &plan_, &one, a_[i].data(), b_[i].data(), &zero,
                               c_.data(), c_.data(), workspace_.data(), &stream, 1),
                   "cusparseLtMatmul");
    }

  private:
    static constexpr uint32_t alignment = 16;
    // Its search splits K, whatever the workspace that the plan asked for.
    static constexpr int64_t least_workspace = int64_t{512} << 20;
    static constexpr float one = 1, zero = 0;  // for integers, too

    void dense(cusparselt_object& matrix, int64_t rows, int64_t cols, cudaDataType type,
               int order) {
        api_.check(api_.dense_init(&api_.handle, &matrix, rows, cols,
                                   order == api_.row ? cols : rows, alignment, type, order),
                   "cusparseLtDenseDescriptorInit");
    }

    device_array compress(const device_array& elements) {
        size_t bytes = 0, buffer_bytes = 0;
        api_.check(api_.compressed_size(&api_.handle, &plan_, &bytes, &buffer_bytes),
                   "cusparseLtSpMMACompressedSize");
        // The search tries algorithms that want more than the one at hand.
        device_array compressed(std::max(static_cast<int64_t>(bytes), elements.bytes()));
        const device_array buffer(static_cast<int64_t>(buffer_bytes));
        api_.check(api_.compress(&api_.handle, &plan_, elements.data(), compressed.data(),
                                 buffer.data(), session_.stream),
                   "cusparseLtSpMMACompress");
        session_.synchronize();
        return compressed;
    }

    void search() {
        reserve_workspace();
        cudaStream_t stream = session_.stream;
        api_.check(api_.search(&api_.handle, &plan_, &one, a_[0].data(), b_[0].data(), &zero,
                               c_.data(), c_.data(), workspace_.data(), &stream, 1),
                   "cusparseLtMatmulSearch");
        reserve_workspace();
    }

    void reserve_workspace() {
        size_t bytes = 0;
        api_.check(api_.workspace(&api_.handle, &plan_, &bytes), "cusparseLtMatmulGetWorkspace");
        workspace_ = device_array(std::max(static_cast<int64_t>(bytes), least_workspace));
    }

    const cusparselt_api& api_;
    const session& session_;
    cusparselt_object a_matrix_{}, b_matrix_{}, c_matrix_{}, matmul_{}, selection_{}, plan_{};
    std::vector<device_array> a_, b_;
    device_array c_, workspace_;
};

}  // namespace

std::vector<side> cusparselt(const session& s, const spmm_case& c, bool cold) {
    const auto& api = cusparselt_api::instance();
    // With 0.8.1 on an H200 a launch after the search read memory that is not there; why is not
    // known.
    if (c.lhs != MAGICUBE_INT8) fail("its fp16 products ended in an illegal memory access");
    const auto& types = c.lhs == MAGICUBE_INT8 ? int8_types : fp16_types;
    std::vector<side> sides;
    std::string reason;
    for (const int c_order : {api.col, api.row}) {
        try {
            const auto product = std::make_shared<pruned_product>(s, c, types, c_order, cold);
            sides.push_back(
                {"", text(product->algorithm(), c_order == api.row ? ", C row" : ", C column"),
                 product->copies(), [product](int copy) { product->launch(copy); }});
        } catch (const failure& error) {
            reason = error.what();  // it has no kernel for this order
        }
    }
    if (sides.empty()) fail(reason);
    return sides;
}

}  // namespace bench
