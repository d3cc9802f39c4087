// SPDX-License-Identifier: Apache-2.0
//! SpMM against an exact product in Rust, to the bit.
#![forbid(unsafe_code)]

mod common;

use common::{cases, product, same_bits, sparse_dense, to_sr_bcrs, transposed, Integer, Random};
use magicube::{
    Activation, DataType, Dense, DenseMut, Device, DeviceBuffer, Granularity, Handle, Int4x2,
    Order, PointerMode, Sparse, SpmmArgs, SpmmPlan, SpmmProblem, Status, ValueMode,
};
use proptest::prelude::*;

struct Case {
    m: usize,
    k: usize,
    n: usize,
    v: usize,
    one_in: usize,
    seed: u64,
    col_major: bool,
}

/// Every implementation of the CPU that takes the problem: int32, and fp32 with an epilogue.
fn check_pair<A: Integer, B: Integer>(case: &Case) {
    let handle = Handle::cpu().unwrap();
    let &Case { m, k, n, v, one_in, seed, col_major } = case;
    let (mi, ki, ni) = (m as i64, k as i64, n as i64);
    let mut random = Random::new(seed);
    let (weight, mask) = sparse_dense(&mut random, (m, k), v, one_in, |r| A::from_bits(r.bits()));
    let b: Vec<B> = random.integers(k * n);
    let sums = product(&weight, &b, m, k, n);
    let (a_scale, b_scale, bias) = (random.reals(m), random.reals(n), random.reals(m));
    let before = random.reals(m * n);

    let stored = to_sr_bcrs(&handle, (m, k), v, (&weight, &mask));
    let a = stored.as_sparse().unwrap();
    let b_stored = if col_major { transposed(&b, k, n) } else { b.clone() };
    let b_matrix =
        if col_major { Dense::col_major(&b_stored, ki, ni) } else { Dense::new(&b_stored, ki, ni) }
            .unwrap();
    let order = if col_major { Order::Col } else { Order::Row };
    let plain =
        SpmmProblem::new(&a).b_type(B::DATA_TYPE).b_order(order).c_type(DataType::Int32).n(0..=ni);
    let scaled = plain
        .clone()
        .c_type(DataType::Fp32)
        .a_scale(Granularity::Row)
        .b_scale(Granularity::Col)
        .bias(Granularity::Row)
        .activation(Activation::Relu);
    let args =
        SpmmArgs::new().alpha(0.5).beta(-2.0).a_scale(&a_scale).b_scale(&b_scale).bias(&bias);
    let expected: Vec<f32> = (0..m * n)
        .map(|at| {
            let (i, j) = (at / n, at % n);
            let s = (0.5 * a_scale[i]) * b_scale[j];
            s.mul_add(sums[at] as f32, (-2f32).mul_add(before[at], bias[i])).max(0.0)
        })
        .collect();

    for name in SpmmProblem::implementations(Device::Cpu).unwrap() {
        let problem = plain.clone().implementation(name);
        match problem.check_supported(&handle) {
            Err(error) if error.status() == Status::NotSupported => continue,
            other => other.unwrap(),
        }
        let plan = SpmmPlan::new(&handle, &problem).unwrap();
        assert_eq!(plan.info().unwrap().implementation, name);
        let mut c = vec![0x5a5a_5a5ai32; m * n];
        let mut target = DenseMut::new(&mut c, mi, ni).unwrap();
        let mut workspace = plan.workspace().unwrap();
        plan.execute(&handle, &b_matrix, &mut target, &SpmmArgs::new(), &mut workspace).unwrap();
        drop(target);
        assert!(c.iter().zip(&sums).all(|(&c, &sum)| c == sum as i32), "{name}");

        let problem = scaled.clone().implementation(name);
        let plan = SpmmPlan::new(&handle, &problem).unwrap();
        let mut c = before.clone();
        let mut target = DenseMut::new(&mut c, mi, ni).unwrap();
        let mut workspace = plan.workspace().unwrap();
        plan.execute(&handle, &b_matrix, &mut target, &args, &mut workspace).unwrap();
        drop(target);
        // max(0.0) and the library may differ in the sign of a zero
        let positive = |values: &[f32]| values.iter().map(|y| y + 0.0).collect::<Vec<_>>();
        assert!(same_bits(&positive(&c), &positive(&expected)), "{name}");
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn every_implementation_is_exact(
        m in 0usize..70, k in 0usize..90, n in 0usize..40, log_v in 0u32..7, one_in in 1usize..8,
        seed: u64, col_major: bool,
    ) {
        let case = Case { m, k, n, v: 1 << log_v, one_in, seed, col_major };
        check_pair::<i8, i8>(&case);
        check_pair::<i16, i8>(&case);
        check_pair::<i16, i16>(&case);
        check_pair::<u8, i8>(&case);
    }
}

#[test]
fn int4_operands() {
    let handle = Handle::cpu().unwrap();
    let mut random = Random::new(4);
    // One row of A, 1 x 64, and B 64 x 2.
    let nibble = |random: &mut Random| (random.below(16) as i8) - 8;
    let a: Vec<i8> = (0..64).map(|_| nibble(&mut random)).collect();
    let b: Vec<i8> = (0..128).map(|_| nibble(&mut random)).collect();
    let pack = |v: &[i8]| v.chunks(2).map(|p| Int4x2::new(p[0], p[1])).collect::<Vec<_>>();
    let (a_packed, b_packed) = (pack(&a), pack(&b));
    let columns: Vec<i32> = (0..64).collect();
    let matrix = Sparse::sr_bcrs((1, 64), (1, 32), &[0i64], &[64i64], &columns, &a_packed).unwrap();
    let problem = SpmmProblem::new(&matrix).b_type(DataType::Int4).c_type(DataType::Int32).n(2..=2);
    let plan = SpmmPlan::new(&handle, &problem).unwrap();
    let mut c = [0i32; 2];
    plan.execute(
        &handle,
        &Dense::new(&b_packed, 64, 2).unwrap(),
        &mut DenseMut::new(&mut c, 1, 2).unwrap(),
        &SpmmArgs::new(),
        &mut plan.workspace().unwrap(),
    )
    .unwrap();
    let sums = product(&a, &b, 1, 64, 2);
    assert_eq!(c.map(i64::from), sums[..]);
}

#[test]
fn value_modes_take_new_values() {
    let handle = Handle::cpu().unwrap();
    let (first, second) = ([1i8, 2, 3], [-4i8, 5, -6]);
    let a = Sparse::csr(2, 3, &[0i64, 2, 3], &[0, 2, 1], &first).unwrap();
    let pattern = Sparse::csr_pattern(DataType::Int8, 2, 3, &[0i64, 2, 3], &[0, 2, 1]).unwrap();
    let b = Dense::new(&[1i8, 10, 100], 3, 1).unwrap();
    let run = |plan: &SpmmPlan<'_>, args: &SpmmArgs<'_>| {
        let mut c = [0i32; 2];
        let mut target = DenseMut::new(&mut c, 2, 1).unwrap();
        let done = plan.execute(&handle, &b, &mut target, args, &mut plan.workspace().unwrap());
        drop(target);
        done.map(|()| c)
    };
    let problem = SpmmProblem::new(&a).c_type(DataType::Int32).value_mode(ValueMode::Updatable);
    let mut plan = SpmmPlan::new(&handle, &problem).unwrap();
    assert_eq!(run(&plan, &SpmmArgs::new()), Ok([201, 30]));
    plan.update_values(&handle, &second).unwrap();
    assert_eq!(run(&plan, &SpmmArgs::new()), Ok([496, -60]));
    assert!(plan.update_values(&handle, &[1i8]).unwrap_err().message().contains("a_values"));
    assert!(plan.update_values(&handle, &[1i16; 3]).unwrap_err().message().contains("int16"));

    let problem = SpmmProblem::new(&pattern).c_type(DataType::Int32).value_mode(ValueMode::PerCall);
    let mut plan = SpmmPlan::new(&handle, &problem).unwrap();
    assert_eq!(run(&plan, &SpmmArgs::new().a_values(&second)), Ok([496, -60]));
    assert_eq!(run(&plan, &SpmmArgs::new().a_values(&first)), Ok([201, 30]));
    assert!(run(&plan, &SpmmArgs::new().a_values(&first[..2])).is_err());
    assert!(run(&plan, &SpmmArgs::new()).is_err());
    let error = plan.update_values(&handle, &second).unwrap_err();
    assert_eq!(error.status(), Status::NotSupported);
}

#[test]
fn a_plan_in_the_callers_memory() {
    let handle = Handle::cpu().unwrap();
    let a = Sparse::csr(1, 2, &[0i32, 2], &[0, 1], &[2i8, 3]).unwrap();
    let problem = SpmmProblem::new(&a).c_type(DataType::Int32);
    let sizes = problem.buffer_sizes(&handle).unwrap();
    assert!(sizes.plan_alignment <= 256 && sizes.workspace_alignment <= 256);
    let mut small = DeviceBuffer::zeroed(&handle, sizes.plan_bytes.saturating_sub(1)).unwrap();
    if sizes.plan_bytes > 0 {
        let error = SpmmPlan::new_in(&handle, &problem, &mut small).unwrap_err();
        assert_eq!(error.status(), Status::InsufficientWorkspace, "{error}");
    }
    let mut buffer = DeviceBuffer::zeroed(&handle, sizes.plan_bytes).unwrap();
    let plan = SpmmPlan::new_in(&handle, &problem, &mut buffer).unwrap();
    let info = plan.info().unwrap();
    assert!(!info.owns_buffer && info.plan_bytes == sizes.plan_bytes);
    assert!(info.reasons.contains(info.implementation), "{}", info.reasons);
    assert!(format!("{plan:?}").contains(info.implementation));
    let mut c = [0i32];
    plan.execute(
        &handle,
        &Dense::new(&[10i8, 100], 2, 1).unwrap(),
        &mut DenseMut::new(&mut c, 1, 1).unwrap(),
        &SpmmArgs::new(),
        &mut handle.workspace(sizes.workspace_bytes).unwrap(),
    )
    .unwrap();
    assert_eq!(c, [320]);
}

#[test]
fn scalars_on_the_device() {
    let mut handle = Handle::cpu().unwrap();
    handle.set_pointer_mode(PointerMode::Device).unwrap();
    let a = Sparse::csr(1, 1, &[0i64, 1], &[0], &[1f32]).unwrap();
    let problem = SpmmProblem::new(&a).b_type(DataType::Fp32);
    let plan = SpmmPlan::new(&handle, &problem).unwrap();
    let alpha = DeviceBuffer::from_slice(&handle, &[3f32]).unwrap();
    let b = Dense::new(&[5f32], 1, 1).unwrap();
    let mut c = [0f32];
    let mut target = DenseMut::new(&mut c, 1, 1).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let mut run =
        |args: SpmmArgs<'_>| plan.execute(&handle, &b, &mut target, &args, &mut workspace);
    run(SpmmArgs::new().alpha(&alpha)).unwrap();
    assert!(run(SpmmArgs::new().alpha(3.0)).unwrap_err().message().contains("alpha"));
    let empty = DeviceBuffer::from_slice(&handle, &[]).unwrap();
    assert!(run(SpmmArgs::new().alpha(&empty)).unwrap_err().message().contains("alpha"));
    drop(target);
    assert_eq!(c, [15.0]);
}

/// Lengths that a plan needs are those that the crate checks: one less is refused, with a name.
#[test]
fn short_arrays_are_refused() {
    let handle = Handle::cpu().unwrap();
    let (m, n, batch) = (3i64, 2i64, 2i64);
    let mut a = Sparse::csr(m, 2, &[0i64, 1, 2, 2], &[0, 1], &[1i8, 2]).unwrap();
    a.set_batch(batch, 0).unwrap();
    let problem = SpmmProblem::new(&a)
        .n(n..=n)
        .batch_count(batch)
        .a_scale(Granularity::Row)
        .a_scale_batch_stride(7)
        .b_scale(Granularity::Col)
        .b_scale_batch_stride(5)
        .bias(Granularity::Row);
    let plan = SpmmPlan::new(&handle, &problem).unwrap();
    let values = [1i8; 8];
    let mut b = Dense::new(&values, 2, n).unwrap();
    b.set_batch(batch, 4).unwrap();
    let mut c = [0f32; 12];
    let mut target = DenseMut::new(&mut c, m, n).unwrap();
    target.set_batch(batch, 6).unwrap();
    let ones = [1f32; 16];
    let mut workspace = plan.workspace().unwrap();
    let mut run = |lengths: [usize; 3]| {
        let [a_scale, b_scale, bias] = lengths.map(|len| &ones[..len]);
        let args = SpmmArgs::new().a_scale(a_scale).b_scale(b_scale).bias(bias);
        plan.execute(&handle, &b, &mut target, &args, &mut workspace)
    };
    run([10, 7, 3]).unwrap();
    for (lengths, name, needed) in
        [([9, 7, 3], "a_scale", "10"), ([10, 6, 3], "b_scale", "7"), ([10, 7, 2], "bias", "3")]
    {
        let error = run(lengths).unwrap_err();
        assert_eq!(error.status(), Status::InvalidValue);
        assert!(error.message().contains(name) && error.message().contains(needed), "{error}");
    }
}

#[test]
fn unsupported_problems_say_why() {
    let handle = Handle::cpu().unwrap();
    let a = Sparse::csr(1, 1, &[0i64, 1], &[0], &[1i8]).unwrap();
    let problem = SpmmProblem::new(&a).b_type(DataType::Int16);
    let error = problem.check_supported(&handle).unwrap_err();
    assert_eq!(error.status(), Status::NotSupported);
    assert!(error.message().contains("int16"), "{error}");
    let error = SpmmProblem::new(&a).implementation("no such one").check_supported(&handle);
    assert!(error.unwrap_err().message().contains("no such one"));
    assert!(SpmmProblem::new(&a).implementation("zero\0byte").check_supported(&handle).is_err());
    let names = SpmmProblem::implementations(Device::Cpu).unwrap();
    assert!(names.len() > 1 && names.contains(names.last().unwrap()));
    assert!(SpmmProblem::implementations(Device::Unknown(5)).is_err());
}

/// A handle used from another thread, or a plan from several, must compute the same.
#[test]
fn issue_03_eight_threads_share_a_plan() {
    let handle = Handle::cpu().unwrap();
    let mut random = Random::new(8);
    let (m, k, n) = (96, 128, 40);
    let (weight, mask) = sparse_dense(&mut random, (m, k), 8, 4, |r| i8::from_bits(r.bits()));
    let stored = to_sr_bcrs(&handle, (m, k), 8, (&weight, &mask));
    let a = stored.as_sparse().unwrap();
    let problem = SpmmProblem::new(&a).c_type(DataType::Int32).n(1..=n as i64);
    let plan = SpmmPlan::new(&handle, &problem).unwrap();
    drop(a);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (plan, weight) = (&plan, &weight);
            scope.spawn(move || {
                let mut random = Random::new(100 + thread);
                let handle = Handle::cpu().unwrap();
                let mut workspace = plan.workspace().unwrap();
                for _ in 0..20 {
                    let n = 1 + random.below(n);
                    let b: Vec<i8> = random.integers(k * n);
                    let mut c = vec![0x77i32; m * n];
                    let mut target = DenseMut::new(&mut c, m as i64, n as i64).unwrap();
                    let b_matrix = Dense::new(&b, k as i64, n as i64).unwrap();
                    let args = SpmmArgs::new();
                    plan.execute(&handle, &b_matrix, &mut target, &args, &mut workspace).unwrap();
                    drop(target);
                    let sums = product(weight, &b, m, k, n);
                    assert!(c.iter().zip(&sums).all(|(&c, &sum)| i64::from(c) == sum));
                }
            });
        }
    });
}
