#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the packages from what is built already, and uses each in a clean place: the installed
# library by CMake and pkg-config, moved elsewhere; the wheels in an empty environment; the conda
# packages in an empty prefix. Rust's and Java's packages are tests/rust.sh's and tests/java.sh's;
# their sizes are looked at here where they are built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
python=$root/build/venv/bin/python
here=$root/tests/packaging
version=$(cut -d' ' -f1 VERSION)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'packaging: %s\n' "$*"; }
fail() { printf 'packaging: %s\n' "$*" >&2; exit 1; }
quietly() { # command: shows what it said if it fails
    "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }
}

# issue_15: no package grows, and no library is needed, unnoticed. Megabytes; with sm_80 and sm_90a.
at_most() { # megabytes file
    local bytes
    bytes=$(stat -c %s "$2")
    ((bytes <= $1 * 1000000)) || fail "$(basename "$2") has $bytes bytes; $1 MB are allowed"
}
needs_only() { # file, pattern of what it may need
    local name
    while read -r name; do
        [[ $name =~ ^($2)$ ]] || fail "$1 needs $name"
    done < <(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
}
system='lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so\.[0-9]+|ld-linux-.*'

# Runs both programs of a build folder: the version, and nothing on stderr (issue_16).
run_programs() { # folder
    local program said
    for program in product_c product_cpp; do
        said=$("$1/$program" 2>"$work/err") || { cat "$work/err" >&2; fail "$program failed"; }
        [ "$said" = "$version" ] || fail "$program says version '$said', VERSION says '$version'"
        [ ! -s "$work/err" ] || fail "$program wrote to stderr: $(cat "$work/err")"
    done
}
by_cmake() { # prefix
    quietly cmake -S "$here/consumers" -B "$work/by_cmake" -DCMAKE_PREFIX_PATH="$1" \
        -DREQUESTED="$version" --fresh
    quietly cmake --build "$work/by_cmake"
    run_programs "$work/by_cmake"
}
by_pkg_config() { # folder of magicube.pc
    local flags
    export PKG_CONFIG_PATH=$1
    [ "$(pkg-config --modversion magicube)" = "$version" ] || fail "$1 has another version"
    read -ra flags <<<"$(pkg-config --cflags --libs magicube)"
    flags+=("-Wl,-rpath,$(pkg-config --variable=libdir magicube)")
    mkdir -p "$work/by_pkg_config"
    gcc -std=c11 "$here/consumers/product.c" "${flags[@]}" -o "$work/by_pkg_config/product_c"
    g++ -std=c++17 "$here/consumers/product.cpp" "${flags[@]}" -o "$work/by_pkg_config/product_cpp"
    run_programs "$work/by_pkg_config"
    unset PKG_CONFIG_PATH
}

say "installed library, in another folder than it was installed to"
cp -a build/dev/install "$work/prefix"
needs_only "$work/prefix/lib/libmagicube.so" "$system"
by_cmake "$work/prefix"
by_pkg_config "$work/prefix/lib/pkgconfig"
if cmake -S "$here/consumers" -B "$work/other" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DREQUESTED=99.0 >"$work/log" 2>&1; then
    fail "find_package(magicube 99.0) took version $version"
fi
grep -q 'requested version "99.0"' "$work/log" || fail "no word of the version: $(cat "$work/log")"
rm -rf "$work/prefix"

say "wheels"
quietly packaging/wheels.sh build/dev/install "$work/wheels"
library_wheel=$(echo "$work"/wheels/libmagicube-"$version"-py3-none-manylinux*.whl)
wheel=$(echo "$work"/wheels/magicube-"$version"-cp*-manylinux*.whl)
at_most 16 "$library_wheel"
at_most 2 "$wheel"
"$python" -m venv "$work/empty"
fresh=$work/empty/bin/python
quietly "$fresh" -m pip install --disable-pip-version-check --find-links "$work/wheels" \
    magicube=="$version"
native=$(echo "$work"/empty/lib/python*/site-packages/magicube/_native*.so)
needs_only "$native" "$system|libmagicube\.so\.0"
(cd "$work" && "$fresh" "$here/installed.py" "$version" --without-scipy)
by_pkg_config "$("$fresh" -m libmagicube)"
# SciPy need not be loaded anew: the tests' environment has it.
echo "$("$python" -c 'import scipy, pathlib; print(pathlib.Path(scipy.__file__).parents[1])')" \
    >"$(echo "$work"/empty/lib/python*/site-packages)/tests.pth"
(cd "$work" && "$fresh" "$here/installed.py" "$version")

say "conda packages"
quietly "$python" packaging/conda/build.py --cuda build/dev/install --wheel "$wheel" \
    --out "$work/conda"
for variant in cpu cuda; do
    package=$work/conda/linux-64/libmagicube-$version-${variant}_0.conda
    at_most 16 "$package"
    "$python" "$here/conda.py" unpack "$package" "$work/$variant"
    "$python" "$here/conda.py" depends "$package" __cuda >"$work/depends"
    [ "$(cat "$work/depends")" = "$([ $variant = cuda ] && echo yes || echo no)" ] ||
        fail "the package for $variant depends on __cuda: $(cat "$work/depends")"
    by_cmake "$work/$variant"
done
"$python" "$here/conda.py" unpack "$(echo "$work"/conda/linux-64/magicube-"$version"-py*.conda)" \
    "$work/cpu"
(cd "$work" && PYTHONPATH=$(echo "$work"/cpu/lib/python*/site-packages) \
    "$python" -S "$here/installed.py" "$version" --without-scipy \
    --site "$(echo "$work"/empty/lib/python*/site-packages)")

for package in bindings/rust/target/package/*-"$version".crate \
    bindings/java/target/*-"$version"*.jar; do
    [ ! -f "$package" ] || at_most 16 "$package"
done
say "all right"
