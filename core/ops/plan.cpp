// SPDX-License-Identifier: Apache-2.0
#include "core/ops/plan.hpp"

#include <algorithm>

namespace magicube {

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

}  // namespace magicube
