// SPDX-License-Identifier: Apache-2.0
// The part of cuSPARSE's generic C interface that the benchmark calls, bound at run time. Names and
// numbers are those of its documentation.
#pragma once

#include <library_types.h>

#include "../library.hpp"

namespace bench {

struct cusparse_api {
    static constexpr int index_32 = 2;        // cusparseIndexType_t
    static constexpr int base_zero = 0;       // cusparseIndexBase_t
    static constexpr int col = 1, row = 2;    // cusparseOrder_t
    static constexpr int not_transposed = 0;  // cusparseOperation_t
    static constexpr int csr_1 = 4, csr_2 = 6, csr_3 = 12, blocked_ell_1 = 13, bsr_1 = 14;

    int (*create)(void** handle);
    int (*set_stream)(void* handle, cudaStream_t stream);
    int (*create_csr)(void** matrix, int64_t rows, int64_t cols, int64_t nonzeros, void* offsets,
                      void* col_indices, void* values, int offset_type, int index_type, int base,
                      cudaDataType type);
    int (*create_bsr)(void** matrix, int64_t block_rows, int64_t block_cols, int64_t blocks,
                      int64_t rows_a_block, int64_t cols_a_block, void* offsets, void* col_indices,
                      void* values, int offset_type, int index_type, int base, cudaDataType type,
                      int order);
    int (*create_blocked_ell)(void** matrix, int64_t rows, int64_t cols, int64_t block_size,
                              int64_t ell_cols, void* col_indices, void* values, int index_type,
                              int base, cudaDataType type);
    int (*create_dense)(void** matrix, int64_t rows, int64_t cols, int64_t ld, void* values,
                        cudaDataType type, int order);
    int (*destroy_sparse)(const void* matrix);
    int (*destroy_dense)(const void* matrix);
    int (*buffer_size)(void* handle, int op_a, int op_b, const void* alpha, const void* a,
                       const void* b, const void* beta, void* c, cudaDataType compute,
                       int algorithm, size_t* bytes);
    int (*preprocess)(void* handle, int op_a, int op_b, const void* alpha, const void* a,
                      const void* b, const void* beta, void* c, cudaDataType compute, int algorithm,
                      void* buffer);
    int (*spmm)(void* handle, int op_a, int op_b, const void* alpha, const void* a, const void* b,
                const void* beta, void* c, cudaDataType compute, int algorithm, void* buffer);
    void* handle = nullptr;

    cusparse_api() {
        try {
            library({"libnvJitLink.so.13", "libnvJitLink.so.12"});  // cuSPARSE needs it
        } catch (const failure&) {
            // It may still find one by itself.
        }
        const library lib({"libcusparse.so.12", "libcusparse.so.13"});
        lib.bind(create, "cusparseCreate");
        lib.bind(set_stream, "cusparseSetStream");
        lib.bind(create_csr, "cusparseCreateCsr");
        lib.bind(create_bsr, "cusparseCreateBsr");
        lib.bind(create_blocked_ell, "cusparseCreateBlockedEll");
        lib.bind(create_dense, "cusparseCreateDnMat");
        lib.bind(destroy_sparse, "cusparseDestroySpMat");
        lib.bind(destroy_dense, "cusparseDestroyDnMat");
        lib.bind(buffer_size, "cusparseSpMM_bufferSize");
        lib.bind(preprocess, "cusparseSpMM_preprocess");
        lib.bind(spmm, "cusparseSpMM");
        check(create(&handle), "cusparseCreate");
    }

    static void check(int status, const char* call) {
        if (status != 0) fail(call, " returned status ", status);
    }

    // Loaded once; the handle lives as long as the process.
    static const cusparse_api& instance() {
        static const cusparse_api api;
        return api;
    }
};

}  // namespace bench
