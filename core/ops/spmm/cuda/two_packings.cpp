// SPDX-License-Identifier: Apache-2.0
// A plan for a range of N that reaches beyond what the stream family does best: A is packed twice,
// for few columns and for more, and an execution's N picks one.
#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <utility>

#include "core/ops/make_plan.hpp"
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {

extern const implementation<operation> cuda_stream;
extern const implementation<operation> cuda_two_packings;

namespace cuda {
namespace {

using row = implementation<operation>;

// Where the stream family may hand over: what its kernels are compiled for.
constexpr std::array<int64_t, 3> boundaries{64, 32, 16};

problem limited(problem p, int64_t n_min, int64_t n_max) {
    p.n_min = n_min;
    p.n_max = n_max;
    p.implementation = nullptr;
    return p;
}

// The cheapest implementation that takes the problem and packs A once, `but` apart.
const row* cheapest(const context& ctx, const problem& p, const row* but) {
    const row* best = nullptr;
    double least = 0;
    for (const auto* candidate : operation::implementations()) {
        if (candidate->device != ctx.device || candidate == but || candidate == &cuda_two_packings)
            continue;
        if (!candidate->decline(ctx, p).empty()) continue;
        const double cost = candidate->cost(ctx, p);
        if (best && (candidate->reference || cost >= least)) continue;
        best = candidate;
        least = cost;
    }
    return best;
}

// The problem cut in two.
struct division {
    problem narrow, wide;
    const row* wide_row = nullptr;  // null: one packing is as good
    std::string reason;             // of that

    division(const context& ctx, const problem& p) {
        for (const int64_t n : boundaries) {
            if (n < p.n_min || n >= p.n_max) continue;
            narrow = limited(p, p.n_min, n);
            if (!cuda_stream.decline(ctx, narrow).empty()) continue;
            const row* other = cheapest(ctx, narrow, &cuda_stream);
            if (!other->reference && other->cost(ctx, narrow) <= cuda_stream.cost(ctx, narrow))
                continue;
            wide = limited(p, n + 1, p.n_max);
            const row* best = cheapest(ctx, wide, nullptr);
            // Wider problems are cut for fewer CTAs a column by the stream family too.
            if (best != &cuda_stream || p.n_max > boundaries[0]) wide_row = best;
            break;
        }
        if (!wide_row)
            reason =
                text("for n from ", p.n_min, " to ", p.n_max, " one packing is as good as two");
    }
};

std::string decline(const context& ctx, const problem& p) {
    return division(ctx, p).reason;
}

// A hair less than what the wider part costs alone.
double cost(const context& ctx, const problem& p) {
    const division parts(ctx, p);
    return parts.wide_row->cost(ctx, parts.wide) * 0.999;
}

// Where the two parts lie in the plan's buffer.
struct layout {
    buffer_needs narrow_needs, wide_needs;
    int64_t narrow, wide, bytes;

    layout(const context& ctx, const division& parts)
        : narrow_needs(cuda_stream.needs(ctx, parts.narrow)),
          wide_needs(parts.wide_row->needs(ctx, parts.wide)) {
        buffer_layout sections;
        narrow = sections.reserve(narrow_needs.plan_bytes, 1, "the packing for few columns");
        wide = sections.reserve(wide_needs.plan_bytes, 1, "the packing for many columns");
        bytes = sections.bytes();
    }
};

buffer_needs needs(const context& ctx, const problem& p) {
    const layout at(ctx, division(ctx, p));
    return {at.bytes, std::max(at.narrow_needs.workspace_bytes, at.wide_needs.workspace_bytes)};
}

// Text that lives as long as the library: resources hold no string of their own for the name.
const char* keep(const std::string& name) {
    static std::mutex mutex;
    static std::set<std::string> names;
    const std::lock_guard<std::mutex> lock(mutex);
    return names.insert(name).first->c_str();
}

plan_resources named(plan_resources resources, const division& parts) {
    resources.implementation = keep(text(cuda_stream.name, '+', parts.wide_row->name));
    resources.reasons += text("\nn <= ", parts.narrow.n_max, ": ", cuda_stream.name,
                              ", beyond: ", parts.wide_row->name);
    return resources;
}

class two_packings_plan final : public plan {
  public:
    two_packings_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : two_packings_plan(ctx, p, std::move(resources), division(ctx, p)) {}

    void pack_values(const context& ctx, const void* values) override {
        narrow_->pack_values(ctx, values);
        wide_->pack_values(ctx, values);
    }

    sr_bcrs_view matrix_with(const void* values) const override {
        return narrow_->matrix_with(values);
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& chosen = args.b.cols <= narrow_->problem().n_max ? narrow_ : wide_;
        chosen->execute(ctx, args);
    }

  private:
    two_packings_plan(const context& ctx, const spmm::problem& p, plan_resources resources,
                      const division& parts)
        : plan(ctx, p, named(std::move(resources), parts)) {
        const layout at(ctx, parts);
        char* buffer = this->resources().buffer.data();
        const auto make = [&](const row& from, const spmm::problem& part, int64_t offset,
                              const buffer_needs& its) {
            plan_buffer section(ctx, buffer + offset, static_cast<size_t>(its.plan_bytes),
                                its.plan_bytes);
            return from.make(ctx, part, {from.name, {}, its, std::move(section)});
        };
        narrow_ = make(cuda_stream, parts.narrow, at.narrow, at.narrow_needs);
        wide_ = make(*parts.wide_row, parts.wide, at.wide, at.wide_needs);
    }

    std::unique_ptr<plan> narrow_, wide_;
};

}  // namespace
}  // namespace cuda

const implementation<operation> cuda_two_packings = {"two_packings",
                                                     device_kind::cuda,
                                                     false,
                                                     cuda::decline,
                                                     cuda::cost,
                                                     cuda::needs,
                                                     make_plan<operation, cuda::two_packings_plan>};

}  // namespace magicube::spmm
