// SPDX-License-Identifier: Apache-2.0
//! Strided row-major block compressed rows: column vectors.

use std::ptr;

use magicube_sys as sys;

use super::{wide, New, Part, Shape, Sparse, SparseMut, SrBcrsLayout, State, Values};
use crate::memory::{Memory, MemoryMut};
use crate::status::{check, Error, Result};
use crate::types::{DataType, Element, Index, IndexType};

pub(crate) fn make(
    (rows, cols): (i64, i64),
    (vector_length, stride): (i32, i32),
    (row_begin, row_end, index_type): (Part, Part, IndexType),
    col_indices: Part,
    values: Values,
    mutable: bool,
) -> Result<New> {
    let slots = i64::try_from(col_indices.len).unwrap_or(i64::MAX);
    let (index, data) = (index_type.sys(), values.data_type.sys());
    let (begin, end) = (row_begin.pointer, row_end.pointer);
    let columns = col_indices.pointer.cast();
    let length = vector_length;
    let mut raw: sys::magicubeConstSpMatDescr_t = ptr::null();
    // SAFETY: raw outlives the call, which only keeps the pointers; `mutable` says that the values
    // are borrowed exclusively.
    check(unsafe {
        let r = &raw mut raw;
        let v = values.pointer();
        if mutable {
            let (r, v) = (r.cast(), v.cast_mut());
            sys::magicubeCreateSrBcrs(
                r, rows, cols, length, stride, slots, begin, end, columns, v, index, data,
            )
        } else {
            sys::magicubeCreateConstSrBcrs(
                r, rows, cols, length, stride, slots, begin, end, columns, v, index, data,
            )
        }
    })?;
    let stored = wide(slots) * wide(vector_length);
    let shape = Shape { rows, cols, stored, batch: 1, ..Shape::default() };
    let state = State {
        shape,
        values,
        offsets: [row_begin, row_end],
        col_indices,
        element_mask: None,
        vectors: (vector_length.into(), 1),
        index_type,
        last_offset: false,
        lengths: None,
    };
    Ok((raw, state))
}

impl<'a> Sparse<'a> {
    /// An SR-BCRS matrix of `(rows, cols)` with vectors of `vector_length` and a stride: first slot
    /// of every block row, one past its last, a column a slot (-1 in padding), and values, element
    /// (v, slot) at `slot / S * V * S + v * S + slot % S`.
    pub fn sr_bcrs<I: Index, T: Element>(
        shape: (i64, i64),
        vectors: (i32, i32),
        row_begin: impl Memory<'a, I>,
        row_end: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
        values: impl Memory<'a, T>,
    ) -> Result<Self> {
        let rows = (Part::of(row_begin.view()), Part::of(row_end.view()), I::INDEX_TYPE);
        let col_indices = Part::of(col_indices.view());
        Self::adopt(make(shape, vectors, rows, col_indices, Values::of(values), false)?)
    }

    /// The pattern of an SR-BCRS matrix. `data_type` is that of values which calls bring.
    pub fn sr_bcrs_pattern<I: Index>(
        data_type: DataType,
        shape: (i64, i64),
        vectors: (i32, i32),
        row_begin: impl Memory<'a, I>,
        row_end: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
    ) -> Result<Self> {
        let rows = (Part::of(row_begin.view()), Part::of(row_end.view()), I::INDEX_TYPE);
        let col_indices = Part::of(col_indices.view());
        Self::adopt(make(shape, vectors, rows, col_indices, Values::none(data_type), false)?)
    }

    /// Vectors, slots and width of the offsets; an error if this is not SR-BCRS.
    pub fn sr_bcrs_layout(&self) -> Result<SrBcrsLayout> {
        let (mut vector_length, mut stride, mut slots) = (0, 0, 0);
        let (mut mask, mut index_type) = (ptr::null(), sys::magicubeIndexType(0));
        let (v, s, n, m) = (&mut vector_length, &mut stride, &mut slots, &mut mask);
        let null = ptr::null_mut();
        // SAFETY: the descriptor is valid; all places outlive the call; the others may be null.
        check(unsafe {
            sys::magicubeSrBcrsGet(self.raw, v, s, n, null, null, null.cast(), m, &mut index_type)
        })?;
        let index_type = IndexType::from_raw(index_type.0);
        let has_element_mask = !mask.is_null();
        Ok(SrBcrsLayout { vector_length, stride, slots, index_type, has_element_mask })
    }

    /// Points this at other index arrays of an SR-BCRS matrix of the same shape. The values, set
    /// apart, must be long enough first; an element mask is taken away.
    pub fn set_sr_bcrs<I: Index>(
        &mut self,
        row_begin: impl Memory<'a, I>,
        row_end: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
    ) -> Result<()> {
        self.set_element_mask(None::<&[u8]>)?;
        let offsets = [Part::of(row_begin.view()), Part::of(row_end.view())];
        let col_indices = Part::of(col_indices.view());
        let slots = i64::try_from(col_indices.len).unwrap_or(i64::MAX);
        let [begin, end] = offsets.map(|part| part.pointer);
        let columns = col_indices.pointer.cast();
        let stored = wide(slots) * wide(self.state.vectors.0);
        self.replace_indices(offsets, I::INDEX_TYPE, col_indices, stored, |raw| {
            // SAFETY: the descriptor is valid, and the arrays are borrowed and long enough.
            unsafe { sys::magicubeSrBcrsSetPointers(raw, slots, begin, end, columns) }
        })
    }

    /// Says which elements exist: `ceil(V / 8)` bytes a slot, bit v for element (v, slot). `None`:
    /// every element does.
    pub fn set_element_mask(&mut self, mask: Option<impl Memory<'a, u8>>) -> Result<()> {
        self.sr_bcrs_layout()?;
        let element_mask = mask.map(|mask| Part::of(mask.view()));
        let pointer = element_mask.map_or(ptr::null(), |part| part.pointer.cast());
        self.change(State { element_mask, ..self.state }, |raw| {
            // SAFETY: the descriptor is valid, and the mask is borrowed and long enough.
            unsafe { sys::magicubeSrBcrsSetElementMask(raw, pointer) }
        })
    }

    /// Makes this a batch of `count` matrices with patterns of their own: `row_begin` and `row_end`
    /// hold those of all, in slots of the shared arrays.
    pub fn set_pattern_batch(&mut self, count: i64) -> Result<()> {
        if self.sr_bcrs_layout().is_err() {
            return Err(Error::invalid("set_pattern_batch: the matrix is not SR-BCRS"));
        }
        let mut state = self.state;
        (state.shape.batch, state.shape.values_stride) = (count, 0);
        state.shape.different_patterns = true;
        self.change(state, |raw| {
            // SAFETY: the descriptor is valid, and the arrays of such a batch are borrowed.
            unsafe { sys::magicubeSrBcrsSetPatternBatch(raw, count) }
        })
    }
}

impl<'a> SparseMut<'a> {
    /// As [`Sparse::sr_bcrs`], over values that calls may write.
    pub fn sr_bcrs<I: Index, T: Element>(
        shape: (i64, i64),
        vectors: (i32, i32),
        row_begin: impl Memory<'a, I>,
        row_end: impl Memory<'a, I>,
        col_indices: impl Memory<'a, i32>,
        values: impl MemoryMut<'a, T>,
    ) -> Result<Self> {
        let rows = (Part::of(row_begin.view()), Part::of(row_end.view()), I::INDEX_TYPE);
        let col_indices = Part::of(col_indices.view());
        let values = Values::of_mut(values);
        Sparse::adopt(make(shape, vectors, rows, col_indices, values, true)?).map(Self)
    }
}
