// SPDX-License-Identifier: Apache-2.0
// The emulated matrix instructions against loops over whole matrices, where the fragments are laid
// out by the formulas of the PTX manual.
#include <doctest/doctest.h>
#include <algorithm>
#include <random>
#include <vector>

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/types/floats.hpp"

using emulated::number;
using emulated::site;

namespace {

constexpr int rows = 16, cols = 8;

void on_a_warp(void (*kernel)(void*), void* argument) {
    REQUIRE(magicube::cuda::launch_kernel(kernel, {1, 32}, argument) == cudaSuccess);
}

int bits_of(number type) {
    return type == number::s4 || type == number::u4      ? 4
           : type == number::tf32                        ? 32
           : type == number::f16 || type == number::bf16 ? 16
                                                         : 8;
}

bool is_signed(number type) {
    return type == number::s4 || type == number::s8;
}

// A matrix of bit patterns, and its elements as numbers.
struct matrix {
    int across;
    std::vector<uint32_t> bits;
    std::vector<double> values;

    matrix(number type, int down, int width, std::mt19937& random)
        : across(width), bits(static_cast<size_t>(down * width)), values(bits.size()) {
        for (size_t i = 0; i < bits.size(); ++i) {
            const auto x = static_cast<int>(random());
            if (type == number::f16) {
                const magicube::half h(static_cast<float>(x % 2048) / 64);
                bits[i] = h.bits, values[i] = static_cast<double>(static_cast<float>(h));
            } else if (type == number::bf16) {
                const magicube::bfloat16 h(static_cast<float>(x % 256) / 16);
                bits[i] = h.bits, values[i] = static_cast<double>(static_cast<float>(h));
            } else if (type == number::e4m3) {
                const magicube::float8_e4m3 h(static_cast<float>(x % 256) / 8);
                bits[i] = h.bits, values[i] = static_cast<double>(static_cast<float>(h));
            } else if (type == number::tf32) {
                const auto value = static_cast<float>(x % 1024) / 32;
                std::memcpy(&bits[i], &value, 4);
                values[i] = static_cast<double>(value);
            } else {
                const int width_bits = bits_of(type);
                bits[i] = static_cast<uint32_t>(x) & ((1u << width_bits) - 1);
                const bool negative = is_signed(type) && bits[i] >> (width_bits - 1);
                values[i] = static_cast<double>(bits[i]) - (negative ? 1 << width_bits : 0);
            }
        }
    }
    size_t at(int row, int col) const { return static_cast<size_t>(row * across + col); }
};

template <class T>
struct product {
    number a_type, b_type;
    int halves;
    uint32_t a[32][4], b[32][4];
    T d[32][4];
    bool sparse;
    uint32_t metadata[32];
    int selector;
};

template <class T>
void multiply_kernel(void* argument) {
    auto& p = *static_cast<product<T>*>(argument);
    const auto lane = threadIdx.x;
    if (p.sparse) {
        emulated::multiply_sparse(p.a_type, p.b_type, p.d[lane], p.a[lane], p.b[lane],
                                  p.metadata[lane], p.selector, site::here());
    } else {
        emulated::multiply(p.a_type, p.b_type, p.halves, p.d[lane], p.a[lane], p.b[lane],
                           site::here());
    }
}

// Element i of a fragment as the manual counts them: its register, and its place in that.
void put(uint32_t* fragment, int bits, int i, uint32_t value) {
    fragment[i * bits / 32] |= value << (i * bits % 32);
}

template <class T>
void check_product(number a_type, number b_type, int depth, std::mt19937& random) {
    const int bits = bits_of(a_type), e = 32 / bits;
    const matrix a(a_type, rows, depth, random), b(b_type, depth, cols, random);
    product<T> p{};
    p.a_type = a_type;
    p.b_type = b_type;
    p.halves = depth / (4 * e);
    std::vector<double> start(rows * cols);
    for (double& x : start) x = static_cast<int>(random() % 2000) - 1000;
    for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, in_group = lane % 4;
        for (int i = 0; i < 2 * p.halves * e; ++i) {
            const int row = i / e % 2 == 0 ? group : group + 8;
            const int col = in_group * e + i % e + (i >= 2 * e ? 4 * e : 0);
            put(p.a[lane], bits, i, a.bits[a.at(row, col)]);
        }
        for (int i = 0; i < p.halves * e; ++i) {
            const int row = in_group * e + i % e + (i >= e ? 4 * e : 0);
            put(p.b[lane], bits, i, b.bits[b.at(row, group)]);
        }
        for (int i = 0; i < 4; ++i)
            p.d[lane][i] = static_cast<T>(start[static_cast<size_t>(
                (i < 2 ? group : group + 8) * cols + in_group * 2 + i % 2)]);
    }
    on_a_warp(multiply_kernel<T>, &p);
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = (lane >> 2) + (i < 2 ? 0 : 8), col = lane % 4 * 2 + i % 2;
            double expected = start[static_cast<size_t>(row * cols + col)];
            for (int k = 0; k < depth; ++k)
                expected += a.values[a.at(row, k)] * b.values[b.at(k, col)];
            REQUIRE(p.d[lane][i] == static_cast<T>(expected));
        }
}

// Stored elements, where they stand, and the product of what they mean.
template <class T>
void check_sparse(number type, int depth, int selector, std::mt19937& random) {
    const int bits = bits_of(type), e = 32 / bits;
    const matrix stored(type, rows, depth / 2, random), b(type, depth, cols, random);
    std::vector<int> places(static_cast<size_t>(rows * depth / 2));
    for (size_t i = 0; i < places.size(); i += 2) {
        places[i] = static_cast<int>(random() % 3);
        places[i + 1] = places[i] + 1 + static_cast<int>(random() % (3u - places[i]));
    }
    product<T> p{};
    p.a_type = p.b_type = type;
    p.sparse = true;
    p.selector = selector;
    for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, in_group = lane % 4;
        for (int i = 0; i < 4 * e; ++i) {
            const int row = i / e % 2 == 0 ? group : group + 8;
            const int col = in_group * e + i % e + (i >= 2 * e ? 4 * e : 0);
            put(p.a[lane], bits, i, stored.bits[stored.at(row, col)]);
        }
        for (int i = 0; i < 4 * e; ++i)
            put(p.b[lane], bits, i, b.bits[b.at(i / e * 4 * e + in_group * e + i % e, group)]);
    }
    for (int row = 0; row < rows; ++row)
        for (int s = 0; s < depth / 2; ++s) {
            const auto place = static_cast<uint32_t>(places[stored.at(row, s)]);
            const int lane = row % 8 * 4;
            if (bits == 16) {  // 16 bits a row and lane, two lanes
                p.metadata[lane + 2 * selector + s / 8] |= place << (row / 8 * 16 + s % 8 * 2);
            } else {  // 32 bits a row and lane, four lanes
                p.metadata[lane + s / 16 * 2 + row / 8] |= place << (s % 16 * 2);
            }
        }
    on_a_warp(multiply_kernel<T>, &p);
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = (lane >> 2) + (i < 2 ? 0 : 8), col = lane % 4 * 2 + i % 2;
            double expected = 0;
            for (int s = 0; s < depth / 2; ++s)
                expected += stored.values[stored.at(row, s)] *
                            b.values[b.at(s / 2 * 4 + places[stored.at(row, s)], col)];
            REQUIRE(p.d[lane][i] == static_cast<T>(expected));
        }
}

}  // namespace

TEST_CASE("mma multiplies fragments of every type and depth") {
    std::mt19937 random(1);
    for (int i = 0; i < 5; ++i) {
        for (number a : {number::s8, number::u8})
            for (number b : {number::s8, number::u8})
                for (int depth : {16, 32}) check_product<int32_t>(a, b, depth, random);
        for (number a : {number::s4, number::u4})
            for (number b : {number::s4, number::u4})
                for (int depth : {32, 64}) check_product<int32_t>(a, b, depth, random);
        for (number type : {number::f16, number::bf16})
            for (int depth : {8, 16}) check_product<float>(type, type, depth, random);
        check_product<float>(number::e4m3, number::e4m3, 32, random);
        for (int depth : {4, 8}) check_product<float>(number::tf32, number::tf32, depth, random);
    }
}

TEST_CASE("mma.sp puts stored elements where the metadata says") {
    std::mt19937 random(2);
    for (int i = 0; i < 5; ++i) {
        for (int selector : {0, 1}) {
            check_sparse<float>(number::f16, 32, selector, random);
            check_sparse<float>(number::bf16, 32, selector, random);
        }
        check_sparse<int32_t>(number::s8, 64, 0, random);
        check_sparse<int32_t>(number::u8, 64, 0, random);
        check_sparse<float>(number::e4m3, 64, 0, random);
    }
}

namespace {

struct matrices {
    int count;
    bool transposed;
    uint32_t out[32][4], stored[32], turned[32];
};

// Element (row, col) of matrix m is m * 64 + row * 8 + col.
void matrices_kernel(void* argument) {
    auto& p = *static_cast<matrices*>(argument);
    __shared__ __align__(16) uint16_t shared[4 * 64];
    const int lane = static_cast<int>(threadIdx.x);
    for (int i = lane; i < 256; i += 32) shared[i] = static_cast<uint16_t>(i);
    __syncwarp();
    const uint32_t row = magicube::ptx::shared_address(shared + lane * 8);
    emulated::load_matrices(p.out[lane], p.count, p.transposed, row, site::here());
    p.turned[lane] = emulated::transpose_matrix(p.out[lane][0], site::here());
    __syncwarp();
    for (int i = lane; i < 256; i += 32) shared[i] = 0;
    __syncwarp();
    emulated::store_matrices(p.out[lane], 1, p.transposed, row, site::here());
    __syncwarp();
    std::memcpy(&p.stored[lane], shared + lane * 2, 4);
}

}  // namespace

TEST_CASE("ldmatrix, stmatrix and movmatrix move 8x8 matrices") {
    for (int count : {1, 2, 4})
        for (bool transposed : {false, true}) {
            matrices p{};
            p.count = count;
            p.transposed = transposed;
            on_a_warp(matrices_kernel, &p);
            for (int lane = 0; lane < 32; ++lane) {
                for (int m = 0; m < count; ++m)
                    for (int i = 0; i < 2; ++i) {
                        const int along = lane / 4, across = lane % 4 * 2 + i;
                        const int expected =
                            m * 64 + (transposed ? across * 8 + along : along * 8 + across);
                        REQUIRE((p.out[lane][m] >> (16 * i) & 0xffff) == expected);
                    }
                REQUIRE(p.stored[lane] == static_cast<uint32_t>((lane * 2 + 1) << 16 | lane * 2));
                for (int i = 0; i < 2; ++i) {
                    const int along = lane / 4, across = lane % 4 * 2 + i;
                    REQUIRE((p.turned[lane] >> (16 * i) & 0xffff) ==
                            (transposed ? along * 8 + across : across * 8 + along));
                }
            }
        }
}
