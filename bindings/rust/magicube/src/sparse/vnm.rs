// SPDX-License-Identifier: Apache-2.0
//! V:N:M: groups of M columns, of which blocks of V rows select a few, and rows keep N elements.

use std::ptr;

use magicube_sys as sys;

use super::{wide, Part, Shape, Sparse, SparseMut, State, Values, VnmLayout};
use crate::memory::{Memory, MemoryMut};
use crate::status::{check, Error, Result};
use crate::types::{Element, IndexType, Place};

/// Lengths of the arrays of a V:N:M matrix of `(rows, cols)` and `(V, n, m)`: entries of
/// `column_loc`, bytes of `metadata`, elements of values.
pub fn vnm_lengths(
    (rows, cols): (i64, i64),
    (vector_length, n, m): (i32, i32, i32),
) -> Result<[usize; 3]> {
    let mut lengths = [0i64; 3];
    let [column_loc, metadata, values] = &mut lengths;
    // SAFETY: all places outlive the call.
    check(unsafe {
        sys::magicubeVnmLengths(rows, cols, vector_length, n, m, column_loc, metadata, values)
    })?;
    Ok(lengths.map(|length| usize::try_from(length).unwrap_or(usize::MAX)))
}

fn require_places<P: Place>(m: i32) -> Result<()> {
    let needed = if m > 256 { 2 } else { 1 };
    if size_of::<P>() == needed {
        return Ok(());
    }
    let bits = 8 * needed;
    Err(Error::invalid(format!("column_loc must be of u{bits} where m is {m}")))
}

fn make(
    (rows, cols): (i64, i64),
    (vector_length, n, m): (i32, i32, i32),
    (column_loc, metadata): (Part, Part),
    values: Values,
    mutable: bool,
) -> Result<super::New> {
    let lengths = vnm_lengths((rows, cols), (vector_length, n, m))?;
    let [loc_len, metadata_len, stored] = lengths.map(wide);
    let (loc, meta) = (column_loc.pointer, metadata.pointer.cast());
    let (v, data) = (values.pointer(), values.data_type.sys());
    let length = vector_length;
    let mut raw: sys::magicubeConstSpMatDescr_t = ptr::null();
    // SAFETY: raw outlives the call, which only keeps the pointers; `mutable` says that the values
    // are borrowed exclusively.
    check(unsafe {
        let r = &raw mut raw;
        if mutable {
            let v = v.cast_mut();
            sys::magicubeCreateVnm(r.cast(), rows, cols, length, n, m, loc, meta, v, data)
        } else {
            sys::magicubeCreateConstVnm(r, rows, cols, length, n, m, loc, meta, v, data)
        }
    })?;
    let state = State {
        shape: Shape { rows, cols, stored, batch: 1, ..Shape::default() },
        values,
        offsets: [column_loc; 2],
        col_indices: metadata,
        element_mask: None,
        vectors: (vector_length.into(), 1),
        index_type: IndexType::Index64,
        last_offset: false,
        lengths: Some([loc_len, metadata_len]),
    };
    Ok((raw, state))
}

impl<'a> Sparse<'a> {
    /// A V:N:M matrix of `(rows, cols)` and `(V, n, m)`: the columns that blocks select in each
    /// group, which of them each element has, and values; the lengths are [`vnm_lengths`].
    pub fn vnm<P: Place, T: Element>(
        shape: (i64, i64),
        pattern: (i32, i32, i32),
        column_loc: impl Memory<'a, P>,
        metadata: impl Memory<'a, u8>,
        values: impl Memory<'a, T>,
    ) -> Result<Self> {
        require_places::<P>(pattern.2)?;
        let parts = (Part::of(column_loc.view()), Part::of(metadata.view()));
        Self::adopt(make(shape, pattern, parts, Values::of(values), false)?)
    }

    /// The pattern of a V:N:M matrix. `data_type` is that of values which calls bring.
    pub fn vnm_pattern<P: Place>(
        data_type: crate::DataType,
        shape: (i64, i64),
        pattern: (i32, i32, i32),
        column_loc: impl Memory<'a, P>,
        metadata: impl Memory<'a, u8>,
    ) -> Result<Self> {
        require_places::<P>(pattern.2)?;
        let parts = (Part::of(column_loc.view()), Part::of(metadata.view()));
        Self::adopt(make(shape, pattern, parts, Values::none(data_type), false)?)
    }

    /// V, n and m; an error if this is not V:N:M.
    pub fn vnm_layout(&self) -> Result<VnmLayout> {
        let (mut vector_length, mut n, mut m) = (0, 0, 0);
        let (v, nn, mm, null) = (&mut vector_length, &mut n, &mut m, ptr::null_mut());
        // SAFETY: the descriptor is valid; all places outlive the call; the others may be null.
        check(unsafe { sys::magicubeVnmGet(self.raw, v, nn, mm, null, null.cast()) })?;
        Ok(VnmLayout { vector_length, n, m })
    }

    /// Points this at other arrays of a V:N:M matrix of the same shape.
    pub fn set_vnm<P: Place>(
        &mut self,
        column_loc: impl Memory<'a, P>,
        metadata: impl Memory<'a, u8>,
    ) -> Result<()> {
        require_places::<P>(self.vnm_layout()?.m)?;
        let (column_loc, metadata) = (Part::of(column_loc.view()), Part::of(metadata.view()));
        let (loc, meta) = (column_loc.pointer, metadata.pointer.cast());
        let offsets = [column_loc; 2];
        self.change(State { offsets, col_indices: metadata, ..self.state }, |raw| {
            // SAFETY: the descriptor is valid, and the arrays are borrowed and long enough.
            unsafe { sys::magicubeVnmSetPointers(raw, loc, meta) }
        })
    }
}

impl<'a> SparseMut<'a> {
    /// As [`Sparse::vnm`], over values that calls may write.
    pub fn vnm<P: Place, T: Element>(
        shape: (i64, i64),
        pattern: (i32, i32, i32),
        column_loc: impl Memory<'a, P>,
        metadata: impl Memory<'a, u8>,
        values: impl MemoryMut<'a, T>,
    ) -> Result<Self> {
        require_places::<P>(pattern.2)?;
        let parts = (Part::of(column_loc.view()), Part::of(metadata.view()));
        Sparse::adopt(make(shape, pattern, parts, Values::of_mut(values), true)?).map(Self)
    }
}
