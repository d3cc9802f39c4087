// SPDX-License-Identifier: Apache-2.0
//! Products of Kronecker-sparse factors and chains with many vectors at once.

use std::ffi::c_void;
use std::ops::RangeInclusive;
use std::ptr;

use magicube_sys as sys;

use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::kronecker::{require_values, Kronecker, KroneckerShape};
use crate::memory::{View, Workspace};
use crate::plan::{arrays, lend_array, lend_scalar, operation, setters};
use crate::plan::{Name, RawPlan, Scalar, Summands};
use crate::sparse::Part;
use crate::status::{abi_enum, check, Error, Result};
use crate::types::{Activation, DataType, Element, Granularity, Order, ValueMode};

abi_enum! {
    /// Which axis of X and Y counts vectors.
    BatchLayout = magicubeBatchLayout {
        /// Rows are vectors.
        First = MAGICUBE_BATCH_FIRST,
        /// Columns are vectors.
        Last = MAGICUBE_BATCH_LAST,
    }
}

/// What a plan of a Kronecker-sparse product is made for.
#[derive(Clone, Debug)]
pub struct KroneckerMmProblem<'p> {
    k: &'p Kronecker<'p>,
    x_order: Order,
    y: (DataType, Order),
    n: RangeInclusive<i64>,
    activation: Activation,
    implementation: Option<&'p str>,
    shape: KroneckerMmShape,
}

#[derive(Clone, Debug)]
struct KroneckerMmShape {
    factors: Vec<KroneckerShape>,
    data_type: DataType,
    size: (i64, i64),
    transpose: bool,
    layout: BatchLayout,
    batch: i64,
    k_scale: Summands,
    x_scale: Summands,
    bias: Summands,
    y_scale: Summands,
    value_mode: ValueMode,
}

impl<'p> KroneckerMmProblem<'p> {
    /// Of `k`, batch first, X and Y row-major, Y of fp32, one vector, no scales.
    pub fn new(k: &'p Kronecker<'p>) -> Self {
        let none = Summands::NONE;
        let shape = KroneckerMmShape {
            factors: k.shapes.clone(),
            data_type: k.data_type,
            size: (k.rows(), k.cols()),
            transpose: false,
            layout: BatchLayout::First,
            batch: 1,
            k_scale: none,
            x_scale: none,
            bias: none,
            y_scale: none,
            value_mode: ValueMode::Fixed,
        };
        Self {
            k,
            x_order: Order::Row,
            y: (DataType::Fp32, Order::Row),
            n: 1..=1,
            activation: Activation::None,
            implementation: None,
            shape,
        }
    }

    setters! {
        /// Whether K's transpose stands in its place.
        transpose: bool = shape.transpose;
        /// Which axis of X and Y counts vectors.
        layout: BatchLayout = shape.layout;
        /// Storage order of X.
        x_order: Order = x_order;
        /// Type of Y.
        y_type: DataType = y.0;
        /// Storage order of Y.
        y_order: Order = y.1;
        /// The numbers of vectors that executions may have.
        n: RangeInclusive<i64> = n;
        /// Matrices in X and Y.
        batch_count: i64 = shape.batch;
        /// Scales of K: none, one, or one a feature of Y.
        k_scale: Granularity = shape.k_scale.per;
        /// Scales of X: none, one, or one a vector.
        x_scale: Granularity = shape.x_scale.per;
        /// A summand a feature of Y, or none.
        bias: Granularity = shape.bias.per;
        /// A scale of Y, or none; for Y of int8.
        y_scale: Granularity = shape.y_scale.per;
        /// Elements between the scales of K in a batch; 0: shared.
        k_scale_batch_stride: i64 = shape.k_scale.batch_stride;
        /// Elements between the scales of X in a batch; 0: shared.
        x_scale_batch_stride: i64 = shape.x_scale.batch_stride;
        /// Elements between the biases of a batch; 0: shared.
        bias_batch_stride: i64 = shape.bias.batch_stride;
        /// Elements between the scales of Y in a batch; 0: shared.
        y_scale_batch_stride: i64 = shape.y_scale.batch_stride;
        /// The activation.
        activation: Activation = activation;
        /// How the plan treats K's values.
        value_mode: ValueMode = shape.value_mode;
    }

    /// One implementation by name, of those that [`KroneckerMmProblem::implementations`] lists.
    pub fn implementation(self, name: &'p str) -> Self {
        Self { implementation: Some(name), ..self }
    }

    fn lend(&self, handle: &Handle, name: &Name) -> Result<sys::magicubeKroneckerMMProblem> {
        let shape = &self.shape;
        Ok(sys::magicubeKroneckerMMProblem {
            struct_size: size_of::<sys::magicubeKroneckerMMProblem>(),
            K: self.k.lend(handle, "K")?,
            transpose: shape.transpose.into(),
            layout: shape.layout.sys(),
            x_order: self.x_order.sys(),
            y_type: self.y.0.sys(),
            y_order: self.y.1.sys(),
            n_min: *self.n.start(),
            n_max: *self.n.end(),
            batch_count: shape.batch,
            k_scale: shape.k_scale.per.sys(),
            x_scale: shape.x_scale.per.sys(),
            bias: shape.bias.per.sys(),
            y_scale: shape.y_scale.per.sys(),
            k_scale_batch_stride: shape.k_scale.batch_stride,
            x_scale_batch_stride: shape.x_scale.batch_stride,
            bias_batch_stride: shape.bias.batch_stride,
            y_scale_batch_stride: shape.y_scale.batch_stride,
            activation: self.activation.sys(),
            value_mode: shape.value_mode.sys(),
            implementation: name.pointer(),
        })
    }

    fn shape(&self) -> KroneckerMmShape {
        self.shape.clone()
    }
}

/// Scalars and arrays of one execution.
#[derive(Clone, Debug, Default)]
pub struct KroneckerMmArgs<'a> {
    alpha: Option<Scalar<'a>>,
    beta: Option<Scalar<'a>>,
    k_values: Option<Factors>,
    k_scale: Option<View<'a, f32>>,
    x_scale: Option<View<'a, f32>>,
    bias: Option<View<'a, f32>>,
    y_scale: Option<View<'a, f32>>,
}

/// Values of every factor of a chain.
#[derive(Clone, Debug)]
struct Factors {
    data_type: DataType,
    parts: Vec<Part>,
    pointers: Vec<*const c_void>,
}

impl Factors {
    fn new<T: Element>(values: &[View<'_, T>]) -> Self {
        let parts: Vec<Part> = values
            .iter()
            .map(|view| Part { len: view.len.saturating_mul(T::PACKED), ..Part::of(*view) })
            .collect();
        let pointers = parts.iter().map(|part| part.pointer).collect();
        Self { data_type: T::DATA_TYPE, parts, pointers }
    }

    /// The list of pointers for a call, valid as long as `self`.
    fn lend(&self, handle: &Handle, shape: &KroneckerMmShape) -> Result<*const *const c_void> {
        let (given, holds) = (self.data_type, shape.data_type);
        if given != holds {
            return Err(Error::invalid(format!("k_values is {given}; the plan's K is {holds}")));
        }
        let (given, holds) = (self.parts.len(), shape.factors.len());
        if given != holds {
            let text = format!("k_values holds {given} arrays; the plan's K has {holds} factors");
            return Err(Error::invalid(text));
        }
        for (index, (part, factor)) in self.parts.iter().zip(&shape.factors).enumerate() {
            handle.require("k_values", part.location)?;
            require_values(index, *factor, part.len)?;
        }
        Ok(self.pointers.as_ptr())
    }
}

impl<'a> KroneckerMmArgs<'a> {
    /// alpha 1, beta 0, no arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Factor of the product.
    pub fn alpha(self, alpha: impl Into<Scalar<'a>>) -> Self {
        Self { alpha: Some(alpha.into()), ..self }
    }

    /// Factor of what Y holds; with 0 it is not read.
    pub fn beta(self, beta: impl Into<Scalar<'a>>) -> Self {
        Self { beta: Some(beta.into()), ..self }
    }

    /// The values of every factor, for plans of [`ValueMode::PerCall`].
    pub fn k_values<T: Element>(self, values: &[View<'a, T>]) -> Self {
        Self { k_values: Some(Factors::new(values)), ..self }
    }

    arrays! {
        /// Scales of K.
        k_scale: f32;
        /// Scales of X.
        x_scale: f32;
        /// Bias.
        bias: f32;
        /// Scale of Y.
        y_scale: f32;
    }
}

/// A packed factor or chain and the kernel chosen for it. Threads share it.
pub struct KroneckerMmPlan<'b> {
    plan: RawPlan<'b, KroneckerMm>,
    shape: KroneckerMmShape,
}

operation!(
    KroneckerMm,
    KroneckerMmProblem,
    KroneckerMmPlan,
    KroneckerMmShape,
    magicubeKroneckerMMProblem,
    magicubeKroneckerMMPlan,
    [
        magicubeKroneckerMM_isSupported,
        magicubeKroneckerMM_bufferSize,
        magicubeKroneckerMM_createPlan,
        magicubeKroneckerMM_destroyPlan,
        magicubeKroneckerMM_planInfo,
        magicubeKroneckerMM_listImplementations
    ]
);

impl KroneckerMmPlan<'_> {
    /// Multiplies.
    pub fn execute(
        &self,
        handle: &Handle,
        x: &Dense<'_>,
        y: &mut DenseMut<'_>,
        args: &KroneckerMmArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        let features = if shape.transpose { shape.size.1 } else { shape.size.0 };
        let vectors = if shape.layout == BatchLayout::First { y.rows() } else { y.cols() };
        let batch = shape.batch;
        let (k_needed, x_needed) =
            (shape.k_scale.needed(features, batch), shape.x_scale.needed(vectors, batch));
        let (bias_needed, y_needed) =
            (shape.bias.needed(features, batch), shape.y_scale.needed(features, batch));
        let raw = sys::magicubeKroneckerMMArgs {
            struct_size: size_of::<sys::magicubeKroneckerMMArgs>(),
            k_values: match &args.k_values {
                Some(values) => values.lend(handle, shape)?,
                None => ptr::null(),
            },
            k_scale: lend_array(&args.k_scale, handle, "k_scale", k_needed)?,
            x_scale: lend_array(&args.x_scale, handle, "x_scale", x_needed)?,
            bias: lend_array(&args.bias, handle, "bias", bias_needed)?,
            y_scale: lend_array(&args.y_scale, handle, "y_scale", y_needed)?,
        };
        let alpha = lend_scalar(&args.alpha, handle, "alpha")?;
        let beta = lend_scalar(&args.beta, handle, "beta")?;
        let (x, y) = (x.lend(handle, "X")?, y.lend_mut(handle, "Y")?);
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle, plan and descriptors are valid; every array is borrowed, on the handle's
        // device and as long as the plan says; Y and the scratch are borrowed exclusively.
        check(unsafe {
            let (h, plan) = (handle.raw(), self.plan.raw);
            sys::magicubeKroneckerMM(h, plan, alpha, x, beta, y, &raw, scratch, bytes)
        })
    }

    /// Repacks new values of every factor, for plans of [`ValueMode::Updatable`].
    pub fn update_values<T: Element>(
        &mut self,
        handle: &Handle,
        values: &[View<'_, T>],
    ) -> Result<()> {
        let values = Factors::new(values);
        let list = values.lend(handle, &self.shape)?;
        // SAFETY: handle and plan are valid; the list has an array of enough values a factor.
        check(unsafe { sys::magicubeKroneckerMM_updateValues(handle.raw(), self.plan.raw, list) })
    }
}
