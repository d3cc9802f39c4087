// SPDX-License-Identifier: Apache-2.0
//! Random full-range data, and plain references that share no code with the library.
#![allow(dead_code)] // every test file uses its own part

use magicube::convert::{dense_to_sr_bcrs, SrBcrs, SrBcrsOptions};
use magicube::{Dense, Element, Handle};
use proptest::test_runner::Config as ProptestConfig;

/// So many cases of a property, fewer if PROPTEST_CASES says so.
pub fn cases(count: u32) -> ProptestConfig {
    let most = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let cases = count.min(most.unwrap_or(count));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }

    /// In [-1, 1).
    pub fn real(&mut self) -> f32 {
        (self.bits() % (1 << 24)) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn reals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.real()).collect()
    }

    /// The whole range of the type.
    pub fn integers<T: Integer>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| T::from_bits(self.bits())).collect()
    }
}

pub trait Integer: Element + Into<i64> {
    fn from_bits(bits: u64) -> Self;
}
impl Integer for i8 {
    fn from_bits(bits: u64) -> Self {
        bits as i8
    }
}
impl Integer for u8 {
    fn from_bits(bits: u64) -> Self {
        bits as u8
    }
}
impl Integer for i16 {
    fn from_bits(bits: u64) -> Self {
        bits as i16
    }
}

/// A row-major matrix whose elements come in vectors of `v` rows, one in `one_in` kept, and its
/// mask of vectors.
pub fn sparse_dense<T: Element>(
    random: &mut Random,
    (rows, cols): (usize, usize),
    v: usize,
    one_in: usize,
    mut element: impl FnMut(&mut Random) -> T,
) -> (Vec<T>, Vec<u8>) {
    let mut values = vec![T::default(); rows * cols];
    let mut mask = vec![0u8; rows * cols];
    for block in 0..rows.div_ceil(v) {
        for col in 0..cols {
            if random.below(one_in) != 0 {
                continue;
            }
            for row in block * v..rows.min((block + 1) * v) {
                values[row * cols + col] = element(random);
                mask[row * cols + col] = 1;
            }
        }
    }
    (values, mask)
}

/// SR-BCRS of what `sparse_dense` made.
pub fn to_sr_bcrs<T: Element>(
    handle: &Handle,
    (rows, cols): (usize, usize),
    v: usize,
    (values, mask): (&[T], &[u8]),
) -> SrBcrs<T> {
    let (rows, cols) = (rows as i64, cols as i64);
    let dense = Dense::new(values, rows, cols).unwrap();
    let mask = Dense::new(mask, rows, cols).unwrap();
    dense_to_sr_bcrs(handle, &dense, Some(&mask), SrBcrsOptions::new(v as i32)).unwrap()
}

/// A (m x k) times B (k x n), both row-major, exactly.
pub fn product<A: Integer, B: Integer>(a: &[A], b: &[B], m: usize, k: usize, n: usize) -> Vec<i64> {
    let mut result = vec![0i64; m * n];
    for i in 0..m {
        for l in 0..k {
            let left: i64 = a[i * k + l].into();
            for j in 0..n {
                let right: i64 = b[l * n + j].into();
                result[i * n + j] += left * right;
            }
        }
    }
    result
}

/// The column-major copy of a row-major matrix.
pub fn transposed<T: Copy + Default>(values: &[T], rows: usize, cols: usize) -> Vec<T> {
    let mut result = vec![T::default(); rows * cols];
    for i in 0..rows {
        for j in 0..cols {
            result[j * rows + i] = values[i * cols + j];
        }
    }
    result
}

pub fn same_bits(left: &[f32], right: &[f32]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| l.to_bits() == r.to_bits())
}

pub fn close(left: &[f32], right: &[f64], tolerance: f64) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(&l, &r)| {
            (f64::from(l) - r).abs() <= tolerance * r.abs().max(1.0) || (l.is_nan() && r.is_nan())
        })
}
