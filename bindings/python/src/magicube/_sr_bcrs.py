# SPDX-License-Identifier: Apache-2.0
"""The arrays of an SR-BCRS matrix: checks, sizes, the C descriptor."""

from __future__ import annotations

import math
from typing import Any, Callable, TypeVar

import numpy as np

from magicube import _convert, _native
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
from magicube._dtypes import DTYPES, DType, dtype_of_array, resolve_dtype
from magicube._placed import Placed, index_array, restore
from magicube.errors import InvalidValueError

Self = TypeVar("Self", bound="SrBcrsArrays")


class SrBcrsArrays(Placed):
    """What :class:`magicube.SrBcrs` holds; that class documents it."""

    __slots__ = (
        "_batch",
        "_dtype",
        "_nnz",
        "_num_vectors",
        "_place",
        "col_indices",
        "element_mask",
        "row_begin",
        "row_end",
        "shape",
        "stride",
        "values",
        "vector_length",
    )
    _array_names = ("col_indices", "values", "row_begin", "row_end", "element_mask")
    __array_ufunc__ = None  # so that NumPy leaves `array @ matrix` to us

    def __init__(
        self,
        shape: tuple[int, ...],
        row_begin: Any,
        row_end: Any,
        col_indices: Any,
        values: Any = None,
        *,
        vector_length: int,
        stride: int,
        dtype: object = None,
        element_mask: Any = None,
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
        """V, the number of rows that a vector spans."""
        self.stride = as_int(stride, "stride", 32)
        """S, the number of slots in a chunk."""
        _native.default_stride(self.vector_length, DTYPES["fp32"].code)
        self._nnz: int | None = None
        self._num_vectors: int | None = None
        self.col_indices = index_array(col_indices, "col_indices", ("int32",))
        """int32: column of each slot, -1 in padding."""
        self.values, self._dtype = self._check_values(values, dtype)
        """Value array (uint8 with two elements each for int4), or None for a pattern alone."""
        self._batch = self._batch_kind()
        blocks = self.block_rows * (self.batch_count if self._batch == "patterns" else 1)
        self.row_begin = index_array(row_begin, "row_begin", ("int32", "int64"), blocks)
        """int32 or int64: first slot of each block row."""
        self.row_end = index_array(row_end, "row_end", (self.row_begin.dtype.name,), blocks)
        """As row_begin: one past the last real slot of each block row."""
        self.element_mask: Stored | None = None
        """uint8: which elements of a slot exist; None if all do."""
        if element_mask is not None:
            length = self.slots * -(-self.vector_length // 8)
            self.element_mask = index_array(element_mask, "element_mask", ("uint8",), length)
        self._place = self._common_place()
        if validate:
            self.validate(handle=handle)

    def _check_values(self, values: Any, dtype: object) -> tuple[Stored | None, DType | None]:
        if values is None:
            return None, None
        array, _ = array_of(values, "values")
        wanted = None if dtype is None else resolve_dtype(dtype)
        found = dtype_of_array(array.dtype) if wanted is None else wanted
        if found is None or found.storage != array.dtype:
            raise InvalidValueError(
                f"values has items of {array.dtype}; they must be "
                f"{'of an element type' if found is None else found.storage}"
            )
        length = found.storage_count(self._value_count)
        if array.ndim not in (1, 2) or array.shape[-1] != length:
            raise InvalidValueError(
                f"values has shape {array.shape}; {self.slots} slots of {self.vector_length} "
                f"{found.name} elements take ({length},), or (batch, {length}) for one pattern"
            )
        if not contiguous(array):
            raise InvalidValueError("values is not contiguous; pass numpy.ascontiguousarray(x)")
        check_aligned(array, "values")
        return array, found

    def _batch_kind(self) -> str | None:
        strided = self.values is not None and self.values.ndim == 2
        if len(self.shape) == 2:
            if strided:
                raise InvalidValueError(f"values is a batch, but shape is {self.shape}")
            return None
        if strided and self.values is not None and self.values.shape[0] != self.shape[0]:
            raise InvalidValueError(
                f"values has shape {self.values.shape} for a batch of {self.shape[0]}"
            )
        return "values" if strided else "patterns"

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
        """Number of block rows of one matrix, ceil(M / V)."""
        return -(-self.shape[-2] // self.vector_length)

    @property
    def slots(self) -> int:
        """Number of slots, real and padding: the length of col_indices."""
        return int(self.col_indices.size)

    @property
    def _value_count(self) -> int:
        """Elements of one value array, padding included."""
        return self.slots * self.vector_length

    @property
    def num_vectors(self) -> int:
        """Number of vectors, padding left out, over all patterns."""
        if self._num_vectors is None:
            self._num_vectors = int(self.cpu()._lengths().sum(dtype=np.int64))
        return self._num_vectors

    def _lengths(self) -> AnyArray:
        """Real slots of each block row of a matrix in host memory."""
        assert isinstance(self.row_end, np.ndarray) and isinstance(self.row_begin, np.ndarray)
        return self.row_end - self.row_begin

    def _whole_vectors(self) -> int:
        """Elements of all stored vectors, without the rows past the last one."""
        per_block = self._lengths().reshape(-1, max(self.block_rows, 1))
        full = int(per_block.sum(dtype=np.int64)) * self.vector_length
        past = self.block_rows * self.vector_length - self.shape[-2]
        return full - past * int(per_block[:, -1].sum(dtype=np.int64))

    @property
    def nnz(self) -> int:
        """Number of existing elements, zero or not, of the whole batch."""
        if self._nnz is None and self._place.on_cuda:
            self._nnz = self.cpu().nnz
        if self._nnz is None:
            if not isinstance(self.element_mask, np.ndarray):
                count = self._whole_vectors()
            else:
                assert isinstance(self.col_indices, np.ndarray)
                marks = self.element_mask.reshape(
                    self.slots, -(-self.vector_length // 8)
                )[self.col_indices >= 0]
                count = int(np.unpackbits(marks).sum(dtype=np.int64))
            self._nnz = count * (self.batch_count if self._batch == "values" else 1)
        return self._nnz

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
            self.shape, arrays["row_begin"], arrays["row_end"], arrays["col_indices"],
            arrays.get("values"), vector_length=self.vector_length, stride=self.stride,
            dtype=self._dtype, element_mask=arrays.get("element_mask"), validate=False,
        )
        if not self._place.on_cuda:  # on a GPU they are not counted without need
            copy._num_vectors, copy._nnz = self.num_vectors, self.nnz
        return copy

    def _descriptor(self, dtype: DType | None = None) -> _native.SpMat:
        """The C descriptor; this object must outlive it. ``dtype`` stands in for absent values."""
        value_type = dtype or self._dtype or DTYPES["fp32"]
        entries = {
            "rows": self.shape[-2],
            "cols": self.shape[-1],
            "vector_length": self.vector_length,
            "stride": self.stride,
            "slots": self.slots,
            "row_begin": address(self.row_begin),
            "row_end": address(self.row_end),
            "col_indices": address(self.col_indices),
            "values": 0 if self.values is None else address(self.values),
            "element_mask": 0 if self.element_mask is None else address(self.element_mask),
            "offset_type": _native.INDEX_TYPES[self.row_begin.dtype.name],
            "value_type": value_type.code,
        }
        if self._batch == "patterns":
            entries["pattern_batch"] = self.batch_count
        elif self._batch == "values" and self.values is not None:
            entries["values_batch"] = self.batch_count
            entries["values_stride"] = self._value_count
        return _native.SpMat.sr_bcrs(entries)

    def validate(self, *, handle: Handle | None = None) -> None:
        """Check the matrix wholly: offsets, ascending columns in range, padding.

        Of a matrix on a GPU a copy in host memory is checked.

        Raises
        ------
        InvalidValueError
            With the place and the rule, if it is malformed.
        """
        host = self.cpu()
        if self._place.on_cuda and handle is not None:
            self._call(handle)
            handle = None
        _native.validate(native_handle(handle), host._descriptor())

    # ---- other matrices from this one ------------------------------------------------------------

    @classmethod
    def _from_parts(
        cls: type[Self], layout: _convert.Layout, parts: _convert.Parts, dtype: DType
    ) -> Self:
        head = () if layout.batch is None else (layout.batch,)
        result = cls(
            (*head, layout.rows, layout.cols),
            parts.row_begin,
            parts.row_end,
            parts.col_indices,
            parts.values,
            vector_length=layout.vector_length,
            stride=layout.stride,
            dtype=dtype if parts.values is not None else None,
            element_mask=parts.element_mask,
            validate=False,
        )
        # On a GPU the mask stays: to tell whether it says anything would read it back.
        on_host = not result._place.on_cuda
        if on_host and result.element_mask is not None and result.nnz == result._whole_vectors():
            result.element_mask = None
        return result

    def with_values(self: Self, values: Any, dtype: object = None) -> Self:
        """The same pattern with other values.

        Parameters
        ----------
        values : array, SrBcrs or None
            In this layout; shape (slots * V,), or (batch, slots * V) for a batch with one pattern.
            Not copied. Of a matrix its values are taken; None gives the pattern alone.
        dtype : optional
            "int4" or "int12" where the array alone does not tell; the present type, if the array
            fits it.
        """
        if values is None:
            shape = self.shape[1:] if self._batch == "values" else self.shape
            return self._replace(shape, None, None)
        if isinstance(values, SrBcrsArrays):
            if values.values is None:
                raise InvalidValueError("values is a pattern alone; it has no values")
            dtype = values._dtype if dtype is None else dtype
            values = values.values
        array, _ = array_of(values, "values")
        if dtype is None and self._dtype is not None and self._dtype.storage == array.dtype:
            present = self._dtype.storage_count(self._value_count)
            dtype = self._dtype if array.shape[-1:] == (present,) else None
        shape = self.shape
        if self._batch != "patterns":
            head = (array.shape[0],) if array.ndim == 2 else ()
            shape = (*head, *self.shape[-2:])
        return self._replace(shape, values, dtype)

    def _pattern(self: Self) -> Self:
        """The pattern alone, once for all value arrays of a batch that shares it."""
        return self.with_values(None)

    def _replace(self: Self, shape: tuple[int, ...], values: Any, dtype: object) -> Self:
        return type(self)(
            shape, self.row_begin, self.row_end, self.col_indices, values,
            vector_length=self.vector_length, stride=self.stride, dtype=dtype,
            element_mask=self.element_mask, validate=False,
        )

    def __repr__(self) -> str:
        return (
            f"SrBcrs(shape={self.shape}, dtype={self.dtype}, vector_length={self.vector_length}, "
            f"stride={self.stride}, nnz={self.nnz}, density={self.density:.4g})"
        )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._place.on_cuda:
            return restore, (self.cpu(), self.device)
        return _rebuild, (
            type(self),
            self.shape, self.row_begin, self.row_end, self.col_indices, self.values,
            self.vector_length, self.stride, self.dtype, self.element_mask,
        )


def _rebuild(
    cls: type[Self],
    shape: tuple[int, ...],
    row_begin: AnyArray,
    row_end: AnyArray,
    col_indices: AnyArray,
    values: AnyArray | None,
    vector_length: int,
    stride: int,
    dtype: str | None,
    element_mask: AnyArray | None,
) -> Self:
    return cls(
        shape, row_begin, row_end, col_indices, values, vector_length=vector_length,
        stride=stride, dtype=dtype, element_mask=element_mask,
    )
