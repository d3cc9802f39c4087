// SPDX-License-Identifier: Apache-2.0
//! SDDMM to the bit, and softmax within rounding.
#![forbid(unsafe_code)]

mod common;

use common::{cases, close, product, sparse_dense, to_sr_bcrs, Random};
use magicube::convert::SrBcrs;
use magicube::{
    DataType, Dense, Device, DeviceBuffer, Granularity, Handle, Int4x2, SddmmArgs, SddmmPlan,
    SddmmProblem, SoftmaxArgs, SoftmaxPlan, SoftmaxProblem, Sparse, Status,
};
use proptest::prelude::*;

/// Places of the values in the pattern's layout: (row, column) of each, `None` in padding.
fn places(handle: &Handle, made: &SrBcrs<i8>, rows: usize) -> Vec<Option<(usize, usize)>> {
    let (v, s) = (made.vectors().0 as usize, made.vectors().1 as usize);
    let begin = made.row_begin.to_vec(handle).unwrap();
    let end = made.row_end.to_vec(handle).unwrap();
    let columns = made.col_indices.to_vec(handle).unwrap();
    let mut result = vec![None; columns.len() * v];
    for block in 0..begin.len() {
        let slots = begin[block] as usize..end[block] as usize;
        for (slot, &column) in columns.iter().enumerate().take(slots.end).skip(slots.start) {
            for lane in 0..v {
                let row = block * v + lane;
                if row < rows {
                    let at = slot / s * v * s + lane * s + slot % s;
                    result[at] = Some((row, column as usize));
                }
            }
        }
    }
    result
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn sddmm_is_exact(
        m in 0usize..40, k in 0usize..50, n in 0usize..40, log_v in 0u32..7, one_in in 1usize..6,
        seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let mut random = Random::new(seed);
        let v = 1usize << log_v;
        let (values, mask) = sparse_dense(&mut random, (m, n), v, one_in, |r| r.bits() as i8);
        let made = to_sr_bcrs(&handle, (m, n), v, (&values, &mask));
        let pattern = made.as_sparse().unwrap();
        let (a, b): (Vec<i16>, Vec<i16>) = (random.integers(m * k), random.integers(k * n));
        let (a_scale, b_scale) = (random.reals(m), random.reals(n));
        let sums = product(&a, &b, m, k, n);
        let (mi, ki, ni) = (m as i64, k as i64, n as i64);
        let problem = SddmmProblem::new(&pattern)
            .a_type(DataType::Int16)
            .b_type(DataType::Int16)
            .k(ki..=ki)
            .a_scale(Granularity::Row)
            .b_scale(Granularity::Col);
        for name in SddmmProblem::implementations(Device::Cpu).unwrap() {
            let problem = problem.clone().implementation(name);
            match problem.check_supported(&handle) {
                Err(error) if error.status() == Status::NotSupported => continue,
                other => other.unwrap(),
            }
            let plan = SddmmPlan::new(&handle, &problem).unwrap();
            let mut out = vec![f32::NAN; pattern.stored()];
            let (a, b) = (Dense::new(&a, mi, ki).unwrap(), Dense::new(&b, ki, ni).unwrap());
            let args = SddmmArgs::new().alpha(2.0).a_scale(&a_scale).b_scale(&b_scale);
            let mut workspace = plan.workspace().unwrap();
            plan.execute(&handle, &a, &b, &mut out, &args, &mut workspace).unwrap();
            for (value, place) in out.iter().zip(places(&handle, &made, m)) {
                let expected = place.map_or(0.0, |(i, j)| {
                    ((2.0 * a_scale[i]) * b_scale[j]) * sums[i * n + j] as f32
                });
                prop_assert_eq!(value + 0.0, expected + 0.0, "{}", name);
            }
        }
    }

    #[test]
    fn softmax_rows_are_distributions(
        m in 0usize..40, n in 0usize..40, log_v in 0u32..5, one_in in 1usize..6, seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let mut random = Random::new(seed);
        let v = 1usize << log_v;
        let (values, mask) = sparse_dense(&mut random, (m, n), v, one_in, |r| r.bits() as i8);
        let made = to_sr_bcrs(&handle, (m, n), v, (&values, &mask));
        let pattern = made.as_sparse().unwrap();
        let places = places(&handle, &made, m);
        let scores: Vec<f32> = (0..places.len()).map(|_| 8.0 * random.real()).collect();
        let bias = random.reals(places.len());
        let (row_scale, col_scale) = (random.reals(m), random.reals(n));

        let x: Vec<f64> = (0..places.len())
            .map(|at| places[at].map_or(f64::NEG_INFINITY, |(i, j)| {
                f64::from(row_scale[i]) * f64::from(col_scale[j]) * f64::from(scores[at])
                    + f64::from(bias[at])
            }))
            .collect();
        let mut sums = vec![0f64; m];
        for (x, place) in x.iter().zip(&places) {
            if let Some((i, _)) = place {
                sums[*i] += x.exp();
            }
        }
        let expected: Vec<f64> =
            x.iter().zip(&places).map(|(x, p)| p.map_or(0.0, |(i, _)| x.exp() / sums[i])).collect();

        let problem = SoftmaxProblem::new(&pattern)
            .row_scale(Granularity::Row)
            .col_scale(Granularity::Col)
            .bias(true);
        for name in SoftmaxProblem::implementations(Device::Cpu).unwrap() {
            let problem = problem.clone().implementation(name);
            problem.check_supported(&handle).unwrap();
            let plan = SoftmaxPlan::new(&handle, &problem).unwrap();
            let mut args =
                SoftmaxArgs::new().row_scale(&row_scale).col_scale(&col_scale).bias(&bias);
            let mut workspace = plan.workspace().unwrap();
            let mut out = vec![f32::NAN; places.len()];
            plan.execute(&handle, &scores, &mut out, &mut args, &mut workspace).unwrap();
            prop_assert!(close(&out, &expected, 1e-5), "{}", name);
            let mut both = scores.clone();
            plan.execute_in_place(&handle, &mut both, &mut args, &mut workspace).unwrap();
            prop_assert_eq!(both, out);
        }
    }
}

#[test]
fn sddmm_in_the_callers_memory_and_its_errors() {
    let handle = Handle::cpu().unwrap();
    let pattern = Sparse::csr_pattern(DataType::Fp32, 2, 2, &[0i64, 1, 2], &[1, 0]).unwrap();
    let problem = SddmmProblem::new(&pattern).k(2..=3).out_type(DataType::Int32).batch_count(2);
    let sizes = problem.buffer_sizes(&handle).unwrap();
    let mut buffer = DeviceBuffer::zeroed(&handle, sizes.plan_bytes).unwrap();
    let plan = SddmmPlan::new_in(&handle, &problem, &mut buffer).unwrap();
    assert!(!plan.info().unwrap().owns_buffer);
    let (a, b) = ([1i8, 2, 3, 4], [5i8, 6, 7, 8]);
    let (mut a, mut b) = (Dense::new(&a, 2, 2).unwrap(), Dense::new(&b, 2, 2).unwrap());
    a.set_batch(2, 0).unwrap();
    b.set_batch(2, 0).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let args = SddmmArgs::new();
    let mut out = [0i32; 4];
    plan.execute(&handle, &a, &b, &mut out, &args, &mut workspace).unwrap();
    assert_eq!(out, [22, 43, 22, 43]);
    let error = plan.execute(&handle, &a, &b, &mut out[..3], &args, &mut workspace).unwrap_err();
    assert!(error.message().contains("values") && error.message().contains('4'), "{error}");
    let error = plan.execute(&handle, &a, &b, &mut [0f32; 4], &args, &mut workspace).unwrap_err();
    assert!(error.message().contains("fp32") && error.message().contains("int32"), "{error}");
    let error = SddmmProblem::new(&pattern).a_type(DataType::Fp16).check_supported(&handle);
    assert_eq!(error.unwrap_err().status(), Status::NotSupported);
}

#[test]
fn softmax_with_integers_out() {
    let handle = Handle::cpu().unwrap();
    let pattern = Sparse::sr_bcrs_pattern(
        DataType::Fp32,
        (2, 8),
        (2, 8),
        &[0i64],
        &[2i64],
        &[0, 5, -1, -1, -1, -1, -1, -1],
    )
    .unwrap();
    let problem = SoftmaxProblem::new(&pattern).out_type(DataType::Uint8);
    let sizes = problem.buffer_sizes(&handle).unwrap();
    let mut buffer = DeviceBuffer::zeroed(&handle, sizes.plan_bytes).unwrap();
    let plan = SoftmaxPlan::new_in(&handle, &problem, &mut buffer).unwrap();
    assert!(plan.info().unwrap().reasons.len() > 4);
    let scores = [0f32, 0.0, 9., 9., 9., 9., 9., 9., 1.0, -90.0, 9., 9., 9., 9., 9., 9.];
    let (mut out, mut scale) = ([7u8; 16], [0f32; 2]);
    let mut workspace = plan.workspace().unwrap();
    let mut args = SoftmaxArgs::new().alpha(1.0).out_scale(&mut scale);
    plan.execute(&handle, &scores, &mut out, &mut args, &mut workspace).unwrap();
    assert_eq!((&out[..2], &out[8..10]), (&[255u8, 255][..], &[255u8, 0][..]));
    assert!(out[2..8].iter().chain(&out[10..]).all(|&p| p == 0));
    assert_eq!(scale, [0.5 / 255.0, 1.0 / 255.0]);

    let mut short = [0f32; 1];
    let mut args = SoftmaxArgs::new().out_scale(&mut short);
    let error = plan.execute(&handle, &scores, &mut out, &mut args, &mut workspace).unwrap_err();
    assert!(error.message().contains("out_scale"), "{error}");
    let mut none = SoftmaxArgs::new();
    assert!(plan.execute(&handle, &scores, &mut out, &mut none, &mut workspace).is_err());
    let error = plan.execute_in_place(&handle, &mut out, &mut none, &mut workspace).unwrap_err();
    assert!(error.message().contains("in_place"), "{error}");

    // int4 probabilities come two a byte.
    let problem = SoftmaxProblem::new(&pattern).out_type(DataType::Int4);
    let plan = SoftmaxPlan::new(&handle, &problem).unwrap();
    let mut packed = [Int4x2::new(3, 3); 8];
    let mut args = SoftmaxArgs::new().out_scale(&mut scale);
    plan.execute(&handle, &scores, &mut packed, &mut args, &mut workspace).unwrap();
    assert_eq!((packed[0].get(), packed[1].get(), packed[4].get()), ((7, 7), (0, 0), (7, 0)));
    let error = plan.execute(&handle, &scores, &mut packed[..7], &mut args, &mut workspace);
    assert!(error.unwrap_err().message().contains("16"));
}
