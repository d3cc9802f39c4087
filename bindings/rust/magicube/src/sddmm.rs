// SPDX-License-Identifier: Apache-2.0
//! SDDMM: the elements of a dense product at the places of a sparse pattern.

use std::ops::RangeInclusive;

use magicube_sys as sys;

use crate::dense::Dense;
use crate::handle::Handle;
use crate::memory::{MemoryMut, View, Workspace};
use crate::plan::{arrays, lend_array, lend_scalar, operation, setters};
use crate::plan::{Name, RawPlan, Scalar, Summands};
use crate::sparse::{Shape, Sparse};
use crate::status::{check, Result};
use crate::types::{DataType, Element, Granularity, Order};
use crate::values::lend_values_mut;

/// What an SDDMM plan is made for.
#[derive(Clone, Debug)]
pub struct SddmmProblem<'p> {
    pattern: &'p Sparse<'p>,
    a: (DataType, Order),
    b: (DataType, Order),
    k: RangeInclusive<i64>,
    implementation: Option<&'p str>,
    shape: SddmmShape,
}

#[derive(Clone, Copy, Debug)]
struct SddmmShape {
    pattern: Shape,
    out_type: DataType,
    batch: i64,
    out_stride: i64,
    a_scale: Summands,
    b_scale: Summands,
    out_scale: Summands,
}

impl<'p> SddmmProblem<'p> {
    /// At the places of `pattern` (SR-BCRS or CSR), A and B of int8, row-major, values of fp32.
    pub fn new(pattern: &'p Sparse<'p>) -> Self {
        let none = Summands::NONE;
        let shape = SddmmShape {
            pattern: pattern.state.shape,
            out_type: DataType::Fp32,
            batch: 1,
            out_stride: 0,
            a_scale: none,
            b_scale: none,
            out_scale: none,
        };
        let int8 = (DataType::Int8, Order::Row);
        Self { pattern, a: int8, b: int8, k: 1..=1, implementation: None, shape }
    }

    setters! {
        /// Type of A.
        a_type: DataType = a.0;
        /// Storage order of A.
        a_order: Order = a.1;
        /// Type of B.
        b_type: DataType = b.0;
        /// Storage order of B.
        b_order: Order = b.1;
        /// Type of the values written.
        out_type: DataType = shape.out_type;
        /// The inner dimensions that executions may have.
        k: RangeInclusive<i64> = k;
        /// Matrices in A, B and the values.
        batch_count: i64 = shape.batch;
        /// With one pattern: elements between the value arrays; 0: without gaps.
        out_batch_stride: i64 = shape.out_stride;
        /// Scales of A: none, one, or one a row.
        a_scale: Granularity = shape.a_scale.per;
        /// Scales of B: none, one, or one a column.
        b_scale: Granularity = shape.b_scale.per;
        /// A scale of the values, or none; for int16 and int8.
        out_scale: Granularity = shape.out_scale.per;
        /// Elements between the scales of A in a batch; 0: shared.
        a_scale_batch_stride: i64 = shape.a_scale.batch_stride;
        /// Elements between the scales of B in a batch; 0: shared.
        b_scale_batch_stride: i64 = shape.b_scale.batch_stride;
        /// Elements between the scales of the values in a batch; 0: shared.
        out_scale_batch_stride: i64 = shape.out_scale.batch_stride;
    }

    /// One implementation by name, of those that [`SddmmProblem::implementations`] lists.
    pub fn implementation(self, name: &'p str) -> Self {
        Self { implementation: Some(name), ..self }
    }

    fn lend(&self, handle: &Handle, name: &Name) -> Result<sys::magicubeSDDMMProblem> {
        let shape = &self.shape;
        Ok(sys::magicubeSDDMMProblem {
            struct_size: size_of::<sys::magicubeSDDMMProblem>(),
            pattern: self.pattern.lend(handle, "pattern")?,
            a_type: self.a.0.sys(),
            a_order: self.a.1.sys(),
            b_type: self.b.0.sys(),
            b_order: self.b.1.sys(),
            out_type: shape.out_type.sys(),
            k_min: *self.k.start(),
            k_max: *self.k.end(),
            batch_count: shape.batch,
            out_batch_stride: shape.out_stride,
            a_scale: shape.a_scale.per.sys(),
            b_scale: shape.b_scale.per.sys(),
            out_scale: shape.out_scale.per.sys(),
            a_scale_batch_stride: shape.a_scale.batch_stride,
            b_scale_batch_stride: shape.b_scale.batch_stride,
            out_scale_batch_stride: shape.out_scale.batch_stride,
            implementation: name.pointer(),
        })
    }

    fn shape(&self) -> SddmmShape {
        self.shape
    }
}

/// Scalars and arrays of one execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct SddmmArgs<'a> {
    alpha: Option<Scalar<'a>>,
    a_scale: Option<View<'a, f32>>,
    b_scale: Option<View<'a, f32>>,
    out_scale: Option<View<'a, f32>>,
}

impl<'a> SddmmArgs<'a> {
    /// alpha 1, no arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Factor of the product.
    pub fn alpha(self, alpha: impl Into<Scalar<'a>>) -> Self {
        Self { alpha: Some(alpha.into()), ..self }
    }

    arrays! {
        /// Scales of A.
        a_scale: f32;
        /// Scales of B.
        b_scale: f32;
        /// Scale of the values.
        out_scale: f32;
    }
}

/// A pattern and the kernel chosen for it. Threads share it.
pub struct SddmmPlan<'b> {
    plan: RawPlan<'b, Sddmm>,
    shape: SddmmShape,
}

operation!(
    Sddmm,
    SddmmProblem,
    SddmmPlan,
    SddmmShape,
    magicubeSDDMMProblem,
    magicubeSDDMMPlan,
    [
        magicubeSDDMM_isSupported,
        magicubeSDDMM_bufferSize,
        magicubeSDDMM_createPlan,
        magicubeSDDMM_destroyPlan,
        magicubeSDDMM_planInfo,
        magicubeSDDMM_listImplementations
    ]
);

impl SddmmPlan<'_> {
    /// Writes `values` in the pattern's layout. On CUDA it returns before the work is done.
    pub fn execute<'v, T: Element>(
        &self,
        handle: &Handle,
        a: &Dense<'_>,
        b: &Dense<'_>,
        values: impl MemoryMut<'v, T>,
        args: &SddmmArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        let (rows, cols, batch) = (shape.pattern.rows, shape.pattern.cols, shape.batch);
        let raw = sys::magicubeSDDMMArgs {
            struct_size: size_of::<sys::magicubeSDDMMArgs>(),
            a_scale: lend_array(
                &args.a_scale,
                handle,
                "a_scale",
                shape.a_scale.needed(rows, batch),
            )?,
            b_scale: lend_array(
                &args.b_scale,
                handle,
                "b_scale",
                shape.b_scale.needed(cols, batch),
            )?,
            out_scale: lend_array(
                &args.out_scale,
                handle,
                "out_scale",
                shape.out_scale.needed(rows, batch),
            )?,
        };
        let alpha = lend_scalar(&args.alpha, handle, "alpha")?;
        let out = (shape.out_type, batch, shape.out_stride);
        let values = lend_values_mut(handle, "values", values.view_mut(), &shape.pattern, out)?;
        let (a, b) = (a.lend(handle, "A")?, b.lend(handle, "B")?);
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle, plan and descriptors are valid; every array is borrowed, on the handle's
        // device and as long as the plan says; values and scratch are borrowed exclusively.
        check(unsafe {
            let (h, plan) = (handle.raw(), self.plan.raw);
            sys::magicubeSDDMM(h, plan, alpha, a, b, values, &raw, scratch, bytes)
        })
    }
}
