// SPDX-License-Identifier: Apache-2.0
#include "core/ops/operands.hpp"

#include <algorithm>
#include <string>

#include "core/common/checked.hpp"
#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"

namespace magicube {

void check_batch(int64_t batch_count, const sparse_common& pattern, const char* argument) {
    require_value(batch_count >= 0, "problem->batch_count is ", batch_count,
                  "; it must be at least 0");
    require_value(pattern.batch_count == batch_count || pattern.batch_count == 1, argument,
                  " has a batch of ", pattern.batch_count,
                  "; it must be problem->batch_count = ", batch_count, " or 1");
}

void check_range(int64_t lowest, int64_t highest, const char* dimension) {
    require_value(lowest >= 0, "problem->", dimension, "_min is ", lowest,
                  "; it must be at least 0");
    require_value(highest >= lowest, "problem->", dimension, "_max is ", highest,
                  "; it must be at least problem->", dimension, "_min = ", lowest);
}

void check_in_range(int64_t size, int64_t lowest, int64_t highest, const char* argument) {
    require_value(size >= lowest && size <= highest, argument, " is ", size,
                  "; the plan was made for ", lowest, " to ", highest);
}

namespace {

std::string names_of(std::initializer_list<granularity> values) {
    std::string names = "NONE";
    for (const auto value : values) names += text(" or ", name_of(value));
    return names;
}

int64_t array_length(const scale_shape& shape, int64_t length) {
    return shape.per == granularity::tensor ? 1 : length;
}

}  // namespace

void check_scale_shape(const scale_shape& shape, std::initializer_list<granularity> allowed,
                       int64_t batch_count, const char* argument) {
    const bool fits =
        !shape.present() || std::find(allowed.begin(), allowed.end(), shape.per) != allowed.end();
    if (!fits) {
        fail(status::invalid_value, argument, " is ", name_of(shape.per), "; it must be ",
             names_of(allowed));
    }
    require_value(shape.batch_stride >= 0, argument, "_batch_stride is ", shape.batch_stride,
                  "; it must be at least 0");
    checked_mul(shape.batch_stride, batch_count, text(argument, "_batch_stride").c_str());
}

void check_summands(const scale_shape& shape, const float* data, int64_t length,
                    int64_t batch_count, const char* argument) {
    if (!shape.present()) return;
    require_array(data, batch_count == 0 ? 0 : array_length(shape, length), alignof(float),
                  argument);
}

void check_scales(const context& ctx, const scale_shape& shape, const float* data, int64_t length,
                  int64_t batch_count, const char* argument, bool divides) {
    check_summands(shape, data, length, batch_count, argument);
    if (!shape.present()) return;
    validate_scales(ctx, data, array_length(shape, length), batch_count, shape.batch_stride,
                    divides ? scale_rule::not_zero : scale_rule::finite, argument);
}

void check_dense(const dense_view& view, const dense_expectation& expected, const char* argument) {
    require_value(view.type == expected.type, argument, " is ", name_of(view.type),
                  "; the plan was made for ", name_of(expected.type));
    const auto order_name = [](order o) { return o == order::row ? "ROW" : "COL"; };
    require_value(view.storage == expected.storage, argument, " has order ",
                  order_name(view.storage), "; the plan was made for ",
                  order_name(expected.storage));
    require_value(view.rows == expected.rows && view.cols == expected.cols, argument, " is ",
                  view.rows, " x ", view.cols, "; it must be ", expected.rows, " x ",
                  expected.cols);
    require_value(view.batch_count == expected.batch_count, argument, " has a batch of ",
                  view.batch_count, "; the plan was made for ", expected.batch_count);
}

int64_t value_stride(const sr_bcrs_view& pattern, int64_t given) {
    if (pattern.different_patterns) return 0;
    return given == 0 ? pattern.value_count() : given;
}

void check_value_stride(const sr_bcrs_view& pattern, int64_t given, dtype type, int64_t batch_count,
                        bool output, const char* argument) {
    require_value(given >= 0, argument, " is ", given, "; it must be at least 0");
    if (pattern.different_patterns) return;
    const int64_t stride = value_stride(pattern, given);
    checked_mul(checked_mul(stride, batch_count, argument), 8, argument);
    require_value(type != dtype::int4 || stride % 2 == 0, argument, " is ", stride,
                  "; it must be even for int4");
    require_value(!output || batch_count <= 1 || stride >= pattern.value_count(), argument, " is ",
                  given, "; it must be 0 or at least ", pattern.value_count(),
                  ", the values of one matrix");
}

void check_value_array(const void* values, dtype type, int64_t count, const char* argument) {
    require_array(values, count, element_alignment(type), argument);
}

dense_view value_arrays(const sr_bcrs_view& pattern, const void* values, dtype type, int64_t stride,
                        int64_t batch_count) {
    dense_view view = array_view(values, type, pattern.value_count());
    view.batch_count = batch_count;
    view.batch_stride = stride;
    return view;
}

}  // namespace magicube
