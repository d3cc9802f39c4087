# SPDX-License-Identifier: Apache-2.0
"""Matrices of 4-bit integers, two a byte."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from magicube._arrays import AnyArray, array_of, host_array
from magicube._device_array import DeviceArray, upload
from magicube._dtypes import DTYPES
from magicube.errors import InvalidValueError, NotSupportedError


class Int4Array:
    """A dense matrix, or a batch of matrices, of 4-bit integers in [-8, 7], two's complement.

    Every line (a row for order C, a column for order F) starts on a byte; the element with the
    even index lies in the low nibble. Where the length of a line is odd, the high nibble of its
    last byte means nothing.

    Parameters
    ----------
    packed : array of uint8
        Shape (lines, ceil(length / 2)), or (batch, lines, ceil(length / 2)); lines may lie apart.
        In host memory or in that of a GPU.
    shape : sequence of int
        Shape of the matrix: (rows, cols), or (batch, rows, cols); for attention also (batch, heads,
        length, head_dim), with one more axis in ``packed``.
    order : {"C", "F"}
        "C": a line is a row; "F": a line is a column.

    Raises
    ------
    TypeError
        If ``packed`` is no array.
    InvalidValueError
        If its type or shape does not fit ``shape`` and ``order``.
    """

    __slots__ = ("_bytes", "order", "packed", "shape")

    def __init__(self, packed: Any, shape: Sequence[int], order: str = "C") -> None:
        if order not in ("C", "F"):
            raise InvalidValueError(f"order is {order!r}; it must be 'C' or 'F'")
        array, _ = array_of(packed, "packed")
        if array.dtype != np.uint8:
            raise InvalidValueError(f"packed has items of {array.dtype}; they must be uint8")
        self.packed = packed
        """The array of bytes, as it was given."""
        self.shape: tuple[int, ...] = tuple(int(size) for size in shape)
        """Shape of the matrix, in elements."""
        self.order = order
        """"C" if rows are packed, "F" if columns are."""
        self._bytes = array
        expected = packed_shape(self.shape, order)
        if array.shape != expected:
            raise InvalidValueError(
                f"packed has shape {array.shape}; a matrix of shape {self.shape} and order "
                f"{order} takes {expected}"
            )

    @property
    def dtype(self) -> str:
        """``"int4"``."""
        return "int4"

    @property
    def ndim(self) -> int:
        """2, or 3 for a batch, or 4."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return self._bytes.nbytes

    def unpack(self) -> AnyArray:
        """The elements as an int8 NumPy array of this shape; the matrix must be in host memory."""
        if isinstance(self._bytes, DeviceArray):
            raise NotSupportedError(
                f"the matrix lies on CUDA device {self._bytes.ordinal}; unpack a copy: "
                "x.cpu().unpack()"
            )
        length = self.shape[-1] if self.order == "C" else self.shape[-2]
        pairs = self._bytes[..., None]
        nibbles = np.concatenate((pairs & 15, pairs >> 4), axis=-1)
        lines = nibbles.reshape(*self._bytes.shape[:-1], self._bytes.shape[-1] * 2)[..., :length]
        signed = ((lines ^ 8).astype(np.int8) - 8).astype(np.int8)
        return signed if self.order == "C" else signed.swapaxes(-1, -2)

    def cuda(self, ordinal: int = 0) -> Int4Array:
        """A copy on a CUDA device; this matrix if it is there already."""
        if isinstance(self._bytes, DeviceArray):
            if self._bytes.ordinal == ordinal:
                return self
            return self.cpu().cuda(ordinal)
        return Int4Array(upload(self._bytes, ordinal), self.shape, self.order)

    def cpu(self) -> Int4Array:
        """A copy in host memory; this matrix if it is there already."""
        if isinstance(self._bytes, DeviceArray):
            return Int4Array(self._bytes.numpy(), self.shape, self.order)
        return self

    def __repr__(self) -> str:
        return f"Int4Array(shape={self.shape}, order={self.order!r})"


def packed_shape(shape: tuple[int, ...], order: str) -> tuple[int, ...]:
    """Shape of the array of bytes behind a matrix of this shape and order."""
    if len(shape) not in (2, 3, 4) or min(shape) < 0:
        raise InvalidValueError(
            f"shape is {shape}; it must be (rows, cols), (batch, rows, cols) or (batch, heads, "
            "rows, cols), none negative"
        )
    *batch, rows, cols = shape
    lines, length = (rows, cols) if order == "C" else (cols, rows)
    return (*batch, lines, DTYPES["int4"].storage_count(length))


def pack_int4(values: Any, order: str = "C") -> Int4Array:
    """Pack integers in [-8, 7] two a byte.

    Parameters
    ----------
    values : array of int8, or of ml_dtypes.int4
        Shape (rows, cols), (batch, rows, cols) or (batch, heads, rows, cols).
    order : {"C", "F"}
        Whether rows or columns are packed.

    Returns
    -------
    Int4Array
        With an array of bytes of the library that ``values`` came from.

    Raises
    ------
    InvalidValueError
        If the type or shape is another, or a value is out of range.
    """
    array, library = host_array(values, "values")
    if array.dtype.name == "int4":
        array = array.astype(np.int8)
    if array.dtype != np.int8:
        raise InvalidValueError(f"values has items of {array.dtype}; they must be int8")
    if array.size and not (array.min() >= -8 and array.max() <= 7):
        outside = array[(array < -8) | (array > 7)][0]
        raise InvalidValueError(f"values holds {outside}; int4 holds -8 to 7")
    if order not in ("C", "F"):
        raise InvalidValueError(f"order is {order!r}; it must be 'C' or 'F'")
    shape = packed_shape(array.shape, order)
    lines = array if order == "C" else array.swapaxes(-1, -2)
    packed, view = library.empty(shape, DTYPES["int4"], zero=True)
    assert isinstance(view, np.ndarray)
    nibbles = lines.astype(np.uint8) & 15
    view[...] = nibbles[..., 0::2]
    view[..., : lines.shape[-1] // 2] |= nibbles[..., 1::2] << 4
    return Int4Array(library.give(packed), array.shape, order)
