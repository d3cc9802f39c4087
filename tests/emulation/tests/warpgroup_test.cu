// SPDX-License-Identifier: Apache-2.0
// wgmma against loops, with operands in every layout of shared memory that descriptors describe.
#include <doctest/doctest.h>
#include <cstring>
#include <random>
#include <vector>

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/types/floats.hpp"
#include "emulation/warpgroup.hpp"
#include "source/settings.hpp"

using emulated::number;
using emulated::site;

namespace {

constexpr int rows = 64;

// Where an operand's elements lie: `span` bytes swizzled, along K or across it.
struct layout {
    int span;
    bool across;
};

// Byte of element (line, k) of `depth` elements a line, by the drawings of the PTX manual: chunks
// of 16 bytes are exchanged by the number of their row of `span` bytes.
int byte_of(const layout& of, int line, int k, int depth, int bytes) {
    if (of.across) {
        if (of.span == 0) return (line / 8 * (depth / 8) + k / 8) * 128 + k % 8 * 16 + line % 8 * 2;
        const int lines = of.span / 2;
        const int row = line / lines * depth + k, chunk = line % lines / 8;
        const int exchanged = chunk ^ (row * of.span / 128 % (of.span / 16));
        return row * of.span + exchanged * 16 + line % 8 * 2;
    }
    const int at = k * bytes;
    if (of.span == 0)
        return line / 8 * (depth * bytes / 16 * 128) + at / 16 * 128 + line % 8 * 16 + at % 16;
    const int exchanged = at / 16 ^ (line * of.span / 128 % (of.span / 16));
    return line * of.span + exchanged * 16 + at % 16;
}

uint64_t descriptor(const layout& of, uint32_t address, int depth, int bytes) {
    uint64_t leading = 1, stride = 0, mode = 0;
    if (of.across) {
        leading = of.span == 0 ? 128 : static_cast<uint64_t>(depth * of.span);
        stride =
            of.span == 0 ? static_cast<uint64_t>(depth) * 16 : 8 * static_cast<uint64_t>(of.span);
    } else {
        leading = 128;
        stride = of.span == 0 ? static_cast<uint64_t>(depth * bytes) * 8
                              : 8 * static_cast<uint64_t>(of.span);
    }
    mode = of.span == 0 ? 0 : of.span == 128 ? 1 : of.span == 64 ? 2 : 3;
    return (address & 0x3ffff) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62;
}

template <class T>
struct problem {
    number type;
    int columns, steps;
    bool a_in_registers, sparse, waits;
    layout a, b;
    int bytes, stored, depth;  // of all steps
    uint8_t a_bytes[8192], b_bytes[65536];
    uint32_t registers[2][128][4], metadata[2][128];
    T d[128][128];
};

template <class T>
void product_kernel(problem<T>* p) {
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 1024);
    for (unsigned i = threadIdx.x; i < sizeof(p->a_bytes); i += 128) shared[i] = p->a_bytes[i];
    for (unsigned i = threadIdx.x; i < sizeof(p->b_bytes); i += 128)
        shared[8192 + i] = p->b_bytes[i];
    __syncthreads();
    const uint32_t at = magicube::ptx::shared_address(shared);
    emulated::warpgroup_fence(site::here());
    T d[128];
    for (int i = 0; i < p->columns / 2; ++i) d[i] = p->d[threadIdx.x][i];
    for (int step = 0; step < p->steps; ++step) {
        emulated::warpgroup_product product{};
        product.a_type = product.b_type = p->type;
        product.columns = p->columns;
        const int a_step = step * 32, b_step = p->sparse ? step * 64 : step * 32;
        product.a = descriptor(p->a, at + static_cast<uint32_t>(a_step), p->stored, p->bytes);
        const int b_start = p->b.across ? b_step / 2 * p->b.span : b_step;
        product.b =
            descriptor(p->b, at + 8192 + static_cast<uint32_t>(b_start), p->depth, p->bytes);
        if (p->a_in_registers) product.a_registers = p->registers[step][threadIdx.x];
        product.a_across = p->a.across;
        product.b_across = p->b.across;
        product.sparse = p->sparse;
        product.metadata = p->metadata[step][threadIdx.x];
        emulated::warpgroup_multiply(product, d, site::here());
    }
    emulated::warpgroup_commit(site::here());
    if (p->waits) emulated::warpgroup_wait(0, site::here());
    for (int i = 0; i < p->columns / 2; ++i) p->d[threadIdx.x][i] = d[i];
    emulated::warpgroup_wait(0, site::here());
}

uint32_t bits_of(number type, int value) {
    if (type == number::f16) return magicube::half(static_cast<float>(value)).bits;
    if (type == number::bf16) return magicube::bfloat16(static_cast<float>(value)).bits;
    if (type == number::e4m3) return magicube::float8_e4m3(static_cast<float>(value)).bits;
    return static_cast<uint8_t>(value);
}

// The matrices of a problem, filled with small integers that every type holds.
template <class T>
struct filled {
    problem<T> p{};
    std::vector<int> a, b, places, start;

    filled(number type, layout a_layout, layout b_layout, bool registers, bool sparse, int columns,
           int steps, std::mt19937& random) {
        p.type = type;
        p.columns = columns;
        p.steps = steps;
        p.a = a_layout;
        p.b = b_layout;
        p.a_in_registers = registers;
        p.sparse = sparse;
        p.waits = true;
        p.bytes = type == number::f16 || type == number::bf16 ? 2 : 1;
        p.stored = 32 / p.bytes * steps;
        p.depth = sparse ? 2 * p.stored : p.stored;
        for (int row = 0; row < rows; ++row)
            for (int k = 0; k < p.stored; ++k) put_a(row, k, random);
        for (int column = 0; column < columns; ++column)
            for (int k = 0; k < p.depth; ++k) {
                b.push_back(value(random));
                put(p.b_bytes + byte_of(p.b, column, k, p.depth, p.bytes), b.back());
            }
        for (int thread = 0; thread < 128; ++thread)
            for (int i = 0; i < columns / 2; ++i) {
                start.push_back(static_cast<int>(random() % 100));
                p.d[thread][i] = static_cast<T>(start.back());
            }
    }

    int value(std::mt19937& random) const {
        return static_cast<int>(random() % 17) - (p.type == number::u8 ? 0 : 8);
    }
    void put(uint8_t* at, int value) const {
        const uint32_t bits = bits_of(p.type, value);
        std::memcpy(at, &bits, static_cast<size_t>(p.bytes));
    }
    void put_a(int row, int k, std::mt19937& random) {
        a.push_back(value(random));
        const int in_step = 32 / p.bytes, step = k / in_step, within = k % in_step, e = 4 / p.bytes;
        const int warp = row / 16 * 32;
        const int thread = warp + row % 8 * 4 + within % (4 * e) / e;
        uint32_t& word = p.registers[step][thread][row / 8 % 2 + within / (4 * e) * 2];
        word |= bits_of(p.type, a.back()) << (within % e * 8 * p.bytes);
        put(p.a_bytes + byte_of(p.a, row, k, p.stored, p.bytes), a.back());
        if (!p.sparse) return;
        const bool first = k % 2 == 0;
        const int before = first ? 0 : places.back() + 1, left = first ? 3 : 4 - before;
        places.push_back(before + static_cast<int>(random() % static_cast<unsigned>(left)));
        const auto place = static_cast<uint32_t>(places.back());
        const int quad = warp + row % 8 * 4;
        if (p.bytes == 2) {
            p.metadata[step][quad + within / 8] |= place << (row / 8 % 2 * 16 + within % 8 * 2);
        } else {
            p.metadata[step][quad + within / 16 * 2 + row / 8 % 2] |= place << (within % 16 * 2);
        }
    }
    int expected(int thread, int i) const {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        int sum = start[static_cast<size_t>(thread * (p.columns / 2) + i)];
        for (int k = 0; k < p.stored; ++k) {
            const auto at = static_cast<size_t>(row * p.stored + k);
            const int across = p.sparse ? k / 2 * 4 + places[at] : k;
            sum += a[at] * b[static_cast<size_t>(column * p.depth + across)];
        }
        return sum;
    }
};

template <class T>
cudaError_t run(problem<T>& p) {
    const auto kernel = product_kernel<T>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 80 << 10);
    return magicube::cuda::launch_kernel(kernel, {1, 128, 8192 + 65536}, &p);
}

template <class T>
void check(number type, layout a, layout b, bool registers, bool sparse, int columns, int steps,
           std::mt19937& random) {
    filled<T> f(type, a, b, registers, sparse, columns, steps, random);
    REQUIRE(run(f.p) == cudaSuccess);
    for (int thread = 0; thread < 128; ++thread)
        for (int i = 0; i < columns / 2; ++i)
            REQUIRE(f.p.d[thread][i] == static_cast<T>(f.expected(thread, i)));
}

}  // namespace

TEST_CASE("wgmma multiplies operands of every layout") {
    std::mt19937 random(3);
    for (int span : {0, 32, 64, 128}) {
        const layout along{span, false}, across{span, true};
        const int steps = span < 64 ? 1 : 2;
        for (number type : {number::f16, number::bf16}) {
            check<float>(type, along, along, false, false, 64, steps, random);
            check<float>(type, along, along, true, false, 24, steps, random);
            check<float>(type, along, across, true, false, 256, 1, random);
            check<float>(type, across, across, false, false, 128, 1, random);
        }
        check<int32_t>(number::s8, along, along, false, false, 32, steps, random);
        check<int32_t>(number::u8, along, along, true, false, 8, steps, random);
        check<float>(number::e4m3, along, along, false, false, 16, steps, random);
    }
}

TEST_CASE("wgmma.sp puts stored elements where the metadata says") {
    std::mt19937 random(4);
    const layout a64{64, false}, a32{32, false}, wide{128, false}, across{128, true};
    for (bool registers : {false, true}) {
        check<float>(number::f16, a64, across, registers, true, 256, 2, random);
        check<float>(number::bf16, a32, across, registers, true, 64, 1, random);
        check<int32_t>(number::s8, a64, wide, registers, true, 64, 2, random);
        check<float>(number::e4m3, a32, wide, registers, true, 32, 1, random);
    }
}

TEST_CASE("sums of wgmma that are read before the wait are old ones when products are late") {
    const auto before = emulated::current_settings();
    using emulated::copy_time;
    std::mt19937 random(5);
    for (copy_time when : {copy_time::early, copy_time::late}) {
        emulated::current_settings().copies = when;
        filled<float> f(number::f16, {128, false}, {128, true}, false, false, 64, 1, random);
        f.p.waits = false;
        REQUIRE(run(f.p) == cudaSuccess);
        bool all = true;
        for (int i = 0; i < 32; ++i) all = all && f.p.d[5][i] == f.expected(5, i);
        CHECK(all == (when == copy_time::early));
    }
    emulated::current_settings() = before;
}
