// SPDX-License-Identifier: Apache-2.0
//! Descriptors: what they tell, what changes them, and what is refused.
#![forbid(unsafe_code)]

use magicube::{
    DataType, Dense, DenseMut, Error, Handle, IndexType, Int4x2, Order, Sparse, SparseFormat,
    SparseMut, Status, F16,
};

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::InvalidValue, "{error}");
    for part in parts {
        assert!(error.message().contains(part), "{error}: lacks {part}");
    }
}

#[test]
fn dense_layouts() {
    let values = [0f32; 12];
    let layout = Dense::new(&values, 3, 4).unwrap().layout().unwrap();
    assert_eq!((layout.rows, layout.cols, layout.ld), (3, 4, 4));
    assert_eq!((layout.data_type, layout.order), (DataType::Fp32, Order::Row));
    let layout = Dense::col_major(&values, 3, 4).unwrap().layout().unwrap();
    assert_eq!((layout.ld, layout.order), (3, Order::Col));
    // The last row needs no gap behind it.
    Dense::with_layout(&values, 3, 2, 5, Order::Row).unwrap();
    refused(Dense::with_layout(&values, 3, 3, 5, Order::Row), &["12", "13"]);
    refused(Dense::with_layout(&values, 2, 4, 3, Order::Row), &["ld"]);
    refused(Dense::new(&values, -1, 4), &["rows", "-1"]);
    refused(Dense::new(&values, i64::MAX, i64::MAX), &[]);
    refused(Dense::with_layout(&values, 1, 1, 1, Order::Unknown(9)), &["order", "9"]);
    Dense::new(&[] as &[f32], 0, 4).unwrap();
    assert_eq!(Dense::shape::<F16>(7, 8, Order::Col).unwrap().layout().unwrap().ld, 7);
}

#[test]
fn int4_rows_start_on_a_byte() {
    let values = [Int4x2::new(1, 2); 6];
    let matrix = Dense::new(&values, 3, 3).unwrap();
    assert_eq!(matrix.layout().unwrap().ld, 4);
    refused(Dense::new(&values[..5], 3, 3), &["10", "11"]);
}

#[test]
fn dense_changes_in_place() {
    let (first, second) = ([1f32; 12], [2f32; 6]);
    let mut matrix = Dense::new(&first, 2, 3).unwrap();
    matrix.set_batch(2, 6).unwrap();
    assert_eq!(matrix.batch(), Ok((2, 6)));
    refused(matrix.set_batch(3, 6), &["18"]);
    refused(matrix.set_values(&second), &["6"]);
    assert_eq!(matrix.batch(), Ok((2, 6)));
    matrix.set_batch(4, 0).unwrap();
    matrix.set_values(&second).unwrap();
    refused(matrix.set_cols(4, 4), &["8"]);
    matrix.set_cols(1, 3).unwrap();
    assert_eq!((matrix.rows(), matrix.cols()), (2, 1));
    refused(matrix.set_values(&[1i8; 6]), &["int8", "fp32"]);

    let (mut first, mut second) = ([0i32; 8], [0i32; 8]);
    let mut matrix = DenseMut::col_major(&mut first, 2, 2).unwrap();
    matrix.set_batch(2, 4).unwrap();
    matrix.set_values(&mut second).unwrap();
    matrix.set_batch(1, 0).unwrap();
    matrix.set_cols(4, 2).unwrap();
    assert_eq!(matrix.layout().unwrap().cols, 4);
}

#[test]
fn csr_tells_and_changes() {
    let (offsets, columns, values) = ([0i32, 2, 2, 3], [0, 3, 1], [1i16, 2, 3]);
    let mut matrix = Sparse::csr(3, 4, &offsets, &columns, &values).unwrap();
    let layout = matrix.layout().unwrap();
    assert_eq!((layout.format, layout.rows, layout.cols), (SparseFormat::Csr, 3, 4));
    assert_eq!(layout.data_type, DataType::Int16);
    let csr = matrix.csr_layout().unwrap();
    assert_eq!((csr.nnz, csr.index_type), (3, IndexType::Index32));
    assert_eq!(matrix.stored(), 3);
    refused(matrix.bsr_layout().map(|_| ()), &["BSR"]);
    refused(matrix.sr_bcrs_layout().map(|_| ()), &["SR-BCRS"]);

    matrix.set_batch(4, 0).unwrap();
    assert_eq!(matrix.batch().unwrap().count, 4);
    refused(matrix.set_batch(2, 3), &["values", "6"]);
    matrix.set_batch(1, 0).unwrap();
    matrix.set_csr(&[0i32, 0, 1, 2], &[2, 0]).unwrap();
    assert_eq!(matrix.csr_layout().unwrap().nnz, 2);
    refused(matrix.set_csr(&[0i64, 0, 1, 2], &[2, 0]), &["Index64"]);
    refused(matrix.set_values(&[1i16]), &["values", "1", "2"]);
    refused(matrix.set_values(&[1i8; 3]), &["int8", "int16"]);
    matrix.set_values(&[4i16, 5]).unwrap();
    matrix.validate(&Handle::cpu().unwrap()).unwrap();
}

#[test]
fn wrong_index_arrays_are_refused() {
    let values = [1f32; 3];
    refused(Sparse::csr(2, 3, &[0i64, 2, 3], &[0, 3, 1], &values), &["3"]);
    refused(Sparse::csr(2, 3, &[0i64, 2, 3], &[1, 0, 1], &values), &["ascend"]);
    refused(Sparse::csr(2, 3, &[0i64, 4, 3], &[0, 1, 1], &values), &["4"]);
    refused(Sparse::csr(2, 3, &[0i64, 2], &[0, 1], &values), &["offsets", "3"]);
    refused(Sparse::csr(2, 3, &[0i64, 2, 3], &[0, 1, 1], &values[..2]), &["values", "3"]);
    let error = Sparse::csr(i64::MAX, 3, &[0i64], &[], &values).unwrap_err();
    assert!(error.message().contains("rows"), "{error}");

    // A change to wrong arrays leaves a matrix that no call takes, until it is right again.
    let handle = Handle::cpu().unwrap();
    let mut matrix = Sparse::csr(2, 3, &[0i64, 2, 3], &[0, 1, 1], &values).unwrap();
    refused(matrix.set_csr(&[0i64, 2, 3], &[0, 9, 1]), &["9"]);
    refused(matrix.validate(&handle), &["refused"]);
    matrix.set_csr(&[0i64, 1, 3], &[0, 0, 1]).unwrap();
    matrix.validate(&handle).unwrap();
}

#[test]
fn bsr_tells_and_changes() {
    let values = [1i8; 12];
    let mut matrix = Sparse::bsr((3, 4), (2, 3), &[0i64, 1, 2], &[0, 1], &values).unwrap();
    let layout = matrix.bsr_layout().unwrap();
    assert_eq!((layout.block_rows, layout.block_cols, layout.nnzb), (2, 3, 2));
    assert_eq!((layout.index_type, matrix.stored()), (IndexType::Index64, 12));
    matrix.set_bsr(&[0i64, 0, 1], &[1]).unwrap();
    assert_eq!(matrix.bsr_layout().unwrap().nnzb, 1);
    refused(Sparse::bsr((3, 4), (2, 3), &[0i64, 1, 2], &[0, 1], &values[..11]), &["values", "12"]);
    refused(Sparse::bsr((3, 4), (0, 3), &[0i64, 1, 2], &[0, 1], &values), &["block_rows"]);
    refused(matrix.set_csr(&[0i64; 4], &[]), &["CSR"]);
    Sparse::bsr_pattern(DataType::Int8, (3, 4), (2, 3), &[0i32, 1, 2], &[0, 1]).unwrap();
}

#[test]
fn sr_bcrs_tells_and_changes() {
    let (begin, end, columns) = ([0i64, 8], [2i64, 9], {
        let mut columns = [-1; 16];
        (columns[0], columns[1], columns[8]) = (0, 2, 1);
        columns
    });
    let (begins, ends) = ([0i64, 8, 0, 8], [2i64, 9, 0, 8]);
    let values = [1i8; 32];
    let mut matrix = Sparse::sr_bcrs((3, 4), (2, 8), &begin, &end, &columns, &values).unwrap();
    let layout = matrix.sr_bcrs_layout().unwrap();
    assert_eq!((layout.vector_length, layout.stride, layout.slots), (2, 8, 16));
    assert!(!layout.has_element_mask);
    matrix.set_element_mask(Some(&[3u8; 16])).unwrap();
    assert!(matrix.sr_bcrs_layout().unwrap().has_element_mask);
    refused(matrix.set_element_mask(Some(&[3u8; 15])), &["element_mask", "16"]);
    matrix.set_element_mask(None::<&[u8]>).unwrap();

    refused(matrix.set_pattern_batch(2), &["offsets", "4"]);
    matrix.set_sr_bcrs(&begins, &ends, &columns).unwrap();
    matrix.set_pattern_batch(2).unwrap();
    let batch = matrix.batch().unwrap();
    assert_eq!((batch.count, batch.different_patterns), (2, true));

    refused(Sparse::sr_bcrs((3, 4), (3, 8), &begin, &end, &columns, &values), &["vector_length"]);
    refused(Sparse::sr_bcrs((3, 4), (2, 8), &begin, &end, &columns, &values[1..]), &["31", "32"]);
    refused(Sparse::sr_bcrs((3, 4), (2, 8), &begin, &[2i64, 19], &columns, &values), &["19"]);
    refused(Sparse::sr_bcrs((3, 4), (2, 8), &[0i64], &[2i64], &columns, &values), &["2"]);
    let same = [0i32; 2];
    Sparse::sr_bcrs_pattern(DataType::Fp16, (3, 4), (2, 8), &same, &same, &[]).unwrap();
}

#[test]
fn values_that_may_be_written() {
    let (mut first, mut second) = ([1f32; 3], [2f32; 3]);
    let mut matrix = SparseMut::csr(2, 3, &[0i64, 2, 3], &[0, 1, 1], &mut first).unwrap();
    matrix.set_values(&mut second).unwrap();
    matrix.set_batch(2, 0).unwrap();
    assert_eq!(matrix.layout().unwrap().format, SparseFormat::Csr);

    let mut values = [1f32; 4];
    let matrix = SparseMut::bsr((2, 2), (2, 2), &[0i64, 1], &[0], &mut values).unwrap();
    assert_eq!(matrix.bsr_layout().unwrap().nnzb, 1);

    let mut values = [1f32; 8];
    let columns = [0, -1, -1, -1, -1, -1, -1, -1];
    let matrix =
        SparseMut::sr_bcrs((1, 2), (1, 8), &[0i64], &[1i64], &columns, &mut values).unwrap();
    assert_eq!(matrix.sr_bcrs_layout().unwrap().slots, 8);
}
