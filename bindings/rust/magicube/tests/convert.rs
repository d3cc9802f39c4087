// SPDX-License-Identifier: Apache-2.0
//! Conversions, pruning and quantisation.
#![forbid(unsafe_code)]

mod common;

use common::{cases, sparse_dense, to_sr_bcrs, Random};
use magicube::convert::{
    default_stride, dense_to_sr_bcrs, sparse_to_dense, sparse_to_mask, sparse_to_sr_bcrs,
    sr_bcrs_to_bsr, sr_bcrs_to_csr, Compressed, SrBcrs, SrBcrsOptions,
};
use magicube::{
    Calibration, DataType, Dense, DenseMut, Granularity, Handle, Order, Prune, PruneNorm,
    PruneScope, Quantize, Sparse, Validation,
};
use proptest::prelude::*;

fn dense_of(handle: &Handle, sparse: &Sparse<'_>) -> Vec<i16> {
    let (rows, cols) = (sparse.rows(), sparse.cols());
    let mut values = vec![0x55i16; (rows * cols) as usize];
    sparse_to_dense(handle, sparse, &mut DenseMut::new(&mut values, rows, cols).unwrap()).unwrap();
    values
}

fn mask_of(handle: &Handle, sparse: &Sparse<'_>) -> Vec<u8> {
    let (rows, cols) = (sparse.rows(), sparse.cols());
    let mut mask = vec![0x55u8; (rows * cols) as usize];
    sparse_to_mask(handle, sparse, &mut DenseMut::new(&mut mask, rows, cols).unwrap()).unwrap();
    mask
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn every_format_holds_the_same_matrix(
        rows in 0usize..40, cols in 0usize..40, log_v in 0u32..7, one_in in 1usize..6, seed: u64,
        basic: bool,
    ) {
        let mut handle = Handle::cpu().unwrap();
        if basic {
            handle.set_validation(Validation::Basic).unwrap();
        }
        let v = 1usize << log_v;
        let mut random = Random::new(seed);
        let (values, mask) =
            sparse_dense(&mut random, (rows, cols), v, one_in, |r| r.bits() as i16);
        let sparse = to_sr_bcrs(&handle, (rows, cols), v, (&values, &mask));
        let source = sparse.as_sparse().unwrap();
        prop_assert_eq!(&dense_of(&handle, &source), &values);
        prop_assert_eq!(&mask_of(&handle, &source), &mask);

        let csr: Compressed<i16, i32> = sr_bcrs_to_csr(&handle, &source, false).unwrap();
        let csr_matrix = csr.as_sparse().unwrap();
        prop_assert_eq!(csr_matrix.stored(), mask.iter().filter(|&&m| m != 0).count());
        prop_assert_eq!(&dense_of(&handle, &csr_matrix), &values);
        prop_assert_eq!(&mask_of(&handle, &csr_matrix), &mask);

        let bsr: Compressed<i16> = sr_bcrs_to_bsr(&handle, &source, (3, 5), false).unwrap();
        prop_assert_eq!(&dense_of(&handle, &bsr.as_sparse().unwrap()), &values);

        let options = SrBcrsOptions::new(4).stride(8).element_mask();
        let again: SrBcrs<i16, i32> = sparse_to_sr_bcrs(&handle, &csr_matrix, options).unwrap();
        prop_assert_eq!(again.vectors(), (4, 8));
        prop_assert_eq!(&dense_of(&handle, &again.as_sparse().unwrap()), &values);
        prop_assert_eq!(&mask_of(&handle, &again.as_sparse().unwrap()), &mask);
    }

    #[test]
    fn pruning_keeps_the_largest(
        rows in 1usize..30, cols in 1usize..20, keep in 0i64..40, seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let weight = Random::new(seed).reals(rows * cols);
        let mut mask = vec![7u8; weight.len()];
        let matrix = Dense::new(&weight, rows as i64, cols as i64).unwrap();
        let prune = Prune::new(1).norm(PruneNorm::L1).keep(keep.min(weight.len() as i64));
        let mut workspace = prune.workspace(&handle, &matrix).unwrap();
        let mut target = DenseMut::new(&mut mask, rows as i64, cols as i64).unwrap();
        prune.mask(&handle, &matrix, &mut target, &mut workspace).unwrap();
        drop(target);
        let mut order: Vec<usize> = (0..weight.len()).collect();
        order.sort_by(|&a, &b| weight[b].abs().total_cmp(&weight[a].abs()).then(a.cmp(&b)));
        let mut expected = vec![0u8; weight.len()];
        for &index in order.iter().take(keep as usize) {
            expected[index] = 1;
        }
        prop_assert_eq!(mask, expected);
    }
}

#[test]
fn default_strides() {
    assert_eq!(default_stride(8, DataType::Int8), Ok(32));
    assert_eq!(default_stride(8, DataType::Fp16), Ok(16));
    assert!(default_stride(3, DataType::Int8).unwrap_err().message().contains("vector_length"));
}

#[test]
fn batches_have_patterns_of_their_own() {
    let handle = Handle::cpu().unwrap();
    let values = [1i16, 0, 0, 2, 0, 3, 4, 0];
    let mut dense = Dense::new(&values, 2, 2).unwrap();
    dense.set_batch(2, 4).unwrap();
    let made: SrBcrs<i16> = dense_to_sr_bcrs(&handle, &dense, None, SrBcrsOptions::new(2)).unwrap();
    let sparse = made.as_sparse().unwrap();
    assert!(sparse.batch().unwrap().different_patterns);
    let mut back = [9i16; 8];
    let mut target = DenseMut::new(&mut back, 2, 2).unwrap();
    target.set_batch(2, 4).unwrap();
    sparse_to_dense(&handle, &sparse, &mut target).unwrap();
    drop(target);
    assert_eq!(back, values);
}

#[test]
fn patterns_alone() {
    let handle = Handle::cpu().unwrap();
    let mask = [1u8, 0, 0, 1, 1, 0];
    let shape = Dense::shape::<f32>(2, 3, Order::Row).unwrap();
    let options = SrBcrsOptions::new(2).pattern_only().element_mask();
    let made: SrBcrs<f32> =
        dense_to_sr_bcrs(&handle, &shape, Some(&Dense::new(&mask, 2, 3).unwrap()), options)
            .unwrap();
    assert!(made.values.is_none());
    let sparse = made.as_sparse().unwrap();
    assert_eq!(mask_of(&handle, &sparse), mask);
    let csr: Compressed<f32> = sr_bcrs_to_csr(&handle, &sparse, true).unwrap();
    assert_eq!(mask_of(&handle, &csr.as_sparse().unwrap()), mask);
    let bsr: Compressed<f32> = sr_bcrs_to_bsr(&handle, &sparse, (2, 3), true).unwrap();
    assert_eq!(mask_of(&handle, &bsr.as_sparse().unwrap()), [1; 6]);
    let wrong = sr_bcrs_to_bsr::<f32, i64>(&handle, &sparse, (0, 3), true).unwrap_err();
    assert!(wrong.message().contains("block_rows"), "{wrong}");
}

#[test]
fn pruning_by_row_and_its_errors() {
    let handle = Handle::cpu().unwrap();
    let weight = [1f32, -4.0, 3.0, 9.0, 8.0, 7.0];
    let mut mask = [9u8; 6];
    let matrix = Dense::new(&weight, 2, 3).unwrap();
    let prune = Prune::new(1).scope(PruneScope::Row).sparsity(0.66);
    let mut workspace = prune.workspace(&handle, &matrix).unwrap();
    let mut target = DenseMut::new(&mut mask, 2, 3).unwrap();
    prune.mask(&handle, &matrix, &mut target, &mut workspace).unwrap();
    drop(target);
    assert_eq!(mask, [0, 1, 0, 1, 0, 0]);
    let error = Prune::new(1).sparsity(1.5).workspace(&handle, &matrix).unwrap_err();
    assert!(error.message().contains("sparsity") && error.message().contains("1.5"), "{error}");
}

#[test]
fn quantised_and_back() {
    let handle = Handle::cpu().unwrap();
    let mut random = Random::new(3);
    let (rows, cols) = (17i64, 9i64);
    let real = random.reals((rows * cols) as usize);
    for (granularity, groups) in
        [(Granularity::Tensor, 1), (Granularity::Row, rows), (Granularity::Col, cols)]
    {
        let matrix = Dense::new(&real, rows, cols).unwrap();
        let mut integers = vec![0i16; real.len()];
        let mut scales = vec![0f32; groups as usize];
        let mut target = DenseMut::new(&mut integers, rows, cols).unwrap();
        let quantize = Quantize::new(granularity).calibration(Calibration::Absmax);
        let mut workspace = quantize.workspace(&handle, &matrix, &target).unwrap();
        quantize.quantize(&handle, &matrix, &mut target, &mut scales, &mut workspace).unwrap();
        for (index, (&x, &q)) in real
            .iter()
            .zip(&*{
                drop(target);
                integers.clone()
            })
            .enumerate()
        {
            let group = match granularity {
                Granularity::Row => index / cols as usize,
                Granularity::Col => index % cols as usize,
                _ => 0,
            };
            assert_eq!(f32::from(q), (x / scales[group]).round_ties_even(), "{index}");
        }
        let mut back = vec![0f32; real.len()];
        let mut target = DenseMut::new(&mut back, rows, cols).unwrap();
        let source = Dense::new(&integers, rows, cols).unwrap();
        quantize.dequantize(&handle, &source, &scales, &mut target).unwrap();
        drop(target);
        assert!(back.iter().zip(&real).all(|(b, r)| (b - r).abs() < 4e-5));
        if groups > 1 {
            let mut target = DenseMut::new(&mut back, rows, cols).unwrap();
            let short = &scales[1..];
            let error = quantize.dequantize(&handle, &source, short, &mut target).unwrap_err();
            assert!(error.message().contains("scales"), "{error}");
        }
    }
    let matrix = Dense::new(&real, rows, cols).unwrap();
    let mut integers = vec![0i8; real.len()];
    let target = DenseMut::new(&mut integers, rows, cols).unwrap();
    let wrong = Quantize::new(Granularity::Row).percentile(200.0);
    let error = wrong.workspace(&handle, &matrix, &target).unwrap_err();
    assert!(error.message().contains("percentile") && error.message().contains("200"), "{error}");
}
