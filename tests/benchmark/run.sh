#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times SpMM and products of V:N:M on this machine's GPU against the dense and sparse libraries
# found here, and prints the Markdown for tests/benchmark/RESULTS.md: under each heading the command
# and its table.
#
#   tests/benchmark/run.sh [REGEX]        only the headings that match
#
# MAGICUBE_BENCH           the program; built in build/gpu if unset
# MAGICUBE_BENCH_SECONDS   time for each side in each of three rounds (0.5)
# MAGICUBE_BENCH_LIBRARY_PATH   folders of cuBLASLt, cuSPARSE and cuSPARSELt; if unset, those of
#                               Python's wheels
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
wanted=${1:-.}
seconds=${MAGICUBE_BENCH_SECONDS:-0.5}

if [ -z "${MAGICUBE_BENCH:-}" ]; then
    build=build/gpu
    cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DMAGICUBE_CUDA=ON \
        -DMAGICUBE_CUDA_ARCHITECTURES=90a-real -DMAGICUBE_BUILD_TESTS=OFF \
        -DMAGICUBE_BUILD_BENCHMARK=ON >$build.log 2>&1 &&
        cmake --build $build --target magicube-bench >>$build.log 2>&1 ||
        { tail -n 40 $build.log >&2; exit 1; }
    MAGICUBE_BENCH=$build/tests/benchmark/magicube-bench
fi
if [ -z "${MAGICUBE_BENCH_LIBRARY_PATH:-}" ]; then
    MAGICUBE_BENCH_LIBRARY_PATH=$(python3 -c '
import glob, nvidia
print(":".join(lib for root in nvidia.__path__ for lib in glob.glob(root + "/*/lib")))' 2>/dev/null)
    export MAGICUBE_BENCH_LIBRARY_PATH
fi

failures=0
operation=spmm
table() { # heading, then options
    local heading=$1
    shift
    [[ $heading =~ $wanted ]] || return 0
    printf '\n### %s\n`magicube-bench %s %s`\n\n' "$heading" "$operation" "$*"
    "$MAGICUBE_BENCH" "$operation" "$@" --seconds "$seconds" --markdown ||
        failures=$((failures + 1))
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
dense="--peers=cuBLASLt"
table "Square, int32" --sparsity 0.9,0.95,0.8 $dense
table "Square, fp16 with scales" --sparsity 0.9,0.95,0.8 --out fp16 --scales $dense
table "K = 1024" --k 1024 $dense
table "N = 512" --n 512 $dense
table "Small, fp16 out" --m 2048 --k 2048 --n 256 --out fp16 $dense
table "Longer vectors" --vector-length 16,32,64 $dense
table "V = 4" --vector-length 4 --sparsity 0.95 $dense
table "Decode, cold" --m 28672 --k 8192 --n 1,8,16 --sparsity 0.8 --out fp16 --scales --cold \
    --peers=cuBLASLt-fp16
table "Small decode, cold" --n 1,8,16 --out fp16 --scales --cold --peers=cuBLASLt-fp16
table "fp16" --lhs fp16 --rhs fp16 --out fp16 $dense
table "L16-R8" --lhs int16 --baseline
table "L8-R4" --rhs int4 --baseline
table "L4-R4" --lhs int4 --rhs int4 --baseline
table "e4m3" --lhs e4m3 --rhs e4m3 --out fp32 --baseline
table "Column-major" --b-order col --c-order col --baseline
table "Tails, ld a multiple of 16" --m 4093 --k 4093 --n 4093 --ld-padding 3 --baseline
table "Tails, ld a multiple of 1" --m 4093 --k 4093 --n 4093 --baseline
table "Log-normal rows" --pattern lognormal --baseline
table "Sparse libraries" --m 2048 --k 2048 --n 1024 --sparsity 0.7,0.9 --peers
operation=vnm
table "V:N:M, fp16" --group 8,16,40 --peers=cuBLASLt-fp16
table "V:N:M, fp16, 1024 rows" --m 1024 --group 8,16,40 --peers=cuBLASLt-fp16
table "V:N:M, fp16, shorter vectors" --vector-length 64,32 --group 8
table "V:N:M, int8" --type int8 --group 8,16 --peers=cuBLASLt-int8
table "Plain 2:4, fp16" --group 4 --peers=cuSPARSELt
table "Plain 2:4, int8" --type int8 --group 4 --peers=cuSPARSELt
table "V:N:M, decode, cold" --m 28672 --k 8192 --n 16 --cold --peers=cuBLASLt-fp16
exit $((failures > 0))
