// SPDX-License-Identifier: Apache-2.0
//! Kronecker-sparse factors and chains of them: butterfly, Monarch, block-diagonal, low rank.
//!
//! A factor (a, b, c, d) has the support `I_a (x) 1_{b x c} (x) I_d` and a * b * c * d values.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;

use magicube_sys as sys;

use crate::convert::{pointer, Compressed};
use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::kronecker_mm::BatchLayout;
use crate::memory::{DeviceBuffer, Memory, MemoryMut, View, ViewMut};
use crate::sparse::{require_len, wide, Part, Sparse};
use crate::status::{check, Error, Result};
use crate::types::{DataType, Element, Index};

type Raw = sys::magicubeConstKroneckerDescr_t;

/// The shape of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KroneckerShape {
    /// Blocks along the diagonal.
    pub a: i64,
    /// Rows of a dense block.
    pub b: i64,
    /// Columns of a dense block.
    pub c: i64,
    /// Interleaved copies of a dense block.
    pub d: i64,
}

impl KroneckerShape {
    /// The shape (a, b, c, d).
    pub const fn new(a: i64, b: i64, c: i64, d: i64) -> Self {
        Self { a, b, c, d }
    }

    fn sys(self) -> sys::magicubeKroneckerShape {
        sys::magicubeKroneckerShape { a: self.a, b: self.b, c: self.c, d: self.d }
    }

    fn of(raw: sys::magicubeKroneckerShape) -> Self {
        Self { a: raw.a, b: raw.b, c: raw.c, d: raw.d }
    }

    /// Values of such a factor. Saturating: a size that no memory has.
    pub(crate) fn values(self) -> i128 {
        [self.a, self.b, self.c, self.d].map(wide).iter().fold(1, |n, &m| n.saturating_mul(m))
    }
}

/// A chain, as the library tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KroneckerLayout {
    /// Number of factors.
    pub count: i64,
    /// Rows of the product.
    pub rows: i64,
    /// Columns of the product.
    pub cols: i64,
    /// Type of the values.
    pub data_type: DataType,
}

/// What two neighbours of a chain are to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KroneckerPair {
    /// Whether their product is again a factor.
    pub chainable: bool,
    /// Then the rank of each block of that product, else 0.
    pub rank: i64,
    /// Whether the pair expresses no more than its product.
    pub redundant: bool,
}

/// A factor or a chain of factors that calls read. It borrows its values.
///
/// ```
/// use magicube::kronecker::{Kronecker, KroneckerShape};
/// let values = [1f32, 2., 3., 4., 5., 6., 7., 8.];
/// let factor = Kronecker::factor(KroneckerShape::new(1, 2, 2, 2), &values)?;
/// assert_eq!((factor.rows(), factor.cols()), (4, 4));
/// # Ok::<(), magicube::Error>(())
/// ```
#[derive(Debug)]
pub struct Kronecker<'a> {
    pub(crate) raw: sys::magicubeConstKroneckerDescr_t,
    pub(crate) data_type: DataType,
    pub(crate) shapes: Vec<KroneckerShape>,
    values: Vec<Option<Part>>,
    size: (i64, i64),
    borrows: PhantomData<&'a ()>,
}

// SAFETY: the library lets any thread read a descriptor, and changing it needs &mut.
unsafe impl Send for Kronecker<'_> {}
// SAFETY: as above.
unsafe impl Sync for Kronecker<'_> {}

/// An error if the values of a factor are fewer than its shape says.
pub(crate) fn require_values(index: usize, shape: KroneckerShape, len: usize) -> Result<()> {
    require_len(&format!("values of factor {index}"), len, shape.values())
}

fn part_of<T: Element>(view: View<'_, T>) -> Part {
    let mut part = Part::of(view);
    part.len = part.len.saturating_mul(T::PACKED);
    part
}

fn part_of_mut<T: Element>(view: ViewMut<'_, T>) -> Part {
    let len = view.len.saturating_mul(T::PACKED);
    Part { pointer: view.pointer.cast(), len, location: view.location }
}

impl<'a> Kronecker<'a> {
    /// Takes a descriptor over, and checks that its arrays are long enough.
    fn adopt(
        raw: sys::magicubeConstKroneckerDescr_t,
        data_type: DataType,
        shapes: Vec<KroneckerShape>,
        values: Vec<Option<Part>>,
    ) -> Result<Self> {
        let borrows = PhantomData;
        let mut result = Self { raw, data_type, shapes, values, size: (0, 0), borrows };
        for (index, (shape, part)) in result.shapes.iter().zip(&result.values).enumerate() {
            if let Some(part) = part {
                require_values(index, *shape, part.len)?;
            }
        }
        let layout = result.layout()?;
        result.size = (layout.rows, layout.cols);
        Ok(result)
    }

    fn make_factor(
        shape: KroneckerShape,
        data_type: DataType,
        values: Option<Part>,
        mutable: bool,
    ) -> Result<Self> {
        let KroneckerShape { a, b, c, d } = shape;
        let to = values.map_or(ptr::null(), |part| part.pointer);
        let mut raw: sys::magicubeConstKroneckerDescr_t = ptr::null();
        // SAFETY: raw outlives the call, which only keeps the values; `mutable` says that they are
        // borrowed exclusively.
        check(unsafe {
            let (r, t) = (&raw mut raw, data_type.sys());
            if mutable {
                sys::magicubeCreateKronecker(r.cast(), a, b, c, d, to.cast_mut(), t)
            } else {
                sys::magicubeCreateConstKronecker(r, a, b, c, d, to, t)
            }
        })?;
        Self::adopt(raw, data_type, vec![shape], vec![values])
    }

    fn make_chain(
        shapes: Vec<KroneckerShape>,
        data_type: DataType,
        values: Vec<Option<Part>>,
        mutable: bool,
    ) -> Result<Self> {
        let count = i64::try_from(shapes.len()).unwrap_or(i64::MAX);
        let raw_shapes: Vec<_> = shapes.iter().map(|shape| shape.sys()).collect();
        let pointers: Vec<*const c_void> =
            values.iter().map(|part| part.map_or(ptr::null(), |part| part.pointer)).collect();
        let all = if values.iter().any(Option::is_some) { pointers.as_ptr() } else { ptr::null() };
        let mut raw: sys::magicubeConstKroneckerDescr_t = ptr::null();
        // SAFETY: both lists have count entries and are copied; otherwise as above.
        check(unsafe {
            let (r, s, t) = (&raw mut raw, raw_shapes.as_ptr(), data_type.sys());
            if mutable {
                sys::magicubeCreateKroneckerChain(r.cast(), count, s, all.cast(), t)
            } else {
                sys::magicubeCreateConstKroneckerChain(r, count, s, all, t)
            }
        })?;
        Self::adopt(raw, data_type, shapes, values)
    }

    /// One factor.
    pub fn factor<T: Element>(shape: KroneckerShape, values: impl Memory<'a, T>) -> Result<Self> {
        Self::make_factor(shape, T::DATA_TYPE, Some(part_of(values.view())), false)
    }

    /// The support of one factor. `data_type` is that of values which calls bring.
    pub fn factor_pattern(data_type: DataType, shape: KroneckerShape) -> Result<Self> {
        Self::make_factor(shape, data_type, None, false)
    }

    /// The product of factors, leftmost first, with the values of each.
    pub fn chain<T: Element>(factors: &[(KroneckerShape, View<'a, T>)]) -> Result<Self> {
        let shapes = factors.iter().map(|(shape, _)| *shape).collect();
        let values = factors.iter().map(|(_, view)| Some(part_of(*view))).collect();
        Self::make_chain(shapes, T::DATA_TYPE, values, false)
    }

    /// The supports of a chain. `data_type` is that of values which calls bring.
    pub fn chain_pattern(data_type: DataType, shapes: &[KroneckerShape]) -> Result<Self> {
        Self::make_chain(shapes.to_vec(), data_type, vec![None; shapes.len()], false)
    }

    /// Rows of the product.
    pub fn rows(&self) -> i64 {
        self.size.0
    }

    /// Columns of the product.
    pub fn cols(&self) -> i64 {
        self.size.1
    }

    /// Number of factors, size and type, as the library tells them.
    pub fn layout(&self) -> Result<KroneckerLayout> {
        let ([mut count, mut rows, mut cols], mut data_type) = ([0; 3], sys::magicubeDataType(0));
        let (n, r, c, t) = (&mut count, &mut rows, &mut cols, &mut data_type);
        // SAFETY: the descriptor is valid; all places outlive the call.
        check(unsafe { sys::magicubeKroneckerGet(self.raw, n, r, c, t) })?;
        Ok(KroneckerLayout { count, rows, cols, data_type: DataType::from_raw(data_type.0) })
    }

    /// The shape of a factor, as the library tells it.
    pub fn shape(&self, index: i64) -> Result<KroneckerShape> {
        let mut shape = sys::magicubeKroneckerShape::default();
        // SAFETY: the descriptor is valid; shape outlives the call; values may be null.
        check(unsafe {
            sys::magicubeKroneckerGetFactor(self.raw, index, &mut shape, ptr::null_mut())
        })?;
        Ok(KroneckerShape::of(shape))
    }

    /// What factors `index` and `index + 1` are to one another.
    pub fn pair(&self, index: i64) -> Result<KroneckerPair> {
        let (mut chainable, mut rank, mut redundant) = (0, 0, 0);
        let (c, r, d) = (&mut chainable, &mut rank, &mut redundant);
        // SAFETY: the descriptor is valid; all places outlive the call.
        check(unsafe { sys::magicubeKroneckerGetPair(self.raw, index, c, r, d) })?;
        Ok(KroneckerPair { chainable: chainable != 0, rank, redundant: redundant != 0 })
    }

    /// The shape of the product as one factor; an error where neighbours are not chainable.
    pub fn product_shape(&self) -> Result<KroneckerShape> {
        let mut shape = sys::magicubeKroneckerShape::default();
        // SAFETY: the descriptor is valid; shape outlives the call.
        check(unsafe { sys::magicubeKroneckerProductShape(self.raw, &mut shape) })?;
        Ok(KroneckerShape::of(shape))
    }

    /// Points a factor at other values of the same shape and type.
    pub fn set_values<T: Element>(
        &mut self,
        index: usize,
        values: impl Memory<'a, T>,
    ) -> Result<()> {
        self.replace(index, T::DATA_TYPE, part_of(values.view()), |raw, index, values| {
            // SAFETY: the descriptor is valid, and enough values are borrowed.
            unsafe { sys::magicubeConstKroneckerSetValues(raw, index, values) }
        })
    }

    fn replace(
        &mut self,
        index: usize,
        given: DataType,
        part: Part,
        set: impl FnOnce(Raw, i64, *const c_void) -> sys::magicubeStatus,
    ) -> Result<()> {
        let holds = self.data_type;
        if given != holds {
            return Err(Error::invalid(format!("values is {given}; the chain is {holds}")));
        }
        if let Some(&shape) = self.shapes.get(index) {
            require_values(index, shape, part.len)?;
        }
        check(set(self.raw, i64::try_from(index).unwrap_or(i64::MAX), part.pointer))?;
        self.values[index] = Some(part);
        Ok(())
    }

    /// The descriptor, for a call on a handle.
    pub(crate) fn lend(
        &self,
        handle: &Handle,
        argument: &str,
    ) -> Result<sys::magicubeConstKroneckerDescr_t> {
        for part in self.values.iter().flatten() {
            handle.require(argument, part.location)?;
        }
        Ok(self.raw)
    }
}

impl Drop for Kronecker<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this object's.
        unsafe { sys::magicubeDestroyKronecker(self.raw) };
    }
}

/// A factor or chain whose values calls write. It borrows them exclusively and can be read wherever
/// a [`Kronecker`] can.
#[derive(Debug)]
pub struct KroneckerMut<'a>(Kronecker<'a>);

impl<'a> KroneckerMut<'a> {
    /// One factor.
    pub fn factor<T: Element>(
        shape: KroneckerShape,
        values: impl MemoryMut<'a, T>,
    ) -> Result<Self> {
        let part = part_of_mut(values.view_mut());
        Kronecker::make_factor(shape, T::DATA_TYPE, Some(part), true).map(Self)
    }

    /// The product of factors, leftmost first, with the values of each.
    pub fn chain<T: Element>(factors: Vec<(KroneckerShape, ViewMut<'a, T>)>) -> Result<Self> {
        let shapes = factors.iter().map(|(shape, _)| *shape).collect();
        let values = factors.into_iter().map(|(_, view)| Some(part_of_mut(view))).collect();
        Kronecker::make_chain(shapes, T::DATA_TYPE, values, true).map(Self)
    }

    /// Points a factor at other values of the same shape and type.
    pub fn set_values<T: Element>(
        &mut self,
        index: usize,
        values: impl MemoryMut<'a, T>,
    ) -> Result<()> {
        let part = part_of_mut(values.view_mut());
        self.0.replace(index, T::DATA_TYPE, part, |raw, index, values| {
            // SAFETY: the descriptor was made as a mutable one, and enough values are borrowed.
            unsafe { sys::magicubeKroneckerSetValues(raw.cast_mut(), index, values.cast_mut()) }
        })
    }

    pub(crate) fn lend_mut(
        &mut self,
        handle: &Handle,
        argument: &str,
    ) -> Result<sys::magicubeKroneckerDescr_t> {
        self.0.lend(handle, argument).map(<*const _>::cast_mut)
    }

    /// Writes `scale * [[1, 1], [1, -1]]` into every block of a chain of 2 x 2 blocks.
    pub fn fill_hadamard(&mut self, handle: &Handle, scale: f32) -> Result<()> {
        let chain = self.lend_mut(handle, "chain")?;
        // SAFETY: handle, descriptor and values are valid.
        check(unsafe { sys::magicubeKroneckerFillHadamard(handle.raw(), chain, scale) })
    }

    /// The values of one factor from a dense matrix, whose other elements must be 0.
    pub fn set_from_dense(&mut self, handle: &Handle, dense: &Dense<'_>) -> Result<()> {
        let (dense, target) = (dense.lend(handle, "dense")?, self.lend_mut(handle, "target")?);
        // SAFETY: handle, descriptors and what they borrow are valid.
        check(unsafe { sys::magicubeDenseToKronecker(handle.raw(), dense, target) })
    }

    /// The values of one factor from a CSR matrix, whose other elements must be 0.
    pub fn set_from_csr(&mut self, handle: &Handle, source: &Sparse<'_>) -> Result<()> {
        let (source, target) = (source.lend(handle, "source")?, self.lend_mut(handle, "target")?);
        // SAFETY: as above.
        check(unsafe { sys::magicubeCsrToKronecker(handle.raw(), source, target) })
    }

    /// The product of a chain as one factor of the shape that [`Kronecker::product_shape`] tells.
    pub fn set_to_product(&mut self, handle: &Handle, chain: &Kronecker<'_>) -> Result<()> {
        let (chain, product) = (chain.lend(handle, "chain")?, self.lend_mut(handle, "product")?);
        // SAFETY: as above.
        check(unsafe { sys::magicubeKroneckerMultiply(handle.raw(), chain, product) })
    }

    /// The gradient of one factor's values, from X and the derivative of a loss by Y.
    pub fn set_to_gradient(
        &mut self,
        handle: &Handle,
        x: &Dense<'_>,
        dy: &Dense<'_>,
        layout: BatchLayout,
    ) -> Result<()> {
        let (x, dy) = (x.lend(handle, "X")?, dy.lend(handle, "dY")?);
        let gradient = self.lend_mut(handle, "gradient")?;
        // SAFETY: as above.
        check(unsafe {
            sys::magicubeKroneckerGradient(handle.raw(), x, dy, layout.sys(), gradient)
        })
    }
}

impl<'a> Deref for KroneckerMut<'a> {
    type Target = Kronecker<'a>;

    fn deref(&self) -> &Kronecker<'a> {
        &self.0
    }
}

/// The factors of the dyadic butterfly of size 2^`log2_size`.
pub fn butterfly_shapes(log2_size: i64) -> Result<Vec<KroneckerShape>> {
    let mut count = 0;
    // SAFETY: nothing is written where there is room for nothing.
    check(unsafe {
        sys::magicubeKroneckerButterflyShapes(log2_size, ptr::null_mut(), 0, &mut count)
    })?;
    let length = usize::try_from(count).unwrap_or(0);
    let mut shapes = vec![sys::magicubeKroneckerShape::default(); length];
    // SAFETY: there is room for count shapes.
    check(unsafe {
        let to = shapes.as_mut_ptr();
        sys::magicubeKroneckerButterflyShapes(log2_size, to, count, &mut count)
    })?;
    Ok(shapes.into_iter().map(KroneckerShape::of).collect())
}

/// The two factors of a Monarch matrix of `(rows, cols)`.
pub fn monarch_shapes(
    (rows, cols): (i64, i64),
    blocks: i64,
    step: i64,
    rank: i64,
) -> Result<[KroneckerShape; 2]> {
    let mut shapes = [sys::magicubeKroneckerShape::default(); 2];
    // SAFETY: there is room for two shapes.
    check(unsafe {
        let to = shapes.as_mut_ptr();
        sys::magicubeKroneckerMonarchShapes(rows, cols, blocks, step, rank, to)
    })?;
    Ok(shapes.map(KroneckerShape::of))
}

/// A factor or chain as a dense matrix.
pub fn to_dense(handle: &Handle, source: &Kronecker<'_>, dense: &mut DenseMut<'_>) -> Result<()> {
    let (source, dense) = (source.lend(handle, "source")?, dense.lend_mut(handle, "dense")?);
    // SAFETY: handle, descriptors and what they borrow are valid.
    check(unsafe { sys::magicubeKroneckerToDense(handle.raw(), source, dense) })
}

/// One factor as CSR with all its entries, zeros included.
pub fn to_csr<T: Element, I: Index>(
    handle: &Handle,
    source: &Kronecker<'_>,
    pattern_only: bool,
) -> Result<Compressed<T, I>> {
    let raw = source.lend(handle, "source")?;
    let [factor] = source.shapes[..] else {
        return Err(Error::invalid("source is a chain; CSR is made of one factor"));
    };
    let too_large = |_| Error::invalid("the factor is too large");
    let entries = usize::try_from(factor.values()).map_err(too_large)?;
    let rows = usize::try_from(source.rows()).map_err(too_large)?;
    let mut offsets = DeviceBuffer::<I>::zeroed(handle, rows + 1)?;
    let mut col_indices = DeviceBuffer::<i32>::zeroed(handle, entries)?;
    let mut values = (!pattern_only)
        .then(|| DeviceBuffer::<T>::zeroed(handle, entries.div_ceil(T::PACKED)))
        .transpose()?;
    let to = values.as_mut().map_or(ptr::null_mut(), |values| pointer(values).cast());
    let (at, columns) = (pointer(&mut offsets).cast(), pointer(&mut col_indices));
    let (index, data) = (I::INDEX_TYPE.sys(), T::DATA_TYPE.sys());
    // SAFETY: handle and descriptor are valid, and the arrays as long as the shape says.
    check(unsafe { sys::magicubeKroneckerToCsr(handle.raw(), raw, index, at, columns, to, data) })?;
    let shape = (source.rows(), source.cols());
    Ok(Compressed { shape, blocks: None, offsets, col_indices, values })
}
