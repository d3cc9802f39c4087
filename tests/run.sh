#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests everything that runs without a GPU; installs what a bare Debian machine lacks.
#
#   tests/run.sh           all of it
#   tests/run.sh --quick   without the sanitizer builds, the emulated device and clang-tidy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
quick=0
for argument in "$@"; do
    case "$argument" in
        --quick) quick=1 ;;
        *) echo "run.sh: unknown argument '$argument'; the only option is --quick" >&2; exit 2 ;;
    esac
done

started=$SECONDS
step() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - started)); }
# Configures if needed, and builds with a quiet log that is shown on failure.
build() { # preset, then targets
    local preset=$1
    shift
    local log=build/$preset.log
    if ! { [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"; } >"$log" 2>&1 ||
        ! cmake --build --preset "$preset" ${1:+--target "$@"} >>"$log" 2>&1; then
        cat "$log"
        exit 1
    fi
}

step "tools"
packaging/bootstrap.sh --tests

step "build: preset dev"
build dev
cmake --install build/dev >build/install.log

step "lint"
tests/lint.sh

step "C and C++ suites, headers, symbols"
ctest --preset dev

step "Python package"
packaging/install_python.sh

step "Python suites and examples"
(cd bindings/python && ../../build/venv/bin/python -m mypy)
# Which functions of the ABI the tests call is noted on the way.
build/venv/bin/python tests/packaging/parity.py run python \
    --library build/dev/install/lib/libmagicube.so -- \
    build/venv/bin/python -m pytest -c bindings/python/pyproject.toml bindings/python/tests
build/venv/bin/python tests/packaging/parity.py check python
build/venv/bin/python -m pytest -c bindings/python/pyproject.toml tests/examples

step "Documentation"
docs/build.sh

step "Packages: CMake and pkg-config, wheels, conda"
tests/packaging/run.sh

step "Rust crates"
tests/rust.sh $( ((quick)) && echo --quick)

step "Java package, suites and examples"
tests/java.sh

if ((!quick)); then
    step "clang-tidy"
    tests/lint.sh --tidy

    step "CUDA code on the emulated device"
    tests/emulation/run.sh

    for preset in asan tsan; do
        step "C and C++ suites: preset $preset"
        build $preset test_core test_capi
        ctest --preset $preset -R 'test_'
    done
fi

step "all passed"
