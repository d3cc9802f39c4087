// SPDX-License-Identifier: Apache-2.0
//! SpMM: C = act(scale * (A * B) + beta * C + bias) with A sparse, B and C dense.

use std::ffi::c_void;
use std::ops::RangeInclusive;

use magicube_sys as sys;

use crate::dense::{Dense, DenseMut};
use crate::handle::{Device, Handle};
use crate::memory::{Memory, View, Workspace};
use crate::plan::{arrays, lend_array, lend_scalar, list_names, operation, setters};
use crate::plan::{Name, RawPlan, Scalar, Summands};
use crate::sparse::{require_len, Part, Shape, Sparse};
use crate::status::{check, Error, Result};
use crate::types::{Activation, DataType, Element, Granularity, Order, SparseFormat, ValueMode};

/// What an SpMM plan is made for.
#[derive(Clone, Debug)]
pub struct SpmmProblem<'p> {
    a: &'p Sparse<'p>,
    b: (DataType, Order),
    c: (DataType, Order),
    n: RangeInclusive<i64>,
    implementation: Option<&'p str>,
    activation: Activation,
    shape: SpmmShape,
}

#[derive(Clone, Copy, Debug)]
struct SpmmShape {
    a: Shape,
    a_type: DataType,
    batch: i64,
    a_scale: Summands,
    b_scale: Summands,
    bias: Summands,
    c_scale: Summands,
    value_mode: ValueMode,
}

impl<'p> SpmmProblem<'p> {
    /// Of `a` (SR-BCRS, CSR or V:N:M) with B of int8 and C of fp32, both row-major, one column, no
    /// scales.
    pub fn new(a: &'p Sparse<'p>) -> Self {
        let none = Summands::NONE;
        let shape = SpmmShape {
            a: a.state.shape,
            a_type: a.state.values.data_type,
            batch: 1,
            a_scale: none,
            b_scale: none,
            bias: none,
            c_scale: none,
            value_mode: ValueMode::Fixed,
        };
        Self {
            a,
            b: (DataType::Int8, Order::Row),
            c: (DataType::Fp32, Order::Row),
            n: 1..=1,
            implementation: None,
            activation: Activation::None,
            shape,
        }
    }

    setters! {
        /// Type of B.
        b_type: DataType = b.0;
        /// Storage order of B.
        b_order: Order = b.1;
        /// Type of C.
        c_type: DataType = c.0;
        /// Storage order of C.
        c_order: Order = c.1;
        /// The columns that executions may have.
        n: RangeInclusive<i64> = n;
        /// Matrices in B and C; A has as many, or one that serves all.
        batch_count: i64 = shape.batch;
        /// Scales of A: none, one, or one a row.
        a_scale: Granularity = shape.a_scale.per;
        /// Scales of B: none, one, or one a column.
        b_scale: Granularity = shape.b_scale.per;
        /// A summand a row, or none.
        bias: Granularity = shape.bias.per;
        /// A scale of C, or none; for C of int8.
        c_scale: Granularity = shape.c_scale.per;
        /// Elements between the scales of A in a batch; 0: shared.
        a_scale_batch_stride: i64 = shape.a_scale.batch_stride;
        /// Elements between the scales of B in a batch; 0: shared.
        b_scale_batch_stride: i64 = shape.b_scale.batch_stride;
        /// Elements between the biases of a batch; 0: shared.
        bias_batch_stride: i64 = shape.bias.batch_stride;
        /// Elements between the scales of C in a batch; 0: shared.
        c_scale_batch_stride: i64 = shape.c_scale.batch_stride;
        /// The activation.
        activation: Activation = activation;
        /// How the plan treats A's values.
        value_mode: ValueMode = shape.value_mode;
    }

    /// One implementation by name, of those that [`SpmmProblem::implementations`] lists.
    pub fn implementation(self, name: &'p str) -> Self {
        Self { implementation: Some(name), ..self }
    }

    /// Names of a device's implementations for an A of a format, the reference last.
    pub fn implementations_for(device: Device, format: SparseFormat) -> Result<Vec<&'static str>> {
        // SAFETY: the function writes at most `capacity` names.
        list_names(|names, capacity, count| unsafe {
            let (device, format) = (device.sys(), format.sys());
            sys::magicubeSpMM_listFormatImplementations(device, format, names, capacity, count)
        })
    }

    fn lend(&self, handle: &Handle, name: &Name) -> Result<sys::magicubeSpMMProblem> {
        let shape = &self.shape;
        Ok(sys::magicubeSpMMProblem {
            struct_size: size_of::<sys::magicubeSpMMProblem>(),
            A: self.a.lend(handle, "A")?,
            b_type: self.b.0.sys(),
            b_order: self.b.1.sys(),
            c_type: self.c.0.sys(),
            c_order: self.c.1.sys(),
            n_min: *self.n.start(),
            n_max: *self.n.end(),
            batch_count: shape.batch,
            a_scale: shape.a_scale.per.sys(),
            b_scale: shape.b_scale.per.sys(),
            bias: shape.bias.per.sys(),
            c_scale: shape.c_scale.per.sys(),
            a_scale_batch_stride: shape.a_scale.batch_stride,
            b_scale_batch_stride: shape.b_scale.batch_stride,
            bias_batch_stride: shape.bias.batch_stride,
            c_scale_batch_stride: shape.c_scale.batch_stride,
            activation: self.activation.sys(),
            value_mode: shape.value_mode.sys(),
            implementation: name.pointer(),
        })
    }

    fn shape(&self) -> SpmmShape {
        self.shape
    }
}

/// Scalars and arrays of one execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpmmArgs<'a> {
    alpha: Option<Scalar<'a>>,
    beta: Option<Scalar<'a>>,
    a_values: Option<(DataType, Part)>,
    a_scale: Option<View<'a, f32>>,
    b_scale: Option<View<'a, f32>>,
    bias: Option<View<'a, f32>>,
    c_scale: Option<View<'a, f32>>,
}

impl<'a> SpmmArgs<'a> {
    /// alpha 1, beta 0, no arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Factor of the product.
    pub fn alpha(self, alpha: impl Into<Scalar<'a>>) -> Self {
        Self { alpha: Some(alpha.into()), ..self }
    }

    /// Factor of what C holds; with 0 it is not read.
    pub fn beta(self, beta: impl Into<Scalar<'a>>) -> Self {
        Self { beta: Some(beta.into()), ..self }
    }

    /// A's values, for plans of [`ValueMode::PerCall`].
    pub fn a_values<T: Element>(self, values: impl Memory<'a, T>) -> Self {
        let mut part = Part::of(values.view());
        part.len = part.len.saturating_mul(T::PACKED);
        Self { a_values: Some((T::DATA_TYPE, part)), ..self }
    }

    arrays! {
        /// Scales of A.
        a_scale: f32;
        /// Scales of B.
        b_scale: f32;
        /// Bias.
        bias: f32;
        /// Scale of C.
        c_scale: f32;
    }
}

/// A packed sparse matrix and the kernel chosen for it. Threads share it.
///
/// ```
/// use magicube::{DataType, Dense, DenseMut, Handle, Sparse, SpmmArgs, SpmmPlan, SpmmProblem};
/// let handle = Handle::cpu()?;
/// let a = Sparse::csr(2, 3, &[0i64, 2, 3], &[0, 2, 1], &[1i8, 2, 3])?;
/// let problem = SpmmProblem::new(&a).c_type(DataType::Int32).n(1..=8);
/// let plan = SpmmPlan::new(&handle, &problem)?;
/// let b = [1i8, 2, 3, 4, 5, 6];
/// let mut c = [0i32; 4];
/// let mut workspace = plan.workspace()?;
/// plan.execute(
///     &handle,
///     &Dense::new(&b, 3, 2)?,
///     &mut DenseMut::new(&mut c, 2, 2)?,
///     &SpmmArgs::new(),
///     &mut workspace,
/// )?;
/// assert_eq!(c, [11, 14, 9, 12]);
/// # Ok::<(), magicube::Error>(())
/// ```
///
/// ```
/// fn shared<T: Send + Sync>() {}
/// shared::<magicube::SpmmPlan<'static>>();
/// ```
pub struct SpmmPlan<'b> {
    plan: RawPlan<'b, Spmm>,
    shape: SpmmShape,
}

operation!(
    Spmm,
    SpmmProblem,
    SpmmPlan,
    SpmmShape,
    magicubeSpMMProblem,
    magicubeSpMMPlan,
    [
        magicubeSpMM_isSupported,
        magicubeSpMM_bufferSize,
        magicubeSpMM_createPlan,
        magicubeSpMM_destroyPlan,
        magicubeSpMM_planInfo,
        magicubeSpMM_listImplementations
    ]
);

impl SpmmPlan<'_> {
    fn lend_values(&self, handle: &Handle, values: DataType, part: &Part) -> Result<*const c_void> {
        handle.require("a_values", part.location)?;
        if values != self.shape.a_type {
            let holds = self.shape.a_type;
            return Err(Error::invalid(format!("a_values is {values}; the plan's A is {holds}")));
        }
        let a = &self.shape.a;
        require_len("a_values", part.len, a.value_extent(a.batch, a.values_stride))?;
        Ok(part.pointer)
    }

    /// Multiplies. On CUDA it returns before the work is done.
    pub fn execute(
        &self,
        handle: &Handle,
        b: &Dense<'_>,
        c: &mut DenseMut<'_>,
        args: &SpmmArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        let (rows, cols, batch) = (shape.a.rows, c.cols(), shape.batch);
        let raw = sys::magicubeSpMMArgs {
            struct_size: size_of::<sys::magicubeSpMMArgs>(),
            a_values: match &args.a_values {
                Some((data_type, part)) => self.lend_values(handle, *data_type, part)?,
                None => std::ptr::null(),
            },
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
            bias: lend_array(&args.bias, handle, "bias", shape.bias.needed(rows, batch))?,
            c_scale: lend_array(
                &args.c_scale,
                handle,
                "c_scale",
                shape.c_scale.needed(rows, batch),
            )?,
        };
        let alpha = lend_scalar(&args.alpha, handle, "alpha")?;
        let beta = lend_scalar(&args.beta, handle, "beta")?;
        let (b, c) = (b.lend(handle, "B")?, c.lend_mut(handle, "C")?);
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle, plan and descriptors are valid; every array is borrowed, on the handle's
        // device and as long as the plan says; C and the scratch are borrowed exclusively.
        check(unsafe {
            let (h, plan) = (handle.raw(), self.plan.raw);
            sys::magicubeSpMM(h, plan, alpha, b, beta, c, &raw, scratch, bytes)
        })
    }

    /// Repacks new values of the same pattern, in A's layout, for plans of
    /// [`ValueMode::Updatable`], in the order of the handle's stream.
    pub fn update_values<'v, T: Element>(
        &mut self,
        handle: &Handle,
        values: impl Memory<'v, T>,
    ) -> Result<()> {
        let mut part = Part::of(values.view());
        part.len = part.len.saturating_mul(T::PACKED);
        let values = self.lend_values(handle, T::DATA_TYPE, &part)?;
        // SAFETY: handle and plan are valid; the values are as many as A stores.
        check(unsafe { sys::magicubeSpMM_updateValues(handle.raw(), self.plan.raw, values) })
    }
}
