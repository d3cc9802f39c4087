# SPDX-License-Identifier: Apache-2.0
"""Matrices in V:N:M: n elements of each row in every group of M columns."""

from __future__ import annotations

import math
import os
from typing import Any, Callable

import numpy as np

from magicube import _convert, _native
from magicube._arrays import (
    NUMPY,
    AnyArray,
    address,
    as_int,
    check_aligned,
    choose,
    host_array,
)
from magicube._call import Call
from magicube._device import Handle, native_handle
from magicube._dtypes import DTYPES, DType, dtype_of_array, resolve_dtype
from magicube._matrix import empty_matrix, matrix, result_of
from magicube._place import CPU
from magicube.errors import InvalidValueError, NotSupportedError


class Vnm:
    """V:N:M (Castro et al., SC'23): structured sparsity for Sparse Tensor Cores.

    Of every group of M = ``m`` columns a block of V = ``vector_length`` rows selects a few that its
    rows share (the budget: 4, or n + 2 for n above 3), and each row keeps ``n`` elements in them.
    n = 2 is what :func:`spmm` takes; other n are stored and converted only. m = 4 with n = 2 is
    plain 2:4 sparsity. With G = ceil(K / m) groups and B columns in the budget:

    * ``column_loc``: ceil(M / V) * G * B entries, the selected columns counted inside their group.
    * ``metadata``: which places of the budget a row's elements have: for n = 2 a nibble a group,
      two groups a byte; else a byte an element.
    * ``values``: M * G * n elements, row after row.

    The pattern does not change: its arrays are read-only. Matrices lie in host memory.

    Most matrices are made by :meth:`from_dense`, :meth:`from_scipy` or :meth:`load`; the
    constructor takes the arrays themselves.

    Parameters
    ----------
    shape : sequence of int
        (M, K), or (batch, M, K) for a batch with one pattern.
    column_loc : array of uint8
        uint16 where ``m`` is above 256.
    metadata : array of uint8
    values : array, optional
        ``M * G * n`` elements, or shape (batch, M * G * n); without it a pattern alone.
    vector_length : {1, 16, 32, 64, 128, 256}
    m : int
        Columns of a group, from the budget to 65536; it need not divide K.
    n : int
    validate : bool
        Whether the library checks the arrays wholly.

    Raises
    ------
    TypeError
        If an argument is no array or no integer.
    InvalidValueError
        If a type, a length or the content of an array breaks a rule.
    """

    __slots__ = (
        "_batch", "_dtype", "column_loc", "m", "metadata", "n", "shape", "values", "vector_length",
    )
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
        self.column_loc = _pattern_array(
            column_loc, "column_loc", np.uint16 if self.m > 256 else np.uint8, loc
        )
        """uint8 or uint16: the selected columns of each block row and group."""
        self.metadata = _pattern_array(metadata, "metadata", np.uint8, places)
        """uint8: places of the elements."""
        self.values, self._dtype = self._check_values(values)
        """Value array, or None for a pattern alone."""
        if len(self.shape) == 3 and (self.values is None or self.values.ndim != 2):
            raise InvalidValueError(
                f"shape is {self.shape}, which takes values of shape (batch, M * G * n)"
            )
        self._batch = "values" if len(self.shape) == 3 else None
        if validate:
            self.validate(handle=handle)

    def _lengths(self) -> tuple[int, int, int]:
        rows, cols = self.shape[-2:]
        return _native.vnm_lengths(rows, cols, self.vector_length, self.n, self.m)

    def _check_values(self, values: Any) -> tuple[AnyArray | None, DType | None]:
        if values is None:
            return None, None
        array, _ = host_array(values, "values")
        found = dtype_of_array(array.dtype)
        if found is None:
            raise InvalidValueError(f"values has items of {array.dtype}; they must be of a type")
        head = self.shape[:-2] if len(self.shape) == 3 else ()
        if array.shape != (*head, self._value_count):
            raise InvalidValueError(
                f"values has shape {array.shape}; it must be {(*head, self._value_count)}"
            )
        if not array.flags.c_contiguous:
            raise InvalidValueError("values is not contiguous; pass numpy.ascontiguousarray(x)")
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
        rows, cols = self.shape[-2:]
        if self.groups == 0:
            return 0
        whole = rows * (self.groups - 1) * self.n
        width = cols - (self.groups - 1) * self.m
        last = int((self._places()[:, -1, :] < width).sum(dtype=np.int64))
        return (whole + last) * self.batch_count

    def _places(self) -> AnyArray:
        """(M, G, n): the place of each element in the budget."""
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
        values = 0 if self.values is None else self.values.nbytes
        return self.column_loc.nbytes + self.metadata.nbytes + values

    @property
    def device(self) -> str:
        """Where the arrays lie: always ``"cpu"`` in this version."""
        return str(CPU)

    def _call(self, handle: Handle | None, name: str = "A", ordered: bool = True) -> Call:
        """A call that reads this matrix."""
        return Call(handle, CPU, name)

    def _order(self, call: Call) -> None:
        """Nothing to wait for in host memory."""

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

        Raises
        ------
        InvalidValueError
            With the block row, the row, the group and the rule, if it is malformed.
        """
        _native.validate(native_handle(handle), self._descriptor())

    # ---- from other matrices ---------------------------------------------------------------------

    @classmethod
    def from_dense(
        cls,
        w: Any,
        *,
        m: int,
        vector_length: int = 64,
        n: int = 2,
        mask: Any = None,
        dtype: object = None,
        handle: Handle | None = None,
    ) -> Vnm:
        """Convert a dense matrix whose nonzero elements are V:n:M already.

        Parameters
        ----------
        w : array
            Shape (M, K).
        m, vector_length, n
            As in the class.
        mask : array of bool or uint8, optional
            Shape of ``w``: an element exists where it is not 0, whatever its value. Without it an
            element exists where it is not 0 itself.
        dtype : optional
            Floating type to round to (to nearest even).

        Raises
        ------
        InvalidValueError
            If a shape, type or parameter breaks a rule, or the matrix is not V:n:M: the text names
            the block row, the group, and the row or the number of columns that break it.
        """
        wanted = None if dtype is None else resolve_dtype(dtype)
        call = Call(handle, CPU, "w")
        array, read_as = _convert.readable(call.array(w, "w")[0], wanted)
        dense = matrix(array, "w", dtype=read_as, call=call)
        marks = None if mask is None else matrix(mask, "mask", mask=True, call=call)
        if len(dense.shape) != 2 or (marks is not None and marks.shape != dense.shape):
            raise InvalidValueError(
                f"w has shape {dense.shape}{'' if marks is None else f' and mask {marks.shape}'}; "
                "w must have 2 axes, and mask its shape"
            )
        return cls._filled(
            (dense.rows, dense.cols), wanted or dense.dtype, vector_length, n, m,
            lambda entries: _native.dense_to_vnm(
                call.native(), dense.descriptor(), None if marks is None else marks.descriptor(),
                entries,
            ),
        )

    @classmethod
    def from_scipy(
        cls,
        s: Any,
        *,
        m: int,
        vector_length: int = 64,
        n: int = 2,
        dtype: object = None,
        handle: Handle | None = None,
    ) -> Vnm:
        """Convert a SciPy sparse array or matrix: every stored entry exists, zero or not.

        Parameters
        ----------
        s : scipy.sparse array or matrix
            CSR is read as it is (sorted first if it is not); other formats are brought to it.
        m, vector_length, n
            As in the class.
        dtype : optional
            Floating type to round to; needed where ``s`` holds float64, which is rounded to fp32
            first.

        Raises
        ------
        TypeError
            If ``s`` is not a SciPy sparse array.
        InvalidValueError
            As for :meth:`from_dense`.
        """
        if not hasattr(s, "tocsr") or not hasattr(s, "format"):
            raise TypeError(f"s is of type {type(s).__name__}; it must be a SciPy sparse array")
        if s.ndim != 2:
            raise InvalidValueError(f"s has {s.ndim} axes; it must have 2")
        s = s.tocsr()
        if not s.has_canonical_format:
            s = s.copy()
            s.sum_duplicates()
        wanted = None if dtype is None else resolve_dtype(dtype)
        values, read_as = _convert.readable(s.data, wanted)
        source = _convert.compressed_rows(s.shape, None, s.indptr, s.indices, values, read_as)
        call = Call(handle, CPU, "s")
        return cls._filled(
            s.shape, wanted or read_as, vector_length, n, m,
            lambda entries: _native.sparse_to_vnm(call.native(), source.descriptor(), entries),
        )

    @classmethod
    def _filled(
        cls,
        shape: tuple[int, int],
        dtype: DType,
        vector_length: object,
        n: object,
        m: object,
        fill: Callable[[dict[str, int]], None],
    ) -> Vnm:
        sizes = as_int(vector_length, "vector_length", 32), as_int(n, "n", 32), as_int(m, "m", 32)
        loc, places, count = _native.vnm_lengths(*shape, *sizes)
        column_loc = np.empty(loc, np.uint16 if sizes[2] > 256 else np.uint8)
        metadata = np.empty(places, np.uint8)
        values = np.empty(dtype.storage_count(count), dtype.storage)
        fill(
            {
                "vector_length": sizes[0],
                "n": sizes[1],
                "m": sizes[2],
                "value_type": dtype.code,
                "column_loc": address(column_loc),
                "metadata": address(metadata),
                "values": address(values),
            }
        )
        return cls(
            shape, column_loc, metadata, values, vector_length=sizes[0], n=sizes[1], m=sizes[2],
            validate=False,
        )

    # ---- to other matrices -----------------------------------------------------------------------

    def _dense(self, dtype: DType, order: str, handle: Handle | None, as_mask: bool) -> Any:
        choose(order, _native.ORDERS, "order")
        result, out = empty_matrix(NUMPY, self.shape, dtype, order)
        run = _native.sparse_to_mask if as_mask else _native.sparse_to_dense
        run(native_handle(handle), self._descriptor(), out.descriptor())
        return result_of(NUMPY, result)

    def to_dense(self, *, order: str = "C", handle: Handle | None = None) -> Any:
        """The dense matrix, a NumPy array of this shape and type; absent elements are 0.

        Raises
        ------
        InvalidValueError
            If this is a pattern alone: :meth:`to_mask` shows that.
        """
        return self._dense(self._values_dtype(), order, handle, False)

    def to_mask(self, *, order: str = "C", handle: Handle | None = None) -> Any:
        """A uint8 array of this shape: 1 where an element exists, 0 elsewhere."""
        return self._dense(DTYPES["uint8"], order, handle, True)

    def _values_dtype(self) -> DType:
        if self._dtype is None:
            raise InvalidValueError("the matrix is a pattern alone; to_mask() shows it")
        return self._dtype

    def to_scipy(self, format: str = "csr", *, handle: Handle | None = None) -> Any:
        """A SciPy sparse array with every existing element, zeros included.

        Parameters
        ----------
        format : str
            "csr", or another format that SciPy makes from it.

        Returns
        -------
        scipy.sparse array
            Of fp32 for every floating type (exact), else of int8.

        Raises
        ------
        NotSupportedError
            For a batch.
        ModuleNotFoundError
            If SciPy is not installed.
        """
        import scipy.sparse

        dtype = self._values_dtype()
        if len(self.shape) == 3:
            raise NotSupportedError("a batch has no SciPy form; convert one matrix a time")
        target = DTYPES["fp32"] if dtype.floating else dtype
        offsets, columns, values = _convert.to_csr(
            native_handle(handle), self._descriptor(), self.shape[0], target, vnm=True
        )
        return scipy.sparse.csr_array((values, columns, offsets), shape=self.shape).asformat(format)

    def with_values(self, values: Any) -> Vnm:
        """The same pattern with other values, which are not copied.

        Parameters
        ----------
        values : array, Vnm or None
            Shape (M * G * n,), or (batch, M * G * n). Of a matrix its values are taken; None gives
            the pattern alone.
        """
        if isinstance(values, Vnm):
            values = values.values
        head = (len(values),) if getattr(values, "ndim", 1) == 2 else ()
        return Vnm(
            (*head, *self.shape[-2:]), self.column_loc, self.metadata, values,
            vector_length=self.vector_length, n=self.n, m=self.m,
        )

    # ---- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrix to a file that ends in ``.safetensors`` or ``.npz``.

        Raises
        ------
        magicube.io.FileFormatError
            If it ends otherwise, or cannot be written.
        """
        from magicube._io.vnm import save_vnm

        save_vnm(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, handle: Handle | None = None) -> Vnm:
        """Read a matrix that :meth:`save` wrote.

        Raises
        ------
        magicube.io.FileFormatError
            If the file is missing, truncated, of another kind, or describes a malformed matrix.
        """
        from magicube._io.vnm import load_vnm

        return load_vnm(path, handle=handle)

    def __matmul__(self, other: Any) -> Any:
        """:func:`spmm` with its defaults."""
        from magicube._spmm import spmm

        return spmm(self, other)

    def __repr__(self) -> str:
        return (
            f"Vnm(shape={self.shape}, dtype={self.dtype}, pattern={self.vector_length}:{self.n}:"
            f"{self.m}, nnz={self.nnz}, density={self.density:.4g})"
        )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _rebuild, (
            self.shape, self.column_loc, self.metadata, self.values, self.vector_length, self.m,
            self.n,
        )


def _rebuild(
    shape: tuple[int, ...],
    column_loc: AnyArray,
    metadata: AnyArray,
    values: AnyArray | None,
    vector_length: int,
    m: int,
    n: int,
) -> Vnm:
    return Vnm(shape, column_loc, metadata, values, vector_length=vector_length, m=m, n=n)


def _pattern_array(x: Any, argument: str, dtype: Any, length: int) -> AnyArray:
    """A read-only view of an array of the pattern."""
    array, _ = host_array(x, argument)
    if array.dtype != dtype or array.shape != (length,):
        raise InvalidValueError(
            f"{argument} has shape {array.shape} and items of {array.dtype}; it must have shape "
            f"({length},) and items of {np.dtype(dtype)}"
        )
    if not array.flags.c_contiguous:
        raise InvalidValueError(f"{argument} is not contiguous; pass numpy.ascontiguousarray(x)")
    check_aligned(array, argument)
    view = array.view()
    view.flags.writeable = False
    return view
