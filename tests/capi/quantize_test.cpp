// SPDX-License-Identifier: Apache-2.0
// Quantisation through the C ABI. Numbers in depth: tests/core/quantize.
#include "magicube/quantize.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

// Two tokens of three features.
struct quantize_call {
    float real[6] = {1, -2.54f, 0.5f, 127, 63.5f, -0.49f};
    int8_t integers[6];
    float scales[3] = {-7, -7, -7};
    dn_mat real_matrix{2, 3, 3, real, MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    dn_mat integer_matrix{2, 3, 2, integers, MAGICUBE_INT8, MAGICUBE_ORDER_COL};
    magicubeQuantizeParams_t params = MAGICUBE_QUANTIZE_PARAMS_INIT;
    cpu_handle handle;

    quantize_call() { std::fill_n(integers, 6, int8_t{0x33}); }
    magicubeStatus_t run(float* scale_array) {
        size_t bytes = 0;
        const auto status =
            magicubeQuantize_bufferSize(handle, real_matrix, &params, integer_matrix, &bytes);
        if (status != ok) return status;
        const aligned_buffer workspace(bytes);
        const auto result = magicubeQuantize(handle, real_matrix, &params, integer_matrix,
                                             scale_array, workspace.data(), bytes);
        CHECK(workspace.guard_intact());
        return result;
    }
    std::vector<int> run() {
        REQUIRE_OK(run(scales));
        return {integers, integers + 6};
    }
};

}  // namespace

TEST_CASE("Quantize: a row-major activation, scaled per token, comes out transposed") {
    quantize_call c;
    c.params.granularity = MAGICUBE_GRANULARITY_ROW;
    CHECK(c.run() == std::vector<int>{50, 127, -127, 64, 25, 0});
    CHECK(c.scales[0] == 2.54f / 127);
    CHECK(c.scales[1] == 1);
    CHECK(c.scales[2] == -7);
    c.params.granularity = MAGICUBE_GRANULARITY_COL;
    c.params.calibration = MAGICUBE_CALIBRATION_GIVEN;
    c.scales[0] = 0.5f;
    c.scales[1] = 2;
    c.scales[2] = 0.125f;
    CHECK(c.run() == std::vector<int>{2, 127, -1, 32, 4, -4});
    CHECK(c.scales[1] == 2);
    c.params.granularity = MAGICUBE_GRANULARITY_TENSOR;
    c.params.calibration = MAGICUBE_CALIBRATION_PERCENTILE;
    c.params.percentile = 80;
    REQUIRE_OK(c.run(c.scales));
    CHECK(c.scales[0] == 63.5f / 127);
    CHECK(c.integers[1] == 127);
    c.params.calibration = MAGICUBE_CALIBRATION_MSE;
    REQUIRE_OK(c.run(c.scales));
    CHECK(c.scales[0] == 1);

    float back[6] = {};
    const dn_mat back_matrix(2, 3, 3, back, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    c.scales[0] = 0.25f;
    REQUIRE_OK(magicubeDequantize(c.handle, c.integer_matrix, &c.params, c.scales, back_matrix));
    const std::vector<float> wanted{0.25f, -0.75f, 0, 31.75f, 16, 0};
    CHECK(std::vector<float>(back, back + 6) == wanted);
}

TEST_CASE("Quantize: the high nibble after an odd row of int4 is kept") {
    quantize_call c;
    uint8_t bytes[4] = {0xee, 0xee, 0xee, 0xee};
    const dn_mat nibbles(2, 3, 4, bytes, MAGICUBE_INT4, MAGICUBE_ORDER_ROW);
    c.params.calibration = MAGICUBE_CALIBRATION_GIVEN;
    c.scales[0] = 1;
    REQUIRE_OK(magicubeQuantize(c.handle, c.real_matrix, &c.params, nibbles, c.scales, nullptr, 0));
    CHECK(bytes[0] == 0xd1);  // 1, -3
    CHECK(bytes[1] == 0xe0);  // 0.5 is a tie: 0
    CHECK(bytes[2] == 0x77);
    CHECK(bytes[3] == 0xe0);
}

TEST_CASE("Quantize and Dequantize refuse bad input") {
    quantize_call c;
    size_t bytes = 0;
    CHECK(magicubeQuantize_bufferSize(nullptr, c.real_matrix, &c.params, c.integer_matrix,
                                      &bytes) == invalid);
    CHECK(message_has("handle is null"));
    CHECK(magicubeQuantize_bufferSize(c.handle, nullptr, &c.params, c.integer_matrix, &bytes) ==
          invalid);
    CHECK(message_has("real is null"));
    CHECK(magicubeQuantize_bufferSize(c.handle, c.real_matrix, &c.params, c.integer_matrix,
                                      nullptr) == invalid);
    CHECK(message_has("bytes is null"));
    CHECK(magicubeQuantize_bufferSize(c.handle, c.real_matrix, nullptr, c.integer_matrix, &bytes) ==
          invalid);
    CHECK(message_has("params is null"));
    const auto refuses = [&](const char* message) {
        CHECK(c.run(c.scales) == invalid);
        CHECK(message_has(message));
        c.params = MAGICUBE_QUANTIZE_PARAMS_INIT;
    };
    c.params.granularity = MAGICUBE_GRANULARITY_NONE;
    refuses("params->granularity is NONE; it must be TENSOR, ROW or COL");
    c.params.granularity = no_enumerator<magicubeGranularity_t>();
    refuses("params->granularity is 77; it must be a magicubeGranularity_t");
    c.params.calibration = no_enumerator<magicubeCalibration_t>();
    refuses("params->calibration is 77; it must be a magicubeCalibration_t");
    c.params.calibration = MAGICUBE_CALIBRATION_PERCENTILE;
    c.params.percentile = -1;
    refuses("params->percentile is -1; it must be above 0 and at most 100");
    c.params.scale_batch_stride = -5;
    refuses("params->scale_batch_stride is -5");
    c.params.calibration = MAGICUBE_CALIBRATION_GIVEN;
    refuses("scales[0] is -7; it must be positive");
    c.real[4] = std::nanf("");
    refuses("real[1, 1] (batch 0) is nan; it must be finite");
    c.real[4] = 0;
    CHECK(c.run(nullptr) == invalid);
    CHECK(message_has("scales is null; it must hold 1 elements"));
    for (const int8_t integer : c.integers) CHECK(integer == 0x33);

    CHECK(magicubeQuantize(c.handle, c.integer_matrix, &c.params, c.integer_matrix, c.scales,
                           nullptr, 0) == MAGICUBE_STATUS_NOT_SUPPORTED);
    CHECK(message_has("real is of type int8; it must be fp32, fp16 or bf16"));
    CHECK(magicubeQuantize(c.handle, c.real_matrix, &c.params, c.real_matrix, c.scales, nullptr,
                           0) == MAGICUBE_STATUS_NOT_SUPPORTED);
    CHECK(message_has("quantized is of type fp32; it must be int4, int8, int12 or int16"));
    c.params.calibration = MAGICUBE_CALIBRATION_MSE;
    CHECK(magicubeQuantize(c.handle, c.real_matrix, &c.params, c.integer_matrix, c.scales, nullptr,
                           23) == MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
    CHECK(message_has("workspace_size is 23; this call needs 24 bytes"));

    CHECK(magicubeDequantize(c.handle, c.integer_matrix, &c.params, nullptr, c.real_matrix) ==
          invalid);
    CHECK(message_has("scales is null"));
    CHECK(magicubeDequantize(c.handle, c.integer_matrix, &c.params, c.scales, nullptr) == invalid);
    CHECK(message_has("real is null"));
    c.scales[0] = INFINITY;
    CHECK(magicubeDequantize(c.handle, c.integer_matrix, &c.params, c.scales, c.real_matrix) ==
          invalid);
    CHECK(message_has("magicubeDequantize: scales[0] is inf; it must be finite"));
    const dn_mat narrow(2, 2, 2, c.real, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    CHECK(magicubeDequantize(c.handle, c.integer_matrix, &c.params, c.scales, narrow) == invalid);
    CHECK(message_has("real is 2 x 2; it must be 2 x 3 as quantized is"));
}

TEST_CASE("Quantize writes batches into interleaved outputs, never into overlapping ones") {
    quantize_call c;
    float batch[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int8_t out[8] = {};
    const dn_mat from(2, 2, 2, batch, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    const dn_mat to(2, 2, 4, out, MAGICUBE_INT8, MAGICUBE_ORDER_ROW);
    REQUIRE_OK(magicubeDnMatSetStridedBatch(from, 2, 4));
    REQUIRE_OK(magicubeDnMatSetStridedBatch(to, 2, 2));
    c.params.calibration = MAGICUBE_CALIBRATION_GIVEN;
    c.params.scale_batch_stride = 0;
    c.scales[0] = 1;
    REQUIRE_OK(magicubeQuantize(c.handle, from, &c.params, to, c.scales, nullptr, 0));
    CHECK(std::vector<int>(out, out + 8) == std::vector<int>{1, 2, 5, 6, 3, 4, 7, 8});
    REQUIRE_OK(magicubeDnMatSetStridedBatch(to, 2, 1));
    CHECK(magicubeQuantize(c.handle, from, &c.params, to, c.scales, nullptr, 0) == invalid);
    CHECK(message_has("quantized is a batch of 2 matrices, 1 elements apart, that share elements"));
    c.params.calibration = MAGICUBE_CALIBRATION_ABSMAX;
    REQUIRE_OK(magicubeDnMatSetStridedBatch(to, 2, 2));
    CHECK(magicubeQuantize(c.handle, from, &c.params, to, c.scales, nullptr, 0) == invalid);
    CHECK(message_has("params->scale_batch_stride is 0; it must be at least 1"));
}
