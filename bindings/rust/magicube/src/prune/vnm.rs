// SPDX-License-Identifier: Apache-2.0
//! Pruning to V:N:M, by magnitude or by the optimal brain surgeon.

use magicube_sys as sys;

use super::PruneNorm;
use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::memory::Workspace;
use crate::status::{abi_enum, check, Result};

abi_enum! {
    /// What tells how the loss curves around the weights.
    Curvature = magicubeCurvature {
        /// Inputs of the layer, samples x K.
        Inputs = MAGICUBE_CURVATURE_INPUTS,
        /// Their X^T X.
        Hessian = MAGICUBE_CURVATURE_HESSIAN,
        /// A batch of gradients of the loss, one a sample.
        Gradients = MAGICUBE_CURVATURE_GRADIENTS,
    }
}

abi_enum! {
    /// How thoroughly second-order pruning chooses.
    ObsSelection = magicubeObsSelection {
        /// By the correlation of all weights of a row's group.
        Exhaustive = MAGICUBE_OBS_EXHAUSTIVE,
        /// By that of each pair alone.
        Pairwise = MAGICUBE_OBS_PAIRWISE,
    }
}

/// Magnitude pruning to V:N:M: the columns of which a group of rows together keeps most.
#[derive(Clone, Copy, Debug)]
pub struct PruneVnm {
    pattern: (i32, i32, i32),
    norm: PruneNorm,
}

impl PruneVnm {
    /// The pattern `(V, n, m)`, L2 norm.
    pub fn new(pattern: (i32, i32, i32)) -> Self {
        Self { pattern, norm: PruneNorm::L2 }
    }

    /// By what weights are ranked.
    pub fn norm(self, norm: PruneNorm) -> Self {
        Self { norm, ..self }
    }

    fn sys(&self) -> sys::magicubePruneVnmParams {
        let (vector_length, n, m) = self.pattern;
        let struct_size = size_of::<sys::magicubePruneVnmParams>();
        sys::magicubePruneVnmParams { struct_size, vector_length, n, m, norm: self.norm.sys() }
    }

    /// The scratch that [`PruneVnm::mask`] needs, for the handle's number of threads.
    pub fn workspace(&self, handle: &Handle, weight: &Dense<'_>) -> Result<Workspace> {
        let (weight, params) = (weight.lend(handle, "weight")?, self.sys());
        let mut bytes = 0;
        // SAFETY: handle and descriptor are valid; both structs outlive the call.
        check(unsafe {
            sys::magicubePruneVnm_bufferSize(handle.raw(), weight, &params, &mut bytes)
        })?;
        handle.workspace(bytes)
    }

    /// Writes the keep-mask of `weight`: a uint8 matrix of the same shape and batch.
    pub fn mask(
        &self,
        handle: &Handle,
        weight: &Dense<'_>,
        mask: &mut DenseMut<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let (weight, params) = (weight.lend(handle, "weight")?, self.sys());
        let mask = mask.lend_mut(handle, "mask")?;
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle, descriptors, what they borrow and the scratch are valid.
        check(unsafe { sys::magicubePruneVnm(handle.raw(), weight, &params, mask, scratch, bytes) })
    }
}

/// Second-order pruning to V:N:M, which changes the weights it keeps.
#[derive(Clone, Copy, Debug)]
pub struct PruneVnmObs {
    pattern: (i32, i32, i32),
    curvature: Curvature,
    selection: ObsSelection,
    damping: f64,
    fisher_block: i32,
    refit: bool,
}

impl PruneVnmObs {
    /// The pattern `(V, n, m)`: exhaustive, damping 0.01, Fisher blocks of 16, with refit.
    pub fn new(pattern: (i32, i32, i32), curvature: Curvature) -> Self {
        let selection = ObsSelection::Exhaustive;
        Self { pattern, curvature, selection, damping: 0.01, fisher_block: 16, refit: true }
    }

    /// How thoroughly it chooses.
    pub fn selection(self, selection: ObsSelection) -> Self {
        Self { selection, ..self }
    }

    /// What is added to the diagonal, in means of the diagonal.
    pub fn damping(self, damping: f64) -> Self {
        Self { damping, ..self }
    }

    /// With gradients: columns of a block, from 1 to 256.
    pub fn fisher_block(self, fisher_block: i32) -> Self {
        Self { fisher_block, ..self }
    }

    /// Whether each row is solved anew for what it keeps.
    pub fn refit(self, refit: bool) -> Self {
        Self { refit, ..self }
    }

    fn sys(&self) -> sys::magicubePruneVnmObsParams {
        let (vector_length, n, m) = self.pattern;
        sys::magicubePruneVnmObsParams {
            struct_size: size_of::<sys::magicubePruneVnmObsParams>(),
            vector_length,
            n,
            m,
            curvature: self.curvature.sys(),
            selection: self.selection.sys(),
            damping: self.damping,
            fisher_block: self.fisher_block,
            refit: self.refit.into(),
        }
    }

    /// The scratch that [`PruneVnmObs::prune`] needs, for the handle's number of threads.
    pub fn workspace(
        &self,
        handle: &Handle,
        weight: &Dense<'_>,
        curvature: &Dense<'_>,
    ) -> Result<Workspace> {
        let (weight, params) = (weight.lend(handle, "weight")?, self.sys());
        let curvature = curvature.lend(handle, "curvature")?;
        let mut bytes = 0;
        // SAFETY: handle and descriptors are valid; both structs outlive the call.
        check(unsafe {
            let h = handle.raw();
            sys::magicubePruneVnmObs_bufferSize(h, weight, curvature, &params, &mut bytes)
        })?;
        handle.workspace(bytes)
    }

    /// Writes the keep-mask of `weight`, and the weights that go with it.
    pub fn prune(
        &self,
        handle: &Handle,
        weight: &Dense<'_>,
        curvature: &Dense<'_>,
        (mask, updated): (&mut DenseMut<'_>, &mut DenseMut<'_>),
        workspace: &mut Workspace,
    ) -> Result<()> {
        let (weight, params) = (weight.lend(handle, "weight")?, self.sys());
        let curvature = curvature.lend(handle, "curvature")?;
        let (mask, updated) =
            (mask.lend_mut(handle, "mask")?, updated.lend_mut(handle, "updated")?);
        let (scratch, bytes) = workspace.lend(handle)?;
        // SAFETY: handle, descriptors, what they borrow and the scratch are valid.
        check(unsafe {
            let (h, p) = (handle.raw(), &params);
            sys::magicubePruneVnmObs(h, weight, curvature, p, mask, updated, scratch, bytes)
        })
    }
}

/// The n of each of `steps` steps from m down to n.
pub fn vnm_schedule(m: i32, n: i32, steps: i32) -> Result<Vec<i32>> {
    // The library refuses a number of steps that is not positive before it writes.
    let mut schedule = vec![0; usize::try_from(steps).unwrap_or(0)];
    // SAFETY: there is room for `steps` numbers.
    check(unsafe { sys::magicubeVnmSchedule(m, n, steps, schedule.as_mut_ptr()) })?;
    Ok(schedule)
}

/// The share of a weight's sum of squares that lies where the uint8 mask is not 0.
pub fn kept_energy(handle: &Handle, weight: &Dense<'_>, mask: &Dense<'_>) -> Result<f64> {
    let (weight, mask) = (weight.lend(handle, "weight")?, mask.lend(handle, "mask")?);
    let mut share = 0.0;
    // SAFETY: handle and descriptors are valid; share outlives the call.
    check(unsafe { sys::magicubeKeptEnergy(handle.raw(), weight, mask, &mut share) })?;
    Ok(share)
}
