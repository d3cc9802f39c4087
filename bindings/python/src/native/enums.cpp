// SPDX-License-Identifier: Apache-2.0
// The C enumerations as dicts from the names that Python users write to the ABI's numbers.
#include "common.hpp"

namespace magicube_python {

template <class Enum>
static void add(py::module_& module, const char* name,
                std::initializer_list<std::pair<const char*, Enum>> entries) {
    py::dict table;
    for (const auto& [key, value] : entries) table[key] = static_cast<int>(value);
    module.attr(name) = table;
}

void bind_enums(py::module_& module) {
    add<magicubeDataType_t>(module, "DATA_TYPES",
                            {{"int4", MAGICUBE_INT4},
                             {"int8", MAGICUBE_INT8},
                             {"uint8", MAGICUBE_UINT8},
                             {"int12", MAGICUBE_INT12},
                             {"int16", MAGICUBE_INT16},
                             {"int32", MAGICUBE_INT32},
                             {"fp16", MAGICUBE_FP16},
                             {"bf16", MAGICUBE_BF16},
                             {"fp32", MAGICUBE_FP32},
                             {"e4m3", MAGICUBE_E4M3}});
    add<magicubeIndexType_t>(module, "INDEX_TYPES",
                             {{"int32", MAGICUBE_INDEX_32}, {"int64", MAGICUBE_INDEX_64}});
    add<magicubeOrder_t>(module, "ORDERS", {{"C", MAGICUBE_ORDER_ROW}, {"F", MAGICUBE_ORDER_COL}});
    add<magicubeDevice_t>(module, "DEVICES",
                          {{"cpu", MAGICUBE_DEVICE_CPU}, {"cuda", MAGICUBE_DEVICE_CUDA}});
    add<magicubeActivation_t>(module, "ACTIVATIONS",
                              {{"none", MAGICUBE_ACTIVATION_NONE},
                               {"relu", MAGICUBE_ACTIVATION_RELU},
                               {"gelu", MAGICUBE_ACTIVATION_GELU}});
    add<magicubeGranularity_t>(module, "GRANULARITIES",
                               {{"none", MAGICUBE_GRANULARITY_NONE},
                                {"tensor", MAGICUBE_GRANULARITY_TENSOR},
                                {"row", MAGICUBE_GRANULARITY_ROW},
                                {"col", MAGICUBE_GRANULARITY_COL}});
    add<magicubeValueMode_t>(module, "VALUE_MODES",
                             {{"fixed", MAGICUBE_VALUES_FIXED},
                              {"updatable", MAGICUBE_VALUES_UPDATABLE},
                              {"per_call", MAGICUBE_VALUES_PER_CALL}});
    add<magicubeBatchLayout_t>(module, "BATCH_LAYOUTS",
                               {{"first", MAGICUBE_BATCH_FIRST}, {"last", MAGICUBE_BATCH_LAST}});
    add<magicubeAttentionPatterns_t>(module, "ATTENTION_PATTERNS",
                                     {{"shared", MAGICUBE_PATTERNS_SHARED},
                                      {"head", MAGICUBE_PATTERNS_HEAD},
                                      {"batch", MAGICUBE_PATTERNS_BATCH},
                                      {"batch_head", MAGICUBE_PATTERNS_BATCH_HEAD}});
    add<magicubeValidation_t>(
        module, "VALIDATIONS",
        {{"basic", MAGICUBE_VALIDATION_BASIC}, {"full", MAGICUBE_VALIDATION_FULL}});
    add<magicubePruneNorm_t>(module, "NORMS", {{"l2", MAGICUBE_NORM_L2}, {"l1", MAGICUBE_NORM_L1}});
    add<magicubePruneScope_t>(
        module, "SCOPES", {{"matrix", MAGICUBE_PRUNE_PER_MATRIX}, {"row", MAGICUBE_PRUNE_PER_ROW}});
    add<magicubeCurvature_t>(module, "CURVATURES",
                             {{"inputs", MAGICUBE_CURVATURE_INPUTS},
                              {"hessian", MAGICUBE_CURVATURE_HESSIAN},
                              {"gradients", MAGICUBE_CURVATURE_GRADIENTS}});
    add<magicubeObsSelection_t>(
        module, "OBS_SELECTIONS",
        {{"exhaustive", MAGICUBE_OBS_EXHAUSTIVE}, {"pairwise", MAGICUBE_OBS_PAIRWISE}});
    add<magicubeProjectionWeighting_t>(module, "WEIGHTINGS",
                                       {{"none", MAGICUBE_WEIGHTING_NONE},
                                        {"columns", MAGICUBE_WEIGHTING_COLUMNS},
                                        {"activations", MAGICUBE_WEIGHTING_ACTIVATIONS}});
    add<magicubeCalibration_t>(module, "CALIBRATIONS",
                               {{"absmax", MAGICUBE_CALIBRATION_ABSMAX},
                                {"percentile", MAGICUBE_CALIBRATION_PERCENTILE},
                                {"mse", MAGICUBE_CALIBRATION_MSE},
                                {"given", MAGICUBE_CALIBRATION_GIVEN}});
    add<magicubeLogLevel_t>(module, "LOG_LEVELS",
                            {{"off", MAGICUBE_LOG_OFF},
                             {"error", MAGICUBE_LOG_ERROR},
                             {"warn", MAGICUBE_LOG_WARN},
                             {"info", MAGICUBE_LOG_INFO},
                             {"debug", MAGICUBE_LOG_DEBUG}});
}

}  // namespace magicube_python
