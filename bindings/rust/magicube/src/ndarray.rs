// SPDX-License-Identifier: Apache-2.0
//! Dense matrices over ndarray's two-dimensional views, without copies.

use ndarray::{ArrayView2, ArrayViewMut2};

use crate::dense::{Dense, DenseMut};
use crate::handle::Location;
use crate::memory::{View, ViewMut};
use crate::status::{Error, Result};
use crate::types::{Element, Order};

struct Layout {
    rows: i64,
    cols: i64,
    ld: i64,
    order: Order,
    len: usize,
}

/// ld and order of strides, one of which must be 1.
fn layout((rows, cols): (usize, usize), strides: &[isize]) -> Result<Layout> {
    let (rows_apart, cols_apart) = (strides[0], strides[1]);
    let fits = |apart: isize, inner: usize| {
        usize::try_from(apart).is_ok_and(|apart| apart >= inner.max(1))
    };
    let few_rows = rows <= 1 || cols == 0;
    let few_cols = cols <= 1 || rows == 0;
    let (order, ld, outer, inner) =
        if (cols_apart == 1 || few_cols) && (few_rows || fits(rows_apart, cols)) {
            (Order::Row, if few_rows { cols } else { rows_apart.unsigned_abs() }, rows, cols)
        } else if (rows_apart == 1 || few_rows) && (few_cols || fits(cols_apart, rows)) {
            (Order::Col, if few_cols { rows } else { cols_apart.unsigned_abs() }, cols, rows)
        } else {
            return Err(Error::invalid(format!(
                "an array with strides {strides:?} is neither row-major nor column-major; \
             as_standard_layout() makes one that is"
            )));
        };
    let (ld, size) = (ld.max(1), |n: usize| i64::try_from(n).unwrap_or(i64::MAX));
    let len = if outer == 0 || inner == 0 { 0 } else { (outer - 1) * ld + inner };
    Ok(Layout { rows: size(rows), cols: size(cols), ld: size(ld), order, len })
}

impl<'a> Dense<'a> {
    /// A matrix over an array, whose rows or columns may be apart.
    ///
    /// ```
    /// use magicube::{Dense, Order};
    /// let array = ndarray::array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// assert_eq!(Dense::from_ndarray(array.t())?.layout()?.order, Order::Col);
    /// assert!(Dense::from_ndarray(array.slice(ndarray::s![.., ..;2])).is_err());
    /// # Ok::<(), magicube::Error>(())
    /// ```
    pub fn from_ndarray<T: Element>(array: ArrayView2<'a, T>) -> Result<Self> {
        let Layout { rows, cols, ld, order, len } = layout(array.dim(), array.strides())?;
        // SAFETY: the first and the last element are the array's, borrowed for 'a; calls touch only
        // elements of its rows and columns.
        let view = unsafe { View::from_raw(array.as_ptr(), len, Location::HOST) };
        Self::with_layout(view, rows, cols, ld, order)
    }
}

impl<'a> DenseMut<'a> {
    /// A matrix over an array that calls write.
    pub fn from_ndarray<T: Element>(mut array: ArrayViewMut2<'a, T>) -> Result<Self> {
        let Layout { rows, cols, ld, order, len } = layout(array.dim(), array.strides())?;
        // SAFETY: as above, borrowed exclusively.
        let view = unsafe { ViewMut::from_raw(array.as_mut_ptr(), len, Location::HOST) };
        Self::with_layout(view, rows, cols, ld, order)
    }
}
