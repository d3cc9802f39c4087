// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/formats/kronecker/convert.hpp"
#include "core/formats/validate.hpp"
#include "support/numbers.hpp"

using namespace magicube;
using support::kind;

namespace {

// A chain with random values that it owns.
struct sample {
    std::vector<support::packed_array> values;
    kronecker_view view;

    sample(const std::vector<kronecker_shape>& shapes, kind type, support::generator& random) {
        values.reserve(shapes.size());
        for (const auto& shape : shapes) {
            values.emplace_back(type, shape.value_count());
            for (int64_t i = 0; i < shape.value_count(); ++i)
                values.back().set(i, support::random_value(random, type));
            view.factors.emplace_back(shape, values.back().data());
        }
        view.type = static_cast<dtype>(type);
        view.chain = shapes.size() > 1;
    }
};

using matrix = std::vector<double>;

// Dense, element by element, as the Kronecker product reads: I_a (x) 1 (x) I_d.
matrix dense_of(const kronecker_shape& k, const support::packed_array& values) {
    matrix dense(static_cast<size_t>(k.rows() * k.cols()));
    for (int64_t row = 0; row < k.rows(); ++row) {
        for (int64_t col = 0; col < k.cols(); ++col) {
            const bool inside = row / (k.b * k.d) == col / (k.c * k.d) && row % k.d == col % k.d;
            if (!inside) continue;
            const int64_t i = row / (k.b * k.d), j = row / k.d % k.b, x = col / k.d % k.c;
            dense[static_cast<size_t>(row * k.cols() + col)] =
                values.get(((i * k.b + j) * k.c + x) * k.d + row % k.d);
        }
    }
    return dense;
}

matrix times(const matrix& a, const matrix& b, int64_t m, int64_t k, int64_t n) {
    matrix c(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
        for (int64_t l = 0; l < k; ++l)
            for (int64_t j = 0; j < n; ++j)
                c[static_cast<size_t>(i * n + j)] +=
                    a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
    return c;
}

dense_view view_of(support::packed_array& array, int64_t rows, int64_t cols, int64_t ld, bool col) {
    dense_view view;
    view.rows = rows;
    view.cols = cols;
    view.ld = ld;
    view.values = array.data();
    view.type = static_cast<dtype>(array.type());
    view.storage = col ? order::col : order::row;
    return view;
}

// Whether body() throws an error whose message contains the text.
template <class Body>
bool refuses(const Body& body, const std::string& part) {
    try {
        body();
    } catch (const error& e) {
        if (std::string(e.what()).find(part) != std::string::npos) return true;
        MESSAGE("the message is: " << e.what());
        return false;
    }
    MESSAGE("nothing was thrown");
    return false;
}

kronecker_view pattern(const std::vector<kronecker_shape>& shapes) {
    kronecker_view view;
    for (const auto& shape : shapes) view.factors.emplace_back(shape, nullptr);
    view.chain = true;
    return view;
}

}  // namespace

TEST_SUITE_BEGIN("kronecker");

TEST_CASE("Kronecker: to dense and back, of every type, in both orders") {
    const context ctx;
    uint64_t seed = 0;
    for (const auto type : all_dtypes) {
        for (const bool col : {false, true}) {
            for (const auto& shape : {kronecker_shape{1, 1, 1, 1}, kronecker_shape{3, 5, 7, 2},
                                      kronecker_shape{2, 1, 4, 9}, kronecker_shape{70, 2, 1, 1}}) {
                support::generator random(++seed);
                sample k({shape}, static_cast<kind>(type), random);
                const int64_t rows = shape.rows(), cols = shape.cols();
                const int64_t ld = ((col ? rows : cols) + 4) / 2 * 2;
                support::packed_array dense(static_cast<kind>(type), ld * (col ? cols : rows));
                const auto untouched = dense;
                const auto view = view_of(dense, rows, cols, ld, col);
                kronecker_to_dense(ctx, k.view, view);
                const auto wanted = dense_of(shape, k.values[0]);
                auto expected = untouched;
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t c = 0; c < cols; ++c)
                        expected.set(col ? c * ld + r : r * ld + c,
                                     wanted[static_cast<size_t>(r * cols + c)]);
                CHECK(expected.bytes() == dense.bytes());

                sample back({shape}, static_cast<kind>(type), random);
                dense_to_kronecker(ctx, view, back.view);
                CHECK(back.values[0].bytes() == k.values[0].bytes());
            }
        }
    }
}

TEST_CASE("Kronecker: to CSR and back") {
    const context ctx;
    support::generator random(11);
    const kronecker_shape shape{3, 4, 5, 2};
    sample k({shape}, kind::fp32, random);
    const int64_t rows = shape.rows(), count = shape.value_count();
    std::vector<int32_t> offsets(static_cast<size_t>(rows + 1), -7);
    std::vector<int32_t> columns(static_cast<size_t>(count));
    support::packed_array values(kind::fp32, count);
    csr_target target;
    target.offset_type = index_type::int32;
    target.offsets = offsets.data();
    target.col_indices = columns.data();
    target.values = values.data();
    kronecker_to_csr(ctx, k.view, target);
    const auto dense = dense_of(shape, k.values[0]);
    matrix found(dense.size());
    for (int64_t r = 0; r < rows; ++r) {
        for (int32_t at = offsets[static_cast<size_t>(r)]; at < offsets[static_cast<size_t>(r + 1)];
             ++at)
            found[static_cast<size_t>(r * shape.cols() + columns[static_cast<size_t>(at)])] =
                values.get(at);
    }
    CHECK(found == dense);

    csr_view source;
    source.rows = rows;
    source.cols = shape.cols();
    source.nnz = count;
    source.values = values.data();
    source.offsets = {offsets.data(), index_type::int32};
    source.col_indices = columns.data();
    validate_pattern(ctx, source, "source");
    sample back({shape}, kind::fp32, random);
    csr_to_kronecker(ctx, source, back.view);
    CHECK(back.values[0].bytes() == k.values[0].bytes());

    columns[0] = 1;  // of another residue
    values.set(0, 2.5);
    CHECK(refuses([&] { csr_to_kronecker(ctx, source, back.view); },
                  "source[0, 1] is 2.5; it lies outside the support of K = (3, 4, 5, 2)"));
    values.set(0, 0);
    csr_to_kronecker(ctx, source, back.view);
    CHECK(back.values[0].get(0) == 0);
}

TEST_CASE("Kronecker: an element outside the support is refused with its place") {
    const context ctx;
    support::generator random(3);
    sample k({{2, 2, 2, 2}}, kind::fp16, random);
    support::packed_array dense(kind::fp16, 64);
    for (int64_t i = 0; i < 64; ++i) dense.set(i, 0);
    dense.set(3 * 8 + 2, -1.5);
    CHECK(refuses([&] { dense_to_kronecker(ctx, view_of(dense, 8, 8, 8, false), k.view); },
                  "dense[3, 2] is -1.5; it lies outside the support"));
}

TEST_CASE("Kronecker: products of chains, as dense matrices and as one factor") {
    const context ctx;
    uint64_t seed = 50;
    const std::vector<kronecker_shape> chains[] = {
        butterfly_shapes(3),
        butterfly_shapes(6),
        monarch_shapes(24, 30, 6, 4, 2),
        {{1, 7, 3, 1}, {1, 3, 5, 1}},
        {{2, 3, 8, 6}, {4, 12, 2, 2}, {8, 1, 3, 2}},
    };
    for (const auto& shapes : chains) {
        support::generator random(++seed);
        sample chain(shapes, kind::fp32, random);
        auto wanted = dense_of(shapes[0], chain.values[0]);
        const int64_t rows = chain.view.rows(), cols = chain.view.cols();
        for (size_t i = 1; i < shapes.size(); ++i)
            wanted = times(wanted, dense_of(shapes[i], chain.values[i]), rows, shapes[i].rows(),
                           shapes[i].cols());
        support::packed_array dense(kind::fp32, rows * cols);
        kronecker_to_dense(ctx, chain.view, view_of(dense, rows, cols, cols, false));
        const auto shape = product_shape(chain.view, "chain");
        sample product({shape}, kind::fp32, random);
        multiply_factors(ctx, chain.view, product.view);
        const auto merged = dense_of(shape, product.values[0]);
        bool right = true;
        for (size_t i = 0; i < wanted.size(); ++i) {
            const double bound = 1e-30 + std::fabs(wanted[i]) * 1e-7 + 1e-10;
            right &= std::fabs(dense.get(static_cast<int64_t>(i)) - wanted[i]) <= bound;
            right &= std::fabs(merged[i] - wanted[i]) <= bound;
        }
        CHECK(right);
    }
}

TEST_CASE("Kronecker: pairs that are chainable, and those that are redundant") {
    const auto pair = [](kronecker_shape l, kronecker_shape r) { return pair_of(l, r); };
    auto butterfly = pair({1, 2, 2, 4}, {2, 2, 2, 2});
    CHECK(butterfly.chainable);
    CHECK_FALSE(butterfly.redundant);
    CHECK(butterfly.rank == 1);
    CHECK(text_of(butterfly.product) == "(1, 4, 4, 2)");
    auto down = pair({1, 64, 64, 16}, {16, 64, 256, 1});
    CHECK(down.rank == 4);
    CHECK_FALSE(down.redundant);
    CHECK(text_of(down.product) == "(1, 1024, 4096, 1)");
    auto wide = pair({1, 3, 8, 1}, {1, 8, 5, 1});
    CHECK(wide.chainable);
    CHECK(wide.redundant);
    CHECK_FALSE(pair({1, 3, 8, 1}, {1, 8, 9, 1}).rank < 3);
    CHECK_FALSE(pair({2, 3, 4, 1}, {1, 4, 2, 2}).chainable);  // 2 does not divide 1
    CHECK_FALSE(pair({1, 3, 4, 1}, {1, 2, 2, 2}).chainable);  // nor 2 divide 1
    CHECK_FALSE(pair({1, 3, 3, 2}, {2, 3, 5, 1}).chainable);  // inner sizes agree: 6
    CHECK(refuses(
        [] {
            product_shape(pattern({{1, 2, 3, 2}, {2, 3, 5, 1}}), "chain");
        },
        "factors[0] = (1, 2, 3, 2) and factors[1] = (2, 3, 5, 1) are not chainable"));
}

TEST_CASE("Kronecker: sizes are refused by name and position") {
    const auto wrong = [](const std::vector<kronecker_shape>& shapes, const char* part) {
        return refuses([&] { validate_sizes(pattern(shapes)); }, part);
    };
    CHECK(wrong({{1, 2, 2, 4}, {2, 0, 2, 2}}, "factors[1].b is 0; it must be at least 1"));
    CHECK(wrong({{1, 2, 2, -4}}, "factors[0].d is -4; it must be at least 1"));
    CHECK(wrong({{1, 2, 2, 4}, {2, 2, 2, 2}, {4, 3, 2, 1}},
                "factors[2] = (4, 3, 2, 1) has 12 rows; it must have 8, the columns of factors[1] "
                "= (2, 2, 2, 2)"));
    const int64_t big = int64_t{1} << 32;
    CHECK(wrong({{big, 1, 1, big}}, "factors[0].rows, a * b * d, overflows 64 bits"));
    CHECK(wrong({{1, big, big, 1}}, "factors[0].values, a * b * c, overflows 64 bits"));
    CHECK(wrong({{1, 1, big, big}}, "factors[0].columns, a * c * d, overflows 64 bits"));
    CHECK(wrong({{1, int64_t{1} << 62, 1, 1}}, "factors[0].values in bytes overflows 64 bits"));
    CHECK(refuses([] { validate_sizes(kronecker_view{}); }, "count is 0"));
    CHECK(refuses([] { butterfly_shapes(63); }, "log2_size is 63; it must be from 1 to 62"));
    CHECK(refuses([] { monarch_shapes(10, 10, 3, 2, 1); }, "blocks is 3; it must divide cols"));
    CHECK(refuses([] { monarch_shapes(10, 10, 2, 4, 1); }, "step is 4; it must divide rows"));
    CHECK(refuses([] { monarch_shapes(10, 10, 2, 5, 0); }, "rank is 0; it must be at least 1"));
    for (int64_t n = 1; n <= 62; ++n) {
        auto view = pattern(butterfly_shapes(n));
        view.type = dtype::int8;
        if (n <= 52) validate_sizes(view);  // beyond, all values together pass 2^63 bytes
        CHECK(view.count() == n);
    }
}

TEST_CASE("Kronecker: Hadamard matrices") {
    const context ctx;
    for (const int64_t n : {1, 2, 5}) {
        support::generator random(1);
        sample chain(butterfly_shapes(n), kind::fp32, random);
        fill_hadamard(ctx, chain.view, 1);
        const int64_t size = int64_t{1} << n;
        support::packed_array dense(kind::fp32, size * size);
        kronecker_to_dense(ctx, chain.view, view_of(dense, size, size, size, false));
        bool right = true;
        for (int64_t i = 0; i < size; ++i)
            for (int64_t j = 0; j < size; ++j)
                right &= dense.get(i * size + j) == (__builtin_popcountll(i & j) % 2 ? -1 : 1);
        CHECK(right);
    }
    support::generator random(1);
    sample wrong({{1, 2, 3, 1}}, kind::fp32, random);
    CHECK(refuses([&] { fill_hadamard(ctx, wrong.view, 1); }, "(1, 2, 3, 1); b and c must be 2"));
    sample integers({{1, 2, 2, 1}}, kind::int8, random);
    CHECK(refuses([&] { fill_hadamard(ctx, integers.view, 0.5f); }, "scale is 0.5"));
}

TEST_SUITE_END();
