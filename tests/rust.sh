#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the Rust crates against an installed library, and packs them.
#
#   tests/rust.sh           all of it
#   tests/rust.sh --quick   without valgrind
#
# MAGICUBE_PREFIX names the installation, build/dev/install otherwise.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
quick=0
[ "${1:-}" = --quick ] && quick=1
export MAGICUBE_PREFIX=${MAGICUBE_PREFIX:-$root/build/dev/install}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/build/rust}
export RUST_BACKTRACE=0
library=$(ls "$MAGICUBE_PREFIX"/lib*/libmagicube.so)
python=python3
[ -x build/venv/bin/python ] && python=build/venv/bin/python
features=(--features "half ndarray")
crates=bindings/rust
say() { printf 'rust: %s\n' "$*"; }
in_crates() { (cd "$crates" && "$@"); }

say "$(cargo --version), $(rustc --version)"
grep -q "^version = \"$(cat VERSION)\"" $crates/Cargo.toml ||
    { say "the version in $crates/Cargo.toml is not $(cat VERSION)"; exit 1; }

issue_11_bindings_are_those_of_the_headers_and_of_no_platform() {
    $crates/generate.sh --check
    # Types whose size is a platform's own.
    ! grep -nE 'c_u?long\b|c_schar|wchar_t|FILE' $crates/magicube-sys/src/bindings.rs
}

issue_12_documentation_builds_without_the_library() {
    env -u MAGICUBE_PREFIX PKG_CONFIG_LIBDIR=/nonexistent RUSTDOCFLAGS="-D warnings" \
        CARGO_TARGET_DIR="$CARGO_TARGET_DIR/doc-only" \
        cargo doc -q --manifest-path $crates/Cargo.toml --locked --offline --no-deps \
        --features "magicube/doc-only magicube/half magicube/ndarray"
}

# README.md's program, in a project of its own that depends on the packed crates.
a_new_user_gets_a_right_product() {
    local folder=$CARGO_TARGET_DIR/new-user version
    version=$(cat VERSION)
    rm -rf "$folder" && mkdir -p "$folder"
    for crate in magicube-sys magicube; do
        # -m: built anew even if the last run's files are as old.
        tar -xzmf "$CARGO_TARGET_DIR/package/$crate-$version.crate" -C "$folder"
    done
    (
        cd "$folder"
        cargo init -q --name new_user --vcs none program
        cd program
        # Until the crates are published: what the packed one depends on.
        printf '[patch.crates-io]\nmagicube-sys = { path = "../magicube-sys-%s" }\n' "$version" \
            >>Cargo.toml
        cargo add -q --offline --path "../magicube-$version"
        awk '/^```rust$/ {on = 1; next} /^```$/ {on = 0} on' "$root/README.md" >src/main.rs
        CARGO_TARGET_DIR=$CARGO_TARGET_DIR/new-user-target cargo run -q --offline
    )
}

say "bindings"
in_crates cargo fetch -q --locked
issue_11_bindings_are_those_of_the_headers_and_of_no_platform
if cargo fmt --version >/dev/null 2>&1; then in_crates cargo fmt --check; fi

say "clippy"
in_crates cargo clippy -q --locked --all-targets "${features[@]}" -- -D warnings

say "tests"
in_crates cargo test -q --locked --no-run --tests "${features[@]}"
$python tests/packaging/parity.py run rust --library "$library" -- \
    cargo test --manifest-path $crates/Cargo.toml --locked --tests "${features[@]}"
in_crates cargo test -q --locked --doc "${features[@]}"
$python tests/packaging/parity.py check rust

say "examples"
for example in spmm attention; do in_crates cargo run -q --locked --example $example; done
in_crates cargo run -q --locked --release --example overhead

say "documentation"
issue_12_documentation_builds_without_the_library

say "packages"
# Not verified by Cargo, which may build on what an earlier run packed under the same version; the
# new user below builds both.
in_crates cargo package -q --locked --allow-dirty --workspace --no-verify
for crate in magicube-sys magicube; do
    size=$(stat -c %s "$CARGO_TARGET_DIR/package/$crate-$(cat VERSION).crate")
    [ "$size" -lt 200000 ] || { say "$crate takes $size bytes, 200,000 is the limit"; exit 1; }
done
a_new_user_gets_a_right_product

if ((!quick)); then
    say "tests under valgrind"
    triple=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
    export "CARGO_TARGET_${triple}_RUNNER=valgrind -q --error-exitcode=9 --leak-check=full \
--errors-for-leak-kinds=definite,indirect --show-leak-kinds=definite,indirect --num-callers=20"
    PROPTEST_CASES=3 MAGICUBE_NUM_THREADS=2 in_crates \
        cargo test -q --locked --tests "${features[@]}"
fi
say "passed"
