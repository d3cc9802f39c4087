// SPDX-License-Identifier: Apache-2.0
#include "core/formats/element_moves.hpp"

#include <cstring>

namespace magicube {
namespace {

template <int64_t Bytes>
void copy_bytes(const void* from, void* to, const element_move* moves, int64_t count) {
    const auto* source = static_cast<const uint8_t*>(from);
    auto* target = static_cast<uint8_t*>(to);
    for (int64_t i = 0; i < count; ++i) {
        std::memcpy(target + moves[i].to * Bytes, source + moves[i].from * Bytes, Bytes);
    }
}

template <dtype From, dtype To>
void convert(const void* from, void* to, const element_move* moves, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        element<To>::store(to, moves[i].to, element<From>::load(from, moves[i].from));
    }
}

}  // namespace

void check_move(dtype from, const char* from_argument, dtype to, const char* to_argument) {
    require_value(from == to || (is_floating(from) && is_floating(to)), to_argument, " is ",
                  name_of(to), "; it must be ", name_of(from), ", the type of ", from_argument,
                  is_floating(from) ? ", or another floating type" : "");
}

element_mover select_mover(dtype from, dtype to) {
    if (from == to) {
        switch (storage_bits(from)) {
            case 8:
                return copy_bytes<1>;
            case 16:
                return copy_bytes<2>;
            case 32:
                return copy_bytes<4>;
            default:
                return convert<dtype::int4, dtype::int4>;
        }
    }
    return visit(from, [&](auto source) {
        return visit(to, [&](auto target) -> element_mover {
            constexpr dtype f = decltype(source)::value;
            constexpr dtype t = decltype(target)::value;
            if constexpr (f != t && is_floating(f) && is_floating(t)) return convert<f, t>;
            return nullptr;
        });
    });
}

void zero_elements(dtype type, void* array, int64_t first, int64_t count) {
    if (count <= 0) return;
    auto* bytes = static_cast<uint8_t*>(array);
    if (type != dtype::int4) {
        const int64_t unit = storage_bits(type) / 8;
        std::memset(bytes + first * unit, 0, static_cast<size_t>(count * unit));
        return;
    }
    if (first % 2 != 0) {
        store_int4(bytes, first++, 0);
        --count;
    }
    std::memset(bytes + first / 2, 0, static_cast<size_t>(count / 2));
    if (count % 2 != 0) store_int4(bytes, first + count - 1, 0);
}

}  // namespace magicube
