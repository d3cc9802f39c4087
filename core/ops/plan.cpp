// SPDX-License-Identifier: Apache-2.0
#include "core/ops/plan.hpp"

#include <algorithm>

#include "core/device/device.hpp"
#include "core/formats/validate.hpp"

namespace magicube {
namespace {

template <class View>
void check_arrays(const context& ctx, const View& pattern, const sparse_view* given, bool values,
                  const char* argument) {
    if (given && ctx.validates()) {
        validate_pattern(ctx, *given, argument);
        if (values) validate_values(ctx, *given, argument);
    }
    require_value(!values || pattern.values != nullptr || pattern.value_count() == 0 ||
                      pattern.batch_count == 0,
                  argument,
                  " has null values; they are required unless problem->value_mode is "
                  "MAGICUBE_VALUES_PER_CALL");
    check_array_places(ctx, pattern, argument);
}

}  // namespace

void forget_arrays(sr_bcrs_view& pattern) {
    pattern.row_begin.data = pattern.row_end.data = nullptr;
    pattern.col_indices = nullptr;
    pattern.element_mask = nullptr;
    pattern.values = nullptr;
}

void forget_arrays(vnm_view& pattern) {
    pattern.column_loc = nullptr;
    pattern.metadata = nullptr;
    pattern.values = nullptr;
}

std::string benchmark_options(const context& ctx, const sr_bcrs_view& pattern,
                              const char* implementation) {
    // Of the first matrix; on a GPU, where the offsets cannot be read here, padding counts too.
    const int64_t matrices =
        pattern.different_patterns ? std::max<int64_t>(pattern.batch_count, 1) : 1;
    int64_t vectors = pattern.slots / matrices;
    if (ctx.on_cpu() && pattern.batch_count > 0) {
        vectors = 0;
        for (int64_t i = 0; i < pattern.block_rows(); ++i)
            vectors += pattern.row_end[i] - pattern.row_begin[i];
    }
    const double all =
        static_cast<double>(pattern.block_rows()) * static_cast<double>(pattern.cols);
    const double density = all > 0 ? static_cast<double>(vectors) / all : 0;
    return text("--device ", ctx.on_cpu() ? "cpu" : "cuda", " --vector-length ",
                pattern.vector_length, " --stride ", pattern.stride, " --sparsity ",
                std::max(0.0, 1 - density), " --implementation ", implementation);
}

void check_array_places(const context& ctx, const sr_bcrs_view& pattern, const char* argument) {
    if (ctx.on_cpu()) return;
    const auto reached = [&](bool used, const void* array, const char* name) {
        if (used) require_reachable(ctx, array, text(argument, "'s ", name).c_str());
    };
    const bool slots = pattern.slots > 0 && pattern.batch_count > 0;
    const bool rows = pattern.block_rows() > 0 && pattern.batch_count > 0;
    reached(rows, pattern.row_begin.data, "row_begin");
    reached(rows, pattern.row_end.data, "row_end");
    reached(slots, pattern.col_indices, "col_indices");
    reached(slots, pattern.element_mask, "element_mask");
    reached(slots, pattern.values, "values");
}

void check_array_places(const context& ctx, const vnm_view& pattern, const char* argument) {
    if (ctx.on_cpu() || pattern.value_count() == 0 || pattern.batch_count == 0) return;
    require_reachable(ctx, pattern.column_loc, text(argument, "'s column_loc").c_str());
    require_reachable(ctx, pattern.metadata, text(argument, "'s metadata").c_str());
    require_reachable(ctx, pattern.values, text(argument, "'s values").c_str());
}

void check_sparse_arrays(const context& ctx, const sr_bcrs_view& pattern, const sparse_view* given,
                         bool values, const char* argument) {
    check_arrays(ctx, pattern, given, values, argument);
}

void check_sparse_arrays(const context& ctx, const vnm_view& pattern, const sparse_view* given,
                         bool values, const char* argument) {
    check_arrays(ctx, pattern, given, values, argument);
}

}  // namespace magicube
