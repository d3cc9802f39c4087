#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes magicube-sys/src/bindings.rs from the headers of this checkout; needs libclang.
#   generate.sh           writes it
#   generate.sh --check   fails if it is not what the headers give
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../.. && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/build/rust}
export MAGICUBE_INCLUDE=$root/capi/include
mkdir -p "$CARGO_TARGET_DIR"
made=$CARGO_TARGET_DIR/bindings.rs
MAGICUBE_BINDINGS_COPY=$made cargo build -q --locked -p magicube-sys --features generate-bindings
if [ "${1:-}" = --check ]; then
    diff -u magicube-sys/src/bindings.rs "$made" >&2 || {
        echo "generate.sh: the bindings are not the headers'; run bindings/rust/generate.sh" >&2
        exit 1
    }
else
    cp "$made" magicube-sys/src/bindings.rs
fi
