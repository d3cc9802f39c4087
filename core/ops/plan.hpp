// SPDX-License-Identifier: Apache-2.0
// What the plans of all operations share. An Operation is a struct with
//     problem            what a plan is made for: pattern (sr_bcrs_view, or another view for which
//                        there are the functions below), batch_count, implementation, ...
//     arguments          what one execution gets: workspace, workspace_size, ...
//     plan               a class derived from plan_of<Operation>
//     name               for messages
//     implementations()  its list of rows
//     pattern_name       of its sparse operand, for messages
//     check(problem)     throws if the problem breaks a rule or nothing can compute it
//     packs_values(problem)  whether making a plan reads the sparse operand's values
//     dense_equivalent(problem)  the dense product that gives the same result, if there is one
//     benchmark(problem) the subcommand and options of `magicube bench` that repeat its shape and
//                        types; the pattern's are added here. Empty: there is no such subcommand.
//                        Only where the sparse operand is SR-BCRS
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "core/common/pointers.hpp"
#include "core/device/device.hpp"
#include "core/device/profile_range.hpp"
#include "core/formats/sparse.hpp"
#include "core/ops/choice.hpp"

namespace magicube {

// Sets the pointers of the sparse operand to null.
void forget_arrays(sr_bcrs_view& pattern);
void forget_arrays(vnm_view& pattern);

// An immutable recipe for one problem. Many threads may run it, each with its own context and
// workspace.
template <class Operation>
class plan_of {
  public:
    using problem_type = typename Operation::problem;
    using arguments_type = typename Operation::arguments;

    plan_of(const context& ctx, const problem_type& problem, plan_resources resources)
        : device_(ctx.device),
          ordinal_(ctx.ordinal),
          problem_(problem),
          resources_(std::move(resources)),
          range_name_(text("magicube:", Operation::name, ' ', resources_.implementation)) {
        // The caller may free these; a plan has copies of what it needs.
        problem_.implementation = nullptr;
        forget_arrays(problem_.pattern);
    }
    plan_of(const plan_of&) = delete;
    plan_of& operator=(const plan_of&) = delete;
    virtual ~plan_of() = default;

    // Computes; the arguments have been checked and the output is not empty.
    void execute(const context& ctx, const arguments_type& arguments) const {
        const profile_range range(range_name_.c_str());
        run(ctx, arguments);
    }

    // Shapes and types; its pointers are null.
    const problem_type& problem() const { return problem_; }
    const plan_resources& resources() const { return resources_; }

    void require_device(const context& ctx) const {
        require(ctx.device == device_ && ctx.ordinal == ordinal_, status::device_mismatch,
                "plan was made on ", name_of(device_), " device ", ordinal_, "; handle is on ",
                name_of(ctx.device), " device ", ctx.ordinal);
    }

    // The checks of an execution that do not depend on the operation.
    void check_call(const context& ctx, const arguments_type& arguments) const {
        require_device(ctx);
        require_workspace(arguments.workspace, arguments.workspace_size,
                          static_cast<size_t>(resources_.needs.workspace_bytes), buffer_alignment);
        if (resources_.needs.workspace_bytes > 0)
            require_reachable(ctx, arguments.workspace, "workspace");
    }

  private:
    virtual void run(const context& ctx, const arguments_type& arguments) const = 0;

    device_kind device_;
    int ordinal_;
    problem_type problem_;
    plan_resources resources_;
    std::string range_name_;
};

// Options of `magicube bench` that make a random pattern of the same density.
std::string benchmark_options(const context& ctx, const sr_bcrs_view& pattern,
                              const char* implementation);

// Throws device_mismatch unless the context's device reaches the arrays of the sparse operand.
void check_array_places(const context& ctx, const sr_bcrs_view& pattern, const char* argument);
void check_array_places(const context& ctx, const vnm_view& pattern, const char* argument);

// What makes a plan impossible although the problem breaks no rule: arrays that it would read are
// missing, lie on another device, or hold what they must not. `given` is the sparse operand as the
// caller described it; null: its arrays are trusted.
void check_sparse_arrays(const context& ctx, const sr_bcrs_view& pattern, const sparse_view* given,
                         bool values, const char* argument);
void check_sparse_arrays(const context& ctx, const vnm_view& pattern, const sparse_view* given,
                         bool values, const char* argument);

template <class Operation>
choice<Operation> choose_for(const context& ctx, const typename Operation::problem& problem) {
    Operation::check(problem);
    check_array_places(ctx, problem.pattern, Operation::pattern_name);
    return choose<Operation>(ctx, problem, Operation::implementations());
}

template <class Operation>
buffer_needs needs_of(const context& ctx, const typename Operation::problem& problem) {
    return choose_for<Operation>(ctx, problem).chosen->needs(ctx, problem);
}

// Writes the command that repeats a problem, if it is asked for and there is one.
template <class Operation>
void log_benchmark(const context& ctx, const typename Operation::problem& problem,
                   const char* implementation) {
    if constexpr (std::is_same_v<decltype(Operation::problem::pattern), sr_bcrs_view>) {
        if (!log::enabled(log::topic::bench)) return;
        const std::string benchmark = Operation::benchmark(problem);
        if (benchmark.empty()) return;
        const auto options = benchmark_options(ctx, problem.pattern, implementation);
        log::write(log::level::info, text("magicube bench ", benchmark, ' ', options));
    }
}

// buffer null: the plan allocates its own.
template <class Operation, class Given = sparse_view>
std::unique_ptr<typename Operation::plan> create_plan(const context& ctx,
                                                      const typename Operation::problem& problem,
                                                      void* buffer, size_t buffer_size,
                                                      const Given* given = nullptr) {
    Operation::check(problem);
    check_sparse_arrays(ctx, problem.pattern, given, Operation::packs_values(problem),
                        Operation::pattern_name);
    auto choice = choose<Operation>(ctx, problem, Operation::implementations());
    const auto needs = choice.chosen->needs(ctx, problem);
    plan_resources resources{choice.chosen->name, std::move(choice.reasons), needs,
                             plan_buffer(ctx, buffer, buffer_size, needs.plan_bytes)};
    log_benchmark<Operation>(ctx, problem, choice.chosen->name);
    return choice.chosen->make(ctx, problem, std::move(resources));
}

}  // namespace magicube
