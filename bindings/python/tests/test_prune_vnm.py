# SPDX-License-Identifier: Apache-2.0
"""Pruning to V:N:M against plain loops over every set of columns, and systems NumPy solves."""

from __future__ import annotations

import itertools
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref

Array = np.ndarray[Any, Any]


def budget_of(n: int, width: int) -> int:
    return min(n + 2 if n > 3 else 4, width)


def is_vnm(mask: Array, V: int, m: int, n: int) -> bool:
    """Whether each row keeps n of each group, within the budget of columns of its row group."""
    for col in range(0, mask.shape[1], m):
        group = mask[:, col : col + m]
        width = group.shape[1]
        if not (group.sum(axis=1) == min(n, width)).all():
            return False
        for row in range(0, mask.shape[0], V):
            if group[row : row + V].any(axis=0).sum() > budget_of(n, width):
                return False
    return True


def magnitude_mask(w: Array, V: int, m: int, n: int, norm: str) -> Array:
    """prune.h in plain Python."""
    scores = np.abs(w.astype(np.float64)) ** (2 if norm == "l2" else 1)
    mask = np.zeros(w.shape, np.uint8)
    for row, col in itertools.product(range(0, w.shape[0], V), range(0, w.shape[1], m)):
        group = scores[row : row + V, col : col + m]
        width = group.shape[1]
        best, columns = -1.0, ()
        for chosen in itertools.combinations(range(width), budget_of(n, width)):
            value = float(np.sort(group[:, chosen], axis=1)[:, -min(n, width) :].sum())
            if value > best:
                best, columns = value, chosen
        for r, scored in enumerate(group):
            order = sorted(columns, key=lambda c: (-scored[c], c))
            mask[row + r, [col + c for c in order[:n]]] = 1
    return mask


@pytest.mark.parametrize("dtype", ["int8", "int4", "bf16", "fp32"])
@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("V", [1, 16, 32])
def test_magnitude(rng, V: int, norm: str, dtype: str) -> None:
    w = ref.values(rng, dtype, (37, 19))
    for m, n in ((4, 2), (8, 2), (8, 1), (7, 3), (8, 4)):
        mask = mc.prune_vnm(ref.stored(w, dtype), vector_length=V, m=m, n=n, norm=norm)
        assert mask.dtype == np.uint8 and is_vnm(mask, V, m, n)
        np.testing.assert_array_equal(mask, magnitude_mask(w, V, m, n, norm))


def test_orders_ld_and_batch(rng) -> None:
    w = ref.values(rng, "fp32", (3, 20, 17))
    plain = mc.prune_vnm(w, vector_length=16)
    for item in range(3):
        np.testing.assert_array_equal(plain[item], magnitude_mask(w[item], 16, 8, 2, "l2"))
        for order in "CF":
            single = mc.prune_vnm(ref.stored(w[item], "fp32", order, 3), vector_length=16)
            np.testing.assert_array_equal(single, plain[item])


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_empty(shape: tuple[int, int]) -> None:
    w = np.zeros(shape, np.float32)
    assert mc.prune_vnm(w).shape == shape
    mask, updated = mc.prune_vnm_obs(w, inputs=np.ones((3, shape[1]), np.float32))
    assert mask.shape == updated.shape == shape and mc.kept_energy(w, mask) == 1


# ---- second order --------------------------------------------------------------------------------


def damped(h: Array, damping: float) -> Array:
    return h + damping * np.trace(h) / len(h) * np.eye(len(h))


def constrained(h: Array, w: Array, kept: Array) -> Array:
    """The weights on `kept` of least (v - w)^T H (v - w)."""
    v = np.zeros_like(w)
    v[kept] = np.linalg.solve(h[np.ix_(kept, kept)], h[kept] @ w)
    return v


def obs_mask(w: Array, h: Array, V: int, m: int) -> Array:
    """Groups from left to right; the loss of every pair of every set of four by NumPy's solver."""
    w = w.copy()
    mask = np.zeros(w.shape, np.uint8)
    for col in range(0, w.shape[1], m):
        inverse = np.linalg.inv(h[col:, col:])
        width = min(m, w.shape[1] - col)
        pairs = list(itertools.combinations(range(width), 2))
        rest = {p: [c for c in range(width) if c not in p] for p in pairs}

        def multipliers(r: int, p: tuple[int, int]) -> Array:
            q = rest[p]
            return np.linalg.solve(inverse[np.ix_(q, q)], w[r, col + np.array(q)])

        for row in range(0, w.shape[0], V):
            rows = range(row, min(row + V, w.shape[0]))
            loss = {
                p: [float(w[r, col + np.array(rest[p])] @ multipliers(r, p)) for r in rows]
                for p in pairs
            }

            def best(chosen: tuple[int, ...], i: int) -> tuple[int, int]:
                return min(itertools.combinations(chosen, 2), key=lambda p: loss[p][i])

            columns = min(
                itertools.combinations(range(width), 4),
                key=lambda chosen: sum(loss[best(chosen, i)][i] for i in range(len(rows))),
            )
            for i, r in enumerate(rows):
                pair = best(columns, i)
                w[r, col:] -= inverse[:, rest[pair]] @ multipliers(r, pair)
                mask[r, [col + c for c in pair]] = 1
    return mask


def test_layer_wise_is_the_optimum(rng) -> None:
    w = rng.standard_normal((20, 22)).astype(np.float32)
    x = (rng.standard_normal((60, 22)) @ rng.standard_normal((22, 22))).astype(np.float32)
    h = damped(x.astype(np.float64).T @ x, 0.05)
    mask, updated = mc.prune_vnm_obs(w, inputs=x, vector_length=16, damping=0.05)
    np.testing.assert_array_equal(mask, obs_mask(w.astype(np.float64), h, 16, 8))
    assert updated.dtype == np.float32 and (updated[mask == 0] == 0).all()
    wanted = np.stack([constrained(h, v.astype(np.float64), k != 0) for v, k in zip(w, mask)])
    np.testing.assert_allclose(updated, wanted, atol=1e-5 * np.abs(wanted).max())
    # In parts, as X^T X and with one thread it is the same.
    for source in (
        {"inputs": x.reshape(3, 20, 22)}, {"hessian": (x.astype(np.float64).T @ x).astype("f4")},
    ):
        again, weights = mc.prune_vnm_obs(w, vector_length=16, damping=0.05, **source)
        np.testing.assert_array_equal(again, mask)
        np.testing.assert_allclose(weights, updated, atol=1e-4)


def test_block_fisher_is_the_closed_form(rng) -> None:
    w = rng.standard_normal((17, 24)).astype(np.float32)
    g = rng.standard_normal((40, 17, 24)).astype(np.float32)
    mask, updated = mc.prune_vnm_obs(
        w, gradients=g, vector_length=16, fisher_block=12, damping=0.1
    )
    assert is_vnm(mask, 16, 8, 2)
    level = 0.1 * float((g.astype(np.float64) ** 2).mean())
    for r, col in itertools.product(range(17), (0, 12)):
        part = slice(col, col + 12)
        rows = g[:, r, part].astype(np.float64)
        fisher = rows.T @ rows / 40 + level * np.eye(12)
        wanted = constrained(fisher, w[r, part].astype(np.float64), mask[r, part] != 0)
        np.testing.assert_allclose(updated[r, part], wanted, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("selection", ["exhaustive", "pairwise"])
def test_it_loses_less_than_magnitude(rng, selection: str, n: int) -> None:
    w = rng.standard_normal((64, 48)).astype(np.float32)
    x = (rng.standard_normal((400, 48)) @ rng.standard_normal((48, 48)) ** 3).astype(np.float32)
    mask, updated = mc.prune_vnm_obs(w, inputs=x, n=n, selection=selection, vector_length=32)
    assert is_vnm(mask, 32, 8, n)
    plain = w * mc.prune_vnm(w, n=n, vector_length=32)
    assert np.linalg.norm(x @ (w - updated).T) < 0.9 * np.linalg.norm(x @ (w - plain).T)
    _, once = mc.prune_vnm_obs(
        w, inputs=x, n=n, selection=selection, vector_length=32, refit=False
    )
    assert np.linalg.norm(x @ (w - updated).T) < np.linalg.norm(x @ (w - once).T)


# ---- what goes with it ---------------------------------------------------------------------------


def test_schedule_and_energy(rng) -> None:
    assert mc.gradual_schedule(16, 2, 3) == [8, 4, 2]
    assert mc.gradual_schedule(8, steps=1) == [2]
    with pytest.raises(mc.InvalidValueError, match="steps is 0"):
        mc.gradual_schedule(8, 2, 0)
    w = rng.standard_normal((3, 20, 30)).astype(np.float32)
    mask = rng.random(w.shape) < 0.5
    wide = w.astype(np.float64) ** 2
    assert mc.kept_energy(w, mask) == pytest.approx(wide[mask].sum() / wide.sum(), rel=1e-12)
    assert mc.kept_energy(w, mask.astype(np.uint8)) == mc.kept_energy(w, mask)
    with pytest.raises(mc.InvalidValueError, match="mask"):
        mc.kept_energy(w, mask[:2])
    last = np.full(w.shape[1:], 1, np.uint8)
    for n in mc.gradual_schedule(8, 2, 3):
        last = mc.prune_vnm(w[0] * last, n=n, vector_length=16)
    assert is_vnm(last, 16, 8, 2)


def test_bad_input(rng) -> None:
    w = rng.standard_normal((8, 16)).astype(np.float32)
    x = rng.standard_normal((40, 16)).astype(np.float32)
    for options, message in (
        ({}, "no curvature given"),
        ({"inputs": x, "hessian": x.T @ x}, "inputs and hessian given"),
        ({"gradients": x[:8]}, r"gradients has shape \(8, 16\)"),
        ({"inputs": x[:, :15]}, "15 columns"),
        ({"inputs": x.astype(np.int8)}, "curvature is of type int8"),
        ({"inputs": x, "damping": -1.0}, "damping"),
        ({"inputs": x, "selection": "all"}, "selection"),
        ({"inputs": np.zeros_like(x)}, "not positive definite"),
        ({"inputs": np.where(x > 2, np.nan, x).astype(np.float32)}, "nan"),
        ({"inputs": x, "vector_length": 8}, "vector_length"),
    ):
        with pytest.raises(mc.InvalidValueError, match=message):
            mc.prune_vnm_obs(w, **options)
    for options, message in (
        ({"m": 3}, "m is 3"), ({"n": 9}, "n is 9"), ({"norm": "l3"}, "norm"),
        ({"vector_length": 2**40}, "vector_length"),
    ):
        with pytest.raises(mc.InvalidValueError, match=message):
            mc.prune_vnm(w, **options)
    w[2, 3] = np.inf
    with pytest.raises(mc.InvalidValueError, match=r"weight\[2, 3\]"):
        mc.prune_vnm(w)
