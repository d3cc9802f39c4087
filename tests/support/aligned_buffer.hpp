// SPDX-License-Identifier: Apache-2.0
// Plan buffers and workspaces of exactly the bytes asked for, poisoned, with a guard zone behind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace support {

class aligned_buffer {
  public:
    explicit aligned_buffer(size_t bytes, uint8_t fill = 0xff) : bytes_(bytes) {
        if (posix_memalign(&data_, 256, bytes + guard) != 0) std::abort();
        std::fill_n(begin(), bytes, fill);
        std::fill_n(begin() + bytes, guard, guard_byte);
    }
    aligned_buffer(const aligned_buffer&) = delete;
    aligned_buffer& operator=(const aligned_buffer&) = delete;
    ~aligned_buffer() { std::free(data_); }

    void* data() const { return data_; }
    size_t size() const { return bytes_; }
    size_t size_with_guard() const { return bytes_ + guard; }
    bool guard_intact() const {
        return std::all_of(begin() + bytes_, begin() + bytes_ + guard,
                           [](uint8_t byte) { return byte == guard_byte; });
    }

  private:
    static constexpr size_t guard = 256;
    static constexpr uint8_t guard_byte = 0x3c;

    uint8_t* begin() const { return static_cast<uint8_t*>(data_); }

    void* data_ = nullptr;
    size_t bytes_;
};

}  // namespace support
