// SPDX-License-Identifier: Apache-2.0
// Copies of single elements between arrays of any types. Conversions decide where elements go
// without knowing their type; these move them.
#pragma once

#include <array>

#include "core/types/dtype.hpp"

namespace magicube {

struct element_move {
    int64_t from;
    int64_t to;
};

using element_mover = void (*)(const void* from, void* to, const element_move* moves,
                               int64_t count);

// INVALID_VALUE unless the types are the same or both floating.
void check_move(dtype from, const char* from_argument, dtype to, const char* to_argument);

// For types that check_move allows. Equal types keep every bit; different ones round once to
// nearest even.
element_mover select_mover(dtype from, dtype to);

// Sets elements [first, first + count) to 0, touching no other nibble.
void zero_elements(dtype type, void* array, int64_t first, int64_t count);

// Collects moves and makes them in batches. flush() makes the rest.
class move_list {
  public:
    move_list(element_mover mover, const void* from, void* to)
        : mover_(mover), from_(from), to_(to) {}

    void add(int64_t from, int64_t to) {
        moves_[count_++] = {from, to};
        if (count_ == moves_.size()) flush();
    }
    void flush() {
        mover_(from_, to_, moves_.data(), static_cast<int64_t>(count_));
        count_ = 0;
    }

  private:
    element_mover mover_;
    const void* from_;
    void* to_;
    size_t count_ = 0;
    std::array<element_move, 512> moves_;
};

}  // namespace magicube
