# SPDX-License-Identifier: Apache-2.0
"""Attention over int8 and int4 against its definition in Python integers and float64, and its
accuracy against attention over real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference as ref

import magicube as mc

SCHEMES = [("int8", 16), ("int8", 8), ("int4", 8), ("int4", 4)]


def integers(x: Any) -> np.ndarray:
    return (x.unpack() if isinstance(x, mc.Int4Array) else np.asarray(x)).astype(np.int64)


def defined(x: mc.QuantizedAttention, mask: np.ndarray, bits: int) -> tuple[Any, Any]:
    """Output and log-sum-exp of one head as attention.h defines them."""
    q, k, v = integers(x.q), integers(x.k), integers(x.v)
    scale = np.float32(q.shape[-1] ** -0.5)
    out = np.zeros((len(q), v.shape[-1]))
    lse = np.full(len(q), -np.inf)
    top = 2**bits - 1
    for i in range(len(q)):
        keys = np.flatnonzero(mask[i])
        if not len(keys):
            continue
        dots = (k[keys] @ q[i]).astype(np.float32)
        s = ((scale * x.q_scale[i]) * x.k_scale[keys]) * dots
        assert s.dtype == np.float32
        p = np.rint(top * np.exp(s.astype(np.float64) - s.max())).astype(np.int64)
        out[i] = x.v_scale.astype(np.float64) * (p @ v[keys]) / p.sum()
        lse[i] = s.max() + np.log(p.sum() / top)
    return out, lse


def real_attention(q: Any, k: Any, v: Any, mask: np.ndarray) -> np.ndarray:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = np.where(mask, q @ k.T * q.shape[-1] ** -0.5, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("dtype,bits", SCHEMES)
def test_as_its_definition(rng, dtype: str, bits: int, V: int) -> None:
    mask = rng.random((V + 5, 43)) < 0.4
    mask[2] = False
    q, k, v = (rng.standard_normal((n, 25)).astype(np.float32) for n in (V + 5, 43, 43))
    x = mc.quantize_attention(q, k, v, dtype)
    pattern = mc.patterns.from_mask(mask, vector_length=V)
    result, lse = mc.attention(
        x.q, x.k, x.v, pattern, **x.scales, probability_bits=bits, out_dtype="fp32",
        log_sum_exp=True,
    )
    expected, expected_lse = defined(x, mask, bits)
    # A tie of rounding may fall otherwise where exp differs in its last bit: none does here.
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-6, atol=1e-6)
    default = mc.attention(x.q, x.k, x.v, pattern, **x.scales)
    assert default.dtype == np.float16 and default.shape == q.shape


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_heads_batches_and_plans(rng, dtype: str) -> None:
    B, H, G, L, d = 2, 4, 2, 24, 15
    q = rng.standard_normal((B, H, L, d)).astype(np.float32)
    k, v = rng.standard_normal((2, B, G, L, d)).astype(np.float32)
    mask = rng.random((L, L)) < 0.5
    pattern = mc.patterns.from_mask(mask)
    x = mc.quantize_attention(q, k, v, dtype)
    assert x.q.shape == q.shape and x.q_scale.shape == (B, H, L) and x.v_scale.shape == (B, G, d)
    result = mc.attention(x.q, x.k, x.v, pattern, **x.scales, out_dtype="fp32")
    for b in range(B):
        for h in range(H):
            one = mc.quantize_attention(q[b, h], k[b, h // 2], v[b, h // 2], dtype)
            expected, _ = defined(one, mask, 8)
            np.testing.assert_allclose(result[b, h], expected, rtol=1e-6, atol=1e-7)
    with mc.AttentionPlan(
        pattern, head_dim=d, dtype=dtype, batch_count=B, q_heads=H, kv_heads=G, out_dtype="fp32",
        q_scale="row", k_scale="row", v_scale="col",
    ) as plan:
        out = np.empty(q.shape, np.float32)
        assert plan(x.q, x.k, x.v, out, **x.scales) is out and (out == result).all()
        with pytest.raises(mc.InvalidValueError, match="k_scale is None, but the plan was made"):
            plan(x.q, x.k, x.v, q_scale=x.q_scale, v_scale=x.v_scale)
        with pytest.raises(mc.InvalidValueError, match=r"v_scale has shape \(2, 2, 24\)"):
            plan(x.q, x.k, x.v, **{**x.scales, "v_scale": x.k_scale})
        with pytest.raises(mc.InvalidValueError, match="q_scale has items of float64"):
            plan(x.q, x.k, x.v, **{**x.scales, "q_scale": x.q_scale.astype(np.float64)})


def test_numbers_as_scales(rng) -> None:
    q, k, v = rng.integers(-128, 128, (3, 16, 8), np.int8)
    pattern = mc.patterns.from_mask(np.ones((16, 16), bool))
    number = mc.attention(
        q, k, v, pattern, q_scale=0.01, k_scale=0.02, v_scale=0.5, out_dtype="fp32"
    )
    rows = np.full(16, 0.01, np.float32), np.full(16, 0.02, np.float32)
    each = mc.attention(
        q, k, v, pattern, q_scale=rows[0], k_scale=rows[1], v_scale=np.full(8, 0.5, np.float32),
        out_dtype="fp32",
    )
    assert (number == each).all()
    bare = mc.attention(q, k, v, pattern, scale=0.0002, v_scale=0.5, out_dtype="fp32")
    assert np.isfinite(bare).all() and bare.any()


@pytest.mark.parametrize("dtype,bits,limit", [
    ("int8", 16, 2.0e-2), ("int8", 8, 2.5e-2), ("int4", 8, 0.35), ("int4", 4, 0.6),
])
def test_accuracy(rng, dtype: str, bits: int, limit: float) -> None:
    L, d = 1024, 64
    q, k, v = rng.standard_normal((3, L, d)).astype(np.float32)
    mask = np.repeat(rng.random((L // 8, L)) < 0.1, 8, axis=0)
    x = mc.quantize_attention(q, k, v, dtype)
    result = mc.attention(
        x.q, x.k, x.v, mc.patterns.from_mask(mask), **x.scales, probability_bits=bits,
        out_dtype="fp32",
    )
    exact = real_attention(q, k, v, mask)
    assert np.linalg.norm(result - exact) / np.linalg.norm(exact) < limit


def test_bad_input(rng) -> None:
    q = rng.integers(-8, 8, (16, 8), np.int8)
    pattern = mc.patterns.from_mask(np.ones((16, 16), bool))
    packed = mc.pack_int4(q)
    with pytest.raises(mc.InvalidValueError, match="probability_bits is 4; it must be 16 or 8"):
        mc.attention(q, q, q, pattern, probability_bits=4)
    with pytest.raises(mc.InvalidValueError, match="probability_bits is 16; it must be 8 or 4"):
        mc.attention(packed, packed, packed, pattern, probability_bits=16)
    with pytest.raises(mc.InvalidValueError, match="k is of int4"):
        mc.attention(q, packed, q, pattern)
    with pytest.raises(mc.InvalidValueError, match="order F"):
        mc.attention(*[mc.pack_int4(q, "F")] * 3, pattern)
    with pytest.raises(mc.InvalidValueError, match="q_scale is .*it must be NONE"):
        mc.attention(*[q.astype(np.float32)] * 3, pattern, q_scale=1.0)
    with pytest.raises(mc.InvalidValueError, match="q_scale.*finite"):
        mc.attention(q, q, q, pattern, q_scale=float("nan"))
    with pytest.raises(mc.InvalidValueError, match="dtype is int16; it must be int8 or int4"):
        mc.quantize_attention(q, q, q, "int16")
    with pytest.raises(mc.InvalidValueError, match="it must have 2 to 4 axes"):
        mc.quantize_attention(*[np.ones(4, np.float32)] * 3)
    four = mc.pack_int4(rng.integers(-8, 8, (1, 1, 16, 8), np.int8))
    with pytest.raises(mc.InvalidValueError, match="it must be a matrix, or a batch of matrices"):
        mc.dequantize(four, 1.0)
