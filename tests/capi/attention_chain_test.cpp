// SPDX-License-Identifier: Apache-2.0
// SDDMM -> softmax -> SpMM on one pattern, without any repacking between them: sparse attention.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr int64_t queries = 40;
constexpr int64_t keys = 50;
constexpr int64_t width = 24;
constexpr float score_scale = 1.0f / 16384;

struct attention {
    generator random{11};
    sparse_sample pattern{{kind::uint8, queries, keys, 8, 32, 0.4, true}, random};
    dense_sample q{{kind::int8, queries, width}, random};
    dense_sample k{{kind::int8, width, keys, true}, random};
    dense_sample v{{kind::int8, keys, width}, random};
    dense_sample out{{kind::fp32, queries, width}, random};
    sp_mat matrix{pattern};
    dn_mat q_matrix{q};
    dn_mat k_matrix{k};
    dn_mat v_matrix{v};
    dn_mat out_matrix{out};
    std::vector<int32_t> scores = std::vector<int32_t>(static_cast<size_t>(pattern.value_count()));
    std::vector<uint8_t> weights = std::vector<uint8_t>(static_cast<size_t>(pattern.value_count()));
    std::vector<float> row_scale = std::vector<float>(queries);
    cpu_handle handle;

    void score() {
        magicubeSDDMMProblem_t p = MAGICUBE_SDDMM_PROBLEM_INIT;
        p.pattern = matrix;
        p.b_order = MAGICUBE_ORDER_COL;
        p.out_type = MAGICUBE_INT32;
        p.k_max = width;
        magicubeSDDMMPlan_t plan = nullptr;
        REQUIRE_OK(magicubeSDDMM_createPlan(handle, &p, nullptr, 0, &plan));
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        REQUIRE_OK(magicubeSDDMM_bufferSize(handle, &p, &sizes));
        const aligned_buffer workspace(sizes.workspace_bytes);
        REQUIRE_OK(magicubeSDDMM(handle, plan, nullptr, q_matrix, k_matrix, scores.data(), nullptr,
                                 workspace.data(), workspace.size()));
        magicubeSDDMM_destroyPlan(plan);
    }
    void normalise() {
        magicubeSparseSoftmaxProblem_t p = MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT;
        p.pattern = matrix;
        p.in_type = MAGICUBE_INT32;
        p.out_type = MAGICUBE_UINT8;
        magicubeSparseSoftmaxPlan_t plan = nullptr;
        REQUIRE_OK(magicubeSparseSoftmax_createPlan(handle, &p, nullptr, 0, &plan));
        magicubeSparseSoftmaxArgs_t args = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
        args.out_scale = row_scale.data();
        REQUIRE_OK(magicubeSparseSoftmax(handle, plan, &score_scale, scores.data(), weights.data(),
                                         &args, nullptr, 0));
        magicubeSparseSoftmax_destroyPlan(plan);
    }
    void combine() {
        magicubeSpMMProblem_t p = MAGICUBE_SPMM_PROBLEM_INIT;
        p.A = matrix;
        p.n_max = width;
        p.a_scale = MAGICUBE_GRANULARITY_ROW;
        p.value_mode = MAGICUBE_VALUES_PER_CALL;
        magicubeSpMMPlan_t plan = nullptr;
        REQUIRE_OK(magicubeSpMM_createPlan(handle, &p, nullptr, 0, &plan));
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        REQUIRE_OK(magicubeSpMM_bufferSize(handle, &p, &sizes));
        const aligned_buffer workspace(sizes.workspace_bytes);
        magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
        args.a_values = weights.data();
        args.a_scale = row_scale.data();
        REQUIRE_OK(magicubeSpMM(handle, plan, nullptr, v_matrix, nullptr, out_matrix, &args,
                                workspace.data(), workspace.size()));
        magicubeSpMM_destroyPlan(plan);
    }
    // Whether the result is attention in double, up to what 8-bit weights lose: half a step each.
    bool right() const {
        std::vector<double> sums(queries, 0);
        std::vector<double> totals(queries * width, 0);
        std::vector<double> bounds(queries * width, 1e-3);
        pattern.each_element(0, [&](int64_t i, int64_t j, int64_t, int64_t) {
            double dot = 0;
            for (int64_t d = 0; d < width; ++d) dot += q.at(0, i, d) * k.at(0, d, j);
            const double weight = std::exp(dot * static_cast<double>(score_scale));
            sums[static_cast<size_t>(i)] += weight;
            const auto step = static_cast<double>(row_scale[static_cast<size_t>(i)]);
            for (int64_t d = 0; d < width; ++d) {
                totals[static_cast<size_t>(i * width + d)] += weight * v.at(0, j, d);
                bounds[static_cast<size_t>(i * width + d)] += 0.5 * step * std::fabs(v.at(0, j, d));
            }
        });
        for (int64_t i = 0; i < queries; ++i) {
            for (int64_t d = 0; d < width; ++d) {
                const auto at = static_cast<size_t>(i * width + d);
                const double sum = sums[static_cast<size_t>(i)];
                const double expected = sum > 0 ? totals[at] / sum : 0;
                if (std::fabs(out.at(0, i, d) - expected) > bounds[at]) return false;
            }
        }
        return true;
    }
};

}  // namespace

TEST_CASE("what SDDMM writes softmax reads, and what softmax writes SpMM reads") {
    attention a;
    a.score();
    a.normalise();
    a.combine();
    CHECK(a.right());
    // The bound is tight enough to see one wrong weight.
    int64_t some = -1;
    a.pattern.each_element(
        0, [&](int64_t, int64_t, int64_t slot, int64_t v) { some = a.pattern.position(slot, v); });
    a.weights[static_cast<size_t>(some)] ^= 128;
    a.combine();
    CHECK_FALSE(a.right());
}
