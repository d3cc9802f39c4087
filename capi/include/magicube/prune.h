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
    double sparsity; /* in [0, 1]; of a scope's n vectors floor(sparsity * n + 0.5) are dropped */
    int64_t keep;    /* >= 0: so many vectors a scope are kept, whatever sparsity; -1: unused */
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
 * of any type; INVALID_VALUE if a weight is NaN or infinite (full validation on the CPU; else such
 * a vector counts as infinitely long), or if mask shares memory with weight. On CUDA in the order
 * of the handle's stream.
 */
MAGICUBE_API
magicubeStatus_t magicubePrune(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                               const magicubePruneParams_t* params, magicubeDnMatDescr_t mask,
                               void* workspace, size_t workspace_size) MAGICUBE_NOEXCEPT;

/*
 * Pruning to V:N:M (VENOM, arXiv 2310.02065). Columns are cut into groups of m and rows into row
 * groups of vector_length, V; the last of each may be short. The rows of a row group share a few
 * columns of each group, the column budget: 4, or n + 2 for n above 3. Within these each row keeps
 * n weights of its own. n = 2 is what Sparse Tensor Cores multiply; more is for pruning step by
 * step. A group that has no more columns than the budget offers all of them, and one with fewer
 * than n keeps all. Such a mask converts to V:N:M (convert.h) where that format has the pattern: n
 * up to 254, and m of at least n + 2 for n above 3.
 */
typedef struct magicubePruneVnmParams {
    size_t struct_size;
    int32_t vector_length; /* V: 1, 16, 32, 64, 128 or 256 */
    int32_t n;             /* from 1 to m */
    int32_t m;             /* from 4 to 65536; need not divide the columns */
    magicubePruneNorm_t norm;
} magicubePruneVnmParams_t;
#define MAGICUBE_PRUNE_VNM_PARAMS_INIT \
    { sizeof(magicubePruneVnmParams_t), 64, 2, 8, MAGICUBE_NORM_L2 }

/*
 * Scratch that magicubePruneVnm needs, in bytes; any alignment of 16. It depends on the handle's
 * number of threads.
 */
MAGICUBE_API
magicubeStatus_t magicubePruneVnm_bufferSize(magicubeHandle_t handle,
                                             magicubeConstDnMatDescr_t weight,
                                             const magicubePruneVnmParams_t* params,
                                             size_t* bytes) MAGICUBE_NOEXCEPT;

/*
 * Magnitude pruning to V:N:M: writes the keep-mask of weight, as magicubePrune does. The columns
 * chosen are those of which all rows together keep the largest sum of squares (L1: of magnitudes),
 * computed in fp64. All sets of columns are tried where there are at most 2,000, as for m up to 16
 * with n = 2; ties go to the set that comes first in lexicographic order. Above that columns are
 * taken one by one, the best first, then exchanged as long as that helps: the tests hold the result
 * to 98 % of the best set's sum. Of equal weights a row keeps those of lowest column.
 *
 * weight is of any type and may be a batch. CPU alone in this version: NOT_SUPPORTED on CUDA.
 */
MAGICUBE_API
magicubeStatus_t magicubePruneVnm(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                  const magicubePruneVnmParams_t* params, magicubeDnMatDescr_t mask,
                                  void* workspace, size_t workspace_size) MAGICUBE_NOEXCEPT;

/* What tells second-order pruning how the loss curves around the weights. */
typedef enum magicubeCurvature {
    MAGICUBE_CURVATURE_INPUTS = 0,   /* samples x K, inputs of the layer y = W x; may be a batch */
    MAGICUBE_CURVATURE_HESSIAN = 1,  /* K x K: their X^T X, of which the upper triangle is read */
    MAGICUBE_CURVATURE_GRADIENTS = 2 /* a batch of R x K: a gradient of the loss a sample */
} magicubeCurvature_t;

typedef enum magicubeObsSelection {
    MAGICUBE_OBS_EXHAUSTIVE = 0, /* the correlation of all weights of a row's group */
    MAGICUBE_OBS_PAIRWISE = 1    /* of the two weights of each pair alone */
} magicubeObsSelection_t;

/*
 * Second-order pruning to V:N:M, by the optimal brain surgeon. With A the inverse curvature of a
 * row and w its weights, pruning the set P costs w_P^T (A_PP)^-1 w_P / 2 in loss, and the best
 * change of all weights is -A[:, P] (A_PP)^-1 w_P (optimal BERT surgeon, arXiv 2203.07259; OBC,
 * arXiv 2208.11580). Groups of columns are pruned from left to right, each with the weights that
 * earlier ones left and with what is still free to make up for it.
 *
 * - Layer-wise, from INPUTS or a HESSIAN: H = X^T X + lambda I, the same for all rows: the error of
 *   the layer's outputs. Kept weights of a group are not changed by later groups while columns are
 *   chosen; with refit, each row is then solved anew for its kept weights S: H_SS v = (H w)_S.
 * - Block Fisher, from s GRADIENTS: F = lambda I + sum g g^T / s in diagonal blocks of fisher_block
 *   columns of one row, inverted by rank-one updates. All kept weights of a block stay free.
 *
 * lambda is damping times the mean diagonal of the curvature without it. Selection, for n up to 2:
 * EXHAUSTIVE keeps in each row the weights of least cost, and takes the columns of least cost to
 * all rows together (all sets, or exchanges above 2,000 sets, as magicubePruneVnm); PAIRWISE does
 * the same with the cost of removing the kept weights themselves, VENOM's cheaper variant. For n
 * from 3 both remove columns one by one, that of least cost to all rows first, down to the budget,
 * and then in each row the one or two weights of least cost, exactly.
 */
typedef struct magicubePruneVnmObsParams {
    size_t struct_size;
    int32_t vector_length;
    int32_t n;
    int32_t m;
    magicubeCurvature_t curvature;
    magicubeObsSelection_t selection;
    double damping;       /* finite, at least 0; positive with GRADIENTS */
    int32_t fisher_block; /* with GRADIENTS: from 1 to 256 */
    int32_t refit;        /* layer-wise: not 0 for the last solution of each row */
} magicubePruneVnmObsParams_t;
#define MAGICUBE_PRUNE_VNM_OBS_PARAMS_INIT                                        \
    {                                                                             \
        sizeof(magicubePruneVnmObsParams_t), 64, 2, 8, MAGICUBE_CURVATURE_INPUTS, \
            MAGICUBE_OBS_EXHAUSTIVE, 0.01, 16, 1                                  \
    }

/*
 * Scratch that magicubePruneVnmObs needs, in bytes; any alignment of 16. With T threads, w = min(m,
 * K) and c the weights kept of a row, in numbers of 8 bytes about
 *   layer-wise    2 K^2 + max(T V (K + w^2 / 2 + 4 w) + 5 T w^2, T c^2, 64 K)
 *   block Fisher  T V (K + (w + 2 fisher_block) fisher_block + 3 w^2)
 * so that it grows with the rows of a row group, not with those of weight.
 */
MAGICUBE_API
magicubeStatus_t magicubePruneVnmObs_bufferSize(magicubeHandle_t handle,
                                                magicubeConstDnMatDescr_t weight,
                                                magicubeConstDnMatDescr_t curvature,
                                                const magicubePruneVnmObsParams_t* params,
                                                size_t* bytes) MAGICUBE_NOEXCEPT;

/*
 * Writes the keep-mask of weight, and to `updated`, of the same shape, the weights that go with it:
 * exactly 0 where they are pruned, else changed to make up for that. weight, curvature and updated
 * are of floating types; arithmetic is fp64. INVALID_VALUE if one holds NaN or infinity (full
 * validation), if the curvature with its damping is not positive definite, or if an output shares
 * memory with another matrix. CPU alone in this version: NOT_SUPPORTED on CUDA.
 */
MAGICUBE_API
magicubeStatus_t magicubePruneVnmObs(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                     magicubeConstDnMatDescr_t curvature,
                                     const magicubePruneVnmObsParams_t* params,
                                     magicubeDnMatDescr_t mask, magicubeDnMatDescr_t updated,
                                     void* workspace, size_t workspace_size) MAGICUBE_NOEXCEPT;

/*
 * The n of each step of pruning step by step: schedule[i] weights of a group of m are kept in step
 * i of `steps`. Each step drops the same share, so that n falls from m in equal ratios, rounded to
 * the nearest, and the last is n: 16, 2 and 3 steps give 8, 4, 2 (VENOM's decay of the structure).
 */
MAGICUBE_API
magicubeStatus_t magicubeVnmSchedule(int32_t m, int32_t n, int32_t steps,
                                     int32_t* schedule) MAGICUBE_NOEXCEPT;

/*
 * The share of a weight's energy, its sum of squares, that lies where the uint8 mask is not 0: 1 if
 * nothing is lost, and for a weight of zeros or without elements. CPU alone in this version.
 */
MAGICUBE_API
magicubeStatus_t magicubeKeptEnergy(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                    magicubeConstDnMatDescr_t mask,
                                    double* share) MAGICUBE_NOEXCEPT;

#endif
