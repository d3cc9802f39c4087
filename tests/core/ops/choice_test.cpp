// SPDX-License-Identifier: Apache-2.0
#include "core/ops/choice.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/ops/plan.hpp"

using namespace magicube;

namespace {

// An operation whose candidates do as the problem says.
struct fake {
    struct problem {
        sr_bcrs_view pattern;
        int64_t batch_count = 1;
        const char* implementation = nullptr;
        std::string fast_declines;
        double fast_cost = 1;
        double wide_cost = 2;
        bool packs = false;
    };
    static inline int checks = 0;
    struct arguments {
        void* workspace = nullptr;
        size_t workspace_size = 0;
    };
    class plan : public plan_of<fake> {
      public:
        using plan_of::plan_of;
        void run(const context&, const arguments&) const override {}
    };
    static constexpr const char* name = "Fake";
    static constexpr const char* pattern_name = "problem->pattern";
    static implementation_list<fake> implementations();
    static void check(const problem&) { ++checks; }
    static bool packs_values(const problem& p) { return p.packs; }
    static std::optional<dense_product> dense_equivalent(const problem&) {
        return dense_product{64, 64, 64, 1, {dtype::int8, dtype::int8}, dtype::int32};
    }
    static std::string benchmark(const problem&) { return "fake"; }
};

std::string accepts(const context&, const fake::problem&) {
    return {};
}
std::string fast_declines(const context&, const fake::problem& p) {
    return p.fast_declines;
}
double fast_cost(const context&, const fake::problem& p) {
    return p.fast_cost;
}
double wide_cost(const context&, const fake::problem& p) {
    return p.wide_cost;
}
double no_cost(const context&, const fake::problem&) {
    return 0;
}
buffer_needs needs(const context&, const fake::problem&) {
    return {1000, 300};
}
std::unique_ptr<fake::plan> make(const context& ctx, const fake::problem& p,
                                 plan_resources resources) {
    return std::make_unique<fake::plan>(ctx, p, std::move(resources));
}

constexpr auto cpu = device_kind::cpu;
const implementation<fake> fast = {"fast", cpu, false, fast_declines, fast_cost, needs, make};
const implementation<fake> wide = {"wide", cpu, false, accepts, wide_cost, needs, make};
const implementation<fake> last = {"reference", cpu, true, accepts, no_cost, needs, make};
const implementation<fake>* const rows[] = {&fast, &wide, &last};

implementation_list<fake> fake::implementations() {
    return {rows, 3};
}

std::string chosen(const fake::problem& p) {
    return choose<fake>(context(), p, fake::implementations()).chosen->name;
}

template <class Call>
std::string failure(status code, const Call& call) {
    try {
        call();
    } catch (const error& e) {
        CHECK(e.code() == code);
        return e.what();
    }
    FAIL("nothing was thrown");
    return {};
}

bool has(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the cheapest that accepts is chosen, the reference only if no other accepts") {
    fake::problem p;
    CHECK(chosen(p) == "fast");
    p.fast_cost = 3;
    CHECK(chosen(p) == "wide");
    p.wide_cost = 3;
    CHECK(chosen(p) == "fast");  // of equals the first
    p.fast_declines = "needs more";
    CHECK(chosen(p) == "wide");
    const implementation<fake>* const two[] = {&fast, &last};
    CHECK(choose<fake>(context(), p, {two, 2}).chosen == &last);
}

TEST_CASE("the reasons name every candidate and what was chosen") {
    fake::problem p;
    p.fast_declines = "K is 7; it must be a multiple of 16";
    const auto reasons = choose<fake>(context(), p, fake::implementations()).reasons;
    CHECK(reasons ==
          "fast: declined, K is 7; it must be a multiple of 16\n"
          "wide: accepted, about 2 us\n"
          "reference: accepted, about 0 us, last resort\n"
          "chosen: wide");
}

TEST_CASE("a named implementation is taken, or refused with its reason") {
    fake::problem p;
    p.implementation = "reference";
    CHECK(chosen(p) == "reference");
    p.implementation = "fast";
    p.fast_declines = "needs more";
    const auto declined = failure(status::not_supported, [&] { chosen(p); });
    CHECK(has(declined, "fast: needs more"));
    p.implementation = "slow";
    const auto unknown = failure(status::invalid_value, [&] { chosen(p); });
    CHECK(has(unknown, "'slow'"));
    CHECK(has(unknown, "fast, wide, reference"));
}

TEST_CASE("issue_16_a_device_without_implementations_is_refused_in_a_plain_sentence") {
    context ctx;
    ctx.device = device_kind::cuda;
    const auto text = failure(status::not_supported,
                              [&] { choose<fake>(ctx, fake::problem(), fake::implementations()); });
    CHECK(has(text, "Fake has no CUDA implementation"));
}

TEST_CASE("plans keep what they were given, own what they were not, and know their device") {
    const context ctx;
    fake::problem p;
    p.implementation = "wide";
    const auto owning = create_plan<fake>(ctx, p, nullptr, 0);
    CHECK(owning->resources().buffer.owned());
    CHECK(owning->resources().implementation == std::string("wide"));
    CHECK(owning->problem().implementation == nullptr);
    alignas(256) char memory[1024];
    const auto given = create_plan<fake>(ctx, p, memory, sizeof(memory));
    CHECK_FALSE(given->resources().buffer.owned());
    CHECK(given->resources().buffer.data() == memory);
    failure(status::insufficient_workspace, [&] { create_plan<fake>(ctx, p, memory, 999); });
    failure(status::misaligned, [&] { create_plan<fake>(ctx, p, memory + 8, 1000); });

    context other;
    other.ordinal = 1;
    const auto text = failure(status::device_mismatch, [&] { given->require_device(other); });
    CHECK(has(text, "CPU device 0"));
    CHECK(has(text, "CPU device 1"));

    fake::arguments arguments{memory, 299};
    const auto small =
        failure(status::insufficient_workspace, [&] { given->check_call(ctx, arguments); });
    CHECK(has(small, "299"));
    CHECK(has(small, "300"));
    arguments = {nullptr, 300};
    failure(status::invalid_value, [&] { given->check_call(ctx, arguments); });
    arguments = {memory + 1, 300};
    failure(status::misaligned, [&] { given->check_call(ctx, arguments); });
    arguments = {memory, 300};
    given->check_call(ctx, arguments);
}

TEST_CASE("making a plan checks the problem once, and the arrays that it would read") {
    const context ctx;
    fake::problem p;
    p.pattern.rows = p.pattern.cols = 8;
    p.pattern.vector_length = p.pattern.stride = 8;
    p.pattern.slots = 8;
    const int before = fake::checks;
    create_plan<fake>(ctx, p, nullptr, 0);
    CHECK(fake::checks == before + 1);
    p.packs = true;
    const auto text =
        failure(status::invalid_value, [&] { create_plan<fake>(ctx, p, nullptr, 0); });
    CHECK(has(text, "problem->pattern has null values"));
    CHECK(has(text, "MAGICUBE_VALUES_PER_CALL"));

    const char values[64] = {};
    p.pattern.values = const_cast<char*>(values);
    p.pattern.type = dtype::int8;
    const int64_t begin = 0, end = 1;
    const int32_t columns[8] = {9, -1, -1, -1, -1, -1, -1, -1};  // 9 of 8 columns
    p.pattern.row_begin = {&begin, index_type::int64};
    p.pattern.row_end = {&end, index_type::int64};
    p.pattern.col_indices = columns;
    create_plan<fake>(ctx, p, nullptr, 0);  // trusted
    const sparse_view given = p.pattern;
    failure(status::invalid_value, [&] { create_plan<fake>(ctx, p, nullptr, 0, &given); });
    context basic;
    basic.level = validation::basic;
    create_plan<fake>(basic, p, nullptr, 0, &given);
}

TEST_CASE("a plan tells where dense would be faster, and on the CPU claims nothing") {
    CHECK(detail::dense_advice({86.04, "cuBLASLt int8"}, 264.26) ==
          "dense would be faster: about 86 us (cuBLASLt int8) against 264.3 us");
    CHECK(detail::dense_advice({86, "cuBLASLt int8"}, 86) == "");
    CHECK(detail::dense_advice({}, 1e9) == "");
    fake::problem p;
    p.fast_cost = p.wide_cost = 1e9;
    CHECK_FALSE(has(choose<fake>(context(), p, fake::implementations()).reasons, "dense"));
}

TEST_CASE("sections of a buffer are aligned, apart, and checked for overflow") {
    buffer_layout layout;
    CHECK(layout.bytes() == 0);
    CHECK(layout.reserve(3, 4, "a") == 0);
    CHECK(layout.reserve(0, 8, "b") == 256);
    CHECK(layout.reserve(100, 8, "c") == 256);
    CHECK(layout.bytes() == 256 + 1024);
    failure(status::invalid_value, [&] { layout.reserve(INT64_MAX / 2, 4, "d"); });
    failure(status::invalid_value, [&] { layout.reserve(INT64_MAX - 1500, 1, "e"); });
}
