// SPDX-License-Identifier: Apache-2.0
// Executing a plan allocates nothing, whatever the number of threads.
#include <doctest/doctest.h>

#include <new>

#include "core/ops/allocation_counter.hpp"
#include "core/ops/attention/attention.hpp"
#include "core/ops/sddmm/sddmm.hpp"
#include "core/ops/softmax/softmax.hpp"
#include "core/ops/spmm/spmm.hpp"
#include "core/ops/views.hpp"
#include "support/aligned_buffer.hpp"

using namespace magicube;
using support::kind;

namespace {

// Large enough for the thread pool.
struct operands {
    support::generator random{1};
    support::sparse_sample a{{kind::int8, 512, 200, 8, 16, 0.3}, random};
    support::dense_sample b{{kind::int8, 200, 100, true, 3}, random};
    support::dense_sample q{{kind::int8, 512, 64, true, 3}, random};
    support::dense_sample k{{kind::int8, 64, 200, false, 3}, random};
    support::dense_sample c{{kind::fp32, 512, 100}, random};
    support::packed_array values{kind::fp32, a.value_count()};
    context ctx;
};

template <class Operation, class Execute>
int64_t allocations_of(const operands& o, const typename Operation::problem& p,
                       typename Operation::arguments args, const Execute& execute) {
    const auto plan = create_plan<Operation>(o.ctx, p, nullptr, 0);
    const support::aligned_buffer workspace(
        static_cast<size_t>(plan->resources().needs.workspace_bytes));
    args.workspace = workspace.data();
    args.workspace_size = workspace.size();
    execute(o.ctx, *plan, args);  // starts the pool's threads and fills its queue once
    const int64_t before = support::allocations();
    execute(o.ctx, *plan, args);
    return support::allocations() - before;
}

}  // namespace

TEST_CASE("executions allocate nothing") {
    operands o;
    {
        spmm::problem p;
        p.pattern = view_of(o.a);
        p.b_order = order::col;
        p.n_max = 100;
        spmm::arguments args;
        args.b = view_of(o.b);
        args.c = view_of(o.c);
        CHECK(allocations_of<spmm::operation>(o, p, args, spmm::execute) == 0);
    }
    {
        // Values of each call are validated during it.
        support::sparse_sample a({kind::int12, 512, 200, 8, 16, 0.3, true}, o.random);
        spmm::problem p;
        p.pattern = view_of(a);
        p.b_order = order::col;
        p.n_max = 100;
        p.values = value_mode::per_call;
        spmm::arguments args;
        args.b = view_of(o.b);
        args.c = view_of(o.c);
        args.a_values = a.values().data();
        CHECK(allocations_of<spmm::operation>(o, p, args, spmm::execute) == 0);
    }
    {
        sddmm::problem p;
        p.pattern = view_of(o.a);
        p.a_order = order::col;
        p.k_max = 64;
        sddmm::arguments args;
        args.a = view_of(o.q);
        args.b = view_of(o.k);
        args.values = o.values.data();
        CHECK(allocations_of<sddmm::operation>(o, p, args, sddmm::execute) == 0);
    }
    {
        softmax::problem p;
        p.pattern = view_of(o.a);
        softmax::arguments args;
        args.scores = args.out = o.values.data();
        CHECK(allocations_of<softmax::operation>(o, p, args, softmax::execute) == 0);
    }
    {
        // 512 queries, 200 keys.
        const support::packed_array q(kind::fp32, 2 * 512 * 32, 0);
        const support::packed_array k(kind::fp32, 2 * 200 * 32, 0);
        support::packed_array out(kind::fp32, 2 * 512 * 32);
        attention::problem p;
        p.pattern = view_of(o.a);
        p.in_type = p.out_type = dtype::fp32;
        p.q_heads = p.kv_heads = 2;
        p.head_dim = 32;
        attention::arguments args;
        args.q = attention::packed_tensor(q.data(), 2, 512, 32);
        args.k = args.v = attention::packed_tensor(k.data(), 2, 200, 32);
        args.out = attention::packed_tensor(out.data(), 2, 512, 32);
        CHECK(allocations_of<attention::operation>(o, p, args, attention::execute) == 0);
    }
    const int64_t before = support::allocations();
    ::operator delete(::operator new(3));
    CHECK(support::allocations() > before);  // the counter counts
}
