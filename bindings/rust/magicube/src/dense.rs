// SPDX-License-Identifier: Apache-2.0
//! Dense matrices: descriptors over borrowed memory.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use magicube_sys as sys;

use crate::handle::{Handle, Location};
use crate::memory::{Memory, MemoryMut};
use crate::status::{check, Error, Result};
use crate::types::{DataType, Element, Order};

/// Shape and layout of a dense matrix, as the library tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseLayout {
    /// Rows of one matrix.
    pub rows: i64,
    /// Columns of one matrix.
    pub cols: i64,
    /// Elements between rows, or between columns with [`Order::Col`].
    pub ld: i64,
    /// Type of the elements.
    pub data_type: DataType,
    /// Storage order.
    pub order: Order,
}

/// Elements from the first to the last of `count` matrices `stride` apart, each of `outer` rows or
/// columns of `inner` elements, `ld` apart.
fn extent(layout: &DenseLayout, count: i64, stride: i64) -> i128 {
    let (outer, inner) = match layout.order {
        Order::Col => (layout.cols, layout.rows),
        _ => (layout.rows, layout.cols),
    };
    if count <= 0 || outer <= 0 || inner <= 0 {
        return 0;
    }
    let [count, stride] = [count, stride].map(i128::from);
    let [outer, inner, ld] = [outer, inner, layout.ld].map(i128::from);
    (count - 1) * stride + (outer - 1) * ld + inner
}

/// A dense matrix, or a batch of them, that calls read. It borrows its elements.
///
/// ```
/// use magicube::Dense;
/// let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let matrix = Dense::new(&values, 2, 3)?;
/// assert_eq!((matrix.rows(), matrix.cols()), (2, 3));
/// assert!(Dense::new(&values, 3, 3).is_err());
/// # Ok::<(), magicube::Error>(())
/// ```
#[derive(Debug)]
pub struct Dense<'a> {
    raw: sys::magicubeConstDnMatDescr_t,
    layout: DenseLayout,
    batch: (i64, i64),
    /// Elements borrowed; `None` for a shape alone.
    borrowed: Option<(usize, Location)>,
    borrows: PhantomData<&'a ()>,
}

// SAFETY: the library lets any thread read a descriptor, and changing it needs &mut.
unsafe impl Send for Dense<'_> {}
// SAFETY: as above.
unsafe impl Sync for Dense<'_> {}

/// The ld of a matrix without gaps: even for int4, whose rows start on a byte.
fn natural_ld<T: Element>(inner: i64) -> i64 {
    let packed = T::PACKED as i64;
    inner.max(1).checked_add(packed - 1).map_or(inner, |n| n / packed * packed)
}

impl<'a> Dense<'a> {
    /// A row-major matrix without gaps. Rows of int4 start on a byte.
    pub fn new<T: Element>(values: impl Memory<'a, T>, rows: i64, cols: i64) -> Result<Self> {
        Self::with_layout(values, rows, cols, natural_ld::<T>(cols), Order::Row)
    }

    /// A column-major matrix without gaps. Columns of int4 start on a byte.
    pub fn col_major<T: Element>(values: impl Memory<'a, T>, rows: i64, cols: i64) -> Result<Self> {
        Self::with_layout(values, rows, cols, natural_ld::<T>(rows), Order::Col)
    }

    /// A matrix whose rows (or columns) are `ld` elements apart.
    pub fn with_layout<T: Element>(
        values: impl Memory<'a, T>,
        rows: i64,
        cols: i64,
        ld: i64,
        order: Order,
    ) -> Result<Self> {
        let values = values.view();
        let layout = DenseLayout { rows, cols, ld, data_type: T::DATA_TYPE, order };
        let borrowed = Some((values.len.saturating_mul(T::PACKED), values.location));
        Self::create(values.pointer.cast(), layout, borrowed)
    }

    /// A shape without elements, for calls that say that they take one.
    pub fn shape<T: Element>(rows: i64, cols: i64, order: Order) -> Result<Self> {
        let inner = if order == Order::Col { rows } else { cols };
        let ld = natural_ld::<T>(inner);
        let layout = DenseLayout { rows, cols, ld, data_type: T::DATA_TYPE, order };
        Self::create(ptr::null(), layout, None)
    }

    fn create(
        values: *const c_void,
        layout: DenseLayout,
        borrowed: Option<(usize, Location)>,
    ) -> Result<Self> {
        let mut raw = ptr::null();
        let DenseLayout { rows, cols, ld, data_type, order } = layout;
        // SAFETY: raw outlives the call, which only keeps `values`.
        check(unsafe {
            let (data_type, order) = (data_type.sys(), order.sys());
            sys::magicubeCreateConstDnMat(&mut raw, rows, cols, ld, values, data_type, order)
        })?;
        let result = Self { raw, layout, batch: (1, 0), borrowed, borrows: PhantomData };
        result.require_extent(&layout, 1, 0)?;
        Ok(result)
    }

    fn require_extent(&self, layout: &DenseLayout, count: i64, stride: i64) -> Result<()> {
        let needed = extent(layout, count, stride);
        match self.borrowed {
            Some((len, _)) if (len as i128) < needed => Err(Error::invalid(format!(
                "values has {len} elements; {} x {} with ld {} and a batch of {count}, {stride} \
                 apart, takes {needed}",
                layout.rows, layout.cols, layout.ld
            ))),
            _ => Ok(()),
        }
    }

    /// Rows of one matrix.
    pub fn rows(&self) -> i64 {
        self.layout.rows
    }

    /// Columns of one matrix.
    pub fn cols(&self) -> i64 {
        self.layout.cols
    }

    /// Shape and layout, as the library tells them.
    pub fn layout(&self) -> Result<DenseLayout> {
        let [mut rows, mut cols, mut ld] = [0; 3];
        let (mut data_type, mut order) = (sys::magicubeDataType(0), sys::magicubeOrder(0));
        let values = ptr::null_mut();
        // SAFETY: the descriptor is valid and all places outlive the call; values may be null.
        check(unsafe {
            let (r, c, l) = (&mut rows, &mut cols, &mut ld);
            sys::magicubeDnMatGet(self.raw, r, c, l, values, &mut data_type, &mut order)
        })?;
        let (data_type, order) = (DataType::from_raw(data_type.0), Order::from_raw(order.0));
        Ok(DenseLayout { rows, cols, ld, data_type, order })
    }

    /// Number of matrices and elements between them, as the library tells them.
    pub fn batch(&self) -> Result<(i64, i64)> {
        let (mut count, mut stride) = (0, 0);
        // SAFETY: the descriptor is valid; both places outlive the call.
        check(unsafe { sys::magicubeDnMatGetStridedBatch(self.raw, &mut count, &mut stride) })?;
        Ok((count, stride))
    }

    /// Makes this a batch of `count` matrices `stride` elements apart; 0: one serves all.
    pub fn set_batch(&mut self, count: i64, stride: i64) -> Result<()> {
        self.require_extent(&self.layout, count, stride)?;
        // SAFETY: the descriptor is valid, and the elements of such a batch are borrowed.
        check(unsafe { sys::magicubeDnMatSetStridedBatch(self.raw, count, stride) })?;
        self.batch = (count, stride);
        Ok(())
    }

    /// Changes the number of columns, and ld.
    pub fn set_cols(&mut self, cols: i64, ld: i64) -> Result<()> {
        let layout = DenseLayout { cols, ld, ..self.layout };
        self.require_extent(&layout, self.batch.0, self.batch.1)?;
        // SAFETY: the descriptor is valid, and the elements of such a matrix are borrowed.
        check(unsafe { sys::magicubeDnMatSetCols(self.raw, cols, ld) })?;
        self.layout = layout;
        Ok(())
    }

    /// Points this at other elements of the same shape and type.
    pub fn set_values<T: Element>(&mut self, values: impl Memory<'a, T>) -> Result<()> {
        let values = values.view();
        let pointer = values.pointer.cast();
        self.replace(T::DATA_TYPE, values.len.saturating_mul(T::PACKED), values.location, |raw| {
            // SAFETY: the descriptor is valid, and enough elements are borrowed.
            unsafe { sys::magicubeConstDnMatSetValues(raw, pointer) }
        })
    }

    fn replace(
        &mut self,
        data_type: DataType,
        len: usize,
        location: Location,
        set: impl FnOnce(sys::magicubeConstDnMatDescr_t) -> sys::magicubeStatus,
    ) -> Result<()> {
        if data_type != self.layout.data_type {
            let holds = self.layout.data_type;
            return Err(Error::invalid(format!("values is {data_type}; the matrix is {holds}")));
        }
        let before = self.borrowed.replace((len, location));
        let done = self
            .require_extent(&self.layout, self.batch.0, self.batch.1)
            .and_then(|()| check(set(self.raw)));
        if done.is_err() {
            self.borrowed = before;
        }
        done
    }

    /// The descriptor, for a call on a handle.
    pub(crate) fn lend(
        &self,
        handle: &Handle,
        argument: &str,
    ) -> Result<sys::magicubeConstDnMatDescr_t> {
        if let Some((_, location)) = self.borrowed {
            handle.require(argument, location)?;
        }
        Ok(self.raw)
    }

    /// Columns, batch count and stride, for what a call takes beside the matrix.
    pub(crate) fn known_batch(&self) -> i64 {
        self.batch.0
    }
}

impl Drop for Dense<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this object's.
        unsafe { sys::magicubeDestroyDnMat(self.raw) };
    }
}

/// A dense matrix, or a batch of them, that calls write. It borrows its elements exclusively and
/// can be read wherever a [`Dense`] can.
#[derive(Debug)]
pub struct DenseMut<'a>(Dense<'a>);

impl<'a> DenseMut<'a> {
    /// A row-major matrix without gaps. Rows of int4 start on a byte.
    pub fn new<T: Element>(values: impl MemoryMut<'a, T>, rows: i64, cols: i64) -> Result<Self> {
        Self::with_layout(values, rows, cols, natural_ld::<T>(cols), Order::Row)
    }

    /// A column-major matrix without gaps. Columns of int4 start on a byte.
    pub fn col_major<T: Element>(
        values: impl MemoryMut<'a, T>,
        rows: i64,
        cols: i64,
    ) -> Result<Self> {
        Self::with_layout(values, rows, cols, natural_ld::<T>(rows), Order::Col)
    }

    /// A matrix whose rows (or columns) are `ld` elements apart; what lies between is kept.
    pub fn with_layout<T: Element>(
        values: impl MemoryMut<'a, T>,
        rows: i64,
        cols: i64,
        ld: i64,
        order: Order,
    ) -> Result<Self> {
        let values = values.view_mut();
        let layout = DenseLayout { rows, cols, ld, data_type: T::DATA_TYPE, order };
        let mut raw = ptr::null_mut();
        // SAFETY: raw outlives the call, which only keeps `values`.
        check(unsafe {
            let (data_type, order) = (T::DATA_TYPE.sys(), order.sys());
            let pointer = values.pointer.cast();
            sys::magicubeCreateDnMat(&mut raw, rows, cols, ld, pointer, data_type, order)
        })?;
        let borrowed = Some((values.len.saturating_mul(T::PACKED), values.location));
        let result = Dense { raw, layout, batch: (1, 0), borrowed, borrows: PhantomData };
        result.require_extent(&layout, 1, 0)?;
        Ok(Self(result))
    }

    /// As [`Dense::set_batch`].
    pub fn set_batch(&mut self, count: i64, stride: i64) -> Result<()> {
        self.0.set_batch(count, stride)
    }

    /// As [`Dense::set_cols`].
    pub fn set_cols(&mut self, cols: i64, ld: i64) -> Result<()> {
        self.0.set_cols(cols, ld)
    }

    /// Points this at other elements of the same shape and type.
    pub fn set_values<T: Element>(&mut self, values: impl MemoryMut<'a, T>) -> Result<()> {
        let values = values.view_mut();
        let pointer = values.pointer.cast();
        let len = values.len.saturating_mul(T::PACKED);
        self.0.replace(T::DATA_TYPE, len, values.location, |raw| {
            // SAFETY: the descriptor was made as a mutable one, and enough elements are borrowed.
            unsafe { sys::magicubeDnMatSetValues(raw.cast_mut(), pointer) }
        })
    }

    /// The descriptor, for a call on a handle that writes it.
    pub(crate) fn lend_mut(
        &mut self,
        handle: &Handle,
        argument: &str,
    ) -> Result<sys::magicubeDnMatDescr_t> {
        self.0.lend(handle, argument).map(<*const _>::cast_mut)
    }
}

impl<'a> Deref for DenseMut<'a> {
    type Target = Dense<'a>;

    fn deref(&self) -> &Dense<'a> {
        &self.0
    }
}
