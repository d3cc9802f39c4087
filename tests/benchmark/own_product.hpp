// SPDX-License-Identifier: Apache-2.0
// The library's product: data, plans, launches, and the check against the CPU.
#pragma once

#include <memory>
#include <vector>

#include "data.hpp"
#include "device.hpp"
#include "side.hpp"
#include "sparse_data.hpp"
#include "spmm_call.hpp"
#include "spmm_case.hpp"

namespace bench {

class own_product {
  public:
    own_product(const session& s, const spmm_case& c, bool cold);
    own_product(const own_product&) = delete;

    side as_side(const std::string& name);

    // Computes once into poisoned memory and compares sampled block rows with the CPU's result.
    // What is wrong, or empty.
    std::string mistake();

    const sparse_data& a() const { return *a_; }
    const std::string& implementation() const { return implementation_; }
    int64_t plan_bytes() const { return plan_bytes_; }
    // What the plan says of the dense product, or empty.
    const std::string& advice() const { return advice_; }

  private:
    void make_operands(generator& random);
    void make_plans(bool cold);
    void launch(int copy);
    std::vector<int64_t> sampled_block_rows() const;

    const session& session_;
    spmm_case case_;
    std::unique_ptr<sparse_data> a_;
    dense_data b_, c_;
    std::vector<float> a_scale_, b_scale_;
    float alpha_ = 1;

    std::vector<spmm_plan> plans_;
    std::vector<device_array> b_copies_;
    std::vector<dense_descriptor> b_descriptors_;
    device_array c_device_, a_scale_device_, b_scale_device_, workspace_;
    dense_descriptor c_descriptor_;
    std::string implementation_, advice_;
    int64_t plan_bytes_ = 0;
};

}  // namespace bench
