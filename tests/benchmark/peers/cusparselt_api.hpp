// SPDX-License-Identifier: Apache-2.0
// The part of cuSPARSELt's C interface (0.8) that the benchmark calls, bound at run time. Names and
// numbers are those of its documentation.
#pragma once

#include <library_types.h>

#include "../library.hpp"

namespace bench {

// Handles, descriptors and plans, which the caller owns; larger than any version's.
struct alignas(16) cusparselt_object {
    uint8_t data[1 << 14];
};

struct cusparselt_api {
    using object = cusparselt_object;
    static constexpr int col = 1, row = 2;                  // cusparseOrder_t
    static constexpr int not_transposed = 0;                // cusparseOperation_t
    static constexpr int compute_32i = 0, compute_32f = 2;  // cusparseComputeType
    static constexpr int half_sparse = 0;                   // cusparseLtSparsity_t
    static constexpr int default_algorithm = 0;             // cusparseLtMatmulAlg_t
    static constexpr int algorithm_number = 0;              // cusparseLtMatmulAlgAttribute_t
    static constexpr int prune_strips = 1;                  // cusparseLtPruneAlg_t

    int (*init)(object* handle);
    int (*get_version)(const object* handle, int* version);
    int (*dense_init)(const object* handle, object* matrix, int64_t rows, int64_t cols, int64_t ld,
                      uint32_t alignment, cudaDataType type, int order);
    int (*structured_init)(const object* handle, object* matrix, int64_t rows, int64_t cols,
                           int64_t ld, uint32_t alignment, cudaDataType type, int order,
                           int sparsity);
    int (*matrix_destroy)(const object* matrix);
    int (*matmul_init)(const object* handle, object* matmul, int op_a, int op_b, const object* a,
                       const object* b, const object* c, const object* d, int compute);
    int (*selection_init)(const object* handle, object* selection, const object* matmul,
                          int algorithm);
    int (*selection_get)(const object* handle, const object* selection, int attribute, void* value,
                         size_t bytes);
    int (*plan_init)(const object* handle, object* plan, const object* matmul,
                     const object* selection);
    int (*plan_destroy)(const object* plan);
    int (*workspace)(const object* handle, const object* plan, size_t* bytes);
    int (*prune)(const object* handle, const object* matmul, const void* in, void* out,
                 int algorithm, cudaStream_t stream);
    int (*compressed_size)(const object* handle, const object* plan, size_t* bytes,
                           size_t* buffer_bytes);
    int (*compress)(const object* handle, const object* plan, const void* dense, void* compressed,
                    void* buffer, cudaStream_t stream);
    using product = int(const object* handle, const object* plan, const void* alpha, const void* a,
                        const void* b, const void* beta, const void* c, void* d, void* workspace,
                        cudaStream_t* streams, int32_t stream_count);
    product* matmul;
    int (*search)(const object* handle, object* plan, const void* alpha, const void* a,
                  const void* b, const void* beta, const void* c, void* d, void* workspace,
                  cudaStream_t* streams, int32_t stream_count);
    object handle{};
    std::string version;

    cusparselt_api() {
        const library lib({"libcusparseLt.so.0"});
        lib.bind(init, "cusparseLtInit");
        lib.bind(get_version, "cusparseLtGetVersion");
        lib.bind(dense_init, "cusparseLtDenseDescriptorInit");
        lib.bind(structured_init, "cusparseLtStructuredDescriptorInit");
        lib.bind(matrix_destroy, "cusparseLtMatDescriptorDestroy");
        lib.bind(matmul_init, "cusparseLtMatmulDescriptorInit");
        lib.bind(selection_init, "cusparseLtMatmulAlgSelectionInit");
        lib.bind(selection_get, "cusparseLtMatmulAlgGetAttribute");
        lib.bind(plan_init, "cusparseLtMatmulPlanInit");
        lib.bind(plan_destroy, "cusparseLtMatmulPlanDestroy");
        lib.bind(workspace, "cusparseLtMatmulGetWorkspace");
        lib.bind(prune, "cusparseLtSpMMAPrune");
        lib.bind(compressed_size, "cusparseLtSpMMACompressedSize");
        lib.bind(compress, "cusparseLtSpMMACompress");
        lib.bind(matmul, "cusparseLtMatmul");
        lib.bind(search, "cusparseLtMatmulSearch");
        check(init(&handle), "cusparseLtInit");
        int number = 0;
        check(get_version(&handle, &number), "cusparseLtGetVersion");
        version = text(number / 1000, ".", number / 100 % 10, ".", number % 100);
    }

    static void check(int status, const char* call) {
        if (status != 0) fail(call, " returned status ", status);
    }

    // Loaded once; the handle lives as long as the process.
    static const cusparselt_api& instance() {
        static const cusparselt_api api;
        return api;
    }
};

}  // namespace bench
