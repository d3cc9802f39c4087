// SPDX-License-Identifier: Apache-2.0
// Descriptors and plans of the C ABI that free themselves, the same for the GPU and the CPU.
#pragma once

#include <memory>

#include "common.hpp"
#include "data.hpp"
#include "magicube/magicube.h"
#include "spmm_case.hpp"

namespace bench {

struct destroy {
    void operator()(const magicubeDnMatDescr* matrix) const { magicubeDestroyDnMat(matrix); }
    void operator()(const magicubeSpMatDescr* matrix) const { magicubeDestroySpMat(matrix); }
    void operator()(magicubeSpMMPlan* plan) const { magicubeSpMM_destroyPlan(plan); }
};
using dense_descriptor = std::unique_ptr<magicubeDnMatDescr, destroy>;
using sparse_descriptor = std::unique_ptr<const magicubeSpMatDescr, destroy>;
using spmm_plan = std::unique_ptr<magicubeSpMMPlan, destroy>;

inline dense_descriptor describe(const dense_data& shape, void* elements) {
    magicubeDnMatDescr_t matrix = nullptr;
    check(magicubeCreateDnMat(&matrix, shape.rows, shape.cols, shape.ld, elements, shape.type,
                              shape.order),
          "magicubeCreateDnMat");
    return dense_descriptor(matrix);
}

inline magicubeSpMMProblem_t make_problem(const spmm_case& c, const sparse_descriptor& a) {
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = a.get();
    problem.b_type = c.rhs;
    problem.b_order = c.b_order;
    problem.c_type = c.out;
    problem.c_order = c.c_order;
    problem.n_min = problem.n_max = c.n;
    if (c.scales) {
        problem.a_scale = MAGICUBE_GRANULARITY_ROW;
        problem.b_scale = MAGICUBE_GRANULARITY_COL;
    }
    return problem;
}

inline spmm_plan make_plan(magicubeHandle_t handle, const magicubeSpMMProblem_t& problem) {
    magicubeSpMMPlan_t plan = nullptr;
    check(magicubeSpMM_createPlan(handle, &problem, nullptr, 0, &plan), "magicubeSpMM_createPlan");
    return spmm_plan(plan);
}

}  // namespace bench
