// SPDX-License-Identifier: Apache-2.0
// SpMM at the ends of its range: nothing at all, and more than 32 bits of it.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "capi/spmm_call.hpp"

using namespace support;

namespace {

constexpr auto row = MAGICUBE_ORDER_ROW;

// Address space whose pages exist only once they are written.
class sparse_memory {
  public:
    explicit sparse_memory(size_t bytes) : bytes_(bytes) {
        data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(data_ != MAP_FAILED);
    }
    sparse_memory(const sparse_memory&) = delete;
    sparse_memory& operator=(const sparse_memory&) = delete;
    ~sparse_memory() { munmap(data_, bytes_); }
    int8_t* data() const { return static_cast<int8_t*>(data_); }

  private:
    void* data_;
    size_t bytes_;
};

// A of m x k without elements, V 8 and S 32.
magicubeSpMatDescr_t empty_a(int64_t m, int64_t k, const std::vector<int64_t>& zeros) {
    magicubeSpMatDescr_t a = nullptr;
    const auto* rows = m == 0 ? nullptr : zeros.data();
    REQUIRE_OK(magicubeCreateSrBcrs(&a, m, k, 8, 32, 0, rows, rows, nullptr, nullptr,
                                    MAGICUBE_INDEX_64, MAGICUBE_INT8));
    return a;
}

}  // namespace

TEST_CASE("issue_06_spmm_every_combination_of_zero_dimensions_with_null_pointers") {
    const std::vector<int64_t> zeros(2, 0);
    for (const int64_t m : {0, 9}) {
        for (const int64_t k : {0, 5}) {
            for (const int64_t n : {0, 3}) {
                const cpu_handle handle;
                const sp_mat a(empty_a(m, k, zeros));
                std::vector<int8_t> b_memory(static_cast<size_t>(k * n), -1);
                std::vector<float> c_memory(static_cast<size_t>(m * n), 8);
                const dn_mat b(k, n, 3, b_memory.empty() ? nullptr : b_memory.data(), MAGICUBE_INT8,
                               row);
                const dn_mat c(m, n, 3, c_memory.empty() ? nullptr : c_memory.data(), MAGICUBE_FP32,
                               row);
                magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
                problem.A = a;
                problem.n_min = 0;
                problem.n_max = 3;
                problem.bias = MAGICUBE_GRANULARITY_ROW;
                problem.activation = MAGICUBE_ACTIVATION_RELU;
                magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
                REQUIRE_OK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
                magicubeSpMMPlan_t plan = nullptr;
                REQUIRE_OK(magicubeSpMM_createPlan(handle, &problem, nullptr, 0, &plan));
                const aligned_buffer workspace(sizes.workspace_bytes);
                const std::vector<float> bias(static_cast<size_t>(m), -1.0f);
                magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
                args.bias = m == 0 ? nullptr : bias.data();
                const float half = 0.5f;
                CHECK(magicubeSpMM(handle, plan, nullptr, b, &half, c, &args,
                                   sizes.workspace_bytes == 0 ? nullptr : workspace.data(),
                                   sizes.workspace_bytes) == MAGICUBE_STATUS_SUCCESS);
                // An empty sum: relu(beta * C + bias).
                for (const float x : c_memory) CHECK(x == 3);
                magicubeSpMM_destroyPlan(plan);
            }
        }
    }
}

TEST_CASE("issue_06_spmm_an_empty_batch") {
    spmm_call c;
    c.problem.batch_count = 0;
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    REQUIRE_OK(magicubeDnMatSetStridedBatch(c.b_matrix, 0, 0));
    REQUIRE_OK(magicubeDnMatSetStridedBatch(c.c_matrix, 0, 0));
    const auto untouched = c.c.array().bytes();
    const aligned_buffer workspace(1 << 16);
    CHECK(magicubeSpMM(c.handle, plan, nullptr, c.b_matrix, nullptr, c.c_matrix, nullptr,
                       workspace.data(), workspace.size()) == MAGICUBE_STATUS_SUCCESS);
    CHECK(untouched == c.c.array().bytes());
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("issue_05_spmm_rows_of_b_and_c_further_apart_than_32_bits_reach") {
    constexpr int64_t ld = (int64_t{1} << 31) + 32;
    const sparse_memory b_memory(4 * ld);
    const sparse_memory c_memory(4 * ld);
    // V = 2, one block row pair: A(i, k) = i + k + 1.
    const int64_t begin[] = {0, 8};
    const int64_t end[] = {3, 11};
    const int32_t cols[] = {0, 1, 2, -1, -1, -1, -1, -1, 0, 1, 2, -1, -1, -1, -1, -1};
    int8_t values[32] = {};
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 3; ++k)
            values[i / 2 * 16 + i % 2 * 8 + k] = static_cast<int8_t>(i + k + 1);
    magicubeSpMatDescr_t matrix = nullptr;
    REQUIRE_OK(magicubeCreateSrBcrs(&matrix, 4, 3, 2, 8, 16, begin, end, cols, values,
                                    MAGICUBE_INDEX_64, MAGICUBE_INT8));
    const sp_mat a(matrix);
    const cpu_handle handle;
    const dn_mat b(3, 2, ld, b_memory.data(), MAGICUBE_INT8, row);
    const dn_mat c(4, 2, ld, c_memory.data(), MAGICUBE_INT8, row);
    for (int64_t k = 0; k < 3; ++k) {
        b_memory.data()[k * ld] = static_cast<int8_t>(k + 1);
        b_memory.data()[k * ld + 1] = -1;
    }
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = a;
    problem.c_type = MAGICUBE_INT8;
    problem.n_max = INT64_MAX;  // the range may be open
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    REQUIRE_OK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
    const aligned_buffer workspace(sizes.workspace_bytes);
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(handle, &problem, nullptr, 0, &plan));
    REQUIRE_OK(magicubeSpMM(handle, plan, nullptr, b, nullptr, c, nullptr, workspace.data(),
                            workspace.size()));
    for (int64_t i = 0; i < 4; ++i) {
        CHECK(c_memory.data()[i * ld] == (i + 1) + 2 * (i + 2) + 3 * (i + 3));
        CHECK(c_memory.data()[i * ld + 1] == -3 * i - 6);
        CHECK(c_memory.data()[i * ld + 2] == 0);
    }
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("issue_05_spmm_sizes_beyond_64_bits_are_refused_the_largest_k_is_not") {
    const std::vector<int64_t> zeros(1, 0);
    const sp_mat a(empty_a(1, INT32_MAX, zeros));
    const cpu_handle handle;
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = a;
    problem.n_max = INT64_MAX;
    problem.batch_count = INT64_MAX;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_bufferSize(handle, &problem, &sizes) == MAGICUBE_STATUS_SUCCESS);
    CHECK(sizes.workspace_bytes < size_t{1} << 37);
    problem.bias = MAGICUBE_GRANULARITY_ROW;
    problem.bias_batch_stride = 2;
    CHECK(magicubeSpMM_bufferSize(handle, &problem, &sizes) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("overflows 64 bits"));
    magicubeDnMatDescr_t far = nullptr;
    float value = 0;
    CHECK(magicubeCreateDnMat(&far, int64_t{1} << 40, 1, int64_t{1} << 30, &value, MAGICUBE_FP32,
                              row) == MAGICUBE_STATUS_INVALID_VALUE);
}
