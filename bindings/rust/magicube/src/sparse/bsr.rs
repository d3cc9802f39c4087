// SPDX-License-Identifier: Apache-2.0
//! Compressed rows of blocks.

use std::ptr;

use magicube_sys as sys;

use super::{wide, BsrLayout, New, Part, Shape, Sparse, SparseMut, State, Values};
use crate::memory::{Memory, MemoryMut};
use crate::status::{check, Result};
use crate::types::{DataType, Element, Index, IndexType};

fn make(
    (rows, cols): (i64, i64),
    blocks: (i64, i64),
    (offsets, index_type): (Part, IndexType),
    col_indices: Part,
    values: Values,
    mutable: bool,
) -> Result<New> {
    let nnzb = i64::try_from(col_indices.len).unwrap_or(i64::MAX);
    let (index, data) = (index_type.sys(), values.data_type.sys());
    let (at, columns) = (offsets.pointer, col_indices.pointer.cast());
    let (height, width) = blocks;
    let mut raw: sys::magicubeConstSpMatDescr_t = ptr::null();
    // SAFETY: raw outlives the call, which only keeps the pointers; `mutable` says that the values
    // are borrowed exclusively.
    check(unsafe {
        let r = &raw mut raw;
        let v = values.pointer();
        if mutable {
            let (r, v) = (r.cast(), v.cast_mut());
            sys::magicubeCreateBsr(r, rows, cols, height, width, nnzb, at, columns, v, index, data)
        } else {
            sys::magicubeCreateConstBsr(
                r, rows, cols, height, width, nnzb, at, columns, v, index, data,
            )
        }
    })?;
    let shape = Shape { rows, cols, stored: stored(nnzb, blocks), batch: 1, ..Shape::default() };
    let state = State {
        shape,
        values,
        offsets: [offsets; 2],
        col_indices,
        element_mask: None,
        vectors: blocks,
        index_type,
        last_offset: true,
        lengths: None,
    };
    Ok((raw, state))
}

/// Saturating: a size that no memory has.
fn stored(nnzb: i64, (height, width): (i64, i64)) -> i128 {
    wide(nnzb).saturating_mul(wide(height) * wide(width))
}

impl<'a> Sparse<'a> {
    /// A BSR matrix of `(rows, cols)` with blocks of `(rows, cols)`, each row-major: an offset a
    /// block row and one more, and block-column indices that ascend within a block row.
    pub fn bsr<I: Index, T: Element>(
        shape: (i64, i64),
        blocks: (i64, i64),
        offsets: impl Memory<'a, I>,
        block_col_indices: impl Memory<'a, i32>,
        values: impl Memory<'a, T>,
    ) -> Result<Self> {
        let offsets = (Part::of(offsets.view()), I::INDEX_TYPE);
        let col_indices = Part::of(block_col_indices.view());
        Self::adopt(make(shape, blocks, offsets, col_indices, Values::of(values), false)?)
    }

    /// The pattern of a BSR matrix.
    pub fn bsr_pattern<I: Index>(
        data_type: DataType,
        shape: (i64, i64),
        blocks: (i64, i64),
        offsets: impl Memory<'a, I>,
        block_col_indices: impl Memory<'a, i32>,
    ) -> Result<Self> {
        let offsets = (Part::of(offsets.view()), I::INDEX_TYPE);
        let col_indices = Part::of(block_col_indices.view());
        Self::adopt(make(shape, blocks, offsets, col_indices, Values::none(data_type), false)?)
    }

    /// Blocks and width of the offsets; an error if this is not BSR.
    pub fn bsr_layout(&self) -> Result<BsrLayout> {
        let [mut block_rows, mut block_cols, mut nnzb] = [0; 3];
        let mut index_type = sys::magicubeIndexType(0);
        let (h, w, n) = (&mut block_rows, &mut block_cols, &mut nnzb);
        let null = ptr::null_mut();
        // SAFETY: the descriptor is valid; all places outlive the call; the others may be null.
        check(unsafe {
            sys::magicubeBsrGet(self.raw, h, w, n, null, null.cast(), &mut index_type)
        })?;
        let index_type = IndexType::from_raw(index_type.0);
        Ok(BsrLayout { block_rows, block_cols, nnzb, index_type })
    }

    /// Points this at other index arrays of a BSR matrix of the same shape. The values, set apart,
    /// must be long enough first.
    pub fn set_bsr<I: Index>(
        &mut self,
        offsets: impl Memory<'a, I>,
        block_col_indices: impl Memory<'a, i32>,
    ) -> Result<()> {
        self.bsr_layout()?;
        let (offsets, col_indices) = (Part::of(offsets.view()), Part::of(block_col_indices.view()));
        let nnzb = i64::try_from(col_indices.len).unwrap_or(i64::MAX);
        let (at, columns) = (offsets.pointer, col_indices.pointer.cast());
        let stored = stored(nnzb, self.state.vectors);
        self.replace_indices([offsets; 2], I::INDEX_TYPE, col_indices, stored, |raw| {
            // SAFETY: the descriptor is valid, and the arrays are borrowed and long enough.
            unsafe { sys::magicubeBsrSetPointers(raw, nnzb, at, columns) }
        })
    }
}

impl<'a> SparseMut<'a> {
    /// As [`Sparse::bsr`], over values that calls may write.
    pub fn bsr<I: Index, T: Element>(
        shape: (i64, i64),
        blocks: (i64, i64),
        offsets: impl Memory<'a, I>,
        block_col_indices: impl Memory<'a, i32>,
        values: impl MemoryMut<'a, T>,
    ) -> Result<Self> {
        let offsets = (Part::of(offsets.view()), I::INDEX_TYPE);
        let col_indices = Part::of(block_col_indices.view());
        let values = Values::of_mut(values);
        Sparse::adopt(make(shape, blocks, offsets, col_indices, values, true)?).map(Self)
    }
}
