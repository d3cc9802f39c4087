// SPDX-License-Identifier: Apache-2.0
// An array of indices between guard zones, poisoned before it is written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace support {

template <class T>
class guarded_array {
  public:
    explicit guarded_array(int64_t count, T fill = poison())
        : count_(count), items_(static_cast<size_t>(count + 2 * guard), poison()) {
        std::fill_n(items_.begin() + guard, count, fill);
    }

    T* data() { return items_.data() + guard; }
    const T* data() const { return items_.data() + guard; }
    int64_t size() const { return count_; }
    // The whole memory, for copies to a device and back.
    T* with_guards() { return items_.data(); }
    size_t bytes_with_guards() const { return items_.size() * sizeof(T); }
    T& operator[](int64_t i) { return items_[static_cast<size_t>(guard + i)]; }
    T operator[](int64_t i) const { return items_[static_cast<size_t>(guard + i)]; }
    std::vector<T> items() const { return {data(), data() + count_}; }

    // Nothing before or behind the array was written.
    bool intact() const {
        return std::all_of(items_.begin(), items_.begin() + guard, is_poison) &&
               std::all_of(items_.end() - guard, items_.end(), is_poison);
    }

  private:
    static constexpr int64_t guard = 16;
    static T poison() {
        T value;
        std::memset(&value, 0x5a, sizeof(value));
        return value;
    }
    static bool is_poison(T value) { return value == poison(); }

    int64_t count_;
    std::vector<T> items_;
};

}  // namespace support
