// SPDX-License-Identifier: Apache-2.0
//! Projections: products are recovered, the error is the one that is told.
#![forbid(unsafe_code)]

mod common;

use common::{cases, Random};
use magicube::kronecker::{monarch_shapes, to_dense, KroneckerMut, KroneckerShape};
use magicube::{
    project_chain, project_supports, Dense, DenseMut, Handle, MemoryMut, ProjectionReport, Result,
    Status, Weighting,
};
use proptest::prelude::*;

const ROWS: i64 = 12;
const COLS: i64 = 18;

/// The projection, and the product of its factors.
fn project(
    handle: &Handle,
    weight: &[f32],
    weighting: Weighting<'_, '_>,
    shapes: [KroneckerShape; 2],
) -> Result<(ProjectionReport, Vec<f64>, Vec<f32>)> {
    let count = |s: KroneckerShape| (s.a * s.b * s.c * s.d) as usize;
    let mut values = shapes.map(|shape| vec![f32::NAN; count(shape)]);
    let [left, right] = &mut values;
    let mut chain = KroneckerMut::chain(vec![
        (shapes[0], left.as_mut_slice().view_mut()),
        (shapes[1], right.as_mut_slice().view_mut()),
    ])?;
    let source = Dense::new(weight, ROWS, COLS)?;
    let (report, steps) = project_chain(handle, &source, weighting, &mut chain)?;
    let mut product = vec![0f32; (ROWS * COLS) as usize];
    to_dense(handle, &chain, &mut DenseMut::new(&mut product, ROWS, COLS)?)?;
    Ok((report, steps, product))
}

fn distance(a: &[f32], b: &[f32], weights: &[f32]) -> f64 {
    let weight = |i: usize| f64::from(weights.get(i % COLS as usize).copied().unwrap_or(1.0));
    let terms = a.iter().zip(b).enumerate();
    terms
        .map(|(i, (x, y))| ((f64::from(*x) - f64::from(*y)) * weight(i)).powi(2))
        .sum::<f64>()
        .sqrt()
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn errors_are_told_and_products_recovered(seed: u64, weighted: bool) {
        let handle = Handle::cpu().unwrap();
        let shapes = monarch_shapes((ROWS, COLS), 3, 2, 2).unwrap();
        let mut random = Random::new(seed);
        let weight = random.reals((ROWS * COLS) as usize);
        let scale: Vec<f32> = random.reals(COLS as usize).iter().map(|x| x.abs() + 0.1).collect();
        let columns = Dense::new(&scale, 1, COLS).unwrap();
        let (weighting, scale) = if weighted {
            (Weighting::Columns(&columns), &scale[..])
        } else {
            (Weighting::Even, &[][..])
        };
        let (report, steps, product) = project(&handle, &weight, weighting, shapes).unwrap();
        let rest = distance(&weight, &product, scale);
        prop_assert!((rest - report.error).abs() <= 1e-4 * report.norm);
        prop_assert_eq!(&steps[..], &[report.error][..]);
        prop_assert!(report.error <= report.bound * (1.0 + 1e-12));
        prop_assert!(report.least_error == report.bound);
        let (again, _, same) = project(&handle, &product, weighting, shapes).unwrap();
        prop_assert!(again.relative_error < 1e-5);
        prop_assert!(distance(&product, &same, &[]) <= 1e-5 * distance(&product, &[0.0; 216], &[]));
    }
}

#[test]
fn activations_weight_what_the_layer_sees() {
    let handle = Handle::cpu().unwrap();
    let shapes = monarch_shapes((ROWS, COLS), 3, 2, 2).unwrap();
    let mut random = Random::new(5);
    let weight = random.reals((ROWS * COLS) as usize);
    let mut samples = random.reals(4 * COLS as usize);
    samples.iter_mut().step_by(2).for_each(|x| *x *= 100.0);
    let inputs = Dense::new(&samples, 4, COLS).unwrap();
    let size = |j: usize| (0..4).map(|i| samples[i * COLS as usize + j].powi(2)).sum::<f32>() / 4.0;
    let scale: Vec<f32> = (0..COLS as usize).map(|j| size(j).sqrt()).collect();
    let (_, _, plain) = project(&handle, &weight, Weighting::Even, shapes).unwrap();
    let (report, _, aware) =
        project(&handle, &weight, Weighting::Activations(&inputs), shapes).unwrap();
    let rest = distance(&weight, &aware, &scale);
    assert!((rest - report.error).abs() < 1e-4 * report.norm);
    assert!(rest < distance(&weight, &plain, &scale));
}

#[test]
fn any_two_supports() {
    let handle = Handle::cpu().unwrap();
    // Two rectangles of rank 1: rows 0 and 2 by columns 1 and 3, row 1 by column 0.
    let weight = [0f32, 2., 0., 4., 5., 0., 0., 0., 0., 3., 0., 6.];
    let mut left_support = [1u8, 0, 0, 1, 1, 0];
    let right_support = [0u8, 1, 0, 1, 1, 0, 0, 0];
    let (mut left, mut right) = ([f32::NAN; 6], [f32::NAN; 8]);
    let mut run = |left_support: &[u8]| {
        project_supports(
            &handle,
            &Dense::new(&weight, 3, 4)?,
            Weighting::Even,
            (&Dense::new(left_support, 3, 2)?, &Dense::new(&right_support, 2, 4)?),
            (&mut DenseMut::new(&mut left, 3, 2)?, &mut DenseMut::new(&mut right, 2, 4)?),
        )
    };
    assert!(run(&left_support).unwrap().relative_error < 1e-6);
    left_support[1] = 1; // row 0 in both: disjoint all the same, in columns
    assert!(run(&left_support).unwrap().relative_error < 1e-6);
    for (i, wanted) in weight.iter().enumerate() {
        let (row, col) = (i / 4, i % 4);
        let found = left[2 * row] * right[col] + left[2 * row + 1] * right[4 + col];
        assert!((found - wanted).abs() < 1e-5);
    }
}

#[test]
fn refusals_name_the_position() {
    let handle = Handle::cpu().unwrap();
    let mut weight = vec![0f32; (ROWS * COLS) as usize];
    let apart = [KroneckerShape::new(2, 6, 6, 1), KroneckerShape::new(1, 2, 3, 6)];
    let error = project(&handle, &weight, Weighting::Even, apart).unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue);
    assert!(error.to_string().contains("factors[0] = (2, 6, 6, 1) and factors[1] = (1, 2, 3, 6)"));
    weight[20] = f32::NAN;
    let shapes = monarch_shapes((ROWS, COLS), 3, 2, 2).unwrap();
    let error = project(&handle, &weight, Weighting::Even, shapes).unwrap_err();
    assert!(error.to_string().contains("weight[1, 2]"), "{error}");
}
