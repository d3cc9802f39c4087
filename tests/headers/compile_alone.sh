#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone, without a warning, as C99, C11 and C++17, and its INIT macros
# do too.
#   compile_alone.sh CC CXX INCLUDE_DIR
set -euo pipefail
cc=$1 cxx=$2 include=$3
warnings=(-Wall -Wextra -pedantic -Werror)
failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

check() { # description, then a compiler command
    local what=$1
    shift
    if ! "$@"; then
        echo "FAILED: $what"
        failures=$((failures + 1))
    fi
}

for header in "$include"/magicube/*.h; do
    name=magicube/$(basename "$header")
    # Every struct of the header is made with its INIT macro, as a user would.
    {
        printf '#include "%s"\n' "$name"
        sed -n 's/^#define \(MAGICUBE_[A-Z0-9_]*_INIT\)\( .*\|$\)/\1/p' "$header" |
            while read -r macro; do
            type=$(awk -v m="$macro" '/^} magicube/ {t = $2; sub(";", "", t)}
                                      $0 ~ "^#define " m "( |$)" {print t; exit}' "$header")
            printf 'extern %s use_%s(void);\n%s use_%s(void) { %s value = %s; return value; }\n' \
                "$type" "$macro" "$type" "$macro" "$type" "$macro"
        done
        printf 'extern int unused_%s(void);\nint unused_%s(void) { return 0; }\n' \
            "$(basename "$header" .h)" "$(basename "$header" .h)"
    } >"$scratch/use.c"
    cp "$scratch/use.c" "$scratch/use.cpp"
    for standard in c99 c11; do
        check "$name as $standard" "$cc" -std=$standard "${warnings[@]}" -Wstrict-prototypes \
            -I"$include" -c "$scratch/use.c" -o "$scratch/use.o"
    done
    check "$name as c++17" "$cxx" -std=c++17 "${warnings[@]}" -I"$include" \
        -c "$scratch/use.cpp" -o "$scratch/use.o"
done

# issue_11: nothing whose size differs between platforms in a public header, comments aside.
for header in "$include"/magicube/*.h; do
    if "$cc" -fpreprocessed -dD -E -P -w "$header" 2>/dev/null |
        grep -wE 'long|wchar_t|time_t|off_t|va_list'; then
        echo "FAILED: issue_11: $header uses a type whose size depends on the platform"
        failures=$((failures + 1))
    fi
done
[ "$failures" -eq 0 ] && echo "headers: all compile alone"
exit $((failures > 0))
