// SPDX-License-Identifier: Apache-2.0
// How an operation picks one of its implementations: each accepts or declines the problem, a cost
// estimate ranks those that accept, and the reference stands last whatever its cost.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/common/log.hpp"
#include "core/device/context.hpp"
#include "core/ops/dense_estimate.hpp"
#include "core/ops/plan_buffer.hpp"

namespace magicube {

// A row of an operation's list. To add an implementation is to add a row.
template <class Operation>
struct implementation {
    using problem = typename Operation::problem;

    const char* name;
    device_kind device;
    bool reference;  // accepts everything and is chosen only where nothing else accepts
    // Why it cannot compute the problem; empty if it can.
    std::string (*decline)(const context&, const problem&);
    // Estimated microseconds of one execution.
    double (*cost)(const context&, const problem&);
    buffer_needs (*needs)(const context&, const problem&);
    std::unique_ptr<typename Operation::plan> (*make)(const context&, const problem&,
                                                      plan_resources);
};

// The rows of an operation, those of a device in order of preference, its reference last.
template <class Operation>
struct implementation_list {
    const implementation<Operation>* const* rows;
    int64_t count;

    const implementation<Operation>* const* begin() const { return rows; }
    const implementation<Operation>* const* end() const { return rows + count; }
};

template <class Operation>
struct choice {
    const implementation<Operation>* chosen = nullptr;
    std::string reasons;  // one line a candidate, what was chosen, and dense if it is faster
};

namespace detail {

template <class Operation>
std::string names_on(device_kind device, implementation_list<Operation> list) {
    std::string names;
    for (const auto* row : list)
        if (row->device == device) names += text(names.empty() ? "" : ", ", row->name);
    return names;
}

template <class Operation>
void require_known_name(const context& ctx, const char* name, implementation_list<Operation> list) {
    for (const auto* row : list)
        if (row->device == ctx.device && row->name == std::string(name)) return;
    fail(status::invalid_value, "problem->implementation is '", name, "'; those of ",
         Operation::name, " on ", name_of(ctx.device), " are: ", names_on(ctx.device, list));
}

inline void log_candidate(const char* operation, const std::string& line) {
    if (log::enabled(log::topic::dispatch) || log::enabled(log::level::debug))
        log::write(log::level::info, text(operation, ": ", line));
}

// What a plan tells of the dense product that gives the same result: nothing unless it is faster.
inline std::string dense_advice(const dense_estimate& dense, double own_us) {
    if (dense.us <= 0 || dense.us >= own_us) return {};
    const auto tenths = [](double us) { return std::round(us * 10) / 10; };
    return text("dense would be faster: about ", tenths(dense.us), " us (", dense.library,
                ") against ", tenths(own_us), " us");
}

}  // namespace detail

// Picks the implementation that the problem names, or else the best that accepts it.
template <class Operation>
choice<Operation> choose(const context& ctx, const typename Operation::problem& problem,
                         implementation_list<Operation> list) {
    require(!detail::names_on(ctx.device, list).empty(), status::not_supported, Operation::name,
            " has no ", name_of(ctx.device),
            " implementation in this version; use a handle on MAGICUBE_DEVICE_CPU");
    if (problem.implementation) detail::require_known_name(ctx, problem.implementation, list);

    choice<Operation> result;
    std::string declined;
    double best = 0;
    for (const auto* row : list) {
        if (row->device != ctx.device) continue;
        std::string line = text(row->name, ": ");
        if (problem.implementation && row->name != std::string(problem.implementation)) {
            line += "not asked for";
        } else if (const auto reason = row->decline(ctx, problem); !reason.empty()) {
            line += "declined, " + reason;
            declined += text(declined.empty() ? "" : "; ", row->name, ": ", reason);
        } else {
            const double cost = row->cost(ctx, problem);
            require(std::isfinite(cost), status::internal_error, row->name, " estimates ", cost,
                    " us");
            line += text("accepted, about ", cost, " us", row->reference ? ", last resort" : "");
            if (!result.chosen || (cost < best && !row->reference)) {
                result.chosen = row;
                best = cost;
            }
        }
        detail::log_candidate(Operation::name, line);
        result.reasons += line + '\n';
    }
    require(result.chosen != nullptr, status::not_supported, "no implementation of ",
            Operation::name, " on ", name_of(ctx.device),
            problem.implementation ? " with that name" : "", " takes this problem (", declined,
            ")");
    const std::string line = text("chosen: ", result.chosen->name);
    detail::log_candidate(Operation::name, line);
    result.reasons += line;
    const auto product = Operation::dense_equivalent(problem);
    const auto advice = product ? detail::dense_advice(estimate_dense(ctx, *product), best) : "";
    if (!advice.empty()) {
        detail::log_candidate(Operation::name, advice);
        result.reasons += '\n' + advice;
    }
    return result;
}

}  // namespace magicube
