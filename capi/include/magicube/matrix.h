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

/* ---- dense ----------------------------------------------------------------------------------- */

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

/*
 * Changes the number of columns and ld, so that a loop over batches of other widths makes no
 * descriptor.
 */
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

/* ---- sparse ---------------------------------------------------------------------------------- */

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
 * S >= 8 or V even). With br = ceil(rows / V) block rows:
 *   row_begin    br entries: first slot of a block row, a multiple of S
 *   row_end      br entries: one past its last real slot; the block row occupies slots up to
 *                row_end rounded up to a multiple of S
 *   col_indices  slots entries, ascending within a block row, -1 in padding slots
 *   values       slots * V elements: element (v, slot) at (slot / S) * V * S + v * S + slot % S;
 *                those of padding slots are not looked at; null: pattern alone
 *   slots        length of col_indices, a multiple of S
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

/*
 * V:N:M (Castro et al., SC'23): of every group of M columns a block of V rows selects a few that
 * its rows share, and each row keeps n elements in them. vector_length V is 1, 16, 32, 64, 128 or
 * 256; m is at most 65536 and need not divide cols, nor V rows. Values are int8, fp16, bf16, fp32
 * or e4m3. With G = ceil(cols / M) groups, a budget of C = 4 columns (n + 2 for n above 3; m is at
 * least C) and br = ceil(rows / V) block rows:
 *   column_loc   br * G * C entries, uint8 (uint16 where m is above 256): the selected columns of a
 *                block row in a group, counted from 0 inside the group, ascending. A last group of
 *                fewer than C columns names them all and then the last of them again.
 *   metadata     which of the C places each element of a row has in its group, ascending.
 *                n = 2: rows * ceil(G / 2) bytes, a nibble a group, the even group in the low one:
 *                the first element's place in the low two bits, the second's in the high two.
 *                Another n: rows * G * n bytes, a place each.
 *   values       rows * G * n elements, row after row, group after group; 0 at a place that repeats
 *                a column, where no element exists; null: pattern alone
 * n = 2 is what products take (m = 4 is plain 2:4 sparsity); other n are stored and converted only.
 * Example, V = 1, n = 2, m = 4, one row (0, 7, 0, 9, 5, 0) of 6 columns: column_loc = [0 1 2 3,
 * 0 1 1 1], metadata = [0x4d] (places 1 and 3 in group 0, 0 and 1 in group 1), values = [7 9, 5 0].
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateVnm(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                   int32_t vector_length, int32_t n, int32_t m,
                                   const void* column_loc, const uint8_t* metadata, void* values,
                                   magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstVnm(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t cols, int32_t vector_length, int32_t n, int32_t m,
                                        const void* column_loc, const uint8_t* metadata,
                                        const void* values,
                                        magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/*
 * Lengths of the arrays of such a matrix: entries of column_loc, bytes of metadata, elements of
 * values; any out pointer may be null.
 */
MAGICUBE_API
magicubeStatus_t magicubeVnmLengths(int64_t rows, int64_t cols, int32_t vector_length, int32_t n,
                                    int32_t m, int64_t* column_loc, int64_t* metadata,
                                    int64_t* values) MAGICUBE_NOEXCEPT;

/* Frees a descriptor of either kind, not its data; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeDestroySpMat(magicubeConstSpMatDescr_t matrix) MAGICUBE_NOEXCEPT;

/* What every sparse descriptor tells; any out pointer may be null. */
MAGICUBE_API
magicubeStatus_t magicubeSpMatGet(magicubeConstSpMatDescr_t matrix, magicubeSparseFormat_t* format,
                                  int64_t* rows, int64_t* cols, magicubeDataType_t* value_type,
                                  const void** values) MAGICUBE_NOEXCEPT;

/*
 * Reads a CSR, BSR, SR-BCRS or V:N:M descriptor; INVALID_VALUE for another format; any out pointer
 * may be null.
 */
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
MAGICUBE_API
magicubeStatus_t magicubeVnmGet(magicubeConstSpMatDescr_t matrix, int32_t* vector_length,
                                int32_t* n, int32_t* m, const void** column_loc,
                                const uint8_t** metadata) MAGICUBE_NOEXCEPT;

/*
 * Points a descriptor at other index arrays of a matrix of the same shape, with another number of
 * stored elements. The values, set apart, must fit.
 */
MAGICUBE_API
magicubeStatus_t magicubeCsrSetPointers(magicubeConstSpMatDescr_t matrix, int64_t nnz,
                                        const void* offsets,
                                        const int32_t* col_indices) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeBsrSetPointers(magicubeConstSpMatDescr_t matrix, int64_t nnzb,
                                        const void* offsets,
                                        const int32_t* block_col_indices) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSrBcrsSetPointers(magicubeConstSpMatDescr_t matrix, int64_t slots,
                                           const void* row_begin, const void* row_end,
                                           const int32_t* col_indices) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeVnmSetPointers(magicubeConstSpMatDescr_t matrix, const void* column_loc,
                                        const uint8_t* metadata) MAGICUBE_NOEXCEPT;

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
 * of values serves all; even for int4). For every format.
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
