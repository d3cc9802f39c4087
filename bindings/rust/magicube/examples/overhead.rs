// SPDX-License-Identifier: Apache-2.0
//! What a call costs over the same call in C: SpMM of 64 x 64 x 64, int8, on one thread, and of an
//! empty matrix, where nothing but the call is left.
//!
//! ```text
//! cargo run --release --example overhead
//! ```

use std::ptr;
use std::time::Instant;

use magicube::convert::{dense_to_sr_bcrs, SrBcrs, SrBcrsOptions};
use magicube::{
    DataType, Dense, DenseMut, DeviceBuffer, Granularity, Handle, Result, SpmmArgs, SpmmPlan,
    SpmmProblem,
};
use magicube_sys as sys;

const SIZE: i64 = 64;
const CALLS: u32 = 2000;
const ROUNDS: usize = 31;

/// Microseconds a call.
fn time(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}

/// The best round: what a busy machine adds is left out.
fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The operands of a plan in C, made once.
struct InC {
    handle: sys::magicubeHandle_t,
    sparse: sys::magicubeConstSpMatDescr_t,
    plan: sys::magicubeSpMMPlan_t,
    b: sys::magicubeConstDnMatDescr_t,
    c: sys::magicubeDnMatDescr_t,
    workspace: *mut std::ffi::c_void,
    bytes: usize,
}

fn ok(status: sys::magicubeStatus) {
    assert_eq!(status, sys::magicubeStatus::MAGICUBE_STATUS_SUCCESS);
}

impl InC {
    /// Of the same arrays; n columns.
    fn new(matrix: &SrBcrs<i8>, b: &[i8], c: &mut [f32], n: i64, bytes: usize) -> Self {
        let begin = matrix.row_begin.as_slice().expect("host memory");
        let end = matrix.row_end.as_slice().expect("host memory");
        let columns = matrix.col_indices.as_slice().expect("host memory");
        let values = matrix.values.as_ref().and_then(|v| v.as_slice()).expect("host memory");
        let (int8, fp32) =
            (sys::magicubeDataType::MAGICUBE_INT8, sys::magicubeDataType::MAGICUBE_FP32);
        let row = sys::magicubeOrder::MAGICUBE_ORDER_ROW;
        let (mut handle, mut sparse, mut plan) = (ptr::null_mut(), ptr::null(), ptr::null_mut());
        let (mut b_matrix, mut c_matrix) = (ptr::null(), ptr::null_mut());
        let mut workspace = ptr::null_mut();
        let (v, s) = matrix.vectors();
        // SAFETY: every pointer is to an array of the length that its descriptor says, and all
        // outlive the calls that main makes.
        unsafe {
            let cpu = sys::magicubeDevice::MAGICUBE_DEVICE_CPU;
            ok(sys::magicubeMalloc(cpu, 0, bytes, &mut workspace));
            ok(sys::magicubeCreate(&mut handle, cpu, 0));
            ok(sys::magicubeSetNumThreads(handle, 1));
            ok(sys::magicubeCreateConstSrBcrs(
                &mut sparse,
                SIZE,
                SIZE,
                v,
                s,
                columns.len() as i64,
                begin.as_ptr().cast(),
                end.as_ptr().cast(),
                columns.as_ptr(),
                values.as_ptr().cast(),
                sys::magicubeIndexType::MAGICUBE_INDEX_64,
                int8,
            ));
            let (b, c) = (b.as_ptr().cast(), c.as_mut_ptr().cast());
            ok(sys::magicubeCreateConstDnMat(&mut b_matrix, SIZE, n, n.max(1), b, int8, row));
            ok(sys::magicubeCreateDnMat(&mut c_matrix, SIZE, n, n.max(1), c, fp32, row));
            let problem = sys::magicubeSpMMProblem {
                struct_size: size_of::<sys::magicubeSpMMProblem>(),
                A: sparse,
                b_type: int8,
                b_order: row,
                c_type: fp32,
                c_order: row,
                n_max: SIZE,
                batch_count: 1,
                a_scale: sys::magicubeGranularity::MAGICUBE_GRANULARITY_ROW,
                b_scale: sys::magicubeGranularity::MAGICUBE_GRANULARITY_COL,
                ..Default::default()
            };
            ok(sys::magicubeSpMM_createPlan(handle, &problem, ptr::null_mut(), 0, &mut plan));
        }
        Self { handle, sparse, plan, b: b_matrix, c: c_matrix, workspace, bytes }
    }

    fn call(&self, scale: &[f32]) {
        let args = sys::magicubeSpMMArgs {
            struct_size: size_of::<sys::magicubeSpMMArgs>(),
            a_scale: scale.as_ptr(),
            b_scale: scale.as_ptr(),
            ..Default::default()
        };
        let null = ptr::null();
        // SAFETY: see new; the workspace is as large as the plan says.
        ok(unsafe {
            let (h, p, scratch) = (self.handle, self.plan, self.workspace);
            sys::magicubeSpMM(h, p, null, self.b, null, self.c, &args, scratch, self.bytes)
        });
    }
}

impl Drop for InC {
    fn drop(&mut self) {
        // SAFETY: all are this object's.
        unsafe {
            ok(sys::magicubeSpMM_destroyPlan(self.plan));
            ok(sys::magicubeDestroyDnMat(self.c));
            ok(sys::magicubeDestroyDnMat(self.b));
            ok(sys::magicubeDestroySpMat(self.sparse));
            ok(sys::magicubeDestroy(self.handle));
            ok(sys::magicubeFree(sys::magicubeDevice::MAGICUBE_DEVICE_CPU, 0, self.workspace));
        }
    }
}

fn compare(handle: &Handle, matrix: &SrBcrs<i8>, n: i64) -> Result<()> {
    let a = matrix.as_sparse()?;
    let problem = SpmmProblem::new(&a)
        .c_type(DataType::Fp32)
        .n(0..=SIZE)
        .a_scale(Granularity::Row)
        .b_scale(Granularity::Col);
    let plan = SpmmPlan::new(handle, &problem)?;
    let mut workspace = plan.workspace()?;
    let b_values: Vec<i8> = (0..SIZE * SIZE).map(|i| (i * 37 % 251) as i8).collect();
    let mut c_values = DeviceBuffer::<f32>::zeroed(handle, b_values.len())?;
    let mut c_of_c = DeviceBuffer::<f32>::zeroed(handle, b_values.len())?;
    let scale = [0.5f32; SIZE as usize];
    let in_c = InC::new(
        matrix,
        &b_values,
        c_of_c.as_mut_slice().expect("host memory"),
        n,
        workspace.bytes(),
    );
    let (mut safe, mut raw) = (Vec::new(), Vec::new());
    {
        let b = Dense::new(&b_values, SIZE, n)?;
        let mut c = DenseMut::new(&mut c_values, SIZE, n)?;
        for _ in 0..ROUNDS {
            safe.push(time(|| {
                let args = SpmmArgs::new().a_scale(&scale).b_scale(&scale);
                plan.execute(handle, &b, &mut c, &args, &mut workspace).expect("a product");
            }));
            raw.push(time(|| in_c.call(&scale)));
        }
    }
    assert_eq!(c_values.as_slice(), c_of_c.as_slice());
    let (safe, raw) = (least(&safe), least(&raw));
    let more = safe - raw;
    println!("64 x 64 x {n}: {safe:.3} us in Rust, {raw:.3} us in C, {more:+.3} us more");
    Ok(())
}

fn main() -> Result<()> {
    let mut handle = Handle::cpu()?;
    handle.set_num_threads(1)?;
    let weight: Vec<i8> = (0..SIZE * SIZE).map(|i| (i * 53 % 255) as i8).collect();
    let mask: Vec<u8> = (0..SIZE * SIZE).map(|i| u8::from(i % SIZE % 10 == i / SIZE / 8)).collect();
    let matrix: SrBcrs<i8> = dense_to_sr_bcrs(
        &handle,
        &Dense::new(&weight, SIZE, SIZE)?,
        Some(&Dense::new(&mask, SIZE, SIZE)?),
        SrBcrsOptions::new(8),
    )?;
    compare(&handle, &matrix, SIZE)?;
    compare(&handle, &matrix, 0)
}
