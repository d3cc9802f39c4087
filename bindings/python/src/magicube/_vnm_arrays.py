# SPDX-License-Identifier: Apache-2.0
"""The arrays of a V:N:M matrix: checks, sizes, the C descriptor."""

from __future__ import annotations

import math
from typing import Any, Callable, TypeVar

import numpy as np

from magicube import _native
from magicube._arrays import (
    AnyArray,
    Stored,
    address,
    array_of,
    as_int,
    check_aligned,
    contiguous,
)
from magicube._device import Handle, native_handle
from magicube._dtypes import DTYPES, DType, dtype_of_array
from magicube._placed import Placed, index_array, restore
from magicube.errors import InvalidValueError

Self = TypeVar("Self", bound="VnmArrays")


class VnmArrays(Placed):
    """What :class:`magicube.Vnm` holds; that class documents it."""

    __slots__ = (
        "_batch", "_dtype", "_nnz", "_place", "column_loc", "m", "metadata", "n", "shape", "values",
        "vector_length",
    )
    _array_names = ("column_loc", "metadata", "values")
    __array_ufunc__ = None  # so that NumPy leaves `array @ matrix` to us

    def __init__(
        self,
        shape: tuple[int, ...],
        column_loc: Any,
        metadata: Any,
        values: Any = None,
        *,
        vector_length: int,
        m: int,
        n: int = 2,
        validate: bool = True,
        handle: Handle | None = None,
    ) -> None:
        self.shape: tuple[int, ...] = tuple(as_int(size, "shape") for size in shape)
        """(M, K), or (batch, M, K)."""
        if len(self.shape) not in (2, 3) or min(self.shape) < 0:
            raise InvalidValueError(
                f"shape is {self.shape}; it must be (M, K) or (batch, M, K), none negative"
            )
        self.vector_length = as_int(vector_length, "vector_length", 32)
        """V, the number of rows that share the selected columns."""
        self.n = as_int(n, "n", 32)
        """Elements that a row keeps of a group."""
        self.m = as_int(m, "m", 32)
        """Columns of a group."""
        loc, places, _ = self._lengths()
        location = "uint16" if self.m > 256 else "uint8"
        self.column_loc = index_array(column_loc, "column_loc", (location,), loc)
        """uint8 or uint16: the selected columns of each block row and group."""
        self.metadata = index_array(metadata, "metadata", ("uint8",), places)
        """uint8: places of the elements."""
        self.values, self._dtype = self._check_values(values)
        """Value array, or None for a pattern alone."""
        if len(self.shape) == 3 and (self.values is None or self.values.ndim != 2):
            raise InvalidValueError(
                f"shape is {self.shape}, which takes values of shape (batch, M * G * n)"
            )
        self._batch = "values" if len(self.shape) == 3 else None
        self._nnz: int | None = None
        self._place = self._common_place()
        if validate:
            self.validate(handle=handle)

    def _lengths(self) -> tuple[int, int, int]:
        rows, cols = self.shape[-2:]
        return _native.vnm_lengths(rows, cols, self.vector_length, self.n, self.m)

    def _check_values(self, values: Any) -> tuple[Stored | None, DType | None]:
        if values is None:
            return None, None
        array, library = array_of(values, "values")
        found = dtype_of_array(array.dtype)
        if found is None:
            raise InvalidValueError(f"values has items of {array.dtype}; they must be of a type")
        head = self.shape[:-2] if len(self.shape) == 3 else ()
        if array.shape != (*head, self._value_count):
            raise InvalidValueError(
                f"values has shape {array.shape}; it must be {(*head, self._value_count)}"
            )
        if not contiguous(array):
            raise InvalidValueError(
                f"values is not contiguous; pass {library.contiguous('values')}"
            )
        check_aligned(array, "values")
        return array, found

    # ---- what it holds ---------------------------------------------------------------------------

    @property
    def dtype(self) -> str | None:
        """Name of the values' type; None for a pattern alone."""
        return None if self._dtype is None else self._dtype.name

    @property
    def ndim(self) -> int:
        """2, or 3 for a batch."""
        return len(self.shape)

    @property
    def batch_count(self) -> int:
        """Number of matrices; 1 where there is no batch."""
        return self.shape[0] if len(self.shape) == 3 else 1

    @property
    def block_rows(self) -> int:
        """Number of block rows, ceil(M / V)."""
        return -(-self.shape[-2] // self.vector_length)

    @property
    def groups(self) -> int:
        """G, the number of groups of columns, ceil(K / m)."""
        return -(-self.shape[-1] // self.m)

    @property
    def budget(self) -> int:
        """Columns that a block row selects of a group."""
        return self.n + 2 if self.n > 3 else 4

    @property
    def _value_count(self) -> int:
        """Elements of one value array."""
        return self._lengths()[2]

    @property
    def nnz(self) -> int:
        """Number of existing elements, zero or not, of the whole batch."""
        if self._nnz is None:
            self._nnz = self.cpu()._count()
        return self._nnz

    def _count(self) -> int:
        rows, cols = self.shape[-2:]
        if self.groups == 0 or rows == 0:
            return 0
        whole = rows * (self.groups - 1) * self.n
        width = cols - (self.groups - 1) * self.m
        last = int((self._places()[:, -1, :] < width).sum(dtype=np.int64))
        return (whole + last) * self.batch_count

    def _places(self) -> AnyArray:
        """(M, G, n): the place of each element in the budget, of a matrix in host memory."""
        assert isinstance(self.metadata, np.ndarray)
        rows, groups = self.shape[-2], self.groups
        if self.n != 2:
            return self.metadata.reshape(rows, groups, self.n)
        pairs = self.metadata.reshape(rows, -(-groups // 2))
        nibbles = np.stack((pairs & 15, pairs >> 4), -1).reshape(rows, -1)[:, :groups]
        return np.stack((nibbles & 3, nibbles >> 2), -1)

    @property
    def density(self) -> float:
        """Existing elements divided by all elements; 0 for an empty matrix."""
        size = math.prod(self.shape)
        return self.nnz / size if size else 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self._arrays().values())

    def _moved(self: Self, arrays: dict[str, Stored]) -> Self:
        copy = type(self)(
            self.shape, arrays["column_loc"], arrays["metadata"], arrays.get("values"),
            vector_length=self.vector_length, n=self.n, m=self.m, validate=False,
        )
        copy._nnz = self._nnz if self._place.on_cuda else self.nnz
        return copy

    def _descriptor(self, dtype: DType | None = None) -> _native.SpMat:
        """The C descriptor; this object must outlive it. ``dtype`` stands in for absent values."""
        entries = {
            "rows": self.shape[-2],
            "cols": self.shape[-1],
            "vector_length": self.vector_length,
            "n": self.n,
            "m": self.m,
            "column_loc": address(self.column_loc),
            "metadata": address(self.metadata),
            "values": 0 if self.values is None else address(self.values),
            "value_type": (dtype or self._dtype or DTYPES["fp32"]).code,
        }
        if self._batch is not None:
            entries["values_batch"] = self.batch_count
            entries["values_stride"] = self._value_count
        return _native.make_vnm(entries)

    def validate(self, *, handle: Handle | None = None) -> None:
        """Check the matrix wholly: columns, places, zeros where columns repeat.

        Of a matrix on a GPU a copy in host memory is checked.

        Raises
        ------
        InvalidValueError
            With the block row, the row, the group and the rule, if it is malformed.
        """
        host = self.cpu()
        if self._place.on_cuda and handle is not None:
            self._call(handle)
            handle = None
        _native.validate(native_handle(handle), host._descriptor())

    def with_values(self: Self, values: Any) -> Self:
        """The same pattern with other values, which are not copied.

        Parameters
        ----------
        values : array, Vnm or None
            Shape (M * G * n,), or (batch, M * G * n). Of a matrix its values are taken; None gives
            the pattern alone. On a GPU they are not looked at.
        """
        if isinstance(values, VnmArrays):
            values = values.values
        shape = () if values is None else array_of(values, "values")[0].shape
        head = shape[:1] if len(shape) == 2 else ()
        return type(self)(
            (*head, *self.shape[-2:]), self.column_loc, self.metadata, values,
            vector_length=self.vector_length, n=self.n, m=self.m,
            validate=not self._place.on_cuda,
        )

    def __repr__(self) -> str:
        return (
            f"Vnm(shape={self.shape}, dtype={self.dtype}, pattern={self.vector_length}:{self.n}:"
            f"{self.m}, nnz={self.nnz}, density={self.density:.4g})"
        )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._place.on_cuda:
            return restore, (self.cpu(), self.device)
        return _rebuild, (
            type(self), self.shape, self.column_loc, self.metadata, self.values,
            self.vector_length, self.m, self.n,
        )


def _rebuild(
    cls: type[Self],
    shape: tuple[int, ...],
    column_loc: AnyArray,
    metadata: AnyArray,
    values: AnyArray | None,
    vector_length: int,
    m: int,
    n: int,
) -> Self:
    return cls(shape, column_loc, metadata, values, vector_length=vector_length, m=m, n=n)
