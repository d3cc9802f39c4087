// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt's C interface (versions 12 and 13) that the benchmark calls, bound at run
// time. Names and numbers are those of its documentation.
#pragma once

#include <library_types.h>

#include "../library.hpp"

namespace bench {

struct cublaslt_algorithm {
    uint64_t data[8];
};

struct cublaslt_heuristic {
    cublaslt_algorithm algorithm;
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

struct cublaslt_api {
    static constexpr int compute_32f = 68, compute_32i = 72;  // cublasComputeType_t
    static constexpr int transpose = 1;                       // cublasOperation_t
    static constexpr int transpose_a = 3;                     // CUBLASLT_MATMUL_DESC_TRANSA
    static constexpr int most_workspace = 1;                  // ..._PREF_MAX_WORKSPACE_BYTES

    int (*create)(void** handle);
    int (*matmul_create)(void** operation, int compute, cudaDataType scale);
    int (*matmul_set)(void* operation, int attribute, const void* value, size_t bytes);
    int (*layout_create)(void** layout, cudaDataType type, uint64_t rows, uint64_t cols,
                         int64_t ld);
    int (*preference_create)(void** preference);
    int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes);
    int (*heuristics)(void* handle, void* operation, void* a, void* b, void* c, void* d,
                      void* preference, int wanted, cublaslt_heuristic* results, int* count);
    int (*matmul)(void* handle, void* operation, const void* alpha, const void* a, void* a_layout,
                  const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                  void* d, void* d_layout, const cublaslt_algorithm* algorithm, void* workspace,
                  size_t workspace_bytes, cudaStream_t stream);
    void* handle = nullptr;

    cublaslt_api() {
        const library lib({"libcublasLt.so.13", "libcublasLt.so.12"});
        lib.bind(create, "cublasLtCreate");
        lib.bind(matmul_create, "cublasLtMatmulDescCreate");
        lib.bind(matmul_set, "cublasLtMatmulDescSetAttribute");
        lib.bind(layout_create, "cublasLtMatrixLayoutCreate");
        lib.bind(preference_create, "cublasLtMatmulPreferenceCreate");
        lib.bind(preference_set, "cublasLtMatmulPreferenceSetAttribute");
        lib.bind(heuristics, "cublasLtMatmulAlgoGetHeuristic");
        lib.bind(matmul, "cublasLtMatmul");
        check(create(&handle), "cublasLtCreate");
    }

    static void check(int status, const char* call) {
        if (status != 0) fail(call, " returned status ", status);
    }

    // Loaded once; the handle lives as long as the process.
    static const cublaslt_api& instance() {
        static const cublaslt_api api;
        return api;
    }
};

}  // namespace bench
