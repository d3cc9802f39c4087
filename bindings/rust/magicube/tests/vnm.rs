// SPDX-License-Identifier: Apache-2.0
//! V:N:M: arrays, conversions, products.
#![forbid(unsafe_code)]

mod common;

use common::{cases, product, Integer, Random};
use magicube::convert::{
    dense_to_vnm, sparse_to_dense, sparse_to_vnm, vnm_to_csr, Compressed, Vnm,
};
use magicube::{
    vnm_lengths, DataType, Dense, DenseMut, Device, Handle, Sparse, SparseFormat, SparseMut,
    SpmmArgs, SpmmPlan, SpmmProblem, Status,
};
use proptest::prelude::*;

/// Two random elements a row and group, in the first columns that a block of rows shares.
fn random_vnm(random: &mut Random, rows: usize, cols: usize, v: usize, m: usize) -> Vec<i8> {
    let mut values = vec![0i8; rows * cols];
    for block in 0..rows.div_ceil(v) {
        for group in 0..cols.div_ceil(m) {
            let width = m.min(cols - group * m);
            let shared: Vec<usize> = (0..4).map(|_| group * m + random.below(width)).collect();
            for row in block * v..rows.min((block + 1) * v) {
                for _ in 0..2 {
                    values[row * cols + shared[random.below(4)]] = i8::from_bits(random.bits());
                }
            }
        }
    }
    values
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn products_are_exact(
        rows in 0usize..70, cols in 0usize..80, n in 0usize..20, log_v in 4u32..8, m in 4usize..20,
        seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let mut random = Random::new(seed);
        let v = 1usize << log_v;
        let weight = random_vnm(&mut random, rows, cols, v, m);
        let b: Vec<i8> = random.integers(cols * n);
        let (ri, ci, ni) = (rows as i64, cols as i64, n as i64);
        let pattern = (v as i32, 2, m as i32);
        let dense = Dense::new(&weight, ri, ci).unwrap();
        let made: Vnm<i8> = dense_to_vnm(&handle, &dense, None, pattern, false).unwrap();
        prop_assert_eq!(made.elements as usize, weight.iter().filter(|&&w| w != 0).count());
        let a = made.as_sparse().unwrap();
        let mut back = vec![9i8; weight.len()];
        let mut target = DenseMut::new(&mut back, ri, ci).unwrap();
        sparse_to_dense(&handle, &a, &mut target).unwrap();
        drop(target);
        prop_assert_eq!(&back, &weight);

        let csr: Compressed<i8> = vnm_to_csr(&handle, &a, false).unwrap();
        let again: Vnm<i8> =
            sparse_to_vnm(&handle, &csr.as_sparse().unwrap(), pattern, false).unwrap();
        let values = again.values.as_ref().unwrap().to_vec(&handle).unwrap();
        prop_assert_eq!(values, made.values.as_ref().unwrap().to_vec(&handle).unwrap());

        let sums = product(&weight, &b, rows, cols, n);
        for name in SpmmProblem::implementations_for(Device::Cpu, SparseFormat::Vnm).unwrap() {
            let problem =
                SpmmProblem::new(&a).c_type(DataType::Int32).n(0..=ni).implementation(name);
            problem.check_supported(&handle).unwrap();
            let plan = SpmmPlan::new(&handle, &problem).unwrap();
            let mut c = vec![0x5a5ai32; rows * n];
            let mut target = DenseMut::new(&mut c, ri, ni).unwrap();
            let b = Dense::new(&b, ci, ni).unwrap();
            let mut workspace = plan.workspace().unwrap();
            plan.execute(&handle, &b, &mut target, &SpmmArgs::new(), &mut workspace).unwrap();
            drop(target);
            prop_assert!(c.iter().zip(&sums).all(|(&c, &sum)| i64::from(c) == sum), "{}", name);
        }
    }
}

/// The example of matrix.h: one row (0, 7, 0, 9, 5, 0).
#[test]
fn arrays_of_the_documented_example() {
    let handle = Handle::cpu().unwrap();
    let (column_loc, metadata, values) = ([0u8, 1, 2, 3, 0, 1, 1, 1], [0x4du8], [7i8, 9, 5, 0]);
    assert_eq!(vnm_lengths((1, 6), (1, 2, 4)), Ok([8, 1, 4]));
    let mut matrix = Sparse::vnm((1, 6), (1, 2, 4), &column_loc, &metadata, &values).unwrap();
    let layout = matrix.vnm_layout().unwrap();
    assert_eq!((layout.vector_length, layout.n, layout.m), (1, 2, 4));
    assert_eq!(matrix.layout().unwrap().format, SparseFormat::Vnm);
    let mut dense = [1i8; 6];
    let mut target = DenseMut::new(&mut dense, 1, 6).unwrap();
    sparse_to_dense(&handle, &matrix, &mut target).unwrap();
    drop(target);
    assert_eq!(dense, [0, 7, 0, 9, 5, 0]);
    matrix.set_vnm(&column_loc, &[0x44u8]).unwrap();
    matrix.set_vnm(&column_loc, &metadata).unwrap();

    let short = Sparse::vnm((1, 6), (1, 2, 4), &column_loc[..7], &metadata, &values).unwrap_err();
    assert!(short.message().contains("column_loc") && short.message().contains('8'), "{short}");
    let short = Sparse::vnm((1, 6), (1, 2, 4), &column_loc, &[] as &[u8], &values).unwrap_err();
    assert!(short.message().contains("metadata"), "{short}");
    let short = Sparse::vnm((1, 6), (1, 2, 4), &column_loc, &metadata, &values[..3]).unwrap_err();
    assert!(short.message().contains("values"), "{short}");
    let wide = [0u16; 8];
    let wrong = Sparse::vnm((1, 6), (1, 2, 4), &wide, &metadata, &values).unwrap_err();
    assert!(wrong.message().contains("u8"), "{wrong}");
    let wrong = Sparse::vnm((1, 6), (3, 2, 4), &column_loc, &metadata, &values).unwrap_err();
    assert!(wrong.message().contains("vector_length"), "{wrong}");
    let wrong = matrix.set_vnm(&[9u8; 8], &metadata).unwrap_err();
    assert_eq!(wrong.status(), Status::InvalidValue);
    assert!(matrix.validate(&handle).is_err(), "unusable until another change");

    let mut written = [7i8, 9, 5, 0];
    let matrix = SparseMut::vnm((1, 6), (1, 2, 4), &column_loc, &metadata, &mut written).unwrap();
    assert_eq!(matrix.vnm_layout().unwrap().m, 4);
}

#[test]
fn patterns_alone_and_wide_groups() {
    let handle = Handle::cpu().unwrap();
    let mut mask = vec![0u8; 600];
    (mask[299], mask[300]) = (1, 1);
    let shape = Dense::shape::<f32>(1, 600, magicube::Order::Row).unwrap();
    let marks = Dense::new(&mask, 1, 600).unwrap();
    let made: Vnm<f32> = dense_to_vnm(&handle, &shape, Some(&marks), (1, 2, 300), true).unwrap();
    assert!(made.values.is_none() && made.elements == 2);
    let csr: Compressed<f32> = vnm_to_csr(&handle, &made.as_sparse().unwrap(), true).unwrap();
    // Every row has two elements in a group; places that nothing takes are the lowest, with 0.
    assert_eq!(csr.col_indices.to_vec(&handle).unwrap(), [0, 299, 300, 301]);
    let dense = Dense::new(&[1f32; 8], 1, 8).unwrap();
    let error = dense_to_vnm::<f32>(&handle, &dense, None, (1, 2, 8), false).unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue);
    assert!(error.message().contains("row"), "{error}");
}
