# SPDX-License-Identifier: Apache-2.0
"""Kronecker-sparse factors and chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from magicube import _native
from magicube._arrays import (
    AnyArray,
    Stored,
    address,
    array_of,
    as_int,
    check_aligned,
    checked_dtype,
    contiguous,
    host_array,
    place_of,
)
from magicube._call import Call
from magicube._convert import compressed_rows
from magicube._device import Handle, native_handle
from magicube._device_array import DeviceArray, upload
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._matrix import empty_matrix, matrix
from magicube._place import Place
from magicube.errors import DeviceMismatchError, InvalidValueError, NotSupportedError

Pattern = tuple[int, int, int, int]
"""(a, b, c, d), the support I_a (x) 1_{b x c} (x) I_d."""


def as_pattern(value: Any, argument: str) -> Pattern:
    """Four integers."""
    try:
        sizes = tuple(value)
    except TypeError:
        sizes = ()
    if len(sizes) != 4:
        raise InvalidValueError(f"{argument} is {value!r}; it must be (a, b, c, d)")
    a, b, c, d = (as_int(size, f"{argument}.{name}") for size, name in zip(sizes, "abcd"))
    return a, b, c, d


class _Product:
    """What a factor and a chain have in common: a list of factors."""

    __slots__ = ("_arrays", "_dtype", "_patterns", "_place")
    _patterns: tuple[Pattern, ...]
    _arrays: tuple[Stored, ...]
    _dtype: DType
    _place: Place
    _chain = False

    def _descriptor(self, writable: bool = False) -> _native.KroneckerMat:
        """The C descriptor; this object must outlive it."""
        return _native.KroneckerMat(
            list(self._patterns), [address(array) for array in self._arrays], self._dtype.code,
            self._chain, writable,
        )

    def _call(self, handle: Handle | None, name: str = "K", ordered: bool = True) -> Call:
        """A call that reads these values, on their device."""
        call = Call(handle, self._place, name)
        if ordered and self._place.on_cuda:
            self._order(call)
        return call

    def _order(self, call: Call) -> None:
        """Let a call find what the arrays hold."""
        for i, array in enumerate(self._arrays):
            call.array(array, f"K's values[{i}]")

    def _require_host(self, operation: str) -> None:
        if self._place.on_cuda:
            raise NotSupportedError(
                f"{operation} takes values in host memory alone in this version, and K's lie on "
                f"CUDA device {self._place.ordinal}; call it on a copy in host memory: K.cpu()"
            )

    def _moved_arrays(self, ordinal: int | None) -> tuple[Stored, ...]:
        host = [x.numpy() if isinstance(x, DeviceArray) else x for x in self._arrays]
        return tuple(host if ordinal is None else (upload(x, ordinal) for x in host))

    @property
    def device(self) -> str:
        """Where the values lie: ``"cpu"``, or such as ``"cuda:0"``."""
        return str(self._place)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        a, b, _, d = self._patterns[0]
        last = self._patterns[-1]
        return a * b * d, last[0] * last[2] * last[3]

    @property
    def dtype(self) -> str:
        """Name of the values' type."""
        return self._dtype.name

    @property
    def nnz(self) -> int:
        """Number of values."""
        return sum(array.size for array in self._arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return sum(array.nbytes for array in self._arrays)

    def to_dense(self, *, dtype: object = None, handle: Handle | None = None) -> AnyArray:
        """The matrix as a dense NumPy array; a chain's product is summed in fp64 and rounded once.

        Parameters
        ----------
        dtype : optional
            By default that of the values (of a chain of integers fp32); another floating type if it
            is one.
        """
        wanted = self._dtype if dtype is None else resolve_dtype(dtype)
        if dtype is None and self._chain and not wanted.floating:
            wanted = DTYPES["fp32"]
        self._require_host("to_dense")
        call = self._call(handle)
        result, target = empty_matrix(call.lead, self.shape, wanted)
        _native.kronecker_to_dense(call.native(), self._descriptor(), target.descriptor())
        return np.asarray(result)

    def __matmul__(self, other: Any) -> Any:
        """:func:`kronecker_mm` of the columns of ``other``."""
        from magicube._kronecker_mm import kronecker_mm

        return kronecker_mm(check_kronecker(self, "K"), other, layout="last")


class Kronecker(_Product):
    """A Kronecker-sparse factor: K[(i*b + j)*d + l, (i*c + k)*d + l] = W[i, j, k, l], else 0.

    K has the support I_a (x) 1_{b x c} (x) I_d and the size (a b d) x (a c d). Dense is
    (1, M, N, 1), block-diagonal (a, b, c, 1).

    Parameters
    ----------
    values : array
        W, of shape (a, b, c, d), contiguous, in host or CUDA memory, of any type but int4. It is
        not copied.

    Raises
    ------
    TypeError
        If ``values`` is no array.
    InvalidValueError
        If it has another number of axes, is empty or not contiguous.
    """

    __slots__ = ()

    def __init__(self, values: Any) -> None:
        array, library = array_of(values, "values")
        if array.ndim != 4:
            raise InvalidValueError(
                f"values has shape {array.shape}; it must be (a, b, c, d), one element for each"
            )
        if not contiguous(array):
            raise InvalidValueError(
                f"values is not contiguous; pass {library.contiguous('values')}"
            )
        check_aligned(array, "values")
        self._dtype = checked_dtype(array, None, "values")
        self._patterns = (as_pattern(array.shape, "the shape of values"),)
        self._arrays = (array,)
        self._place = place_of(array)
        self._descriptor()

    @property
    def pattern(self) -> Pattern:
        """(a, b, c, d)."""
        return self._patterns[0]

    @property
    def values(self) -> Any:
        """W, of shape (a, b, c, d): a NumPy array, or on CUDA a :class:`DeviceArray`."""
        return self._arrays[0]

    def cuda(self, ordinal: int = 0) -> Kronecker:
        """A copy in the memory of a CUDA device; this factor if it is there already."""
        place = Place("cuda", as_int(ordinal, "ordinal", 32))
        return self if self._place == place else Kronecker(*self._moved_arrays(place.ordinal))

    def cpu(self) -> Kronecker:
        """A copy in host memory; this factor if it is there already."""
        return Kronecker(*self._moved_arrays(None)) if self._place.on_cuda else self

    @classmethod
    def zeros(cls, pattern: Pattern, *, dtype: object = "fp32") -> Kronecker:
        """A factor whose values are 0."""
        sizes = as_pattern(pattern, "pattern")
        found = resolve_dtype(dtype)
        _native.KroneckerMat([sizes], [], found.code, False, False)  # refuses wrong sizes
        return cls(np.zeros(sizes, found.storage))

    @classmethod
    def from_dense(
        cls, x: Any, pattern: Pattern, *, dtype: object = None, handle: Handle | None = None
    ) -> Kronecker:
        """The values of a dense matrix that is 0 outside the support.

        Raises
        ------
        InvalidValueError
            If ``x`` has another size, or an element outside the support is not 0.
        """
        call = Call(handle)
        source = matrix(x, "x", call=call)
        result = cls.zeros(pattern, dtype=source.dtype if dtype is None else dtype)
        _native.dense_to_kronecker(call.native(), source.descriptor(), result._descriptor(True))
        return result

    @classmethod
    def from_scipy(cls, x: Any, pattern: Pattern, *, handle: Handle | None = None) -> Kronecker:
        """The values of a sparse matrix of SciPy, whose entries outside the support are 0."""
        x = x.tocsr()
        x.sum_duplicates()
        values = x.data.astype(np.float32) if x.data.dtype == np.float64 else x.data
        found = checked_dtype(values, None, "x")
        result = cls.zeros(pattern, dtype=found)
        source = compressed_rows(x.shape, None, x.indptr, x.indices, values, found)
        _native.csr_to_kronecker(
            native_handle(handle), source.descriptor(), result._descriptor(True)
        )
        return result

    @classmethod
    def block_diagonal(cls, blocks: Any) -> Kronecker:
        """diag(blocks[0], blocks[1], ...): ``blocks`` has shape (a, b, c)."""
        array, library = host_array(blocks, "blocks")
        if array.ndim != 3:
            raise InvalidValueError(f"blocks has shape {array.shape}; it must be (a, b, c)")
        if not contiguous(array):
            raise InvalidValueError(
                f"blocks is not contiguous; pass {library.contiguous('blocks')}"
            )
        return cls(array.reshape(*array.shape, 1))

    def to_scipy(self, *, handle: Handle | None = None) -> Any:
        """A ``scipy.sparse.csr_array`` with all a b c d entries, floating types as fp32.

        Raises
        ------
        ModuleNotFoundError
            If SciPy is not installed.
        """
        import scipy.sparse

        self._require_host("to_scipy")
        dtype = DTYPES["fp32"] if self._dtype.floating else self._dtype
        rows, cols = self.shape
        if max(rows, cols) > np.iinfo(np.int32).max:
            raise NotSupportedError(f"the matrix has shape {self.shape}; CSR's sizes fit 31 bits")
        offsets = np.empty(rows + 1, np.int64)
        indices = np.empty(self.nnz, np.int32)
        values = np.empty(self.nnz, dtype.storage)
        _native.kronecker_to_csr(
            native_handle(handle), self._descriptor(), _native.INDEX_TYPES["int64"],
            address(offsets), address(indices), address(values), dtype.code,
        )
        return scipy.sparse.csr_array((values, indices, offsets), shape=self.shape)

    def __repr__(self) -> str:
        return f"Kronecker(pattern={self.pattern}, dtype={self.dtype})"


@dataclass(frozen=True)
class Pair:
    """What two neighbours of a chain are to one another."""

    chainable: bool
    """Whether their product is again a Kronecker-sparse factor."""
    rank: int
    """Then the rank of each of its blocks that a row residue and a column group share, else 0."""
    redundant: bool
    """Whether that rank is no restriction: one factor expresses the same."""


class KroneckerChain(_Product, Sequence[Kronecker]):
    """The product of factors, leftmost first; neighbours fit in size.

    Parameters
    ----------
    factors : iterable of Kronecker
        At least one, all of one type. Not copied.

    Raises
    ------
    InvalidValueError
        If neighbours do not fit; the message names the position.
    """

    __slots__ = ("_factors",)
    _chain = True

    def __init__(self, factors: Iterable[Kronecker]) -> None:
        self._factors = tuple(factors)
        for i, factor in enumerate(self._factors):
            if not isinstance(factor, Kronecker):
                raise TypeError(
                    f"factors[{i}] is of type {type(factor).__name__}; it must be a Kronecker"
                )
            if factor.dtype != self._factors[0].dtype:
                raise InvalidValueError(
                    f"factors[{i}] is of {factor.dtype}; it must be of "
                    f"{self._factors[0].dtype} as factors[0]"
                )
            if factor.device != self._factors[0].device:
                raise DeviceMismatchError(
                    f"factors[{i}] lies {factor._place.where}, factors[0] "
                    f"{self._factors[0]._place.where}; a chain lies on one device"
                )
        if not self._factors:
            raise InvalidValueError("factors is empty; a chain has at least one factor")
        self._dtype = self._factors[0]._dtype
        self._patterns = tuple(factor.pattern for factor in self._factors)
        self._arrays = tuple(factor._arrays[0] for factor in self._factors)
        self._place = self._factors[0]._place
        self._descriptor()

    @classmethod
    def zeros(cls, patterns: Iterable[Pattern], *, dtype: object = "fp32") -> KroneckerChain:
        """A chain whose values are 0."""
        sizes = check_patterns(patterns)
        return cls(Kronecker.zeros(size, dtype=dtype) for size in sizes)

    @classmethod
    def random(
        cls, patterns: Iterable[Pattern], *, dtype: object = "fp32", seed: int = 0
    ) -> KroneckerChain:
        """Normal values of variance 1 / c, so that products neither grow nor shrink."""
        random = np.random.default_rng(seed)
        storage = resolve_dtype(dtype).storage
        factors = [
            random.standard_normal(size, np.float32) / np.float32(np.sqrt(size[2]))
            for size in check_patterns(patterns)
        ]
        return cls(Kronecker(values.astype(storage)) for values in factors)

    @classmethod
    def hadamard(
        cls,
        log2_size: int,
        *,
        orthonormal: bool = True,
        dtype: object = "fp32",
        handle: Handle | None = None,
    ) -> KroneckerChain:
        """Sylvester's Hadamard matrix of 2^log2_size; of +-1 unless ``orthonormal``."""
        result = cls.zeros(butterfly_patterns(log2_size), dtype=dtype)
        scale = 2.0**-0.5 if orthonormal else 1.0
        _native.kronecker_fill_hadamard(native_handle(handle), result._descriptor(True), scale)
        return result

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """(a, b, c, d) of each factor."""
        return self._patterns

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """What neighbours are to one another, one entry for factors i and i + 1."""
        descriptor = self._descriptor()
        return tuple(Pair(*descriptor.pair(i)) for i in range(len(self) - 1))

    def cuda(self, ordinal: int = 0) -> KroneckerChain:
        """A copy in the memory of a CUDA device; this chain if it is there already."""
        place = Place("cuda", as_int(ordinal, "ordinal", 32))
        if self._place == place:
            return self
        return KroneckerChain(factor.cuda(place.ordinal) for factor in self._factors)

    def cpu(self) -> KroneckerChain:
        """A copy in host memory; this chain if it is there already."""
        if not self._place.on_cuda:
            return self
        return KroneckerChain(factor.cpu() for factor in self._factors)

    def product(self, *, handle: Handle | None = None) -> Kronecker:
        """The product as one factor, summed in fp64 and rounded once; floating types.

        Raises
        ------
        InvalidValueError
            Where neighbours are not chainable.
        """
        self._require_host("product")
        source = self._descriptor()
        result = Kronecker.zeros(_sizes(source.product_shape()), dtype=self._dtype)
        _native.kronecker_multiply(native_handle(handle), source, result._descriptor(True))
        return result

    def __len__(self) -> int:
        return len(self._factors)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return KroneckerChain(self._factors[index])
        return self._factors[index]

    def __iter__(self) -> Iterator[Kronecker]:
        return iter(self._factors)

    def __repr__(self) -> str:
        return f"KroneckerChain({list(self._patterns)}, dtype={self.dtype})"


def _sizes(shape: Sequence[int]) -> Pattern:
    a, b, c, d = shape
    return a, b, c, d


def check_patterns(patterns: Iterable[Pattern]) -> list[Pattern]:
    """Patterns of a chain; raises, naming name and position, unless they are sound and fit."""
    sizes = [as_pattern(value, f"factors[{i}]") for i, value in enumerate(patterns)]
    _native.KroneckerMat(sizes, [], DTYPES["fp32"].code, True, False)
    return sizes


def butterfly_patterns(log2_size: int) -> list[Pattern]:
    """Patterns of the dyadic butterfly of size 2^log2_size, its factors of 2 x 2 blocks.

    Parameters
    ----------
    log2_size : int
        From 1 to 62.
    """
    return [_sizes(s) for s in _native.kronecker_butterfly(as_int(log2_size, "log2_size"))]


def monarch_patterns(
    rows: int, cols: int, *, blocks: int, step: int | None = None, rank: int = 1
) -> list[Pattern]:
    """Patterns of a Monarch matrix of rows x cols.

    (1, rows / step, blocks rank, step) and (blocks, rank step, cols / blocks, 1).

    Parameters
    ----------
    blocks : int
        Of columns, each multiplied by a block of its own; it divides ``cols``.
    step : int, optional
        Residues of rows, by default ``blocks``; it divides ``rows``.
    rank : int
        Of a block of rows / step x cols / blocks of the product.
    """
    found = _native.kronecker_monarch(
        as_int(rows, "rows"), as_int(cols, "cols"), as_int(blocks, "blocks"),
        as_int(blocks if step is None else step, "step"), as_int(rank, "rank"),
    )
    return [_sizes(s) for s in found]


def low_rank_patterns(rows: int, cols: int, rank: int) -> list[Pattern]:
    """Patterns of a product of rows x rank times rank x cols."""
    r = as_int(rank, "rank")
    return check_patterns([(1, as_int(rows, "rows"), r, 1), (1, r, as_int(cols, "cols"), 1)])


def check_kronecker(x: Any, argument: str) -> Kronecker | KroneckerChain:
    """Raise unless it is a factor or a chain."""
    if isinstance(x, (Kronecker, KroneckerChain)):
        return x
    raise TypeError(
        f"{argument} is of type {type(x).__name__}; it must be a magicube.Kronecker or "
        "a magicube.KroneckerChain"
    )

