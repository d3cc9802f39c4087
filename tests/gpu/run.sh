#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library and the suites on a machine with a GPU and nvcc, and runs those that use the
# GPU: plain, and under compute-sanitizer's memcheck and racecheck. The results worth keeping go to
# tests/gpu/RESULTS.md. Without a GPU tests/emulation/run.sh runs the same cases, which shows wrong
# results but neither time nor races.
#
#   tests/gpu/run.sh [--no-sanitizer]
#
# DOCTEST_INCLUDE names the folder that holds doctest/doctest.h where the system has none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
sanitizer=1
[ "${1:-}" = --no-sanitizer ] && sanitizer=0

nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
nvcc --version | tail -n 2 | head -n 1
build=build/gpu
mkdir -p build
if ! { cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DMAGICUBE_CUDA=ON \
    -DMAGICUBE_CUDA_ARCHITECTURES=90a-real \
    ${DOCTEST_INCLUDE:+-DMAGICUBE_DOCTEST_INCLUDE="$DOCTEST_INCLUDE"} &&
    cmake --build $build; } >$build.log 2>&1; then
    tail -n 40 $build.log
    exit 1
fi

echo "== test_gpu"
$build/tests/test_gpu
# The models of the operations run every implementation of the lists, those of CUDA among them; the
# suites of conversions, pruning and quantisation run on every device.
echo "== test_core, operations and conversions"
$build/tests/test_core -sf="*/ops/*,*/formats/*,*/prune/*,*/quantize/*"
if ((sanitizer)); then
    for tool in memcheck racecheck; do
        echo "== compute-sanitizer --tool $tool"
        compute-sanitizer --tool $tool --error-exitcode 1 $build/tests/test_core --no-breaks \
            -sf="*/ops/spmm*,*/ops/sddmm*,*/ops/softmax*,*/ops/attention*" | tail -n 6
    done
    echo "== compute-sanitizer --tool memcheck, conversions"
    compute-sanitizer --tool memcheck --error-exitcode 1 $build/tests/test_core --no-breaks \
        -sf="*/formats/*,*/prune/*,*/quantize/*" -tce="large*,*every V*" | tail -n 6
    echo "== compute-sanitizer --tool memcheck, test_gpu"
    compute-sanitizer --tool memcheck --error-exitcode 1 $build/tests/test_gpu --no-breaks \
        -tce="too much memory*,a host pointer*,waiting for a stream*,conversions refuse*,\
*belong to their device,*pointer of another GPU*,issue_05*" | tail -n 6
fi
