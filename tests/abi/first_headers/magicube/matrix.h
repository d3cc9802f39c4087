/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of dense and sparse matrices. A descriptor owns no data: the caller keeps the arrays
 * alive as long as calls use them, and they lie on the device of the handle that those calls get.
 * Operations never change a descriptor. Sizes are int64. A descriptor is made from host memory
 * only; index arrays are looked at by the operations that use it (as the handle's validation level
 * says), not when it is made.
 *
 * A CreateConst... twin makes a descriptor over values that the library must not write.
 */
#ifndef MAGICUBE_MATRIX_H
#define MAGICUBE_MATRIX_H

#include "magicube/status.h"
#include "magicube/types.h"

/* ---- dense
 * ------------------------------------------------------------------------------------------- */

/*
 * rows x cols elements. ld, the leading dimension, is the distance in elements between rows (ROW)
 * or columns (COL) and at least the length of one. values may be null where the matrix is empty.
 * A const descriptor may have null values in any case: a shape alone, for the calls that say so.
 * int4: ld is even, so that every row or column starts on a byte; where its length is odd, the high
 * nibble of the last byte is ignored on input and kept on output.
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateDnMat(magicubeDnMatDescr_t* matrix, int64_t rows, int64_t cols,
                                     int64_t ld, void* values, magicubeDataType_t type,
                                     magicubeOrder_t order) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstDnMat(magicubeConstDnMatDescr_t* matrix, int64_t rows,
                                          int64_t cols, int64_t ld, const void* values,
                                          magicubeDataType_t type,
                                          magicubeOrder_t order) MAGICUBE_NOEXCEPT;

/* Frees a descriptor of either kind, not its data; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeDestroyDnMat(magicubeConstDnMatDescr_t matrix) MAGICUBE_NOEXCEPT;

/* Reads a descriptor; any out pointer may be null. */
MAGICUBE_API
magicubeStatus_t magicubeDnMatGet(magicubeConstDnMatDescr_t matrix, int64_t* rows, int64_t* cols,
                                  int64_t* ld, const void** values, magicubeDataType_t* type,
                                  magicubeOrder_t* order) MAGICUBE_NOEXCEPT;

/* Points a descriptor at other values of the same shape. INVALID_VALUE for a const descriptor. */
MAGICUBE_API
magicubeStatus_t magicubeDnMatSetValues(magicubeDnMatDescr_t matrix,
                                        void* values) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeConstDnMatSetValues(magicubeConstDnMatDescr_t matrix,
                                             const void* values) MAGICUBE_NOEXCEPT;

/* Changes the number of columns and ld, so that a loop over batches of other widths makes no
 * descriptor. */
MAGICUBE_API
magicubeStatus_t magicubeDnMatSetCols(magicubeConstDnMatDescr_t matrix, int64_t cols,
                                      int64_t ld) MAGICUBE_NOEXCEPT;

/*
 * Makes the descriptor a batch of count matrices (1 until set), stride elements apart (even for
 * int4). stride 0 means that one matrix serves the whole batch, allowed for inputs.
 */
MAGICUBE_API
magicubeStatus_t magicubeDnMatSetStridedBatch(magicubeConstDnMatDescr_t matrix, int64_t count,
                                              int64_t stride) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeDnMatGetStridedBatch(magicubeConstDnMatDescr_t matrix, int64_t* count,
                                              int64_t* stride) MAGICUBE_NOEXCEPT;

/* ---- sparse
 * ------------------------------------------------------------------------------------------ */

/*
 * CSR: offsets has rows + 1 entries, column indices ascend within a row, values may be null
 * (pattern alone). rows and cols are at most 2^31 - 1. nnz is the length of col_indices and values.
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateCsr(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                   int64_t nnz, const void* offsets, const int32_t* col_indices,
                                   void* values, magicubeIndexType_t offset_type,
                                   magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstCsr(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t cols, int64_t nnz, const void* offsets,
                                        const int32_t* col_indices, const void* values,
                                        magicubeIndexType_t offset_type,
                                        magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/*
 * BSR: blocks of block_rows x block_cols, each row-major, one after another; offsets has
 * ceil(rows / block_rows) + 1 entries; block-column indices ascend within a block row. Elements
 * past the matrix's edge are zero. nnzb is the number of blocks.
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateBsr(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                   int64_t block_rows, int64_t block_cols, int64_t nnzb,
                                   const void* offsets, const int32_t* block_col_indices,
                                   void* values, magicubeIndexType_t offset_type,
                                   magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstBsr(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t cols, int64_t block_rows, int64_t block_cols,
                                        int64_t nnzb, const void* offsets,
                                        const int32_t* block_col_indices, const void* values,
                                        magicubeIndexType_t offset_type,
                                        magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/*
 * SR-BCRS (strided row-major block compressed rows; Li, Osawa and Hoefler, SC'22): vectors of
 * vector_length x 1. vector_length V is 1, 2, 4, 8, 16, 32 or 64, stride S is 1, 8, 16 or 32 (int4:
 * S >= 8 or V even). With br = ceil(rows / V) block rows: row_begin, row_end  br entries each:
 * first slot of a block row, a multiple of S, and one past its last real slot; the block row
 * occupies slots up to row_end rounded up to a multiple of S col_indices         slots entries,
 * ascending within a block row, -1 in padding slots values              slots * V elements: element
 * (v, slot) at (slot / S) * V * S + v * S + slot % S; null: pattern alone slots length of
 * col_indices, a multiple of S
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateSrBcrs(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                      int32_t vector_length, int32_t stride, int64_t slots,
                                      const void* row_begin, const void* row_end,
                                      const int32_t* col_indices, void* values,
                                      magicubeIndexType_t offset_type,
                                      magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstSrBcrs(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                           int64_t cols, int32_t vector_length, int32_t stride,
                                           int64_t slots, const void* row_begin,
                                           const void* row_end, const int32_t* col_indices,
                                           const void* values, magicubeIndexType_t offset_type,
                                           magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/* Frees a descriptor of either kind, not its data; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeDestroySpMat(magicubeConstSpMatDescr_t matrix) MAGICUBE_NOEXCEPT;

/* What every sparse descriptor tells; any out pointer may be null. */
MAGICUBE_API
magicubeStatus_t magicubeSpMatGet(magicubeConstSpMatDescr_t matrix, magicubeSparseFormat_t* format,
                                  int64_t* rows, int64_t* cols, magicubeDataType_t* value_type,
                                  const void** values) MAGICUBE_NOEXCEPT;

/* Reads a CSR, BSR or SR-BCRS descriptor; INVALID_VALUE for another format; any out pointer may be
 * null. */
MAGICUBE_API
magicubeStatus_t magicubeCsrGet(magicubeConstSpMatDescr_t matrix, int64_t* nnz,
                                const void** offsets, const int32_t** col_indices,
                                magicubeIndexType_t* offset_type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeBsrGet(magicubeConstSpMatDescr_t matrix, int64_t* block_rows,
                                int64_t* block_cols, int64_t* nnzb, const void** offsets,
                                const int32_t** block_col_indices,
                                magicubeIndexType_t* offset_type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsGet(magicubeConstSpMatDescr_t matrix, int32_t* vector_length,
                                   int32_t* stride, int64_t* slots, const void** row_begin,
                                   const void** row_end, const int32_t** col_indices,
                                   const uint8_t** element_mask,
                                   magicubeIndexType_t* offset_type) MAGICUBE_NOEXCEPT;

/* Points a descriptor at other values of the same pattern. INVALID_VALUE for a const descriptor. */
MAGICUBE_API
magicubeStatus_t magicubeSpMatSetValues(magicubeSpMatDescr_t matrix,
                                        void* values) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeConstSpMatSetValues(magicubeConstSpMatDescr_t matrix,
                                             const void* values) MAGICUBE_NOEXCEPT;

/*
 * Element mask of an SR-BCRS descriptor: ceil(V / 8) bytes a slot, bit v set if element (v, slot)
 * exists. Null (the default): every element does. An absent element's value is 0.
 */
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsSetElementMask(magicubeConstSpMatDescr_t matrix,
                                              const uint8_t* element_mask) MAGICUBE_NOEXCEPT;

/*
 * Batch of count matrices with one pattern, their values values_stride elements apart (0: one set
 * of values serves all; even for int4). For CSR, BSR and SR-BCRS.
 */
MAGICUBE_API
magicubeStatus_t magicubeSpMatSetStridedBatch(magicubeConstSpMatDescr_t matrix, int64_t count,
                                              int64_t values_stride) MAGICUBE_NOEXCEPT;

/*
 * Batch of count matrices of one shape with different patterns, for SR-BCRS: row_begin and row_end
 * hold count * br entries, absolute slots of the shared col_indices, values and element_mask.
 */
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsSetPatternBatch(magicubeConstSpMatDescr_t matrix,
                                               int64_t count) MAGICUBE_NOEXCEPT;

/* count is 1 until set; different_patterns is 1 after magicubeSrBcrsSetPatternBatch. */
MAGICUBE_API
magicubeStatus_t magicubeSpMatGetBatch(magicubeConstSpMatDescr_t matrix, int64_t* count,
                                       int64_t* values_stride,
                                       int32_t* different_patterns) MAGICUBE_NOEXCEPT;

#endif
