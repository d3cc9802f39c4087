// SPDX-License-Identifier: Apache-2.0
//! Finds libmagicube and tells Cargo how to link it; README.md tells where it looks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// An installation: where the library lies, and its headers if they are there.
struct Installation {
    lib_dir: PathBuf,
    include_dir: Option<PathBuf>,
}

const LIBRARY: &str = "libmagicube.so";

fn in_prefix(prefix: &Path) -> Option<Installation> {
    let target = env::var("TARGET").unwrap_or_default().replace("-unknown", "");
    let folders = ["lib".to_string(), "lib64".to_string(), format!("lib/{target}")];
    let lib_dir = folders.iter().map(|f| prefix.join(f)).find(|d| d.join(LIBRARY).exists())?;
    let include_dir = Some(prefix.join("include")).filter(|d| d.is_dir());
    Some(Installation { lib_dir, include_dir })
}

fn by_pkg_config() -> Result<Installation, String> {
    let found = pkg_config::Config::new()
        .cargo_metadata(false)
        .probe("magicube")
        .map_err(|error| error.to_string())?;
    let lib_dir = found.link_paths.iter().find(|d| d.join(LIBRARY).exists());
    Ok(Installation {
        lib_dir: lib_dir.cloned().unwrap_or_else(|| PathBuf::from("/usr/lib")),
        include_dir: found.include_paths.first().cloned(),
    })
}

fn find() -> Installation {
    if let Some(prefix) = env::var_os("MAGICUBE_PREFIX") {
        let prefix = PathBuf::from(prefix);
        return in_prefix(&prefix).unwrap_or_else(|| {
            panic!("MAGICUBE_PREFIX is {}; there is no lib/{LIBRARY} in it", prefix.display())
        });
    }
    let bundled =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("native");
    println!("cargo:rerun-if-changed={}", bundled.display());
    if let Some(found) = in_prefix(&bundled) {
        return found;
    }
    by_pkg_config().unwrap_or_else(|error| {
        panic!(
            "{LIBRARY} was not found. Set MAGICUBE_PREFIX to where it is installed, put \
             magicube.pc's folder on PKG_CONFIG_PATH, or build with the feature doc-only for \
             documentation alone. pkg-config said: {error}"
        )
    })
}

/// Cargo lets programs that it runs find libraries in OUT_DIR alone, so links lie there.
fn link_into(out_dir: &Path, lib_dir: &Path) {
    let entries = fs::read_dir(lib_dir).into_iter().flatten().flatten();
    for name in entries.map(|entry| entry.file_name()) {
        if !name.to_string_lossy().starts_with(LIBRARY) {
            continue;
        }
        let (from, to) = (lib_dir.join(&name), out_dir.join(&name));
        println!("cargo:rerun-if-changed={}", from.display());
        let from = fs::canonicalize(&from).unwrap_or(from);
        let _ = fs::remove_file(&to);
        #[cfg(unix)]
        std::os::unix::fs::symlink(&from, &to)
            .unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    }
}

#[cfg(feature = "generate-bindings")]
fn generate(out_dir: &Path, include_dir: Option<PathBuf>) {
    println!("cargo:rerun-if-env-changed=MAGICUBE_INCLUDE");
    println!("cargo:rerun-if-env-changed=MAGICUBE_BINDINGS_COPY");
    let include = env::var_os("MAGICUBE_INCLUDE")
        .map(PathBuf::from)
        .or(include_dir)
        .expect("no headers were found; set MAGICUBE_INCLUDE to the folder that holds magicube/");
    println!("cargo:rerun-if-changed={}", include.join("magicube").display());
    let target = out_dir.join("bindings.rs");
    bindgen::Builder::default()
        .header_contents("all.h", "#include <magicube/magicube.h>\n")
        .clang_arg(format!("-I{}", include.display()))
        .clang_arg("-fparse-all-comments")
        .allowlist_item("(magicube|MAGICUBE_).*")
        .allowlist_type("CUstream_st")
        // An enumerator of a newer library is a number that no match arm knows, not undefined.
        .newtype_enum(".*")
        .derive_default(true)
        .use_core()
        .layout_tests(false)
        .formatter(bindgen::Formatter::Prettyplease)
        .raw_line("// SPDX-License-Identifier: Apache-2.0")
        .generate()
        .expect("bindgen")
        .write_to_file(&target)
        .expect("bindings.rs");
    if let Some(copy) = env::var_os("MAGICUBE_BINDINGS_COPY") {
        fs::copy(&target, copy).expect("MAGICUBE_BINDINGS_COPY");
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MAGICUBE_PREFIX");
    if env::var_os("CARGO_FEATURE_DOC_ONLY").is_some() || env::var_os("DOCS_RS").is_some() {
        return;
    }
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo"));
    let installation = find();
    link_into(&out_dir, &installation.lib_dir);
    println!("cargo:rustc-link-search=native={}", out_dir.display());
    println!("cargo:rustc-link-search=native={}", installation.lib_dir.display());
    println!("cargo:rustc-link-lib=dylib=magicube");
    println!("cargo:lib_dir={}", installation.lib_dir.display());
    if let Some(include) = &installation.include_dir {
        println!("cargo:include={}", include.display());
    }
    #[cfg(feature = "generate-bindings")]
    generate(&out_dir, installation.include_dir);
}
