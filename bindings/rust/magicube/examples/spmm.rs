// SPDX-License-Identifier: Apache-2.0
//! A sparse, quantised linear layer: prunes a random weight in vectors of 8 x 1, quantises it to
//! int8 with a scale a row, and multiplies it by int8 activations; scales, bias and ReLU are
//! applied in the same pass. The result is checked against a plain loop, bit by bit.
//!
//! ```text
//! cargo run --release --example spmm [cuda]
//! ```

use std::time::Instant;

use magicube::convert::{dense_to_sr_bcrs, SrBcrs, SrBcrsOptions};
use magicube::{
    Activation, Dense, DenseMut, Device, DeviceBuffer, Granularity, Handle, Prune, Quantize,
    Result, SpmmArgs, SpmmPlan, SpmmProblem,
};

const M: usize = 1024;
const K: usize = 1024;
const N: usize = 256;
const V: i32 = 8;

/// The weight after pruning and quantisation, in host memory.
struct Weight {
    values: Vec<i8>,
    mask: Vec<u8>,
    scale: Vec<f32>,
}

fn random(count: usize, mut state: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    })
}

fn reals(count: usize, seed: u64) -> Vec<f32> {
    random(count, seed).map(|bits| bits as f32 / (1u64 << 30) as f32 - 1.0).collect()
}

fn make_weight(cpu: &Handle) -> Result<Weight> {
    let (rows, cols) = (M as i64, K as i64);
    let mut real = reals(M * K, 1);
    let mut mask = vec![0u8; M * K];
    {
        let weight = Dense::new(&real, rows, cols)?;
        let prune = Prune::new(V).sparsity(0.9);
        let mut workspace = prune.workspace(cpu, &weight)?;
        let mut target = DenseMut::new(&mut mask, rows, cols)?;
        prune.mask(cpu, &weight, &mut target, &mut workspace)?;
    }
    real.iter_mut().zip(&mask).for_each(|(x, &keep)| *x *= f32::from(keep));

    let (mut values, mut scale) = (vec![0i8; M * K], vec![0f32; M]);
    {
        let weight = Dense::new(&real, rows, cols)?;
        let mut target = DenseMut::new(&mut values, rows, cols)?;
        let quantize = Quantize::new(Granularity::Row);
        let mut workspace = quantize.workspace(cpu, &weight, &target)?;
        quantize.quantize(cpu, &weight, &mut target, &mut scale, &mut workspace)?;
    }
    Ok(Weight { values, mask, scale })
}

/// The same layer as one plain loop over the dense weight.
fn reference(weight: &Weight, b: &[i8], b_scale: &[f32], bias: &[f32]) -> Vec<f32> {
    let mut result = Vec::with_capacity(M * N);
    for (i, bias) in bias.iter().enumerate() {
        let mut sums = [0i64; N];
        for k in 0..K {
            let a = i64::from(weight.values[i * K + k]);
            if a != 0 {
                sums.iter_mut().zip(&b[k * N..]).for_each(|(sum, &b)| *sum += a * i64::from(b));
            }
        }
        result.extend((0..N).map(|j| {
            let y = (weight.scale[i] * b_scale[j]).mul_add(sums[j] as f32, *bias);
            if y > 0.0 {
                y
            } else {
                0.0
            }
        }));
    }
    result
}

fn main() -> Result<()> {
    let device =
        if std::env::args().any(|word| word == "cuda") { Device::Cuda } else { Device::Cpu };
    let handle = Handle::new(device, 0)?;
    let weight = make_weight(&Handle::cpu()?)?;
    let b: Vec<i8> = random(K * N, 2).map(|bits| bits as i8).collect();
    let (b_scale, bias) = (reals(N, 3), reals(M, 4));
    let (m, k, n) = (M as i64, K as i64, N as i64);

    // Everything on the device; on the CPU this is host memory too.
    let values = DeviceBuffer::from_slice(&handle, &weight.values)?;
    let mask = DeviceBuffer::from_slice(&handle, &weight.mask)?;
    let sparse: SrBcrs<i8> = dense_to_sr_bcrs(
        &handle,
        &Dense::new(&values, m, k)?,
        Some(&Dense::new(&mask, m, k)?),
        SrBcrsOptions::new(V),
    )?;
    let a = sparse.as_sparse()?;
    let problem = SpmmProblem::new(&a)
        .n(1..=n)
        .a_scale(Granularity::Row)
        .b_scale(Granularity::Col)
        .bias(Granularity::Row)
        .activation(Activation::Relu);
    let plan = SpmmPlan::new(&handle, &problem)?;
    let info = plan.info()?;
    println!("implementation: {}, plan of {} bytes", info.implementation, info.plan_bytes);

    let scales = DeviceBuffer::from_slice(&handle, &weight.scale)?;
    let b_scales = DeviceBuffer::from_slice(&handle, &b_scale)?;
    let biases = DeviceBuffer::from_slice(&handle, &bias)?;
    let b_values = DeviceBuffer::from_slice(&handle, &b)?;
    let mut c_values = DeviceBuffer::<f32>::zeroed(&handle, M * N)?;
    let mut workspace = plan.workspace()?;
    let args = SpmmArgs::new().a_scale(&scales).b_scale(&b_scales).bias(&biases);
    for run in ["first", "second"] {
        let start = Instant::now();
        let mut c = DenseMut::new(&mut c_values, m, n)?;
        plan.execute(&handle, &Dense::new(&b_values, k, n)?, &mut c, &args, &mut workspace)?;
        handle.synchronize()?;
        println!("{run} product: {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    }

    let expected = reference(&weight, &b, &b_scale, &bias);
    let c = c_values.to_vec(&handle)?;
    let wrong = c.iter().zip(&expected).filter(|(c, e)| c.to_bits() != e.to_bits()).count();
    println!("{wrong} of {} elements differ from the plain loop", c.len());
    assert_eq!(wrong, 0);
    Ok(())
}
