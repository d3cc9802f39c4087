# SPDX-License-Identifier: Apache-2.0
"""SpMM against Python integers, fp64 and the documented epilogue."""

from __future__ import annotations

import itertools
import mmap
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

PAIRS = ref.INTEGER_PAIRS + [(name, name) for name in ref.FLOATS]


def problem(
    rng: np.random.Generator, lhs: str, rhs: str, M: int, K: int, N: int, V: int, density: float
) -> tuple[np.ndarray, np.ndarray]:
    W = ref.values(rng, lhs, (M, K))
    W = np.where(ref.keep(rng, (M, K), V, density), W, W.dtype.type(0))
    return W, ref.values(rng, rhs, (K, N))


def check_plain(
    W: np.ndarray, B: np.ndarray, lhs: str, C: np.ndarray, out: str
) -> None:
    """C = W @ B without any scale."""
    if lhs in ref.RANGES:
        ref.same_bits(C, ref.epilogue(ref.exact_product(W, B), out))
        return
    exact, bound = ref.float_bound(W, B, out)
    assert C.dtype == ref.STORAGE[out]
    assert (abs(C.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize(("lhs", "rhs"), PAIRS)
def test_every_pair_and_vector_length(rng, lhs: str, rhs: str, V: int) -> None:
    W, B = problem(rng, lhs, rhs, 2 * V + 3, 53, 19, V, 0.4)
    A = ref.sparse(W, lhs, V)
    C = mc.spmm(A, ref.stored(B, rhs), rhs_dtype=None if rhs == "int4" else rhs)
    check_plain(W, B, lhs, C, "int32" if lhs in ref.RANGES else {"e4m3": "fp32"}.get(lhs, lhs))


@pytest.mark.parametrize("S", ref.STRIDES)
@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("lhs", ["int8", "int16", "int4", "fp32"])
def test_every_stride(rng, lhs: str, V: int, S: int) -> None:
    if lhs == "int4" and S < 8 and V == 1:
        pytest.skip("int4 wants S >= 8 or V even")
    W, B = problem(rng, lhs, lhs, V + 5, 67, 9, V, 0.5)
    C = ref.sparse(W, lhs, V, S) @ ref.stored(B, lhs)
    check_plain(W, B, lhs, C, "int32" if lhs in ref.RANGES else lhs)


@pytest.mark.parametrize("out", ["int32", "fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize(("lhs", "rhs"), ref.INTEGER_PAIRS)
def test_epilogue_bit_by_bit(rng, lhs: str, rhs: str, activation: str | None, out: str) -> None:
    M, K, N, V = 21, 45, 14, 8
    W, B = problem(rng, lhs, rhs, M, K, N, V, 0.6)
    A = ref.sparse(W, lhs, V)
    sums = ref.exact_product(W, B)
    if out == "int32":
        if activation:
            with pytest.raises(mc.NotSupportedError, match="int32"):
                mc.spmm(A, ref.stored(B, rhs), out_dtype=out, activation=activation)
            return
        C = rng.integers(-(2**31), 2**31, (M, N)).astype(np.int32)
        expected = ref.epilogue(sums, out, beta=1, C=C)
        ref.same_bits(mc.spmm(A, ref.stored(B, rhs), out=C, beta=1.0), expected)
        return
    size = float(np.abs(sums).astype(np.float64).mean() + 1)
    aim = {"int8": 90.0, "fp16": 300.0}.get(out, 1.0)
    options: dict[str, Any] = {
        "alpha": 0.7182818,
        "beta": -1.6180339,
        "a_scale": (rng.random(M, np.float32) + 0.1).astype(np.float32),
        "b_scale": ((rng.random(N, np.float32) + 0.1) * (aim / size)).astype(np.float32),
        "bias": rng.standard_normal(M, np.float32),
        "activation": activation,
        "c_scale": 1.37 if out == "int8" else None,
    }
    C = ref.round_to(rng.standard_normal((M, N)).astype(np.float32) * ref.F32(aim), out)
    expected = ref.epilogue(sums, out, C=C, **options)
    ref.same_bits(mc.spmm(A, ref.stored(B, rhs), out=C, **options), expected)
    assert len(np.unique(expected.astype(np.float32))) > 20


@pytest.mark.parametrize("parts", list(itertools.product([False, True], repeat=5)))
def test_epilogue_parts_alone_and_together(rng, parts: tuple[bool, ...]) -> None:
    """Each subset of alpha, beta, both scales and bias; tensor and row granularity."""
    alpha, beta, a_scale, b_scale, bias = parts
    M, K, N = 13, 40, 6
    W, B = problem(rng, "int8", "int8", M, K, N, 4, 0.7)
    options: dict[str, Any] = {}
    if alpha:
        options["alpha"] = -0.3333333
    if beta:
        options["beta"] = 0.1
    if a_scale:
        options["a_scale"] = 0.0123
    if b_scale:
        options["b_scale"] = (rng.random(N) + 0.5).astype(np.float32)
    if bias:
        options["bias"] = (rng.standard_normal(M) * 1000).astype(np.float32)
    C = (rng.standard_normal((M, N)) * 1000).astype(np.float32) if beta else None
    expected = ref.epilogue(ref.exact_product(W, B), "fp32", C=C, **options)
    A = ref.sparse(W, "int8", 4)
    ref.same_bits(mc.spmm(A, B, out=C, out_dtype="fp32", **options), expected)


@pytest.mark.parametrize("lhs", ["int8", "fp32"])
def test_gelu(rng, lhs: str) -> None:
    W, B = problem(rng, lhs, lhs, 24, 31, 17, 8, 0.6)
    scale = 1e-4 if lhs == "int8" else 0.5
    y = W.astype(np.float64) @ B.astype(np.float64) * scale
    C = mc.spmm(ref.sparse(W, lhs, 8), B, alpha=scale, activation="gelu", out_dtype="fp32")
    assert (abs(C - ref.gelu(y)) <= 2e-6 * (1 + abs(y))).all()


@pytest.mark.parametrize("out", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("lhs", ref.FLOATS)
def test_floating_epilogue(rng, lhs: str, out: str) -> None:
    M, K, N = 19, 61, 11
    W, B = problem(rng, lhs, lhs, M, K, N, 8, 0.5)
    scales = (rng.random(M) + 0.5).astype(np.float32)
    bias = rng.standard_normal(M).astype(np.float32)
    C = ref.round_to(rng.standard_normal((M, N)).astype(np.float32) * 20, out)
    before = C.astype(np.float64)
    exact, bound = ref.float_bound(W, B, "fp32")
    y = 0.25 * scales[:, None] * exact + bias[:, None] + 0.5 * before
    bound = 0.25 * scales[:, None] * bound + 2.0**-20 * (abs(y) + abs(before) + 3)
    options: dict[str, Any] = {"c_scale": 0.5} if out == "int8" else {}
    mc.spmm(
        ref.sparse(W, lhs, 8), B, out=C, alpha=0.25, beta=0.5, a_scale=scales, bias=bias, **options
    )
    if out == "int8":
        y, bound = np.clip(y * 2, -128, 127), bound * 2 + 0.5
    else:
        bound = bound + ref.EPS[out] * 1.01 * (abs(y) + bound)
    assert (abs(C.astype(np.float64) - y) <= bound).all()


@pytest.mark.parametrize("b_order", ["C", "F"])
@pytest.mark.parametrize("c_order", ["C", "F"])
@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize(("lhs", "rhs"), [("int8", "int8"), ("int16", "int4"), ("fp16", "fp16")])
def test_orders_and_leading_dimensions(
    rng, lhs: str, rhs: str, pad: int, b_order: str, c_order: str
) -> None:
    M, K, N = 21, 37, 15
    W, B = problem(rng, lhs, rhs, M, K, N, 8, 0.5)
    out = "int32" if lhs in ref.RANGES else lhs
    C = ref.stored(ref.poison((M, N), ref.STORAGE[out]), out, c_order, pad)
    outside = C.base.copy() if pad else None
    result = mc.spmm(ref.sparse(W, lhs, 8), ref.stored(B, rhs, b_order, pad), out=C)
    assert result is C
    check_plain(W, B, lhs, C, out)
    if outside is not None:
        assert C.base[:, -pad:].tobytes() == outside[:, -pad:].tobytes()
    if not pad:
        fresh = mc.spmm(ref.sparse(W, lhs, 8), ref.stored(B, rhs, b_order), out_order=c_order)
        assert fresh.flags.c_contiguous == (c_order == "C")
        check_plain(W, B, lhs, fresh, out)


@pytest.mark.parametrize("V", [1, 4, 16, 64])
@pytest.mark.parametrize(("lhs", "rhs"), [("int16", "int16"), ("int8", "int4"), ("int4", "int4")])
def test_issue_20_every_tail(rng, lhs: str, rhs: str, V: int) -> None:
    """Every remainder of M, N and K; odd and even chunk counts; outputs poisoned."""
    for M, K, N in [
        *((m, 33, 7) for m in range(1, 2 * V + 2, max(1, V // 4))),
        *((V + 1, k, 5) for k in (*range(1, 19), 31, 32, 33, 63, 64, 65, 96, 97, 128, 129)),
        *((V + 1, 17, n) for n in (*range(1, 19), 31, 33, 63, 64, 65)),
    ]:
        W, B = problem(rng, lhs, rhs, M, K, N, V, 0.95)
        C = ref.poison((M, N), np.int32)
        mc.spmm(ref.sparse(W, lhs, V), ref.stored(B, rhs), out=C)
        ref.same_bits(C, ref.epilogue(ref.exact_product(W, B), "int32"))


def test_issue_20_extreme_data() -> None:
    """The ends of every range in a sum so long that 32 bits overflow, in int32 and fp32."""
    K, N, M = 4099, 3, 9
    for lhs, rhs in ref.INTEGER_PAIRS:
        for a, b in itertools.product(ref.RANGES[lhs], ref.RANGES[rhs]):
            W = np.full((M, K), a, ref.STORAGE[lhs])
            B = np.full((K, N), b, ref.STORAGE[rhs])
            mask = np.ones((M, K), bool)
            A = ref.sparse(W, lhs, 8, mask=mask)
            sums = np.full((M, N), a * b * K, object)
            ref.same_bits(mc.spmm(A, ref.stored(B, rhs)), ref.epilogue(sums, "int32"))
            ref.same_bits(
                mc.spmm(A, ref.stored(B, rhs), out_dtype="fp32"), ref.epilogue(sums, "fp32")
            )


def test_issue_05_sums_beyond_32_bits() -> None:
    """int16 products of 70,000 terms reach 7e13: exact before the one rounding to fp32."""
    K = 70_001
    W = np.full((8, K), -32768, np.int16)
    B = np.full((K, 1), -32767, np.int16)
    total = 32768 * 32767 * K
    A = mc.SrBcrs.from_dense(W)
    assert mc.spmm(A, B, out_dtype="fp32")[0, 0] == ref.F32(total)
    assert int(mc.spmm(A, B)[0, 0]) == (total + 2**31) % 2**32 - 2**31


@pytest.fixture
def wide_memory():
    """Twelve GiB of zeros of which only what is touched exists."""
    no_reserve = 0x4000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    try:
        mapped = mmap.mmap(-1, 12 << 30, flags=flags)
    except OSError as error:
        pytest.skip(f"no address space: {error}")
    return np.frombuffer(mapped, np.int8)


def test_issue_05_strides_are_64_bit(rng, wide_memory) -> None:
    """Leading dimensions and batch strides beyond 2^31 elements reach the right addresses."""
    ld = 2**31 + 3
    W, B = problem(rng, "int8", "int8", 10, 2, 4, 2, 1.0)
    A = ref.sparse(W, "int8", 2)
    far = np.lib.stride_tricks.as_strided(wide_memory, (2, 4), (ld, 1))
    far[:] = B
    check_plain(W, B, "int8", A @ far, "int32")
    C = np.lib.stride_tricks.as_strided(wide_memory[ld + 64 :], (10, 2), (1, ld))
    mc.spmm(A, B[:, :2], out=C, c_scale=100.0)
    ref.same_bits(
        np.array(C), ref.epilogue(ref.exact_product(W, B[:, :2]), "int8", c_scale=100.0)
    )
    batch = np.lib.stride_tricks.as_strided(wide_memory, (3, 2, 4), (ld, 4, 1))
    batch[:] = right = ref.values(rng, "int8", (3, 2, 4))
    for item, product in enumerate(A @ batch):
        check_plain(W, right[item], "int8", product, "int32")


@pytest.mark.parametrize("shape", [(2**31, 0), (0, 2**31)])
def test_issue_05_sizes_past_the_limit_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(mc.InvalidValueError, match="at most 2147483647"):
        mc.SrBcrs.from_dense(np.empty(shape, np.int8))
    largest = (min(shape[0], 2**31 - 1), min(shape[1], 2**31 - 1))
    A = mc.SrBcrs.from_dense(np.empty(largest, np.int8), vector_length=64)
    assert A.shape == largest and A.nnz == 0


@pytest.mark.parametrize(("M", "K", "N"), list(itertools.product([0, 5], [0, 7], [0, 3])))
@pytest.mark.parametrize("lhs", ["int8", "int4", "fp32"])
def test_issue_06_zero_dimensions(rng, lhs: str, M: int, K: int, N: int) -> None:
    W, B = ref.values(rng, lhs, (M, K)), ref.values(rng, lhs, (K, N))
    A = ref.sparse(W, lhs, 8)
    bias = rng.standard_normal(M).astype(np.float32)
    C = mc.spmm(A, ref.stored(B, lhs), bias=bias, out_dtype="fp32", activation="relu")
    assert C.shape == (M, N) and C.dtype == np.float32
    if K == 0:
        np.testing.assert_array_equal(C, np.broadcast_to(np.maximum(bias, 0)[:, None], (M, N)))
    assert (A @ ref.stored(B, lhs)).shape == (M, N)


def test_issue_06_empty_block_rows(rng) -> None:
    W = ref.values(rng, "int8", (64, 40))
    W[0:8] = W[16:40] = W[56:64] = 0
    A = ref.sparse(W, "int8", 8)
    assert ((A.row_end - A.row_begin) == 0).sum() == 5
    B = ref.values(rng, "int8", (40, 10))
    ref.same_bits(
        mc.spmm(A, B, out=ref.poison((64, 10), np.int32)),
        ref.epilogue(ref.exact_product(W, B), "int32"),
    )
    nothing = ref.sparse(np.zeros_like(W), "int8", 8)
    assert nothing.slots == 0 and nothing.nnz == 0
    assert (nothing @ B == 0).all()
    C = np.full((64, 10), 2.5, np.float32)
    mc.spmm(nothing, B, out=C, beta=2.0)
    assert (C == 5).all()


def test_beta_zero_does_not_read_c(rng) -> None:
    W, B = problem(rng, "int8", "int8", 10, 20, 6, 2, 0.5)
    C = np.full((10, 6), np.nan, np.float32)
    mc.spmm(ref.sparse(W, "int8", 2), B, out=C, beta=0.0)
    ref.same_bits(C, ref.epilogue(ref.exact_product(W, B), "fp32"))


def test_padding_never_contributes(rng) -> None:
    """NaN and infinity in a row of B that no vector names stay out, for V >= 8."""
    W = np.zeros((16, 9), np.float32)
    W[:8, 2], W[8:, 5] = 1, 2
    B = np.ones((9, 4), np.float32)
    B[[0, 3, 6, 8]], B[[1, 7]], B[4] = np.nan, np.inf, -np.inf
    C = mc.SrBcrs.from_dense(W, vector_length=8) @ B
    assert (C[:8] == 1).all() and (C[8:] == 2).all()


@pytest.mark.parametrize("lhs", ["int8", "int4", "fp16"])
@pytest.mark.parametrize("shared", ["A", "B", "none"])
def test_issue_19_strided_batch_and_patterns_batch(rng, lhs: str, shared: str) -> None:
    count, M, K, N, V = 3, 21, 34, 10, 4
    W = ref.values(rng, lhs, (count, M, K))
    W = np.where(ref.keep(rng, (count, M, K), V, 0.5), W, W.dtype.type(0))
    B = ref.values(rng, lhs, (count, K, N))
    if shared == "A":
        W = np.broadcast_to(W[0], W.shape)
    if shared == "B":
        B = np.broadcast_to(B[0], B.shape)
    A = ref.sparse(W[0] if shared == "A" else W, lhs, V)
    right = ref.stored(B[0] if shared == "B" else B, lhs, pad=2)
    C = mc.spmm(A, right)
    assert C.shape == (count, M, N)
    for item in range(count):
        check_plain(W[item], B[item], lhs, C[item], "int32" if lhs in ref.RANGES else lhs)


def test_batch_with_one_pattern_and_own_epilogues(rng) -> None:
    count, M, K, N = 3, 18, 30, 7
    mask = ref.keep(rng, (M, K), 8, 0.5)
    W = np.where(mask, ref.values(rng, "int8", (count, M, K)), 0).astype(np.int8)
    pattern = mc.SrBcrs.from_mask(mask, dtype="int8")
    layout = [ref.encode(w, 8, pattern.stride, mask)["values"] for w in W]
    A = pattern.with_values(np.stack(layout))
    assert A.shape == (count, M, K) and A.batch_count == count
    B = ref.values(rng, "int8", (count, K, N))
    options = {
        "a_scale": (rng.random((count, M)) + 0.5).astype(np.float32),
        "b_scale": (rng.random((count, 1)) + 0.5).astype(np.float32),
        "bias": rng.standard_normal((count, M)).astype(np.float32),
    }
    C = rng.standard_normal((count, M, N)).astype(np.float32)
    before = C.copy()
    mc.spmm(A, B, out=C, beta=1.5, **options)
    for item in range(count):
        own = {name: array[item] for name, array in options.items()}
        sums = ref.exact_product(W[item], B[item])
        expected = ref.epilogue(sums, "fp32", beta=1.5, C=before[item], **own)
        ref.same_bits(C[item], expected)


def test_every_implementation_agrees(rng) -> None:
    W, B = problem(rng, "int8", "int8", 40, 70, 20, 8, 0.5)
    A = ref.sparse(W, "int8", 8)
    names = mc.spmm_implementations()
    assert names and names[-1] == "reference"
    for name in names:
        supported, reason = mc.SpMMPlan.is_supported(A, rhs_dtype="int8", n=20, implementation=name)
        if not supported:
            assert reason
            continue
        check_plain(W, B, "int8", mc.spmm(A, B, implementation=name), "int32")


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    lhs, rhs = draw(st.sampled_from(PAIRS))
    V = draw(st.sampled_from(ref.VECTOR_LENGTHS))
    strides = [S for S in ref.STRIDES if lhs != "int4" or S >= 8 or V % 2 == 0]
    return {
        "lhs": lhs,
        "rhs": rhs,
        "V": V,
        "S": draw(st.sampled_from([None, *strides])),
        "M": draw(st.integers(0, 70)),
        "K": draw(st.integers(0, 70)),
        "N": draw(st.integers(0, 24)),
        "density": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        "b_order": draw(st.sampled_from("CF")),
        "c_order": draw(st.sampled_from("CF")),
        "b_pad": draw(st.integers(0, 3)),
        "c_pad": draw(st.integers(0, 3)),
        "index": draw(st.sampled_from(["int32", "int64"])),
        "threads": draw(st.sampled_from([0, 1, 2])),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@settings(max_examples=400)
@given(case=cases())
def test_property(case: dict[str, Any]) -> None:
    rng = np.random.default_rng(case["seed"])
    lhs, rhs = case["lhs"], case["rhs"]
    W, B = problem(rng, lhs, rhs, case["M"], case["K"], case["N"], case["V"], case["density"])
    A = ref.sparse(W, lhs, case["V"], case["S"], index_dtype=case["index"])
    out = "int32" if lhs in ref.RANGES else "fp32"
    empty = ref.poison((case["M"], case["N"]), ref.STORAGE[out])
    C = ref.stored(empty, out, case["c_order"], case["c_pad"])
    with mc.Handle("cpu", num_threads=case["threads"]) as handle:
        mc.spmm(A, ref.stored(B, rhs, case["b_order"], case["b_pad"]), out=C, handle=handle)
    check_plain(W, B, lhs, C, out)
