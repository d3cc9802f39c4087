// SPDX-License-Identifier: Apache-2.0
//! Symmetric quantisation: real = scale * integer.

use magicube_sys as sys;

use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::memory::{Memory, MemoryMut, Workspace};
use crate::sparse::{require_len, wide};
use crate::status::{abi_enum, check, Result};
use crate::types::Granularity;

abi_enum! {
    /// How a scale is found.
    Calibration = magicubeCalibration {
        /// The largest absolute value becomes the largest integer.
        Absmax = MAGICUBE_CALIBRATION_ABSMAX,
        /// The absolute value that a percentage does not exceed does.
        Percentile = MAGICUBE_CALIBRATION_PERCENTILE,
        /// The scale of the least mean squared error, among 100.
        Mse = MAGICUBE_CALIBRATION_MSE,
        /// The caller's scales.
        Given = MAGICUBE_CALIBRATION_GIVEN,
    }
}

/// Symmetric quantisation.
///
/// ```
/// use magicube::{Dense, DenseMut, Granularity, Handle, Quantize};
/// let handle = Handle::cpu()?;
/// let real = [0.5f32, -1.27, 2.54, 0.0];
/// let (mut integers, mut scales) = ([0i8; 4], [0f32; 2]);
/// let real = Dense::new(&real, 2, 2)?;
/// let mut quantized = DenseMut::new(&mut integers, 2, 2)?;
/// let quantize = Quantize::new(Granularity::Row);
/// let mut workspace = quantize.workspace(&handle, &real, &quantized)?;
/// quantize.quantize(&handle, &real, &mut quantized, &mut scales, &mut workspace)?;
/// drop(quantized);
/// assert_eq!(integers, [50, -127, 127, 0]);
/// # Ok::<(), magicube::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantize {
    granularity: Granularity,
    calibration: Calibration,
    percentile: f64,
    scale_batch_stride: i64,
}

impl Quantize {
    /// By absmax, with one scale, or one a row or a column.
    pub fn new(granularity: Granularity) -> Self {
        let calibration = Calibration::Absmax;
        Self { granularity, calibration, percentile: 100.0, scale_batch_stride: -1 }
    }

    /// How scales are found.
    pub fn calibration(self, calibration: Calibration) -> Self {
        Self { calibration, ..self }
    }

    /// By the percentage, in (0, 100], that must not saturate.
    pub fn percentile(self, percentile: f64) -> Self {
        Self { calibration: Calibration::Percentile, percentile, ..self }
    }

    /// Elements between the scales of the matrices of a batch; -1: without gaps.
    pub fn scale_batch_stride(self, scale_batch_stride: i64) -> Self {
        Self { scale_batch_stride, ..self }
    }

    fn sys(&self) -> sys::magicubeQuantizeParams {
        sys::magicubeQuantizeParams {
            struct_size: size_of::<sys::magicubeQuantizeParams>(),
            granularity: self.granularity.sys(),
            calibration: self.calibration.sys(),
            percentile: self.percentile,
            scale_batch_stride: self.scale_batch_stride,
        }
    }

    fn require_scales(&self, matrix: &Dense<'_>, len: usize) -> Result<()> {
        let one = match self.granularity {
            Granularity::Row => matrix.rows(),
            Granularity::Col => matrix.cols(),
            _ => 1,
        };
        let stride = if self.scale_batch_stride < 0 { one } else { self.scale_batch_stride };
        let batch = wide(matrix.known_batch());
        let needed = if batch > 0 { (batch - 1) * wide(stride) + wide(one) } else { 0 };
        require_len("scales", len, needed)
    }

    /// The scratch that [`Quantize::quantize`] needs.
    pub fn workspace(
        &self,
        handle: &Handle,
        real: &Dense<'_>,
        quantized: &Dense<'_>,
    ) -> Result<Workspace> {
        let (real, params) = (real.lend(handle, "real")?, self.sys());
        let quantized = quantized.lend(handle, "quantized")?;
        let mut bytes = 0;
        // SAFETY: handle and descriptors are valid; both structs outlive the call.
        check(unsafe {
            let h = handle.raw();
            sys::magicubeQuantize_bufferSize(h, real, &params, quantized, &mut bytes)
        })?;
        handle.workspace(bytes)
    }

    /// Writes integers and scales; reads the latter for [`Calibration::Given`].
    pub fn quantize<'s>(
        &self,
        handle: &Handle,
        real: &Dense<'_>,
        quantized: &mut DenseMut<'_>,
        scales: impl MemoryMut<'s, f32>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let scales = scales.view_mut();
        handle.require("scales", scales.location)?;
        self.require_scales(real, scales.len)?;
        let (real, params) = (real.lend(handle, "real")?, self.sys());
        let quantized = quantized.lend_mut(handle, "quantized")?;
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle, descriptors, what they borrow, scales and scratch are valid.
        check(unsafe {
            let (h, scales) = (handle.raw(), scales.pointer);
            sys::magicubeQuantize(h, real, &params, quantized, scales, scratch, bytes)
        })
    }

    /// Writes scale times integer.
    pub fn dequantize<'s>(
        &self,
        handle: &Handle,
        quantized: &Dense<'_>,
        scales: impl Memory<'s, f32>,
        real: &mut DenseMut<'_>,
    ) -> Result<()> {
        let scales = scales.view();
        handle.require("scales", scales.location)?;
        self.require_scales(quantized, scales.len)?;
        let (quantized, params) = (quantized.lend(handle, "quantized")?, self.sys());
        let real = real.lend_mut(handle, "real")?;
        // SAFETY: handle, descriptors, what they borrow and the scales are valid.
        check(unsafe {
            sys::magicubeDequantize(handle.raw(), quantized, &params, scales.pointer, real)
        })
    }
}
