/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kronecker-sparse factors and chains of them (butterfly, Monarch, block-diagonal, low rank).
 *
 * A factor (a, b, c, d) is K with support I_a (x) 1_{b x c} (x) I_d, of size (a b d) x (a c d), and
 * values W[a][b][c][d], row-major:
 *     K[(i b + j) d + l, (i c + k) d + l] = W[i, j, k, l]; every other element is 0.
 * Dense is (1, M, N, 1), block-diagonal (a, b, c, 1), factor l of the dyadic butterfly of size 2^n
 * (2^(l-1), 2, 2, 2^(n-l)). A chain K_1 K_2 ... K_L is a list of factors, leftmost first, whose
 * neighbours fit: a1 c1 d1 = a2 b2 d2. All factors of a chain have one type.
 *
 * Example, (a, b, c, d) = (1, 2, 2, 2), W = {1, 2, 3, 4, 5, 6, 7, 8}:
 *     1 . 3 .
 *     . 2 . 4
 *     5 . 7 .
 *     . 6 . 8
 *
 * What is declared here runs on the CPU; a handle on CUDA gets NOT_SUPPORTED. Products
 * (kronecker_mm.h) run on both.
 */
#ifndef MAGICUBE_KRONECKER_H
#define MAGICUBE_KRONECKER_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

typedef struct magicubeKroneckerShape {
    int64_t a;
    int64_t b;
    int64_t c;
    int64_t d;
} magicubeKroneckerShape_t;

/* ---- descriptors ----------------------------------------------------------------------------- */

/*
 * A factor. Sizes are at least 1, and the number of rows, columns and bytes fits 63 bits; values
 * may be null (pattern alone). The descriptor owns no data. The Const twin makes one whose values
 * the library must not write.
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateKronecker(magicubeKroneckerDescr_t* matrix, int64_t a, int64_t b,
                                         int64_t c, int64_t d, void* values,
                                         magicubeDataType_t type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstKronecker(magicubeConstKroneckerDescr_t* matrix, int64_t a,
                                              int64_t b, int64_t c, int64_t d, const void* values,
                                              magicubeDataType_t type) MAGICUBE_NOEXCEPT;

/*
 * A chain of count factors, leftmost first; values holds a pointer for each (values null: patterns
 * alone). Errors name a factor by its position, as factors[2]. The lists are copied, the values are
 * not.
 */
MAGICUBE_API
magicubeStatus_t magicubeCreateKroneckerChain(magicubeKroneckerDescr_t* matrix, int64_t count,
                                              const magicubeKroneckerShape_t* factors,
                                              void* const* values,
                                              magicubeDataType_t type) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeCreateConstKroneckerChain(magicubeConstKroneckerDescr_t* matrix,
                                                   int64_t count,
                                                   const magicubeKroneckerShape_t* factors,
                                                   const void* const* values,
                                                   magicubeDataType_t type) MAGICUBE_NOEXCEPT;

/* Frees a descriptor of either kind, not its data; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeDestroyKronecker(magicubeConstKroneckerDescr_t matrix) MAGICUBE_NOEXCEPT;

/* Reads a descriptor: number of factors, size of the product; any out pointer may be null. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerGet(magicubeConstKroneckerDescr_t matrix, int64_t* count,
                                      int64_t* rows, int64_t* cols,
                                      magicubeDataType_t* type) MAGICUBE_NOEXCEPT;

/* Reads factor `index` (0 of a factor that is no chain); any out pointer may be null. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerGetFactor(magicubeConstKroneckerDescr_t matrix, int64_t index,
                                            magicubeKroneckerShape_t* shape,
                                            const void** values) MAGICUBE_NOEXCEPT;

/* Points factor `index` at other values of the same shape. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerSetValues(magicubeKroneckerDescr_t matrix, int64_t index,
                                            void* values) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeConstKroneckerSetValues(magicubeConstKroneckerDescr_t matrix,
                                                 int64_t index,
                                                 const void* values) MAGICUBE_NOEXCEPT;

/* ---- patterns -------------------------------------------------------------------------------- */

/*
 * What factors `index` and `index` + 1 of a chain are to one another; any out pointer may be null.
 *   chainable  1 if their product is again a Kronecker-sparse factor: a1 divides a2, d2 divides d1
 *              and a2 / a1 divides c1. It is (a1, b1 d1 / d2, a2 c2 / a1, d2).
 *   rank       then c1 a1 / a2: the rank of each b1 x c2 block of that product; else 0
 *   redundant  1 if they are chainable and rank >= min(b1, c2): the pair expresses no more and no
 *              less than the one factor of its product
 * (Le, Zheng, Riccietti, Gribonval: "Butterfly factorization with error guarantees", 2024.)
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerGetPair(magicubeConstKroneckerDescr_t matrix, int64_t index,
                                          int32_t* chainable, int64_t* rank,
                                          int32_t* redundant) MAGICUBE_NOEXCEPT;

/* The shape of a chain's product as one factor; INVALID_VALUE where neighbours are not chainable.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerProductShape(magicubeConstKroneckerDescr_t chain,
                                               magicubeKroneckerShape_t* shape) MAGICUBE_NOEXCEPT;

/*
 * The factors of the dyadic butterfly of size 2^log2_size, log2_size from 1 to 62: writes at most
 * capacity shapes (shapes may be null if capacity is 0) and their number to count.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerButterflyShapes(int64_t log2_size,
                                                  magicubeKroneckerShape_t* shapes,
                                                  int64_t capacity,
                                                  int64_t* count) MAGICUBE_NOEXCEPT;

/*
 * The two factors of a Monarch matrix of rows x cols:
 *     (1, rows / step, blocks rank, step) (blocks, rank step, cols / blocks, 1).
 * step divides rows, blocks divides cols. shapes holds two. With blocks = step = sqrt(rows) and
 * rank 1 it is the square Monarch matrix of Dao et al. (2022).
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMonarchShapes(int64_t rows, int64_t cols, int64_t blocks,
                                                int64_t step, int64_t rank,
                                                magicubeKroneckerShape_t* shapes) MAGICUBE_NOEXCEPT;

/*
 * Writes scale * [[1, 1], [1, -1]] into every 2 x 2 block of a chain whose factors have b = c = 2.
 * With the butterfly's shapes the product is the Hadamard matrix (Sylvester's) times scale^n; scale
 * 1 / sqrt(2) makes it orthonormal.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerFillHadamard(magicubeHandle_t handle,
                                               magicubeKroneckerDescr_t chain,
                                               float scale) MAGICUBE_NOEXCEPT;

/* ---- conversions ----------------------------------------------------------------------------- */

/*
 * K as a dense matrix in either order, not a batch. Of one factor: element for element, to the same
 * type or between floating types; of a chain: summed in fp64 and rounded once to a floating type.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerToDense(magicubeHandle_t handle,
                                          magicubeConstKroneckerDescr_t source,
                                          magicubeDnMatDescr_t dense) MAGICUBE_NOEXCEPT;

/*
 * The values of one factor from a dense matrix of its size. INVALID_VALUE, with the place, if an
 * element outside the support is not 0; target's values are then unspecified.
 */
MAGICUBE_API
magicubeStatus_t magicubeDenseToKronecker(magicubeHandle_t handle, magicubeConstDnMatDescr_t dense,
                                          magicubeKroneckerDescr_t target) MAGICUBE_NOEXCEPT;

/*
 * One factor as CSR with all its a b c d entries, zeros included, c a row: offsets has rows + 1
 * entries, col_indices and values (null: pattern alone) a b c d.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerToCsr(magicubeHandle_t handle,
                                        magicubeConstKroneckerDescr_t source,
                                        magicubeIndexType_t offset_type, void* offsets,
                                        int32_t* col_indices, void* values,
                                        magicubeDataType_t value_type) MAGICUBE_NOEXCEPT;

/*
 * The values of one factor from a CSR matrix of its size: absent entries become 0, entries outside
 * the support must be 0, else INVALID_VALUE with the place; target's values are then unspecified.
 */
MAGICUBE_API
magicubeStatus_t magicubeCsrToKronecker(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                        magicubeKroneckerDescr_t target) MAGICUBE_NOEXCEPT;

/*
 * The product of a chain, all neighbours chainable, as one factor, product, of the shape that
 * magicubeKroneckerProductShape tells. Floating types; summed in fp64 and rounded once.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMultiply(magicubeHandle_t handle,
                                           magicubeConstKroneckerDescr_t chain,
                                           magicubeKroneckerDescr_t product) MAGICUBE_NOEXCEPT;

#endif
