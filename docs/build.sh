#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation into build/docs/html; a warning is an error. The Python package has to be
# installed (packaging/install_python.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build/docs/html/c
{
    cat docs/Doxyfile
    echo "PROJECT_NUMBER = $(cat VERSION)"
    echo "OUTPUT_DIRECTORY = build/docs/html/c"
} | doxygen - >build/docs/doxygen.log 2>&1 || { cat build/docs/doxygen.log >&2; exit 1; }
build/venv/bin/python -m sphinx -q -W --keep-going -b html docs build/docs/html
