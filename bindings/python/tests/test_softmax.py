# SPDX-License-Identifier: Apache-2.0
"""Sparse softmax against fp64."""

from __future__ import annotations

from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

LARGEST = {"int16": 32767, "int8": 127, "uint8": 255, "int4": 7}
OUTPUTS = ["fp32", "fp16", "bf16", *LARGEST]


def logits(
    scores: np.ndarray, alpha: float = 1.0, row: Any = 1.0, col: Any = 1.0, bias: Any = 0.0
) -> np.ndarray:
    """x of softmax.h, bit by bit."""
    scale = (ref.F32(alpha) * ref.column(row)).astype(np.float32) * np.asarray(col, np.float32)
    return ref.fma(scale, scores.astype(np.float32), np.asarray(bias, np.float32))


def softmax(x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in fp64 and how far fp32 arithmetic may be off."""
    wide = np.where(mask, x.astype(np.float64), -np.inf)
    top = wide.max(axis=-1, initial=-np.inf, keepdims=True)
    with np.errstate(invalid="ignore"):
        depth = np.where(np.isfinite(top), wide - np.where(np.isfinite(top), top, 0), -np.inf)
    e = np.exp(depth)
    total = e.sum(axis=-1, keepdims=True)
    p = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    reach = np.where(np.isfinite(depth), -depth, 0)
    return p, p * (reach + mask.sum(axis=-1, keepdims=True) + 16) * 2.0**-23 + 1e-37


def check(S: mc.SrBcrs, scale: Any, x: np.ndarray, mask: np.ndarray, out: str) -> None:
    p, slack = softmax(x, mask)
    result = ref.decode(S)
    assert S.dtype == out and (result[~mask].astype(np.float64) == 0).all()
    if out not in LARGEST:
        assert scale is None
        tiny = {"fp16": 2.0**-25}.get(out, 0.0)
        bound = slack + ref.EPS[out] * 1.01 * p + tiny
        assert (abs(result.astype(np.float64) - p) <= bound).all()
        return
    top = p.max(axis=-1, initial=0.0)
    assert scale.dtype == np.float32 and scale.shape == top.shape
    expected = np.where(top > 0, top / LARGEST[out], 1.0)
    relative = slack.max(axis=-1, initial=0.0) / np.where(top > 0, top, 1) + 2.0**-22
    assert (abs(scale - expected) <= expected * relative).all()
    integers = p / expected[:, None]
    assert (abs(result - integers) <= 0.5 + integers * 4 * relative[:, None] + 1e-6).all()
    assert (result.max(axis=-1, initial=0) == np.where(top > 0, LARGEST[out], 0)).all()


def split(result: Any) -> tuple[mc.SrBcrs, Any]:
    return result if isinstance(result, tuple) else (result, None)


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("source", ["fp32", "fp16", "int32"])
def test_every_type_and_vector_length(rng, source: str, out: str, V: int) -> None:
    shape = (V + 5, 43)
    mask = rng.random(shape) < 0.5
    mask[2] = False
    scores = ref.values(rng, source, shape)
    alpha = 2.0**-29 if source == "int32" else 1.3
    S = mc.SrBcrs.from_dense(
        np.where(mask, scores, scores.dtype.type(0)), vector_length=V, mask=mask,
        stride=None if V > 1 else 8,
    )
    result, scale = split(mc.sparse_softmax(S, out_dtype=out, alpha=alpha))
    assert result.stride == S.stride and result.shape == shape
    check(result, scale, logits(scores, alpha), mask, out)


@pytest.mark.parametrize("out", ["fp32", "uint8"])
def test_scales_and_bias(rng, out: str) -> None:
    shape = (21, 30)
    mask = ref.keep(rng, shape, 8, 0.6)
    scores = rng.integers(-(2**15), 2**15, shape).astype(np.int32)
    bias = np.where(mask, rng.standard_normal(shape), 0).astype(np.float32)
    S = mc.SrBcrs.from_dense(np.where(mask, scores, 0).astype(np.int32), mask=mask)
    extra = mc.SrBcrs.from_dense(bias, mask=mask)
    row = ((rng.random(21) + 0.5) * 1e-4).astype(np.float32)
    col = (rng.random(30) + 0.5).astype(np.float32)
    for given in (extra, extra.values):
        result, scale = split(
            mc.sparse_softmax(
                S, out_dtype=out, alpha=0.7, row_scale=row, col_scale=col, bias=given
            )
        )
        check(result, scale, logits(scores, 0.7, row, col, bias), mask, out)
    result, scale = split(mc.sparse_softmax(S, out_dtype=out, row_scale=1e-4, col_scale=1.5))
    check(result, scale, logits(scores, 1.0, 1e-4, 1.5), mask, out)


@pytest.mark.parametrize("out", OUTPUTS)
def test_rows_that_are_special(out: str) -> None:
    inf = np.inf
    scores = np.array(
        [[1, 2, 3], [-inf, -inf, -inf], [5, -inf, 5], [np.nan, 1, 2], [inf, 0, 0], [88, -88, 0],
         [3e38, -3e38, 3e38], [0, 0, 0]],
        np.float32,
    )
    mask = np.ones(scores.shape, bool)
    mask[7] = False
    shown = np.where(mask, scores, 0).astype(np.float32)
    S = mc.SrBcrs.from_dense(shown, vector_length=1, mask=mask, stride=8)
    result, scale = split(mc.sparse_softmax(S, out_dtype=out))
    rows = [0, 1, 2, 5, 6, 7]
    dense = ref.decode(result)
    keep = mc.SrBcrs.from_dense(shown[rows], vector_length=1, mask=mask[rows], stride=8)
    part, part_scale = split(mc.sparse_softmax(keep, out_dtype=out))
    check(part, part_scale, scores[rows], mask[rows], out)
    ref.same_bits(dense[rows], ref.decode(part))
    if scale is None:
        assert np.isnan(dense[[3, 4]].astype(np.float32)).all()
        assert (dense[[1, 7]].astype(np.float32) == 0).all()
    else:
        assert np.isnan(scale[[3, 4]]).all() and (dense[[3, 4]] == 0).all()
        assert (scale[[1, 7]] == 1).all() and (dense[[1, 7]] == 0).all()


@pytest.mark.parametrize("kind", ["values", "patterns"])
@pytest.mark.parametrize("out", ["fp32", "int8", "int4"])
def test_batches(rng, kind: str, out: str) -> None:
    count, M, N, V = 3, 13, 22, 4
    masks = ref.keep(rng, (count, M, N), V, 0.6)
    if kind == "values":
        masks = np.broadcast_to(masks[0], masks.shape)
    scores = ref.values(rng, "fp32", (count, M, N))
    shown = np.where(masks, scores, 0).astype(np.float32)
    if kind == "patterns":
        S = mc.SrBcrs.from_dense(shown, vector_length=V, mask=masks)
    else:
        pattern = mc.SrBcrs.from_mask(masks[0], vector_length=V)
        S = pattern.with_values(
            np.stack([ref.encode(x, V, pattern.stride, masks[0])["values"] for x in shown])
        )
    row = (rng.random((count, M)) + 0.5).astype(np.float32)
    result, scale = split(mc.sparse_softmax(S, out_dtype=out, row_scale=row))
    assert result.shape == (count, M, N) and (scale is None or scale.shape == (count, M))
    dense = result.to_dense()
    dense = dense.unpack() if isinstance(dense, mc.Int4Array) else dense
    for item in range(count):
        single = mc.SrBcrs.from_dense(shown[item], vector_length=V, mask=masks[item])
        alone, alone_scale = split(mc.sparse_softmax(single, out_dtype=out, row_scale=row[item]))
        check(alone, alone_scale, logits(scores[item], 1.0, row[item]), masks[item], out)
        ref.same_bits(dense[item], ref.decode(alone))
        assert scale is None or (scale[item] == alone_scale).all()


def test_plan(rng) -> None:
    mask = rng.random((20, 30)) < 0.5
    pattern = mc.SrBcrs.from_mask(mask, vector_length=4)
    count = pattern.slots * 4
    plan = mc.SparseSoftmaxPlan(
        pattern, in_dtype="fp32", out_dtype="fp32", row_scale="row", bias=True
    )
    assert plan.info.implementation in mc.sparse_softmax_implementations()
    row = (rng.random(20) + 0.5).astype(np.float32)
    for _ in range(3):
        scores, bias = ref.values(rng, "fp32", (20, 30)), ref.values(rng, "fp32", (20, 30))
        flat, flat_bias = (
            ref.encode(np.where(mask, x, 0).astype(np.float32), 4, pattern.stride, mask)["values"]
            for x in (scores, bias)
        )
        expected = logits(scores, 0.5, row, 1.0, bias)
        check(plan(flat, None, 0.5, row_scale=row, bias=flat_bias), None, expected, mask, "fp32")
        result = plan(pattern.with_values(flat), row_scale=row, alpha=0.5, bias=flat_bias)
        check(result, None, expected, mask, "fp32")
        result = plan(flat, flat, 0.5, row_scale=row, bias=flat_bias)
        assert result.values is flat
        check(result, None, expected, mask, "fp32")
    for options, text in [
        ({"row_scale": row}, "bias must be given"),
        ({"bias": flat_bias}, "row_scale is None"),
        ({"bias": flat_bias[1:], "row_scale": row}, "bias has shape"),
    ]:
        with pytest.raises(mc.InvalidValueError, match=text):
            plan(flat, **options)
    with pytest.raises(mc.InvalidValueError, match="scores has shape"):
        plan(flat[1:], row_scale=row, bias=flat_bias)
    integer = mc.SparseSoftmaxPlan(pattern, in_dtype="int32", out_dtype="int8", batch_count=2)
    scores = rng.integers(-20, 20, (2, count)).astype(np.int32)
    out, scale = np.empty((2, count), np.int8), np.empty((2, 20), np.float32)
    result, same = integer(scores, out, out_scale=scale)
    assert result.values is out and same is scale and result.shape == (2, 20, 30)
    for item in range(2):
        single = pattern.with_values(scores[item])
        dense = ref.decode(single)
        check(pattern.with_values(out[item]), scale[item], logits(dense), mask, "int8")


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
@pytest.mark.parametrize("out", ["fp32", "int8"])
def test_issue_06_empty_matrices(shape: tuple[int, int], out: str) -> None:
    S = mc.SrBcrs.from_dense(np.zeros(shape, np.float32))
    result, scale = split(mc.sparse_softmax(S, out_dtype=out))
    assert result.shape == shape and result.nnz == 0
    assert scale is None or (scale == 1).all()
    with pytest.raises(mc.InvalidValueError, match="pattern alone"):
        mc.sparse_softmax(S.with_values(None))


@settings(max_examples=150)
@given(
    source=st.sampled_from(["fp32", "fp16", "int32"]),
    out=st.sampled_from(OUTPUTS),
    rows=st.integers(1, 40),
    cols=st.integers(1, 60),
    V=st.sampled_from(ref.VECTOR_LENGTHS),
    S=st.sampled_from([8, 16, 32]),
    density=st.sampled_from([0.05, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_property(source, out, rows, cols, V, S, density, seed) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, cols)) < density
    scores = ref.values(rng, source, (rows, cols))
    alpha = 2.0**-28 if source == "int32" else -0.9
    matrix = mc.SrBcrs.from_dense(
        np.where(mask, scores, scores.dtype.type(0)), vector_length=V, stride=S, mask=mask
    )
    result, scale = split(mc.sparse_softmax(matrix, out_dtype=out, alpha=alpha))
    check(result, scale, logits(scores, alpha), mask, out)
