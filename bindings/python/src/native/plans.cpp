// SPDX-License-Identifier: Apache-2.0
// SpMM, SDDMM, sparse softmax, attention and Kronecker-sparse products:
// their problems, arrays and executions.
#include <tuple>
#include <vector>

#include "plan.hpp"

namespace magicube_python {
namespace {

struct KroneckerMM;

}  // namespace

template <>
struct SparseOf<KroneckerMM> {
    using Type = KroneckerMat;
};

namespace {

// The ABI's types and functions of an operation.
#define MAGICUBE_OPERATION(NAME)                                        \
    using Problem = magicube##NAME##Problem_t;                          \
    using Plan = magicube##NAME##Plan_t;                                \
    static constexpr auto is_supported = &magicube##NAME##_isSupported; \
    static constexpr auto buffer_size = &magicube##NAME##_bufferSize;   \
    static constexpr auto create = &magicube##NAME##_createPlan;        \
    static constexpr auto destroy_plan = &magicube##NAME##_destroyPlan; \
    static constexpr auto info = &magicube##NAME##_planInfo;            \
    static constexpr auto list = &magicube##NAME##_listImplementations

// A field of a struct that goes by its own name, and one of an array of scales or summands.
#define MAGICUBE_TAKE(NAME) fields.take(#NAME, target.NAME)
#define MAGICUBE_TAKE_ARRAY(NAME) \
    MAGICUBE_TAKE(NAME);          \
    MAGICUBE_TAKE(NAME##_batch_stride)

struct SpMM {
    MAGICUBE_OPERATION(SpMM);
    static Problem initial() { return MAGICUBE_SPMM_PROBLEM_INIT; }
    static void set_sparse(Problem& target, magicubeConstSpMatDescr_t A) { target.A = A; }
    static void read(Fields& fields, Problem& target) {
        MAGICUBE_TAKE(b_type);
        MAGICUBE_TAKE(b_order);
        MAGICUBE_TAKE(c_type);
        MAGICUBE_TAKE(c_order);
        MAGICUBE_TAKE(n_min);
        MAGICUBE_TAKE(n_max);
        MAGICUBE_TAKE(batch_count);
        MAGICUBE_TAKE_ARRAY(a_scale);
        MAGICUBE_TAKE_ARRAY(b_scale);
        MAGICUBE_TAKE_ARRAY(bias);
        MAGICUBE_TAKE_ARRAY(c_scale);
        MAGICUBE_TAKE(activation);
        MAGICUBE_TAKE(value_mode);
    }
};

struct SDDMM {
    MAGICUBE_OPERATION(SDDMM);
    static Problem initial() { return MAGICUBE_SDDMM_PROBLEM_INIT; }
    static void set_sparse(Problem& target, magicubeConstSpMatDescr_t pattern) {
        target.pattern = pattern;
    }
    static void read(Fields& fields, Problem& target) {
        MAGICUBE_TAKE(a_type);
        MAGICUBE_TAKE(a_order);
        MAGICUBE_TAKE(b_type);
        MAGICUBE_TAKE(b_order);
        MAGICUBE_TAKE(out_type);
        MAGICUBE_TAKE(k_min);
        MAGICUBE_TAKE(k_max);
        MAGICUBE_TAKE(batch_count);
        MAGICUBE_TAKE(out_batch_stride);
        MAGICUBE_TAKE_ARRAY(a_scale);
        MAGICUBE_TAKE_ARRAY(b_scale);
        MAGICUBE_TAKE_ARRAY(out_scale);
    }
};

struct SparseSoftmax {
    MAGICUBE_OPERATION(SparseSoftmax);
    static Problem initial() { return MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT; }
    static void set_sparse(Problem& target, magicubeConstSpMatDescr_t pattern) {
        target.pattern = pattern;
    }
    static void read(Fields& fields, Problem& target) {
        MAGICUBE_TAKE(in_type);
        MAGICUBE_TAKE(out_type);
        MAGICUBE_TAKE(batch_count);
        MAGICUBE_TAKE(in_batch_stride);
        MAGICUBE_TAKE(out_batch_stride);
        MAGICUBE_TAKE_ARRAY(row_scale);
        MAGICUBE_TAKE_ARRAY(col_scale);
        MAGICUBE_TAKE_ARRAY(bias);
        MAGICUBE_TAKE(out_scale_batch_stride);
    }
};

struct Attention {
    MAGICUBE_OPERATION(Attention);
    static Problem initial() { return MAGICUBE_ATTENTION_PROBLEM_INIT; }
    static void set_sparse(Problem& target, magicubeConstSpMatDescr_t pattern) {
        target.pattern = pattern;
    }
    static void read(Fields& fields, Problem& target) {
        MAGICUBE_TAKE(patterns);
        MAGICUBE_TAKE(in_type);
        MAGICUBE_TAKE(out_type);
        MAGICUBE_TAKE(batch_count);
        MAGICUBE_TAKE(q_heads);
        MAGICUBE_TAKE(kv_heads);
        MAGICUBE_TAKE(head_dim);
        MAGICUBE_TAKE(causal);
        MAGICUBE_TAKE(causal_offset);
        MAGICUBE_TAKE(causal_offsets);
        MAGICUBE_TAKE(key_lengths);
        MAGICUBE_TAKE(log_sum_exp);
        MAGICUBE_TAKE(probability_bits);
        MAGICUBE_TAKE(q_scale);
        MAGICUBE_TAKE(k_scale);
        MAGICUBE_TAKE(v_scale);
    }
};

struct KroneckerMM {
    MAGICUBE_OPERATION(KroneckerMM);
    static Problem initial() { return MAGICUBE_KRONECKER_MM_PROBLEM_INIT; }
    static void set_sparse(Problem& target, magicubeConstKroneckerDescr_t K) { target.K = K; }
    static void read(Fields& fields, Problem& target) {
        MAGICUBE_TAKE(transpose);
        MAGICUBE_TAKE(layout);
        MAGICUBE_TAKE(x_order);
        MAGICUBE_TAKE(y_type);
        MAGICUBE_TAKE(y_order);
        MAGICUBE_TAKE(n_min);
        MAGICUBE_TAKE(n_max);
        MAGICUBE_TAKE(batch_count);
        MAGICUBE_TAKE_ARRAY(k_scale);
        MAGICUBE_TAKE_ARRAY(x_scale);
        MAGICUBE_TAKE_ARRAY(bias);
        MAGICUBE_TAKE_ARRAY(y_scale);
        MAGICUBE_TAKE(activation);
        MAGICUBE_TAKE(value_mode);
    }
};

void spmm(Plan<SpMM>& plan, Handle& handle, float alpha, const DnMat& B, float beta, const DnMat& C,
          const py::dict& entries, std::uintptr_t workspace) {
    magicubeSpMMArgs_t target = MAGICUBE_SPMM_ARGS_INIT;
    Fields fields(entries);
    MAGICUBE_TAKE(a_values);
    MAGICUBE_TAKE(a_scale);
    MAGICUBE_TAKE(b_scale);
    MAGICUBE_TAKE(bias);
    MAGICUBE_TAKE(c_scale);
    fields.finish();
    plan.execute(handle, workspace, &magicubeSpMM, static_cast<const float*>(&alpha), B.get(),
                 static_cast<const float*>(&beta), C.target(),
                 static_cast<const magicubeSpMMArgs_t*>(&target));
}

void sddmm(Plan<SDDMM>& plan, Handle& handle, float alpha, const DnMat& A, const DnMat& B,
           std::uintptr_t values, const py::dict& entries, std::uintptr_t workspace) {
    magicubeSDDMMArgs_t target = MAGICUBE_SDDMM_ARGS_INIT;
    Fields fields(entries);
    MAGICUBE_TAKE(a_scale);
    MAGICUBE_TAKE(b_scale);
    MAGICUBE_TAKE(out_scale);
    fields.finish();
    plan.execute(handle, workspace, &magicubeSDDMM, static_cast<const float*>(&alpha), A.get(),
                 B.get(), pointer(values), static_cast<const magicubeSDDMMArgs_t*>(&target));
}

void sparse_softmax(Plan<SparseSoftmax>& plan, Handle& handle, float alpha, std::uintptr_t scores,
                    std::uintptr_t out, const py::dict& entries, std::uintptr_t workspace) {
    magicubeSparseSoftmaxArgs_t target = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
    Fields fields(entries);
    MAGICUBE_TAKE(row_scale);
    MAGICUBE_TAKE(col_scale);
    MAGICUBE_TAKE(bias);
    MAGICUBE_TAKE(out_scale);
    fields.finish();
    plan.execute(handle, workspace, &magicubeSparseSoftmax, static_cast<const float*>(&alpha),
                 static_cast<const void*>(pointer(scores)), pointer(out),
                 static_cast<const magicubeSparseSoftmaxArgs_t*>(&target));
}

// A tensor's address and its strides of batch, head and row.
using Tensor = std::tuple<std::uintptr_t, int64_t, int64_t, int64_t>;

void attention(Plan<Attention>& plan, Handle& handle, std::optional<float> scale, const Tensor& q,
               const Tensor& k, const Tensor& v, const Tensor& out, const py::dict& entries,
               std::uintptr_t workspace) {
    magicubeAttentionArgs_t target = MAGICUBE_ATTENTION_ARGS_INIT;
    Fields fields(entries);
    MAGICUBE_TAKE(causal_offsets);
    MAGICUBE_TAKE(key_lengths);
    MAGICUBE_TAKE(log_sum_exp);
    MAGICUBE_TAKE(q_scale);
    MAGICUBE_TAKE(k_scale);
    MAGICUBE_TAKE(v_scale);
    fields.finish();
    const auto strides = [](const Tensor& tensor) {
        return magicubeAttentionStrides_t{std::get<1>(tensor), std::get<2>(tensor),
                                          std::get<3>(tensor)};
    };
    const magicubeAttentionStrides_t all[] = {strides(q), strides(k), strides(v), strides(out)};
    target.q_strides = &all[0];
    target.k_strides = &all[1];
    target.v_strides = &all[2];
    target.out_strides = &all[3];
    const auto input = [](const Tensor& tensor) {
        return static_cast<const void*>(pointer(std::get<0>(tensor)));
    };
    plan.execute(handle, workspace, &magicubeAttention,
                 scale ? static_cast<const float*>(&*scale) : nullptr, input(q), input(k), input(v),
                 pointer(std::get<0>(out)), static_cast<const magicubeAttentionArgs_t*>(&target));
}

// Addresses of one array of values a factor.
std::vector<const void*> pointers(const std::vector<std::uintptr_t>& addresses) {
    std::vector<const void*> result;
    result.reserve(addresses.size());
    for (const auto address : addresses) result.push_back(pointer(address));
    return result;
}

void kronecker_mm(Plan<KroneckerMM>& plan, Handle& handle, float alpha, const DnMat& X, float beta,
                  const DnMat& Y, const std::vector<std::uintptr_t>& values,
                  const py::dict& entries, std::uintptr_t workspace) {
    magicubeKroneckerMMArgs_t target = MAGICUBE_KRONECKER_MM_ARGS_INIT;
    Fields fields(entries);
    MAGICUBE_TAKE(k_scale);
    MAGICUBE_TAKE(x_scale);
    MAGICUBE_TAKE(bias);
    MAGICUBE_TAKE(y_scale);
    fields.finish();
    const auto list = pointers(values);
    if (!list.empty()) target.k_values = list.data();
    plan.execute(handle, workspace, &magicubeKroneckerMM, static_cast<const float*>(&alpha),
                 X.get(), static_cast<const float*>(&beta), Y.target(),
                 static_cast<const magicubeKroneckerMMArgs_t*>(&target));
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
    bind_plan<Attention>(module, "AttentionPlan").def("execute", &attention);
    bind_plan<KroneckerMM>(module, "KroneckerMMPlan")
        .def("execute", &kronecker_mm)
        .def("update_values", [](Plan<KroneckerMM>& plan, Handle& handle,
                                 const std::vector<std::uintptr_t>& values) {
            const auto list = pointers(values);
            handle.call(&magicubeKroneckerMM_updateValues, plan.get(), list.data());
        });
}

}  // namespace magicube_python
