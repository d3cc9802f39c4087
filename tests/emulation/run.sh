#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the CUDA code for the emulated device and runs its suites on the CPU; README.md says what
# that shows.
#
#   tests/emulation/run.sh           what CI runs
#   tests/emulation/run.sh --long    every case, with asynchronous copies late and early, in order
#                                    and in random orders
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
long=0
for argument in "$@"; do
    case "$argument" in
        --long) long=1 ;;
        *) echo "run.sh: unknown argument '$argument'; the only option is --long" >&2; exit 2 ;;
    esac
done

log=build/emulated.log
mkdir -p build
if ! { cmake --preset emulated &&
    cmake --build --preset emulated --target test_emulation test_core test_gpu; } >"$log" 2>&1; then
    tail -n 40 "$log"
    exit 1
fi
# The installed Python package with the emulated library in place of its own.
python_suites() {
    local python=build/venv/bin/python
    export LD_LIBRARY_PATH=$PWD/build/emulated
    if ! $python -c 'import magicube' 2>/dev/null; then
        echo "emulation: the Python package is not installed (packaging/install_python.sh)"
        return
    fi
    $python -c 'import magicube as m; assert "cuda: emulated" in m.build_info(), m.build_info()'
    $python -m pytest -q -c bindings/python/pyproject.toml bindings/python/tests/test_cuda*.py
    $python docs/support_matrix.py --check
}

if ((!long)); then
    ctest --preset emulated -j 2 -R '^(test_emulation|emulated_)'
    python_suites
    exit
fi

suites=build/emulated/tests
for copies in late early mixed; do
    for seed in 0 1 2; do
        export MAGICUBE_EMULATED_COPIES=$copies MAGICUBE_EMULATED_SEED=$seed
        echo "== copies $copies, seed $seed"
        $suites/test_gpu
        $suites/test_core -sf="*/ops/*,*/formats/*,*/prune/*,*/quantize/*" -tce="*simd*"
    done
done
python_suites
