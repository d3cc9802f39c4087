// SPDX-License-Identifier: Apache-2.0
//! Compressed rows.

use std::ptr;

use magicube_sys as sys;

use super::{wide, CsrLayout, New, Part, Shape, Sparse, SparseMut, State, Values};
use crate::memory::{Memory, MemoryMut};
use crate::status::{check, Result};
use crate::types::{DataType, Element, Index, IndexType};

fn make(
    (rows, cols): (i64, i64),
    (offsets, index_type): (Part, IndexType),
    col_indices: Part,
    values: Values,
    mutable: bool,
) -> Result<New> {
    let nnz = i64::try_from(col_indices.len).unwrap_or(i64::MAX);
    let (index, data) = (index_type.sys(), values.data_type.sys());
    let (at, columns) = (offsets.pointer, col_indices.pointer.cast());
    let mut raw: sys::magicubeConstSpMatDescr_t = ptr::null();
    // SAFETY: raw outlives the call, which only keeps the pointers; `mutable` says that the values
    // are borrowed exclusively.
    check(unsafe {
        if mutable {
            let (raw, values) = ((&raw mut raw).cast(), values.pointer().cast_mut());
            sys::magicubeCreateCsr(raw, rows, cols, nnz, at, columns, values, index, data)
        } else {
            let (raw, values) = (&mut raw, values.pointer());
            sys::magicubeCreateConstCsr(raw, rows, cols, nnz, at, columns, values, index, data)
        }
    })?;
    let shape = Shape { rows, cols, stored: wide(nnz), batch: 1, ..Shape::default() };
    let state = State {
        shape,
        values,
        offsets: [offsets; 2],
        col_indices,
        element_mask: None,
        vectors: (1, 1),
        index_type,
        last_offset: true,
        lengths: None,
    };
    Ok((raw, state))
}

impl<'a> Sparse<'a> {
    /// A CSR matrix: `rows + 1` offsets, and column indices that ascend within a row.
    pub fn csr<I: Index, T: Element>(
        rows: i64,
        cols: i64,
        offsets: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
        values: impl Memory<'a, T>,
    ) -> Result<Self> {
        let offsets = (Part::of(offsets.view()), I::INDEX_TYPE);
        let col_indices = Part::of(col_indices.view());
        Self::adopt(make((rows, cols), offsets, col_indices, Values::of(values), false)?)
    }

    /// The pattern of a CSR matrix. `data_type` is that of values which calls bring.
    pub fn csr_pattern<I: Index>(
        data_type: DataType,
        rows: i64,
        cols: i64,
        offsets: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
    ) -> Result<Self> {
        let offsets = (Part::of(offsets.view()), I::INDEX_TYPE);
        let col_indices = Part::of(col_indices.view());
        let values = Values::none(data_type);
        Self::adopt(make((rows, cols), offsets, col_indices, values, false)?)
    }

    /// Number of stored elements and width of the offsets; an error if this is not CSR.
    pub fn csr_layout(&self) -> Result<CsrLayout> {
        let (mut nnz, mut index_type) = (0, sys::magicubeIndexType(0));
        let null = ptr::null_mut();
        // SAFETY: the descriptor is valid; both places outlive the call; the others may be null.
        check(unsafe {
            sys::magicubeCsrGet(self.raw, &mut nnz, null, null.cast(), &mut index_type)
        })?;
        Ok(CsrLayout { nnz, index_type: IndexType::from_raw(index_type.0) })
    }

    /// Points this at other index arrays of a CSR matrix of the same shape. The values, set apart,
    /// must be long enough first.
    pub fn set_csr<I: Index>(
        &mut self,
        offsets: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
    ) -> Result<()> {
        self.csr_layout()?;
        let (offsets, col_indices) = (Part::of(offsets.view()), Part::of(col_indices.view()));
        let nnz = i64::try_from(col_indices.len).unwrap_or(i64::MAX);
        let (at, columns) = (offsets.pointer, col_indices.pointer.cast());
        self.replace_indices([offsets; 2], I::INDEX_TYPE, col_indices, wide(nnz), |raw| {
            // SAFETY: the descriptor is valid, and the arrays are borrowed and long enough.
            unsafe { sys::magicubeCsrSetPointers(raw, nnz, at, columns) }
        })
    }
}

impl<'a> SparseMut<'a> {
    /// As [`Sparse::csr`], over values that calls may write.
    pub fn csr<I: Index, T: Element>(
        rows: i64,
        cols: i64,
        offsets: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
        values: impl MemoryMut<'a, T>,
    ) -> Result<Self> {
        let offsets = (Part::of(offsets.view()), I::INDEX_TYPE);
        let col_indices = Part::of(col_indices.view());
        let values = Values::of_mut(values);
        Sparse::adopt(make((rows, cols), offsets, col_indices, values, true)?).map(Self)
    }
}
