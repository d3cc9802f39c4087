# SPDX-License-Identifier: Apache-2.0
"""Conversions to and from SR-BCRS through the library: sizes first, then arrays, then contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from magicube import _native
from magicube._arrays import AnyArray, Stored, address, as_int, checked_dtype, choose
from magicube._call import Call
from magicube._device_array import DeviceArray
from magicube._dtypes import DTYPES, DType, name_of
from magicube._matrix import Matrix
from magicube.errors import InvalidValueError, NotSupportedError

INDEX_DTYPES: dict[str, np.dtype[Any]] = {
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
}


@dataclass(frozen=True)
class Layout:
    """What the destination of a conversion looks like."""

    rows: int
    cols: int
    batch: int | None
    vector_length: int
    stride: int
    dtype: DType
    index_dtype: str

    @property
    def block_rows(self) -> int:
        """Number of block rows of one matrix."""
        return -(-self.rows // self.vector_length)


@dataclass(frozen=True)
class Parts:
    """The arrays of an SR-BCRS matrix."""

    row_begin: Stored
    row_end: Stored
    col_indices: Stored
    values: Stored | None
    element_mask: Stored | None


def make_layout(
    shape: tuple[int, ...],
    vector_length: object,
    stride: object,
    dtype: DType,
    index_dtype: object,
) -> Layout:
    """Check the parameters of a conversion and fill in the default stride."""
    length = as_int(vector_length, "vector_length", 32)
    default = _native.default_stride(length, dtype.code)
    chosen = default if stride is None else as_int(stride, "stride", 32)
    name = name_of(index_dtype)
    choose(name, _native.INDEX_TYPES, "index_dtype")
    batch = shape[0] if len(shape) == 3 else None
    return Layout(shape[-2], shape[-1], batch, length, chosen, dtype, name)


def _run(
    call: Call,
    layout: Layout,
    count: Callable[[dict[str, int]], tuple[int, _native.Memory]],
    fill: Callable[[dict[str, int], _native.Memory], None],
    with_values: bool,
    with_mask: bool,
) -> Parts:
    blocks = layout.block_rows * (1 if layout.batch is None else layout.batch)
    row_begin = call.empty(blocks, INDEX_DTYPES[layout.index_dtype])
    row_end = call.empty(blocks, INDEX_DTYPES[layout.index_dtype])
    arrays = {
        "vector_length": layout.vector_length,
        "stride": layout.stride,
        "offset_type": _native.INDEX_TYPES[layout.index_dtype],
        "value_type": layout.dtype.code,
        "row_begin": address(row_begin),
        "row_end": address(row_end),
    }
    slots, workspace = count(arrays)
    col_indices = call.empty(slots, np.dtype(np.int32))
    arrays["slots"] = slots
    arrays["col_indices"] = address(col_indices)
    values = element_mask = None
    if with_values:
        items = layout.dtype.storage_count(slots * layout.vector_length)
        values = call.empty(items, layout.dtype.storage)
        arrays["values"] = address(values)
    if with_mask:
        element_mask = call.empty(slots * -(-layout.vector_length // 8), np.dtype(np.uint8))
        arrays["element_mask"] = address(element_mask)
    fill(arrays, workspace)
    return Parts(row_begin, row_end, col_indices, values, element_mask)


def from_dense(
    call: Call, dense: Matrix, mask: Matrix | None, layout: Layout, with_values: bool
) -> Parts:
    """Dense, with or without a mask -> SR-BCRS, where the call takes place."""
    handle = call.native()
    source = dense.descriptor()
    marks = None if mask is None else mask.descriptor()
    return _run(
        call,
        layout,
        lambda arrays: _native.dense_to_sr_bcrs_count(handle, source, marks, arrays),
        lambda arrays, scratch: _native.dense_to_sr_bcrs_fill(
            handle, source, marks, arrays, scratch
        ),
        with_values,
        with_mask=mask is not None,
    )


def from_sparse(
    call: Call, source: _native.SpMat, layout: Layout, with_values: bool
) -> Parts:
    """CSR, BSR or SR-BCRS -> SR-BCRS, where the call takes place."""
    handle = call.native()
    return _run(
        call,
        layout,
        lambda arrays: _native.sparse_to_sr_bcrs_count(handle, source, arrays),
        lambda arrays, scratch: _native.sparse_to_sr_bcrs_fill(handle, source, arrays, scratch),
        with_values,
        with_mask=True,
    )


def to_csr(
    handle: _native.Handle, source: _native.SpMat, rows: int, dtype: DType, vnm: bool = False
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """SR-BCRS or V:N:M -> offsets (int64), column indices (int32) and stored values of CSR."""
    count = _native.vnm_to_csr_count if vnm else _native.sr_bcrs_to_csr_count
    fill = _native.vnm_to_csr_fill if vnm else _native.sr_bcrs_to_csr_fill
    offsets = np.empty(rows + 1, np.int64)
    index = _native.INDEX_TYPES["int64"]
    nnz = count(handle, source, index, address(offsets))
    columns = np.empty(nnz, np.int32)
    values = np.empty(dtype.storage_count(nnz), dtype.storage)
    fill(
        handle, source, index, address(offsets), address(columns), address(values), dtype.code
    )
    return offsets, columns, values


def to_bsr(
    handle: _native.Handle,
    source: _native.SpMat,
    rows: int,
    block: tuple[int, int],
    dtype: DType,
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """SR-BCRS -> offsets (int64), block-column indices (int32) and stored values of BSR."""
    offsets = np.empty(-(-rows // block[0]) + 1, np.int64)
    index = _native.INDEX_TYPES["int64"]
    count = _native.sr_bcrs_to_bsr_count(handle, source, *block, index, address(offsets))
    columns = np.empty(count, np.int32)
    values = np.empty(dtype.storage_count(count * block[0] * block[1]), dtype.storage)
    _native.sr_bcrs_to_bsr_fill(
        handle, source, *block, index, address(offsets), address(columns), address(values),
        dtype.code,
    )
    return offsets, columns, values


@dataclass(frozen=True)
class CompressedRows:
    """CSR (block is None) or BSR arrays of another library, as views."""

    shape: tuple[int, int]
    block: tuple[int, int] | None
    offsets: Stored
    indices: Stored
    values: Stored
    dtype: DType

    def descriptor(self) -> _native.SpMat:
        """The descriptor; this object must outlive it."""
        offset_type = _native.INDEX_TYPES[self.offsets.dtype.name]
        arrays = (
            self.indices.size,
            address(self.offsets),
            address(self.indices),
            address(self.values),
            offset_type,
            self.dtype.code,
        )
        if self.block is None:
            return _native.SpMat.csr(*self.shape, *arrays)
        return _native.SpMat.bsr(*self.shape, *self.block, *arrays)


def compressed_rows(
    shape: tuple[int, int],
    block: tuple[int, int] | None,
    offsets: Stored,
    indices: Stored,
    values: Stored,
    dtype: DType,
) -> CompressedRows:
    """Bring index arrays to the types of the ABI: int32 columns, int32 or int64 offsets.

    Those on a GPU must have these types, and are not looked at.
    """
    if max(shape) > np.iinfo(np.int32).max:
        raise NotSupportedError(f"the matrix has shape {shape}; rows and columns fit 31 bits")
    if offsets.dtype not in INDEX_DTYPES.values() or indices.dtype.kind != "i":
        raise InvalidValueError(
            f"index arrays are of {offsets.dtype} and {indices.dtype}; they must be int32 or int64"
        )
    if not isinstance(offsets, np.ndarray):
        return CompressedRows(shape, block, offsets, indices, values, dtype)
    assert isinstance(indices, np.ndarray) and isinstance(values, np.ndarray)
    limit = shape[1] if block is None else -(-shape[1] // max(block[1], 1))
    if indices.size and not (0 <= int(indices.min()) and int(indices.max()) < limit):
        raise InvalidValueError(
            f"column indices lie in [{indices.min()}, {indices.max()}]; they must lie in "
            f"[0, {limit})"
        )
    return CompressedRows(
        shape,
        block,
        np.ascontiguousarray(offsets),
        np.ascontiguousarray(indices, np.int32),
        np.ascontiguousarray(values, dtype.storage),
        dtype,
    )


def readable(array: Stored, wanted: DType | None) -> tuple[Stored, DType]:
    """An array as the library can read it: fp64 becomes fp32 if a floating type was asked for."""
    if array.dtype == np.float64 and isinstance(array, DeviceArray):
        raise InvalidValueError(
            "the matrix has items of float64 and lies on a GPU; convert it there first, for "
            "example to float32"
        )
    if array.dtype == np.float64:
        if wanted is None or not wanted.floating:
            raise InvalidValueError(
                "the matrix has items of float64, which no element type holds; name the type to "
                "convert to, for example dtype='fp32'"
            )
        assert isinstance(array, np.ndarray)
        array = array.astype(np.float32)
    relabel = wanted if wanted is not None and wanted.name == "int12" else None
    return array, checked_dtype(array, relabel, "the matrix")
