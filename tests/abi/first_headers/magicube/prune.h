/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning: which elements of a dense weight to keep. */
#ifndef MAGICUBE_PRUNE_H
#define MAGICUBE_PRUNE_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

typedef enum magicubePruneNorm { MAGICUBE_NORM_L2 = 0, MAGICUBE_NORM_L1 = 1 } magicubePruneNorm_t;

typedef enum magicubePruneScope {
    MAGICUBE_PRUNE_PER_MATRIX = 0, /* vectors of the whole matrix compete */
    MAGICUBE_PRUNE_PER_ROW = 1     /* each block row keeps the same number of vectors */
} magicubePruneScope_t;

/*
 * Magnitude pruning of vector_length x 1 column vectors: those with the largest norm are kept, ties
 * by lowest index (block row first, then column). Norms are fp64 sums in row order; rows past the
 * edge count as 0.
 */
typedef struct magicubePruneParams {
    size_t struct_size;
    int32_t vector_length; /* 1, 2, 4, 8, 16, 32 or 64 */
    magicubePruneScope_t scope;
    magicubePruneNorm_t norm;
    double sparsity; /* in [0, 1]: floor(sparsity * count + 0.5) of the scope's count vectors are
                        dropped */
    int64_t keep; /* >= 0: exactly this many vectors a scope are kept and sparsity is ignored; -1:
                     unused */
} magicubePruneParams_t;
#define MAGICUBE_PRUNE_PARAMS_INIT \
    { sizeof(magicubePruneParams_t), 8, MAGICUBE_PRUNE_PER_MATRIX, MAGICUBE_NORM_L2, 0.0, -1 }

/* Scratch that magicubePrune needs, in bytes; any alignment of 16. */
MAGICUBE_API
magicubeStatus_t magicubePrune_bufferSize(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                          const magicubePruneParams_t* params,
                                          size_t* bytes) MAGICUBE_NOEXCEPT;

/*
 * Writes the keep-mask of weight: a uint8 matrix of the same shape and batch with 1 in every
 * element of a kept vector and 0 elsewhere. Each matrix of a batch is pruned for itself. weight is
 * of any type; INVALID_VALUE if a weight is NaN or infinite (full validation).
 */
MAGICUBE_API
magicubeStatus_t magicubePrune(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                               const magicubePruneParams_t* params, magicubeDnMatDescr_t mask,
                               void* workspace, size_t workspace_size) MAGICUBE_NOEXCEPT;

#endif
