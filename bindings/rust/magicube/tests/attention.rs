// SPDX-License-Identifier: Apache-2.0
//! Attention against a reference in double precision.
#![forbid(unsafe_code)]

mod common;

use common::{cases, close, Random};
use magicube::convert::{dense_to_sr_bcrs, SrBcrs, SrBcrsOptions};
use magicube::{
    AttentionArgs, AttentionInputs, AttentionPatterns, AttentionPlan, AttentionProblem,
    AttentionStrides, DataType, Dense, Device, DeviceBuffer, Granularity, Handle, Sparse, Status,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    batch: usize,
    q_heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    /// One mask, or one a head.
    masks: Vec<Vec<u8>>,
    causal: Option<i64>,
    offsets: Option<Vec<i64>>,
    lengths: Option<Vec<i64>>,
    scale: f32,
}

impl Case {
    fn allowed(&self, b: usize, h: usize, i: usize, j: usize) -> bool {
        let mask = &self.masks[h % self.masks.len()];
        let offset = self.offsets.as_ref().map_or(0, |o| o[b]);
        mask[i * self.keys + j] != 0
            && self.causal.is_none_or(|c| j as i64 <= i as i64 + c + offset)
            && self.lengths.as_ref().is_none_or(|l| (j as i64) < l[b])
    }

    /// Output and log-sum-exp.
    fn reference(&self, q: &[f32], k: &[f32], v: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let (mut out, mut lse) = (Vec::new(), Vec::new());
        let dim = self.dim;
        for b in 0..self.batch {
            for h in 0..self.q_heads {
                let kv = b * self.kv_heads + h / (self.q_heads / self.kv_heads);
                for i in 0..self.queries {
                    let row = &q[((b * self.q_heads + h) * self.queries + i) * dim..][..dim];
                    let mut sum = 0f64;
                    let mut o = vec![0f64; dim];
                    for j in (0..self.keys).filter(|&j| self.allowed(b, h, i, j)) {
                        let at = (kv * self.keys + j) * dim;
                        let dot: f64 =
                            row.iter().zip(&k[at..]).map(|(a, b)| f64::from(a * b)).sum();
                        let e = (f64::from(self.scale) * dot).exp();
                        sum += e;
                        for (o, v) in o.iter_mut().zip(&v[at..]) {
                            *o += e * f64::from(*v);
                        }
                    }
                    lse.push(sum.ln());
                    out.extend(o.iter().map(|o| if sum == 0.0 { 0.0 } else { o / sum }));
                }
            }
        }
        (out, lse)
    }

    fn pattern(&self, handle: &Handle) -> SrBcrs<f32> {
        let mask = self.masks.concat();
        let (rows, cols) = (self.queries as i64, self.keys as i64);
        let mut matrix = Dense::new(&mask, rows, cols).unwrap();
        matrix.set_batch(self.masks.len() as i64, rows * cols).unwrap();
        let mut shape = Dense::shape::<f32>(rows, cols, magicube::Order::Row).unwrap();
        shape.set_batch(self.masks.len() as i64, rows * cols).unwrap();
        let options = SrBcrsOptions::new(4).pattern_only().element_mask();
        dense_to_sr_bcrs(handle, &shape, Some(&matrix), options).unwrap()
    }

    fn problem<'p>(&self, pattern: &'p Sparse<'p>) -> AttentionProblem<'p> {
        let several = self.masks.len() > 1;
        AttentionProblem::new(pattern)
            .patterns(if several { AttentionPatterns::Head } else { AttentionPatterns::Shared })
            .in_type(DataType::Fp32)
            .out_type(DataType::Fp32)
            .batch_count(self.batch as i64)
            .q_heads(self.q_heads as i64)
            .kv_heads(self.kv_heads as i64)
            .head_dim(self.dim as i64)
            .causal(self.causal.is_some())
            .causal_offset(self.causal.unwrap_or(0))
            .causal_offsets(self.offsets.is_some())
            .key_lengths(self.lengths.is_some())
            .log_sum_exp(true)
    }
}

fn same(left: &[f32], right: &[f64]) -> bool {
    left.iter()
        .zip(right)
        .all(|(&l, &r)| f64::from(l) == r || (f64::from(l) - r).abs() <= 1e-4 * r.abs().max(1.0))
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn every_implementation_attends(
        batch in 0usize..3, kv_heads in 1usize..3, group in 1usize..3, queries in 0usize..20,
        keys in 0usize..24, dim in 1usize..20, one_in in 1usize..4, per_head: bool,
        causal in proptest::option::of(-3i64..4), use_offsets: bool, use_lengths: bool, seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let mut random = Random::new(seed);
        let q_heads = kv_heads * group;
        let masks = (0..if per_head { q_heads } else { 1 })
            .map(|_| (0..queries * keys).map(|_| (random.below(one_in) == 0).into()).collect())
            .collect();
        let offsets = (use_offsets && causal.is_some())
            .then(|| (0..batch).map(|_| random.below(5) as i64 - 2).collect());
        let lengths =
            use_lengths.then(|| (0..batch).map(|_| random.below(keys + 1) as i64).collect());
        let case = Case {
            batch, q_heads, kv_heads, queries, keys, dim, masks, causal, offsets, lengths,
            scale: 0.7,
        };
        let q = random.reals(batch * q_heads * queries * dim);
        let k = random.reals(batch * kv_heads * keys * dim);
        let v = random.reals(batch * kv_heads * keys * dim);
        let (expected, expected_lse) = case.reference(&q, &k, &v);
        let made = case.pattern(&handle);
        let pattern = made.as_sparse().unwrap();
        for name in AttentionProblem::implementations(Device::Cpu).unwrap() {
            let problem = case.problem(&pattern).implementation(name);
            match problem.check_supported(&handle) {
                Err(error) if error.status() == Status::NotSupported => continue,
                other => other.unwrap(),
            }
            let plan = AttentionPlan::new(&handle, &problem).unwrap();
            let mut out = vec![f32::NAN; q.len()];
            let mut lse = vec![f32::NAN; batch * q_heads * queries];
            let mut args = AttentionArgs::new().scale(case.scale).log_sum_exp(&mut lse);
            if let Some(offsets) = &case.offsets {
                args = args.causal_offsets(offsets);
            }
            if let Some(lengths) = &case.lengths {
                args = args.key_lengths(lengths);
            }
            let inputs = AttentionInputs::new(&q, &k, &v);
            let mut workspace = plan.workspace().unwrap();
            plan.execute(&handle, &inputs, &mut out, &mut args, &mut workspace).unwrap();
            prop_assert!(close(&out, &expected, 1e-4), "{}", name);
            prop_assert!(same(&lse, &expected_lse), "{}", name);
        }
    }
}

#[test]
fn strides_and_short_arrays() {
    let handle = Handle::cpu().unwrap();
    let pattern = Sparse::csr_pattern(DataType::Fp32, 2, 2, &[0i64, 2, 4], &[0, 1, 0, 1]).unwrap();
    let problem = AttentionProblem::new(&pattern)
        .in_type(DataType::Fp32)
        .out_type(DataType::Fp32)
        .q_heads(2)
        .kv_heads(2)
        .head_dim(1);
    let sizes = problem.buffer_sizes(&handle).unwrap();
    let mut buffer = DeviceBuffer::zeroed(&handle, sizes.plan_bytes).unwrap();
    let plan = AttentionPlan::new_in(&handle, &problem, &mut buffer).unwrap();
    assert!(!plan.info().unwrap().owns_buffer);
    // (queries, heads, dim): heads 1 apart, rows 2 apart.
    let strides = AttentionStrides { batch: 0, head: 1, row: 2 };
    let (q, k, v) = ([0f32; 4], [0f32; 4], [1f32, 10.0, 3.0, 30.0]);
    let mut out = [9f32; 4];
    let mut args = AttentionArgs::new()
        .q_strides(strides)
        .k_strides(strides)
        .v_strides(strides)
        .out_strides(AttentionStrides { batch: 4, ..strides });
    let mut workspace = plan.workspace().unwrap();
    let inputs = AttentionInputs::new(&q, &k, &v);
    plan.execute(&handle, &inputs, &mut out, &mut args, &mut workspace).unwrap();
    assert_eq!(out, [2.0, 20.0, 2.0, 20.0]);

    let short = AttentionInputs::new(&q, &k, &v[..3]);
    let error = plan.execute(&handle, &short, &mut out, &mut args, &mut workspace).unwrap_err();
    assert!(error.message().starts_with("v has 3"), "{error}");
    let error = plan.execute(&handle, &inputs, &mut out[..3], &mut args, &mut workspace);
    assert!(error.unwrap_err().message().starts_with("out has 3"));
    let mut lse = [0f32; 3];
    let mut args = AttentionArgs::new().log_sum_exp(&mut lse);
    let error = plan.execute(&handle, &inputs, &mut out, &mut args, &mut workspace).unwrap_err();
    assert!(error.message().contains("log_sum_exp"), "{error}");
    let huge = AttentionStrides { batch: i64::MAX, head: i64::MAX, row: i64::MAX };
    let mut args = AttentionArgs::new().q_strides(huge);
    let error = plan.execute(&handle, &inputs, &mut out, &mut args, &mut workspace).unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue, "{error}");
    let error = AttentionProblem::new(&pattern).q_heads(3).kv_heads(2).check_supported(&handle);
    assert!(error.unwrap_err().message().contains("q_heads"));
}

#[test]
fn integers_with_scales_are_close_to_their_reals() {
    let handle = Handle::cpu().unwrap();
    let (rows, dim) = (12usize, 6usize);
    let case = Case {
        batch: 1,
        q_heads: 1,
        kv_heads: 1,
        queries: rows,
        keys: rows,
        dim,
        masks: vec![vec![1; rows * rows]],
        causal: None,
        offsets: None,
        lengths: None,
        scale: 0.5,
    };
    let numbers = |seed: usize| -> Vec<i8> {
        (0..rows * dim).map(|i| ((i * 37 + seed * 11) % 255) as i8).collect()
    };
    let (q, k, v) = (numbers(1), numbers(2), numbers(3));
    let (q_scale, k_scale) = (vec![0.01f32; rows], [0.02f32]);
    let v_scale: Vec<f32> = (1..=dim).map(|d| d as f32 / 100.0).collect();
    let reals = |x: &[i8], scale: &dyn Fn(usize) -> f32| -> Vec<f32> {
        x.iter().enumerate().map(|(i, x)| scale(i) * f32::from(*x)).collect()
    };
    let expected = case.reference(
        &reals(&q, &|_| 0.01),
        &reals(&k, &|_| 0.02),
        &reals(&v, &|i| v_scale[i % dim]),
    );
    let pattern = case.pattern(&handle);
    let sparse = pattern.as_sparse().unwrap();
    let problem = case
        .problem(&sparse)
        .in_type(DataType::Int8)
        .log_sum_exp(false)
        .probability_bits(16)
        .q_scale(Granularity::Row)
        .k_scale(Granularity::Tensor)
        .v_scale(Granularity::Col);
    let plan = AttentionPlan::new(&handle, &problem).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let mut out = vec![0f32; rows * dim];
    let inputs = AttentionInputs::new(&q, &k, &v);
    let args = || AttentionArgs::new().scale(case.scale).k_scale(&k_scale).v_scale(&v_scale);
    let mut given = args().q_scale(&q_scale);
    plan.execute(&handle, &inputs, &mut out, &mut given, &mut workspace).unwrap();
    for (found, right) in out.iter().zip(&expected.0) {
        assert!((f64::from(*found) - right).abs() < 1e-3, "{found} {right}");
    }
    let mut short = args().q_scale(&q_scale[1..]);
    let error = plan.execute(&handle, &inputs, &mut out, &mut short, &mut workspace).unwrap_err();
    assert!(error.to_string().contains("q_scale"), "{error}");
}
