/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over a sparse pattern: out = softmax(scale * Q K^T) V, where query i sees the keys that
 * its row of the pattern names, and of those the ones that the causal rule and the batch's key
 * length allow.
 *
 * Q is (batch_count, q_heads, Lq, head_dim), K and V are (batch_count, kv_heads, Lk, head_dim), out
 * is as Q; q_heads is a multiple of kv_heads, and query head h reads key head
 * h / (q_heads / kv_heads). The pattern is Lq x Lk. Q, K and V are all of one type: fp32,
 * fp16 or bf16, or int8 or int4 with scales (below); out is fp32, fp16 or bf16.
 *
 * Key j of query i, in matrix b of the batch, is allowed if all of these hold:
 *     the pattern has element (i, j)
 *     causal: j <= i + causal_offset + args->causal_offsets[b]    (the latter if there are some)
 *     j < args->key_lengths[b]                                    (if there are some)
 *
 * The reference computes, in fp32 with every product and every sum rounded, over the allowed keys j
 * in ascending order:
 *     dot = sum of Q[i, d] * K[j, d]: element d is added to lane d mod 16 of 16, in ascending
 *           order; the lanes are then added in ascending order
 *     s_j = scale * dot, m = largest s_j
 *     e_j = exp(s_j - m), taken in double and rounded to fp32; l = sum of e_j
 *     o_d = sum of e_j * V[j, d]
 *     out = o_d / l, rounded to out's type; log-sum-exp = m + log(l), taken in double
 * Other implementations stay within rounding errors of that; on Tensor Cores, of Q, K and V in fp16
 * or bf16, e_j is rounded to that type before o_d sums it. A query without an allowed key, or
 * whose s are all -infinity, gets zeros and log-sum-exp -infinity; one with an s of NaN or
 * +infinity gets NaN in both. Keys that are not allowed never contribute, whatever K and V hold
 * there.
 *
 * Integers. Q, K and V are int8 or int4 (two a byte; rows start on bytes) and stand for q_scale *
 * Q, k_scale * K and v_scale * V. The softmax is quantised to probability_bits, unsigned: with QKV
 * of int8 to 16 or 8 bits, of int4 to 8 or 4 bits ("16b-8b", "8b-8b", "8b-4b", "4b-4b"). With T =
 * 2^probability_bits - 1 the reference computes
 *     dot = sum of Q[i, d] * K[j, d], exact
 *     s_j = ((scale * q_scale[i]) * k_scale[j]) * (float)dot, in fp32; m = largest s_j
 *     p_j = round-to-nearest-even(T * exp(s_j - m)), in double
 *     l = sum of p_j, o_d = sum of p_j * V[j, d], both exact
 *     out = v_scale[d] * ((float)o_d / (float)l), rounded to out's type
 *     log-sum-exp = m + log((float)l / T), taken in double
 * so that l sums the same rounded values as o_d does. Another implementation may meet the keys in
 * any order and round against a reference of its own that follows the largest score met so far:
 * what it sums in place of exp(s_j - m), say w_j, is never negative, differs from that by at most
 * 1 / H, H = 2^(probability_bits - 1) - 1, and is the same in l and in o_d; its statistics are
 * fp32. No two implementations need agree to the bit, but each output lies within sum of
 * |V[j, d] - o| / (H * sum of w_j), times v_scale[d], of the o that exact exponentials give, beside
 * errors of fp32 and of out's rounding. Queries without an allowed key, and scores of NaN and
 * infinity (from scales), are as above.
 */
#ifndef MAGICUBE_ATTENTION_H
#define MAGICUBE_ATTENTION_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

/* Which heads share a pattern of the descriptor's batch of patterns. */
typedef enum magicubeAttentionPatterns {
    MAGICUBE_PATTERNS_SHARED = 0,    /* one for all */
    MAGICUBE_PATTERNS_HEAD = 1,      /* q_heads of them: head h has pattern h */
    MAGICUBE_PATTERNS_BATCH = 2,     /* batch_count of them: matrix b has pattern b */
    MAGICUBE_PATTERNS_BATCH_HEAD = 3 /* head h of matrix b has pattern b * q_heads + h */
} magicubeAttentionPatterns_t;

/* What a plan is made for. Start from MAGICUBE_ATTENTION_PROBLEM_INIT. */
typedef struct magicubeAttentionProblem {
    size_t struct_size;
    magicubeConstSpMatDescr_t
        pattern; /* SR-BCRS or CSR; its values and value type are not looked at */
    magicubeAttentionPatterns_t patterns;
    magicubeDataType_t in_type;
    magicubeDataType_t out_type;
    int64_t batch_count; /* at least 0 */
    int64_t q_heads;     /* a multiple of kv_heads */
    int64_t kv_heads;    /* at least 1 */
    int64_t head_dim;    /* at least 1 */
    int32_t causal;      /* 1: queries see no key behind their own place */
    int64_t causal_offset;
    int32_t causal_offsets;        /* 1: every execution brings an offset a matrix of the batch */
    int32_t key_lengths;           /* 1: every execution brings a length a matrix of the batch */
    int32_t log_sum_exp;           /* 1: it is written as well */
    const char* implementation;    /* one of listImplementations, or null: the library chooses */
    int32_t probability_bits;      /* int8: 16 or 8; int4: 8 or 4; other types: 0 */
    magicubeGranularity_t q_scale; /* for integers: NONE, TENSOR, or ROW (one a query) */
    magicubeGranularity_t k_scale; /* for integers: NONE, TENSOR, or ROW (one a key) */
    magicubeGranularity_t v_scale; /* for integers: NONE, TENSOR, or COL (one a feature) */
} magicubeAttentionProblem_t;
#define MAGICUBE_ATTENTION_PROBLEM_INIT                                                    \
    {                                                                                      \
        sizeof(magicubeAttentionProblem_t), NULL, MAGICUBE_PATTERNS_SHARED, MAGICUBE_FP16, \
            MAGICUBE_FP16, 1, 1, 1, 64, 0, 0, 0, 0, 0, NULL, 0, MAGICUBE_GRANULARITY_NONE, \
            MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE                           \
    }

/*
 * Where element (b, h, i, d) of Q, K, V or out lies: at b * batch + h * head + i * row + d, in
 * elements. Strides are not negative, those of int4 are multiples of 2, and row is at least
 * head_dim. Those of out keep its elements apart: of its dimensions, the one with the larger stride
 * steps over all of the others.
 */
typedef struct magicubeAttentionStrides {
    int64_t batch; /* 0: one for the whole batch (not for out). So for head */
    int64_t head;
    int64_t row;
} magicubeAttentionStrides_t;

/* Arrays of one execution, on the handle's device; those that the problem names are required. */
typedef struct magicubeAttentionArgs {
    size_t struct_size;
    const magicubeAttentionStrides_t* q_strides; /* in host memory; null: without gaps. So for */
    const magicubeAttentionStrides_t* k_strides; /* the next three */
    const magicubeAttentionStrides_t* v_strides;
    const magicubeAttentionStrides_t* out_strides;
    const int64_t* causal_offsets; /* batch_count elements */
    const int64_t* key_lengths;    /* batch_count elements in [0, Lk] */
    float* log_sum_exp;            /* (batch_count, q_heads, Lq) without gaps, natural logarithm */
    /* Finite; without gaps, whatever the strides. TENSOR: one element for all matrices and heads */
    const float* q_scale; /* ROW: (batch_count, q_heads, Lq) */
    const float* k_scale; /* ROW: (batch_count, kv_heads, Lk) */
    const float* v_scale; /* COL: (batch_count, kv_heads, head_dim) */
} magicubeAttentionArgs_t;
#define MAGICUBE_ATTENTION_ARGS_INIT \
    { sizeof(magicubeAttentionArgs_t), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/* As their namesakes of spmm.h. */
MAGICUBE_API
magicubeStatus_t magicubeAttention_isSupported(
    magicubeHandle_t handle, const magicubeAttentionProblem_t* problem) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeAttention_bufferSize(magicubeHandle_t handle,
                                              const magicubeAttentionProblem_t* problem,
                                              magicubeBufferSizes_t* sizes) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeAttention_createPlan(magicubeHandle_t handle,
                                              const magicubeAttentionProblem_t* problem,
                                              void* plan_buffer, size_t plan_buffer_size,
                                              magicubeAttentionPlan_t* plan) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeAttention_destroyPlan(magicubeAttentionPlan_t plan) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeAttention_planInfo(magicubeAttentionPlan_t plan,
                                            magicubePlanInfo_t* info) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeAttention_listImplementations(magicubeDevice_t device, const char** names,
                                                       int32_t capacity,
                                                       int32_t* count) MAGICUBE_NOEXCEPT;

/*
 * Executes a plan. scale is read as the handle's pointer mode says; null means 1 / sqrt(head_dim).
 * out and the log-sum-exp share no memory with each other or with an input.
 */
MAGICUBE_API
magicubeStatus_t magicubeAttention(magicubeHandle_t handle, magicubeAttentionPlan_t plan,
                                   const float* scale, const void* q, const void* k, const void* v,
                                   void* out, const magicubeAttentionArgs_t* args, void* workspace,
                                   size_t workspace_size) MAGICUBE_NOEXCEPT;

#endif
