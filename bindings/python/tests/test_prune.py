# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import magicube as mc
import numpy as np
import pytest
import reference as ref


def expected_mask(
    w: np.ndarray, V: int, scope: str, norm: str, sparsity: float | None, keep: int | None
) -> np.ndarray:
    """prune.h in plain Python: rank by norm, ties by lowest index."""
    rows, cols = w.shape
    blocks = -(-rows // V)
    wide = w.astype(np.float64)
    ranked = []
    for b in range(blocks):
        for c in range(cols):
            column = wide[b * V : (b + 1) * V, c]
            total = 0.0
            for x in column:
                total += x * x if norm == "l2" else abs(x)
            ranked.append((-total, b, c))
    groups = [ranked] if scope == "matrix" else [
        [entry for entry in ranked if entry[1] == b] for b in range(blocks)
    ]
    mask = np.zeros(w.shape, np.uint8)
    for group in groups:
        count = len(group)
        kept = keep if keep is not None else count - math.floor(sparsity * count + 0.5)
        for _, b, c in sorted(group)[:kept]:
            mask[b * V : (b + 1) * V, c] = 1
    return mask


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("scope", ["matrix", "row"])
@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8", "int4", "int16"])
def test_magnitude(rng, V: int, scope: str, norm: str, dtype: str) -> None:
    w = ref.values(rng, dtype, (2 * V + 3, 17))
    for sparsity in (0.0, 0.3, 0.5, 0.77, 1.0):
        mask = mc.prune(
            ref.stored(w, dtype), vector_length=V, sparsity=sparsity, scope=scope, norm=norm
        )
        assert mask.dtype == np.uint8
        np.testing.assert_array_equal(mask, expected_mask(w, V, scope, norm, sparsity, None))
    for keep in (0, 1, 7):
        mask = mc.prune(ref.stored(w, dtype), vector_length=V, keep=keep, scope=scope, norm=norm)
        np.testing.assert_array_equal(mask, expected_mask(w, V, scope, norm, None, keep))


def test_ties_go_to_the_lowest_index() -> None:
    w = np.ones((16, 4), np.float32)
    mask = mc.prune(w, vector_length=8, keep=5)
    assert mask[0].tolist() == [1, 1, 1, 1] and mask[8].tolist() == [1, 0, 0, 0]
    w[8:, 3] = 2
    assert mc.prune(w, vector_length=8, keep=2)[8].tolist() == [0, 0, 0, 1]


def test_orders_ld_and_batch(rng) -> None:
    w = ref.values(rng, "fp32", (3, 20, 9))
    plain = mc.prune(w, vector_length=4, sparsity=0.4)
    for item in range(3):
        np.testing.assert_array_equal(
            plain[item], expected_mask(w[item], 4, "matrix", "l2", 0.4, None)
        )
        for order in "CF":
            single = mc.prune(ref.stored(w[item], "fp32", order, 3), vector_length=4, sparsity=0.4)
            np.testing.assert_array_equal(single, plain[item])


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_issue_06_empty(shape: tuple[int, int]) -> None:
    assert mc.prune(np.zeros(shape, np.float32), sparsity=0.5).shape == shape


def test_prune_then_multiply(rng) -> None:
    w = ref.values(rng, "int8", (64, 48))
    mask = mc.prune(w, sparsity=0.75)
    A = mc.SrBcrs.from_dense((w * mask).astype(np.int8), mask=mask)
    assert A.num_vectors == 8 * 48 // 4
    B = ref.values(rng, "int8", (48, 5))
    ref.same_bits(A @ B, ref.epilogue(ref.exact_product(w * mask, B), "int32"))
