// SPDX-License-Identifier: Apache-2.0
// SpMM through the C ABI, on a GPU and on the CPU: of int8 matrices, unless a type is named.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"

namespace support {

// A random int8 matrix in SR-BCRS, or a batch of different patterns.
struct sparse_int8 {
    static constexpr int64_t V = 8, S = 32;

    int64_t rows, cols, batch;
    std::vector<int64_t> begin, end;
    std::vector<int32_t> columns;
    std::vector<unsigned char> values;

    sparse_int8(int64_t m, int64_t k, double density, std::mt19937& random, int64_t count = 1)
        : rows(m), cols(k), batch(count) {
        std::bernoulli_distribution present(density);
        for (int64_t i = 0; i < batch * ((m + V - 1) / V); ++i) {
            begin.push_back(static_cast<int64_t>(columns.size()));
            for (int64_t c = 0; c < k; ++c)
                if (present(random)) columns.push_back(static_cast<int32_t>(c));
            end.push_back(static_cast<int64_t>(columns.size()));
            while (columns.size() % S != 0) columns.push_back(-1);
        }
        values = random_bytes(columns.size() * V, random);
    }

    // The value at (row, slot).
    int32_t at(int64_t row, int64_t slot) const {
        return static_cast<signed char>(
            values[static_cast<size_t>(slot / S * S * V + row % V * S + slot % S)]);
    }
};

// Its descriptor over arrays of either device.
struct descriptor {
    magicubeConstSpMatDescr_t value = nullptr;

    descriptor(const sparse_int8& a, const void* begin, const void* end, const void* columns,
               const void* values, magicubeDataType_t type = MAGICUBE_INT8) {
        REQUIRE(magicubeCreateConstSrBcrs(&value, a.rows, a.cols, a.V, a.S,
                                          static_cast<int64_t>(a.columns.size()), begin, end,
                                          static_cast<const int32_t*>(columns), values,
                                          MAGICUBE_INDEX_64, type) == MAGICUBE_STATUS_SUCCESS);
        if (a.batch > 1)
            REQUIRE(magicubeSrBcrsSetPatternBatch(value, a.batch) == MAGICUBE_STATUS_SUCCESS);
    }
    ~descriptor() { magicubeDestroySpMat(value); }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
};

// Sizes of one product; distances in elements.
struct product_shape {
    int64_t m, k, n;
    int64_t batch = 1;
    int64_t b_ld = 0, c_ld = 0;  // 0: rows without gaps
    magicubeDataType_t b_type = MAGICUBE_INT8;
    magicubeDataType_t c_type = MAGICUBE_INT32;

    int64_t ldb() const { return b_ld ? b_ld : n; }
    int64_t ldc() const { return c_ld ? c_ld : n; }
    int64_t b_elements() const { return batch * k * ldb(); }
    int64_t c_elements() const { return batch * m * ldc(); }
};

using change = std::function<void(magicubeSpMMProblem_t&)>;

struct plan {
    magicubeSpMMPlan_t value = nullptr;
    size_t workspace_bytes = 0;

    plan(magicubeHandle_t handle, const magicubeSpMMProblem_t& problem) {
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        REQUIRE(magicubeSpMM_bufferSize(handle, &problem, &sizes) == MAGICUBE_STATUS_SUCCESS);
        workspace_bytes = sizes.workspace_bytes;
        REQUIRE(magicubeSpMM_createPlan(handle, &problem, nullptr, 0, &value) ==
                MAGICUBE_STATUS_SUCCESS);
    }
    ~plan() { magicubeSpMM_destroyPlan(value); }
    plan(const plan&) = delete;
    plan& operator=(const plan&) = delete;
};

inline magicubeSpMMProblem_t problem_of(magicubeConstSpMatDescr_t a, const product_shape& s,
                                        const change& more = {}) {
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = a;
    problem.b_type = s.b_type;
    problem.c_type = s.c_type;
    problem.n_max = s.n;
    problem.batch_count = s.batch;
    if (more) more(problem);
    return problem;
}

inline magicubeStatus_t multiply(magicubeHandle_t handle, const plan& p, const product_shape& s,
                                 const void* b, void* c, void* workspace, float alpha = 1) {
    magicubeConstDnMatDescr_t B = nullptr;
    magicubeDnMatDescr_t C = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&B, s.k, s.n, s.ldb(), b, s.b_type, MAGICUBE_ORDER_ROW) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeCreateDnMat(&C, s.m, s.n, s.ldc(), c, s.c_type, MAGICUBE_ORDER_ROW) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeDnMatSetStridedBatch(B, s.batch, s.k * s.ldb()) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeDnMatSetStridedBatch(C, s.batch, s.m * s.ldc()) == MAGICUBE_STATUS_SUCCESS);
    const auto status =
        magicubeSpMM(handle, p.value, &alpha, B, nullptr, C, nullptr, workspace, p.workspace_bytes);
    magicubeDestroyDnMat(B);
    magicubeDestroyDnMat(C);
    return status;
}

// One sparse matrix on both devices.
struct both {
    cpu_handle cpu;
    cuda_handle gpu;
    std::mt19937 random;
    sparse_int8 a;
    descriptor host;
    device_bytes begin, end, columns, values;
    descriptor device;

    both(int64_t rows, int64_t cols, double density, unsigned seed, int64_t batch = 1,
         int32_t ordinal = 0)
        : gpu(ordinal),
          random(seed),
          a(rows, cols, density, random, batch),
          host(a, a.begin.data(), a.end.data(), a.columns.data(), a.values.data()),
          begin(gpu, a.begin),
          end(gpu, a.end),
          columns(gpu, a.columns),
          values(gpu, a.values),
          device(a, begin.data(), end.data(), columns.data(), values.data()) {}

    product_shape shape(int64_t n) const { return {a.rows, a.cols, n, a.batch}; }
    std::vector<unsigned char> make_b(const product_shape& s) {
        return random_bytes(static_cast<size_t>(s.b_elements()), random);
    }
    // C as the CPU computes it, over 0xff.
    std::vector<int32_t> expected(const std::vector<unsigned char>& b, const product_shape& s) {
        const plan p(cpu, problem_of(host.value, s));
        std::vector<int32_t> c(static_cast<size_t>(s.c_elements()), -1);
        void* workspace = nullptr;
        REQUIRE(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, p.workspace_bytes, &workspace) ==
                MAGICUBE_STATUS_SUCCESS);
        REQUIRE(multiply(cpu, p, s, b.data(), c.data(), workspace) == MAGICUBE_STATUS_SUCCESS);
        magicubeFree(MAGICUBE_DEVICE_CPU, 0, workspace);
        return c;
    }
    device_bytes poisoned(size_t bytes) const {
        return device_bytes(gpu, std::vector<unsigned char>(bytes, 0xff));
    }
    device_bytes poisoned_c(const product_shape& s) const {
        return poisoned(static_cast<size_t>(s.c_elements() * magicubeGetDataTypeBits(s.c_type)) /
                        8);
    }
    device_bytes workspace_for(const plan& p) const { return poisoned(p.workspace_bytes + 1); }

    // One execution gives what the CPU computed from the same B.
    void check_product(const plan& p, const product_shape& s, const std::vector<unsigned char>& b,
                       const std::vector<int32_t>& right) const {
        const device_bytes device_b(gpu, b), c = poisoned_c(s), workspace = workspace_for(p);
        REQUIRE(multiply(gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                MAGICUBE_STATUS_SUCCESS);
        REQUIRE(c.read<int32_t>(gpu) == right);
    }

    // Calls test(name, plan) for each implementation that takes the problem.
    template <class Test>
    void each_implementation(const product_shape& s, const change& more, const Test& test) {
        const char* names[32];
        int32_t count = 0, taken = 0;
        REQUIRE(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CUDA, names, 32, &count) ==
                MAGICUBE_STATUS_SUCCESS);
        REQUIRE(count <= 32);
        for (int32_t i = 0; i < count; ++i) {
            CAPTURE(std::string(names[i]));
            auto problem = problem_of(device.value, s, more);
            problem.implementation = names[i];
            const auto status = magicubeSpMM_isSupported(gpu, &problem);
            if (status == MAGICUBE_STATUS_NOT_SUPPORTED) continue;
            REQUIRE(status == MAGICUBE_STATUS_SUCCESS);
            test(names[i], plan(gpu, problem));
            ++taken;
        }
        REQUIRE(taken >= 1);
    }
};

}  // namespace support
