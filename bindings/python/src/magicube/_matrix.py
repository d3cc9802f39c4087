# SPDX-License-Identifier: Apache-2.0
"""Dense matrices as the C ABI describes them: order, leading dimension, batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from magicube import _native
from magicube._arrays import (
    NUMPY,
    Library,
    Stored,
    address,
    check_aligned,
    check_writable,
    checked_dtype,
    host_array,
)
from magicube._call import Call
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._int4 import Int4Array, packed_shape
from magicube.errors import InvalidValueError


@dataclass(frozen=True)
class Matrix:
    """A matrix, or a batch of matrices; sizes and strides count elements."""

    array: Stored | None
    """Keeps the memory alive; the packed bytes for int4; None where only the shape counts."""
    dtype: DType
    rows: int
    cols: int
    order: str
    ld: int
    batch: int | None
    batch_stride: int
    library: Library
    writable: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, cols), or (batch, rows, cols)."""
        head = () if self.batch is None else (self.batch,)
        return (*head, self.rows, self.cols)

    @property
    def batch_count(self) -> int:
        """Number of matrices."""
        return 1 if self.batch is None else self.batch

    def descriptor(self, batch_count: int | None = None) -> _native.DnMat:
        """The descriptor; with ``batch_count``, one matrix serves so many."""
        batch = -1 if self.batch is None else self.batch
        if batch == -1 and batch_count is not None:
            batch = batch_count
        return _native.DnMat(
            rows=self.rows,
            cols=self.cols,
            ld=self.ld,
            values=0 if self.array is None else address(self.array),
            type=self.dtype.code,
            order=_native.ORDERS[self.order],
            writable=self.writable,
            batch=batch,
            batch_stride=0 if self.batch is None else self.batch_stride,
        )


def matrix(
    x: Any,
    argument: str,
    *,
    dtype: object = None,
    order: str | None = None,
    writable: bool = False,
    mask: bool = False,
    call: Call | None = None,
) -> Matrix:
    """Describe an array without copying it.

    Parameters
    ----------
    x : array or Int4Array
        Two axes, or three with a batch in front.
    argument : str
        Its name, for messages.
    dtype
        The element type that it must have; it also tells int12 from int16.
    order : {"C", "F"}, optional
        The order that it must have; else the one it has.
    writable : bool
        Whether the library will write to it.
    mask : bool
        Whether it is a mask, of bool or uint8.
    call : Call, optional
        The call that it is for; without one it must lie in host memory.
    """
    if isinstance(x, Int4Array):
        return _int4_matrix(x, argument, dtype, order, writable, call)
    array, library = _operand(x, argument, writable, call)
    if array.ndim not in (2, 3):
        raise InvalidValueError(
            f"{argument} has shape {array.shape}; it must be a matrix, or a batch of matrices"
        )
    if mask:
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        if array.dtype != np.uint8:
            raise InvalidValueError(f"{argument} has items of {array.dtype}, not bool or uint8")
    found = checked_dtype(array, dtype, argument)
    check_writable(array, argument, writable)
    check_aligned(array, argument)
    strides = _element_strides(array, argument, library)
    rows, cols = array.shape[-2:]
    if array.size == 0:
        used = order or "C"
        ld = max(1, cols if used == "C" else rows)
    else:
        used, ld = _layout(rows, cols, strides[-2], strides[-1], order, argument, library)
    dense = ld * (rows if used == "C" else cols)
    batch, batch_stride = _batch(array, strides[0], dense, writable, argument, library)
    return Matrix(array, found, rows, cols, used, ld, batch, batch_stride, library, writable)


def _operand(
    x: Any, argument: str, writable: bool, call: Call | None
) -> tuple[Stored, Library]:
    return host_array(x, argument) if call is None else call.array(x, argument, writable)


def _element_strides(array: Stored, argument: str, library: Library) -> tuple[int, ...]:
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        raise InvalidValueError(
            f"{argument} has strides of {array.strides} bytes, no multiples of its {size}-byte "
            f"items; pass {library.contiguous(argument)}"
        )
    return tuple(stride // size for stride in array.strides)


def _layout(
    rows: int,
    cols: int,
    row_stride: int,
    col_stride: int,
    order: str | None,
    argument: str,
    library: Library,
) -> tuple[str, int]:
    """Order and leading dimension; an axis of at most one element fits any stride."""
    ld_row = _leading(rows, cols, row_stride, col_stride)
    ld_col = _leading(cols, rows, col_stride, row_stride)
    if order != "F" and ld_row is not None:
        return "C", ld_row
    if order != "C" and ld_col is not None:
        return "F", ld_col
    if order is not None and (ld_row is not None or ld_col is not None):
        wanted = "row-major" if order == "C" else "column-major"
        raise InvalidValueError(
            f"{argument} is not {wanted}, as is required here; pass "
            f"{library.contiguous(argument, order)}, or make the plan for the other order"
        )
    raise InvalidValueError(
        f"{argument} has strides of ({row_stride}, {col_stride}) elements for shape "
        f"({rows}, {cols}): neither its rows nor its columns are contiguous and apart from each "
        f"other; pass {library.contiguous(argument)}"
    )


def _leading(lines: int, length: int, line_stride: int, stride: int) -> int | None:
    least = max(length, 1)
    if lines == 0 or length == 0:
        return least
    if length > 1 and stride != 1:
        return None
    if lines == 1:
        return least
    return line_stride if line_stride >= least else None


def _batch(
    array: Stored, stride: int, dense: int, writable: bool, argument: str, library: Library
) -> tuple[int | None, int]:
    if array.ndim == 2:
        return None, 0
    count = array.shape[0]
    if count <= 1 or array.size == 0:
        return count, dense
    if stride < 0 or (stride == 0 and writable):
        raise InvalidValueError(
            f"{argument} has a batch stride of {stride} elements; pass "
            f"{library.contiguous(argument)}"
        )
    return count, stride


def _int4_matrix(
    x: Int4Array,
    argument: str,
    dtype: object,
    order: str | None,
    writable: bool,
    call: Call | None,
) -> Matrix:
    if dtype is not None:
        wanted = resolve_dtype(dtype, f"the type of {argument}")
        if wanted.name != "int4":
            raise InvalidValueError(
                f"{argument} is int4, not {wanted.name}; pass {argument}.unpack() as int8"
            )
    if order is not None and order != x.order:
        raise InvalidValueError(
            f"{argument} has order {x.order}, not {order} as is required here; repack it: "
            f"magicube.pack_int4({argument}.unpack(), {order!r})"
        )
    if x.ndim > 3:
        raise InvalidValueError(
            f"{argument} has shape {x.shape}; it must be a matrix, or a batch of matrices"
        )
    lines, library = _operand(x.packed, argument, writable, call)
    check_writable(lines, argument, writable)
    count, length = lines.shape[-2:]
    strides = lines.strides if lines.size else (0, max(1, length), 1)
    name = f"{argument}.packed"
    _, ld = _layout(count, length, strides[-2], strides[-1], "C", name, library)
    batch, batch_stride = _batch(lines, lines.strides[0], count * ld, writable, name, library)
    rows, cols = x.shape[-2:]
    return Matrix(
        lines,
        DTYPES["int4"],
        rows,
        cols,
        x.order,
        2 * ld,
        batch,
        2 * batch_stride,
        library,
        writable,
    )


def empty_matrix(
    library: Library, shape: tuple[int, ...], dtype: DType, order: str = "C"
) -> tuple[Any, Matrix]:
    """A result to write to: what the caller gets (before ``Library.give``), and its description."""
    if dtype.name != "int4":
        array, view = library.empty(shape, dtype, order)
        found = matrix(view, "out", dtype=dtype, order=order, writable=True, call=Call(None))
        return array, found
    packed, view = library.empty(packed_shape(shape, order), dtype, zero=True)
    found = _int4_matrix(Int4Array(view, shape, order), "out", None, order, True, Call(None))
    return Int4Array(packed, shape, order), found


def result_of(library: Library, result: Any) -> Any:
    """The finished result of :func:`empty_matrix` in the caller's library."""
    if isinstance(result, Int4Array):
        return Int4Array(library.give(result.packed), result.shape, result.order)
    return library.give(result)


def null_matrix(rows: int, cols: int, batch: int | None, dtype: DType) -> Matrix:
    """A matrix without values, where only a shape is asked for."""
    return Matrix(None, dtype, rows, cols, "C", max(cols, 1), batch, rows * cols, NUMPY)
