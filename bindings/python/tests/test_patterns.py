# SPDX-License-Identifier: Apache-2.0
"""Pattern helpers: exact to the element against the plain rule, for every vector length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference as ref

import magicube as mc
from magicube import patterns

SHAPES = [(1, 1), (37, 50), (64, 64), (130, 33)]


def shows(pattern: mc.SrBcrs, mask: Any, V: int) -> None:
    assert pattern.values is None and pattern.vector_length == V
    assert pattern.shape == mask.shape
    assert (pattern.to_mask().astype(bool) == mask).all()
    assert pattern.nnz == mask.sum()
    pattern.validate()


def rule(shape: tuple[int, int], sees: Any) -> np.ndarray:
    """A mask made one element at a time."""
    return np.array([[bool(sees(i, j)) for j in range(shape[1])] for i in range(shape[0])])


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rules(rng, shape: tuple[int, int], V: int) -> None:
    lq, lk = shape
    mask = rng.random(shape) < 0.3
    shows(patterns.from_mask(mask, vector_length=V), mask, V)
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    indices = np.nonzero(mask)[1]
    for kind in (np.int32, np.int64):
        csr = patterns.from_csr(
            shape, indptr.astype(kind), indices.astype(kind), vector_length=V
        )
        shows(csr, mask, V)
    for before, after, first, offset in [(3, 0, 0, 0), (5, 2, 4, lk - lq), (0, 0, 0, -3)]:
        window = patterns.sliding_window(
            lq, lk, before=before, after=after, first=first, offset=offset, vector_length=V
        )
        shows(
            window,
            rule(shape, lambda i, j: i + offset - before <= j <= i + offset + after or j < first),
            V,
        )
    for step, near, offset in [(1, 0, 0), (7, 0, 0), (8, 3, 5)]:
        shows(
            patterns.strided(lq, lk, step=step, window=near, offset=offset, vector_length=V),
            rule(
                shape,
                lambda i, j: (j - i - offset) % step == 0 or abs(j - i - offset) <= near,
            ),
            V,
        )
    for rows, cols in [(8, 8), (5, 16), (1, 3)]:
        table = rng.random((-(-lq // rows), -(-lk // cols))) < 0.5
        block = patterns.block(
            lq, lk, table, block_size=rows if rows == cols else (rows, cols), vector_length=V
        )
        shows(block, rule(shape, lambda i, j: table[i // rows, j // cols]), V)


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9, 1.0])
def test_random_vectors(shape: tuple[int, int], V: int, sparsity: float) -> None:
    lq, lk = shape
    made = patterns.random_vectors(lq, lk, sparsity=sparsity, vector_length=V, seed=3)
    mask = made.to_mask().astype(bool)
    shows(made, mask, V)
    assert (mask.sum(axis=1) == round((1 - sparsity) * lk)).all()
    for first in range(0, lq, V):  # whole vectors
        assert (mask[first : first + V] == mask[first]).all()
    again = patterns.random_vectors(lq, lk, sparsity=sparsity, vector_length=V, seed=3)
    assert (again.to_mask() == made.to_mask()).all()
    if lq > 2 * V and sparsity == 0.5:
        assert (mask[0] != mask[V]).any()
        other = patterns.random_vectors(lq, lk, sparsity=sparsity, vector_length=V, seed=4)
        assert (other.to_mask() != made.to_mask()).any()


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
def test_bigbird(V: int) -> None:
    size, lq = 8, 125
    made = patterns.bigbird(
        lq, lq, block_size=size, window_blocks=3, global_blocks=2, random_blocks=4,
        vector_length=V, seed=1,
    )
    mask = made.to_mask().astype(bool)
    shows(made, mask, V)
    blocks = -(-lq // size)
    table = mask[::size, ::size]
    assert (np.kron(table, np.ones((size, size), bool))[:lq, :lq] == mask).all()
    i, j = np.arange(blocks)[:, None], np.arange(blocks)
    fixed = (abs(i - j) <= 1) | (i < 2) | (j < 2)
    assert table[fixed].all()
    extra = (table & ~fixed).sum(axis=1)
    assert (extra == np.minimum(4, (~fixed).sum(axis=1))).all()
    bare = patterns.bigbird(
        lq, 60, block_size=size, window_blocks=0, global_blocks=0, random_blocks=1, vector_length=V
    )
    assert (bare.to_mask()[::size, ::size].sum(axis=1) == 1).all()


def test_bands_and_sizes() -> None:
    """More elements than one band holds, and none."""
    L = 3000
    window = patterns.sliding_window(L, L, before=10)
    assert window.nnz == 11 * L - 55
    causal = patterns.sliding_window(L, L, before=L)
    assert causal.nnz == L * (L + 1) // 2
    for lq, lk in [(0, 0), (0, 5), (5, 0)]:
        for made in (
            patterns.sliding_window(lq, lk, before=1),
            patterns.strided(lq, lk, step=2),
            patterns.random_vectors(lq, lk, sparsity=0.5),
            patterns.bigbird(lq, lk, block_size=4),
        ):
            assert made.shape == (lq, lk) and made.nnz == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: patterns.sliding_window(4, 4, before=-1), "before is -1; it must be at least 0"),
        (lambda: patterns.sliding_window(-4, 4, before=1), "lq is -4"),
        (lambda: patterns.sliding_window(4, 4, before=1, vector_length=3), "vector_length is 3"),
        (lambda: patterns.strided(4, 4, step=0), "step is 0; it must be at least 1"),
        (lambda: patterns.random_vectors(4, 4, sparsity=1.5), "sparsity is 1.5"),
        (lambda: patterns.random_vectors(4, 4, sparsity=float("nan")), "sparsity is nan"),
        (lambda: patterns.bigbird(8, 8, block_size=4, window_blocks=2), "window_blocks is 2"),
        (lambda: patterns.block(8, 8, np.ones((3, 2), bool), block_size=4), r"shape \(2, 2\)"),
        (lambda: patterns.block(8, 8, np.ones((2, 2)), block_size=4), "items of float64"),
        (lambda: patterns.from_csr((2, 3), np.array([0, 1]), np.array([0])), "it must have 3"),
        (lambda: patterns.from_csr((1, 3), np.array([0, 2]), np.array([0])), "from 0 to the 1"),
        (lambda: patterns.from_csr((1, 3), np.array([0, 1]), np.array([3])), r"lie in \[0, 3\)"),
        (lambda: patterns.from_csr((1, 3), np.array([0, 2]), np.array([2, 1])), "col_indices"),
        (lambda: patterns.from_csr((1, 3), np.array([0, 2]), np.array([1, 1])), "col_indices"),
    ],
)
def test_refusals(make: Any, text: str) -> None:
    with pytest.raises(mc.InvalidValueError, match=text):
        make()
