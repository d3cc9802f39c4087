// SPDX-License-Identifier: Apache-2.0
//! Pruning: which elements of a dense weight to keep.

use magicube_sys as sys;

use crate::dense::{Dense, DenseMut};
use crate::handle::Handle;
use crate::memory::Workspace;
use crate::status::{abi_enum, check, Result};

abi_enum! {
    /// By what vectors are ranked.
    PruneNorm = magicubePruneNorm {
        /// The sum of squares.
        L2 = MAGICUBE_NORM_L2,
        /// The sum of absolute values.
        L1 = MAGICUBE_NORM_L1,
    }
}

abi_enum! {
    /// Which vectors compete.
    PruneScope = magicubePruneScope {
        /// Those of the whole matrix.
        Matrix = MAGICUBE_PRUNE_PER_MATRIX,
        /// Those of a block row: each keeps the same number.
        Row = MAGICUBE_PRUNE_PER_ROW,
    }
}

/// Magnitude pruning of column vectors: those with the largest norm are kept, ties by lowest index.
///
/// ```
/// use magicube::{Dense, DenseMut, Handle, Prune};
/// let handle = Handle::cpu()?;
/// let weight = [3.0f32, -1.0, 2.0, 0.5];
/// let mut mask = [9u8; 4];
/// let prune = Prune::new(1).sparsity(0.5);
/// let weight = Dense::new(&weight, 2, 2)?;
/// let mut workspace = prune.workspace(&handle, &weight)?;
/// prune.mask(&handle, &weight, &mut DenseMut::new(&mut mask, 2, 2)?, &mut workspace)?;
/// assert_eq!(mask, [1, 0, 1, 0]);
/// # Ok::<(), magicube::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    vector_length: i32,
    scope: PruneScope,
    norm: PruneNorm,
    sparsity: f64,
    keep: i64,
}

impl Prune {
    /// Vectors of `vector_length`, L2 norm, all of the matrix competing, none dropped.
    pub fn new(vector_length: i32) -> Self {
        let (scope, norm) = (PruneScope::Matrix, PruneNorm::L2);
        Self { vector_length, scope, norm, sparsity: 0.0, keep: -1 }
    }

    /// Which vectors compete.
    pub fn scope(self, scope: PruneScope) -> Self {
        Self { scope, ..self }
    }

    /// By what they are ranked.
    pub fn norm(self, norm: PruneNorm) -> Self {
        Self { norm, ..self }
    }

    /// The part of the vectors to drop, in [0, 1].
    pub fn sparsity(self, sparsity: f64) -> Self {
        Self { sparsity, ..self }
    }

    /// How many vectors of a scope to keep, whatever the sparsity.
    pub fn keep(self, keep: i64) -> Self {
        Self { keep, ..self }
    }

    fn sys(&self) -> sys::magicubePruneParams {
        sys::magicubePruneParams {
            struct_size: size_of::<sys::magicubePruneParams>(),
            vector_length: self.vector_length,
            scope: self.scope.sys(),
            norm: self.norm.sys(),
            sparsity: self.sparsity,
            keep: self.keep,
        }
    }

    /// The scratch that [`Prune::mask`] needs.
    pub fn workspace(&self, handle: &Handle, weight: &Dense<'_>) -> Result<Workspace> {
        let (weight, params) = (weight.lend(handle, "weight")?, self.sys());
        let mut bytes = 0;
        // SAFETY: handle and descriptor are valid; both structs outlive the call.
        check(unsafe { sys::magicubePrune_bufferSize(handle.raw(), weight, &params, &mut bytes) })?;
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
        check(unsafe { sys::magicubePrune(handle.raw(), weight, &params, mask, scratch, bytes) })
    }
}

mod vnm;

pub use vnm::{kept_energy, vnm_schedule, Curvature, ObsSelection, PruneVnm, PruneVnmObs};
