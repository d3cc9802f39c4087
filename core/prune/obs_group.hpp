// SPDX-License-Identifier: Apache-2.0
// Second-order choice within one group of columns of a row group.
#pragma once

#include "core/prune/choose_columns.hpp"
#include "core/prune/obs.hpp"

namespace magicube {

// What a group's choice depends on. A is the inverse curvature restricted to the group, of what is
// still free: one matrix for all rows (apart = 0), or one a row.
struct obs_group {
    int64_t rows;
    int64_t width;
    const double* weights;  // rows x width
    const double* inverse;  // A: width x width each
    int64_t apart;          // numbers from one row's A to the next one's
};

struct obs_choice {
    uint8_t* flags;  // rows x width: 1 = kept
    // rows x width: z = (A_PP)^-1 w_P of the pruned P, 0 where kept. The weights then change by
    // -A[:, P] z.
    double* multipliers;
};

struct group_scratch {
    double* curvature;  // B = A^-1, laid out as A
    double* reduced;    // A and then weights, as columns are removed
    double* reduced_weights;
    double* images;  // y = B w, rows x width
    double* gains;
    double* states;
    double* subset;  // of the columns that are chosen
    double* inversion;
    column_sets sets;

    static group_scratch lay_out(arena& memory, const obs_params& params, int64_t rows,
                                 int64_t width, bool one_inverse);
};

// Writes the choice. Throws if A is not positive definite.
void choose_in_group(const obs_params& params, const obs_group& group, const group_scratch& scratch,
                     const obs_choice& choice);

[[noreturn]] void throw_not_definite(double damping, int64_t column);

}  // namespace magicube
