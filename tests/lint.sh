#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what a compiler does not: format, licence lines, lengths of lines and files, and with
# --tidy also clang-tidy on every C++ file (minutes).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failures=0

complain() {
    echo "lint: $*"
    failures=$((failures + 1))
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard |
    grep -E '\.(h|hpp|c|cpp|cu|cuh|inc|py|pyi|java|i|rs|sh|cmake|toml)$'\
'|(^|/)CMakeLists\.txt$|^\.ci/run$' |
    grep -v '^bindings/rust/magicube-sys/src/bindings.rs$' | # bindgen's
    while read -r f; do [ -f "$f" ] && echo "$f"; done)
[ "${#sources[@]}" -gt 0 ] || { complain "git lists no sources here"; exit 1; }
mapfile -t c_sources < <(printf '%s\n' "${sources[@]}" | grep -E '\.(h|hpp|c|cpp|cu|cuh)$')

clang-format --dry-run -Werror "${c_sources[@]}" || complain "clang-format -i the files above"

for file in "${sources[@]}"; do
    head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
        complain "$file: no SPDX line in its first three lines"
    length=$(wc -l <"$file")
    [ "$length" -lt 500 ] || complain "$file: $length lines; a file has fewer than 500"
done
long=$(grep -nE '^.{101,}$' "${sources[@]}" | cut -c1-120)
[ -z "$long" ] || complain "lines over 100 characters:"$'\n'"$long"
if grep -nE '[[:space:]]+$' "${sources[@]}"; then complain "trailing white space above"; fi

if [ "${1:-}" = --tidy ]; then
    database=build/dev
    [ -f $database/compile_commands.json ] || { complain "configure the preset dev first"; exit 1; }
    git ls-files --cached --others --exclude-standard 'core/*.cpp' 'capi/src/*.cpp' |
        grep -v cuda_absent |
        xargs -P "$(nproc)" -n 1 clang-tidy -p $database --quiet 2>/dev/null ||
        complain "clang-tidy"
fi

[ "$failures" -eq 0 ] && echo "lint: clean"
exit $((failures > 0))
