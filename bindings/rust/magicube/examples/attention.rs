// SPDX-License-Identifier: Apache-2.0
//! Attention over a sliding window with a few global keys, causal, four query heads to a key head.
//!
//! ```text
//! cargo run --release --example attention
//! ```

use magicube::{
    AttentionArgs, AttentionInputs, AttentionPlan, AttentionProblem, DataType, Handle, Result,
    Sparse,
};

const LENGTH: usize = 256;
const DIM: usize = 32;
const WINDOW: usize = 32;
const GLOBAL: usize = 4;
const HEADS: (usize, usize) = (4, 1);

fn reals(count: usize, mut state: u64) -> Vec<f32> {
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f32 / (1u64 << 30) as f32 - 1.0
        })
        .collect()
}

/// Query i sees the first keys and those up to WINDOW before it.
fn window() -> (Vec<i64>, Vec<i32>) {
    let (mut offsets, mut columns) = (vec![0i64], Vec::new());
    for i in 0..LENGTH {
        columns.extend((0..=i).filter(|&j| j < GLOBAL || j + WINDOW > i).map(|j| j as i32));
        offsets.push(columns.len() as i64);
    }
    (offsets, columns)
}

/// The largest difference of one head's rows from sums in double precision.
fn difference(head: usize, [q, k, v, out]: [&[f32]; 4], offsets: &[i64], columns: &[i32]) -> f64 {
    let mut largest = 0f64;
    for i in 0..LENGTH {
        let row = (head * LENGTH + i) * DIM;
        let keys = &columns[offsets[i] as usize..offsets[i + 1] as usize];
        let weights: Vec<f64> = keys
            .iter()
            .map(|&j| {
                let key = &k[j as usize * DIM..][..DIM];
                let dot: f64 = q[row..].iter().zip(key).map(|(a, b)| f64::from(a * b)).sum();
                (dot / (DIM as f64).sqrt()).exp()
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..DIM {
            let terms = keys.iter().zip(&weights);
            let o: f64 = terms.map(|(&j, w)| w * f64::from(v[j as usize * DIM + d])).sum();
            largest = largest.max((o / sum - f64::from(out[row + d])).abs());
        }
    }
    largest
}

fn main() -> Result<()> {
    let handle = Handle::cpu()?;
    let (offsets, columns) = window();
    let length = LENGTH as i64;
    let pattern = Sparse::csr_pattern(DataType::Fp32, length, length, &offsets, &columns)?;
    let problem = AttentionProblem::new(&pattern)
        .in_type(DataType::Fp32)
        .out_type(DataType::Fp32)
        .q_heads(HEADS.0 as i64)
        .kv_heads(HEADS.1 as i64)
        .head_dim(DIM as i64)
        .causal(true)
        .log_sum_exp(true);
    let plan = AttentionPlan::new(&handle, &problem)?;
    println!("implementation: {}", plan.info()?.implementation);

    let q = reals(HEADS.0 * LENGTH * DIM, 1);
    let (k, v) = (reals(HEADS.1 * LENGTH * DIM, 2), reals(HEADS.1 * LENGTH * DIM, 3));
    let (mut out, mut sums) = (vec![0f32; q.len()], vec![0f32; HEADS.0 * LENGTH]);
    let mut args = AttentionArgs::new().log_sum_exp(&mut sums);
    let inputs = AttentionInputs::new(&q, &k, &v);
    plan.execute(&handle, &inputs, &mut out, &mut args, &mut plan.workspace()?)?;

    let worst = (0..HEADS.0)
        .map(|head| difference(head, [&q, &k, &v, &out], &offsets, &columns))
        .fold(0f64, f64::max);
    println!("{} of {} scores computed", columns.len(), LENGTH * LENGTH);
    println!("largest difference from sums in double precision: {worst:.1e}");
    assert!(worst < 1e-5);
    Ok(())
}
