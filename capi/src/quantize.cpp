// SPDX-License-Identifier: Apache-2.0
#include "magicube/quantize.h"

#include "core/quantize/quantize.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(granularity::none) == MAGICUBE_GRANULARITY_NONE);
static_assert(static_cast<int>(granularity::tensor) == MAGICUBE_GRANULARITY_TENSOR);
static_assert(static_cast<int>(granularity::row) == MAGICUBE_GRANULARITY_ROW);
static_assert(static_cast<int>(granularity::col) == MAGICUBE_GRANULARITY_COL);
static_assert(static_cast<int>(calibration::absmax) == MAGICUBE_CALIBRATION_ABSMAX);
static_assert(static_cast<int>(calibration::percentile) == MAGICUBE_CALIBRATION_PERCENTILE);
static_assert(static_cast<int>(calibration::mse) == MAGICUBE_CALIBRATION_MSE);
static_assert(static_cast<int>(calibration::given) == MAGICUBE_CALIBRATION_GIVEN);

namespace {

enum class direction { quantize, dequantize };

quantize_params read_params(const magicubeQuantizeParams_t* given, direction way) {
    const magicubeQuantizeParams_t defaults = MAGICUBE_QUANTIZE_PARAMS_INIT;
    const auto params = read_struct(given, defaults, "params");
    quantize_params result;
    result.per = to_core(params.granularity, "params->granularity");
    result.scale_batch_stride = params.scale_batch_stride;
    if (way == direction::dequantize) return result;
    result.how = to_core<calibration>(params.calibration, 0, 3, "params->calibration",
                                      "magicubeCalibration_t");
    result.percentile = params.percentile;
    return result;
}

}  // namespace

magicubeStatus_t magicubeQuantize_bufferSize(magicubeHandle_t handle,
                                             magicubeConstDnMatDescr_t real,
                                             const magicubeQuantizeParams_t* params,
                                             magicubeConstDnMatDescr_t quantized,
                                             size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        auto& result = deref(bytes, "bytes");
        result = quantize_workspace(ctx, get_shape(real, "real"),
                                    read_params(params, direction::quantize),
                                    get_shape(quantized, "quantized"));
    });
}

magicubeStatus_t magicubeQuantize(magicubeHandle_t handle, magicubeConstDnMatDescr_t real,
                                  const magicubeQuantizeParams_t* params,
                                  magicubeDnMatDescr_t quantized, float* scales, void* workspace,
                                  size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        quantize(ctx, get(real, "real"), read_params(params, direction::quantize),
                 get_output(quantized, "quantized"), scales, workspace, workspace_size);
    });
}

magicubeStatus_t magicubeDequantize(magicubeHandle_t handle, magicubeConstDnMatDescr_t quantized,
                                    const magicubeQuantizeParams_t* params, const float* scales,
                                    magicubeDnMatDescr_t real) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        dequantize(ctx, get(quantized, "quantized"), read_params(params, direction::dequantize),
                   scales, get_output(real, "real"));
    });
}
