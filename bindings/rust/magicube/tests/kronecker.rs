// SPDX-License-Identifier: Apache-2.0
//! Kronecker-sparse factors and chains against their dense products.
#![forbid(unsafe_code)]

mod common;

use common::{cases, close, product, transposed, Random};
use magicube::convert::Compressed;
use magicube::kronecker::{
    butterfly_shapes, monarch_shapes, to_csr, to_dense, Kronecker, KroneckerMut, KroneckerShape,
};
use magicube::{
    BatchLayout, DataType, Dense, DenseMut, Device, DeviceBuffer, Granularity, Handle,
    KroneckerMmArgs, KroneckerMmPlan, KroneckerMmProblem, Memory, MemoryMut, Status, ValueMode,
};
use proptest::prelude::*;

/// K of (a, b, c, d), by its definition.
fn expand<T: Copy + Default>([a, b, c, d]: [usize; 4], values: &[T]) -> Vec<T> {
    let cols = a * c * d;
    let mut dense = vec![T::default(); a * b * d * cols];
    for i in 0..a {
        for j in 0..b {
            for k in 0..c {
                for l in 0..d {
                    dense[((i * b + j) * d + l) * cols + (i * c + k) * d + l] =
                        values[((i * b + j) * c + k) * d + l];
                }
            }
        }
    }
    dense
}

fn shape_of([a, b, c, d]: [usize; 4]) -> KroneckerShape {
    KroneckerShape::new(a as i64, b as i64, c as i64, d as i64)
}

fn dense_of(handle: &Handle, k: &Kronecker<'_>) -> Vec<f32> {
    let mut values = vec![f32::NAN; (k.rows() * k.cols()) as usize];
    let mut target = DenseMut::new(&mut values, k.rows(), k.cols()).unwrap();
    to_dense(handle, k, &mut target).unwrap();
    drop(target);
    values
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn int8_products_are_exact(
        shape in [1usize..5, 1usize..6, 1usize..6, 1usize..5], vectors in 0usize..12,
        transpose: bool, first: bool, seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let mut random = Random::new(seed);
        let [a, b, c, d] = shape;
        let values: Vec<i8> = random.integers(a * b * c * d);
        let (mut rows, mut cols) = (a * b * d, a * c * d);
        let mut dense = expand(shape, &values);
        if transpose {
            dense = transposed(&dense, rows, cols);
            (rows, cols) = (cols, rows);
        }
        let x: Vec<i8> = random.integers(cols * vectors);
        let sums = product(&dense, &x, rows, cols, vectors);
        let (x, sums) = if first {
            (transposed(&x, cols, vectors), transposed(&sums, rows, vectors))
        } else {
            (x, sums)
        };
        let size = |features: usize| {
            let (features, vectors) = (features as i64, vectors as i64);
            if first { (vectors, features) } else { (features, vectors) }
        };
        let k = Kronecker::factor(shape_of(shape), &values).unwrap();
        let problem = KroneckerMmProblem::new(&k)
            .transpose(transpose)
            .layout(if first { BatchLayout::First } else { BatchLayout::Last })
            .y_type(DataType::Int32)
            .n(0..=vectors as i64);
        for name in KroneckerMmProblem::implementations(Device::Cpu).unwrap() {
            let problem = problem.clone().implementation(name);
            match problem.check_supported(&handle) {
                Err(error) if error.status() == Status::NotSupported => continue,
                other => other.unwrap(),
            }
            let plan = KroneckerMmPlan::new(&handle, &problem).unwrap();
            let mut y = vec![0x5a5ai32; sums.len()];
            let ((x_rows, x_cols), (y_rows, y_cols)) = (size(cols), size(rows));
            let x = Dense::new(&x, x_rows, x_cols).unwrap();
            let mut target = DenseMut::new(&mut y, y_rows, y_cols).unwrap();
            let mut workspace = plan.workspace().unwrap();
            let args = KroneckerMmArgs::new();
            plan.execute(&handle, &x, &mut target, &args, &mut workspace).unwrap();
            drop(target);
            prop_assert!(y.iter().zip(&sums).all(|(&y, &s)| i64::from(y) == s), "{}", name);
        }
    }

    #[test]
    fn every_form_holds_the_same_factor(
        shape in [1usize..5, 1usize..6, 1usize..6, 1usize..5], seed: u64,
    ) {
        let handle = Handle::cpu().unwrap();
        let values = Random::new(seed).reals(shape.iter().product());
        let factor = Kronecker::factor(shape_of(shape), &values).unwrap();
        let dense = expand(shape, &values);
        prop_assert_eq!(&dense_of(&handle, &factor), &dense);
        let csr: Compressed<f32, i32> = to_csr(&handle, &factor, false).unwrap();
        prop_assert_eq!(csr.col_indices.len(), values.len());
        let mut back = vec![f32::NAN; values.len()];
        let mut target = KroneckerMut::factor(shape_of(shape), &mut back).unwrap();
        target.set_from_csr(&handle, &csr.as_sparse().unwrap()).unwrap();
        drop(target);
        prop_assert_eq!(&back, &values);
        back.fill(f32::NAN);
        let mut target = KroneckerMut::factor(shape_of(shape), &mut back).unwrap();
        let matrix = Dense::new(&dense, factor.rows(), factor.cols()).unwrap();
        target.set_from_dense(&handle, &matrix).unwrap();
        drop(target);
        prop_assert_eq!(&back, &values);
    }
}

#[test]
fn chains_multiply() {
    let handle = Handle::cpu().unwrap();
    let shapes = butterfly_shapes(3).unwrap();
    assert_eq!(shapes[0], KroneckerShape::new(1, 2, 2, 4));
    let (mut random, zeros) = (Random::new(2), [0f32; 16]);
    let values: Vec<Vec<f32>> = shapes.iter().map(|_| random.reals(16)).collect();
    let factors: Vec<_> = shapes.iter().copied().zip(values.iter().map(|v| v.view())).collect();
    let mut chain = Kronecker::chain(&factors).unwrap();
    let layout = chain.layout().unwrap();
    assert_eq!((layout.count, layout.rows, layout.data_type), (3, 8, DataType::Fp32));
    assert_eq!(chain.shape(1), Ok(KroneckerShape::new(2, 2, 2, 2)));
    let pair = chain.pair(0).unwrap();
    assert_eq!((pair.chainable, pair.rank, pair.redundant), (true, 1, false));
    assert_eq!(chain.product_shape(), Ok(KroneckerShape::new(1, 8, 8, 1)));
    let dense = dense_of(&handle, &chain);

    let mut whole = vec![0f32; 64];
    let mut product = KroneckerMut::factor(KroneckerShape::new(1, 8, 8, 1), &mut whole).unwrap();
    product.set_to_product(&handle, &chain).unwrap();
    assert_eq!(dense_of(&handle, &product), dense);
    drop(product);
    assert_eq!(whole, dense);

    let x = random.reals(8);
    let (k_scale, bias) = (random.reals(8), random.reals(8));
    let expected: Vec<f64> = (0..8)
        .map(|i| {
            let sum: f64 = (0..8).map(|j| f64::from(dense[i * 8 + j]) * f64::from(x[j])).sum();
            2.0 * f64::from(k_scale[i]) * sum + f64::from(bias[i])
        })
        .collect();
    let problem = KroneckerMmProblem::new(&chain)
        .k_scale(Granularity::Row)
        .bias(Granularity::Row)
        .value_mode(ValueMode::Updatable);
    let sizes = problem.buffer_sizes(&handle).unwrap();
    let mut buffer = DeviceBuffer::zeroed(&handle, sizes.plan_bytes).unwrap();
    let mut plan = KroneckerMmPlan::new_in(&handle, &problem, &mut buffer).unwrap();
    assert!(!plan.info().unwrap().owns_buffer);
    let x_matrix = Dense::new(&x, 1, 8).unwrap();
    let run = |plan: &KroneckerMmPlan<'_>, args: &KroneckerMmArgs<'_>| {
        let mut y = vec![f32::NAN; 8];
        let mut target = DenseMut::new(&mut y, 1, 8).unwrap();
        let mut workspace = plan.workspace().unwrap();
        let done = plan.execute(&handle, &x_matrix, &mut target, args, &mut workspace);
        drop(target);
        done.map(|()| y)
    };
    let args = KroneckerMmArgs::new().alpha(2.0).k_scale(&k_scale).bias(&bias);
    assert!(close(&run(&plan, &args).unwrap(), &expected, 1e-5));
    let short = KroneckerMmArgs::new().k_scale(&k_scale[..7]).bias(&bias);
    assert!(run(&plan, &short).unwrap_err().message().contains("k_scale"));

    let lists = [zeros.view(), zeros.view(), zeros.view()];
    plan.update_values(&handle, &lists).unwrap();
    assert_eq!(run(&plan, &args).unwrap(), bias);
    assert!(plan.update_values(&handle, &lists[..2]).unwrap_err().message().contains('3'));
    drop(plan);
    chain.set_values(1, &zeros).unwrap();
    assert!(dense_of(&handle, &chain).iter().all(|&x| x == 0.0));
    assert!(chain.set_values(1, &zeros[..15]).unwrap_err().message().contains("factor 1"));
    assert!(chain.set_values(7, &zeros).is_err());

    let pattern = Kronecker::chain_pattern(DataType::Fp32, &shapes).unwrap();
    let per_call = KroneckerMmProblem::new(&pattern).value_mode(ValueMode::PerCall);
    let plan = KroneckerMmPlan::new(&handle, &per_call).unwrap();
    let lists: Vec<_> = values.iter().map(|v| v.view()).collect();
    let y = run(&plan, &KroneckerMmArgs::new().k_values(&lists)).unwrap();
    let plain: Vec<f64> = (0..8)
        .map(|i| (0..8).map(|j| f64::from(dense[i * 8 + j]) * f64::from(x[j])).sum())
        .collect();
    assert!(close(&y, &plain, 1e-5));
    assert!(run(&plan, &KroneckerMmArgs::new()).is_err());
}

#[test]
fn hadamard_and_monarch() {
    let handle = Handle::cpu().unwrap();
    let shapes = butterfly_shapes(2).unwrap();
    let (mut first, mut second, mut other) = ([0f32; 8], [0f32; 8], [0f32; 8]);
    let factors = vec![(shapes[0], (&mut first).view_mut()), (shapes[1], (&mut second).view_mut())];
    let mut chain = KroneckerMut::chain(factors).unwrap();
    chain.set_values(1, &mut other).unwrap();
    chain.fill_hadamard(&handle, 1.0).unwrap();
    let signs = [1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1].map(|s| s as f32);
    assert_eq!(dense_of(&handle, &chain), signs);
    drop(chain);
    assert_eq!(second, [0.0; 8]);

    let [left, right] = monarch_shapes((12, 8), 2, 3, 1).unwrap();
    assert_eq!(left, KroneckerShape::new(1, 4, 2, 3));
    assert_eq!(right, KroneckerShape::new(2, 3, 4, 1));
    assert!(monarch_shapes((12, 8), 3, 3, 1).unwrap_err().message().contains("blocks"));
    assert!(butterfly_shapes(0).unwrap_err().message().contains("log2_size"));
    assert!(Kronecker::factor_pattern(DataType::Int8, KroneckerShape::new(1, 0, 1, 1)).is_err());
    let error = Kronecker::factor(left, &[0f32; 23]).unwrap_err();
    assert!(error.message().contains("24"), "{error}");
}

#[test]
fn gradients() {
    let handle = Handle::cpu().unwrap();
    let (mut values, x, dy) = ([0f32; 4], [1f32, 2.0, 3.0, 4.0], [5f32, 6.0, 7.0, 8.0]);
    let mut gradient = KroneckerMut::factor(KroneckerShape::new(1, 2, 2, 1), &mut values).unwrap();
    let (x, dy) = (Dense::new(&x, 2, 2).unwrap(), Dense::new(&dy, 2, 2).unwrap());
    gradient.set_to_gradient(&handle, &x, &dy, BatchLayout::Last).unwrap();
    drop(gradient);
    assert_eq!(values, [17.0, 39.0, 23.0, 53.0]);
}
