// SPDX-License-Identifier: Apache-2.0
// Pruning, conversion and quantisation on a GPU through the C ABI, against the CPU. What concerns
// types, layouts and tails is in tests/core, whose suites run on every device that is there.
#include <cuda_runtime.h>

#include <memory>

#include "gpu/gpu.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr int64_t m = 77;
constexpr int64_t k = 301;
constexpr int64_t block_rows = (m + 7) / 8;

// Memory of a handle's device, filled with a byte.
class memory {
  public:
    memory(magicubeHandle_t handle, size_t bytes) : handle_(handle), bytes_(bytes) {
        REQUIRE_OK(magicubeGetDevice(handle, &device_, &ordinal_));
        REQUIRE_OK(magicubeMalloc(device_, ordinal_, bytes, &data_));
        if (bytes > 0) REQUIRE_OK(magicubeMemset(handle, data_, 0xff, bytes));
    }
    ~memory() { magicubeFree(device_, ordinal_, data_); }
    memory(const memory&) = delete;
    memory& operator=(const memory&) = delete;
    template <class T = void>
    T* data() const {
        return static_cast<T*>(data_);
    }
    size_t size() const { return bytes_; }
    void write(const void* host) {
        REQUIRE_OK(magicubeMemcpy(handle_, data_, host, bytes_));
        REQUIRE_OK(magicubeSynchronize(handle_));
    }
    std::vector<unsigned char> read() const {
        std::vector<unsigned char> host(bytes_);
        if (bytes_ > 0) REQUIRE_OK(magicubeMemcpy(handle_, host.data(), data_, bytes_));
        REQUIRE_OK(magicubeSynchronize(handle_));
        return host;
    }

  private:
    magicubeHandle_t handle_;
    magicubeDevice_t device_{};
    int32_t ordinal_ = 0;
    void* data_ = nullptr;
    size_t bytes_;
};

std::vector<float> random_weights(uint64_t seed) {
    generator random(seed);
    std::vector<float> weights(m * k);
    for (float& w : weights) w = static_cast<float>(random_value(random, kind::fp32));
    return weights;
}

// A weight that is pruned, converted there and back, and quantised, on one device.
struct chain {
    magicubeHandle_t handle;
    memory weight, mask, begin, end, dense, integers, scales;
    dn_mat weight_matrix, mask_matrix, dense_matrix, integer_matrix;
    magicubePruneParams_t pruning = MAGICUBE_PRUNE_PARAMS_INIT;
    magicubeQuantizeParams_t quantizing = MAGICUBE_QUANTIZE_PARAMS_INIT;
    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    std::vector<std::unique_ptr<memory>> filled;
    std::unique_ptr<memory> prune_scratch, quantize_scratch;

    explicit chain(magicubeHandle_t h)
        : handle(h),
          weight(h, m * k * 4),
          mask(h, m * k),
          begin(h, block_rows * 8),
          end(h, block_rows * 8),
          dense(h, m * k * 4),
          integers(h, m * k),
          scales(h, m * 4),
          weight_matrix(m, k, k, weight.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW),
          mask_matrix(m, k, k, mask.data(), MAGICUBE_UINT8, MAGICUBE_ORDER_ROW),
          dense_matrix(m, k, k, dense.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW),
          integer_matrix(m, k, m, integers.data(), MAGICUBE_INT8, MAGICUBE_ORDER_COL) {
        pruning.keep = 700;
        quantizing.granularity = MAGICUBE_GRANULARITY_ROW;
        quantizing.calibration = MAGICUBE_CALIBRATION_PERCENTILE;
        quantizing.percentile = 99;
        arrays.vector_length = 8;
        arrays.row_begin = begin.data();
        arrays.row_end = end.data();
        size_t bytes = 0;
        REQUIRE_OK(magicubePrune_bufferSize(handle, weight_matrix, &pruning, &bytes));
        prune_scratch = std::make_unique<memory>(handle, bytes);
        REQUIRE_OK(
            magicubeQuantize_bufferSize(handle, dense_matrix, &quantizing, integer_matrix, &bytes));
        quantize_scratch = std::make_unique<memory>(handle, bytes);
    }

    magicubeStatus_t prune() {
        return magicubePrune(handle, weight_matrix, &pruning, mask_matrix, prune_scratch->data(),
                             prune_scratch->size());
    }
    magicubeStatus_t count() {
        return magicubeDenseToSrBcrs_count(handle, weight_matrix, mask_matrix, &arrays,
                                           &arrays.slots, nullptr, 0);
    }
    void allocate() {
        const auto bytes = static_cast<size_t>(arrays.slots);
        for (const size_t each : {4, 8 * 4, 1})
            filled.push_back(std::make_unique<memory>(handle, bytes * each));
        arrays.col_indices = filled[0]->data<int32_t>();
        arrays.values = filled[1]->data();
        arrays.element_mask = filled[2]->data<uint8_t>();
    }
    // What does not wait for the stream.
    void rest() {
        REQUIRE_OK(
            magicubeDenseToSrBcrs_fill(handle, weight_matrix, mask_matrix, &arrays, nullptr, 0));
        magicubeSpMatDescr_t made = nullptr;
        REQUIRE_OK(magicubeCreateSrBcrs(&made, m, k, 8, 16, arrays.slots, begin.data(), end.data(),
                                        arrays.col_indices, arrays.values, MAGICUBE_INDEX_64,
                                        MAGICUBE_FP32));
        const sp_mat sparse(made);
        REQUIRE_OK(magicubeSrBcrsSetElementMask(sparse, arrays.element_mask));
        REQUIRE_OK(magicubeSparseToDense(handle, sparse, dense_matrix));
        REQUIRE_OK(magicubeQuantize(handle, dense_matrix, &quantizing, integer_matrix,
                                    scales.data<float>(), quantize_scratch->data(),
                                    quantize_scratch->size()));
    }
    void all(const std::vector<float>& weights) {
        weight.write(weights.data());
        REQUIRE_OK(prune());
        REQUIRE_OK(count());
        allocate();
        rest();
    }
    std::vector<std::vector<unsigned char>> results() const {
        std::vector<std::vector<unsigned char>> found{mask.read(), begin.read(), end.read()};
        for (const auto& array : filled) found.push_back(array->read());
        found.insert(found.end(), {dense.read(), integers.read(), scales.read()});
        return found;
    }
};

struct gpu_stream {
    CUstream_st* value = nullptr;
    gpu_stream() { REQUIRE_OK(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, 0, &value)); }
    ~gpu_stream() { magicubeStreamDestroy(MAGICUBE_DEVICE_CUDA, 0, value); }
    gpu_stream(const gpu_stream&) = delete;
    gpu_stream& operator=(const gpu_stream&) = delete;
};

}  // namespace

TEST_CASE("a weight is pruned, converted and quantised on a GPU as on the CPU") {
    const auto weights = random_weights(1);
    const cpu_handle cpu;
    chain wanted(cpu);
    wanted.all(weights);
    const gpu_stream stream;
    const cuda_handle gpu;
    for (auto* used : {static_cast<CUstream_st*>(nullptr), stream.value}) {
        REQUIRE_OK(magicubeSetStream(gpu, used));
        chain found(gpu);
        found.all(weights);
        CHECK(found.results() == wanted.results());
    }
}

TEST_CASE("issue_07 pruning, filling and quantising are captured; counting is refused") {
    const cuda_handle gpu;
    const gpu_stream stream;
    REQUIRE_OK(magicubeSetStream(gpu, stream.value));
    chain found(gpu);
    found.all(random_weights(2));
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream.value, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(found.count() == MAGICUBE_STATUS_CAPTURING);
    found.rest();
    REQUIRE(cudaStreamEndCapture(stream.value, &graph) == cudaSuccess);
    cudaGraphExec_t replay = nullptr;
    REQUIRE(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);

    // Other values of the same pattern.
    auto weights = random_weights(2);
    for (float& w : weights) w *= -0.5f;
    const cpu_handle cpu;
    chain wanted(cpu);
    wanted.all(weights);
    found.weight.write(weights.data());
    REQUIRE(cudaGraphLaunch(replay, stream.value) == cudaSuccess);
    CHECK(found.results() == wanted.results());
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);

    REQUIRE(cudaStreamBeginCapture(stream.value, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE_OK(found.prune());
    REQUIRE(cudaStreamEndCapture(stream.value, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);
    weights = random_weights(3);
    REQUIRE_OK(magicubeMemcpy(cpu, wanted.weight.data(), weights.data(), wanted.weight.size()));
    REQUIRE_OK(wanted.prune());
    found.weight.write(weights.data());
    REQUIRE(cudaGraphLaunch(replay, stream.value) == cudaSuccess);
    CHECK(found.mask.read() == wanted.mask.read());
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
}

TEST_CASE("conversions refuse host memory on a CUDA handle") {
    const cuda_handle gpu;
    chain x(gpu);
    x.all(random_weights(4));
    std::vector<unsigned char> host(m * k * 4);
    const auto refused = [&](magicubeStatus_t status, const char* argument) {
        return status == MAGICUBE_STATUS_DEVICE_MISMATCH && message_has(argument) &&
               message_has("points at host memory");
    };
    const dn_mat weight(m, k, k, host.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    const dn_mat mask(m, k, k, host.data(), MAGICUBE_UINT8, MAGICUBE_ORDER_ROW);
    void* scratch = x.prune_scratch->data();
    const size_t bytes = x.prune_scratch->size();
    CHECK(refused(magicubePrune(gpu, weight, &x.pruning, x.mask_matrix, scratch, bytes), "weight"));
    CHECK(refused(magicubePrune(gpu, x.weight_matrix, &x.pruning, mask, scratch, bytes), "mask"));
    std::vector<unsigned char> host_scratch(bytes + 16);
    auto* aligned =
        host_scratch.data() + (16 - reinterpret_cast<uintptr_t>(host_scratch.data()) % 16);
    CHECK(refused(magicubePrune(gpu, x.weight_matrix, &x.pruning, x.mask_matrix, aligned, bytes),
                  "workspace"));
    auto arrays = x.arrays;
    int64_t slots = 0;
    CHECK(refused(magicubeDenseToSrBcrs_count(gpu, weight, nullptr, &arrays, &slots, nullptr, 0),
                  "dense"));
    arrays.row_end = host.data();
    CHECK(refused(
        magicubeDenseToSrBcrs_count(gpu, x.weight_matrix, nullptr, &arrays, &slots, nullptr, 0),
        "arrays->row_end"));
    arrays = x.arrays;
    arrays.values = host.data();
    CHECK(refused(magicubeDenseToSrBcrs_fill(gpu, x.weight_matrix, nullptr, &arrays, nullptr, 0),
                  "arrays->values"));
    CHECK(refused(magicubeQuantize(gpu, x.dense_matrix, &x.quantizing, x.integer_matrix,
                                   reinterpret_cast<float*>(host.data()),
                                   x.quantize_scratch->data(), x.quantize_scratch->size()),
                  "scales"));
}

TEST_CASE("full validation looks at index arrays on a GPU, and only then") {
    const cuda_handle gpu;
    std::vector<int64_t> offsets{0, 2, 3};
    std::vector<int32_t> columns{1, 4, 9};  // the last is out of range
    const device_bytes device_offsets(gpu, offsets), device_columns(gpu, columns);
    magicubeSpMatDescr_t made = nullptr;
    REQUIRE_OK(magicubeCreateCsr(&made, 2, 9, 3, device_offsets.data(),
                                 static_cast<const int32_t*>(device_columns.data()), nullptr,
                                 MAGICUBE_INDEX_64, MAGICUBE_INT8));
    const sp_mat csr(made);
    CHECK(magicubeSpMatValidate(gpu, csr) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("matrix: col_indices[2] is 9; it must be at least 0 and below 9"));
    memory begin(gpu, 8), end(gpu, 8);
    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    arrays.vector_length = 2;
    arrays.value_type = MAGICUBE_INT8;
    arrays.row_begin = begin.data();
    arrays.row_end = end.data();
    int64_t slots = 0;
    CHECK(magicubeSparseToSrBcrs_count(gpu, csr, &arrays, &slots, nullptr, 0) ==
          MAGICUBE_STATUS_SUCCESS);
    REQUIRE_OK(magicubeSetValidation(gpu, MAGICUBE_VALIDATION_FULL));
    CHECK(magicubeSparseToSrBcrs_count(gpu, csr, &arrays, &slots, nullptr, 0) ==
          MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("source: col_indices[2] is 9"));
}
