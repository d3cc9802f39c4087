// SPDX-License-Identifier: Apache-2.0
// SpMM, SDDMM and sparse softmax: their problems, arrays and executions.
#include "plan.hpp"

namespace magicube_python {
namespace {

struct SpMM {
    using Problem = magicubeSpMMProblem_t;
    using Plan = magicubeSpMMPlan_t;
    static constexpr auto is_supported = &magicubeSpMM_isSupported;
    static constexpr auto buffer_size = &magicubeSpMM_bufferSize;
    static constexpr auto create = &magicubeSpMM_createPlan;
    static constexpr auto destroy_plan = &magicubeSpMM_destroyPlan;
    static constexpr auto info = &magicubeSpMM_planInfo;
    static constexpr auto list = &magicubeSpMM_listImplementations;
    static Problem initial() { return MAGICUBE_SPMM_PROBLEM_INIT; }
    static void set_sparse(Problem& problem, magicubeConstSpMatDescr_t A) { problem.A = A; }
    static void read(Fields& fields, Problem& problem) {
        fields.take("b_type", problem.b_type);
        fields.take("b_order", problem.b_order);
        fields.take("c_type", problem.c_type);
        fields.take("c_order", problem.c_order);
        fields.take("n_min", problem.n_min);
        fields.take("n_max", problem.n_max);
        fields.take("batch_count", problem.batch_count);
        fields.take("a_scale", problem.a_scale);
        fields.take("b_scale", problem.b_scale);
        fields.take("bias", problem.bias);
        fields.take("c_scale", problem.c_scale);
        fields.take("a_scale_batch_stride", problem.a_scale_batch_stride);
        fields.take("b_scale_batch_stride", problem.b_scale_batch_stride);
        fields.take("bias_batch_stride", problem.bias_batch_stride);
        fields.take("c_scale_batch_stride", problem.c_scale_batch_stride);
        fields.take("activation", problem.activation);
        fields.take("value_mode", problem.value_mode);
    }
};

struct SDDMM {
    using Problem = magicubeSDDMMProblem_t;
    using Plan = magicubeSDDMMPlan_t;
    static constexpr auto is_supported = &magicubeSDDMM_isSupported;
    static constexpr auto buffer_size = &magicubeSDDMM_bufferSize;
    static constexpr auto create = &magicubeSDDMM_createPlan;
    static constexpr auto destroy_plan = &magicubeSDDMM_destroyPlan;
    static constexpr auto info = &magicubeSDDMM_planInfo;
    static constexpr auto list = &magicubeSDDMM_listImplementations;
    static Problem initial() { return MAGICUBE_SDDMM_PROBLEM_INIT; }
    static void set_sparse(Problem& problem, magicubeConstSpMatDescr_t pattern) {
        problem.pattern = pattern;
    }
    static void read(Fields& fields, Problem& problem) {
        fields.take("a_type", problem.a_type);
        fields.take("a_order", problem.a_order);
        fields.take("b_type", problem.b_type);
        fields.take("b_order", problem.b_order);
        fields.take("out_type", problem.out_type);
        fields.take("k_min", problem.k_min);
        fields.take("k_max", problem.k_max);
        fields.take("batch_count", problem.batch_count);
        fields.take("out_batch_stride", problem.out_batch_stride);
        fields.take("a_scale", problem.a_scale);
        fields.take("b_scale", problem.b_scale);
        fields.take("out_scale", problem.out_scale);
        fields.take("a_scale_batch_stride", problem.a_scale_batch_stride);
        fields.take("b_scale_batch_stride", problem.b_scale_batch_stride);
        fields.take("out_scale_batch_stride", problem.out_scale_batch_stride);
    }
};

struct SparseSoftmax {
    using Problem = magicubeSparseSoftmaxProblem_t;
    using Plan = magicubeSparseSoftmaxPlan_t;
    static constexpr auto is_supported = &magicubeSparseSoftmax_isSupported;
    static constexpr auto buffer_size = &magicubeSparseSoftmax_bufferSize;
    static constexpr auto create = &magicubeSparseSoftmax_createPlan;
    static constexpr auto destroy_plan = &magicubeSparseSoftmax_destroyPlan;
    static constexpr auto info = &magicubeSparseSoftmax_planInfo;
    static constexpr auto list = &magicubeSparseSoftmax_listImplementations;
    static Problem initial() { return MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT; }
    static void set_sparse(Problem& problem, magicubeConstSpMatDescr_t pattern) {
        problem.pattern = pattern;
    }
    static void read(Fields& fields, Problem& problem) {
        fields.take("in_type", problem.in_type);
        fields.take("out_type", problem.out_type);
        fields.take("batch_count", problem.batch_count);
        fields.take("in_batch_stride", problem.in_batch_stride);
        fields.take("out_batch_stride", problem.out_batch_stride);
        fields.take("row_scale", problem.row_scale);
        fields.take("col_scale", problem.col_scale);
        fields.take("bias", problem.bias);
        fields.take("row_scale_batch_stride", problem.row_scale_batch_stride);
        fields.take("col_scale_batch_stride", problem.col_scale_batch_stride);
        fields.take("bias_batch_stride", problem.bias_batch_stride);
        fields.take("out_scale_batch_stride", problem.out_scale_batch_stride);
    }
};

void spmm(Plan<SpMM>& plan, Handle& handle, float alpha, const DnMat& B, float beta, const DnMat& C,
          const py::dict& entries, std::uintptr_t workspace) {
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    Fields fields(entries);
    fields.take("a_values", args.a_values);
    fields.take("a_scale", args.a_scale);
    fields.take("b_scale", args.b_scale);
    fields.take("bias", args.bias);
    fields.take("c_scale", args.c_scale);
    fields.finish();
    plan.execute(handle, workspace, &magicubeSpMM, static_cast<const float*>(&alpha), B.get(),
                 static_cast<const float*>(&beta), C.target(),
                 static_cast<const magicubeSpMMArgs_t*>(&args));
}

void sddmm(Plan<SDDMM>& plan, Handle& handle, float alpha, const DnMat& A, const DnMat& B,
           std::uintptr_t values, const py::dict& entries) {
    magicubeSDDMMArgs_t args = MAGICUBE_SDDMM_ARGS_INIT;
    Fields fields(entries);
    fields.take("a_scale", args.a_scale);
    fields.take("b_scale", args.b_scale);
    fields.take("out_scale", args.out_scale);
    fields.finish();
    plan.execute(handle, 0, &magicubeSDDMM, static_cast<const float*>(&alpha), A.get(), B.get(),
                 pointer(values), static_cast<const magicubeSDDMMArgs_t*>(&args));
}

void sparse_softmax(Plan<SparseSoftmax>& plan, Handle& handle, float alpha, std::uintptr_t scores,
                    std::uintptr_t out, const py::dict& entries) {
    magicubeSparseSoftmaxArgs_t args = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
    Fields fields(entries);
    fields.take("row_scale", args.row_scale);
    fields.take("col_scale", args.col_scale);
    fields.take("bias", args.bias);
    fields.take("out_scale", args.out_scale);
    fields.finish();
    plan.execute(handle, 0, &magicubeSparseSoftmax, static_cast<const float*>(&alpha),
                 static_cast<const void*>(pointer(scores)), pointer(out),
                 static_cast<const magicubeSparseSoftmaxArgs_t*>(&args));
}

}  // namespace

void bind_plans(py::module_& module) {
    bind_plan<SpMM>(module, "SpMMPlan")
        .def("execute", &spmm)
        .def("update_values", [](Plan<SpMM>& plan, Handle& handle, std::uintptr_t values) {
            handle.call(&magicubeSpMM_updateValues, plan.get(),
                        static_cast<const void*>(pointer(values)));
        });
    bind_plan<SDDMM>(module, "SDDMMPlan").def("execute", &sddmm);
    bind_plan<SparseSoftmax>(module, "SparseSoftmaxPlan").def("execute", &sparse_softmax);
}

}  // namespace magicube_python
