#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The binary interface that the public headers describe is that of magicube.abi: no function lost or
# changed, no type laid out differently; functions may be added. docs/abi.md says what may change
# and how. Exit status 77: there is no abidiff to look with.
#   abi.sh [--update] FOLDER      FOLDER: for intermediate files
# What is compared is a library of the headers alone, each declaration made a definition: the real
# one has no debug information, and its exports are held against the headers by symbols.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
update=0
if [ "${1:-}" = --update ]; then
    update=1
    shift
fi
folder=$1
if ! command -v abidiff >/dev/null; then
    echo "abi: skipped, no abidiff here"
    exit 77
fi

rm -rf "$folder"
mkdir -p "$folder/magicube"
for header in capi/include/magicube/*.h; do
    sed 's/MAGICUBE_NOEXCEPT;/{ __builtin_trap(); }/' "$header" >"$folder/magicube/${header##*/}"
done
library=$folder/libmagicube.so
IFS=. read -r major _ <VERSION
echo '#include "magicube/magicube.h"' |
    gcc -std=c11 -x c -g -O0 -fPIC -fvisibility=hidden -shared -I"$folder" \
        -Wl,-soname,"libmagicube.so.$major" -o "$library" -

baseline=tests/abi/magicube.abi
if ((update)); then
    abidw --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$baseline" "$library"
    exit
fi
if ! abidiff --no-added-syms "$baseline" "$library"; then
    echo "FAILED: the ABI differs from $baseline; docs/abi.md says what to do"
    exit 1
fi
