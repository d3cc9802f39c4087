// SPDX-License-Identifier: Apache-2.0
#include "own_product.hpp"

#include <algorithm>
#include <cmath>

#include "verify.hpp"

namespace bench {
namespace {

// The line that says that dense would be faster, if there is one.
std::string advice_in(const std::string& reasons) {
    std::istringstream lines(reasons);
    for (std::string line; std::getline(lines, line);)
        if (line.rfind("dense would be faster", 0) == 0) return line;
    return {};
}

// Brings results that are rounded to 8 or 16 bits into their range.
float choose_alpha(const spmm_case& c, const sparse_data& a) {
    if (c.out == MAGICUBE_INT32) return 1;
    const double size = std::sqrt(std::max(1.0, a.elements_a_row())) * typical_magnitude(c.lhs) *
                        typical_magnitude(c.rhs);
    return static_cast<float>((c.out == MAGICUBE_INT8 ? 40 : 1) / size);
}

}  // namespace

own_product::own_product(const session& s, const spmm_case& c, bool cold)
    : session_(s),
      case_(c),
      b_(c.k, c.n, c.rhs, c.b_order, c.ld_padding),
      c_(c.m, c.n, c.out, c.c_order, c.ld_padding) {
    generator random(c.seed);
    a_ = make_sparse_data(c, random);
    alpha_ = choose_alpha(c, *a_);
    make_operands(random);
    make_plans(cold);
}

void own_product::make_operands(generator& random) {
    b_.elements = random_elements(b_.type, b_.element_count(), random);
    if (case_.scales) {
        // Padded to whole block rows, so that the check can take those of any block row.
        a_scale_ = random_scales(a_->block_row_count() * a_->vector_length, random);
        b_scale_ = random_scales(case_.n, random);
        a_scale_device_ = upload(session_, a_scale_);
        b_scale_device_ = upload(session_, b_scale_);
    }
    c_device_ = device_array(c_.byte_count());
    c_descriptor_ = describe(c_, c_device_.data());
}

void own_product::make_plans(bool cold) {
    std::vector<device_array> arrays;
    std::vector<const void*> indices;
    for (const auto& array : a_->index_arrays()) {
        arrays.push_back(upload(session_, array.data, array.bytes));
        indices.push_back(arrays.back().data());
    }
    const auto values = upload(session_, a_->values);
    const auto a = a_->describe(indices, values.data());
    magicubeSpMMProblem_t problem = make_problem(case_, a);
    problem.implementation = case_.implementation.empty() ? nullptr : case_.implementation.c_str();

    plans_.push_back(make_plan(session_.gpu, problem));
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    check(magicubeSpMM_planInfo(plans_[0].get(), &info), "magicubeSpMM_planInfo");
    implementation_ = info.implementation;
    advice_ = advice_in(info.reasons);
    plan_bytes_ = static_cast<int64_t>(info.plan_bytes);
    workspace_ = device_array(static_cast<int64_t>(info.workspace_bytes));

    const int copies = cold_copies(cold, plan_bytes_ + b_.byte_count());
    b_copies_.push_back(upload(session_, b_.elements));
    for (int i = 1; i < copies; ++i) {
        plans_.push_back(make_plan(session_.gpu, problem));
        b_copies_.push_back(duplicate(session_, b_copies_[0]));
    }
    for (const auto& copy : b_copies_) b_descriptors_.push_back(describe(b_, copy.data()));
}

void own_product::launch(int copy) {
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    args.a_scale = static_cast<const float*>(a_scale_device_.data());
    args.b_scale = static_cast<const float*>(b_scale_device_.data());
    check(magicubeSpMM(session_.gpu, plans_[copy].get(), &alpha_, b_descriptors_[copy].get(),
                       nullptr, c_descriptor_.get(), &args, workspace_.data(),
                       static_cast<size_t>(workspace_.bytes())),
          "magicubeSpMM");
}

side own_product::as_side(const std::string& name) {
    return {name, implementation_, static_cast<int>(plans_.size()),
            [this](int copy) { launch(copy); }};
}

// The first, the last and some between them, fewer where the CPU has more to do for each.
std::vector<int64_t> own_product::sampled_block_rows() const {
    constexpr double products = 2e8;
    const double products_each =
        a_->elements_a_row() * a_->vector_length * static_cast<double>(case_.n);
    const auto count = static_cast<int64_t>(std::clamp(products / (1 + products_each), 4.0, 32.0));
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) {
        rows.push_back(i * (a_->block_row_count() - 1) / std::max<int64_t>(1, count - 1));
    }
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
}

std::string own_product::mistake() {
    check(magicubeMemset(session_.gpu, c_device_.data(), 0xff,
                         static_cast<size_t>(c_device_.bytes())),
          "magicubeMemset");
    launch(0);
    c_.elements = download(session_, c_device_);
    return find_mistake(session_.cpu, case_, {*a_, b_, a_scale_, b_scale_, alpha_}, c_,
                        sampled_block_rows());
}

}  // namespace bench
