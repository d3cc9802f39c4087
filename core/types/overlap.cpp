// SPDX-License-Identifier: Apache-2.0
#include "core/types/overlap.hpp"

#include <algorithm>
#include <utility>

namespace magicube {
namespace {

// Lines of bytes at one distance.
struct grid {
    int64_t begin;   // address
    int64_t lines;   // 1 where there is no gap between them
    int64_t pitch;   // from one line to the next
    int64_t length;  // of a line

    int64_t end() const { return begin + (lines - 1) * pitch + length; }
};

// All matrices of a batch as one grid; the first alone where they are none.
grid grid_of(const dense_view& view) {
    int64_t lines = view.outer();
    int64_t pitch = view.ld;
    int64_t length = view.inner();
    const int64_t step = view.batch_stride;
    const int64_t count = step == 0 ? 1 : view.batch_count;
    if (lines == 1) {
        lines = count;
        pitch = step;
    } else if (step % lines == 0 && step / lines == pitch) {
        lines *= count;
    } else if (step == length && length <= pitch / count) {
        length *= count;
    }
    grid result{static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.values)), lines,
                storage_bytes(view.type, pitch), storage_bytes(view.type, length)};
    if (result.pitch <= result.length) {
        result.length += (lines - 1) * result.pitch;
        result.lines = 1;
    }
    return result;
}

// Of two grids with one pitch, where a single line has any. Their ranges of addresses overlap, so
// they are apart only if every line of one lies in a gap of the other.
bool share_bytes(const grid& a, const grid& b, int64_t pitch) {
    const int64_t offset = ((a.begin - b.begin) % pitch + pitch) % pitch;
    return offset < b.length || offset > pitch - a.length;
}

bool share_bytes(grid a, grid b) {
    if (a.begin >= b.end() || b.begin >= a.end()) return false;
    if (a.lines > b.lines) std::swap(a, b);
    if (b.lines == 1) return true;
    if (a.lines == 1 || a.pitch == b.pitch) return share_bytes(a, b, b.pitch);
    for (int64_t line = 0; line < a.lines; ++line) {
        const grid alone{a.begin + line * a.pitch, 1, 0, a.length};
        if (share_bytes(alone, b)) return true;
    }
    return false;
}

}  // namespace

bool surely_overlap(const dense_view& a, const dense_view& b) {
    return !a.empty() && !b.empty() && share_bytes(grid_of(a), grid_of(b));
}

void check_no_overlap(const dense_view& output, const char* output_name, const dense_view& input,
                      const char* input_name) {
    require_value(!surely_overlap(output, input), output_name, " overlaps ", input_name,
                  " in memory; an output must not share memory with an input");
}

dense_view array_view(const void* data, dtype type, int64_t count) {
    dense_view view;
    view.rows = 1;
    view.cols = view.ld = count;
    view.values = const_cast<void*>(data);
    view.type = type;
    view.read_only = true;
    return view;
}

}  // namespace magicube
