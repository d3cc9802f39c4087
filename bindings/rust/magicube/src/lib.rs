// SPDX-License-Identifier: Apache-2.0
//! Sparse low-precision matrix products and attention, on Tensor Cores and CPUs: the safe interface
//! of `libmagicube`.
//!
//! A [`Handle`] names a device. [`Sparse`], [`Dense`] and [`DenseMut`] describe matrices in memory
//! that they borrow: slices of the host, or a [`DeviceBuffer`]. An operation is a problem, of which
//! a plan is made once and executed often, by many threads if wanted:
//!
//! | problem | plan | computes |
//! |--|--|--|
//! | [`SpmmProblem`] | [`SpmmPlan`] | sparse times dense, with scales, bias and activation |
//! | [`KroneckerMmProblem`] | [`KroneckerMmPlan`] | Kronecker-sparse chains |
//! | [`SddmmProblem`] | [`SddmmPlan`] | a dense product at the places of a pattern |
//! | [`SoftmaxProblem`] | [`SoftmaxPlan`] | softmax over a sparse matrix's rows |
//! | [`AttentionProblem`] | [`AttentionPlan`] | attention over a sparse pattern |
//!
//! [`Prune`], [`Quantize`], [`project_chain`] and [`convert`] make the operands. Types, layouts and
//! the exact order of arithmetic are those of the C headers.
//!
//! Lengths and devices of all memory are checked before a call; every other rule is the library's,
//! whose message an [`Error`] carries. On CUDA calls return before their work is done:
//! [`Handle::synchronize`] waits, and so do copies from and to host memory. Work on several streams
//! that shares memory is ordered by the caller; unordered, it gives wrong numbers.

mod attention;
pub mod convert;
mod dense;
mod handle;
pub mod kronecker;
mod kronecker_mm;
pub mod log;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;
mod plan;
mod project;
mod prune;
mod quantize;
mod sddmm;
mod softmax;
mod sparse;
mod spmm;
mod status;
mod types;
mod values;

pub use attention::{
    AttentionArgs, AttentionInputs, AttentionPatterns, AttentionPlan, AttentionProblem,
    AttentionStrides,
};
pub use dense::{Dense, DenseLayout, DenseMut};
pub use handle::{build_info, version, version_string};
pub use handle::{Device, DeviceInfo, Handle, Location, PointerMode, Stream, Validation};
pub use kronecker_mm::{BatchLayout, KroneckerMmArgs, KroneckerMmPlan, KroneckerMmProblem};
pub use memory::{DeviceBuffer, Memory, MemoryMut, View, ViewMut, Workspace};
pub use plan::{BufferSizes, PlanInfo, Scalar};
pub use project::{project_chain, project_supports, ProjectionReport, Weighting};
pub use prune::{kept_energy, vnm_schedule, Curvature, ObsSelection};
pub use prune::{Prune, PruneNorm, PruneScope, PruneVnm, PruneVnmObs};
pub use quantize::{Calibration, Quantize};
pub use sddmm::{SddmmArgs, SddmmPlan, SddmmProblem};
pub use softmax::{SoftmaxArgs, SoftmaxPlan, SoftmaxProblem};
pub use sparse::{
    vnm_lengths, BsrLayout, CsrLayout, Sparse, SparseBatch, SparseLayout, SparseMut, SrBcrsLayout,
    VnmLayout,
};
pub use spmm::{SpmmArgs, SpmmPlan, SpmmProblem};
pub use status::{Error, Result, Status};
pub use types::{
    Activation, Bf16, DataType, E4m3, Element, Granularity, Index, IndexType, Int12, Int4x2, Order,
    Pod, SparseFormat, ValueMode, F16,
};
