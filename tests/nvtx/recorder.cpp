// SPDX-License-Identifier: Apache-2.0
// What a profiler is to NVTX: a library that NVTX_INJECTION64_PATH names. It prints each range as
// it begins, and "unbalanced" where ranges do not end as they began.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>

namespace {

thread_local int open_ranges = 0;

int begin(const char* name) {
    constexpr int deepest = 4;
    std::printf("nvtx:%s\n", open_ranges < deepest ? name : "unbalanced");
    return open_ranges++;
}

int end() {
    if (open_ranges == 0) std::printf("nvtx:unbalanced\n");
    return --open_ranges;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
    const auto* callbacks =
        static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) ||
        size <= NVTX_CBID_CORE_RangePop) {
        return 0;
    }
    *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&begin);
    *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&end);
    return 1;
}
