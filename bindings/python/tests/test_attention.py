# SPDX-License-Identifier: Apache-2.0
"""Sparse attention against a dense softmax(Q K^T) V in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

import magicube as mc

TYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def dense(
    q: Any, k: Any, v: Any, mask: np.ndarray, scale: float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact result, log-sum-exp, and how far the result may be off; all axes but the last two are
    heads."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    groups = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    if groups > 1:
        k, v = (np.repeat(x, groups, axis=-3) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    keys = np.swapaxes(k, -1, -2)
    scores = np.where(mask, scale * (q @ keys), -np.inf)
    reach = np.where(mask, abs(scale) * (abs(q) @ abs(keys)), 0).max(-1, initial=0)[..., None]
    top = scores.max(-1, initial=-np.inf, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    p = e / np.where(total > 0, total, 1)
    slack = (2 * reach * (q.shape[-1] + 4) + k.shape[-2] + 16) * 2.0**-22
    return p @ v, lse, slack * (p @ abs(v))


def check(result: Any, expected: Any, out: str) -> None:
    exact, _, slack = expected
    assert result.dtype == TYPES[out] and result.shape == exact.shape
    bound = slack + abs(exact) * ref.EPS[out] * 1.01 + {"fp16": 2.0**-24}.get(out, 1e-37)
    assert (abs(np.asarray(result, np.float64) - exact) <= bound).all()


def tensors(rng: Any, dtype: str, q: tuple[int, ...], k: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(TYPES[dtype]) for shape in (q, k, k)]


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("out", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_every_type_and_vector_length(rng, source: str, out: str, V: int) -> None:
    mask = rng.random((V + 5, 43)) < 0.4
    mask[2] = False
    q, k, v = tensors(rng, source, (V + 5, 24), (43, 24))
    pattern = mc.patterns.from_mask(mask, vector_length=V)
    result, lse = mc.attention(q, k, v, pattern, out_dtype=out, log_sum_exp=True)
    expected = dense(q, k, v, mask)
    check(result, expected, out)
    assert lse.dtype == np.float32 and lse[2] == -np.inf and (result[2] == 0).all()
    np.testing.assert_allclose(lse, expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("offset", [-7, 0, 4])
def test_causal_and_lengths_are_exact(rng, V: int, offset: int) -> None:
    B, H, Lq, Lk = 3, 2, 37, 50
    base = rng.random((Lq, Lk)) < 0.7
    q, k, v = tensors(rng, "fp32", (B, H, Lq, 8), (B, H, Lk, 8))
    offsets, lengths = np.array([0, 13, -5]), np.array([50, 0, 21], np.int32)
    i, j = np.arange(Lq)[:, None], np.arange(Lk)
    mask = np.stack(
        [base & (j <= i + offset + o) & (j < n) for o, n in zip(offsets, lengths)]
    )[:, None]
    pattern = mc.patterns.from_mask(base, vector_length=V)
    result = mc.attention(
        q, k, v, pattern, causal=True, causal_offset=offset, causal_offsets=offsets,
        key_lengths=lengths,
    )
    check(result, dense(q, k, v, mask), "fp32")
    assert (result[1] == 0).all()
    # What is not allowed has no influence at all.
    k[0, :, offset + Lq :], v[1], k[2, :, 21:] = np.nan, np.inf, np.nan
    again = mc.attention(
        q, k, v, pattern, causal=True, causal_offset=offset, causal_offsets=offsets,
        key_lengths=lengths,
    )
    assert (again == result).all()


@pytest.mark.parametrize("kind", ["shared", "head", "batch", "batch_head"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_patterns_of_heads_and_grouped_heads(rng, kind: str, kv_heads: int) -> None:
    B, H, L = 3, 4, 20
    count = {"shared": 1, "head": H, "batch": B, "batch_head": B * H}[kind]
    masks = ref.keep(rng, (count, L, L), 4, 0.6)
    q, k, v = tensors(rng, "fp32", (B, H, L, 16), (B, kv_heads, L, 16))
    pattern = mc.patterns.from_mask(masks if count > 1 else masks[0], vector_length=4)
    shape = {"shared": (1, 1), "head": (1, H), "batch": (B, 1), "batch_head": (B, H)}[kind]
    expected = dense(q, k, v, masks.reshape(*shape, L, L), 0.3)
    check(mc.attention(q, k, v, pattern, scale=0.3), expected, "fp32")
    check(mc.attention(q, k, v, pattern, scale=0.3, patterns=kind), expected, "fp32")


def test_number_of_patterns_that_tells_too_little(rng) -> None:
    masks = rng.random((2, 8, 8)) < 0.5
    pattern = mc.patterns.from_mask(masks)
    q = rng.standard_normal((2, 2, 8, 4)).astype(np.float32)
    with pytest.raises(mc.InvalidValueError, match="say with patterns which of head, batch"):
        mc.attention(q, q, q, pattern)
    check(
        mc.attention(q, q, q, pattern, patterns="batch"), dense(q, q, q, masks[:, None]), "fp32"
    )
    check(mc.attention(q, q, q, pattern, patterns="head"), dense(q, q, q, masks[None]), "fp32")
    with pytest.raises(mc.InvalidValueError, match=r"it must have 1, 3 \(head\)"):
        mc.attention(*[np.ones((2, 3, 8, 4), np.float32)] * 3, mc.patterns.from_mask(
            rng.random((5, 8, 8)) < 0.5))


def test_views_with_strides(rng) -> None:
    B, H, L, D = 2, 3, 12, 8
    mask = rng.random((L, L)) < 0.5
    pattern = mc.patterns.from_mask(mask)
    packed = rng.standard_normal((B, L, 3, H, D)).astype(np.float32)  # as a fused projection gives
    q, k, v = (packed[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    expected = dense(q, k, v, mask)
    check(mc.attention(q, k, v, pattern), expected, "fp32")
    plan = mc.AttentionPlan(pattern, head_dim=D, dtype="fp32", batch_count=B, q_heads=H)
    out = np.full((B, L, H, D), 7, np.float32)
    target = out.transpose(0, 2, 1, 3)
    assert plan(q, k, v, target) is target
    check(target, expected, "fp32")
    shared = np.broadcast_to(k[:1], k.shape)
    check(mc.attention(q, shared, v, pattern), dense(q, shared, v, mask), "fp32")
    with pytest.raises(mc.InvalidValueError, match="rows of head_dim elements must be contiguous"):
        mc.attention(np.ones((L, D), np.float32, order="F"), k[0, 0], v[0, 0], pattern)
    with pytest.raises(mc.InvalidValueError, match="out overlaps q"):
        plan(q, k, v, q)
    with pytest.raises(mc.InvalidValueError, match="must not share memory"):
        writable = np.lib.stride_tricks.as_strided(out, q.shape, (0, *target.strides[1:]))
        plan(q, k, v, writable)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_torch(rng, name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    q, k, v = (torch.randn(2, 3, 40, 32).to(dtype) for _ in range(3))
    pattern = mc.patterns.sliding_window(40, 40, before=9)
    mask = pattern.to_mask()
    result, lse = mc.attention(q, k, v, pattern, log_sum_exp=True)
    assert isinstance(result, torch.Tensor) and result.dtype == dtype and result.shape == q.shape
    exact = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=torch.from_numpy(mask.astype(bool))
    )
    limit = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[name]
    assert (result.double() - exact).abs().max() < limit
    plan = mc.AttentionPlan(pattern, head_dim=32, dtype=dtype, batch_count=2, q_heads=3)
    out = torch.empty_like(q)
    assert plan(q, k, v, out) is out and torch.equal(out, result)
    assert lse.shape == (2, 3, 40)


def test_plan(rng) -> None:
    mask = rng.random((20, 30)) < 0.5
    pattern = mc.patterns.from_mask(mask, vector_length=4)
    plan = mc.AttentionPlan(
        pattern, head_dim=8, dtype="fp16", out_dtype="fp32", q_heads=4, kv_heads=2,
        key_lengths=True, log_sum_exp=True,
    )
    assert plan.info.implementation in mc.attention_implementations()
    for length in (30, 7, 0):
        q, k, v = tensors(rng, "fp16", (4, 20, 8), (2, 30, 8))
        result, lse = plan(q, k, v, scale=0.2, key_lengths=[length])
        expected = dense(q, k, v, mask & (np.arange(30) < length), 0.2)
        check(result, expected, "fp32")
        np.testing.assert_allclose(lse, expected[1], rtol=1e-5, atol=1e-5)
    for options, text in [
        ({}, "key_lengths is None, but the plan was made with it"),
        ({"key_lengths": [31]}, r"args->key_lengths\[0\] is 31; it must lie in \[0, 30\]"),
        ({"key_lengths": [1, 2]}, r"key_lengths has shape \(2,\); it must be \(1,\)"),
        ({"key_lengths": [1.5]}, "key_lengths has items of float64"),
        ({"key_lengths": [1], "causal_offsets": [1]}, "causal_offsets is given, but the plan was"),
    ]:
        with pytest.raises(mc.InvalidValueError, match=text):
            plan(q, k, v, **options)
    for index, wrong in enumerate((q[:, 1:], k[:1], v.astype(np.float32))):
        operands = [q, k, v]
        operands[index] = wrong
        with pytest.raises(mc.InvalidValueError, match=f"{'qkv'[index]} is of"):
            plan(*operands, key_lengths=[1])
    plan.close()
    with pytest.raises(mc.InvalidValueError, match="closed"):
        plan(q, k, v, key_lengths=[1])


def test_refusals(rng) -> None:
    pattern = mc.patterns.from_mask(np.ones((4, 4), bool))
    q = np.ones((4, 8), np.float32)
    with pytest.raises(mc.NotSupportedError, match="in_type is int16"):
        mc.attention(*[q.astype(np.int16)] * 3, pattern)
    with pytest.raises(mc.NotSupportedError, match="out_type is int8"):
        mc.attention(q, q, q, pattern, out_dtype="int8")
    with pytest.raises(mc.InvalidValueError, match="q has shape"):
        mc.attention(q[0], q, q, pattern)
    with pytest.raises(mc.InvalidValueError, match="problem->q_heads is 3"):
        mc.attention(np.ones((3, 4, 8), np.float32), *[np.ones((2, 4, 8), np.float32)] * 2, pattern)
    with pytest.raises(mc.InvalidValueError, match="problem->causal is 0"):
        mc.attention(q, q, q, pattern, causal_offset=3)
    with pytest.raises(mc.InvalidValueError, match="patterns is 'rows'"):
        mc.attention(q, q, q, pattern, patterns="rows")
    with pytest.raises(TypeError, match="it must be a magicube.SrBcrs"):
        mc.attention(q, q, q, np.ones((4, 4)))  # type: ignore[arg-type]
    ok, reason = mc.AttentionPlan.is_supported(pattern, head_dim=8, dtype="e4m3")
    assert not ok and "in_type is e4m3" in reason
    assert mc.AttentionPlan.is_supported(pattern, head_dim=8) == (True, "")


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_issue_06_empty_matrices(shape: tuple[int, int]) -> None:
    pattern = mc.patterns.from_mask(np.zeros(shape, bool))
    q, k = np.ones((shape[0], 8), np.float32), np.ones((shape[1], 8), np.float32)
    result, lse = mc.attention(q, k, k, pattern, log_sum_exp=True)
    assert result.shape == q.shape and (result == 0).all() and (lse == -np.inf).all()
    none = np.ones((0, 2, shape[0], 8), np.float32)
    keys = np.ones((0, 2, shape[1], 8), np.float32)
    assert mc.attention(none, keys, keys, pattern).shape == none.shape


def test_accuracy_of_fp16(rng) -> None:
    """Relative Frobenius error against float64 at 90 % sparsity."""
    L, D = 1024, 64
    pattern = mc.patterns.random_vectors(L, L, sparsity=0.9)
    mask = pattern.to_mask().astype(bool)
    q, k, v = (rng.standard_normal((L, D)) for _ in range(3))
    exact = dense(q, k, v, mask)[0]
    result = mc.attention(*(x.astype(np.float16) for x in (q, k, v)), pattern)
    error = np.linalg.norm(result.astype(np.float64) - exact) / np.linalg.norm(exact)
    assert error < 2e-3


@settings(max_examples=100)
@given(
    source=st.sampled_from(sorted(TYPES)),
    lq=st.integers(1, 40),
    lk=st.integers(1, 60),
    dim=st.integers(1, 40),
    V=st.sampled_from(ref.VECTOR_LENGTHS),
    S=st.sampled_from([8, 16, 32]),
    heads=st.sampled_from([(1, 1), (4, 2), (3, 1)]),
    density=st.sampled_from([0.05, 0.5, 1.0]),
    causal=st.none() | st.integers(-50, 50),
    seed=st.integers(0, 2**32 - 1),
)
def test_property(source, lq, lk, dim, V, S, heads, density, causal, seed) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((lq, lk)) < density
    q, k, v = tensors(rng, source, (heads[0], lq, dim), (heads[1], lk, dim))
    pattern = mc.patterns.from_mask(mask, vector_length=V, stride=S)
    result = mc.attention(
        q, k, v, pattern, causal=causal is not None, causal_offset=causal or 0
    )
    if causal is not None:
        mask &= np.arange(lk) <= np.arange(lq)[:, None] + causal
    check(result, dense(q, k, v, mask), source)
