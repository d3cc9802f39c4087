#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to results: installs what is missing, builds the library and the Python
# package, runs a C program that uses the library, and prunes and quantises a real sentence encoder.
#
#   examples/quickstart.sh                  C program and encoder; plot in build/encoder.png
#   examples/quickstart.sh --matrix FILE    a Matrix Market or .smtx file instead of the encoder
#   examples/quickstart.sh [...] --json     the last result as JSON on stdout, all else on stderr
#
# Every option is handed to examples/python/encoder.py. Run it again at any time: what has not
# changed is not built again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prefix="$root/build/dev/install"
python="$root/build/venv/bin/python"

json=0
for argument in "$@"; do [ "$argument" = --json ] && json=1; done
exec 3>&1
((json)) && exec 1>&2
step() { printf '\n== %s\n' "$*"; }

step "tools"
"$root/packaging/bootstrap.sh"

step "library"
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
cd "$root"
[ -f build/dev/build.ninja ] || cmake --preset dev
cmake --build --preset dev -j "$jobs" --target magicube
cmake --install build/dev >/dev/null
echo "installed into $prefix"

step "Python package"
"$root/packaging/install_python.sh"

step "C program"
library=$(find "$prefix" -name libmagicube.so -printf '%h\n' -quit)
cc -std=c11 -O2 "$root/examples/c/spmm_quickstart.c" -o "$root/build/spmm_quickstart" \
    -I "$prefix/include" -L "$library" -Wl,-rpath,"$library" -lmagicube -lm
"$root/build/spmm_quickstart"

step "Python program"
((json)) && exec 1>&3
plot=(--plot "$root/build/encoder.png")
exec "$python" "$root/examples/python/encoder.py" "${plot[@]}" "$@"
