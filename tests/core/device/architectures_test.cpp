// SPDX-License-Identifier: Apache-2.0
#include "core/device/architectures.hpp"

#include <doctest/doctest.h>

#include "core/device/device.hpp"

using namespace magicube;

TEST_CASE("issue_02_code_runs_on_the_gpus_that_cuda_says") {
    CHECK(runs_on(80, "sm_80 sm_90a"));
    CHECK(runs_on(86, "sm_80 sm_90a"));
    CHECK(runs_on(89, "sm_80"));
    CHECK(runs_on(90, "sm_80 sm_90a"));
    CHECK_FALSE(runs_on(75, "sm_80 sm_90a"));
    CHECK_FALSE(runs_on(86, "sm_89"));
    CHECK_FALSE(runs_on(90, "sm_80 sm_89"));
    CHECK_FALSE(runs_on(100, "sm_80 sm_90a"));
    CHECK_FALSE(runs_on(103, "sm_100a"));  // sm_XYa has no later minors
    CHECK(runs_on(103, "sm_100f"));
    CHECK_FALSE(runs_on(110, "sm_100f"));
    // PTX is compiled for what is later, but for sm_XYa's
    CHECK(runs_on(121, "sm_80 compute_90"));
    CHECK_FALSE(runs_on(89, "compute_90"));
    CHECK_FALSE(runs_on(100, "compute_90a"));
    CHECK(runs_on(90, "compute_90a"));
    CHECK(runs_on(103, "sm_90a compute_100f "));
    CHECK_FALSE(runs_on(120, "compute_100f"));
    for (const char* nothing : {"", "none", "sm_", "90", "sm_x"}) CHECK_FALSE(runs_on(90, nothing));
}

TEST_CASE("issue_02_the_message_names_the_device_and_what_was_built") {
    CHECK(arch_mismatch_message(3, "Tesla T4", 75, "sm_80 sm_90a") ==
          "CUDA device 3 (Tesla T4) is sm_75; this library was built for sm_80 sm_90a");
}

TEST_CASE("issue_02_build_info_lists_the_architectures") {
    CHECK_FALSE(built_architectures().empty());
    CHECK(build_info().find("; architectures: " + built_architectures()) != std::string::npos);
}
