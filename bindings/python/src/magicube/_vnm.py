# SPDX-License-Identifier: Apache-2.0
"""Matrices in V:N:M: n elements of each row in every group of M columns."""

from __future__ import annotations

import os
from typing import Any, Callable

import numpy as np

from magicube import _convert, _native
from magicube._arrays import NUMPY, address, as_int, choose
from magicube._call import Call
from magicube._device import Handle, native_handle
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._matrix import empty_matrix, matrix, result_of
from magicube._place import CPU
from magicube._vnm_arrays import VnmArrays
from magicube.errors import InvalidValueError, NotSupportedError


class Vnm(VnmArrays):
    """V:N:M (Castro et al., SC'23): structured sparsity for Sparse Tensor Cores.

    Of every group of M = ``m`` columns a block of V = ``vector_length`` rows selects a few that its
    rows share (the budget: 4, or n + 2 for n above 3), and each row keeps ``n`` elements in them.
    n = 2 is what :func:`spmm` takes; other n are stored and converted only. m = 4 with n = 2 is
    plain 2:4 sparsity. With G = ceil(K / m) groups and B columns in the budget:

    * ``column_loc``: ceil(M / V) * G * B entries, the selected columns counted inside their group.
    * ``metadata``: which places of the budget a row's elements have: for n = 2 a nibble a group,
      two groups a byte; else a byte an element.
    * ``values``: M * G * n elements, row after row.

    The pattern does not change: its arrays are read-only. :meth:`cuda` copies a matrix to a GPU,
    where :func:`spmm` takes it; conversions are of host memory.

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

    __slots__ = ()

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
        self._require_host("to_mask" if as_mask else "to_dense")
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
        NotSupportedError
            If the matrix lies on a GPU.
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
            For a batch, and if the matrix lies on a GPU.
        ModuleNotFoundError
            If SciPy is not installed.
        """
        import scipy.sparse

        self._require_host("to_scipy")
        dtype = self._values_dtype()
        if len(self.shape) == 3:
            raise NotSupportedError("a batch has no SciPy form; convert one matrix a time")
        target = DTYPES["fp32"] if dtype.floating else dtype
        offsets, columns, values = _convert.to_csr(
            native_handle(handle), self._descriptor(), self.shape[0], target, vnm=True
        )
        return scipy.sparse.csr_array((values, columns, offsets), shape=self.shape).asformat(format)

    # ---- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrix to a file that ends in ``.safetensors`` or ``.npz``.

        A file does not tell the device.

        Raises
        ------
        magicube.io.FileFormatError
            If it ends otherwise, or cannot be written.
        """
        from magicube._io.vnm import save_vnm

        save_vnm(path, self.cpu())

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
