// SPDX-License-Identifier: Apache-2.0
// Projection of a dense matrix onto products of two or more sparse factors of given supports.
// Definitions, guarantees and sources: project.h.
#pragma once

#include <vector>

#include "core/device/context.hpp"
#include "core/formats/kronecker/kronecker.hpp"

namespace magicube {

// Same numbers as magicubeProjectionWeighting_t; capi asserts it.
enum class weighting : int { none = 0, columns = 1, activations = 2 };

// How much the error of each column counts.
struct column_weights {
    weighting kind = weighting::none;
    const dense_view* given = nullptr;
};

struct projection_report {
    double norm = 0;           // of the weighted matrix
    std::vector<double> lost;  // by each split into two; the squares add up to the error's

    double error() const;
    double relative_error() const;
    double least_error() const;
    double bound() const;
};

// chain = a chain near weight, all neighbours chainable.
projection_report project_chain(const context& ctx, const dense_view& weight,
                                const column_weights& weights, const kronecker_view& chain);

// The matrices of a projection onto two supports.
struct support_operands {
    dense_view weight;
    dense_view left_support;   // uint8
    dense_view right_support;  // uint8
    dense_view left;           // output
    dense_view right;          // output
};

// left * right = the nearest to weight of all with these supports.
projection_report project_supports(const context& ctx, const support_operands& operands,
                                   const column_weights& weights);

}  // namespace magicube
