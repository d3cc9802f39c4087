// SPDX-License-Identifier: Apache-2.0
// The devices that a suite runs on, and host arrays with guards as they see them.
#pragma once

#include <vector>

#include "core/device/device.hpp"
#include "support/guarded.hpp"
#include "support/mirror.hpp"

namespace support {

// One context a device: the CPU, then every GPU there is.
inline std::vector<magicube::context> all_contexts() {
    std::vector<magicube::context> contexts(1);
    for (int i = 0; i < magicube::device_count(magicube::device_kind::cuda); ++i) {
        magicube::context ctx;
        ctx.device = magicube::device_kind::cuda;
        ctx.ordinal = i;
        ctx.level = magicube::validation::basic;
        contexts.push_back(ctx);
    }
    return contexts;
}

// The device's address of an array, whose guards go along.
template <class T>
T* put_guarded(mirror& device, guarded_array<T>& array) {
    T* whole = array.with_guards();
    return device.put(whole, array.bytes_with_guards()) + (array.data() - whole);
}

template <class T>
void fetch_guarded(mirror& device, guarded_array<T>& array) {
    device.fetch(array.with_guards());
}

}  // namespace support
