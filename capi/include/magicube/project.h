/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Projection of a dense matrix onto products of sparse factors of given supports: the nearest
 * product, by truncated singular value decompositions in fp64.
 *
 * Both functions run on the CPU, on the handle's threads, one block of the product a thread;
 * NOT_SUPPORTED on CUDA. They allocate host memory: about 8 bytes for each element of weight, of
 * the product's support and of the factors, and what decomposing a block takes. They read weight in
 * any type, either order; INVALID_VALUE if it is a batch, or holds NaN or infinity, whatever the
 * handle's validation: neither has a decomposition.
 */
#ifndef MAGICUBE_PROJECT_H
#define MAGICUBE_PROJECT_H

#include "magicube/handle.h"
#include "magicube/kronecker.h"
#include "magicube/matrix.h"

/* How much the error of each column counts: the Frobenius norm of (W - K) diag(s) is made small. */
typedef enum magicubeProjectionWeighting {
    MAGICUBE_WEIGHTING_NONE = 0,       /* s = 1; the matrix of weights is null */
    MAGICUBE_WEIGHTING_COLUMNS = 1,    /* 1 x N: s, positive */
    MAGICUBE_WEIGHTING_ACTIVATIONS = 2 /* samples x N, inputs of the layer y = W x; may be a batch:
                                          s is the root mean square of each feature, at least 1e-6
                                          of the largest one's (all of them 0: s = 1) */
} magicubeProjectionWeighting_t;

typedef struct magicubeProjectionParams {
    size_t struct_size;
    magicubeProjectionWeighting_t weighting;
} magicubeProjectionParams_t;
#define MAGICUBE_PROJECTION_PARAMS_INIT \
    { sizeof(magicubeProjectionParams_t), MAGICUBE_WEIGHTING_NONE }

/*
 * How near the result is. All are of fp64, before the factors are rounded to their type.
 *   error           || (W - K) diag(s) ||
 *   norm            || W diag(s) ||
 *   relative_error  error / norm; 0 for W = 0
 *   least_error     no product of these supports has a smaller error than this
 *   bound           error is not above this: sqrt(splits) least_error, where a chain of L factors
 *                   takes L - 1 splits and everything else 1. So a projection onto two factors is
 *                   the best there is, and one onto L is within sqrt(L - 1) of the best (Le, Zheng,
 *                   Riccietti, Gribonval: "Butterfly factorization with error guarantees", 2024)
 */
typedef struct magicubeProjectionReport {
    size_t struct_size;
    double error;
    double norm;
    double relative_error;
    double least_error;
    double bound;
} magicubeProjectionReport_t;
#define MAGICUBE_PROJECTION_REPORT_INIT \
    { sizeof(magicubeProjectionReport_t), 0.0, 0.0, 0.0, 0.0, 0.0 }

/*
 * Writes the values of a chain near weight, of floating type, whose neighbours are all chainable
 * (kronecker.h). Two factors: each block of the product that a row residue and a column group share
 * is decomposed on its own, which is exact. More: from left to right, the best split into a factor
 * and the product of those behind it, which is split in turn. One factor: the elements inside its
 * support. In every factor but the last, the columns that make one block of the product are
 * orthonormal (zeros, where they are more than its rows or columns); the last factor carries the
 * magnitudes.
 *
 * weights is what params->weighting says. report and step_errors may be null; step_errors holds
 * max(L - 1, 1) numbers: what each split loses, the first with what lies outside the product's
 * support. Their squares add up to error^2.
 *
 * INVALID_VALUE, with the positions, where neighbours are not chainable; if a factor's values share
 * memory with weight, weights or another's; if a value of the last factor is too large for its type
 * (nothing is then written).
 */
MAGICUBE_API
magicubeStatus_t magicubeProjectChain(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                      magicubeConstDnMatDescr_t weights,
                                      const magicubeProjectionParams_t* params,
                                      magicubeKroneckerDescr_t chain,
                                      magicubeProjectionReport_t* report,
                                      double* step_errors) MAGICUBE_NOEXCEPT;

/*
 * The same onto left * right, M x r and r x N of floating types, of any two supports: uint8
 * matrices of the same shapes, not 0 where an element may be. Column k of left_support and row k of
 * right_support span a rectangle of rows and columns; INVALID_VALUE, with both k and the place,
 * unless any two of these rectangles are disjoint or the same. The result is then the best there is
 * (Le, Riccietti, Gribonval, arXiv 2112.00386). Elements outside the supports are written as 0. To
 * multiply by the factors, convert them from the masks to a sparse format (convert.h).
 */
MAGICUBE_API
magicubeStatus_t magicubeProjectSupports(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                         magicubeConstDnMatDescr_t weights,
                                         const magicubeProjectionParams_t* params,
                                         magicubeConstDnMatDescr_t left_support,
                                         magicubeConstDnMatDescr_t right_support,
                                         magicubeDnMatDescr_t left, magicubeDnMatDescr_t right,
                                         magicubeProjectionReport_t* report) MAGICUBE_NOEXCEPT;

#endif
