// SPDX-License-Identifier: Apache-2.0
// The element types as their definitions read, written without the library's code, and packed
// arrays of them with guard bytes on both sides.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace support {

// Same numbers as magicubeDataType_t.
enum class kind : int { int4 = 1, int8, uint8, int12, int16, int32, fp16, bf16, fp32, e4m3 };

inline bool is_float(kind k) {
    return k >= kind::fp16;
}

inline int bits_of(kind k) {
    constexpr int bits[] = {0, 4, 8, 8, 16, 16, 32, 16, 16, 32, 8};
    return bits[static_cast<int>(k)];
}

struct limits {
    double lowest;
    double highest;
};

inline limits limits_of(kind k) {
    switch (k) {
        case kind::int4:
            return {-8, 7};
        case kind::int8:
            return {-128, 127};
        case kind::uint8:
            return {0, 255};
        case kind::int12:
            return {-2048, 2047};
        case kind::int16:
            return {-32768, 32767};
        default:
            return {-2147483648.0, 2147483647.0};
    }
}

// Mantissa bits, exponent of the smallest normal number, largest finite number.
struct float_format {
    int mantissa;
    int lowest_exponent;
    double largest;
};

inline float_format format_of(kind k) {
    switch (k) {
        case kind::fp16:
            return {10, -14, 65504};
        case kind::bf16:
            return {7, -126, std::ldexp(255.0 / 128, 127)};
        case kind::e4m3:
            return {3, -6, 448};
        default:
            return {23, -126, static_cast<double>(std::numeric_limits<float>::max())};
    }
}

// Distance between neighbours of a type around a number (1 for integers).
inline double spacing(kind k, double y) {
    if (!is_float(k)) return 1;
    const auto f = format_of(k);
    const int exponent = y == 0 ? f.lowest_exponent : std::max(std::ilogb(y), f.lowest_exponent);
    return std::ldexp(1.0, exponent - f.mantissa);
}

// The nearest number of a type, ties to even. Integers saturate and take NaN as 0; floats overflow
// to infinity, which e4m3 does not have.
inline double round_to(kind k, double y) {
    if (!is_float(k)) {
        const auto l = limits_of(k);
        if (std::isnan(y)) return 0;
        return std::fmin(std::fmax(std::nearbyint(y), l.lowest), l.highest) + 0.0;  // no -0
    }
    if (std::isnan(y) || y == 0) return y;
    const auto f = format_of(k);
    const double beyond = k == kind::e4m3 ? f.largest : std::numeric_limits<double>::infinity();
    if (std::isinf(y)) return std::copysign(beyond, y);
    const double rounded = std::nearbyint(y / spacing(k, y)) * spacing(k, y);
    if (std::fabs(rounded) > f.largest) return std::copysign(beyond, y);
    return rounded == 0 ? std::copysign(0.0, y) : rounded;
}

inline uint32_t float_bits(kind k, double y) {
    const auto f = format_of(k);
    const int width = bits_of(k);
    const uint32_t sign = std::signbit(y) ? uint32_t{1} << (width - 1) : 0;
    const uint32_t all_ones = (uint32_t{1} << (width - 1)) - 1;
    const uint32_t infinity = all_ones >> f.mantissa << f.mantissa;
    if (std::isnan(y)) return sign | all_ones;
    const double magnitude = std::fabs(y);
    if (std::isinf(y)) return sign | infinity;
    const double unit = std::ldexp(1.0, f.lowest_exponent - f.mantissa);
    if (magnitude < std::ldexp(1.0, f.lowest_exponent))
        return sign | static_cast<uint32_t>(magnitude / unit);
    const int exponent = std::ilogb(magnitude);
    const auto significand =
        static_cast<uint32_t>(std::ldexp(magnitude, f.mantissa - exponent));  // with leading 1
    const auto biased = static_cast<uint32_t>(exponent - f.lowest_exponent);
    return sign | ((biased << f.mantissa) + significand);
}

inline double float_from(kind k, uint32_t bits) {
    const auto f = format_of(k);
    const int width = bits_of(k);
    const uint32_t magnitude = bits & ((uint32_t{1} << (width - 1)) - 1);
    const bool negative = (bits >> (width - 1) & 1) != 0;
    const uint32_t fraction = magnitude & ((uint32_t{1} << f.mantissa) - 1);
    const auto exponent = static_cast<int>(magnitude >> f.mantissa);
    const uint32_t top = (uint32_t{1} << (width - 1 - f.mantissa)) - 1;
    double value = exponent == 0 ? std::ldexp(fraction, f.lowest_exponent - f.mantissa)
                                 : std::ldexp(1 + std::ldexp(fraction, -f.mantissa),
                                              exponent - 1 + f.lowest_exponent);
    if (k == kind::e4m3) {
        if (magnitude == 0x7f) value = std::numeric_limits<double>::quiet_NaN();
    } else if (static_cast<uint32_t>(exponent) == top) {
        value = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
    }
    return negative ? -value : value;
}

// A packed array between two guard zones of a known byte.
class packed_array {
  public:
    packed_array() = default;
    packed_array(kind k, int64_t count, uint8_t fill = 0x5a)
        : kind_(k),
          bytes_(static_cast<size_t>(2 * guard + (count * bits_of(k) + 7) / 8), fill),
          count_(count) {}

    kind type() const { return kind_; }
    int64_t count() const { return count_; }
    // Aligned for every type.
    void* data() { return bytes_.data() + guard; }
    const void* data() const { return bytes_.data() + guard; }
    const std::vector<uint8_t>& bytes() const { return bytes_; }  // guards included

    double get(int64_t i) const {
        const uint32_t bits = raw(i);
        if (is_float(kind_)) return float_from(kind_, bits);
        if (kind_ == kind::uint8) return bits;
        const int width = bits_of(kind_);
        return static_cast<double>(static_cast<int32_t>(bits << (32 - width)) >> (32 - width));
    }
    // The value is one of the type's.
    void set(int64_t i, double value) {
        set_raw(i, is_float(kind_) ? float_bits(kind_, value)
                                   : static_cast<uint32_t>(static_cast<int64_t>(value)));
    }
    uint32_t raw(int64_t i) const {
        const int width = bits_of(kind_);
        uint32_t result = 0;
        for (int b = 0; b < (width + 7) / 8; ++b) {
            const auto at = static_cast<size_t>(guard + i * width / 8 + b);
            result |= uint32_t{bytes_[at]} << (8 * b);
        }
        return width == 4 ? (i % 2 ? result >> 4 : result & 15) : result;
    }
    void set_raw(int64_t i, uint32_t bits) {
        const int width = bits_of(kind_);
        const auto at = static_cast<size_t>(guard + i * width / 8);
        if (width == 4) {
            const int shift = i % 2 ? 4 : 0;
            bytes_[at] =
                static_cast<uint8_t>((bytes_[at] & ~(15 << shift)) | ((bits & 15) << shift));
            return;
        }
        for (int b = 0; b < width / 8; ++b)
            bytes_[at + static_cast<size_t>(b)] = static_cast<uint8_t>(bits >> (8 * b));
    }

  private:
    static constexpr int64_t guard = 64;
    kind kind_ = kind::int8;
    std::vector<uint8_t> bytes_;
    int64_t count_ = 0;
};

using generator = std::mt19937_64;

inline int64_t uniform(generator& random, int64_t lowest, int64_t highest) {
    return std::uniform_int_distribution<int64_t>(lowest, highest)(random);
}

// Integers over the whole range of the type, its two ends often; finite floats of both signs with
// every mantissa bit random, most near 1, some subnormal.
inline double random_value(generator& random, kind k) {
    if (!is_float(k)) {
        const auto l = limits_of(k);
        const int64_t dice = uniform(random, 0, 15);
        if (dice == 0) return l.lowest;
        if (dice == 1) return l.highest;
        return static_cast<double>(
            uniform(random, static_cast<int64_t>(l.lowest), static_cast<int64_t>(l.highest)));
    }
    const auto f = format_of(k);
    const double sign = uniform(random, 0, 1) ? 1 : -1;
    const auto fraction = static_cast<double>(uniform(random, 0, (int64_t{1} << f.mantissa) - 1));
    if (uniform(random, 0, 15) == 0) {
        return sign * std::ldexp(fraction, f.lowest_exponent - f.mantissa);
    }
    const auto exponent = static_cast<int>(uniform(random, -5, 3));
    return sign * std::ldexp(1 + std::ldexp(fraction, -f.mantissa), exponent);
}

// Equal, NaN with NaN and signs of zeros included.
inline bool same_number(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace support
