// SPDX-License-Identifier: Apache-2.0
#include "core/quantize/quantize.hpp"

#include <cmath>
#include <limits>

#include "core/formats/cases.hpp"
#include "core/ops/views.hpp"
#include "support/aligned_buffer.hpp"

using namespace magicube;
using namespace support;

namespace {

constexpr kind integer_kinds[] = {kind::int4, kind::int8, kind::int12, kind::int16};
constexpr kind real_kinds[] = {kind::fp32, kind::fp16, kind::bf16};
constexpr granularity granularities[] = {granularity::tensor, granularity::row, granularity::col};

int64_t group_of(granularity per, int64_t i, int64_t j) {
    return per == granularity::row ? i : per == granularity::col ? j : 0;
}

// The numbers of each group, in row-major order.
std::vector<std::vector<double>> groups_of(const dense_sample& real, int64_t batch,
                                           granularity per) {
    const auto& shape = real.shape();
    std::vector<std::vector<double>> groups(
        static_cast<size_t>(group_count(per, shape.rows, shape.cols)));
    for (int64_t i = 0; i < shape.rows; ++i)
        for (int64_t j = 0; j < shape.cols; ++j)
            groups[static_cast<size_t>(group_of(per, i, j))].push_back(real.at(batch, i, j));
    return groups;
}

double absmax_of(const std::vector<double>& group) {
    double result = 0;
    for (const double x : group) result = std::max(result, std::fabs(x));
    return result;
}

float scale_of(double magnitude, kind type) {
    return std::max(static_cast<float>(magnitude / limits_of(type).highest), 0x1p-126f);
}

double percentile_of(std::vector<double> group, double percentile) {
    for (double& x : group) x = std::fabs(x);
    std::sort(group.begin(), group.end());
    const double rank = std::ceil(percentile / 100 * static_cast<double>(group.size()));
    return group[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

// real / scale in fp32, rounded and saturated.
double quantized_value(double real, float scale, kind type) {
    return round_to(type, static_cast<float>(real) / scale);
}

double squared_error(const std::vector<double>& group, float scale, kind type) {
    double sum = 0;
    for (const double x : group) {
        const double error = x - static_cast<double>(scale) * quantized_value(x, scale, type);
        sum += error * error;
    }
    return sum;
}

// Near ties may be told apart by rounding of the sums, so that the searched scale need only be a
// candidate as good as the best.
void check_mse_scale(const std::vector<double>& group, float scale, kind type) {
    const double absmax = absmax_of(group);
    double best = std::numeric_limits<double>::infinity();
    bool candidate = false;
    for (int i = 100; i >= 1; --i) {
        const float s = scale_of(absmax * i / 100, type);
        candidate = candidate || s == scale;
        best = std::min(best, squared_error(group, s, type));
    }
    CHECK(candidate);
    CHECK(squared_error(group, scale, type) <= best * (1 + 1e-9));
}

void check_scale(const std::vector<double>& group, float scale, const quantize_params& params,
                 kind type) {
    const double absmax = absmax_of(group);
    if (absmax == 0) {
        CHECK(scale == 1);
    } else if (params.how == calibration::absmax) {
        CHECK(scale == scale_of(absmax, type));
    } else if (params.how == calibration::percentile) {
        CHECK(scale == scale_of(percentile_of(group, params.percentile), type));
    } else {
        check_mse_scale(group, scale, type);
    }
}

// Quantises arrays of the host on a device, with a workspace of exactly the bytes asked for.
void quantize_on(const context& ctx, dense_sample& real, const quantize_params& params,
                 dense_sample& result, guarded_array<float>& scales) {
    mirror device(ctx);
    const dense_view from = view_on(device, real);
    const dense_view to = view_on(device, result);
    aligned_buffer workspace(quantize_workspace(ctx, from, params, to));
    void* scratch = device.put(workspace.data(), workspace.size_with_guard());
    quantize(ctx, from, params, to, put_guarded(device, scales), scratch, workspace.size());
    fetch_array(device, result.array());
    fetch_guarded(device, scales);
    device.fetch(workspace.data());
    CHECK((workspace.guard_intact() && scales.intact()));
}

void check_quantize_on(const context& ctx, dense_sample& real, kind type, bool col_major,
                       quantize_params params, generator& random, int64_t scale_gap) {
    const auto& shape = real.shape();
    const int64_t groups = group_count(params.per, shape.rows, shape.cols);
    const int64_t stride = groups + scale_gap;
    if (scale_gap > 0) params.scale_batch_stride = stride;
    const dense_shape out_shape{type, shape.rows, shape.cols, col_major, 3, shape.batch};
    dense_sample result(out_shape, random);
    dense_sample wanted(out_shape, random);
    const float poison = guarded_array<float>(1)[0];
    guarded_array<float> scales(stride * shape.batch);
    if (params.how == calibration::given)
        for (int64_t i = 0; i < scales.size(); ++i)
            scales[i] = std::ldexp(1.0f + static_cast<float>(uniform(random, 0, 999)) / 1000, -5);
    const auto given = scales.items();
    quantize_on(ctx, real, params, result, scales);
    if (params.how == calibration::given) CHECK(scales.items() == given);
    for (int64_t b = 0; b < shape.batch; ++b) {
        const auto members = groups_of(real, b, params.per);
        for (int64_t g = 0; g < stride; ++g) {
            const float scale = scales[b * stride + g];
            if (params.how == calibration::given) continue;
            if (g >= groups) CHECK(scale == poison);
            if (g < groups) check_scale(members[static_cast<size_t>(g)], scale, params, type);
        }
        for (int64_t i = 0; i < shape.rows; ++i)
            for (int64_t j = 0; j < shape.cols; ++j) {
                const float scale = scales[b * stride + group_of(params.per, i, j)];
                wanted.set(b, i, j, quantized_value(real.at(b, i, j), scale, type));
            }
    }
    CHECK(result.array().bytes() == wanted.array().bytes());
}

// On every device. Scales lie scale_gap elements further apart than needed; the gaps keep their
// poison.
void check_quantize(dense_sample& real, kind type, bool col_major, quantize_params params,
                    generator& random, int64_t scale_gap = 0) {
    const auto& shape = real.shape();
    CAPTURE(static_cast<int>(shape.type));
    CAPTURE(static_cast<int>(type));
    CAPTURE(static_cast<int>(params.per));
    CAPTURE(static_cast<int>(params.how));
    CAPTURE(shape.rows);
    CAPTURE(shape.cols);
    for (const auto& ctx : all_contexts()) {
        CAPTURE(name_of(ctx.device));
        check_quantize_on(ctx, real, type, col_major, params, random, scale_gap);
    }
}

}  // namespace

TEST_CASE("quantising: every type, granularity, calibration and pair of orders") {
    generator random(50);
    for (const kind from : real_kinds)
        for (const kind to : integer_kinds)
            for (const auto per : granularities)
                for (const auto how : {calibration::absmax, calibration::percentile,
                                       calibration::mse, calibration::given})
                    for (int orders = 0; orders < 4; ++orders) {
                        const bool small = how == calibration::mse;
                        dense_sample real(
                            {from, small ? 9 : 67, small ? 13 : 71, orders % 2 == 1, 2}, random);
                        check_quantize(real, to, orders > 1, {per, how, 90.0, -1}, random);
                    }
}

TEST_CASE("quantising: batches with scales apart, matrices with nothing in them, odd sizes") {
    generator random(51);
    for (const auto per : granularities)
        for (const auto how :
             {calibration::absmax, calibration::percentile, calibration::mse, calibration::given})
            for (const int64_t batch : {0, 1, 3})
                for (const int64_t rows : {0, 1, 5, 65})
                    for (const int64_t cols : {0, 1, 7}) {
                        const bool col_major = (rows + cols) % 2 == 0;
                        dense_sample real({kind::fp32, rows, cols, !col_major, 1, batch}, random);
                        check_quantize(real, kind::int4, col_major, {per, how, 50.0, -1}, random,
                                       4);
                    }
}

TEST_CASE("quantising: percentiles from the smallest to the largest") {
    generator random(52);
    for (const double percentile : {1e-9, 0.5, 33.3, 50.0, 99.0, 99.9, 100.0})
        for (const auto per : granularities) {
            dense_sample real({kind::fp32, 40, 25, false, 0}, random);
            check_quantize(real, kind::int8, false, {per, calibration::percentile, percentile, -1},
                           random);
        }
}

TEST_CASE("quantising: ties go to even, beyond the range saturates, -8 is used") {
    generator random(53);
    const double numbers[] = {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 7.5, 100, -7.5, -8.5, -100, 6.5};
    const double wanted[] = {0, 2, 2, 0, -2, -2, 7, 7, -8, -8, -8, 6};
    dense_sample real({kind::fp32, 1, 12, false, 0}, random);
    for (int64_t j = 0; j < 12; ++j) real.set(0, 0, j, numbers[j]);
    for (const auto& ctx : all_contexts()) {
        dense_sample result({kind::int4, 1, 12, false, 0}, random);
        guarded_array<float> scale(1, 1.0f);
        quantize_on(ctx, real, {granularity::tensor, calibration::given, 0, -1}, result, scale);
        for (int64_t j = 0; j < 12; ++j) CHECK(result.at(0, 0, j) == wanted[j]);
    }
}

TEST_CASE("quantising: a group of zeros has scale 1, and no scale is below 2^-126") {
    generator random(54);
    dense_sample real({kind::fp32, 3, 4, false, 0}, random);
    real.set_row(0, -0.0);
    real.set_row(1, 0x1p-149);
    real.set_row(2, 0);
    real.set(0, 2, 3, 5);
    for (const auto& ctx : all_contexts())
        for (const auto how : {calibration::absmax, calibration::percentile, calibration::mse}) {
            CAPTURE(name_of(ctx.device));
            dense_sample result({kind::int8, 3, 4, false, 0}, random);
            guarded_array<float> scales(3);
            quantize_on(ctx, real, {granularity::row, how, 50, -1}, result, scales);
            CHECK(scales[0] == 1);
            CHECK(scales[1] == 0x1p-126f);
            if (how == calibration::percentile) {
                CHECK(scales[2] == 0x1p-126f);
                CHECK(result.at(0, 2, 3) == 127);
            }
        }
}

TEST_CASE("quantising: the mean-square-error search beats absmax where an outlier spoils it") {
    generator random(55);
    dense_sample real({kind::fp32, 1, 1001, false, 0}, random);
    for (int64_t j = 0; j < 1000; ++j)
        real.set(0, 0, j, static_cast<float>(uniform(random, -1000, 1000)) / 1000.0f);
    real.set(0, 0, 1000, 8);
    guarded_array<float> scales(1);
    std::vector<float> found;
    for (const auto how : {calibration::absmax, calibration::mse}) {
        dense_sample result({kind::int4, 1, 1001, false, 0}, random);
        quantize_on(context(), real, {granularity::tensor, how, 0, -1}, result, scales);
        found.push_back(scales[0]);
    }
    CHECK(found[1] < found[0]);
    const auto group = groups_of(real, 0, granularity::tensor)[0];
    CHECK(squared_error(group, found[1], kind::int4) < squared_error(group, found[0], kind::int4));
}

TEST_CASE("quantising: groups of several parts, whose errors meet in one sum") {
    generator random(61);
    for (const auto how : {calibration::absmax, calibration::percentile, calibration::mse}) {
        dense_sample tensor({kind::fp32, 3, 9001, false, 1}, random);
        check_quantize(tensor, kind::int8, true, {granularity::tensor, how, 99.0, -1}, random);
        check_quantize(tensor, kind::int8, false, {granularity::row, how, 99.0, -1}, random);
        dense_sample tall({kind::bf16, 9001, 2, false, 1}, random);
        check_quantize(tall, kind::int4, false, {granularity::col, how, 99.0, -1}, random);
    }
}

TEST_CASE("quantising: unchecked NaN and infinity crash nothing, and no device differs") {
    generator random(56);
    for (const auto how : {calibration::absmax, calibration::percentile, calibration::mse})
        for (const auto per : granularities) {
            dense_sample real({kind::fp32, 64, 40, false, 0}, random);
            for (int64_t i = 0; i < 40; ++i) real.set(0, i, i, std::nan(""));
            real.set(0, 3, 4, std::numeric_limits<double>::infinity());
            std::vector<float> scales_of_cpu;
            std::vector<uint8_t> bytes_of_cpu;
            for (auto unchecked : all_contexts()) {
                CAPTURE(name_of(unchecked.device));
                unchecked.level = validation::basic;
                dense_sample result({kind::int8, 64, 40, true, 0}, random);
                guarded_array<float> scales(64, 0.0f);
                quantize_on(unchecked, real, {per, how, 30, -1}, result, scales);
                if (unchecked.on_cpu()) {
                    scales_of_cpu = scales.items();
                    bytes_of_cpu = result.array().bytes();
                }
                for (size_t i = 0; i < scales_of_cpu.size(); ++i)
                    CHECK(same_number(scales[static_cast<int64_t>(i)], scales_of_cpu[i]));
                CHECK(result.array().bytes() == bytes_of_cpu);
            }
        }
}

TEST_CASE("dequantising: every type, granularity and pair of orders") {
    generator random(57);
    for (const kind from :
         {kind::int4, kind::int8, kind::uint8, kind::int12, kind::int16, kind::int32})
        for (const kind to : real_kinds)
            for (const auto per : granularities)
                for (int orders = 0; orders < 4; ++orders) {
                    dense_sample quantized({from, 67, 69, orders % 2 == 1, 1, 2}, random);
                    const dense_shape shape{to, 67, 69, orders > 1, 3, 2};
                    dense_sample wanted(shape, random);
                    // Every other time one set of scales serves the batch.
                    const int64_t stride = orders % 2 ? 0 : 69;
                    guarded_array<float> scales(2 * 69);
                    for (int64_t i = 0; i < scales.size(); ++i)
                        scales[i] = static_cast<float>(random_value(random, kind::fp32));
                    for (int64_t b = 0; b < 2; ++b)
                        for (int64_t i = 0; i < 67; ++i)
                            for (int64_t j = 0; j < 69; ++j) {
                                const float product = scales[b * stride + group_of(per, i, j)] *
                                                      static_cast<float>(quantized.at(b, i, j));
                                wanted.set(b, i, j, round_to(to, product));
                            }
                    for (const auto& ctx : all_contexts()) {
                        CAPTURE(name_of(ctx.device));
                        mirror device(ctx);
                        dense_sample result(shape, random);
                        dequantize(ctx, view_on(device, quantized),
                                   {per, calibration::absmax, 0, stride},
                                   put_guarded(device, scales), view_on(device, result));
                        fetch_array(device, result.array());
                        CHECK(result.array().bytes() == wanted.array().bytes());
                    }
                }
}

TEST_CASE("quantising and back stays within half a scale") {
    generator random(58);
    dense_sample real({kind::fp32, 50, 60, false, 0}, random);
    dense_sample integers({kind::int16, 50, 60, true, 0}, random);
    dense_sample back({kind::fp32, 50, 60, false, 0}, random);
    std::vector<float> scales(50);
    const quantize_params params{granularity::row, calibration::absmax, 0, -1};
    quantize(context(), view_of(real), params, view_of(integers), scales.data(), nullptr, 0);
    dequantize(context(), view_of(integers), params, scales.data(), view_of(back));
    for (int64_t i = 0; i < 50; ++i)
        for (int64_t j = 0; j < 60; ++j)
            CHECK(std::fabs(back.at(0, i, j) - real.at(0, i, j)) <=
                  0.50001 * scales[static_cast<size_t>(i)]);
}

TEST_CASE("quantising refuses bad input") {
    generator random(59);
    dense_sample real({kind::fp32, 6, 5, false, 0, 2}, random);
    dense_sample integers({kind::int8, 6, 5, false, 0, 2}, random);
    dense_view from = view_of(real);
    dense_view to = view_of(integers);
    std::vector<float> scales(12, 1.0f);
    float* scale_array = scales.data();
    const auto error = [&](quantize_params params, status wanted = status::invalid_value) {
        const aligned_buffer workspace(1024);
        return error_of(
            [&] { quantize(context(), from, params, to, scale_array, workspace.data(), 1024); },
            wanted);
    };
    const auto given = calibration::given;
    const auto row = granularity::row;
    const double nan = std::nan("");
    CHECK(error({row}) == "");
    CHECK(has(error({granularity::none}), "params->granularity is NONE"));
    CHECK(has(error({row, calibration::percentile, 0}),
              "params->percentile is 0; it must be above 0 and at most 100"));
    CHECK(has(error({row, calibration::percentile, 100.5}), "params->percentile is 100.5"));
    CHECK(has(error({row, calibration::percentile, nan}), "params->percentile is nan"));
    CHECK(has(error({row, {}, 0, -2}), "params->scale_batch_stride is -2"));
    CHECK(has(error({row, {}, 0, 5}), "params->scale_batch_stride is 5; it must be at least 6"));
    CHECK(has(error({row, {}, 0, 0}), "params->scale_batch_stride is 0; it must be at least 6"));
    CHECK(has(error({row, {}, 0, INT64_MAX}), "overflows"));
    CHECK(error({row, given, 0, 0}) == "");
    scales[4] = -1;
    CHECK(has(error({row, given, 0, 0}), "scales[4] is -1; it must be positive"));
    scales[4] = 0;
    CHECK(has(error({row, given, 0, 0}), "scales[4] is 0; it must be positive"));
    scales[4] = std::numeric_limits<float>::infinity();
    CHECK(has(error({row, given, 0, 0}), "scales[4] is inf; it must be finite"));
    scales[4] = 1;
    scales[11] = std::nanf("");
    CHECK(has(error({row, given}), "scales[11] is nan; it must be finite"));
    CHECK(has(error_of([&] { dequantize(context(), to, {row}, scale_array, from); }),
              "scales[11] is nan; it must be finite"));
    scale_array = nullptr;
    CHECK(has(error({row}), "scales is null; it must hold 6 elements"));
    scale_array = reinterpret_cast<float*>(reinterpret_cast<char*>(scales.data()) + 2);
    CHECK(has(error({row}, status::misaligned), "scales is"));
    scale_array = scales.data();
    real.set(1, 5, 2, nan);
    CHECK(has(error({row}), "real[5, 2] (batch 1) is nan; it must be finite"));
    real.set(1, 5, 2, 0);
    CHECK(has(
        error_of(
            [&] {
                quantize(context(), from, {row, calibration::mse}, to, scale_array, nullptr, 119);
            },
            status::insufficient_workspace),
        "workspace_size is 119; this call needs 120 bytes"));
    to.type = dtype::uint8;
    CHECK(has(error({row}, status::not_supported), "quantized is of type uint8"));
    to = view_of(integers);
    to.rows = 5;
    CHECK(has(error({row}), "quantized is 5 x 5; it must be 6 x 5 as real is"));
    to = view_of(integers);
    from.type = dtype::int32;
    CHECK(has(error({row}, status::not_supported), "real is of type int32"));
    CHECK(has(error_of([&] { dequantize(context(), to, {row}, scale_array, from); },
                       status::not_supported),
              "real is of type int32; it must be fp32, fp16 or bf16"));
    from.type = dtype::fp32;
    to.type = dtype::e4m3;
    CHECK(has(error_of([&] { dequantize(context(), to, {row}, scale_array, from); },
                       status::not_supported),
              "quantized is of type e4m3"));
}

TEST_CASE("quantising and back refuse to write over what they read") {
    generator random(60);
    dense_sample real({kind::fp32, 6, 5, false, 0, 2}, random);
    dense_sample integers({kind::int8, 6, 5, false, 0, 2}, random);
    std::vector<float> scales(2, 1.0f);
    const auto good = real.array().bytes();
    dense_view from = view_of(real);
    dense_view to = view_of(integers);
    to.values = from.values;
    const auto quantized_over = [&] {
        return error_of([&] { quantize(context(), from, {}, to, scales.data(), nullptr, 0); });
    };
    CHECK(has(quantized_over(), "quantized overlaps real in memory"));
    to.values = static_cast<char*>(from.values) + 60 * 4 - 1;  // the last byte of real
    CHECK(has(quantized_over(), "quantized overlaps real in memory"));
    CHECK(has(error_of([&] { dequantize(context(), to, {}, scales.data(), from); }),
              "real overlaps quantized in memory"));
    CHECK(real.array().bytes() == good);
}

TEST_CASE("quantising: one array of scales for a batch of any size is looked at once") {
    float number = 1;
    int8_t integer = 1;
    std::vector<float> scales(1, -1.0f);
    dense_view from;
    from.cols = from.ld = 1;
    from.values = &number;
    from.batch_count = int64_t{1} << 60;
    dense_view to = from;
    to.type = dtype::int8;
    to.values = &integer;
    const quantize_params params{granularity::tensor, calibration::given, 0, 0};
    const auto error = [&] {
        return error_of([&] { quantize(context(), from, params, to, scales.data(), nullptr, 0); });
    };
    CHECK(has(error(), "scales[0] is -1; it must be positive"));
    scales[0] = 1;
    CHECK(error() == "");
}
