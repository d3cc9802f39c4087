# SPDX-License-Identifier: Apache-2.0
"""The arrays of attention: Q, K, V and the result, and one integer a matrix of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from magicube._arrays import (
    Library,
    Stored,
    address,
    check_aligned,
    check_writable,
    checked_dtype,
    contiguous,
)
from magicube._call import Call
from magicube._device_array import upload
from magicube._dtypes import DTYPES, DType
from magicube._int4 import Int4Array
from magicube.errors import InvalidValueError


@dataclass(frozen=True)
class Tensor:
    """A (batch, heads, length, head_dim) array."""

    array: Stored
    """The caller's, or the packed bytes for int4."""
    dtype: DType
    library: Library
    shape: tuple[int, ...]
    """In elements, with all four axes; the caller's array may lack the ones in front."""
    strides: tuple[int, int, int]
    """Of batch, head and row, in elements."""

    @property
    def axes(self) -> int:
        """Number of axes of the caller's array."""
        return self.array.ndim

    @property
    def native(self) -> tuple[int, int, int, int]:
        """Address and strides."""
        return address(self.array), *self.strides


def tensor(x: Any, argument: str, call: Call, writable: bool = False) -> Tensor:
    """Describe Q, K, V or the result without copying it."""
    int4 = isinstance(x, Int4Array)
    if int4 and x.order != "C":
        raise InvalidValueError(
            f"{argument} has order {x.order}; its rows must be packed, which is order C: pass "
            f"magicube.pack_int4({argument}.unpack())"
        )
    array, library = call.array(x.packed if int4 else x, argument, writable)
    axes = array.ndim
    if axes not in (2, 3, 4):
        raise InvalidValueError(
            f"{argument} has shape {array.shape}; it must be (batch, heads, length, head_dim), "
            "(heads, length, head_dim) or (length, head_dim)"
        )
    dtype = DTYPES["int4"] if int4 else checked_dtype(array, None, argument)
    check_writable(array, argument, writable)
    check_aligned(array, argument)
    missing = 4 - axes
    shape = (1,) * missing + array.shape
    steps = (0,) * missing + array.strides
    size = array.dtype.itemsize
    several = [step for n, step in zip(shape, steps) if n > 1 and array.size > 0]
    dense = shape[3] <= 1 or array.size == 0 or steps[3] == size
    if not dense or any(step < 0 or step % size for step in several):
        raise InvalidValueError(
            f"{argument} has strides of {array.strides} bytes; its rows of head_dim elements must "
            f"be contiguous, and no stride negative: pass {library.contiguous(argument)}"
        )
    packed = 2 if int4 else 1
    width = shape[3] * packed
    if array.size == 0:
        strides = 0, 0, width
    else:
        batch, head, row = (
            0 if n == 1 else step // size * packed for n, step in zip(shape[:3], steps)
        )
        strides = batch, head, row if shape[2] > 1 else width
    last = x.shape[-1] if int4 else shape[3]
    return Tensor(array, dtype, library, (*shape[:3], last), strides)


def check_shape(x: Tensor, argument: str, shape: tuple[int, ...], dtype: DType) -> None:
    """Raise unless a tensor has the shape and type that a plan was made for."""
    if x.shape != shape or x.dtype != dtype:
        raise InvalidValueError(
            f"{argument} is of {x.dtype.name} and has shape {x.shape[4 - x.axes:]}; it must "
            f"be of {dtype.name} and, axes of 1 in front aside, have shape {shape}"
        )


def integers(x: Any, argument: str, count: int, call: Call) -> Stored:
    """One integer a matrix of the batch, as the int64 array of the ABI.

    What is no array, such as a list, is copied to where the call takes place.
    """
    listed = isinstance(x, (list, tuple, range))
    array: Stored = np.asarray(x) if listed else call.array(x, argument)[0]
    if array.size and array.dtype.kind not in "iu":
        raise InvalidValueError(f"{argument} has items of {array.dtype}; they must be integers")
    if array.shape != (count,):
        raise InvalidValueError(
            f"{argument} has shape {array.shape}; it must be ({count},), an integer a matrix of "
            "the batch"
        )
    if isinstance(array, np.ndarray):
        wide = np.ascontiguousarray(array, np.int64)
        return upload(wide, call.place.ordinal) if call.place.on_cuda else wide
    if array.dtype != np.int64 or not contiguous(array):
        raise InvalidValueError(
            f"{argument} has items of {array.dtype}{'' if contiguous(array) else ', apart'}; on a "
            "GPU they must be int64 without gaps: convert it there"
        )
    return array
