// SPDX-License-Identifier: Apache-2.0
#include "magicube/spmm.h"

#include <type_traits>
#include <variant>

#include "core/ops/spmm/spmm.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"
#include "operation.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(activation::none) == MAGICUBE_ACTIVATION_NONE);
static_assert(static_cast<int>(activation::relu) == MAGICUBE_ACTIVATION_RELU);
static_assert(static_cast<int>(activation::gelu) == MAGICUBE_ACTIVATION_GELU);
static_assert(static_cast<int>(value_mode::fixed) == MAGICUBE_VALUES_FIXED);
static_assert(static_cast<int>(value_mode::updatable) == MAGICUBE_VALUES_UPDATABLE);
static_assert(static_cast<int>(value_mode::per_call) == MAGICUBE_VALUES_PER_CALL);

// The product of either format of A.
struct magicubeSpMMPlan {
    std::variant<std::unique_ptr<spmm::plan>, std::unique_ptr<vnm_mm::plan>> value;
};

namespace {

using given_problem = magicubeSpMMProblem_t;

given_problem read_problem(const given_problem* given) {
    return read_struct(given, given_problem MAGICUBE_SPMM_PROBLEM_INIT, "problem");
}

void read_product(const given_problem& given, product_problem& p) {
    p.b_type = capi::to_core(given.b_type, "problem->b_type");
    p.b_order = capi::to_core(given.b_order, "problem->b_order");
    p.c_type = capi::to_core(given.c_type, "problem->c_type");
    p.c_order = capi::to_core(given.c_order, "problem->c_order");
    p.n_min = given.n_min;
    p.n_max = given.n_max;
    p.batch_count = given.batch_count;
    p.a_scale = to_scale(given.a_scale, given.a_scale_batch_stride, "problem->a_scale");
    p.b_scale = to_scale(given.b_scale, given.b_scale_batch_stride, "problem->b_scale");
    p.bias = to_scale(given.bias, given.bias_batch_stride, "problem->bias");
    p.c_scale = to_scale(given.c_scale, given.c_scale_batch_stride, "problem->c_scale");
    p.function = capi::to_core<activation>(given.activation, 0, 2, "problem->activation",
                                           "magicubeActivation_t");
    p.values = capi::to_core<value_mode>(given.value_mode, 0, 2, "problem->value_mode",
                                         "magicubeValueMode_t");
    p.implementation = given.implementation;
}

template <class Operation>
struct entry_of {
    using operation = Operation;
    using plan = magicubeSpMMPlan;

    static given_problem read(const given_problem* given) { return read_problem(given); }
    static magicubeConstSpMatDescr_t sparse(const given_problem& given) { return given.A; }

    static typename Operation::problem to_core(const given_problem& given) {
        typename Operation::problem p;
        if constexpr (std::is_same_v<Operation, vnm_mm::operation>) {
            p.pattern = get_vnm_pattern(given.A, "problem->A");
        } else {
            p.pattern = get_pattern(given.A, "problem->A");
        }
        read_product(given, p);
        return p;
    }
};

// Calls body with the entry for the format of the problem's A.
template <class Body>
void with_entry(const given_problem* problem, const Body& body) {
    const auto& a = get(read_problem(problem).A, "problem->A");
    if (std::holds_alternative<vnm_view>(a)) {
        body(entry_of<vnm_mm::operation>());
    } else {
        body(entry_of<spmm::operation>());
    }
}

}  // namespace

magicubeStatus_t magicubeSpMM_isSupported(magicubeHandle_t handle,
                                          const magicubeSpMMProblem_t* problem) noexcept {
    return MAGICUBE_GUARDED({
        get(handle);
        with_entry(problem, [&](auto entry) { check_supported<decltype(entry)>(handle, problem); });
    });
}

magicubeStatus_t magicubeSpMM_bufferSize(magicubeHandle_t handle,
                                         const magicubeSpMMProblem_t* problem,
                                         magicubeBufferSizes_t* sizes) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        deref(sizes, "sizes");
        get(handle);
        with_entry(problem,
                   [&](auto entry) { tell_needs<decltype(entry)>(handle, problem, sizes); });
    });
}

magicubeStatus_t magicubeSpMM_createPlan(magicubeHandle_t handle,
                                         const magicubeSpMMProblem_t* problem, void* plan_buffer,
                                         size_t plan_buffer_size,
                                         magicubeSpMMPlan_t* plan) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        deref(plan, "plan") = nullptr;
        get(handle);
        with_entry(problem, [&](auto entry) {
            make_plan<decltype(entry)>(handle, problem, plan_buffer, plan_buffer_size, plan);
        });
    });
}

magicubeStatus_t magicubeSpMM_destroyPlan(magicubeSpMMPlan_t plan) noexcept {
    delete plan;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeSpMM_updateValues(magicubeHandle_t handle, magicubeSpMMPlan_t plan,
                                           const void* values) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        std::visit([&](auto& made) { update_values(ctx, *made, values); },
                   deref(plan, "plan").value);
    });
}

magicubeStatus_t magicubeSpMM(magicubeHandle_t handle, magicubeSpMMPlan_t plan, const float* alpha,
                              magicubeConstDnMatDescr_t B, const float* beta,
                              magicubeDnMatDescr_t C, const magicubeSpMMArgs_t* args,
                              void* workspace, size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        const auto& made = deref(plan, "plan").value;
        magicubeSpMMArgs_t given = MAGICUBE_SPMM_ARGS_INIT;
        if (args) given = read_struct(args, given, "args");
        product_arguments a;
        a.alpha = alpha;
        a.beta = beta;
        a.b = get(B, "B");
        a.c = get_output(C, "C");
        a.a_values = given.a_values;
        a.a_scale = given.a_scale;
        a.b_scale = given.b_scale;
        a.bias = given.bias;
        a.c_scale = given.c_scale;
        a.workspace = workspace;
        a.workspace_size = workspace_size;
        std::visit([&](const auto& ready) { execute(ctx, *ready, a); }, made);
    });
}

magicubeStatus_t magicubeSpMM_planInfo(magicubeSpMMPlan_t plan, magicubePlanInfo_t* info) noexcept {
    return MAGICUBE_GUARDED({
        std::visit([&](const auto& made) { tell_resources(made->resources(), info); },
                   deref(plan, "plan").value);
    });
}

magicubeStatus_t magicubeSpMM_listImplementations(magicubeDevice_t device, const char** names,
                                                  int32_t capacity, int32_t* count) noexcept {
    return MAGICUBE_GUARDED(tell_implementations<spmm::operation>(device, names, capacity, count););
}

magicubeStatus_t magicubeSpMM_listFormatImplementations(magicubeDevice_t device,
                                                        magicubeSparseFormat_t format,
                                                        const char** names, int32_t capacity,
                                                        int32_t* count) noexcept {
    return MAGICUBE_GUARDED({
        const int number = static_cast<int>(format);
        require_value(number >= MAGICUBE_FORMAT_CSR && number <= MAGICUBE_FORMAT_VNM, "format is ",
                      number, "; it must be a magicubeSparseFormat_t");
        require(format != MAGICUBE_FORMAT_BSR, status::not_supported,
                "format is BSR; SpMM takes SR-BCRS, CSR or V:N:M");
        if (format == MAGICUBE_FORMAT_VNM) {
            tell_implementations<vnm_mm::operation>(device, names, capacity, count);
        } else {
            tell_implementations<spmm::operation>(device, names, capacity, count);
        }
    });
}
