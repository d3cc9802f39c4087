// SPDX-License-Identifier: Apache-2.0
//! Softmax over the existing elements of each row of a sparse matrix.

use std::ffi::c_void;
use std::ptr;

use magicube_sys as sys;

use crate::handle::Handle;
use crate::memory::{Memory, MemoryMut, View, ViewMut, Workspace};
use crate::plan::{arrays, lend_array, lend_scalar, operation, setters, strided};
use crate::plan::{Name, RawPlan, Scalar, Summands};
use crate::sparse::{require_len, wide, Shape, Sparse};
use crate::status::{check, Error, Result};
use crate::types::{DataType, Element, Granularity};
use crate::values::{lend_values, lend_values_mut};

/// What a softmax plan is made for.
#[derive(Clone, Debug)]
pub struct SoftmaxProblem<'p> {
    pattern: &'p Sparse<'p>,
    implementation: Option<&'p str>,
    shape: SoftmaxShape,
}

#[derive(Clone, Copy, Debug)]
struct SoftmaxShape {
    pattern: Shape,
    in_type: DataType,
    out_type: DataType,
    batch: i64,
    in_stride: i64,
    out_stride: i64,
    row_scale: Summands,
    col_scale: Summands,
    bias: bool,
    bias_stride: i64,
    out_scale_stride: i64,
}

impl<'p> SoftmaxProblem<'p> {
    /// Of scores in the layout of `pattern` (SR-BCRS or CSR), fp32 in and out, no scales or bias.
    pub fn new(pattern: &'p Sparse<'p>) -> Self {
        let shape = SoftmaxShape {
            pattern: pattern.state.shape,
            in_type: DataType::Fp32,
            out_type: DataType::Fp32,
            batch: 1,
            in_stride: 0,
            out_stride: 0,
            row_scale: Summands::NONE,
            col_scale: Summands::NONE,
            bias: false,
            bias_stride: 0,
            out_scale_stride: 0,
        };
        Self { pattern, implementation: None, shape }
    }

    setters! {
        /// Type of the scores: fp32, fp16 or int32.
        in_type: DataType = shape.in_type;
        /// Type of the probabilities.
        out_type: DataType = shape.out_type;
        /// Number of matrices.
        batch_count: i64 = shape.batch;
        /// With one pattern: elements between the arrays of scores; 0: without gaps.
        in_batch_stride: i64 = shape.in_stride;
        /// With one pattern: elements between the arrays of probabilities; 0: without gaps.
        out_batch_stride: i64 = shape.out_stride;
        /// Scales of the scores: none, one, or one a row.
        row_scale: Granularity = shape.row_scale.per;
        /// Scales of the scores: none, one, or one a column.
        col_scale: Granularity = shape.col_scale.per;
        /// Whether a summand in the pattern's layout is added to every score.
        bias: bool = shape.bias;
        /// Elements between the row scales of a batch; 0: shared.
        row_scale_batch_stride: i64 = shape.row_scale.batch_stride;
        /// Elements between the column scales of a batch; 0: shared.
        col_scale_batch_stride: i64 = shape.col_scale.batch_stride;
        /// Elements between the biases of a batch; 0: shared.
        bias_batch_stride: i64 = shape.bias_stride;
        /// Elements between the scales of integer probabilities in a batch; 0: without gaps.
        out_scale_batch_stride: i64 = shape.out_scale_stride;
    }

    /// One implementation by name, of those that [`SoftmaxProblem::implementations`] lists.
    pub fn implementation(self, name: &'p str) -> Self {
        Self { implementation: Some(name), ..self }
    }

    fn lend(&self, handle: &Handle, name: &Name) -> Result<sys::magicubeSparseSoftmaxProblem> {
        let shape = &self.shape;
        Ok(sys::magicubeSparseSoftmaxProblem {
            struct_size: size_of::<sys::magicubeSparseSoftmaxProblem>(),
            pattern: self.pattern.lend(handle, "pattern")?,
            in_type: shape.in_type.sys(),
            out_type: shape.out_type.sys(),
            batch_count: shape.batch,
            in_batch_stride: shape.in_stride,
            out_batch_stride: shape.out_stride,
            row_scale: shape.row_scale.per.sys(),
            col_scale: shape.col_scale.per.sys(),
            bias: shape.bias.into(),
            row_scale_batch_stride: shape.row_scale.batch_stride,
            col_scale_batch_stride: shape.col_scale.batch_stride,
            bias_batch_stride: shape.bias_stride,
            out_scale_batch_stride: shape.out_scale_stride,
            implementation: name.pointer(),
        })
    }

    fn shape(&self) -> SoftmaxShape {
        self.shape
    }
}

/// Scalars and arrays of one execution.
#[derive(Debug, Default)]
pub struct SoftmaxArgs<'a> {
    alpha: Option<Scalar<'a>>,
    row_scale: Option<View<'a, f32>>,
    col_scale: Option<View<'a, f32>>,
    bias: Option<View<'a, f32>>,
    out_scale: Option<ViewMut<'a, f32>>,
}

impl<'a> SoftmaxArgs<'a> {
    /// alpha 1, no arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Factor of the scores.
    pub fn alpha(self, alpha: impl Into<Scalar<'a>>) -> Self {
        Self { alpha: Some(alpha.into()), ..self }
    }

    arrays! {
        /// Scales by row.
        row_scale: f32;
        /// Scales by column.
        col_scale: f32;
        /// Summands in the pattern's layout.
        bias: f32;
    }

    /// Receives a scale a row, for integer probabilities.
    pub fn out_scale(self, out_scale: impl MemoryMut<'a, f32>) -> Self {
        Self { out_scale: Some(out_scale.view_mut()), ..self }
    }
}

/// A pattern and the kernel chosen for it. Threads share it.
pub struct SoftmaxPlan<'b> {
    plan: RawPlan<'b, Softmax>,
    shape: SoftmaxShape,
}

operation!(
    Softmax,
    SoftmaxProblem,
    SoftmaxPlan,
    SoftmaxShape,
    magicubeSparseSoftmaxProblem,
    magicubeSparseSoftmaxPlan,
    [
        magicubeSparseSoftmax_isSupported,
        magicubeSparseSoftmax_bufferSize,
        magicubeSparseSoftmax_createPlan,
        magicubeSparseSoftmax_destroyPlan,
        magicubeSparseSoftmax_planInfo,
        magicubeSparseSoftmax_listImplementations
    ]
);

impl SoftmaxPlan<'_> {
    /// Scores to probabilities, both in the pattern's layout. On CUDA it returns before the work is
    /// done.
    pub fn execute<'v, S: Element, P: Element>(
        &self,
        handle: &Handle,
        scores: impl Memory<'v, S>,
        out: impl MemoryMut<'v, P>,
        args: &mut SoftmaxArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        let given = (shape.in_type, shape.batch, shape.in_stride);
        let scores = lend_values(handle, "scores", scores.view(), &shape.pattern, given)?;
        let made = (shape.out_type, shape.batch, shape.out_stride);
        let out = lend_values_mut(handle, "out", out.view_mut(), &shape.pattern, made)?;
        self.call(handle, scores, out, args, workspace)
    }

    /// The same in one array, for plans whose types and strides are the same.
    pub fn execute_in_place<'v, T: Element>(
        &self,
        handle: &Handle,
        values: impl MemoryMut<'v, T>,
        args: &mut SoftmaxArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        if (shape.in_type, shape.in_stride) != (shape.out_type, shape.out_stride) {
            let text = "execute_in_place: the plan's types or strides differ in and out";
            return Err(Error::invalid(text));
        }
        let made = (shape.out_type, shape.batch, shape.out_stride);
        let out = lend_values_mut(handle, "values", values.view_mut(), &shape.pattern, made)?;
        self.call(handle, out, out, args, workspace)
    }

    fn call(
        &self,
        handle: &Handle,
        scores: *const c_void,
        out: *mut c_void,
        args: &mut SoftmaxArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        let (rows, cols, batch) = (shape.pattern.rows, shape.pattern.cols, shape.batch);
        let bias_needed = strided(batch, shape.bias_stride, shape.pattern.stored);
        let out_scale = match &mut args.out_scale {
            Some(view) => {
                handle.require("out_scale", view.location)?;
                let stride =
                    if shape.out_scale_stride == 0 { rows } else { shape.out_scale_stride };
                require_len("out_scale", view.len, strided(batch, stride, wide(rows)))?;
                view.pointer
            }
            None => ptr::null_mut(),
        };
        let (row_needed, col_needed) =
            (shape.row_scale.needed(rows, batch), shape.col_scale.needed(cols, batch));
        let raw = sys::magicubeSparseSoftmaxArgs {
            struct_size: size_of::<sys::magicubeSparseSoftmaxArgs>(),
            row_scale: lend_array(&args.row_scale, handle, "row_scale", row_needed)?,
            col_scale: lend_array(&args.col_scale, handle, "col_scale", col_needed)?,
            bias: lend_array(&args.bias, handle, "bias", bias_needed)?,
            out_scale,
        };
        let alpha = lend_scalar(&args.alpha, handle, "alpha")?;
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle and plan are valid; every array is borrowed, on the handle's device and as
        // long as the plan says; those written are borrowed exclusively.
        check(unsafe {
            let (h, plan) = (handle.raw(), self.plan.raw);
            sys::magicubeSparseSoftmax(h, plan, alpha, scores, out, &raw, scratch, bytes)
        })
    }
}
