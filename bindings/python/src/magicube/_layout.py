# SPDX-License-Identifier: Apache-2.0
"""Value arrays in the layout of a sparse matrix, padding included."""

from __future__ import annotations

from typing import Any

import numpy as np

from magicube._arrays import (
    Library,
    Stored,
    check_aligned,
    check_writable,
    contiguous,
)
from magicube._call import Call
from magicube._dtypes import DType
from magicube.errors import InvalidValueError
from magicube.sparse import SrBcrs, Vnm


def raw_values(x: Any, argument: str) -> Any:
    """The value array of a sparse matrix, or the array itself."""
    if not isinstance(x, (SrBcrs, Vnm)):
        return x
    if x.values is None:
        raise InvalidValueError(f"{argument} is a pattern alone; it has no values")
    return x.values


def given_values(
    x: Any,
    argument: str,
    elements: int,
    dtype: DType,
    batch: int | None,
    call: Call,
    writable: bool = False,
) -> Stored:
    """The caller's value array of so many elements, padding included.

    ``batch`` is the number of value arrays that share the pattern, None for one without that axis.
    """
    array, _ = call.array(raw_values(x, argument), argument, writable)
    check_values(array, argument, elements, dtype, batch)
    check_writable(array, argument, writable)
    return array


def out_values(
    out: Any,
    elements: int,
    dtype: DType,
    batch: int | None,
    call: Call,
    library: Library,
) -> Stored:
    """Where a call writes values: the caller's array, or for None a new one where it takes place.

    On a GPU ``library`` makes it; in host memory it is NumPy's.
    """
    if out is not None:
        return given_values(out, "out", elements, dtype, batch, call, writable=True)
    length = dtype.storage_count(elements)
    shape = (length,) if batch is None else (batch, length)
    return new_array(shape, dtype, call, library)[1]


def new_array(
    shape: tuple[int, ...], dtype: DType, call: Call, library: Library
) -> tuple[Any, Stored]:
    """A new array of ``dtype.storage`` where the call takes place, and a view of it."""
    if not call.place.on_cuda:
        array: Stored = np.empty(shape, dtype.storage)
        return array, array
    return library.empty(shape, dtype)


def check_values(
    array: Stored, argument: str, elements: int, dtype: DType, batch: int | None
) -> None:
    """Raise unless an array has the layout that :func:`given_values` describes."""
    length = dtype.storage_count(elements)
    shape = (length,) if batch is None else (batch, length)
    dense = contiguous(array)
    if array.shape != shape or array.dtype != dtype.storage or not dense:
        raise InvalidValueError(
            f"{argument} has shape {array.shape} and items of {array.dtype}"
            f"{'' if dense else ', not contiguous'}; it must be contiguous, of "
            f"shape {shape} and {dtype.storage}"
        )
    check_aligned(array, argument)
