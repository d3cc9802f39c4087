#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library exports exactly the symbols of capi/symbols.txt, each of which a public header
# declares, and needs no library beyond the system's.
#   symbols.sh LIBRARY SYMBOLS INCLUDE_DIR
set -euo pipefail
library=$1 expected=$2 include=$3
failures=0

if ! diff -u <(LC_ALL=C sort "$expected") \
    <(nm -D --defined-only "$library" | awk '$2 != "A" {sub("@.*", "", $3); print $3}' |
        LC_ALL=C sort -u); then
    echo "FAILED: exported symbols differ from $expected (- expected, + exported)"
    failures=1
fi
if ! diff -u <(LC_ALL=C sort "$expected") \
    <(cat "$include"/magicube/*.h | tr '\n' ' ' |
        grep -oE 'MAGICUBE_API [^;]*;' | grep -oE '\<magicube[A-Za-z]+(_[A-Za-z]+)? ?\(' |
        tr -d ' (' | LC_ALL=C sort -u); then
    echo "FAILED: declared functions differ from $expected (- expected, + declared)"
    failures=1
fi
# Sanitizer runtimes are there in instrumented builds only.
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^lib(stdc\+\+|gcc_s|c|m|pthread|dl|rt)\.so\.[0-9]$|^ld-linux|^lib(a|t|ub)san\.so' ||
    true)
if [ -n "$needed" ]; then
    echo "FAILED: the library needs $needed"
    failures=1
fi
[ "$failures" -eq 0 ] && echo "abi: exported symbols are as listed"
exit "$failures"
