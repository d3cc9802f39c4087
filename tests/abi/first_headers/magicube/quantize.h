/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symmetric quantisation: real = scale * integer, no zero point. Scales are fp32. integer =
 * round-to-nearest-even(real / scale), saturated to the type's range.
 */
#ifndef MAGICUBE_QUANTIZE_H
#define MAGICUBE_QUANTIZE_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

/* How a scale is found, with qmax = 2^(bits - 1) - 1. */
typedef enum magicubeCalibration {
    MAGICUBE_CALIBRATION_ABSMAX = 0, /* largest |x| / qmax */
    MAGICUBE_CALIBRATION_PERCENTILE =
        1, /* that |x| below or at which percentile % lie / qmax; x beyond saturate */
    MAGICUBE_CALIBRATION_MSE =
        2, /* of absmax * i / 100 / qmax, i = 100 .. 1, that of least mean squared error */
    MAGICUBE_CALIBRATION_GIVEN = 3 /* the caller's scales */
} magicubeCalibration_t;

typedef struct magicubeQuantizeParams {
    size_t struct_size;
    magicubeGranularity_t
        granularity; /* TENSOR: 1 scale, ROW: rows scales, COL: cols scales, a matrix */
    magicubeCalibration_t calibration;
    double percentile; /* in (0, 100], for PERCENTILE: the ceil(percentile / 100 * n)-th smallest of
                          n |x| */
    int64_t scale_batch_stride; /* elements between the scales of neighbours in a batch; -1: densely
                                   packed */
} magicubeQuantizeParams_t;
#define MAGICUBE_QUANTIZE_PARAMS_INIT                                  \
    {                                                                  \
        sizeof(magicubeQuantizeParams_t), MAGICUBE_GRANULARITY_TENSOR, \
            MAGICUBE_CALIBRATION_ABSMAX, 100.0, -1                     \
    }

/* Scratch that magicubeQuantize needs, in bytes; any alignment of 16. */
MAGICUBE_API
magicubeStatus_t magicubeQuantize_bufferSize(magicubeHandle_t handle,
                                             magicubeConstDnMatDescr_t real,
                                             const magicubeQuantizeParams_t* params,
                                             magicubeConstDnMatDescr_t quantized,
                                             size_t* bytes) MAGICUBE_NOEXCEPT;

/*
 * real (fp32, fp16 or bf16) -> quantized (int4, int8, int12 or int16) of the same shape and batch.
 * The two orders may differ: a ROW matrix of tokens x features written as COL is quantised and
 * transposed in memory in one pass. scales is written, or read for GIVEN. A group whose largest |x|
 * is 0 gets scale 1; no scale is below 2^-126. INVALID_VALUE if a real is NaN or infinite, or a
 * given scale is not finite and positive (full validation).
 */
MAGICUBE_API
magicubeStatus_t magicubeQuantize(magicubeHandle_t handle, magicubeConstDnMatDescr_t real,
                                  const magicubeQuantizeParams_t* params,
                                  magicubeDnMatDescr_t quantized, float* scales, void* workspace,
                                  size_t workspace_size) MAGICUBE_NOEXCEPT;

/*
 * quantized (int4, int8, uint8, int12, int16 or int32) -> real (fp32, fp16 or bf16) = scale *
 * integer in fp32, rounded once. Of params only granularity and scale_batch_stride are read. On
 * CUDA too.
 */
MAGICUBE_API
magicubeStatus_t magicubeDequantize(magicubeHandle_t handle, magicubeConstDnMatDescr_t quantized,
                                    const magicubeQuantizeParams_t* params, const float* scales,
                                    magicubeDnMatDescr_t real) MAGICUBE_NOEXCEPT;

#endif
