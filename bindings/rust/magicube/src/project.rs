// SPDX-License-Identifier: Apache-2.0
//! Projection of a dense matrix onto products of sparse factors of given supports.

use std::ptr;

use magicube_sys as sys;

use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::kronecker::KroneckerMut;
use crate::status::{check, Result};

/// How much the error of each column counts.
#[derive(Clone, Copy, Debug)]
pub enum Weighting<'m, 'a> {
    /// All the same.
    Even,
    /// A positive number each, as a matrix of one row.
    Columns(&'m Dense<'a>),
    /// The root mean square of each feature of a layer's inputs, samples x columns or a batch of
    /// such.
    Activations(&'m Dense<'a>),
}

impl Weighting<'_, '_> {
    fn lend(
        self,
        handle: &Handle,
    ) -> Result<(sys::magicubeConstDnMatDescr_t, sys::magicubeProjectionParams)> {
        use sys::magicubeProjectionWeighting as Kind;
        let (weights, weighting) = match self {
            Self::Even => (None, Kind::MAGICUBE_WEIGHTING_NONE),
            Self::Columns(weights) => (Some(weights), Kind::MAGICUBE_WEIGHTING_COLUMNS),
            Self::Activations(samples) => (Some(samples), Kind::MAGICUBE_WEIGHTING_ACTIVATIONS),
        };
        let raw = weights.map_or(Ok(ptr::null()), |given| given.lend(handle, "weights"))?;
        let struct_size = size_of::<sys::magicubeProjectionParams>();
        Ok((raw, sys::magicubeProjectionParams { struct_size, weighting }))
    }
}

/// How near a projection is. Norms are Frobenius norms of columns times weights, in fp64, before
/// factors are rounded to their type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProjectionReport {
    /// Of the matrix minus the product.
    pub error: f64,
    /// Of the matrix.
    pub norm: f64,
    /// `error / norm`; 0 for a matrix of zeros.
    pub relative_error: f64,
    /// No product of these supports has a smaller error than this.
    pub least_error: f64,
    /// The error is not above this: sqrt(splits) times `least_error`.
    pub bound: f64,
}

fn empty_report() -> sys::magicubeProjectionReport {
    let struct_size = size_of::<sys::magicubeProjectionReport>();
    sys::magicubeProjectionReport { struct_size, ..Default::default() }
}

impl ProjectionReport {
    fn of(raw: &sys::magicubeProjectionReport) -> Self {
        Self {
            error: raw.error,
            norm: raw.norm,
            relative_error: raw.relative_error,
            least_error: raw.least_error,
            bound: raw.bound,
        }
    }
}

/// Writes the values of a chain near `weight`, and tells how near, and what each split into a
/// factor and the rest loses. Two factors are the best there are, L within sqrt(L - 1) of them.
///
/// ```
/// use magicube::kronecker::{KroneckerMut, KroneckerShape};
/// use magicube::{project_chain, Dense, Handle, MemoryMut, Weighting};
/// let handle = Handle::cpu()?;
/// let weight = [1f32, 2., 2., 4.]; // of rank 1
/// let (mut left, mut right) = ([0f32; 2], [0f32; 2]);
/// let mut chain = KroneckerMut::chain(vec![
///     (KroneckerShape::new(1, 2, 1, 1), left.as_mut_slice().view_mut()),
///     (KroneckerShape::new(1, 1, 2, 1), right.as_mut_slice().view_mut()),
/// ])?;
/// let source = Dense::new(&weight, 2, 2)?;
/// let (report, _) = project_chain(&handle, &source, Weighting::Even, &mut chain)?;
/// assert!(report.relative_error < 1e-6);
/// # Ok::<(), magicube::Error>(())
/// ```
pub fn project_chain(
    handle: &Handle,
    weight: &Dense<'_>,
    weighting: Weighting<'_, '_>,
    chain: &mut KroneckerMut<'_>,
) -> Result<(ProjectionReport, Vec<f64>)> {
    let mut step_errors = vec![0.0; (chain.shapes.len() - 1).max(1)];
    let (weights, params) = weighting.lend(handle)?;
    let weight = weight.lend(handle, "weight")?;
    let chain = chain.lend_mut(handle, "chain")?;
    let mut report = empty_report();
    // SAFETY: handle, descriptors and what they borrow are valid; there is room for every split.
    check(unsafe {
        let (h, p, r) = (handle.raw(), &params, &mut report);
        sys::magicubeProjectChain(h, weight, weights, p, chain, r, step_errors.as_mut_ptr())
    })?;
    Ok((ProjectionReport::of(&report), step_errors))
}

/// Writes the best two factors of any two supports near `weight`, where any two rectangles that a
/// column of the left support and the same row of the right one span are disjoint or the same. The
/// supports are of uint8, and of the shapes of `left` and `right`.
pub fn project_supports(
    handle: &Handle,
    weight: &Dense<'_>,
    weighting: Weighting<'_, '_>,
    (left_support, right_support): (&Dense<'_>, &Dense<'_>),
    (left, right): (&mut DenseMut<'_>, &mut DenseMut<'_>),
) -> Result<ProjectionReport> {
    let (weights, params) = weighting.lend(handle)?;
    let weight = weight.lend(handle, "weight")?;
    let first = left_support.lend(handle, "left_support")?;
    let second = right_support.lend(handle, "right_support")?;
    let (left, right) = (left.lend_mut(handle, "left")?, right.lend_mut(handle, "right")?);
    let mut report = empty_report();
    // SAFETY: handle, descriptors and what they borrow are valid.
    check(unsafe {
        let (h, p, r) = (handle.raw(), &params, &mut report);
        sys::magicubeProjectSupports(h, weight, weights, p, first, second, left, right, r)
    })?;
    Ok(ProjectionReport::of(&report))
}
