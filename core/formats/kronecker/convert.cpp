// SPDX-License-Identifier: Apache-2.0
#include "core/formats/kronecker/convert.hpp"

#include <algorithm>
#include <cmath>

#include "core/common/pointers.hpp"
#include "core/formats/element_moves.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/validate.hpp"
#include "core/types/overlap.hpp"
#include "core/types/runs.hpp"

namespace magicube {
namespace {

// Row or column (i*n + x)*d + l of a factor, n its b or c.
struct place {
    int64_t i;
    int64_t x;
    int64_t l;

    place(int64_t index, int64_t n, int64_t d)
        : i(index / (n * d)), x(index / d % n), l(index % d) {}
};

dense_view values_of(const kronecker_view& view, const kronecker_factor& factor) {
    return array_view(factor.values, view.type, factor.value_count());
}

void check_shape(int64_t rows, int64_t cols, const char* argument, const kronecker_view& view) {
    require_value(rows == view.rows() && cols == view.cols(), argument, " is ", rows, " x ", cols,
                  "; it must be ", view.rows(), " x ", view.cols(), ", the size of K");
}

void check_single(const dense_view& dense) {
    require_value(dense.batch_count == 1, "dense is a batch of ", dense.batch_count,
                  "; it must be one matrix");
}

// int4 neighbours share bytes, so one thread writes them all.
int64_t grain(dtype type, int64_t rows) {
    return type == dtype::int4 ? rows : band_rows;
}

void zero_row(const dense_view& dense, int64_t row) {
    if (dense.storage == order::row)
        return zero_elements(dense.type, dense.values, dense.index(0, row, 0), dense.cols);
    for (int64_t col = 0; col < dense.cols; ++col)
        zero_elements(dense.type, dense.values, dense.index(0, row, col), 1);
}

void factor_to_dense(const context& ctx, const kronecker_view& view, const dense_view& dense) {
    const auto& k = view.factors.front();
    const auto mover = select_mover(view.type, dense.type);
    ctx.parallel(dense.rows, grain(dense.type, dense.rows), [&](int64_t begin, int64_t end) {
        move_list moves(mover, k.values, dense.values);
        for (int64_t row = begin; row < end; ++row) {
            const place at(row, k.b, k.d);
            zero_row(dense, row);
            for (int64_t x = 0; x < k.c; ++x) {
                moves.add(k.value_index(at.i, at.x, x, at.l),
                          dense.index(0, row, (at.i * k.c + x) * k.d + at.l));
            }
        }
        moves.flush();
    });
}

// All values of a factor as fp64.
std::vector<double> load_values(const kronecker_view& view, const kronecker_factor& factor) {
    std::vector<double> values(static_cast<size_t>(factor.value_count()));
    load_run(view.type, factor.values, 0, factor.value_count(), values.data());
    return values;
}

// to = row vector from * K
void multiply_row(const kronecker_shape& k, const double* values, const std::vector<double>& from,
                  std::vector<double>& to) {
    to.assign(static_cast<size_t>(k.cols()), 0);
    for (int64_t row = 0; row < k.rows(); ++row) {
        const double factor = from[static_cast<size_t>(row)];
        if (factor == 0) continue;
        const place at(row, k.b, k.d);
        for (int64_t x = 0; x < k.c; ++x) {
            to[static_cast<size_t>((at.i * k.c + x) * k.d + at.l)] +=
                factor * values[k.value_index(at.i, at.x, x, at.l)];
        }
    }
}

void chain_to_dense(const context& ctx, const kronecker_view& view, const dense_view& dense) {
    std::vector<std::vector<double>> values;
    values.reserve(view.factors.size());
    for (const auto& factor : view.factors) values.push_back(load_values(view, factor));
    ctx.parallel(dense.rows, 1, [&](int64_t begin, int64_t end) {
        std::vector<double> from, to;
        for (int64_t row = begin; row < end; ++row) {
            from.assign(static_cast<size_t>(dense.rows), 0);
            from[static_cast<size_t>(row)] = 1;
            for (size_t i = 0; i < values.size(); ++i) {
                multiply_row(view.factors[i], values[i].data(), from, to);
                from.swap(to);
            }
            for (int64_t col = 0; col < dense.cols; ++col) {
                const auto value = static_cast<float>(from[static_cast<size_t>(col)]);
                store_run(dense.type, dense.values, dense.index(0, row, col), 1, &value);
            }
        }
    });
}

[[noreturn]] void report_outside(const char* argument, int64_t row, int64_t col, double value,
                                 const kronecker_shape& shape) {
    fail(status::invalid_value, argument, "[", row, ", ", col, "] is ", value,
         "; it lies outside the support of K = ", text_of(shape),
         " and must be 0 (a projection finds the nearest factor)");
}

double load_element(dtype type, const void* array, int64_t index) {
    double value = 0;
    load_run(type, array, index, 1, &value);
    return value;
}

void check_outside(const dense_view& dense, int64_t row, const kronecker_shape& k) {
    const place at(row, k.b, k.d);
    for (int64_t col = 0; col < dense.cols; ++col) {
        const place other(col, k.c, k.d);
        if (other.i == at.i && other.l == at.l) continue;
        const double value = load_element(dense.type, dense.values, dense.index(0, row, col));
        if (value != 0) report_outside("dense", row, col, value, k);
    }
}

}  // namespace

void kronecker_to_dense(const context& ctx, const kronecker_view& source, const dense_view& dense) {
    require_cpu(ctx, "the conversion of a Kronecker-sparse factor");
    require_values(source, "source");
    check_single(dense);
    check_shape(dense.rows, dense.cols, "dense", source);
    for (const auto& factor : source.factors)
        check_no_overlap(dense, "dense", values_of(source, factor), "source's values");
    if (source.count() == 1) {
        check_move(source.type, "source", dense.type, "dense's type");
        return factor_to_dense(ctx, source, dense);
    }
    require_value(is_floating(dense.type), "dense's type is ", name_of(dense.type),
                  "; the product of a chain needs a floating type");
    chain_to_dense(ctx, source, dense);
}

void dense_to_kronecker(const context& ctx, const dense_view& dense, const kronecker_view& target) {
    require_cpu(ctx, "the conversion to a Kronecker-sparse factor");
    const auto& k = only_factor(target, "target");
    require_values(target, "target");
    check_single(dense);
    check_shape(dense.rows, dense.cols, "dense", target);
    check_move(dense.type, "dense", target.type, "target's type");
    check_no_overlap(values_of(target, k), "target's values", dense, "dense");
    const auto mover = select_mover(dense.type, target.type);
    ctx.parallel(dense.rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) check_outside(dense, row, k);
    });
    ctx.parallel(dense.rows, grain(target.type, dense.rows), [&](int64_t begin, int64_t end) {
        move_list moves(mover, dense.values, k.values);
        for (int64_t row = begin; row < end; ++row) {
            const place at(row, k.b, k.d);
            for (int64_t x = 0; x < k.c; ++x) {
                moves.add(dense.index(0, row, (at.i * k.c + x) * k.d + at.l),
                          k.value_index(at.i, at.x, x, at.l));
            }
        }
        moves.flush();
    });
}

void kronecker_to_csr(const context& ctx, const kronecker_view& source, const csr_target& target) {
    require_cpu(ctx, "the conversion of a Kronecker-sparse factor");
    const auto& k = only_factor(source, "source");
    const int64_t rows = k.rows(), count = k.value_count();
    check_move(source.type, "source", target.type, "value_type");
    require_value(rows <= INT32_MAX && k.cols() <= INT32_MAX, "source is ", rows, " x ", k.cols(),
                  "; CSR holds at most ", INT32_MAX, " rows and columns");
    require_value(target.offset_type == index_type::int64 || count <= INT32_MAX, "source has ",
                  count, " values; offset_type must be MAGICUBE_INDEX_64");
    require_array(target.offsets, rows + 1, index_bytes(target.offset_type), "offsets");
    require_array(target.col_indices, count, 4, "col_indices");
    require_aligned(target.values, element_alignment(target.type), "values");
    if (target.values) {
        require_values(source, "source");
        check_no_overlap(array_view(target.values, target.type, count), "values",
                         values_of(source, k), "source's values");
    }
    const auto mover = select_mover(source.type, target.type);
    ctx.parallel(rows, grain(target.type, rows), [&](int64_t begin, int64_t end) {
        move_list moves(mover, k.values, target.values);
        for (int64_t row = begin; row < end; ++row) {
            const place at(row, k.b, k.d);
            store_index(target.offsets, target.offset_type, row, row * k.c);
            for (int64_t x = 0; x < k.c; ++x) {
                target.col_indices[row * k.c + x] =
                    static_cast<int32_t>((at.i * k.c + x) * k.d + at.l);
                if (target.values) moves.add(k.value_index(at.i, at.x, x, at.l), row * k.c + x);
            }
        }
        if (target.values) moves.flush();
    });
    store_index(target.offsets, target.offset_type, rows, count);
}

void csr_to_kronecker(const context& ctx, const csr_view& source, const kronecker_view& target) {
    require_cpu(ctx, "the conversion to a Kronecker-sparse factor");
    const auto& k = only_factor(target, "target");
    require_values(target, "target");
    require_value(source.batch_count == 1, "source is a batch of ", source.batch_count,
                  "; it must be one matrix");
    check_shape(source.rows, source.cols, "source", target);
    check_move(source.type, "source", target.type, "target's type");
    require_value(source.values != nullptr || source.nnz == 0,
                  "source has null values; they are required here");
    check_no_overlap(values_of(target, k), "target's values",
                     array_view(source.values, source.type, source.nnz), "source's values");
    validate_pattern(ctx, source, "source");
    const auto mover = select_mover(source.type, target.type);
    zero_elements(target.type, k.values, 0, k.value_count());
    ctx.parallel(source.rows, grain(target.type, source.rows), [&](int64_t begin, int64_t end) {
        move_list moves(mover, source.values, k.values);
        for (int64_t row = begin; row < end; ++row) {
            const place at(row, k.b, k.d);
            for (row_cursor<csr_view> entry(source, 0, row); !entry.done(); entry.next()) {
                const place other(entry.column(), k.c, k.d);
                if (other.i == at.i && other.l == at.l) {
                    moves.add(entry.position(), k.value_index(at.i, at.x, other.x, at.l));
                    continue;
                }
                const double value = load_element(source.type, source.values, entry.position());
                if (value != 0) report_outside("source", row, entry.column(), value, k);
            }
        }
        moves.flush();
    });
}

std::vector<double> multiply_pair(const kronecker_shape& left, const double* left_values,
                                  const kronecker_shape& right, const double* right_values) {
    const auto pair = pair_of(left, right);
    const auto& p = pair.product;
    const int64_t groups = right.a / left.a;    // u: of the right factor in one block of the left
    const int64_t residues = left.d / right.d;  // y: of the left factor in one of the right
    std::vector<double> values(static_cast<size_t>(checked_mul(
        checked_mul(checked_mul(p.a, p.b, "a product"), p.c, "a product"), p.d, "a product")));
    for (int64_t i = 0; i < p.a; ++i) {
        for (int64_t row = 0; row < p.b; ++row) {
            const int64_t j = row / residues, y = row % residues;
            for (int64_t col = 0; col < p.c; ++col) {
                const int64_t u = col / right.c, k = col % right.c;
                double* sums = values.data() + p.value_index(i, row, col, 0);
                for (int64_t x = 0; x < pair.rank; ++x) {
                    const double* l =
                        left_values + left.value_index(i, j, u * pair.rank + x, y * right.d);
                    const double* r =
                        right_values + right.value_index(i * groups + u, x * residues + y, k, 0);
                    for (int64_t e = 0; e < p.d; ++e) sums[e] += l[e] * r[e];
                }
            }
        }
    }
    return values;
}

void multiply_factors(const context& ctx, const kronecker_view& chain,
                      const kronecker_view& product) {
    require_cpu(ctx, "the product of Kronecker-sparse factors");
    const auto& target = only_factor(product, "product");
    require_values(chain, "chain");
    require_values(product, "product");
    const auto wanted = product_shape(chain, "chain");
    require_value(target.a == wanted.a && target.b == wanted.b && target.c == wanted.c &&
                      target.d == wanted.d,
                  "product is ", text_of(target), "; the product of chain is ", text_of(wanted));
    require_value(is_floating(product.type) && is_floating(chain.type), "chain is ",
                  name_of(chain.type), " and product ", name_of(product.type),
                  "; both must be of floating types");
    kronecker_shape shape = chain.factors.front();
    auto values = load_values(chain, chain.factors.front());
    for (size_t i = 1; i < chain.factors.size(); ++i) {
        const auto& factor = chain.factors[i];
        values = multiply_pair(shape, values.data(), factor, load_values(chain, factor).data());
        shape = pair_of(shape, factor).product;
    }
    const std::vector<float> rounded(values.begin(), values.end());
    store_run(product.type, target.values, 0, target.value_count(), rounded.data());
}

void fill_hadamard(const context& ctx, const kronecker_view& chain, float scale) {
    require_cpu(ctx, "filling a Kronecker-sparse factor");
    require_values(chain, "chain");
    require_value(std::isfinite(scale), "scale is ", scale, "; it must be finite");
    if (is_integer(chain.type)) {
        const auto range = range_of(chain.type);
        require_value(scale == std::floor(scale) &&
                          std::fabs(scale) <= static_cast<float>(range.highest) &&
                          -std::fabs(scale) >= static_cast<float>(range.lowest),
                      "scale is ", scale, "; it and its negative must be integers that ",
                      name_of(chain.type), " holds");
    }
    for (int64_t i = 0; i < chain.count(); ++i) {
        const auto& k = chain.factors[static_cast<size_t>(i)];
        require_value(k.b == 2 && k.c == 2, "chain: factors[", i, "] = ", text_of(k),
                      "; b and c must be 2");
        for (int64_t at = 0; at < k.value_count(); ++at) {
            const float value = at / k.d % 4 == 3 ? -scale : scale;
            store_run(chain.type, k.values, at, 1, &value);
        }
    }
}

}  // namespace magicube
