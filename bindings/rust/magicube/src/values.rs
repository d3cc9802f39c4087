// SPDX-License-Identifier: Apache-2.0
//! Arrays of values in a pattern's layout.

use std::ffi::c_void;

use crate::handle::Handle;
use crate::memory::{View, ViewMut};
use crate::plan::strided;
use crate::sparse::{require_len, wide, Shape};
use crate::status::{Error, Result};
use crate::types::{DataType, Element};

/// Elements of the arrays of `batch` matrices, `stride` apart; 0: without gaps.
fn needed(pattern: &Shape, batch: i64, stride: i64) -> i128 {
    if pattern.different_patterns {
        return pattern.stored;
    }
    if stride == 0 {
        return pattern.stored.saturating_mul(wide(batch.max(0)));
    }
    strided(batch, stride, pattern.stored)
}

fn require<T: Element>(
    argument: &str,
    len: usize,
    pattern: &Shape,
    (data_type, batch, stride): (DataType, i64, i64),
) -> Result<()> {
    if T::DATA_TYPE != data_type {
        let given = T::DATA_TYPE;
        return Err(Error::invalid(format!("{argument} is {given}; the plan's is {data_type}")));
    }
    require_len(argument, len.saturating_mul(T::PACKED), needed(pattern, batch, stride))
}

/// An array that a call reads: of a type, for a batch and a stride.
pub(crate) fn lend_values<T: Element>(
    handle: &Handle,
    argument: &str,
    values: View<'_, T>,
    pattern: &Shape,
    expected: (DataType, i64, i64),
) -> Result<*const c_void> {
    handle.require(argument, values.location)?;
    require::<T>(argument, values.len, pattern, expected)?;
    Ok(values.pointer.cast())
}

/// An array that a call writes.
pub(crate) fn lend_values_mut<T: Element>(
    handle: &Handle,
    argument: &str,
    values: ViewMut<'_, T>,
    pattern: &Shape,
    expected: (DataType, i64, i64),
) -> Result<*mut c_void> {
    handle.require(argument, values.location)?;
    require::<T>(argument, values.len, pattern, expected)?;
    Ok(values.pointer.cast())
}
