// SPDX-License-Identifier: Apache-2.0
//! Sparse matrices: descriptors over borrowed memory. A format is one constructor, here or in a
//! file of its own.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use magicube_sys as sys;

use crate::handle::{Handle, Location};
use crate::memory::{Memory, MemoryMut, View};
use crate::status::{check, Error, Result};
use crate::types::{DataType, Element, IndexType, Pod, SparseFormat};

/// Any integer as 128 bits, in which no product of two sizes overflows.
pub(crate) fn wide(value: impl TryInto<i128>) -> i128 {
    value.try_into().unwrap_or(i128::MAX)
}

/// An error if an array is shorter than a matrix or a call needs.
pub(crate) fn require_len(argument: &str, len: usize, needed: i128) -> Result<()> {
    if wide(len) >= needed {
        return Ok(());
    }
    Err(Error::invalid(format!("{argument} has {len} elements; {needed} are needed")))
}

/// An array of a descriptor, without its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) pointer: *const c_void,
    pub(crate) len: usize,
    pub(crate) location: Location,
}

impl Part {
    pub(crate) fn of<T: Pod>(view: View<'_, T>) -> Self {
        Self { pointer: view.pointer.cast(), len: view.len, location: view.location }
    }
}

/// Values of a matrix: none for a pattern alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub(crate) data_type: DataType,
    pub(crate) part: Option<Part>,
}

impl Values {
    fn of<'a, T: Element>(values: impl Memory<'a, T>) -> Self {
        let mut part = Part::of(values.view());
        part.len = part.len.saturating_mul(T::PACKED);
        Self { data_type: T::DATA_TYPE, part: Some(part) }
    }

    fn none(data_type: DataType) -> Self {
        Self { data_type, part: None }
    }

    fn of_mut<'a, T: Element>(values: impl MemoryMut<'a, T>) -> Self {
        let values = values.view_mut();
        let len = values.len.saturating_mul(T::PACKED);
        let part = Part { pointer: values.pointer.cast(), len, location: values.location };
        Self { data_type: T::DATA_TYPE, part: Some(part) }
    }

    pub(crate) fn pointer(&self) -> *const c_void {
        self.part.map_or(ptr::null(), |part| part.pointer)
    }
}

/// What a sparse matrix is, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseLayout {
    /// The format.
    pub format: SparseFormat,
    /// Rows of one matrix.
    pub rows: i64,
    /// Columns of one matrix.
    pub cols: i64,
    /// Type of the values.
    pub data_type: DataType,
}

/// What a CSR matrix is made of, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsrLayout {
    /// Stored elements.
    pub nnz: i64,
    /// Width of the offsets.
    pub index_type: IndexType,
}

/// What a BSR matrix is made of, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BsrLayout {
    /// Rows of a block.
    pub block_rows: i64,
    /// Columns of a block.
    pub block_cols: i64,
    /// Stored blocks.
    pub nnzb: i64,
    /// Width of the offsets.
    pub index_type: IndexType,
}

/// What an SR-BCRS matrix is made of, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrBcrsLayout {
    /// Rows of a vector.
    pub vector_length: i32,
    /// Slots that are stored together.
    pub stride: i32,
    /// Slots, padding included.
    pub slots: i64,
    /// Width of `row_begin` and `row_end`.
    pub index_type: IndexType,
    /// Whether an element mask is set.
    pub has_element_mask: bool,
}

/// What a V:N:M matrix is made of, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VnmLayout {
    /// Rows of a block.
    pub vector_length: i32,
    /// Elements that a row keeps in a group.
    pub n: i32,
    /// Columns of a group.
    pub m: i32,
}

/// Batch of a sparse matrix, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseBatch {
    /// Number of matrices.
    pub count: i64,
    /// Elements between their values.
    pub values_stride: i64,
    /// Whether each has a pattern of its own.
    pub different_patterns: bool,
}

/// How long the arrays of a matrix must be, and how many values one matrix stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) rows: i64,
    pub(crate) cols: i64,
    pub(crate) stored: i128,
    pub(crate) batch: i64,
    pub(crate) values_stride: i64,
    pub(crate) different_patterns: bool,
}

impl Shape {
    /// Elements of the value arrays of a batch of `count`, `stride` apart.
    pub(crate) fn value_extent(&self, count: i64, stride: i64) -> i128 {
        if self.different_patterns || count <= 1 || self.stored == 0 {
            return if count <= 0 { 0 } else { self.stored };
        }
        (wide(count) - 1) * wide(stride) + self.stored
    }
}

/// The arrays of a descriptor and what it says of them, always as the library has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) shape: Shape,
    pub(crate) values: Values,
    /// Offsets twice, or row_begin and row_end.
    pub(crate) offsets: [Part; 2],
    pub(crate) col_indices: Part,
    pub(crate) element_mask: Option<Part>,
    /// Rows and columns of a stored vector or block: (1, 1), (block_rows, block_cols), (V, 1).
    pub(crate) vectors: (i64, i64),
    pub(crate) index_type: IndexType,
    /// Offsets beside one a block row.
    pub(crate) last_offset: bool,
    /// V:N:M, whose column_loc and metadata stand for offsets and col_indices: their lengths.
    pub(crate) lengths: Option<[i128; 2]>,
}

impl State {
    fn location(&self) -> Location {
        self.col_indices.location
    }

    fn offsets_needed(&self) -> i128 {
        if let Some([column_loc, _]) = self.lengths {
            return column_loc;
        }
        let (rows, height) = (wide(self.shape.rows), wide(self.vectors.0.max(1)));
        let block_rows = (rows + height - 1) / height;
        let patterns = if self.shape.different_patterns { wide(self.shape.batch) } else { 1 };
        block_rows * patterns + i128::from(self.last_offset)
    }

    /// An error if an array is shorter than the descriptor says.
    fn require_arrays(&self) -> Result<()> {
        for part in self.offsets {
            let name = if self.lengths.is_some() { "column_loc" } else { "an array of offsets" };
            require_len(name, part.len, self.offsets_needed())?;
        }
        if let Some(values) = self.values.part {
            let extent = self.shape.value_extent(self.shape.batch, self.shape.values_stride);
            require_len("values", values.len, extent)?;
        }
        if let Some([_, metadata]) = self.lengths {
            require_len("metadata", self.col_indices.len, metadata)?;
        }
        if let Some(mask) = self.element_mask {
            let bytes = wide(self.col_indices.len) * ((wide(self.vectors.0) + 7) / 8);
            require_len("element_mask", mask.len, bytes)?;
        }
        for part in self.offsets.iter().chain(&self.values.part).chain(&self.element_mask) {
            if part.location != self.location() {
                return Err(Error::invalid("the arrays of a sparse matrix lie on several devices"));
            }
        }
        Ok(())
    }
}

/// A descriptor and its arrays.
pub(crate) type New = (sys::magicubeConstSpMatDescr_t, State);

/// A sparse matrix, or a batch of them. It borrows its arrays.
///
/// Arrays in host memory are checked wholly when a matrix is made or changed, so that no call
/// follows a wrong index. Those in a GPU's memory are not looked at: wrong ones give wrong results.
///
/// ```
/// use magicube::Sparse;
/// // | 1 0 2 |
/// // | 0 0 3 |
/// let matrix = Sparse::csr(2, 3, &[0i64, 2, 3], &[0, 2, 2], &[1.0f32, 2.0, 3.0])?;
/// assert_eq!(matrix.csr_layout()?.nnz, 3);
/// assert!(Sparse::csr(2, 2, &[0i64, 2, 3], &[0, 2, 2], &[1.0f32, 2.0, 3.0]).is_err());
/// # Ok::<(), magicube::Error>(())
/// ```
#[derive(Debug)]
pub struct Sparse<'a> {
    pub(crate) raw: sys::magicubeConstSpMatDescr_t,
    pub(crate) state: State,
    /// Whether the index arrays are right.
    usable: bool,
    borrows: PhantomData<&'a ()>,
}

// SAFETY: the library lets any thread read a descriptor, and changing it needs &mut.
unsafe impl Send for Sparse<'_> {}
// SAFETY: as above.
unsafe impl Sync for Sparse<'_> {}

impl<'a> Sparse<'a> {
    /// Takes a descriptor over, and checks that its arrays are as long as it says, and right.
    pub(crate) fn adopt((raw, state): New) -> Result<Self> {
        let mut result = Self { raw, state, usable: false, borrows: PhantomData };
        result.state.require_arrays()?;
        result.require_contents()?;
        result.usable = true;
        Ok(result)
    }

    fn require_contents(&self) -> Result<()> {
        if self.state.location() != Location::HOST {
            return Ok(());
        }
        thread_local! {
            static HOST: Option<Handle> = Handle::cpu().ok();
        }
        // A thread that is ending may have dropped its handle.
        HOST.try_with(|handle| handle.as_ref().map(|handle| self.check_contents(handle)))
            .ok()
            .flatten()
            .unwrap_or_else(|| self.check_contents(&Handle::cpu()?))
    }

    fn check_contents(&self, handle: &Handle) -> Result<()> {
        // SAFETY: handle and descriptor are valid; the arrays are as long as the latter says.
        check(unsafe { sys::magicubeSpMatValidate(handle.raw(), self.raw) })
    }

    /// Checks index arrays wholly, whatever the handle's validation level; on CUDA a copy of them
    /// in host memory, for which it waits.
    pub fn validate(&self, handle: &Handle) -> Result<()> {
        self.lend(handle, "matrix")?;
        self.check_contents(handle)
    }

    /// Does a change: refused by lengths or by the library, the matrix stays as it was; refused by
    /// what index arrays hold, it cannot be used until another change gives it right ones.
    fn change(
        &mut self,
        state: State,
        set: impl FnOnce(sys::magicubeConstSpMatDescr_t) -> sys::magicubeStatus,
    ) -> Result<()> {
        state.require_arrays()?;
        check(set(self.raw))?;
        self.state = state;
        self.usable = false;
        self.require_contents()?;
        self.usable = true;
        Ok(())
    }

    /// Rows of one matrix.
    pub fn rows(&self) -> i64 {
        self.state.shape.rows
    }

    /// Columns of one matrix.
    pub fn cols(&self) -> i64 {
        self.state.shape.cols
    }

    /// Values that one matrix stores, padding included: `nnz`, or slots times vector length.
    pub fn stored(&self) -> usize {
        usize::try_from(self.state.shape.stored).unwrap_or(usize::MAX)
    }

    /// What the matrix is, as the library tells it.
    pub fn layout(&self) -> Result<SparseLayout> {
        let (mut rows, mut cols) = (0, 0);
        let (mut format, mut data_type) = (sys::magicubeSparseFormat(0), sys::magicubeDataType(0));
        let (f, r, c, t) = (&mut format, &mut rows, &mut cols, &mut data_type);
        // SAFETY: the descriptor is valid; all places outlive the call; values may be null.
        check(unsafe { sys::magicubeSpMatGet(self.raw, f, r, c, t, ptr::null_mut()) })?;
        let (format, data_type) =
            (SparseFormat::from_raw(format.0), DataType::from_raw(data_type.0));
        Ok(SparseLayout { format, rows, cols, data_type })
    }

    /// The batch, as the library tells it.
    pub fn batch(&self) -> Result<SparseBatch> {
        let (mut count, mut values_stride, mut different) = (0, 0, 0);
        let (c, s, d) = (&mut count, &mut values_stride, &mut different);
        // SAFETY: the descriptor is valid; all places outlive the call.
        check(unsafe { sys::magicubeSpMatGetBatch(self.raw, c, s, d) })?;
        Ok(SparseBatch { count, values_stride, different_patterns: different != 0 })
    }

    /// Makes this a batch of `count` matrices with one pattern, their values `values_stride`
    /// elements apart; 0: one set of values serves all.
    pub fn set_batch(&mut self, count: i64, values_stride: i64) -> Result<()> {
        let mut state = self.state;
        (state.shape.batch, state.shape.values_stride) = (count, values_stride);
        state.shape.different_patterns = false;
        // SAFETY: the descriptor is valid, and the values of such a batch are borrowed.
        self.change(state, |raw| unsafe {
            sys::magicubeSpMatSetStridedBatch(raw, count, values_stride)
        })
    }

    /// Points this at other values of the same pattern and type.
    pub fn set_values<T: Element>(&mut self, values: impl Memory<'a, T>) -> Result<()> {
        self.replace_values(Values::of(values), |raw, values| {
            // SAFETY: the descriptor is valid, and enough values are borrowed.
            unsafe { sys::magicubeConstSpMatSetValues(raw, values) }
        })
    }

    fn replace_values(
        &mut self,
        values: Values,
        set: impl FnOnce(sys::magicubeConstSpMatDescr_t, *const c_void) -> sys::magicubeStatus,
    ) -> Result<()> {
        let holds = self.state.values.data_type;
        if values.data_type != holds {
            let given = values.data_type;
            return Err(Error::invalid(format!("values is {given}; the matrix is {holds}")));
        }
        self.change(State { values, ..self.state }, |raw| set(raw, values.pointer()))
    }

    /// Points this at other index arrays, which hold `stored` values.
    fn replace_indices(
        &mut self,
        offsets: [Part; 2],
        index_type: IndexType,
        col_indices: Part,
        stored: i128,
        set: impl FnOnce(sys::magicubeConstSpMatDescr_t) -> sys::magicubeStatus,
    ) -> Result<()> {
        let has = self.state.index_type;
        if index_type != has {
            let text = format!("offsets are {index_type:?}; the matrix has {has:?}");
            return Err(Error::invalid(text));
        }
        let shape = Shape { stored, ..self.state.shape };
        self.change(State { shape, offsets, col_indices, ..self.state }, set)
    }

    /// The descriptor, for a call on a handle.
    pub(crate) fn lend(
        &self,
        handle: &Handle,
        argument: &str,
    ) -> Result<sys::magicubeConstSpMatDescr_t> {
        if !self.usable {
            return Err(Error::invalid(format!("{argument}: its last change was refused")));
        }
        handle.require(argument, self.state.location())?;
        Ok(self.raw)
    }
}

impl Drop for Sparse<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this object's.
        unsafe { sys::magicubeDestroySpMat(self.raw) };
    }
}

/// A sparse matrix whose values calls may write. It borrows them exclusively and can be read
/// wherever a [`Sparse`] can.
#[derive(Debug)]
pub struct SparseMut<'a>(Sparse<'a>);

impl<'a> SparseMut<'a> {
    /// Points this at other values of the same pattern and type.
    pub fn set_values<T: Element>(&mut self, values: impl MemoryMut<'a, T>) -> Result<()> {
        self.0.replace_values(Values::of_mut(values), |raw, values| {
            // SAFETY: the descriptor was made as a mutable one, and enough values are borrowed.
            unsafe { sys::magicubeSpMatSetValues(raw.cast_mut(), values.cast_mut()) }
        })
    }

    /// As [`Sparse::set_batch`].
    pub fn set_batch(&mut self, count: i64, values_stride: i64) -> Result<()> {
        self.0.set_batch(count, values_stride)
    }
}

impl<'a> Deref for SparseMut<'a> {
    type Target = Sparse<'a>;

    fn deref(&self) -> &Sparse<'a> {
        &self.0
    }
}

mod bsr;
mod csr;
mod sr_bcrs;
mod vnm;

pub use vnm::vnm_lengths;
