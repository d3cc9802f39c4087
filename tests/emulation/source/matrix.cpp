// SPDX-License-Identifier: Apache-2.0
// Fragments of mma.m16n8, with g = lane / 4, t = lane % 4 and e elements a register: register r of
// A holds row g + 8 * (r % 2), columns t * e .. t * e + e - 1 of half r / 2; register r of B holds
// column g, rows t * e .. of half r; d[0], d[1] are row g, columns 2t and 2t + 1, d[2], d[3] are
// row g + 8. A half has 4 * e columns of A.
#include "emulation/matrix.hpp"

#include <cstring>
#include <type_traits>

#include "source/numbers.hpp"

namespace emulated {
namespace {

constexpr int rows = 16, cols = 8, max_depth = 128;
constexpr uint32_t all_lanes = ~0u;

template <class T>
struct multiply_argument {
    number a_type, b_type;
    int a_registers, b_registers;
    const uint32_t *a, *b;
    T* d;
    uint32_t metadata;
    int selector;
};

template <class T>
struct operands {
    alignas(64) T a[rows][max_depth];
    alignas(64) T b[cols][max_depth];
};

// Calls f(std::integral_constant<number, type>) for a type that T holds.
template <class T, class F>
void with_type(number type, F&& f) {
#define EMULATED_TYPE(NAME) \
    case number::NAME:      \
        return f(std::integral_constant<number, number::NAME>())
    if constexpr (std::is_same_v<T, int32_t>) {
        switch (type) {
            EMULATED_TYPE(s4);
            EMULATED_TYPE(u4);
            EMULATED_TYPE(s8);
            EMULATED_TYPE(u8);
            default:
                fail("integers are to be added to floats", {"mma", 0});
        }
    } else {
        switch (type) {
            EMULATED_TYPE(e4m3);
            EMULATED_TYPE(e5m2);
            EMULATED_TYPE(f16);
            EMULATED_TYPE(bf16);
            EMULATED_TYPE(tf32);
            default:
                fail("floats are to be added to integers", {"mma", 0});
        }
    }
#undef EMULATED_TYPE
}

// The elements of a register.
template <number Type, class T>
void unpack(uint32_t word, T* elements) {
    for (int i = 0; i < 32 / bits_of(Type); ++i) {
        if constexpr (is_integer(Type)) {
            elements[i] = integer_of(Type, word, i);
        } else {
            elements[i] = float_of<Type>(word, i);
        }
    }
}

template <class T>
void read_a(void* const* lanes, T (&a)[rows][max_depth]) {
    const auto& first = *static_cast<const multiply_argument<T>*>(lanes[0]);
    with_type<T>(first.a_type, [&](auto type) {
        constexpr int e = 32 / bits_of(decltype(type)::value);
        for (int lane = 0; lane < 32; ++lane) {
            const auto& of = *static_cast<const multiply_argument<T>*>(lanes[lane]);
            for (int r = 0; r < first.a_registers; ++r)
                unpack<decltype(type)::value>(
                    of.a[r], a[lane / 4 + 8 * (r % 2)] + r / 2 * 4 * e + lane % 4 * e);
        }
    });
}

template <class T>
void read_b(void* const* lanes, T (&b)[cols][max_depth]) {
    const auto& first = *static_cast<const multiply_argument<T>*>(lanes[0]);
    with_type<T>(first.b_type, [&](auto type) {
        constexpr int e = 32 / bits_of(decltype(type)::value);
        for (int lane = 0; lane < 32; ++lane) {
            const auto& of = *static_cast<const multiply_argument<T>*>(lanes[lane]);
            for (int r = 0; r < first.b_registers; ++r)
                unpack<decltype(type)::value>(of.b[r], b[lane / 4] + r * 4 * e + lane % 4 * e);
        }
    });
}

template <class T>
void add_product(void* const* lanes, const operands<T>& of, int depth) {
    for (int lane = 0; lane < 32; ++lane) {
        T* d = static_cast<const multiply_argument<T>*>(lanes[lane])->d;
        for (int i = 0; i < 4; ++i)
            d[i] =
                add_products(d[i], of.a[lane / 4 + 8 * (i / 2)], of.b[lane % 4 * 2 + i % 2], depth);
    }
}

template <class T>
void multiply_lanes(void* const* lanes, uint32_t) {
    const auto& first = *static_cast<const multiply_argument<T>*>(lanes[0]);
    operands<T> of;
    read_a(lanes, of.a);
    read_b(lanes, of.b);
    add_product(lanes, of, first.b_registers * 4 * (32 / bits_of(first.b_type)));
}

template <class T>
void multiply_any(const char* name, multiply_argument<T> mine, warp_operation perform, site at) {
    collective(all_lanes, name, &mine, perform, at);
}

// ---- sparse -------------------------------------------------------------------------------------

// The position (0..3) among four columns of stored element k of a row.
template <class T>
int position(void* const* lanes, int row, int k) {
    const auto& first = *static_cast<const multiply_argument<T>*>(lanes[0]);
    const metadata_place place(bits_of(first.a_type), first.selector, row, k);
    const auto& holder = *static_cast<const multiply_argument<T>*>(lanes[place.lane]);
    return static_cast<int>(holder.metadata >> place.shift & 3);
}

template <class T>
void multiply_sparse_lanes(void* const* lanes, uint32_t) {
    const auto& first = *static_cast<const multiply_argument<T>*>(lanes[0]);
    operands<T> of;
    T stored[rows][max_depth];
    read_a(lanes, stored);
    read_b(lanes, of.b);
    const int depth = first.b_registers * 4 * (32 / bits_of(first.b_type));
    for (int row = 0; row < rows; ++row) {
        for (int k = 0; k < depth; ++k) of.a[row][k] = T{};
        for (int group = 0; group < depth / 4; ++group) {
            const int p = position<T>(lanes, row, group * 2);
            const int q = position<T>(lanes, row, group * 2 + 1);
            if (p >= q)
                fail("mma.sp::ordered_metadata: the positions " + std::to_string(p) + ", " +
                         std::to_string(q) + " of row " + std::to_string(row) + ", group " +
                         std::to_string(group) + " do not rise",
                     {"mma.sp", 0});
            of.a[row][group * 4 + p] = stored[row][group * 2];
            of.a[row][group * 4 + q] = stored[row][group * 2 + 1];
        }
    }
    add_product(lanes, of, depth);
}

// ---- 8x8 matrices -------------------------------------------------------------------------------

struct matrices_argument {
    uint32_t* registers;
    int count;
    bool transposed, store;
    uint32_t address;
    site at;
};

void move_matrices(void* const* lanes, uint32_t) {
    for (int lane = 0; lane < 32; ++lane) {
        const auto& of = *static_cast<const matrices_argument*>(lanes[lane]);
        for (int m = 0; m < of.count; ++m)
            for (int i = 0; i < 2; ++i) {
                const int row = of.transposed ? lane % 4 * 2 + i : lane / 4;
                const int col = of.transposed ? lane / 4 : lane % 4 * 2 + i;
                const auto& from = *static_cast<const matrices_argument*>(lanes[m * 8 + row]);
                auto* shared =
                    static_cast<uint8_t*>(shared_pointer(from.address, 16, 16, of.at)) + col * 2;
                auto* half = reinterpret_cast<uint8_t*>(of.registers + m) + i * 2;
                std::memcpy(of.store ? shared : half, of.store ? half : shared, 2);
            }
    }
}

struct transpose_argument {
    uint32_t in, out;
};

void transpose_lanes(void* const* lanes, uint32_t) {
    for (int lane = 0; lane < 32; ++lane) {
        auto& mine = *static_cast<transpose_argument*>(lanes[lane]);
        mine.out = 0;
        for (int i = 0; i < 2; ++i) {
            // Row lane / 4 of the result is a column of what came in.
            const int row = lane % 4 * 2 + i, col = lane / 4;
            const uint32_t word = static_cast<transpose_argument*>(lanes[row * 4 + col / 2])->in;
            mine.out |= (word >> (col % 2 * 16) & 0xffff) << (i * 16);
        }
    }
}

}  // namespace

void load_matrices(uint32_t* registers, int count, bool transposed, uint32_t address, site at) {
    matrices_argument mine{registers, count, transposed, false, address, at};
    collective(all_lanes, "ldmatrix", &mine, move_matrices, at);
}

void store_matrices(const uint32_t* registers, int count, bool transposed, uint32_t address,
                    site at) {
    matrices_argument mine{const_cast<uint32_t*>(registers), count, transposed, true, address, at};
    collective(all_lanes, "stmatrix", &mine, move_matrices, at);
}

uint32_t transpose_matrix(uint32_t fragment, site at) {
    transpose_argument mine{fragment, 0};
    collective(all_lanes, "movmatrix", &mine, transpose_lanes, at);
    return mine.out;
}

void multiply(number a_type, number b_type, int halves, int32_t* d, const uint32_t* a,
              const uint32_t* b, site at) {
    multiply_any<int32_t>("mma", {a_type, b_type, 2 * halves, halves, a, b, d, 0, 0},
                          multiply_lanes<int32_t>, at);
}
void multiply(number a_type, number b_type, int halves, float* d, const uint32_t* a,
              const uint32_t* b, site at) {
    multiply_any<float>("mma", {a_type, b_type, 2 * halves, halves, a, b, d, 0, 0},
                        multiply_lanes<float>, at);
}
void multiply_sparse(number a_type, number b_type, int32_t* d, const uint32_t* a, const uint32_t* b,
                     uint32_t metadata, int selector, site at) {
    multiply_any<int32_t>("mma.sp", {a_type, b_type, 4, 4, a, b, d, metadata, selector},
                          multiply_sparse_lanes<int32_t>, at);
}
void multiply_sparse(number a_type, number b_type, float* d, const uint32_t* a, const uint32_t* b,
                     uint32_t metadata, int selector, site at) {
    multiply_any<float>("mma.sp", {a_type, b_type, 4, 4, a, b, d, metadata, selector},
                        multiply_sparse_lanes<float>, at);
}

}  // namespace emulated
