// SPDX-License-Identifier: Apache-2.0
//! Conversion between dense, CSR, BSR, masks and SR-BCRS, on the handle's device.

use std::ffi::c_void;
use std::ptr;

use magicube_sys as sys;

use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::memory::{DeviceBuffer, MemoryMut};
use crate::sparse::Sparse;
use crate::status::{check, Error, Result};
use crate::types::{DataType, Element, Index, Pod};

/// The stride that SR-BCRS gets if none is named.
pub fn default_stride(vector_length: i32, data_type: DataType) -> Result<i32> {
    let mut stride = 0;
    // SAFETY: stride outlives the call.
    check(unsafe {
        sys::magicubeSrBcrsDefaultStride(vector_length, data_type.sys(), &mut stride)
    })?;
    Ok(stride)
}

/// What a conversion to SR-BCRS should make.
#[derive(Clone, Copy, Debug)]
pub struct SrBcrsOptions {
    vector_length: i32,
    stride: i32,
    pattern_only: bool,
    element_mask: bool,
}

impl SrBcrsOptions {
    /// Vectors of `vector_length`, the default stride, values, no element mask.
    pub fn new(vector_length: i32) -> Self {
        Self { vector_length, stride: 0, pattern_only: false, element_mask: false }
    }

    /// Slots that are stored together; 0 is the default.
    pub fn stride(self, stride: i32) -> Self {
        Self { stride, ..self }
    }

    /// Leaves the values out.
    pub fn pattern_only(self) -> Self {
        Self { pattern_only: true, ..self }
    }

    /// Writes a mask of the elements that exist as well.
    pub fn element_mask(self) -> Self {
        Self { element_mask: true, ..self }
    }
}

/// Arrays of an SR-BCRS matrix with values of `T` and offsets of `I`, in the memory of a device.
#[derive(Debug)]
pub struct SrBcrs<T: Element, I: Index = i64> {
    shape: (i64, i64),
    vectors: (i32, i32),
    batch: i64,
    /// First slot of every block row, of all matrices of a batch.
    pub row_begin: DeviceBuffer<I>,
    /// One past the last slot of every block row.
    pub row_end: DeviceBuffer<I>,
    /// Column of every slot, -1 in padding.
    pub col_indices: DeviceBuffer<i32>,
    /// Values, `None` for a pattern alone.
    pub values: Option<DeviceBuffer<T>>,
    /// `ceil(V / 8)` bytes a slot.
    pub element_mask: Option<DeviceBuffer<u8>>,
}

impl<T: Element, I: Index> SrBcrs<T, I> {
    /// Rows of a vector, and slots that are stored together.
    pub fn vectors(&self) -> (i32, i32) {
        self.vectors
    }

    /// The matrix: a batch of different patterns if there were several sources.
    pub fn as_sparse(&self) -> Result<Sparse<'_>> {
        let (begin, end, cols) = (&self.row_begin, &self.row_end, &self.col_indices);
        let mut matrix = match &self.values {
            Some(values) => Sparse::sr_bcrs(self.shape, self.vectors, begin, end, cols, values),
            None => {
                Sparse::sr_bcrs_pattern(T::DATA_TYPE, self.shape, self.vectors, begin, end, cols)
            }
        }?;
        if self.batch != 1 {
            matrix.set_pattern_batch(self.batch)?;
        }
        if let Some(mask) = &self.element_mask {
            matrix.set_element_mask(Some(mask))?;
        }
        Ok(matrix)
    }
}

type Arrays = sys::magicubeSrBcrsArrays;
type Size<'s> = &'s dyn Fn(*const Arrays, *mut usize) -> sys::magicubeStatus;
type Count<'s> = &'s dyn Fn(*const Arrays, *mut i64, *mut c_void, usize) -> sys::magicubeStatus;
type Fill<'s> = &'s dyn Fn(*const Arrays, *mut c_void, usize) -> sys::magicubeStatus;

pub(crate) fn pointer<T: Pod>(buffer: &mut DeviceBuffer<T>) -> *mut T {
    buffer.view_mut().pointer
}

/// bufferSize, count, allocate, fill.
fn to_sr_bcrs<T: Element, I: Index>(
    handle: &Handle,
    (rows, cols, batch): (i64, i64, i64),
    options: SrBcrsOptions,
    (size, count, fill): (Size, Count, Fill),
) -> Result<SrBcrs<T, I>> {
    let vector_length = options.vector_length;
    let stride = match options.stride {
        0 => default_stride(vector_length, T::DATA_TYPE)?,
        given => given,
    };
    let mut arrays = Arrays {
        struct_size: size_of::<Arrays>(),
        vector_length,
        stride,
        offset_type: I::INDEX_TYPE.sys(),
        value_type: T::DATA_TYPE.sys(),
        slots: 0,
        row_begin: ptr::null_mut(),
        row_end: ptr::null_mut(),
        col_indices: ptr::null_mut(),
        values: ptr::null_mut(),
        element_mask: ptr::null_mut(),
    };
    let length = i64::from(vector_length.max(1));
    let block_rows = rows / length + i64::from(rows % length != 0);
    let entries = usize::try_from(i128::from(block_rows) * i128::from(batch))
        .map_err(|_| Error::invalid(format!("{batch} matrices of {rows} rows are too many")))?;
    let mut row_begin = DeviceBuffer::<I>::zeroed(handle, entries)?;
    let mut row_end = DeviceBuffer::<I>::zeroed(handle, entries)?;
    arrays.row_begin = pointer(&mut row_begin).cast();
    arrays.row_end = pointer(&mut row_end).cast();

    let mut bytes = 0;
    check(size(&arrays, &mut bytes))?;
    let mut workspace = handle.workspace(bytes)?;
    let (scratch, bytes) = workspace.lend(handle)?;
    let mut slots = 0;
    check(count(&arrays, &mut slots, scratch, bytes))?;
    arrays.slots = slots;
    let slots = usize::try_from(slots).unwrap_or(0);
    let elements = slots * usize::try_from(vector_length).unwrap_or(0);
    let mut col_indices = DeviceBuffer::<i32>::zeroed(handle, slots)?;
    arrays.col_indices = pointer(&mut col_indices);
    let mut values = (!options.pattern_only)
        .then(|| DeviceBuffer::<T>::zeroed(handle, elements.div_ceil(T::PACKED)))
        .transpose()?;
    arrays.values = values.as_mut().map_or(ptr::null_mut(), |values| pointer(values).cast());
    let mask_bytes = slots * usize::try_from(vector_length).unwrap_or(0).div_ceil(8);
    let mut element_mask =
        options.element_mask.then(|| DeviceBuffer::<u8>::zeroed(handle, mask_bytes)).transpose()?;
    arrays.element_mask = element_mask.as_mut().map_or(ptr::null_mut(), pointer);
    check(fill(&arrays, scratch, bytes))?;
    let (shape, vectors) = ((rows, cols), (vector_length, stride));
    Ok(SrBcrs { shape, vectors, batch, row_begin, row_end, col_indices, values, element_mask })
}

/// Dense to SR-BCRS: the vectors that hold something other than 0, or an element that `mask`, a
/// uint8 matrix of the same shape, marks.
///
/// ```
/// use magicube::{convert, Dense, Handle};
/// let handle = Handle::cpu()?;
/// let values = [1.0f32, 0.0, 0.0, 2.0, 0.0, 3.0];
/// let options = convert::SrBcrsOptions::new(2);
/// let sparse: convert::SrBcrs<f32> =
///     convert::dense_to_sr_bcrs(&handle, &Dense::new(&values, 2, 3)?, None, options)?;
/// assert_eq!(sparse.col_indices.to_vec(&handle)?[..2], [0, 2]);
/// # Ok::<(), magicube::Error>(())
/// ```
pub fn dense_to_sr_bcrs<T: Element, I: Index>(
    handle: &Handle,
    dense: &Dense<'_>,
    mask: Option<&Dense<'_>>,
    options: SrBcrsOptions,
) -> Result<SrBcrs<T, I>> {
    let raw = dense.lend(handle, "dense")?;
    let mask = mask.map_or(Ok(ptr::null()), |mask| mask.lend(handle, "mask"))?;
    let sizes = (dense.rows(), dense.cols(), dense.known_batch());
    let h = handle.raw();
    // SAFETY: handle, descriptors and what they borrow are valid during the calls, and the arrays
    // are as long as the library says. So for the other conversions.
    to_sr_bcrs(handle, sizes, options, unsafe {
        (
            &|a, bytes| sys::magicubeDenseToSrBcrs_bufferSize(h, raw, mask, a, bytes),
            &|a, n, w, size| sys::magicubeDenseToSrBcrs_count(h, raw, mask, a, n, w, size),
            &|a, w, size| sys::magicubeDenseToSrBcrs_fill(h, raw, mask, a, w, size),
        )
    })
}

/// CSR, BSR or SR-BCRS to SR-BCRS: every stored element exists, zero or not.
pub fn sparse_to_sr_bcrs<T: Element, I: Index>(
    handle: &Handle,
    source: &Sparse<'_>,
    options: SrBcrsOptions,
) -> Result<SrBcrs<T, I>> {
    let raw = source.lend(handle, "source")?;
    let sizes = (source.rows(), source.cols(), source.state.shape.batch);
    let h = handle.raw();
    // SAFETY: see dense_to_sr_bcrs.
    to_sr_bcrs(handle, sizes, options, unsafe {
        (
            &|a, bytes| sys::magicubeSparseToSrBcrs_bufferSize(h, raw, a, bytes),
            &|a, n, w, size| sys::magicubeSparseToSrBcrs_count(h, raw, a, n, w, size),
            &|a, w, size| sys::magicubeSparseToSrBcrs_fill(h, raw, a, w, size),
        )
    })
}

/// CSR, BSR or SR-BCRS to a dense matrix of the same shape and batch; absent elements become 0.
pub fn sparse_to_dense(
    handle: &Handle,
    source: &Sparse<'_>,
    dense: &mut DenseMut<'_>,
) -> Result<()> {
    let (source, dense) = (source.lend(handle, "source")?, dense.lend_mut(handle, "dense")?);
    // SAFETY: see dense_to_sr_bcrs.
    check(unsafe { sys::magicubeSparseToDense(handle.raw(), source, dense) })
}

/// CSR, BSR or SR-BCRS to a uint8 matrix with 1 where an element exists and 0 elsewhere.
pub fn sparse_to_mask(handle: &Handle, source: &Sparse<'_>, mask: &mut DenseMut<'_>) -> Result<()> {
    let (source, mask) = (source.lend(handle, "source")?, mask.lend_mut(handle, "mask")?);
    // SAFETY: see dense_to_sr_bcrs.
    check(unsafe { sys::magicubeSparseToMask(handle.raw(), source, mask) })
}

/// Arrays of a CSR or BSR matrix in the memory of a device.
#[derive(Debug)]
pub struct Compressed<T: Element, I: Index = i64> {
    pub(crate) shape: (i64, i64),
    pub(crate) blocks: Option<(i64, i64)>,
    /// Where every row or block row begins, and the end.
    pub offsets: DeviceBuffer<I>,
    /// Column, or block column, of every stored element or block.
    pub col_indices: DeviceBuffer<i32>,
    /// Values, `None` for a pattern alone.
    pub values: Option<DeviceBuffer<T>>,
}

impl<T: Element, I: Index> Compressed<T, I> {
    /// The matrix.
    pub fn as_sparse(&self) -> Result<Sparse<'_>> {
        let ((rows, cols), offsets, at) = (self.shape, &self.offsets, &self.col_indices);
        match (self.blocks, &self.values) {
            (None, Some(values)) => Sparse::csr(rows, cols, offsets, at, values),
            (None, None) => Sparse::csr_pattern(T::DATA_TYPE, rows, cols, offsets, at),
            (Some(blocks), Some(values)) => Sparse::bsr(self.shape, blocks, offsets, at, values),
            (Some(blocks), None) => {
                Sparse::bsr_pattern(T::DATA_TYPE, self.shape, blocks, offsets, at)
            }
        }
    }
}

/// What is made of what.
#[derive(Clone, Copy)]
enum Target {
    CsrOfSrBcrs,
    CsrOfVnm,
    BsrOfSrBcrs((i64, i64)),
}

/// Count, allocate, fill; an element is one, or a block.
fn to_compressed<T: Element, I: Index>(
    handle: &Handle,
    source: &Sparse<'_>,
    target: Target,
    pattern_only: bool,
) -> Result<Compressed<T, I>> {
    let (h, raw) = (handle.raw(), source.lend(handle, "source")?);
    let blocks = match target {
        Target::BsrOfSrBcrs(blocks) => Some(blocks),
        _ => None,
    };
    let (height, width) = blocks.unwrap_or((1, 1));
    let rows = source.rows();
    let block_rows = rows / height.max(1) + i64::from(rows % height.max(1) != 0);
    let entries = usize::try_from(block_rows).unwrap_or(0) + 1;
    let mut offsets = DeviceBuffer::<I>::zeroed(handle, entries)?;
    let (at, index) = (pointer(&mut offsets).cast(), I::INDEX_TYPE.sys());
    let mut stored = 0;
    // SAFETY: see dense_to_sr_bcrs.
    check(unsafe {
        match target {
            Target::CsrOfSrBcrs => sys::magicubeSrBcrsToCsr_count(h, raw, index, at, &mut stored),
            Target::CsrOfVnm => sys::magicubeVnmToCsr_count(h, raw, index, at, &mut stored),
            Target::BsrOfSrBcrs(_) => {
                let n = &mut stored;
                sys::magicubeSrBcrsToBsr_count(h, raw, height, width, index, at, n)
            }
        }
    })?;
    let count = usize::try_from(stored).unwrap_or(0);
    let block = usize::try_from(height.saturating_mul(width)).unwrap_or(0);
    let elements = count.checked_mul(block).map(|n| n.div_ceil(T::PACKED));
    let elements = elements.ok_or_else(|| Error::invalid("the blocks are too large"))?;
    let mut col_indices = DeviceBuffer::<i32>::zeroed(handle, count)?;
    let mut values =
        (!pattern_only).then(|| DeviceBuffer::<T>::zeroed(handle, elements)).transpose()?;
    let to = values.as_mut().map_or(ptr::null_mut(), |values| pointer(values).cast());
    let (columns, data) = (pointer(&mut col_indices), T::DATA_TYPE.sys());
    // SAFETY: see dense_to_sr_bcrs.
    check(unsafe {
        match target {
            Target::CsrOfSrBcrs => {
                sys::magicubeSrBcrsToCsr_fill(h, raw, index, at, columns, to, data)
            }
            Target::CsrOfVnm => sys::magicubeVnmToCsr_fill(h, raw, index, at, columns, to, data),
            Target::BsrOfSrBcrs(_) => {
                sys::magicubeSrBcrsToBsr_fill(h, raw, height, width, index, at, columns, to, data)
            }
        }
    })?;
    Ok(Compressed { shape: (rows, source.cols()), blocks, offsets, col_indices, values })
}

/// SR-BCRS to CSR: every existing element, zeros included.
pub fn sr_bcrs_to_csr<T: Element, I: Index>(
    handle: &Handle,
    source: &Sparse<'_>,
    pattern_only: bool,
) -> Result<Compressed<T, I>> {
    to_compressed(handle, source, Target::CsrOfSrBcrs, pattern_only)
}

/// SR-BCRS to BSR with blocks of `(rows, cols)`: every block in which an element exists.
pub fn sr_bcrs_to_bsr<T: Element, I: Index>(
    handle: &Handle,
    source: &Sparse<'_>,
    blocks: (i64, i64),
    pattern_only: bool,
) -> Result<Compressed<T, I>> {
    to_compressed(handle, source, Target::BsrOfSrBcrs(blocks), pattern_only)
}

/// V:N:M to CSR: every existing element, zeros included.
pub fn vnm_to_csr<T: Element, I: Index>(
    handle: &Handle,
    source: &Sparse<'_>,
    pattern_only: bool,
) -> Result<Compressed<T, I>> {
    to_compressed(handle, source, Target::CsrOfVnm, pattern_only)
}

mod vnm;

pub use vnm::{dense_to_vnm, sparse_to_vnm, Vnm};
