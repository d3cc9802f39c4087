#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Conversions, plans and executions are ranges in a profiler's timeline; without a profiler nothing
# is printed or loaded.
#   ranges.sh TEST_CAPI RECORDER
set -euo pipefail
suite=$1 recorder=$2
failures=0

run() {
    "$suite" --minimal --no-skip \
        -tc="what SDDMM writes*,make one plan of each operation,the example of the format*"
}
ranges=$(NVTX_INJECTION64_PATH=$recorder run | grep '^nvtx:' || true)
expect() {
    if ! grep -qx "nvtx:$1" <<<"$ranges"; then
        echo "FAILED: no range is called '$1'"
        failures=1
    fi
}
for name in magicubeDenseToSrBcrs_fill magicubeSpMM_createPlan \
    magicubeSDDMM_createPlan magicubeSparseSoftmax_createPlan "magicube:SpMM simd" \
    "magicube:SDDMM simd" "magicube:SparseSoftmax simd"; do
    expect "$name"
done
if grep -q unbalanced <<<"$ranges"; then
    echo "FAILED: ranges do not end as they began"
    failures=1
fi
if [ -n "$(run | grep '^nvtx:' || true)" ]; then
    echo "FAILED: there are ranges without a profiler"
    failures=1
fi
[ "$failures" -eq 0 ] && echo "nvtx: $(wc -l <<<"$ranges") ranges"
exit "$failures"
