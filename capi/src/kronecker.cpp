// SPDX-License-Identifier: Apache-2.0
#include "magicube/kronecker.h"

#include <algorithm>

#include "core/formats/kronecker/convert.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

namespace {

kronecker_shape to_core(const magicubeKroneckerShape_t& shape) {
    return {shape.a, shape.b, shape.c, shape.d};
}

magicubeKroneckerShape_t to_abi(const kronecker_shape& shape) {
    return {shape.a, shape.b, shape.c, shape.d};
}

kronecker_view make_factor(const kronecker_shape& shape, const void* values,
                           magicubeDataType_t type, bool read_only) {
    kronecker_view view;
    view.factors.emplace_back(shape, const_cast<void*>(values));
    view.type = capi::to_core(type, "type");
    view.read_only = read_only;
    return view;
}

kronecker_view make_chain(int64_t count, const magicubeKroneckerShape_t* factors,
                          const void* const* values, magicubeDataType_t type, bool read_only) {
    require_value(count >= 1, "count is ", count, "; a chain has at least one factor");
    deref(factors, "factors");
    kronecker_view view;
    view.type = capi::to_core(type, "type");
    view.read_only = read_only;
    view.chain = true;
    for (int64_t i = 0; i < count; ++i)
        view.factors.emplace_back(to_core(factors[i]),
                                  const_cast<void*>(values ? values[i] : nullptr));
    return view;
}

template <class View>
auto& factor_at(View& view, int64_t index, const char* argument, int64_t count) {
    require_value(index >= 0 && index < count, argument, " is ", index, "; it must be from 0 to ",
                  count - 1);
    return view.factors[static_cast<size_t>(index)];
}

void set_factor(kronecker_view& view, int64_t index, const void* values, bool read_only,
                const char* setter) {
    require_value(view.read_only == read_only, "matrix was made ",
                  read_only ? "for writable values" : "by a magicubeCreateConst... function", "; ",
                  setter, " sets its values");
    factor_at(view, index, "index", view.count()).values = const_cast<void*>(values);
}

}  // namespace

magicubeStatus_t magicubeCreateKronecker(magicubeKroneckerDescr_t* matrix, int64_t a, int64_t b,
                                         int64_t c, int64_t d, void* values,
                                         magicubeDataType_t type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_factor({a, b, c, d}, values, type, false);
                            }););
}

magicubeStatus_t magicubeCreateConstKronecker(magicubeConstKroneckerDescr_t* matrix, int64_t a,
                                              int64_t b, int64_t c, int64_t d, const void* values,
                                              magicubeDataType_t type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_factor({a, b, c, d}, values, type, true);
                            }););
}

magicubeStatus_t magicubeCreateKroneckerChain(magicubeKroneckerDescr_t* matrix, int64_t count,
                                              const magicubeKroneckerShape_t* factors,
                                              void* const* values,
                                              magicubeDataType_t type) noexcept {
    return MAGICUBE_GUARDED(
        create(matrix, [&] { return make_chain(count, factors, values, type, false); }););
}

magicubeStatus_t magicubeCreateConstKroneckerChain(magicubeConstKroneckerDescr_t* matrix,
                                                   int64_t count,
                                                   const magicubeKroneckerShape_t* factors,
                                                   const void* const* values,
                                                   magicubeDataType_t type) noexcept {
    return MAGICUBE_GUARDED(
        create(matrix, [&] { return make_chain(count, factors, values, type, true); }););
}

magicubeStatus_t magicubeDestroyKronecker(magicubeConstKroneckerDescr_t matrix) noexcept {
    delete matrix;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeKroneckerGet(magicubeConstKroneckerDescr_t matrix, int64_t* count,
                                      int64_t* rows, int64_t* cols,
                                      magicubeDataType_t* type) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = get(matrix, "matrix");
        tell(count, view.count());
        tell(rows, view.rows());
        tell(cols, view.cols());
        tell(type, view.type);
    });
}

magicubeStatus_t magicubeKroneckerGetFactor(magicubeConstKroneckerDescr_t matrix, int64_t index,
                                            magicubeKroneckerShape_t* shape,
                                            const void** values) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = get(matrix, "matrix");
        const auto& factor = factor_at(view, index, "index", view.count());
        if (shape) *shape = to_abi(factor);
        tell(values, factor.values);
    });
}

magicubeStatus_t magicubeKroneckerSetValues(magicubeKroneckerDescr_t matrix, int64_t index,
                                            void* values) noexcept {
    return MAGICUBE_GUARDED(
        change(static_cast<magicubeConstKroneckerDescr_t>(matrix), [&](auto& view) {
            set_factor(view, index, values, false, "magicubeConstKroneckerSetValues");
        }););
}

magicubeStatus_t magicubeConstKroneckerSetValues(magicubeConstKroneckerDescr_t matrix,
                                                 int64_t index, const void* values) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& view) {
                                set_factor(view, index, values, true, "magicubeKroneckerSetValues");
                            }););
}

magicubeStatus_t magicubeKroneckerGetPair(magicubeConstKroneckerDescr_t matrix, int64_t index,
                                          int32_t* chainable, int64_t* rank,
                                          int32_t* redundant) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = get(matrix, "matrix");
        require_value(view.count() >= 2, "matrix is one factor; a pair needs a chain of two");
        const auto& left = factor_at(view, index, "index", view.count() - 1);
        const auto pair = pair_of(left, factor_at(view, index + 1, "index", view.count()));
        tell(chainable, pair.chainable);
        tell(rank, pair.rank);
        tell(redundant, pair.redundant);
    });
}

magicubeStatus_t magicubeKroneckerProductShape(magicubeConstKroneckerDescr_t chain,
                                               magicubeKroneckerShape_t* shape) noexcept {
    return MAGICUBE_GUARDED({
        auto& result = deref(shape, "shape");
        result = to_abi(product_shape(get(chain, "chain"), "chain"));
    });
}

magicubeStatus_t magicubeKroneckerButterflyShapes(int64_t log2_size,
                                                  magicubeKroneckerShape_t* shapes,
                                                  int64_t capacity, int64_t* count) noexcept {
    return MAGICUBE_GUARDED({
        require_value(capacity >= 0, "capacity is ", capacity, "; it must be at least 0");
        require_value(shapes != nullptr || capacity == 0, "shapes is null; it must hold ", capacity,
                      " shapes");
        auto& result = deref(count, "count");
        const auto found = butterfly_shapes(log2_size);
        result = static_cast<int64_t>(found.size());
        for (int64_t i = 0; i < std::min(result, capacity); ++i)
            shapes[i] = to_abi(found[static_cast<size_t>(i)]);
    });
}

magicubeStatus_t magicubeKroneckerMonarchShapes(int64_t rows, int64_t cols, int64_t blocks,
                                                int64_t step, int64_t rank,
                                                magicubeKroneckerShape_t* shapes) noexcept {
    return MAGICUBE_GUARDED({
        deref(shapes, "shapes");
        const auto found = monarch_shapes(rows, cols, blocks, step, rank);
        shapes[0] = to_abi(found[0]);
        shapes[1] = to_abi(found[1]);
    });
}

magicubeStatus_t magicubeKroneckerFillHadamard(magicubeHandle_t handle,
                                               magicubeKroneckerDescr_t chain,
                                               float scale) noexcept {
    return MAGICUBE_GUARDED_RANGE(fill_hadamard(get(handle), get_output(chain, "chain"), scale););
}

magicubeStatus_t magicubeKroneckerToDense(magicubeHandle_t handle,
                                          magicubeConstKroneckerDescr_t source,
                                          magicubeDnMatDescr_t dense) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        kronecker_to_dense(ctx, get(source, "source"), get_output(dense, "dense"));
    });
}

magicubeStatus_t magicubeDenseToKronecker(magicubeHandle_t handle, magicubeConstDnMatDescr_t dense,
                                          magicubeKroneckerDescr_t target) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        dense_to_kronecker(ctx, get(dense, "dense"), get_output(target, "target"));
    });
}

magicubeStatus_t magicubeKroneckerToCsr(magicubeHandle_t handle,
                                        magicubeConstKroneckerDescr_t source,
                                        magicubeIndexType_t offset_type, void* offsets,
                                        int32_t* col_indices, void* values,
                                        magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        csr_target target;
        target.offset_type = capi::to_core(offset_type, "offset_type");
        target.type = capi::to_core(value_type, "value_type");
        target.offsets = offsets;
        target.col_indices = col_indices;
        target.values = values;
        kronecker_to_csr(ctx, get(source, "source"), target);
    });
}

magicubeStatus_t magicubeCsrToKronecker(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                        magicubeKroneckerDescr_t target) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const auto* csr = std::get_if<csr_view>(&get(source, "source"));
        require_value(csr != nullptr, "source is not CSR");
        csr_to_kronecker(ctx, *csr, get_output(target, "target"));
    });
}

magicubeStatus_t magicubeKroneckerMultiply(magicubeHandle_t handle,
                                           magicubeConstKroneckerDescr_t chain,
                                           magicubeKroneckerDescr_t product) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        multiply_factors(ctx, get(chain, "chain"), get_output(product, "product"));
    });
}
