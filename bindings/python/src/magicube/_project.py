# SPDX-License-Identifier: Apache-2.0
"""Projection of a dense matrix onto products of sparse factors of given supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

import numpy as np

from magicube import _native
from magicube._arrays import address, host_array
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DType, dtype_of_array, resolve_dtype
from magicube._int4 import Int4Array
from magicube._kronecker import KroneckerChain, Pattern, check_patterns
from magicube._matrix import Matrix, empty_matrix, matrix, result_of
from magicube.errors import InvalidValueError


@dataclass(frozen=True)
class Projection:
    """A chain near a matrix W, and how near. Errors are Frobenius norms, of fp64."""

    chain: KroneckerChain
    """In all factors but the last, the columns that make one block of the product are orthonormal
    (zeros where they are more than its rows or columns)."""
    error: float
    """|| (W - K) diag(column_weights) ||."""
    relative_error: float
    """The same over || W diag(column_weights) ||; 0 for W = 0."""
    step_errors: tuple[float, ...]
    """What each split into a factor and the rest loses; error^2 is the sum of their squares. The
    first contains what lies outside the product's support."""
    least_error: float
    """The largest step error: no chain of these patterns has a smaller error than this."""
    bound: float
    """sqrt(splits) times ``least_error``: error is not above it. With one split (two factors) the
    projection is the best there is; with s it is within sqrt(s) of the best."""


@dataclass(frozen=True)
class SupportProjection:
    """Two factors of given supports near a matrix W: the best there are in this norm."""

    left: Any
    """M x r, in the library of W, 0 outside its support."""
    right: Any
    """r x N, in the library of W, 0 outside its support."""
    error: float
    """|| (W - left right) diag(column_weights) ||."""
    relative_error: float
    """The same over || W diag(column_weights) ||; 0 for W = 0."""


def _numbers(x: Any, argument: str) -> Any:
    """An array of a type that the library reads: of others, as fp64, a copy in fp32."""
    if isinstance(x, Int4Array):
        return x
    array = host_array(x, argument)[0]
    if dtype_of_array(array.dtype) is not None or array.dtype.kind not in "fiub":
        return x
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _weighting(
    column_weights: Any, activations: Any, columns: int, call: Call
) -> tuple[Matrix | None, int]:
    """The matrix of weights, and what it is."""
    if column_weights is not None and activations is not None:
        raise InvalidValueError("give either column_weights or activations, not both")
    if activations is not None:
        samples = matrix(_numbers(activations, "activations"), "activations", call=call)
        return samples, _native.WEIGHTINGS["activations"]
    if column_weights is None:
        return None, _native.WEIGHTINGS["none"]
    weights = host_array(_numbers(column_weights, "column_weights"), "column_weights")[0]
    if weights.shape != (columns,):
        raise InvalidValueError(
            f"column_weights has shape {weights.shape}; it must be ({columns},)"
        )
    row = matrix(weights.reshape(1, columns), "column_weights", call=call)
    return row, _native.WEIGHTINGS["columns"]


def _floating(dtype: object) -> DType:
    found = resolve_dtype("fp32" if dtype is None else dtype)
    if not found.floating:
        raise InvalidValueError(f"dtype is {found.name}; it must be a floating type")
    return found


def project(
    w: Any,
    patterns: Iterable[Pattern],
    *,
    column_weights: Any = None,
    activations: Any = None,
    dtype: object = None,
    handle: Handle | None = None,
) -> Projection:
    """Find a chain of Kronecker-sparse factors near a dense matrix.

    Two factors: the exact optimum, by one truncated singular value decomposition a block, in fp64.
    More: from left to right, each factor with orthonormal columns from the best split into itself
    and the product of the others, which is then split in turn; the squared errors add up, and the
    whole is within sqrt(L - 1) of the best chain of L factors.

    Parameters
    ----------
    w : array
        M x N, in host memory; fp64 is first rounded to fp32.
    patterns : iterable of (a, b, c, d)
        Of the chain, leftmost first; all neighbours are chainable (see
        :attr:`KroneckerChain.pairs`).
    column_weights : array of N numbers, optional
        Positive weights of the error in each column: the norm of (w - K) diag(column_weights) is
        made small.
    activations : array, optional
        Samples x N, or (batch, samples, N): inputs of the layer y = x w^T, in place of
        ``column_weights``. Each column is weighted with the root mean square of its feature.
    dtype : optional
        Of the factors: fp32 (the default), fp16, bf16 or e4m3. The errors are those before this
        rounding.
    handle : Handle, optional

    Returns
    -------
    Projection

    Raises
    ------
    InvalidValueError
        If a pattern breaks a rule or neighbours are not chainable, the message naming the position;
        if shapes do not fit, ``w`` is not finite, or ``dtype`` cannot hold a value of the last
        factor.
    NotSupportedError
        If ``w`` lies in the memory of a GPU.

    References
    ----------
    Le, Zheng, Riccietti, Gribonval: "Butterfly factorization with error guarantees", 2024.
    """
    sizes = check_patterns(patterns)
    chain = KroneckerChain.zeros(sizes, dtype=_floating(dtype))
    call = Call(handle)
    weight = matrix(_numbers(w, "w"), "w", call=call)
    given, weighting = _weighting(column_weights, activations, chain.shape[1], call)
    step_errors = np.empty(max(len(chain) - 1, 1))
    report = _native.project_chain(
        call.native(), weight.descriptor(), given.descriptor() if given else None, weighting,
        chain._descriptor(True), address(step_errors),
    )
    return Projection(
        chain, report["error"], report["relative_error"], tuple(step_errors.tolist()),
        report["least_error"], report["bound"],
    )


def project_supports(
    w: Any,
    left_support: Any,
    right_support: Any,
    *,
    column_weights: Any = None,
    activations: Any = None,
    dtype: object = None,
    handle: Handle | None = None,
) -> SupportProjection:
    """Find the best two factors of given supports near a dense matrix.

    Column k of the left support and row k of the right one span a rectangle of rows and columns.
    Any two of these rectangles must be disjoint or the same: then the product is any matrix of rank
    at most n in each rectangle that n values of k share, and each is decomposed on its own.

    Parameters
    ----------
    w : array
        M x N, in host memory; fp64 is first rounded to fp32.
    left_support, right_support : array of bool or uint8
        M x r and r x N: where elements may be other than 0.
    column_weights, activations, dtype, handle
        As for :func:`project`.

    Returns
    -------
    SupportProjection
        Its arrays are dense: ``SrBcrs.from_dense`` and the like make them sparse.

    Raises
    ------
    InvalidValueError
        If two rectangles meet and differ, the message naming both and the place; if shapes do not
        fit, ``w`` is not finite, or ``dtype`` cannot hold a value of ``right``.
    NotSupportedError
        If ``w`` lies in the memory of a GPU.

    References
    ----------
    Le, Riccietti, Gribonval: "Spurious valleys, NP-hardness, and tractability of sparse matrix
    factorization with fixed support", arXiv 2112.00386.
    """
    target = _floating(dtype)
    call = Call(handle)
    weight = matrix(_numbers(w, "w"), "w", call=call)
    first = matrix(left_support, "left_support", mask=True, call=call)
    second = matrix(right_support, "right_support", mask=True, call=call)
    given, weighting = _weighting(column_weights, activations, weight.shape[-1], call)
    left, left_target = empty_matrix(weight.library, first.shape, target)
    right, right_target = empty_matrix(weight.library, second.shape, target)
    report = _native.project_supports(
        call.native(), weight.descriptor(), given.descriptor() if given else None, weighting,
        first.descriptor(), second.descriptor(), left_target.descriptor(),
        right_target.descriptor(),
    )
    return SupportProjection(
        result_of(weight.library, left), result_of(weight.library, right), report["error"],
        report["relative_error"],
    )
