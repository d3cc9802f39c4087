// SPDX-License-Identifier: Apache-2.0
//! Pruning to V:N:M.
#![forbid(unsafe_code)]

mod common;

use common::Random;
use magicube::convert::{dense_to_vnm, Vnm};
use magicube::{
    kept_energy, vnm_schedule, Curvature, Dense, DenseMut, Handle, ObsSelection, PruneNorm,
    PruneVnm, PruneVnmObs, Status,
};

const ROWS: i64 = 32;
const COLS: i64 = 24;
const PATTERN: (i32, i32, i32) = (16, 2, 8);

/// Two of a row's weights in every group of eight, and a matrix that converts.
fn check_mask(handle: &Handle, weight: &[f32], mask: &[u8]) {
    for row in mask.chunks(8) {
        assert_eq!(row.iter().map(|&keep| i32::from(keep)).sum::<i32>(), 2);
    }
    let weight = Dense::new(weight, ROWS, COLS).unwrap();
    let mask = Dense::new(mask, ROWS, COLS).unwrap();
    let made: Vnm<f32> = dense_to_vnm(handle, &weight, Some(&mask), PATTERN, false).unwrap();
    assert_eq!(made.elements, ROWS * COLS / 4);
}

#[test]
fn by_magnitude() {
    let handle = Handle::cpu().unwrap();
    let weight = Random::new(5).reals((ROWS * COLS) as usize);
    let mut mask = vec![9u8; weight.len()];
    let matrix = Dense::new(&weight, ROWS, COLS).unwrap();
    let prune = PruneVnm::new(PATTERN).norm(PruneNorm::L2);
    let mut workspace = prune.workspace(&handle, &matrix).unwrap();
    let mut target = DenseMut::new(&mut mask, ROWS, COLS).unwrap();
    prune.mask(&handle, &matrix, &mut target, &mut workspace).unwrap();
    drop(target);
    check_mask(&handle, &weight, &mask);

    let square = |x: f32| f64::from(x) * f64::from(x);
    let all: f64 = weight.iter().map(|&x| square(x)).sum();
    let kept: f64 = weight.iter().zip(&mask).map(|(&x, &k)| square(x) * f64::from(k)).sum();
    let mask = Dense::new(&mask, ROWS, COLS).unwrap();
    let share = kept_energy(&handle, &matrix, &mask).unwrap();
    assert!((share - kept / all).abs() < 1e-12 && share > 0.3, "{share}");
    let error = PruneVnm::new((3, 2, 8)).workspace(&handle, &matrix).unwrap_err();
    assert!(error.message().contains("vector_length"), "{error}");
}

#[test]
fn by_curvature() {
    let handle = Handle::cpu().unwrap();
    let mut random = Random::new(6);
    let weight = random.reals((ROWS * COLS) as usize);
    let inputs = random.reals((100 * COLS) as usize);
    let matrix = Dense::new(&weight, ROWS, COLS).unwrap();
    let curvature = Dense::new(&inputs, 100, COLS).unwrap();
    for selection in [ObsSelection::Exhaustive, ObsSelection::Pairwise] {
        let (mut mask, mut updated) = (vec![9u8; weight.len()], vec![f32::NAN; weight.len()]);
        let prune = PruneVnmObs::new(PATTERN, Curvature::Inputs)
            .selection(selection)
            .damping(0.02)
            .fisher_block(8)
            .refit(true);
        let mut workspace = prune.workspace(&handle, &matrix, &curvature).unwrap();
        let mut target = DenseMut::new(&mut mask, ROWS, COLS).unwrap();
        let mut weights = DenseMut::new(&mut updated, ROWS, COLS).unwrap();
        let outputs = (&mut target, &mut weights);
        prune.prune(&handle, &matrix, &curvature, outputs, &mut workspace).unwrap();
        drop(target);
        drop(weights);
        check_mask(&handle, &weight, &mask);
        assert!(updated.iter().zip(&mask).all(|(&w, &keep)| keep == 1 || w == 0.0));
        assert!(updated.iter().all(|w| w.is_finite()));
    }
    let wrong = PruneVnmObs::new(PATTERN, Curvature::Unknown(9));
    let error = wrong.workspace(&handle, &matrix, &curvature).unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue);
    assert!(error.message().contains("curvature"), "{error}");
}

#[test]
fn schedules() {
    assert_eq!(vnm_schedule(16, 2, 3), Ok(vec![8, 4, 2]));
    assert!(vnm_schedule(16, 2, -1).unwrap_err().message().contains("steps"));
}
