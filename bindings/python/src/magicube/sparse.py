# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices in the library's formats."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from magicube import _convert
from magicube._arrays import AnyArray, Library, Stored, as_int
from magicube._call import Call
from magicube._device import Handle, native_handle
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._int4 import Int4Array
from magicube._kronecker import (
    Kronecker,
    KroneckerChain,
    butterfly_patterns,
    low_rank_patterns,
    monarch_patterns,
)
from magicube._place import CPU
from magicube._sr_bcrs_dense import SrBcrsDense
from magicube._vnm import Vnm
from magicube.errors import InvalidValueError, NotSupportedError

__all__ = [
    "Kronecker",
    "KroneckerChain",
    "SrBcrs",
    "Vnm",
    "butterfly_patterns",
    "low_rank_patterns",
    "monarch_patterns",
    "validate",
]


class SrBcrs(SrBcrsDense):
    """SR-BCRS: strided row-major block compressed rows (Li, Osawa and Hoefler, SC'22).

    The rows are grouped in block rows of V = ``vector_length``; what is stored are column vectors
    of V x 1. The vectors of a block row are padded to a multiple of S = ``stride`` slots. Element
    (v, slot) lies at ``values[(slot // S) * V * S + v * S + slot % S]``.

    The pattern does not change: its arrays are read-only.

    Most matrices are made by :meth:`from_dense`, :meth:`from_mask`, :meth:`from_scipy`,
    :meth:`from_torch` or :meth:`load`; the constructor takes the arrays themselves.

    Parameters
    ----------
    shape : sequence of int
        (M, K), or (batch, M, K).
    row_begin, row_end : array of int32 or int64
        First slot of each of the ceil(M / V) block rows, a multiple of S, and one past its last
        real slot. For a batch of different patterns batch * ceil(M / V) entries, absolute.
    col_indices : array of int32
        Column of each slot, ascending in a block row; -1 in padding slots.
    values : array, optional
        ``slots * V`` elements, or shape (batch, slots * V) for a batch with one pattern; without
        it the matrix is a pattern alone. int4 elements lie two a uint8.
    vector_length : {1, 2, 4, 8, 16, 32, 64}
    stride : {1, 8, 16, 32}
    dtype : optional
        Type of the values where the array does not tell it: "int4" or "int12".
    element_mask : array of uint8, optional
        ``ceil(V / 8)`` bytes a slot; bit v is set if element (v, slot) exists. Without it all do.
    validate : bool
        Whether the library checks the arrays wholly.

    Raises
    ------
    TypeError
        If an argument is no array or no integer.
    InvalidValueError
        If a type, a length or the content of an index array breaks a rule.
    """

    __slots__ = ()

    @classmethod
    def from_scipy(
        cls,
        s: Any,
        *,
        vector_length: int = 8,
        stride: int | None = None,
        dtype: object = None,
        index_dtype: object = "int64",
        handle: Handle | None = None,
    ) -> SrBcrs:
        """Convert a SciPy sparse array or matrix: every stored entry exists, zero or not.

        Parameters
        ----------
        s : scipy.sparse array or matrix
            CSR and BSR are read as they are (sorted first if they are not); other formats are
            brought to CSR by SciPy.
        dtype : optional
            Floating type to round to; needed where ``s`` holds float64, which is rounded to fp32
            first. "int12" for int16 data in that range.
        vector_length, stride, index_dtype
            As in :meth:`from_dense`.

        Raises
        ------
        TypeError
            If ``s`` is not a SciPy sparse array.
        InvalidValueError
            If its type has no counterpart or an index is out of range.
        """
        if not hasattr(s, "tocsr") or not hasattr(s, "format"):
            raise TypeError(f"s is of type {type(s).__name__}; it must be a SciPy sparse array")
        if s.ndim != 2:
            raise InvalidValueError(f"s has {s.ndim} axes; it must have 2")
        if s.format not in ("csr", "bsr"):
            s = s.tocsr()
        if not s.has_canonical_format:
            s = s.copy()
            s.sum_duplicates()
        block = tuple(s.blocksize) if s.format == "bsr" else None
        return cls._from_rows(
            s.shape, block, s.indptr, s.indices, s.data, vector_length, stride, dtype, index_dtype,
            Call(handle, CPU, "s"),
        )

    @classmethod
    def from_torch(
        cls,
        t: Any,
        *,
        vector_length: int = 8,
        stride: int | None = None,
        dtype: object = None,
        index_dtype: object = "int64",
        handle: Handle | None = None,
    ) -> SrBcrs:
        """Convert a tensor of torch: strided, sparse_csr, sparse_coo or sparse_bsr.

        Parameters
        ----------
        t : torch.Tensor
            A strided tensor as in :meth:`from_dense`; of a sparse one every stored entry exists.
            Of CUDA memory the matrix lies there too. A tensor that requires gradients has to be
            detached first.
        vector_length, stride, dtype, index_dtype
            As in :meth:`from_scipy`.

        Raises
        ------
        InvalidValueError
            If the tensor's type or layout has no counterpart.
        """
        layout = str(getattr(t, "layout", "torch.strided")).removeprefix("torch.")
        if layout == "strided":
            return cls.from_dense(
                t, vector_length=vector_length, stride=stride, dtype=dtype,
                index_dtype=index_dtype, handle=handle,
            )
        if layout == "sparse_coo":
            t = t.coalesce().to_sparse_csr()
        elif layout not in ("sparse_csr", "sparse_bsr"):
            raise InvalidValueError(
                f"t has layout {layout}; it must be strided, sparse_csr, sparse_coo or sparse_bsr"
            )
        if t.ndim != 2:
            raise InvalidValueError(f"t has {t.ndim} axes; a sparse tensor must have 2")
        call = Call(handle)
        arrays = [t.crow_indices(), t.col_indices(), t.values().detach()]
        if t.is_cuda:  # as the library reads them, made on torch's stream
            arrays = [arrays[0], arrays[1].int(), arrays[2].contiguous()]
        offsets, indices, values = (call.array(x, "t")[0] for x in arrays)
        block = None if layout != "sparse_bsr" else (values.shape[1], values.shape[2])
        result = cls._from_rows(
            tuple(t.shape), block, offsets, indices, values, vector_length, stride, dtype,
            index_dtype, call,
        )
        if t.is_cuda and handle is not None and handle.stream is not None:
            handle.synchronize()  # before torch gives the memory of `arrays` to other work
        return result

    @classmethod
    def _from_rows(
        cls,
        shape: tuple[int, int],
        block: tuple[int, int] | None,
        offsets: Stored,
        indices: Stored,
        values: Stored,
        vector_length: object,
        stride: object,
        dtype: object,
        index_dtype: object,
        call: Call,
    ) -> SrBcrs:
        wanted = None if dtype is None else resolve_dtype(dtype)
        values, read_as = _convert.readable(values, wanted)
        source = _convert.compressed_rows(shape, block, offsets, indices, values, read_as)
        target = read_as if wanted is None else wanted
        layout = _convert.make_layout(shape, vector_length, stride, target, index_dtype)
        parts = _convert.from_sparse(call, source.descriptor(), layout, True)
        return cls._from_parts(layout, parts, target)

    def _rows_source(self, format_name: str) -> tuple[SrBcrs, DType]:
        """This matrix with values of a type that other libraries' sparse formats know."""
        self._require_host(f"the conversion to {format_name}")
        dtype = self._values_dtype("to_mask()")
        if len(self.shape) == 3:
            raise NotSupportedError(f"a batch has no {format_name} form; convert one matrix a time")
        if dtype.floating:
            return self.astype("fp32"), DTYPES["fp32"]
        return self, dtype

    def to_scipy(
        self,
        format: str = "csr",
        *,
        blocksize: tuple[int, int] | None = None,
        handle: Handle | None = None,
    ) -> Any:
        """A SciPy sparse array with every existing element, zeros included.

        Parameters
        ----------
        format : str
            "csr", "bsr", or another format that SciPy makes from CSR.
        blocksize : (int, int), optional
            Of BSR; (V, 1) by default. SciPy wants it to divide the shape.

        Returns
        -------
        scipy.sparse array
            Of fp32 for every floating type (exact), int8 for int4, else of the values' type.

        Raises
        ------
        NotSupportedError
            For a batch.
        ModuleNotFoundError
            If SciPy is not installed.
        """
        import scipy.sparse

        source, dtype = self._rows_source("SciPy")
        call = native_handle(handle)
        shape = (self.shape[0], self.shape[1])
        if format != "bsr":
            offsets, columns, values = _convert.to_csr(call, source._descriptor(), shape[0], dtype)
            values = _plain(values, columns.size, dtype)
            return scipy.sparse.csr_array((values, columns, offsets), shape=shape).asformat(format)
        block = (self.vector_length, 1) if blocksize is None else blocksize
        sizes = as_int(block[0], "blocksize"), as_int(block[1], "blocksize")
        if min(sizes) < 1 or shape[0] % sizes[0] or shape[1] % sizes[1]:
            raise InvalidValueError(
                f"blocksize is {sizes}; SciPy wants it positive and to divide the shape {shape}"
            )
        offsets, columns, values = _convert.to_bsr(
            call, source._descriptor(), shape[0], sizes, dtype
        )
        values = _plain(values, columns.size * sizes[0] * sizes[1], dtype)
        blocks = values.reshape(columns.size, *sizes)
        return scipy.sparse.bsr_array((blocks, columns, offsets), shape=shape)

    def to_torch(self, layout: str = "sparse_csr", *, handle: Handle | None = None) -> Any:
        """A tensor of torch; a strided one on the matrix's device.

        Parameters
        ----------
        layout : {"sparse_csr", "strided"}
            sparse_csr holds every existing element, zeros included, floating types as fp32.

        Raises
        ------
        NotSupportedError
            For a batch as sparse_csr, and for int4 as strided.
        ModuleNotFoundError
            If torch is not installed.
        """
        import torch

        if layout == "strided":
            dtype = self._values_dtype("to_mask()")
            if dtype.name == "int4":
                raise NotSupportedError("torch has no int4 tensors; use to_dense().unpack()")
            ordinal = self._place.ordinal if self._place.on_cuda else None
            return self._dense(dtype, "C", handle, Library("torch", ordinal=ordinal))
        if layout != "sparse_csr":
            raise InvalidValueError(f"layout is {layout!r}; it must be 'sparse_csr' or 'strided'")
        source, dtype = self._rows_source("sparse_csr")
        offsets, columns, values = _convert.to_csr(
            native_handle(handle), source._descriptor(), self.shape[0], dtype
        )
        tensors = (offsets, columns.astype(np.int64), _plain(values, columns.size, dtype))
        arrays = (torch.from_numpy(array) for array in tensors)
        return torch.sparse_csr_tensor(*arrays, size=self.shape, check_invariants=True)

    # ---- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrix to a file.

        Parameters
        ----------
        path : path-like
            Ends in ``.safetensors`` or ``.npz``. A file does not tell the device.

        Raises
        ------
        magicube.io.FileFormatError
            If it ends otherwise, or cannot be written.
        """
        from magicube.io import save_sr_bcrs

        save_sr_bcrs(path, self.cpu())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, handle: Handle | None = None) -> SrBcrs:
        """Read a matrix that :meth:`save` wrote.

        Raises
        ------
        magicube.io.FileFormatError
            If the file is missing, truncated, of another kind, or describes a malformed matrix.
        """
        from magicube.io import load_sr_bcrs

        return load_sr_bcrs(path, handle=handle)

    def __matmul__(self, other: Any) -> Any:
        """:func:`spmm` with its defaults."""
        from magicube._spmm import spmm

        return spmm(self, other)


def _plain(values: AnyArray, count: int, dtype: DType) -> AnyArray:
    """Stored values as an array with one item an element: int4 as int8."""
    if dtype.name != "int4":
        return values
    return Int4Array(values.reshape(1, -1), (1, count)).unpack().reshape(-1)


def validate(A: SrBcrs | Vnm, *, handle: Handle | None = None) -> None:
    """Check a sparse matrix wholly, whatever the handle's validation level.

    Parameters
    ----------
    A : SrBcrs or Vnm
    handle : Handle, optional

    Raises
    ------
    InvalidValueError
        With the place and the rule, if it is malformed.
    """
    A.validate(handle=handle)
