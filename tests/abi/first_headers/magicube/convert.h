/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion between dense, CSR, BSR, dense boolean masks and SR-BCRS, on the handle's device.
 *
 * To a sparse format in three steps: ..._bufferSize tells the scratch, ..._count writes the offsets
 * and how many slots (or nonzeros, or blocks) there are, the caller allocates, ..._fill writes the
 * rest. _count reads that number back, so it synchronises the handle's stream; _fill does not. Both
 * need the same source.
 *
 * Which elements exist: from dense, those of a vector, one of whose scalars is not zero (the vector
 * is stored whole); from CSR, BSR or a mask, every stored or marked entry, zero or not, and the
 * element mask says which. Value types: the same on both sides, or any two floating types (rounded
 * to nearest even).
 */
#ifndef MAGICUBE_CONVERT_H
#define MAGICUBE_CONVERT_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

/*
 * Destination of a conversion to SR-BCRS. The caller sets vector_length, stride and types, the
 * offset arrays before _count, and slots (as _count gave it) and the other arrays before _fill;
 * then magicubeCreateSrBcrs makes the descriptor. With a batch of b sources, row_begin and row_end
 * hold b * br entries and the result is a batch of different patterns. Layouts as in matrix.h.
 */
typedef struct magicubeSrBcrsArrays {
    size_t struct_size;
    int32_t vector_length;
    int32_t stride; /* 0: the default, 32 for 4- and 8-bit values, 16 for others, 1 for V = 1 (int4:
                       32) */
    magicubeIndexType_t offset_type;
    magicubeDataType_t value_type;
    int64_t slots;
    void* row_begin;
    void* row_end;
    int32_t* col_indices;
    void* values;          /* null: the pattern alone */
    uint8_t* element_mask; /* null: none is written */
} magicubeSrBcrsArrays_t;
#define MAGICUBE_SR_BCRS_ARRAYS_INIT                                                           \
    {                                                                                          \
        sizeof(magicubeSrBcrsArrays_t), 0, 0, MAGICUBE_INDEX_64, MAGICUBE_FP32, 0, NULL, NULL, \
            NULL, NULL, NULL                                                                   \
    }

/* The stride that 0 stands for. INVALID_VALUE for an unknown vector length or type. */
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsDefaultStride(int32_t vector_length, magicubeDataType_t type,
                                             int32_t* stride) MAGICUBE_NOEXCEPT;

/*
 * Dense -> SR-BCRS. mask, if not null, is a uint8 matrix of the same shape and batch: an element
 * exists where it is not 0, whatever the value (dense may then have null values, for a pattern
 * alone).
 */
MAGICUBE_API
magicubeStatus_t magicubeDenseToSrBcrs_bufferSize(magicubeHandle_t handle,
                                                  magicubeConstDnMatDescr_t dense,
                                                  magicubeConstDnMatDescr_t mask,
                                                  const magicubeSrBcrsArrays_t* arrays,
                                                  size_t* bytes) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeDenseToSrBcrs_count(magicubeHandle_t handle,
                                             magicubeConstDnMatDescr_t dense,
                                             magicubeConstDnMatDescr_t mask,
                                             const magicubeSrBcrsArrays_t* arrays, int64_t* slots,
                                             void* workspace,
                                             size_t workspace_size) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeDenseToSrBcrs_fill(magicubeHandle_t handle,
                                            magicubeConstDnMatDescr_t dense,
                                            magicubeConstDnMatDescr_t mask,
                                            const magicubeSrBcrsArrays_t* arrays, void* workspace,
                                            size_t workspace_size) MAGICUBE_NOEXCEPT;

/* CSR, BSR or SR-BCRS (another V or S) -> SR-BCRS. */
MAGICUBE_API
magicubeStatus_t magicubeSparseToSrBcrs_bufferSize(magicubeHandle_t handle,
                                                   magicubeConstSpMatDescr_t source,
                                                   const magicubeSrBcrsArrays_t* arrays,
                                                   size_t* bytes) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseToSrBcrs_count(magicubeHandle_t handle,
                                              magicubeConstSpMatDescr_t source,
                                              const magicubeSrBcrsArrays_t* arrays, int64_t* slots,
                                              void* workspace,
                                              size_t workspace_size) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseToSrBcrs_fill(magicubeHandle_t handle,
                                             magicubeConstSpMatDescr_t source,
                                             const magicubeSrBcrsArrays_t* arrays, void* workspace,
                                             size_t workspace_size) MAGICUBE_NOEXCEPT;

/* CSR, BSR or SR-BCRS -> dense, of the same shape and batch, in either order; absent elements
 * become 0. */
MAGICUBE_API
magicubeStatus_t magicubeSparseToDense(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                       magicubeDnMatDescr_t dense) MAGICUBE_NOEXCEPT;

/* CSR, BSR or SR-BCRS -> a uint8 matrix with 1 where an element exists and 0 elsewhere. */
MAGICUBE_API
magicubeStatus_t magicubeSparseToMask(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                      magicubeDnMatDescr_t mask) MAGICUBE_NOEXCEPT;

/*
 * SR-BCRS (one matrix, no batch) -> CSR: every existing element, zeros included. _count writes
 * offsets (rows + 1 entries) and nnz; _fill col_indices and, unless null, values.
 */
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsToCsr_count(magicubeHandle_t handle,
                                           magicubeConstSpMatDescr_t source,
                                           magicubeIndexType_t offset_type, void* offsets,
                                           int64_t* nnz) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsToCsr_fill(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                          magicubeIndexType_t offset_type, const void* offsets,
                                          int32_t* col_indices, void* values,
                                          magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/*
 * SR-BCRS (one matrix, no batch) -> BSR with blocks of block_rows x block_cols: every block in
 * which an element exists. _count writes offsets (ceil(rows / block_rows) + 1 entries) and nnzb.
 */
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsToBsr_count(magicubeHandle_t handle,
                                           magicubeConstSpMatDescr_t source, int64_t block_rows,
                                           int64_t block_cols, magicubeIndexType_t offset_type,
                                           void* offsets, int64_t* nnzb) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsToBsr_fill(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                          int64_t block_rows, int64_t block_cols,
                                          magicubeIndexType_t offset_type, const void* offsets,
                                          int32_t* block_col_indices, void* values,
                                          magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/*
 * Checks a sparse matrix wholly, whatever the handle's validation level (CPU handle): offsets,
 * ascending columns in range, padding. INVALID_VALUE with the place and the rule if it is
 * malformed.
 */
MAGICUBE_API
magicubeStatus_t magicubeSpMatValidate(magicubeHandle_t handle,
                                       magicubeConstSpMatDescr_t matrix) MAGICUBE_NOEXCEPT;

#endif
