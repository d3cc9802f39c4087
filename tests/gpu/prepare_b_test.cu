// SPDX-License-Identifier: Apache-2.0
// What brings B into the staged kernels' form: every order, type and alignment against a plain
// loop. A source ends with its allocation, so that memcheck sees any read behind it.
#include <cuda_runtime.h>

#include <doctest/doctest.h>
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "core/ops/spmm/cuda/prepare_b.hpp"

using magicube::context;
using magicube::dense_view;
using magicube::dtype;
using magicube::order;
using magicube::storage_bits;
using magicube::storage_bytes;
using magicube::spmm::cuda::is_staged;
using magicube::spmm::cuda::prepare_b;
using magicube::spmm::cuda::shape_staged;
using magicube::spmm::cuda::staged_shape;

namespace {

constexpr dtype types[] = {dtype::int4, dtype::int8, dtype::fp16, dtype::fp32};
constexpr order orders[] = {order::row, order::col};
constexpr uint8_t poison = 0xa7;
constexpr size_t guard_bytes = 256;

class device_array {
  public:
    explicit device_array(size_t bytes) { REQUIRE(cudaMalloc(&data_, bytes) == cudaSuccess); }
    ~device_array() { cudaFree(data_); }
    device_array(const device_array&) = delete;
    device_array& operator=(const device_array&) = delete;
    uint8_t* data() const { return static_cast<uint8_t*>(data_); }

  private:
    void* data_ = nullptr;
};

dense_view make_view(dtype type, order storage, int64_t rows, int64_t cols, int64_t ld) {
    dense_view b;
    b.rows = rows;
    b.cols = cols;
    b.ld = type == dtype::int4 ? ld + ld % 2 : ld;
    b.type = type;
    b.storage = storage;
    b.read_only = true;
    return b;
}

int64_t inner_of(order storage, int64_t rows, int64_t cols) {
    return storage == order::row ? cols : rows;
}

// Bytes from the first element of the first matrix to the last of the last.
int64_t bytes_of(const dense_view& b) {
    return storage_bytes(b.type,
                         (b.batch_count - 1) * b.batch_stride + (b.outer() - 1) * b.ld + b.inner());
}

std::vector<uint8_t> random_source(const dense_view& b, std::mt19937& random) {
    std::vector<uint8_t> bytes(static_cast<size_t>(bytes_of(b)));
    for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
}

// What the target must hold.
std::vector<uint8_t> expected(const dense_view& b, const uint8_t* source) {
    const int64_t matrices = b.batch_stride == 0 ? 1 : b.batch_count;
    const staged_shape shape = shape_staged(b.type, b.rows, b.cols, matrices);
    std::vector<uint8_t> target(static_cast<size_t>(shape.bytes), 0);
    for (int64_t m = 0; m < matrices; ++m)
        for (int64_t k = 0; k < b.rows; ++k)
            for (int64_t n = 0; n < b.cols; ++n) {
                const int64_t from = b.index(m, k, n), to = (m * b.rows + k) * shape.ld + n;
                if (b.type == dtype::int4) {
                    target[to] = static_cast<uint8_t>(magicube::load_int4(source, from));
                } else {
                    std::memcpy(&target[to * shape.element_bytes],
                                source + from * shape.element_bytes, shape.element_bytes);
                }
            }
    return target;
}

std::vector<uint8_t> read(const device_array& array, size_t bytes) {
    std::vector<uint8_t> host(bytes);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(host.data(), array.data(), bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    return host;
}

context on_gpu(cudaStream_t stream = nullptr) {
    context ctx;
    ctx.device = magicube::device_kind::cuda;
    ctx.stream = stream;
    return ctx;
}

// Whether the copy of a source that starts `offset` bytes behind 256 is right, and nothing else
// was written.
bool is_prepared_right(dense_view b, int64_t offset, std::mt19937& random) {
    const std::vector<uint8_t> source = random_source(b, random), want = expected(b, source.data());
    const device_array from(offset + source.size()), to(want.size() + guard_bytes);
    REQUIRE(cudaMemcpy(from.data() + offset, source.data(), source.size(),
                       cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaMemset(to.data(), poison, want.size() + guard_bytes) == cudaSuccess);
    b.values = from.data() + offset;
    const dense_view staged = prepare_b(on_gpu(), b, to.data());
    const std::vector<uint8_t> got = read(to, want.size() + guard_bytes);
    return std::equal(want.begin(), want.end(), got.begin()) &&
           std::all_of(got.begin() + want.size(), got.end(),
                       [](uint8_t byte) { return byte == poison; }) &&
           staged.values == to.data() && is_staged(staged) && staged.rows == b.rows &&
           staged.cols == b.cols;
}

bool check_prepared(const dense_view& b, int64_t offset, std::mt19937& random) {
    if (is_prepared_right(b, offset, random)) return true;
    MESSAGE(magicube::name_of(b.type)
            << (b.storage == order::row ? " by rows, " : " by columns, ") << b.rows << " x "
            << b.cols << ", ld " << b.ld << ", offset " << offset << ", batch " << b.batch_count
            << ", stride " << b.batch_stride);
    return false;
}

}  // namespace

TEST_CASE("B is prepared from any element-aligned base and any leading dimension") {
    std::mt19937 random(41);
    for (dtype type : types)
        for (order storage : orders) {
            const int64_t step = std::max(1, storage_bits(type) / 8);
            for (int64_t offset = 0; offset < 16; offset += step)
                for (int64_t pad : {0, 1, 2, 5, 32}) {
                    const int64_t inner = inner_of(storage, 160, 544);
                    CHECK(check_prepared(make_view(type, storage, 160, 544, inner + pad), offset,
                                         random));
                }
        }
}

TEST_CASE("B is prepared at every width from 1 to 300") {
    std::mt19937 random(42);
    for (dtype type : types)
        for (order storage : orders)
            for (int64_t cols = 1; cols <= 300; ++cols) {
                const int64_t inner = inner_of(storage, 37, cols);
                CHECK(check_prepared(make_view(type, storage, 37, cols, inner), 0, random));
            }
}

TEST_CASE("B is prepared at every height from 1 to 270") {
    std::mt19937 random(43);
    for (dtype type : types)
        for (order storage : orders)
            for (int64_t rows = 1; rows <= 270; ++rows) {
                const int64_t inner = inner_of(storage, rows, 130),
                              aligned = (inner + 31) / 32 * 32;
                const dense_view b =
                    make_view(type, storage, rows, 130, rows % 2 ? inner : aligned);
                CHECK(check_prepared(b, 0, random));
            }
}

TEST_CASE("a batch of B is prepared, one by one or once if it is shared") {
    std::mt19937 random(44);
    for (dtype type : types)
        for (order storage : orders)
            for (int64_t between : {0, 2, 34, 256}) {
                dense_view b = make_view(type, storage, 133, 150, inner_of(storage, 133, 150) + 3);
                b.batch_count = 3;
                b.batch_stride = b.outer() * b.ld + between;
                if (type == dtype::int4) b.batch_stride += b.batch_stride % 2;
                CHECK(check_prepared(b, 4, random));
                b.batch_stride = 0;
                CHECK(check_prepared(b, 4, random));
            }
}

TEST_CASE("more matrices are prepared than a grid is high") {
    std::mt19937 random(45);
    for (dtype type : types)
        for (order storage : orders) {
            dense_view b = make_view(type, storage, 1, 3, inner_of(storage, 1, 3));
            b.batch_count = 65'600;
            b.batch_stride = b.outer() * b.ld;
            CHECK(check_prepared(b, 0, random));
        }
}

TEST_CASE("columns are prepared whose distances exceed 32 bits") {
    const int64_t rows = 200, cols = 4, ld = (int64_t{1} << 30) + 1;
    dense_view b = make_view(dtype::int8, order::col, rows, cols, ld);
    size_t available = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&available, &total) == cudaSuccess);
    if (available < static_cast<size_t>(bytes_of(b)) * 5 / 4) {
        MESSAGE("left out: it takes " << bytes_of(b) << " bytes of device memory");
        return;
    }
    std::mt19937 random(46);
    dense_view compact = make_view(dtype::int8, order::col, rows, cols, rows);
    const std::vector<uint8_t> source = random_source(compact, random);
    const std::vector<uint8_t> want = expected(compact, source.data());
    const device_array from(static_cast<size_t>(bytes_of(b))), to(want.size());
    for (int64_t n = 0; n < cols; ++n)
        REQUIRE(cudaMemcpy(from.data() + n * ld, source.data() + n * rows, rows,
                           cudaMemcpyHostToDevice) == cudaSuccess);
    b.values = from.data();
    prepare_b(on_gpu(), b, to.data());
    CHECK(read(to, want.size()) == want);
}

TEST_CASE("preparing B is captured and replayed with changed values") {
    std::mt19937 random(47);
    for (order storage : orders) {
        dense_view b = make_view(dtype::int4, storage, 150, 170, 190);
        const std::vector<uint8_t> first = random_source(b, random),
                                   then = random_source(b, random);
        const std::vector<uint8_t> want = expected(b, then.data());
        REQUIRE(want != expected(b, first.data()));
        const device_array from(first.size()), to(want.size());
        REQUIRE(cudaMemcpy(from.data(), first.data(), first.size(), cudaMemcpyHostToDevice) ==
                cudaSuccess);
        b.values = from.data();
        cudaStream_t stream = nullptr;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
        REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
        prepare_b(on_gpu(stream), b, to.data());
        REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
        REQUIRE(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);
        REQUIRE(cudaGraphLaunch(replay, stream) == cudaSuccess);
        CHECK(read(to, want.size()) == expected(b, first.data()));
        REQUIRE(cudaMemcpy(from.data(), then.data(), then.size(), cudaMemcpyHostToDevice) ==
                cudaSuccess);
        REQUIRE(cudaGraphLaunch(replay, stream) == cudaSuccess);
        CHECK(read(to, want.size()) == want);
        cudaGraphExecDestroy(replay);
        cudaGraphDestroy(graph);
        cudaStreamDestroy(stream);
    }
}

TEST_CASE("an empty B needs no launch") {
    for (dtype type : types)
        for (order storage : orders) {
            const dense_view b = make_view(type, storage, 5, 0, 6);
            const dense_view staged = prepare_b(on_gpu(), b, nullptr);
            CHECK(staged.cols == 0);
            CHECK(cudaDeviceSynchronize() == cudaSuccess);
        }
}

TEST_CASE("which B need no preparation, and the shape of what is prepared") {
    alignas(16) static uint8_t bytes[32];
    dense_view b = make_view(dtype::int8, order::row, 4, 10, 16);
    b.values = bytes;
    CHECK(is_staged(b));
    b.values = bytes + 1;
    CHECK_FALSE(is_staged(b));
    b.values = bytes;
    b.ld = 15;
    CHECK_FALSE(is_staged(b));
    b.ld = 16;
    b.storage = order::col;
    CHECK_FALSE(is_staged(b));
    b.storage = order::row;
    b.batch_stride = 65;
    CHECK_FALSE(is_staged(b));
    b.batch_stride = 0;
    b.type = dtype::int4;
    CHECK_FALSE(is_staged(b));
    b.type = dtype::fp32;
    b.ld = 4;
    CHECK(is_staged(b));

    CHECK(shape_staged(dtype::int4, 3, 129, 1).ld == 256);
    CHECK(shape_staged(dtype::fp16, 3, 65, 2).ld == 128);
    CHECK(shape_staged(dtype::fp16, 3, 65, 2).batch_stride == 3 * 128);
    CHECK(shape_staged(dtype::fp32, 3, 33, 2).ld == 64);
    CHECK(shape_staged(dtype::fp32, 3, 33, 2).bytes == 2 * 3 * 64 * 4);
}
