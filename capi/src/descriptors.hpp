// SPDX-License-Identifier: Apache-2.0
// What the opaque types of the ABI are, and how entry points read their arguments.
#pragma once

#include <memory>
#include <type_traits>

#include "core/device/context.hpp"
#include "core/formats/kronecker/kronecker.hpp"
#include "core/formats/sparse.hpp"
#include "core/formats/validate.hpp"
#include "core/types/granularity.hpp"
#include "guard.hpp"
#include "magicube/handle.h"
#include "magicube/kronecker.h"
#include "magicube/matrix.h"

struct magicubeContext {
    magicube::context value;
};

struct magicubeDnMatDescr {
    magicube::dense_view value;
};

struct magicubeSpMatDescr {
    magicube::sparse_view value;
};

struct magicubeKroneckerDescr {
    magicube::kronecker_view value;
};

namespace magicube::capi {

inline const context& get(magicubeHandle_t handle) {
    return deref(handle, "handle").value;
}

// A matrix of which the call may need the shape alone: its values may be null.
inline const dense_view& get_shape(magicubeConstDnMatDescr_t matrix, const char* argument) {
    return deref(matrix, argument).value;
}

inline const dense_view& get(magicubeConstDnMatDescr_t matrix, const char* argument) {
    const auto& view = get_shape(matrix, argument);
    require_value(view.values || view.empty(), argument,
                  " has null values; they are required here (", view.rows, " x ", view.cols, ")");
    return view;
}

inline const sparse_view& get(magicubeConstSpMatDescr_t matrix, const char* argument) {
    return deref(matrix, argument).value;
}

inline const kronecker_view& get(magicubeConstKroneckerDescr_t matrix, const char* argument) {
    return deref(matrix, argument).value;
}

// A matrix that the call writes.
inline const dense_view& get_output(magicubeConstDnMatDescr_t matrix, const char* argument) {
    const auto& view = get(matrix, argument);
    require_value(!view.read_only, argument,
                  " was made by magicubeCreateConstDnMat; an output needs magicubeCreateDnMat");
    require_value(!batch_overlaps(view), argument, " is a batch of ", view.batch_count,
                  " matrices, ", view.batch_stride,
                  " elements apart, that share elements; those of an output must not");
    return view;
}

inline const kronecker_view& get_output(magicubeConstKroneckerDescr_t matrix,
                                        const char* argument) {
    const auto& view = get(matrix, argument);
    require_value(
        !view.read_only, argument,
        " was made by a magicubeCreateConst... function; an output needs writable values");
    return view;
}

// SR-BCRS, or CSR seen as such.
inline sr_bcrs_view get_sr_bcrs(magicubeConstSpMatDescr_t matrix, const char* argument) {
    const auto& view = get(matrix, argument);
    if (const auto* csr = std::get_if<csr_view>(&view)) return as_sr_bcrs(*csr);
    const auto* sr_bcrs = std::get_if<sr_bcrs_view>(&view);
    require(sr_bcrs != nullptr, status::not_supported, argument, " is ",
            std::holds_alternative<bsr_view>(view) ? "BSR" : "V:N:M",
            "; this operation takes SR-BCRS or CSR (convert it with "
            "magicubeSparseToSrBcrs_fill)");
    return *sr_bcrs;
}

// An enum of the ABI as the core's, which has the same numbers: unknown numbers are refused.
template <class Core, class Abi>
Core to_core(Abi value, int lowest, int highest, const char* argument, const char* type) {
    const int number = static_cast<int>(value);
    require_value(number >= lowest && number <= highest, argument, " is ", number,
                  "; it must be a ", type);
    return static_cast<Core>(number);
}

inline dtype to_core(magicubeDataType_t type, const char* argument) {
    return to_core<dtype>(type, 1, 10, argument, "magicubeDataType_t");
}

inline order to_core(magicubeOrder_t value, const char* argument) {
    return to_core<order>(value, 1, 2, argument, "magicubeOrder_t");
}

inline index_type to_core(magicubeIndexType_t value, const char* argument) {
    return to_core<index_type>(value, 1, 2, argument, "magicubeIndexType_t");
}

inline granularity to_core(magicubeGranularity_t value, const char* argument) {
    return to_core<granularity>(value, 0, 3, argument, "magicubeGranularity_t");
}

inline device_kind to_core(magicubeDevice_t value, const char* argument) {
    return to_core<device_kind>(value, 1, 2, argument, "magicubeDevice_t");
}

// Every descriptor's view satisfies validate_sizes from its creation on: a view is changed by
// checking the changed copy first.
template <class Descriptor, class MakeView>
void create(Descriptor** matrix, const MakeView& make_view) {
    auto& result = deref(matrix, "matrix");
    result = nullptr;
    const auto view = make_view();
    validate_sizes(view);
    auto created = std::make_unique<std::remove_const_t<Descriptor>>();
    created->value = view;
    result = created.release();
}

// Descriptors are made by `create` and never const objects, so that a const one can be set.
template <class Descriptor, class Change>
void change(const Descriptor* matrix, const Change& apply) {
    auto changed = deref(matrix, "matrix").value;
    apply(changed);
    validate_sizes(changed);
    const_cast<Descriptor*>(matrix)->value = changed;
}

template <class T, class U>
void tell(T* target, const U& value) {
    if (target) *target = static_cast<T>(value);
}

}  // namespace magicube::capi
