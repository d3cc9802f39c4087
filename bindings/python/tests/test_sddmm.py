# SPDX-License-Identifier: Apache-2.0
"""SDDMM against Python integers and fp64 at the places of a pattern."""

from __future__ import annotations

import itertools
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

INTEGERS = ["int16", "int8", "int4"]
TYPES = [*INTEGERS, *ref.FLOATS]


def dense_of(S: mc.SrBcrs) -> np.ndarray:
    dense = S.to_dense()
    return dense.unpack() if isinstance(dense, mc.Int4Array) else dense


def check(
    S: mc.SrBcrs, A: np.ndarray, B: np.ndarray, mask: np.ndarray, dtype: str, out: str
) -> None:
    """The values lie where the pattern has them, and nowhere else."""
    assert S.dtype == out and S.values is not None
    result = ref.decode(S)
    if dtype in ref.RANGES:
        expected = ref.epilogue(ref.exact_product(A, B), out)
        ref.same_bits(result, np.where(mask, expected, expected.dtype.type(0)))
    else:
        exact, bound = ref.float_bound(A, B, out)
        error = abs(result.astype(np.float64) - np.where(mask, exact, 0))
        assert (error <= np.where(mask, bound, 0)).all()
    marked = ref.encode(mask.astype(np.uint8), S.vector_length, S.stride, mask)["values"]
    items = ref.unpacked(S)
    assert (items[marked == 0].astype(np.float32) == 0).all(), "padding and absent elements are 0"


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_and_vector_length(rng, dtype: str, V: int) -> None:
    M, K, N = V + 5, 37, 41
    A, B = ref.values(rng, dtype, (M, K)), ref.values(rng, dtype, (K, N))
    out = "int32" if dtype in ref.RANGES else {"e4m3": "fp32"}.get(dtype, dtype)
    for mask in (ref.keep(rng, (M, N), V, 0.4), rng.random((M, N)) < 0.3):
        pattern = mc.SrBcrs.from_mask(mask, vector_length=V)
        S = mc.sddmm(pattern, ref.stored(A, dtype), ref.stored(B, dtype))
        assert S.stride == pattern.stride and S.shape == (M, N)
        check(S, A, B, mask, dtype, out)


@pytest.mark.parametrize("S", ref.STRIDES)
@pytest.mark.parametrize("V", [1, 8, 32])
def test_every_stride(rng, V: int, S: int) -> None:
    A, B = ref.values(rng, "int8", (V + 3, 20)), ref.values(rng, "int8", (20, 50))
    mask = ref.keep(rng, (V + 3, 50), V, 0.5)
    pattern = mc.SrBcrs.from_mask(mask, vector_length=V, stride=S)
    check(mc.sddmm(pattern, A, B), A, B, mask, "int8", "int32")


@pytest.mark.parametrize("out", ["int32", "fp32", "fp16", "bf16", "int16", "int8"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_scales_bit_by_bit(rng, dtype: str, out: str) -> None:
    M, K, N = 19, 33, 26
    A, B = ref.values(rng, dtype, (M, K)), ref.values(rng, dtype, (K, N))
    mask = ref.keep(rng, (M, N), 8, 0.6)
    pattern = mc.SrBcrs.from_mask(mask)
    sums = ref.exact_product(A, B)
    options: dict[str, Any] = {}
    if out != "int32":
        aim = {"int8": 90.0, "int16": 20000.0, "fp16": 300.0}.get(out, 1.0)
        size = float(abs(sums).astype(np.float64).mean())
        options = {
            "alpha": 1.2345,
            "a_scale": ((rng.random(M) + 0.1) * aim / size).astype(np.float32),
            "b_scale": (rng.random(N) + 0.1).astype(np.float32),
        }
    expected = dict(options)
    if out in ("int8", "int16"):
        options["out_scale"], expected["c_scale"] = 1.3, 1.3
    left, right = ref.stored(A, dtype), ref.stored(B, dtype)
    S = mc.sddmm(pattern, left, right, out_dtype=out, **options)
    dense = ref.epilogue(sums, out, **expected)
    ref.same_bits(ref.decode(S), np.where(mask, dense, dense.dtype.type(0)))
    if out == "int32":
        for extra in ({"alpha": 2.0}, {"a_scale": 1.0}):
            with pytest.raises(mc.NotSupportedError, match="int32"):
                mc.sddmm(pattern, left, right, out_dtype=out, **extra)


def test_default_output_types(rng) -> None:
    pattern = mc.SrBcrs.from_mask(np.ones((8, 8), bool))
    x = ref.values(rng, "int8", (8, 8))
    assert mc.sddmm(pattern, x, x).dtype == "int32"
    assert mc.sddmm(pattern, x, x, a_scale=0.5).dtype == "fp32"
    assert mc.sddmm(pattern, x, x, alpha=0.5).dtype == "fp32"
    assert mc.sddmm(pattern, x, x, out_scale=100.0).dtype == "int8"


@pytest.mark.parametrize(("a", "b"), list(itertools.product("CF", repeat=2)))
@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("dtype", ["int8", "int4", "fp16"])
def test_orders_and_leading_dimensions(rng, dtype: str, pad: int, a: str, b: str) -> None:
    M, K, N = 21, 18, 30
    A, B = ref.values(rng, dtype, (M, K)), ref.values(rng, dtype, (K, N))
    mask = ref.keep(rng, (M, N), 4, 0.5)
    pattern = mc.SrBcrs.from_mask(mask, vector_length=4)
    S = mc.sddmm(pattern, ref.stored(A, dtype, a, pad), ref.stored(B, dtype, b, pad))
    check(S, A, B, mask, dtype, "int32" if dtype in ref.RANGES else dtype)


@pytest.mark.parametrize("kind", ["one pattern", "patterns", "shared A"])
def test_batches(rng, kind: str) -> None:
    count, M, K, N = 3, 13, 17, 22
    A, B = ref.values(rng, "int8", (count, M, K)), ref.values(rng, "int8", (count, K, N))
    masks = ref.keep(rng, (count, M, N), 4, 0.5)
    if kind != "patterns":
        masks = np.broadcast_to(masks[0], masks.shape)
    if kind == "shared A":
        A = np.broadcast_to(A[0], A.shape)
    scale = (rng.random((count, M)) + 0.5).astype(np.float32)
    pattern = mc.SrBcrs.from_mask(masks if kind == "patterns" else masks[0], vector_length=4)
    S = mc.sddmm(
        pattern, A[0] if kind == "shared A" else np.ascontiguousarray(A), B, a_scale=scale
    )
    assert S.shape == (count, M, N) and S.nnz == masks.sum()
    dense = S.to_dense()
    for item in range(count):
        sums = ref.exact_product(A[item], B[item])
        expected = ref.epilogue(sums, "fp32", a_scale=scale[item])
        ref.same_bits(dense[item], np.where(masks[item], expected, ref.F32(0)))


def test_plan(rng) -> None:
    M, N, V = 20, 30, 8
    mask = rng.random((M, N)) < 0.4
    pattern = mc.SrBcrs.from_mask(mask, vector_length=V)
    plan = mc.SDDMMPlan(pattern, dtype="int8", k=(1, 40), lhs_order="F", a_scale="row")
    scale = (rng.random(M) + 0.5).astype(np.float32)
    for K in (1, 7, 40):
        A, B = ref.values(rng, "int8", (M, K)), ref.values(rng, "int8", (K, N))
        expected = ref.epilogue(ref.exact_product(A, B), "fp32", a_scale=scale)
        expected = np.where(mask, expected, ref.F32(0))
        S = plan(np.asfortranarray(A), B, a_scale=scale)
        ref.same_bits(ref.decode(S), expected)
        out = ref.poison((pattern.slots * V,), np.float32)
        S = plan(np.asfortranarray(A), B, out, a_scale=scale)
        assert S.values is out
        ref.same_bits(ref.decode(S), expected)
        assert np.isfinite(out).all()
    assert plan.info.implementation in mc.sddmm_implementations()
    for call, text in [
        (lambda: plan(A, B, a_scale=scale), "column-major.*asfortranarray"),
        (lambda: plan(np.asfortranarray(A), B), "a_scale is None"),
        (lambda: plan(np.asfortranarray(A), B, out[1:], a_scale=scale), "out has shape"),
        (lambda: plan(np.asfortranarray(A), B, out.astype("f8"), a_scale=scale), "out has shape"),
        (lambda: plan(np.asfortranarray(A[:, :3]), B, a_scale=scale), "A|B"),
    ]:
        with pytest.raises(mc.InvalidValueError, match=text):
            call()
    batched = mc.SDDMMPlan(pattern, dtype="int8", k=7, batch_count=2)
    A, B = ref.values(rng, "int8", (2, M, 7)), ref.values(rng, "int8", (2, 7, N))
    S = batched(A, B)
    assert S.shape == (2, M, N)
    for item in range(2):
        expected = ref.epilogue(ref.exact_product(A[item], B[item]), "int32")
        ref.same_bits(S.to_dense()[item], np.where(mask, expected, np.int32(0)))
    with pytest.raises(mc.InvalidValueError, match="batch of 3"):
        batched(np.zeros((3, M, 7), np.int8), np.zeros((3, 7, N), np.int8))


@pytest.mark.parametrize(("M", "K", "N"), list(itertools.product([0, 5], [0, 7], [0, 3])))
def test_issue_06_zero_dimensions(rng, M: int, K: int, N: int) -> None:
    A, B = ref.values(rng, "int8", (M, K)), ref.values(rng, "int8", (K, N))
    mask = np.ones((M, N), bool)
    S = mc.sddmm(mc.SrBcrs.from_mask(mask), A, B)
    assert S.shape == (M, N)
    check(S, A, B, mask, "int8", "int32")


def test_issue_20_every_tail(rng) -> None:
    for M, K, N in [
        *((m, 9, 21) for m in range(1, 20)),
        *((9, k, 21) for k in (*range(1, 35), 63, 64, 65)),
        *((9, 5, n) for n in range(1, 70)),
    ]:
        A, B = ref.values(rng, "int4", (M, K)), ref.values(rng, "int4", (K, N))
        mask = ref.keep(rng, (M, N), 8, 0.9)
        S = mc.sddmm(mc.SrBcrs.from_mask(mask), ref.stored(A, "int4"), ref.stored(B, "int4"))
        check(S, A, B, mask, "int4", "int32")


@settings(max_examples=200)
@given(
    dtype=st.sampled_from(TYPES),
    sizes=st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)),
    V=st.sampled_from(ref.VECTOR_LENGTHS),
    S=st.sampled_from([None, *ref.STRIDES]),
    orders=st.tuples(st.sampled_from("CF"), st.sampled_from("CF")),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_property(dtype, sizes, V, S, orders, pads, density, seed) -> None:
    rng = np.random.default_rng(seed)
    M, K, N = sizes
    A, B = ref.values(rng, dtype, (M, K)), ref.values(rng, dtype, (K, N))
    mask = rng.random((M, N)) < density
    pattern = mc.SrBcrs.from_mask(mask, vector_length=V, stride=S)
    out = "int32" if dtype in ref.RANGES else "fp32"
    result = mc.sddmm(
        pattern, ref.stored(A, dtype, orders[0], pads[0]), ref.stored(B, dtype, orders[1], pads[1]),
        out_dtype=out,
    )
    check(result, A, B, mask, dtype, out)
