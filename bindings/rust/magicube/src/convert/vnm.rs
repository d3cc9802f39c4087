// SPDX-License-Identifier: Apache-2.0
//! Conversion to V:N:M.

use std::ffi::c_void;
use std::ptr;

use magicube_sys as sys;

use super::pointer;
use crate::dense::Dense;
use crate::handle::Handle;
use crate::memory::DeviceBuffer;
use crate::sparse::{vnm_lengths, Sparse};
use crate::status::{check, Result};
use crate::types::Element;

#[derive(Debug)]
enum Columns {
    Narrow(DeviceBuffer<u8>),
    Wide(DeviceBuffer<u16>),
}

/// Arrays of a V:N:M matrix in the memory of a device.
#[derive(Debug)]
pub struct Vnm<T: Element> {
    shape: (i64, i64),
    pattern: (i32, i32, i32),
    column_loc: Columns,
    /// Which of the selected columns each element has.
    pub metadata: DeviceBuffer<u8>,
    /// Values, `None` for a pattern alone.
    pub values: Option<DeviceBuffer<T>>,
    /// How many elements the source has.
    pub elements: i64,
}

impl<T: Element> Vnm<T> {
    /// The matrix.
    pub fn as_sparse(&self) -> Result<Sparse<'_>> {
        let (shape, pattern, metadata) = (self.shape, self.pattern, &self.metadata);
        match (&self.column_loc, &self.values) {
            (Columns::Narrow(at), Some(values)) => {
                Sparse::vnm(shape, pattern, at, metadata, values)
            }
            (Columns::Wide(at), Some(values)) => Sparse::vnm(shape, pattern, at, metadata, values),
            (Columns::Narrow(at), None) => {
                Sparse::vnm_pattern(T::DATA_TYPE, shape, pattern, at, metadata)
            }
            (Columns::Wide(at), None) => {
                Sparse::vnm_pattern(T::DATA_TYPE, shape, pattern, at, metadata)
            }
        }
    }
}

type Arrays = sys::magicubeVnmArrays;
type Size<'s> = &'s dyn Fn(*const Arrays, *mut usize) -> sys::magicubeStatus;
type Count<'s> = &'s dyn Fn(*const Arrays, *mut i64, *mut c_void, usize) -> sys::magicubeStatus;
type Fill<'s> = &'s dyn Fn(*const Arrays, *mut c_void, usize) -> sys::magicubeStatus;

/// bufferSize, count, allocate, fill.
fn to_vnm<T: Element>(
    handle: &Handle,
    shape: (i64, i64),
    pattern: (i32, i32, i32),
    pattern_only: bool,
    (size, count, fill): (Size, Count, Fill),
) -> Result<Vnm<T>> {
    let (vector_length, n, m) = pattern;
    let mut arrays = Arrays {
        struct_size: size_of::<Arrays>(),
        vector_length,
        n,
        m,
        value_type: T::DATA_TYPE.sys(),
        column_loc: ptr::null_mut(),
        metadata: ptr::null_mut(),
        values: ptr::null_mut(),
    };
    let mut bytes = 0;
    check(size(&arrays, &mut bytes))?;
    let mut workspace = handle.workspace(bytes)?;
    let (scratch, bytes) = workspace.lend(handle)?;
    let mut elements = 0;
    check(count(&arrays, &mut elements, scratch, bytes))?;

    let [places, metadata_bytes, stored] = vnm_lengths(shape, pattern)?;
    let mut column_loc = if m > 256 {
        Columns::Wide(DeviceBuffer::zeroed(handle, places)?)
    } else {
        Columns::Narrow(DeviceBuffer::zeroed(handle, places)?)
    };
    arrays.column_loc = match &mut column_loc {
        Columns::Narrow(buffer) => pointer(buffer).cast(),
        Columns::Wide(buffer) => pointer(buffer).cast(),
    };
    let mut metadata = DeviceBuffer::zeroed(handle, metadata_bytes)?;
    arrays.metadata = pointer(&mut metadata);
    let mut values = (!pattern_only)
        .then(|| DeviceBuffer::<T>::zeroed(handle, stored.div_ceil(T::PACKED)))
        .transpose()?;
    arrays.values = values.as_mut().map_or(ptr::null_mut(), |values| pointer(values).cast());
    check(fill(&arrays, scratch, bytes))?;
    Ok(Vnm { shape, pattern, column_loc, metadata, values, elements })
}

/// Dense to V:N:M with `(V, n, m)`: the elements that are not 0, or that `mask` marks. An error if
/// they are not such a pattern.
pub fn dense_to_vnm<T: Element>(
    handle: &Handle,
    dense: &Dense<'_>,
    mask: Option<&Dense<'_>>,
    pattern: (i32, i32, i32),
    pattern_only: bool,
) -> Result<Vnm<T>> {
    let raw = dense.lend(handle, "dense")?;
    let mask = mask.map_or(Ok(ptr::null()), |mask| mask.lend(handle, "mask"))?;
    let (h, shape) = (handle.raw(), (dense.rows(), dense.cols()));
    // SAFETY: see dense_to_sr_bcrs.
    to_vnm(handle, shape, pattern, pattern_only, unsafe {
        (
            &|a, bytes| sys::magicubeDenseToVnm_bufferSize(h, raw, mask, a, bytes),
            &|a, n, w, size| sys::magicubeDenseToVnm_count(h, raw, mask, a, n, w, size),
            &|a, w, size| sys::magicubeDenseToVnm_fill(h, raw, mask, a, w, size),
        )
    })
}

/// Any sparse matrix to V:N:M with `(V, n, m)`: every stored element, zero or not.
pub fn sparse_to_vnm<T: Element>(
    handle: &Handle,
    source: &Sparse<'_>,
    pattern: (i32, i32, i32),
    pattern_only: bool,
) -> Result<Vnm<T>> {
    let raw = source.lend(handle, "source")?;
    let (h, shape) = (handle.raw(), (source.rows(), source.cols()));
    // SAFETY: see dense_to_sr_bcrs.
    to_vnm(handle, shape, pattern, pattern_only, unsafe {
        (
            &|a, bytes| sys::magicubeSparseToVnm_bufferSize(h, raw, a, bytes),
            &|a, n, w, size| sys::magicubeSparseToVnm_count(h, raw, a, n, w, size),
            &|a, w, size| sys::magicubeSparseToVnm_fill(h, raw, a, w, size),
        )
    })
}
