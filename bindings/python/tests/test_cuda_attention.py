# SPDX-License-Identifier: Apache-2.0
"""Sparse attention of CUDA arrays against float64, in the library that Q is from."""

from __future__ import annotations

from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import Own, needs_gpu, spread, to_gpu
from test_attention import TYPES, dense, tensors
from test_quantized_attention import SCHEMES, real_attention

pytestmark = needs_gpu


def close(got: np.ndarray, expected: Any, out: str) -> None:
    """Within what Tensor Cores and the output's rounding leave of the exact result."""
    exact = expected[0]
    assert got.dtype == TYPES[out] and got.shape == exact.shape
    unit = 2.0**-7 if out == "bf16" else 2.0**-9
    slack = expected[2] if out == "fp32" else unit
    assert (abs(got.astype(np.float64) - exact) <= slack + abs(exact) * unit).all()


@pytest.mark.parametrize("V", [1, 8, 32])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(rng, any_lib, dtype: str, V: int) -> None:
    mask = rng.random((V + 35, 70)) < 0.4
    mask[2] = False
    q, k, v = tensors(rng, dtype, (V + 35, 64), (70, 64))
    pattern = mc.patterns.from_mask(mask, vector_length=V).cuda()
    result, lse = mc.attention(*map(any_lib.put, (q, k, v)), pattern, log_sum_exp=True)
    expected = dense(q, k, v, mask)
    close(any_lib.get(result), expected, dtype)
    told = any_lib.get(lse)
    assert told.dtype == np.float32 and told.shape == (V + 35,) and told[2] == -np.inf
    np.testing.assert_allclose(told, expected[1], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("implementation", [*mc.attention_implementations("cuda"), None])
@pytest.mark.parametrize("dtype", ["fp16", "int8"])
def test_every_implementation(rng, dtype: str, implementation: str | None) -> None:
    mask = ref.keep(rng, (64, 96), 8, 0.4)
    pattern = mc.patterns.from_mask(mask).cuda()
    q, k, v = tensors(rng, "fp16", (64, 64), (96, 64))
    scales: dict[str, Any] = {}
    arrays = [mc.to_cuda(x) for x in (q, k, v)]
    if dtype == "int8":
        x = mc.quantize_attention(*arrays)
        arrays, scales = [x.q, x.k, x.v], x.scales
    try:
        got = mc.attention(*arrays, pattern, **scales, implementation=implementation)
    except mc.NotSupportedError:
        assert implementation is not None
        return
    exact = dense(q, k, v, mask)[0]
    assert np.linalg.norm(got.numpy() - exact) <= 0.03 * np.linalg.norm(exact)


@pytest.mark.parametrize("kind", ["shared", "head", "batch", "batch_head"])
def test_heads_batches_and_lengths(rng, any_lib, kind: str) -> None:
    B, H, G, L = 2, 4, 2, 48
    count = {"shared": 1, "head": H, "batch": B, "batch_head": B * H}[kind]
    shape = {"shared": (1, 1), "head": (1, H), "batch": (B, 1), "batch_head": (B, H)}[kind]
    masks = ref.keep(rng, (count, L, L), 8, 0.6)
    q, k, v = tensors(rng, "fp16", (B, H, L, 64), (B, G, L, 64))
    pattern = mc.patterns.from_mask(masks if count > 1 else masks[0]).cuda()
    offsets, lengths = np.array([3, -2]), np.array([48, 21])
    i, j = np.arange(L)[:, None], np.arange(L)
    seen = np.stack([(j <= i + o) & (j < n) for o, n in zip(offsets, lengths)])[:, None]
    expected = dense(q, k, v, masks.reshape(*shape, L, L) & seen)
    plan = mc.AttentionPlan(
        pattern, head_dim=64, dtype="fp16", batch_count=B, q_heads=H, kv_heads=G, patterns=kind,
        causal=True, causal_offsets=True, key_lengths=True,
    )
    arrays = [any_lib.put(x) for x in (q, k, v)]
    given = [any_lib.put(x) for x in (offsets, lengths)]
    out = any_lib.put(np.zeros_like(q))
    assert plan(*arrays, out, causal_offsets=given[0], key_lengths=given[1]) is out
    close(any_lib.get(out), expected, "fp16")
    listed = plan(*arrays, causal_offsets=[3, -2], key_lengths=[48, 21])
    close(any_lib.get(listed), expected, "fp16")


def test_views_with_gaps(rng, lib) -> None:
    q, k, v = tensors(rng, "fp16", (2, 3, 40, 64), (2, 3, 40, 64))
    mask = rng.random((40, 40)) < 0.5
    pattern = mc.patterns.from_mask(mask).cuda()
    # (batch, length, heads, head_dim) in memory, as a projection leaves them, with gaps.
    views = [
        spread(lib, np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2) for x in (q, k, v)
    ]
    close(lib.get(mc.attention(*views, pattern)), dense(q, k, v, mask), "fp16")


@pytest.mark.parametrize("dtype,bits", SCHEMES)
def test_integers(rng, any_lib, dtype: str, bits: int) -> None:
    mask = rng.random((2, 64, 64)) < 0.4
    mask[..., 0] = True
    q, k, v = (rng.standard_normal((1, 2, 64, 64)).astype(np.float32) for _ in range(3))
    pattern = mc.patterns.from_mask(mask)
    x = mc.quantize_attention(*map(any_lib.put, (q, k, v)), dtype)
    host = mc.quantize_attention(q, k, v, dtype)
    for name in ("q_scale", "k_scale", "v_scale"):
        ref.same_bits(any_lib.get(getattr(x, name)), getattr(host, name))
    for name in ("q", "k", "v"):
        found, right = getattr(x, name), getattr(host, name)
        if dtype == "int4":
            assert found.shape == right.shape
            found, right = found.packed, right.packed
        ref.same_bits(any_lib.get(found), right)
    got = mc.attention(
        x.q, x.k, x.v, pattern.cuda(), **x.scales, probability_bits=bits, out_dtype="fp32"
    )
    wanted = mc.attention(
        host.q, host.k, host.v, pattern, **host.scales, probability_bits=bits, out_dtype="fp32"
    )
    limit = {4: 0.1, 8: 0.01, 16: 1e-3}[bits]
    assert np.linalg.norm(any_lib.get(got) - wanted) <= limit * np.linalg.norm(wanted)
    exact = np.stack([real_attention(q[0, h], k[0, h], v[0, h], mask[h]) for h in range(2)])
    loss = {("int8", 16): 0.02, ("int8", 8): 0.025, ("int4", 8): 0.35, ("int4", 4): 0.4}
    assert np.linalg.norm(any_lib.get(got)[0] - exact) <= loss[dtype, bits] * np.linalg.norm(exact)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_one_scale_in_all(rng, any_lib, dtype: str) -> None:
    q, k, v = (ref.stored(ref.values(rng, dtype, (40, 64)), dtype) for _ in range(3))
    mask = ref.keep(rng, (40, 40), 8, 0.5)
    pattern = mc.patterns.from_mask(mask)
    scales = {"q_scale": 0.02, "k_scale": 0.03, "v_scale": 0.5}
    arrays = [to_gpu(any_lib, x) for x in (q, k, v)]
    got = mc.attention(*arrays, pattern.cuda(), **scales, out_dtype="fp32")
    wanted = mc.attention(q, k, v, pattern, **scales, out_dtype="fp32")
    assert np.linalg.norm(any_lib.get(got) - wanted) <= 0.02 * np.linalg.norm(wanted)
    there = {name: any_lib.put(np.array([x], np.float32)) for name, x in scales.items()}
    again = mc.attention(*arrays, pattern.cuda(), **there, out_dtype="fp32")
    ref.same_bits(any_lib.get(again), any_lib.get(got))


def test_errors_name_the_fix(rng) -> None:
    lib = Own()
    q, k, v = tensors(rng, "fp16", (40, 64), (40, 64))
    pattern = mc.patterns.from_mask(ref.keep(rng, (40, 40), 8, 0.5))
    there = pattern.cuda()
    Q, K, V = map(lib.put, (q, k, v))
    how: dict[str, Any] = {"head_dim": 64, "dtype": "fp16"}
    plan, host_plan = mc.AttentionPlan(there, **how), mc.AttentionPlan(pattern, **how)
    lengths = mc.AttentionPlan(there, key_lengths=True, **how)
    x = mc.quantize_attention(Q, K, V)
    runs: list[tuple[Any, str]] = [
        (lambda: mc.attention(Q, K, V, pattern), r"pattern lies in host.*pass pattern.cuda\(0\)"),
        (lambda: mc.attention(q, K, V, there), r"q lies in host memory.*to_cuda\(q, 0\)"),
        (lambda: mc.attention(Q, K, v, there), r"v lies in host memory.*to_cuda\(v, 0\)"),
        (lambda: plan(Q, k, V), "the plan was made on CUDA device 0, but k lies in host memory"),
        (lambda: plan(Q, K, V, np.zeros_like(q)), r"to_cuda\(out, 0\)"),
        (lambda: host_plan(Q, K, V), r"make the plan of pattern.cuda\(0\)"),
        (lambda: lengths(Q, K, V, key_lengths=np.array([3])), r"to_cuda\(key_lengths, 0\)"),
        (
            lambda: mc.attention(x.q, x.k, x.v, there, q_scale=np.ones(40, np.float32)),
            r"to_cuda\(q_scale, 0\)",
        ),
    ]
    for run, text in runs:
        with pytest.raises(mc.DeviceMismatchError, match=text):
            run()
    with pytest.raises(mc.InvalidValueError, match="key_lengths has items of int32.*int64"):
        lengths(Q, K, V, key_lengths=lib.put(np.array([3], np.int32)))
    with pytest.raises(mc.InvalidValueError, match="q has strides"):
        wide = lib.put(np.zeros((40, 128), np.float16))
        plan(wide._with((40, 64), (256, 4)), K, V)
    apart = lib.put(np.ones((40, 2), np.float32))._with((40,), (8,))
    with pytest.raises(mc.InvalidValueError, match="q_scale is not contiguous"):
        mc.attention(x.q, x.k, x.v, there, q_scale=apart)
