# SPDX-License-Identifier: Apache-2.0
"""Projection of a dense matrix onto a chain of Kronecker-sparse factors.

The singular value decompositions are NumPy's (LAPACK), in fp64: the library itself links no linear
algebra, so that it loads everywhere and stays small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterable

import numpy as np

from magicube._arrays import AnyArray, host_array
from magicube._dtypes import resolve_dtype
from magicube._kronecker import Kronecker, KroneckerChain, Pattern, check_patterns
from magicube.errors import InvalidValueError


@dataclass(frozen=True)
class Projection:
    """A chain near a matrix W, and how near. Errors are Frobenius norms, of fp64."""

    chain: KroneckerChain
    """All factors but the last have orthonormal columns in every block."""
    error: float
    """|| (W - K) diag(column_weights) ||."""
    relative_error: float
    """The same over || W diag(column_weights) ||; 0 for W = 0."""
    step_errors: tuple[float, ...]
    """What each split into a factor and the rest loses; error^2 is the sum of their squares. The
    first contains what lies outside the product's support. Each is the least that any chain of
    these patterns loses in this norm, or less."""
    bound: float
    """sqrt(splits) times the largest step error: error is not above it. With one split (two
    factors) the projection is the best there is; with s it is within sqrt(s) of the best."""


def _product(left: Pattern, right: Pattern) -> Pattern:
    (a1, b1, _, d1), (a2, _, c2, d2) = left, right
    return a1, b1 * (d1 // d2), (a2 // a1) * c2, d2


def _split(values: AnyArray, left: Pattern, right: Pattern) -> tuple[AnyArray, AnyArray, float]:
    """The best product left * right near a factor of their product's pattern.

    The product's support is a disjoint union of blocks, one for each block i, residue y of the left
    factor, block u of the right one and residue l, and each is any matrix of rank at most q: so the
    truncated decomposition of each on its own is the best. Returns both factors' values and the
    square of the error.
    """
    (a1, b1, c1, d1), (a2, b2, c2, d2) = left, right
    groups, residues = a2 // a1, d1 // d2
    rank = c1 // groups
    blocks = values.reshape(a1, b1, residues, groups, c2, d2).transpose(0, 2, 3, 5, 1, 4)
    u, s, vt = np.linalg.svd(blocks, full_matrices=False)
    kept = min(rank, s.shape[-1])
    first = np.zeros((*blocks.shape[:4], b1, rank))
    second = np.zeros((*blocks.shape[:4], rank, c2))
    first[..., :kept] = u[..., :kept]
    second[..., :kept, :] = s[..., :kept, None] * vt[..., :kept, :]
    # [i, y, u, l, j, x] to [i, j, u x, y l], and [i, y, u, l, x, k] to [i u, x y, k, l].
    left_values = first.transpose(0, 4, 2, 5, 1, 3).reshape(left)
    right_values = second.transpose(0, 2, 4, 1, 5, 3).reshape(right)
    return left_values, right_values, float(np.sum(s[..., kept:] ** 2))


def _weights(column_weights: Any, activations: Any, columns: int) -> AnyArray:
    """Positive weights of the columns."""
    if column_weights is not None and activations is not None:
        raise InvalidValueError("give either column_weights or activations, not both")
    if activations is not None:
        samples = host_array(activations, "activations")[0].astype(np.float64)
        if samples.ndim != 2 or samples.shape[1] != columns or samples.shape[0] == 0:
            raise InvalidValueError(
                f"activations has shape {samples.shape}; it must be (n, {columns}) with n > 0"
            )
        found: AnyArray = np.sqrt(np.mean(samples**2, axis=0))
        if not np.isfinite(found).all():
            raise InvalidValueError("activations must be finite")
        # A feature that never was active still needs a value.
        least = float(found.max()) * 1e-6
        found[found <= least] = least if least > 0 else 1.0
        return found
    if column_weights is None:
        return np.ones(columns)
    weights = host_array(column_weights, "column_weights")[0].astype(np.float64)
    if weights.shape != (columns,):
        raise InvalidValueError(
            f"column_weights has shape {weights.shape}; it must be ({columns},)"
        )
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise InvalidValueError("column_weights must be finite and positive")
    return weights


def _support_values(w: AnyArray, pattern: Pattern) -> AnyArray:
    """The elements of a dense matrix inside a factor's support, as the factor's values."""
    a, b, c, d = pattern
    blocks = w.reshape(a, b, d, a, c, d)
    return np.ascontiguousarray(np.einsum("ijlikl->ijkl", blocks))


def project(
    w: Any,
    patterns: Iterable[Pattern],
    *,
    column_weights: Any = None,
    activations: Any = None,
    dtype: object = None,
) -> Projection:
    """Find a chain of Kronecker-sparse factors near a dense matrix.

    Two factors: the exact optimum, by one truncated singular value decomposition a block. More:
    from left to right, each factor with orthonormal columns from the best split into itself and
    the product of the others, which is then split in turn; the squared errors add up, and the
    whole is within sqrt(L - 1) of the best chain of L factors (as in Le, Zheng, Riccietti and
    Gribonval, "Butterfly factorization with error guarantees", 2024).

    Parameters
    ----------
    w : array
        M x N of a floating type, in host memory.
    patterns : iterable of (a, b, c, d)
        Of the chain, leftmost first; all neighbours are chainable (see
        :attr:`KroneckerChain.pairs`).
    column_weights : array of N numbers, optional
        Positive weights of the error in each column: the norm of (w - K) diag(column_weights) is
        made small.
    activations : array of shape (n, N), optional
        Sample inputs of the layer y = x w^T, in place of ``column_weights``: each column is
        weighted with the root mean square of its feature.
    dtype : optional
        Of the factors: fp32 (the default), fp16 or bf16. The errors are those before this rounding.

    Returns
    -------
    Projection

    Raises
    ------
    InvalidValueError
        If a pattern breaks a rule or neighbours are not chainable, the message naming the position;
        if shapes do not fit, or ``w`` is not finite.
    """
    sizes = check_patterns(patterns)
    target = resolve_dtype("fp32" if dtype is None else dtype)
    if not target.floating:
        raise InvalidValueError(f"dtype is {target.name}; it must be a floating type")
    dense = host_array(w, "w")[0]
    chain = KroneckerChain.zeros(sizes, dtype="fp32")
    if dense.shape != chain.shape:
        raise InvalidValueError(
            f"w has shape {dense.shape}; it must be {chain.shape}, the size of the chain"
        )
    wide = dense.astype(np.float64)
    if not np.isfinite(wide).all():
        raise InvalidValueError("w must be finite")
    weights = _weights(column_weights, activations, dense.shape[1])
    wide *= weights
    chain._descriptor().product_shape()  # raises where neighbours are not chainable
    rests = [sizes[-1]]
    for pattern in reversed(sizes[:-1]):
        rests.insert(0, _product(pattern, rests[0]))

    rest = _support_values(wide, rests[0])
    outside = max(float(np.sum(wide**2) - np.sum(rest**2)), 0.0)
    factors: list[AnyArray] = []
    squares: list[float] = []
    for pattern, remaining in zip(sizes[:-1], rests[1:]):
        left, rest, lost = _split(rest, pattern, remaining)
        factors.append(left)
        squares.append(lost)
    if squares:
        squares[0] += outside
    else:
        squares.append(outside)
    a, _, c, d = sizes[-1]
    factors.append(rest / weights.reshape(a, 1, c, d))
    errors = tuple(math.sqrt(square) for square in squares)
    error = math.sqrt(sum(squares))
    norm = math.sqrt(float(np.sum(wide**2)))
    return Projection(
        KroneckerChain(
            Kronecker(np.ascontiguousarray(values.astype(target.storage))) for values in factors
        ),
        error,
        error / norm if norm > 0 else 0.0,
        errors,
        math.sqrt(len(errors)) * max(errors),
    )
