// SPDX-License-Identifier: Apache-2.0
#include "core/types/runs.hpp"

namespace magicube {
namespace {

template <dtype T>
void store_elements(void* array, int64_t first, int64_t count, const float* numbers) {
    using value = typename element<T>::value;
    for (int64_t i = 0; i < count; ++i) {
        element<T>::store(array, first + i, static_cast<value>(numbers[i]));
    }
}

void store_int4_run(void* array, int64_t first, int64_t count, const float* numbers) {
    auto* bytes = static_cast<uint8_t*>(array);
    int64_t i = 0;
    if (first % 2 != 0 && count > 0) {
        store_int4(bytes, first, static_cast<int>(numbers[0]));
        i = 1;
    }
    uint8_t* pair = bytes + (first + i) / 2;
    for (; i + 1 < count; i += 2) {
        const int low = static_cast<int>(numbers[i]);
        const int high = static_cast<int>(numbers[i + 1]);
        *pair++ = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
    }
    if (i < count) store_int4(bytes, first + i, static_cast<int>(numbers[i]));
}

}  // namespace

template <class Number>
void load_run(dtype type, const void* array, int64_t first, int64_t count, Number* out) {
    visit(type, [&](auto constant) {
        using access = element<decltype(constant)::value>;
        for (int64_t i = 0; i < count; ++i) {
            out[i] = static_cast<Number>(access::load(array, first + i));
        }
    });
}

template void load_run<float>(dtype, const void*, int64_t, int64_t, float*);
template void load_run<double>(dtype, const void*, int64_t, int64_t, double*);

void store_run(dtype type, void* array, int64_t first, int64_t count, const float* numbers) {
    if (type == dtype::int4) return store_int4_run(array, first, count, numbers);
    visit(type, [&](auto constant) {
        store_elements<decltype(constant)::value>(array, first, count, numbers);
    });
}

}  // namespace magicube
