#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Python package into build/venv against the library in build/dev/install, unless what
# is there was installed from the same sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamp=build/venv/.installed-magicube
state=$( (find bindings/python -type f -not -path '*/__pycache__/*' -not -path '*/tests/*' -print0 |
    sort -z | xargs -0 sha256sum
    sha256sum VERSION capi/include/magicube/*.h) | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then exit 0; fi
echo "install_python: building the extension"
build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
    --no-deps ./bindings/python -Cbuild-dir="$PWD/build/python" \
    -Ccmake.define.magicube_ROOT="$PWD/build/dev/install"
echo "$state" >"$stamp"
