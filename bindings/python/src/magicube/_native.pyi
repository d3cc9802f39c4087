# SPDX-License-Identifier: Apache-2.0
from typing import Any, Callable, Sequence

import numpy as np

DATA_TYPES: dict[str, int]
INDEX_TYPES: dict[str, int]
ORDERS: dict[str, int]
DEVICES: dict[str, int]
ACTIVATIONS: dict[str, int]
GRANULARITIES: dict[str, int]
VALUE_MODES: dict[str, int]
ATTENTION_PATTERNS: dict[str, int]
BATCH_LAYOUTS: dict[str, int]
VALIDATIONS: dict[str, int]
NORMS: dict[str, int]
SCOPES: dict[str, int]
CURVATURES: dict[str, int]
OBS_SELECTIONS: dict[str, int]
WEIGHTINGS: dict[str, int]
CALIBRATIONS: dict[str, int]
LOG_LEVELS: dict[str, int]

def version() -> str: ...
def version_number() -> int: ...
def build_info() -> str: ...
def status_name(status: int) -> str: ...
def status_string(status: int) -> str: ...
def device_count(device: int) -> int: ...
def device_info(device: int, ordinal: int) -> tuple[str, int, int, int, bool]: ...

class Handle:
    num_threads: int
    deterministic: bool
    validation: int
    def __init__(self, device: int, ordinal: int) -> None: ...
    def close(self) -> None: ...
    def synchronize(self) -> None: ...
    def on_stream(self, stream: int) -> Handle: ...
    @property
    def closed(self) -> bool: ...
    @property
    def device(self) -> tuple[int, int]: ...

def set_log_level(level: int) -> None: ...
def get_log_level() -> int: ...
def set_log_file(path: bytes | str | None) -> None: ...
def set_log_callback(function: Callable[[int, bytes], None] | None) -> None: ...

class DlpackTensor:
    def __init__(self, capsule: Any) -> None: ...
    @property
    def device(self) -> tuple[int, int]: ...
    @property
    def type(self) -> tuple[int, int, int]: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...

def dlpack_capsule(
    owner: Any,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    device: tuple[int, int],
    type: tuple[int, int],
    versioned: bool,
    read_only: bool,
) -> Any: ...

class Memory:
    def __init__(self, device: int, ordinal: int, bytes: int) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def bytes(self) -> int: ...

def copy(handle: Handle, destination: int, source: int, bytes: int) -> None: ...
def dlpack_array(tensor: DlpackTensor, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]: ...

class DnMat:
    def __init__(
        self,
        rows: int,
        cols: int,
        ld: int,
        values: int,
        type: int,
        order: int,
        writable: bool,
        batch: int,
        batch_stride: int,
    ) -> None: ...

class SpMat:
    @staticmethod
    def csr(
        rows: int,
        cols: int,
        nnz: int,
        offsets: int,
        col_indices: int,
        values: int,
        offset_type: int,
        value_type: int,
    ) -> SpMat: ...
    @staticmethod
    def bsr(
        rows: int,
        cols: int,
        block_rows: int,
        block_cols: int,
        nnzb: int,
        offsets: int,
        block_col_indices: int,
        values: int,
        offset_type: int,
        value_type: int,
    ) -> SpMat: ...
    @staticmethod
    def sr_bcrs(entries: dict[str, int]) -> SpMat: ...

_Shape = Sequence[int]

class KroneckerMat:
    def __init__(
        self,
        shapes: Sequence[_Shape],
        values: Sequence[int],
        type: int,
        chain: bool,
        writable: bool,
    ) -> None: ...
    def pair(self, index: int) -> tuple[bool, int, bool]: ...
    def product_shape(self) -> list[int]: ...

def kronecker_butterfly(log2_size: int) -> list[list[int]]: ...
def kronecker_monarch(
    rows: int, cols: int, blocks: int, step: int, rank: int
) -> list[list[int]]: ...
def kronecker_to_csr(
    handle: Handle,
    source: KroneckerMat,
    offset_type: int,
    offsets: int,
    col_indices: int,
    values: int,
    value_type: int,
) -> None: ...
def kronecker_to_dense(handle: Handle, source: KroneckerMat, dense: DnMat) -> None: ...
def dense_to_kronecker(handle: Handle, dense: DnMat, target: KroneckerMat) -> None: ...
def csr_to_kronecker(handle: Handle, source: SpMat, target: KroneckerMat) -> None: ...
def kronecker_multiply(handle: Handle, chain: KroneckerMat, product: KroneckerMat) -> None: ...
def kronecker_fill_hadamard(handle: Handle, chain: KroneckerMat, scale: float) -> None: ...
def kronecker_gradient(
    handle: Handle, X: DnMat, dY: DnMat, layout: int, gradient: KroneckerMat
) -> None: ...
def project_chain(
    handle: Handle,
    weight: DnMat,
    weights: DnMat | None,
    weighting: int,
    chain: KroneckerMat,
    step_errors: int,
) -> dict[str, float]: ...
def project_supports(
    handle: Handle,
    weight: DnMat,
    weights: DnMat | None,
    weighting: int,
    left_support: DnMat,
    right_support: DnMat,
    left: DnMat,
    right: DnMat,
) -> dict[str, float]: ...
def default_stride(vector_length: int, type: int) -> int: ...
def dense_to_sr_bcrs_count(
    handle: Handle, dense: DnMat, mask: DnMat | None, entries: dict[str, int]
) -> tuple[int, Memory]: ...
def dense_to_sr_bcrs_fill(
    handle: Handle,
    dense: DnMat,
    mask: DnMat | None,
    entries: dict[str, int],
    workspace: Memory,
) -> None: ...
def sparse_to_sr_bcrs_count(
    handle: Handle, source: SpMat, entries: dict[str, int]
) -> tuple[int, Memory]: ...
def sparse_to_sr_bcrs_fill(
    handle: Handle, source: SpMat, entries: dict[str, int], workspace: Memory
) -> None: ...
def sparse_to_dense(handle: Handle, source: SpMat, dense: DnMat) -> None: ...
def sparse_to_mask(handle: Handle, source: SpMat, mask: DnMat) -> None: ...
def sr_bcrs_to_csr_count(handle: Handle, source: SpMat, offset_type: int, offsets: int) -> int: ...
def sr_bcrs_to_csr_fill(
    handle: Handle,
    source: SpMat,
    offset_type: int,
    offsets: int,
    col_indices: int,
    values: int,
    value_type: int,
) -> None: ...
def sr_bcrs_to_bsr_count(
    handle: Handle,
    source: SpMat,
    block_rows: int,
    block_cols: int,
    offset_type: int,
    offsets: int,
) -> int: ...
def sr_bcrs_to_bsr_fill(
    handle: Handle,
    source: SpMat,
    block_rows: int,
    block_cols: int,
    offset_type: int,
    offsets: int,
    block_col_indices: int,
    values: int,
    value_type: int,
) -> None: ...
def validate(handle: Handle, matrix: SpMat) -> None: ...
def make_vnm(entries: dict[str, int]) -> SpMat: ...
def vnm_lengths(
    rows: int, cols: int, vector_length: int, n: int, m: int
) -> tuple[int, int, int]: ...
def dense_to_vnm(
    handle: Handle, dense: DnMat, mask: DnMat | None, entries: dict[str, int]
) -> None: ...
def sparse_to_vnm(handle: Handle, source: SpMat, entries: dict[str, int]) -> None: ...
def vnm_to_csr_count(handle: Handle, source: SpMat, offset_type: int, offsets: int) -> int: ...
def vnm_to_csr_fill(
    handle: Handle,
    source: SpMat,
    offset_type: int,
    offsets: int,
    col_indices: int,
    values: int,
    value_type: int,
) -> None: ...
def vnm_implementations(device: int) -> list[str]: ...
def prune_workspace(handle: Handle, weight: DnMat, params: dict[str, int | float]) -> int: ...
def prune(
    handle: Handle,
    weight: DnMat,
    mask: DnMat,
    params: dict[str, int | float],
    workspace: int,
    bytes: int,
) -> None: ...
def prune_vnm_workspace(handle: Handle, weight: DnMat, params: dict[str, int]) -> int: ...
def prune_vnm(
    handle: Handle, weight: DnMat, mask: DnMat, params: dict[str, int], workspace: int, bytes: int
) -> None: ...
def prune_vnm_obs_workspace(
    handle: Handle, weight: DnMat, curvature: DnMat, params: dict[str, int | float]
) -> int: ...
def prune_vnm_obs(
    handle: Handle,
    weight: DnMat,
    curvature: DnMat,
    mask: DnMat,
    updated: DnMat,
    params: dict[str, int | float],
    workspace: int,
    bytes: int,
) -> None: ...
def kept_energy(handle: Handle, weight: DnMat, mask: DnMat) -> float: ...
def vnm_schedule(m: int, n: int, steps: int) -> list[int]: ...
def quantize_workspace(
    handle: Handle, real: DnMat, quantized: DnMat, params: dict[str, int | float]
) -> int: ...
def quantize(
    handle: Handle,
    real: DnMat,
    quantized: DnMat,
    scales: int,
    params: dict[str, int | float],
    workspace: int,
    bytes: int,
) -> None: ...
def dequantize(
    handle: Handle, quantized: DnMat, real: DnMat, scales: int, params: dict[str, int | float]
) -> None: ...

class _Plan:
    def __init__(
        self,
        handle: Handle,
        sparse: SpMat | KroneckerMat,
        entries: dict[str, int],
        implementation: str | None,
    ) -> None: ...
    def info(self) -> tuple[str, str, int, int]: ...
    @property
    def workspace_bytes(self) -> int: ...
    @staticmethod
    def check_supported(
        handle: Handle,
        sparse: SpMat | KroneckerMat,
        entries: dict[str, int],
        implementation: str | None,
    ) -> None: ...
    @staticmethod
    def implementations(device: int) -> list[str]: ...

class SpMMPlan(_Plan):
    def execute(
        self,
        handle: Handle,
        alpha: float,
        B: DnMat,
        beta: float,
        C: DnMat,
        args: dict[str, int],
        workspace: int,
    ) -> None: ...
    def update_values(self, handle: Handle, values: int) -> None: ...

class SDDMMPlan(_Plan):
    def execute(
        self,
        handle: Handle,
        alpha: float,
        A: DnMat,
        B: DnMat,
        values: int,
        args: dict[str, int],
        workspace: int,
    ) -> None: ...

class SparseSoftmaxPlan(_Plan):
    def execute(
        self,
        handle: Handle,
        alpha: float,
        scores: int,
        out: int,
        args: dict[str, int],
        workspace: int,
    ) -> None: ...

class AttentionPlan(_Plan):
    def execute(
        self,
        handle: Handle,
        scale: float | None,
        q: tuple[int, int, int, int],
        k: tuple[int, int, int, int],
        v: tuple[int, int, int, int],
        out: tuple[int, int, int, int],
        args: dict[str, int],
        workspace: int,
    ) -> None: ...

class KroneckerMMPlan(_Plan):
    def execute(
        self,
        handle: Handle,
        alpha: float,
        X: DnMat,
        beta: float,
        Y: DnMat,
        values: Sequence[int],
        args: dict[str, int],
        workspace: int,
    ) -> None: ...
    def update_values(self, handle: Handle, values: Sequence[int]) -> None: ...
