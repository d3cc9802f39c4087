// SPDX-License-Identifier: Apache-2.0
// Which element types meet in a product, and how wide its exact sum is.
#pragma once

#include <algorithm>
#include <string>

#include "core/types/dtype.hpp"

namespace magicube {

struct precision_pair {
    dtype lhs;
    dtype rhs;
};

constexpr bool operator==(precision_pair a, precision_pair b) {
    return a.lhs == b.lhs && a.rhs == b.rhs;
}

constexpr precision_pair spmm_pairs[] = {
    {dtype::int16, dtype::int16}, {dtype::int16, dtype::int8}, {dtype::int16, dtype::int4},
    {dtype::int12, dtype::int8},  {dtype::int12, dtype::int4}, {dtype::int8, dtype::int8},
    {dtype::int8, dtype::int4},   {dtype::int4, dtype::int4},  {dtype::uint8, dtype::int8},
    {dtype::uint8, dtype::int4},  {dtype::fp32, dtype::fp32},  {dtype::fp16, dtype::fp16},
    {dtype::bf16, dtype::bf16},   {dtype::e4m3, dtype::e4m3}};

constexpr precision_pair sddmm_pairs[] = {{dtype::int16, dtype::int16}, {dtype::int8, dtype::int8},
                                          {dtype::int4, dtype::int4},   {dtype::fp32, dtype::fp32},
                                          {dtype::fp16, dtype::fp16},   {dtype::bf16, dtype::bf16},
                                          {dtype::e4m3, dtype::e4m3}};

// With a left operand in V:N:M.
constexpr precision_pair vnm_pairs[] = {{dtype::int8, dtype::int8},
                                        {dtype::fp32, dtype::fp32},
                                        {dtype::fp16, dtype::fp16},
                                        {dtype::bf16, dtype::bf16},
                                        {dtype::e4m3, dtype::e4m3}};

template <size_t Count>
constexpr bool contains(const precision_pair (&pairs)[Count], precision_pair wanted) {
    for (const auto& pair : pairs)
        if (pair == wanted) return true;
    return false;
}

// "int16/int16, int16/int8, ..."
template <size_t Count>
std::string list_of(const precision_pair (&pairs)[Count]) {
    std::string list;
    for (const auto& pair : pairs)
        list += text(list.empty() ? "" : ", ", name_of(pair.lhs), "/", name_of(pair.rhs));
    return list;
}

// Types of a product: those that a float is rounded to, and int32 for exact sums of integers. int16
// only where `int16` says so.
constexpr bool is_product_output(dtype lhs, dtype out, bool int16) {
    switch (out) {
        case dtype::fp32:
        case dtype::fp16:
        case dtype::bf16:
        case dtype::int8:
            return true;
        case dtype::int16:
            return int16;
        case dtype::int32:
            return is_integer(lhs);
        default:
            return false;
    }
}

// Type that holds a sum of products.
enum class sum_type { int32, int64, float64 };

// Greatest magnitude of a product of two integers.
constexpr int64_t largest_product(precision_pair pair) {
    const auto lhs = range_of(pair.lhs);
    const auto rhs = range_of(pair.rhs);
    return std::max(-lhs.lowest, lhs.highest) * std::max(-rhs.lowest, rhs.highest);
}

// The narrowest type that holds every sum of `terms` products exactly (floats: with 53 bits).
constexpr sum_type sum_for(precision_pair pair, int64_t terms) {
    if (is_floating(pair.lhs)) return sum_type::float64;
    return terms <= INT32_MAX / largest_product(pair) ? sum_type::int32 : sum_type::int64;
}

}  // namespace magicube
