// SPDX-License-Identifier: Apache-2.0
//! Raw bindings of `libmagicube`, made by bindgen from its headers, whose comments they carry. Use
//! the crate `magicube` unless you write bindings of your own.
//!
//! Enums of the ABI are structs around a number, so that one that this crate does not know is a
//! value like any other.
#![no_std]
#![allow(non_upper_case_globals, non_camel_case_types, non_snake_case, missing_docs)]
#![allow(rustdoc::all, clippy::all)]

#[cfg(all(feature = "generate-bindings", not(feature = "doc-only")))]
include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

#[cfg(not(all(feature = "generate-bindings", not(feature = "doc-only"))))]
#[rustfmt::skip]
mod bindings;
#[cfg(not(all(feature = "generate-bindings", not(feature = "doc-only"))))]
pub use bindings::*;
