// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cublaslt_api.hpp"
#include "peers.hpp"

namespace bench {
namespace {

struct dense_types {
    magicubeDataType_t operand, result;
    cudaDataType operand_type, result_type, scale_type;
    int compute;
};

constexpr dense_types int8_types{MAGICUBE_INT8, MAGICUBE_INT32, CUDA_R_8I,
                                 CUDA_R_32I,    CUDA_R_32I,     cublaslt_api::compute_32i};
constexpr dense_types fp16_types{MAGICUBE_FP16, MAGICUBE_FP16, CUDA_R_16F,
                                 CUDA_R_16F,    CUDA_R_32F,    cublaslt_api::compute_32f};

// C, row-major, as the column-major product B^T A^T: both operands have K contiguous, the layout
// that cuBLASLt's int8 kernels ask for and its fp16 kernels are no slower with. Leading dimensions
// are padded to 16 bytes.
class dense_product {
  public:
    dense_product(const session& s, const spmm_case& c, const dense_types& types, bool cold)
        : session_(s), types_(types), workspace_(workspace_bytes) {
        const int64_t ld_k = round_up(c.k, 16), ld_n = round_up(c.n, 16);
        generator random(c.seed);
        a_.push_back(upload(s, random_elements(types.operand, c.m * ld_k, random)));
        b_.push_back(upload(s, random_elements(types.operand, c.n * ld_k, random)));
        c_ = device_array(bytes_of(types.result, c.m * ld_n));
        for (int i = 1; i < cold_copies(cold, a_[0].bytes() + b_[0].bytes()); ++i) {
            a_.push_back(duplicate(s, a_[0]));
            b_.push_back(duplicate(s, b_[0]));
        }
        const auto& api = cublaslt_api::instance();
        const auto layout = [&](void*& target, cudaDataType type, int64_t rows, int64_t cols,
                                int64_t ld) {
            api.check(api.layout_create(&target, type, static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(cols), ld),
                      "cublasLtMatrixLayoutCreate");
        };
        layout(a_layout_, types.operand_type, c.k, c.m, ld_k);
        layout(b_layout_, types.operand_type, c.k, c.n, ld_k);
        layout(c_layout_, types.result_type, c.n, c.m, ld_n);
        api.check(api.matmul_create(&operation_, types.compute, types.scale_type),
                  "cublasLtMatmulDescCreate");
        api.check(api.matmul_set(operation_, api.transpose_a, &api.transpose, sizeof(int)),
                  "cublasLtMatmulDescSetAttribute");
    }
    dense_product(const dense_product&) = delete;

    int copies() const { return static_cast<int>(a_.size()); }

    std::vector<cublaslt_heuristic> heuristics() const {
        const auto& api = cublaslt_api::instance();
        void* preference = nullptr;
        api.check(api.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
        const auto bytes = static_cast<size_t>(workspace_bytes);
        api.check(api.preference_set(preference, api.most_workspace, &bytes, sizeof bytes),
                  "cublasLtMatmulPreferenceSetAttribute");
        std::vector<cublaslt_heuristic> results(16);
        int count = 0;
        api.check(
            api.heuristics(api.handle, operation_, b_layout_, a_layout_, c_layout_, c_layout_,
                           preference, static_cast<int>(results.size()), results.data(), &count),
            "cublasLtMatmulAlgoGetHeuristic");
        results.resize(static_cast<size_t>(count));
        return results;
    }

    void launch(const cublaslt_heuristic& heuristic, int copy) const {
        static const float float_one = 1, float_zero = 0;
        static const int32_t int_one = 1, int_zero = 0;
        const bool integer = types_.scale_type == CUDA_R_32I;
        const void* one = integer ? static_cast<const void*>(&int_one) : &float_one;
        const void* zero = integer ? static_cast<const void*>(&int_zero) : &float_zero;
        const auto& api = cublaslt_api::instance();
        const auto i = static_cast<size_t>(copy);
        api.check(api.matmul(api.handle, operation_, one, b_[i].data(), b_layout_, a_[i].data(),
                             a_layout_, zero, c_.data(), c_layout_, c_.data(), c_layout_,
                             &heuristic.algorithm, workspace_.data(),
                             static_cast<size_t>(workspace_.bytes()), session_.stream),
                  "cublasLtMatmul");
    }

  private:
    static constexpr int64_t workspace_bytes = int64_t{64} << 20;

    const session& session_;
    dense_types types_;
    std::vector<device_array> a_, b_;
    device_array c_, workspace_;
    void *a_layout_ = nullptr, *b_layout_ = nullptr, *c_layout_ = nullptr, *operation_ = nullptr;
};

std::vector<side> candidates(const session& s, const spmm_case& c, const dense_types& types,
                             bool cold) {
    cublaslt_api::instance();  // fails here, before any data is made, where there is no library
    const auto product = std::make_shared<dense_product>(s, c, types, cold);
    std::vector<side> sides;
    for (const auto& heuristic : product->heuristics()) {
        sides.push_back({"", text("heuristic ", sides.size()), product->copies(),
                         [product, heuristic](int copy) { product->launch(heuristic, copy); }});
    }
    return sides;
}

}  // namespace

std::vector<side> cublaslt_int8(const session& s, const spmm_case& c, bool cold) {
    return candidates(s, c, int8_types, cold);
}

std::vector<side> cublaslt_fp16(const session& s, const spmm_case& c, bool cold) {
    return candidates(s, c, fp16_types, cold);
}

}  // namespace bench
