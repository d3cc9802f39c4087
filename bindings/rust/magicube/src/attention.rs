// SPDX-License-Identifier: Apache-2.0
//! Attention over a sparse pattern.

use std::ptr;

use magicube_sys as sys;

use crate::handle::Handle;
use crate::memory::{Memory, MemoryMut, View, ViewMut, Workspace};
use crate::plan::{arrays, lend_array, lend_scalar, operation, setters};
use crate::plan::{Name, RawPlan, Scalar};
use crate::sparse::{require_len, wide, Sparse};
use crate::status::{abi_enum, check, Error, Result};
use crate::types::{DataType, Element, Granularity};

abi_enum! {
    /// Which heads share a pattern of a batch of patterns.
    AttentionPatterns = magicubeAttentionPatterns {
        /// One for all.
        Shared = MAGICUBE_PATTERNS_SHARED,
        /// Head h has pattern h.
        Head = MAGICUBE_PATTERNS_HEAD,
        /// Matrix b of the batch has pattern b.
        Batch = MAGICUBE_PATTERNS_BATCH,
        /// Head h of matrix b has pattern `b * q_heads + h`.
        BatchHead = MAGICUBE_PATTERNS_BATCH_HEAD,
    }
}

/// Where element (b, h, i, d) lies: at `b * batch + h * head + i * row + d`, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionStrides {
    /// Elements between matrices of the batch; 0: one for all.
    pub batch: i64,
    /// Elements between heads; 0: one for all.
    pub head: i64,
    /// Elements between rows.
    pub row: i64,
}

/// What an attention plan is made for.
#[derive(Clone, Debug)]
pub struct AttentionProblem<'p> {
    pattern: &'p Sparse<'p>,
    patterns: AttentionPatterns,
    causal: bool,
    causal_offset: i64,
    implementation: Option<&'p str>,
    shape: AttentionShape,
}

#[derive(Clone, Copy, Debug)]
struct AttentionShape {
    queries: i64,
    keys: i64,
    in_type: DataType,
    out_type: DataType,
    batch: i64,
    q_heads: i64,
    kv_heads: i64,
    head_dim: i64,
    causal_offsets: bool,
    key_lengths: bool,
    log_sum_exp: bool,
    probability_bits: i32,
    q_scale: Granularity,
    k_scale: Granularity,
    v_scale: Granularity,
}

impl<'p> AttentionProblem<'p> {
    /// Over `pattern` (SR-BCRS or CSR; queries x keys), one fp16 head of 64 elements, not causal.
    pub fn new(pattern: &'p Sparse<'p>) -> Self {
        let shape = AttentionShape {
            queries: pattern.rows(),
            keys: pattern.cols(),
            in_type: DataType::Fp16,
            out_type: DataType::Fp16,
            batch: 1,
            q_heads: 1,
            kv_heads: 1,
            head_dim: 64,
            causal_offsets: false,
            key_lengths: false,
            log_sum_exp: false,
            probability_bits: 0,
            q_scale: Granularity::None,
            k_scale: Granularity::None,
            v_scale: Granularity::None,
        };
        Self {
            pattern,
            patterns: AttentionPatterns::Shared,
            causal: false,
            causal_offset: 0,
            implementation: None,
            shape,
        }
    }

    setters! {
        /// Which heads share a pattern.
        patterns: AttentionPatterns = patterns;
        /// Type of Q, K and V.
        in_type: DataType = shape.in_type;
        /// Type of the result.
        out_type: DataType = shape.out_type;
        /// Number of matrices.
        batch_count: i64 = shape.batch;
        /// Heads of Q, a multiple of those of K and V.
        q_heads: i64 = shape.q_heads;
        /// Heads of K and V.
        kv_heads: i64 = shape.kv_heads;
        /// Elements of a head.
        head_dim: i64 = shape.head_dim;
        /// Whether queries see no key behind their own place.
        causal: bool = causal;
        /// How many keys more than that they see.
        causal_offset: i64 = causal_offset;
        /// Whether every execution brings such a number a matrix of the batch.
        causal_offsets: bool = shape.causal_offsets;
        /// Whether every execution brings a number of keys a matrix of the batch.
        key_lengths: bool = shape.key_lengths;
        /// Whether the log-sum-exp is written as well.
        log_sum_exp: bool = shape.log_sum_exp;
        /// Bits of the softmax where Q, K and V are int8 (16 or 8) or int4 (8 or 4); else 0.
        probability_bits: i32 = shape.probability_bits;
        /// What shares a scale of integers in Q: nothing, all, or each query's own.
        q_scale: Granularity = shape.q_scale;
        /// The same in K: each key's own.
        k_scale: Granularity = shape.k_scale;
        /// The same in V: each feature's own (`Col`).
        v_scale: Granularity = shape.v_scale;
    }

    /// One implementation by name, of those that [`AttentionProblem::implementations`] lists.
    pub fn implementation(self, name: &'p str) -> Self {
        Self { implementation: Some(name), ..self }
    }

    fn lend(&self, handle: &Handle, name: &Name) -> Result<sys::magicubeAttentionProblem> {
        let shape = &self.shape;
        Ok(sys::magicubeAttentionProblem {
            struct_size: size_of::<sys::magicubeAttentionProblem>(),
            pattern: self.pattern.lend(handle, "pattern")?,
            patterns: self.patterns.sys(),
            in_type: shape.in_type.sys(),
            out_type: shape.out_type.sys(),
            batch_count: shape.batch,
            q_heads: shape.q_heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            causal: self.causal.into(),
            causal_offset: self.causal_offset,
            causal_offsets: shape.causal_offsets.into(),
            key_lengths: shape.key_lengths.into(),
            log_sum_exp: shape.log_sum_exp.into(),
            implementation: name.pointer(),
            probability_bits: shape.probability_bits,
            q_scale: shape.q_scale.sys(),
            k_scale: shape.k_scale.sys(),
            v_scale: shape.v_scale.sys(),
        })
    }

    fn shape(&self) -> AttentionShape {
        self.shape
    }
}

/// Q, K and V of one execution.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInputs<'a, T: Element> {
    views: [View<'a, T>; 3],
}

impl<'a, T: Element> AttentionInputs<'a, T> {
    /// Q (batch, q_heads, queries, head_dim), K and V (batch, kv_heads, keys, head_dim).
    pub fn new(q: impl Memory<'a, T>, k: impl Memory<'a, T>, v: impl Memory<'a, T>) -> Self {
        Self { views: [q.view(), k.view(), v.view()] }
    }
}

/// Scalars, strides and arrays of one execution.
#[derive(Debug, Default)]
pub struct AttentionArgs<'a> {
    scale: Option<Scalar<'a>>,
    q_strides: Option<AttentionStrides>,
    k_strides: Option<AttentionStrides>,
    v_strides: Option<AttentionStrides>,
    out_strides: Option<AttentionStrides>,
    causal_offsets: Option<View<'a, i64>>,
    key_lengths: Option<View<'a, i64>>,
    log_sum_exp: Option<ViewMut<'a, f32>>,
    q_scale: Option<View<'a, f32>>,
    k_scale: Option<View<'a, f32>>,
    v_scale: Option<View<'a, f32>>,
}

impl<'a> AttentionArgs<'a> {
    /// Scale 1 / sqrt(head_dim), no gaps, no arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Factor of the scores.
    pub fn scale(self, scale: impl Into<Scalar<'a>>) -> Self {
        Self { scale: Some(scale.into()), ..self }
    }

    /// Layout of Q.
    pub fn q_strides(self, strides: AttentionStrides) -> Self {
        Self { q_strides: Some(strides), ..self }
    }

    /// Layout of K.
    pub fn k_strides(self, strides: AttentionStrides) -> Self {
        Self { k_strides: Some(strides), ..self }
    }

    /// Layout of V.
    pub fn v_strides(self, strides: AttentionStrides) -> Self {
        Self { v_strides: Some(strides), ..self }
    }

    /// Layout of the result.
    pub fn out_strides(self, strides: AttentionStrides) -> Self {
        Self { out_strides: Some(strides), ..self }
    }

    arrays! {
        /// Offsets of the causal rule, one a matrix of the batch.
        causal_offsets: i64;
        /// Keys of each matrix of the batch.
        key_lengths: i64;
        /// Scales of integers in Q: one, or (batch, q_heads, queries).
        q_scale: f32;
        /// Those of K: one, or (batch, kv_heads, keys).
        k_scale: f32;
        /// Those of V: one, or (batch, kv_heads, head_dim).
        v_scale: f32;
    }

    /// Receives the log-sum-exp (batch, q_heads, queries).
    pub fn log_sum_exp(self, log_sum_exp: impl MemoryMut<'a, f32>) -> Self {
        Self { log_sum_exp: Some(log_sum_exp.view_mut()), ..self }
    }
}

/// A pattern and the kernel chosen for it. Threads share it.
pub struct AttentionPlan<'b> {
    plan: RawPlan<'b, Attention>,
    shape: AttentionShape,
}

operation!(
    Attention,
    AttentionProblem,
    AttentionPlan,
    AttentionShape,
    magicubeAttentionProblem,
    magicubeAttentionPlan,
    [
        magicubeAttention_isSupported,
        magicubeAttention_bufferSize,
        magicubeAttention_createPlan,
        magicubeAttention_destroyPlan,
        magicubeAttention_planInfo,
        magicubeAttention_listImplementations
    ]
);

impl AttentionShape {
    /// Elements from the first to the last of a (batch, heads, rows, head_dim) array.
    fn extent(
        &self,
        data_type: DataType,
        heads: i64,
        rows: i64,
        strides: &Option<AttentionStrides>,
    ) -> i128 {
        let [batch, heads, rows, dim] = [self.batch, heads, rows, self.head_dim].map(wide);
        if batch <= 0 || heads <= 0 || rows <= 0 || dim <= 0 {
            return 0;
        }
        match strides {
            None => {
                // Rows of int4 start on bytes.
                let row = if data_type == DataType::Int4 { dim + dim % 2 } else { dim };
                batch.saturating_mul(heads).saturating_mul(rows).saturating_mul(row)
            }
            Some(s) => {
                let [b, h, r] = [s.batch, s.head, s.row].map(wide);
                ((batch - 1) * b).saturating_add((heads - 1) * h).saturating_add((rows - 1) * r)
                    + dim
            }
        }
    }

    /// Elements of an array of scales.
    fn scales(&self, per: Granularity, heads: i64, length: i64) -> i128 {
        let [batch, heads, length] = [self.batch, heads, length].map(|n| wide(n.max(0)));
        match per {
            Granularity::None => 0,
            Granularity::Tensor => batch.min(1),
            _ => batch.saturating_mul(heads).saturating_mul(length),
        }
    }

    fn require<T: Element>(&self, argument: &str, len: usize, needed: i128) -> Result<()> {
        let expected = if argument == "out" { self.out_type } else { self.in_type };
        if T::DATA_TYPE != expected {
            let given = T::DATA_TYPE;
            return Err(Error::invalid(format!("{argument} is {given}; the plan's is {expected}")));
        }
        require_len(argument, len.saturating_mul(T::PACKED), needed)
    }
}

impl AttentionPlan<'_> {
    /// Computes. On CUDA it returns before the work is done.
    pub fn execute<'v, T: Element, O: Element>(
        &self,
        handle: &Handle,
        inputs: &AttentionInputs<'_, T>,
        out: impl MemoryMut<'v, O>,
        args: &mut AttentionArgs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = &self.shape;
        let sizes = [
            ("q", shape.extent(shape.in_type, shape.q_heads, shape.queries, &args.q_strides)),
            ("k", shape.extent(shape.in_type, shape.kv_heads, shape.keys, &args.k_strides)),
            ("v", shape.extent(shape.in_type, shape.kv_heads, shape.keys, &args.v_strides)),
        ];
        for (view, (argument, needed)) in inputs.views.iter().zip(sizes) {
            handle.require(argument, view.location)?;
            shape.require::<T>(argument, view.len, needed)?;
        }
        let out = out.view_mut();
        handle.require("out", out.location)?;
        let needed = shape.extent(shape.out_type, shape.q_heads, shape.queries, &args.out_strides);
        shape.require::<O>("out", out.len, needed)?;
        let strides = |given: Option<AttentionStrides>| {
            given.map(|s| sys::magicubeAttentionStrides {
                batch: s.batch,
                head: s.head,
                row: s.row,
            })
        };
        let [q_strides, k_strides, v_strides, out_strides] =
            [args.q_strides, args.k_strides, args.v_strides, args.out_strides].map(strides);
        fn pointer<S>(strides: &Option<S>) -> *const S {
            strides.as_ref().map_or(ptr::null(), ptr::from_ref)
        }
        let each = wide(shape.batch).max(0);
        let counts = [
            shape.scales(shape.q_scale, shape.q_heads, shape.queries),
            shape.scales(shape.k_scale, shape.kv_heads, shape.keys),
            shape.scales(shape.v_scale, shape.kv_heads, shape.head_dim),
        ];
        let raw = sys::magicubeAttentionArgs {
            struct_size: size_of::<sys::magicubeAttentionArgs>(),
            q_strides: pointer(&q_strides),
            k_strides: pointer(&k_strides),
            v_strides: pointer(&v_strides),
            out_strides: pointer(&out_strides),
            causal_offsets: lend_array(&args.causal_offsets, handle, "causal_offsets", each)?,
            key_lengths: lend_array(&args.key_lengths, handle, "key_lengths", each)?,
            log_sum_exp: self.lend_log_sum_exp(handle, args)?,
            q_scale: lend_array(&args.q_scale, handle, "q_scale", counts[0])?,
            k_scale: lend_array(&args.k_scale, handle, "k_scale", counts[1])?,
            v_scale: lend_array(&args.v_scale, handle, "v_scale", counts[2])?,
        };
        let scale = lend_scalar(&args.scale, handle, "scale")?;
        let (scratch, bytes) = workspace.lend(handle)?;
        let [q, k, v] = inputs.views.map(|view| view.pointer.cast());
        // SAFETY: handle and plan are valid; every array is borrowed, on the handle's device and as
        // long as the plan and the strides say; those written are borrowed exclusively.
        check(unsafe {
            let (h, plan, out) = (handle.raw(), self.plan.raw, out.pointer.cast());
            sys::magicubeAttention(h, plan, scale, q, k, v, out, &raw, scratch, bytes)
        })
    }

    fn lend_log_sum_exp(&self, handle: &Handle, args: &mut AttentionArgs<'_>) -> Result<*mut f32> {
        let Some(view) = &mut args.log_sum_exp else { return Ok(ptr::null_mut()) };
        let shape = &self.shape;
        let [batch, heads, queries] =
            [shape.batch, shape.q_heads, shape.queries].map(|n| wide(n.max(0)));
        handle.require("log_sum_exp", view.location)?;
        let needed = batch.saturating_mul(heads).saturating_mul(queries);
        require_len("log_sum_exp", view.len, needed)?;
        Ok(view.pointer)
    }
}
