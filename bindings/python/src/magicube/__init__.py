# SPDX-License-Identifier: Apache-2.0
"""Sparse low-precision matrix products on Tensor Cores and CPUs.

Importing the package makes no CUDA call and prints nothing. Arrays come from NumPy, torch, CuPy or
any library with DLPack or ``__cuda_array_interface__``; results belong to the library of the input
and lie on its device. Where there is neither torch nor CuPy, :func:`to_cuda` and
:class:`DeviceArray` stand in. Sparse matrices and patterns move by their methods cuda() and cpu().

Element types are strings: int4, int8, uint8, int12, int16, int32, fp16, bf16, fp32, e4m3. Wherever
one is asked for, a NumPy, ml_dtypes or torch type with that meaning is taken as well. bf16 and e4m3
are ml_dtypes in NumPy, int12 is an int16 array, and int4 is an :class:`Int4Array`.
"""

from magicube import kronecker, patterns, sparse
from magicube._attention import AttentionPlan, attention, attention_implementations
from magicube._attention_scales import QuantizedAttention, quantize_attention
from magicube._cuda import to_cuda
from magicube._device import DeviceInfo, Handle, build_info, device_count, device_info
from magicube._device_array import DeviceArray
from magicube._int4 import Int4Array, pack_int4
from magicube._kronecker_mm import (
    KroneckerMMPlan,
    kronecker_gradient,
    kronecker_mm,
    kronecker_mm_implementations,
)
from magicube._log import get_log_level, set_log_callback, set_log_file, set_log_level
from magicube._native import version as _version
from magicube._plan import PlanInfo
from magicube._project import Projection, SupportProjection, project, project_supports
from magicube._prune import prune
from magicube._prune_vnm import gradual_schedule, kept_energy, prune_vnm, prune_vnm_obs
from magicube._quantize import dequantize, quantize
from magicube._sddmm import SDDMMPlan, sddmm, sddmm_implementations
from magicube._softmax import (
    SparseSoftmaxPlan,
    sparse_softmax,
    sparse_softmax_implementations,
)
from magicube._spmm import SpMMPlan, spmm, spmm_implementations
from magicube.errors import (
    AllocFailedError,
    ArchMismatchError,
    CapturingError,
    CudaError,
    DeviceMismatchError,
    InsufficientWorkspaceError,
    InternalError,
    InvalidValueError,
    MagicubeError,
    MisalignedError,
    NoDeviceError,
    NotSupportedError,
)
from magicube.sparse import Kronecker, KroneckerChain, SrBcrs, Vnm, validate

__version__ = _version()

__all__ = [
    "AllocFailedError",
    "ArchMismatchError",
    "AttentionPlan",
    "CapturingError",
    "CudaError",
    "DeviceArray",
    "DeviceInfo",
    "DeviceMismatchError",
    "Handle",
    "InsufficientWorkspaceError",
    "Int4Array",
    "InternalError",
    "InvalidValueError",
    "Kronecker",
    "KroneckerChain",
    "KroneckerMMPlan",
    "MagicubeError",
    "MisalignedError",
    "NoDeviceError",
    "NotSupportedError",
    "PlanInfo",
    "Projection",
    "QuantizedAttention",
    "SDDMMPlan",
    "SparseSoftmaxPlan",
    "SpMMPlan",
    "SrBcrs",
    "SupportProjection",
    "Vnm",
    "__version__",
    "attention",
    "attention_implementations",
    "build_info",
    "dequantize",
    "device_count",
    "device_info",
    "get_log_level",
    "gradual_schedule",
    "kept_energy",
    "kronecker",
    "kronecker_gradient",
    "kronecker_mm",
    "kronecker_mm_implementations",
    "pack_int4",
    "patterns",
    "project",
    "project_supports",
    "prune",
    "prune_vnm",
    "prune_vnm_obs",
    "quantize",
    "quantize_attention",
    "sddmm",
    "sddmm_implementations",
    "set_log_callback",
    "set_log_file",
    "set_log_level",
    "sparse",
    "sparse_softmax",
    "sparse_softmax_implementations",
    "spmm",
    "spmm_implementations",
    "to_cuda",
    "validate",
]
