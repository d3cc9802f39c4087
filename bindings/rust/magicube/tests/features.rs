// SPDX-License-Identifier: Apache-2.0
//! Types of other crates.
#![forbid(unsafe_code)]
#![cfg(any(feature = "half", feature = "ndarray"))]

use magicube::{DataType, Dense, DenseMut, Handle, Sparse, SpmmArgs, SpmmPlan, SpmmProblem};

fn multiply(a: &Sparse<'_>, data_type: DataType, b: &Dense<'_>, c: &mut DenseMut<'_>) {
    let handle = Handle::cpu().unwrap();
    let layout = (b.layout().unwrap(), c.layout().unwrap());
    let problem = SpmmProblem::new(a)
        .b_type(data_type)
        .b_order(layout.0.order)
        .c_order(layout.1.order)
        .n(0..=b.cols());
    let plan = SpmmPlan::new(&handle, &problem).unwrap();
    plan.execute(&handle, b, c, &SpmmArgs::new(), &mut plan.workspace().unwrap()).unwrap();
}

#[cfg(feature = "half")]
#[test]
fn half_precision() {
    use half::f16;
    let values = [1.5f32, -2.0, 0.25].map(f16::from_f32);
    let a = Sparse::csr(1, 3, &[0i64, 3], &[0, 1, 2], &values).unwrap();
    let b = [2.0f32, 4.0, 8.0].map(f16::from_f32);
    let mut c = [0f32];
    let mut target = DenseMut::new(&mut c, 1, 1).unwrap();
    multiply(&a, DataType::Fp16, &Dense::new(&b, 3, 1).unwrap(), &mut target);
    drop(target);
    assert_eq!(c, [-3.0]);
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_ndarray() {
    use ndarray::{array, Array2, Axis, Slice};
    let a = Sparse::csr(2, 2, &[0i64, 1, 2], &[1, 0], &[2f32, 3.0]).unwrap();
    let wide = array![[1f32, 2.0, 9.0], [3.0, 4.0, 9.0]];
    let part = |axis, slice: Slice| wide.slice_axis(Axis(axis), slice);
    for transposed in [false, true] {
        let mut out = Array2::<f32>::zeros((2, 3));
        let mut view = out.slice_axis_mut(Axis(1), Slice::from(1..));
        if transposed {
            view.swap_axes(0, 1);
        }
        let mut c = DenseMut::from_ndarray(view).unwrap();
        let b = Dense::from_ndarray(part(1, Slice::from(..2))).unwrap();
        multiply(&a, DataType::Fp32, &b, &mut c);
        drop(c);
        let expected = if transposed {
            array![[0f32, 6.0, 3.0], [0.0, 8.0, 6.0]]
        } else {
            array![[0f32, 6.0, 8.0], [0.0, 3.0, 6.0]]
        };
        assert_eq!(out, expected);
    }
    assert!(Dense::from_ndarray(part(0, Slice::new(0, None, -1))).is_err());
    assert!(Dense::from_ndarray(part(1, Slice::new(0, None, 2))).is_err());
    Dense::from_ndarray(part(0, Slice::from(..0))).unwrap();
    Dense::from_ndarray(part(0, Slice::from(..1))).unwrap();
    Dense::from_ndarray(part(1, Slice::from(1..2))).unwrap();
}
