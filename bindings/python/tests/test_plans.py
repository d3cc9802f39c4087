# SPDX-License-Identifier: Apache-2.0
"""Plans: ranges, value modes, declared arrays, lifetime."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref


@pytest.fixture
def weight(rng: np.random.Generator) -> np.ndarray:
    W = ref.values(rng, "int8", (37, 50))
    return np.where(ref.keep(rng, (37, 50), 8, 0.5), W, 0).astype(np.int8)


def right(rng: np.random.Generator, n: int) -> np.ndarray:
    return ref.values(rng, "int8", (50, n))


def test_one_plan_serves_a_range_of_n(rng, weight) -> None:
    plan = mc.SpMMPlan(mc.SrBcrs.from_dense(weight), rhs_dtype="int8", n=(1, 70))
    for n in (1, 2, 7, 8, 33, 64, 70):
        B = right(rng, n)
        ref.same_bits(plan(B), ref.epilogue(ref.exact_product(weight, B), "int32"))
    with pytest.raises(mc.InvalidValueError, match="71"):
        plan(right(rng, 71))
    exact = mc.SpMMPlan(mc.SrBcrs.from_dense(weight), rhs_dtype="int8", n=8)
    with pytest.raises(mc.InvalidValueError):
        exact(right(rng, 7))


def test_plan_with_everything(rng, weight) -> None:
    n = 9
    plan = mc.SpMMPlan(
        mc.SrBcrs.from_dense(weight), rhs_dtype="int8", out_dtype="int8", n=(1, n), rhs_order="F",
        out_order="F", a_scale="row", b_scale="col", bias=True, c_scale=True, activation="relu",
    )
    B = right(rng, n)
    options: dict[str, Any] = {
        "a_scale": (rng.random(37) + 0.1).astype(np.float32),
        "b_scale": ((rng.random(n) + 0.1) * 1e-3).astype(np.float32),
        "bias": rng.standard_normal(37).astype(np.float32),
        "c_scale": 0.1,
    }
    C = np.asfortranarray(ref.values(rng, "int8", (37, n)))
    expected = ref.epilogue(
        ref.exact_product(weight, B), "int8", alpha=1.25, beta=0.5, C=C.copy(), activation="relu",
        **options,
    )
    result = plan(np.asfortranarray(B), C, 1.25, 0.5, **options)
    assert result is C
    ref.same_bits(C, expected)
    fresh = plan(np.asfortranarray(B), **options)
    assert fresh.flags.f_contiguous


def test_declared_arrays_are_checked(rng, weight) -> None:
    A, B = mc.SrBcrs.from_dense(weight), right(rng, 4)
    plan = mc.SpMMPlan(A, rhs_dtype="int8", n=4, a_scale="row", bias=True)
    scale, bias = np.ones(37, np.float32), np.zeros(37, np.float32)
    plan(B, a_scale=scale, bias=bias)
    for options, text in [
        ({"a_scale": scale}, "bias is None"),
        ({"bias": bias}, "a_scale is None"),
        ({"a_scale": 1.0, "bias": bias}, "a_scale has shape"),
        ({"a_scale": scale[:5], "bias": bias}, "a_scale has shape"),
        ({"a_scale": scale, "bias": bias, "b_scale": 1.0}, "b_scale is given"),
        ({"a_scale": scale, "bias": bias, "values": A.values}, "value_mode"),
        ({"a_scale": scale, "bias": bias, "beta": 1.0}, "beta is 1.0"),
    ]:
        with pytest.raises(mc.InvalidValueError, match=text):
            plan(B, **options)
    with pytest.raises(mc.InvalidValueError, match="row-major.*ascontiguousarray"):
        plan(np.asfortranarray(B), a_scale=scale, bias=bias)
    with pytest.raises(mc.InvalidValueError, match="int16, not int8"):
        plan(B.astype(np.int16), a_scale=scale, bias=bias)


def test_fixed_values_outlive_the_arrays(rng, weight) -> None:
    A = mc.SrBcrs.from_dense(weight)
    assert A.values is not None
    plan = mc.SpMMPlan(A, rhs_dtype="int8", n=5)
    B = right(rng, 5)
    A.values[:] = 0x55
    dead = weakref.ref(A.values)
    values, A = A.values, None
    del values
    gc.collect()
    assert dead() is None, "a packed plan keeps no values"
    ref.same_bits(plan(B), ref.epilogue(ref.exact_product(weight, B), "int32"))
    with pytest.raises(mc.NotSupportedError, match="UPDATABLE|updatable"):
        plan.update_values(mc.SrBcrs.from_dense(weight))


def test_updatable_values(rng, weight) -> None:
    A, B = mc.SrBcrs.from_dense(weight), right(rng, 5)
    plan = mc.SpMMPlan(A, rhs_dtype="int8", n=5, value_mode="updatable")
    ref.same_bits(plan(B), ref.epilogue(ref.exact_product(weight, B), "int32"))
    new = ref.values(rng, "int8", A.values.shape)
    plan.update_values(new)
    dense = ref.decode(A.with_values(new))
    ref.same_bits(plan(B), ref.epilogue(ref.exact_product(dense, B), "int32"))
    with pytest.raises(mc.InvalidValueError, match="values has shape"):
        plan.update_values(new[:-1])


@pytest.mark.parametrize("lhs", ["int8", "int4"])
def test_values_per_call(rng, lhs: str) -> None:
    pattern = mc.SrBcrs.from_mask(ref.keep(rng, (37, 50), 8, 0.5), dtype=lhs)
    plan = mc.SpMMPlan(pattern, lhs_dtype=lhs, rhs_dtype=lhs, n=5, value_mode="per_call")
    B = ref.values(rng, lhs, (50, 5))
    for _ in range(3):
        count = pattern.slots * pattern.vector_length
        raw = rng.integers(0, 256, count // (2 if lhs == "int4" else 1)).astype(np.uint8)
        values = raw if lhs == "int4" else raw.view(np.int8)
        A = pattern.with_values(values, lhs)
        expected = ref.epilogue(ref.exact_product(ref.decode(A), B), "int32")
        ref.same_bits(plan(ref.stored(B, lhs), values=values), expected)
        ref.same_bits(plan(ref.stored(B, lhs), values=A), expected)
    with pytest.raises(mc.InvalidValueError, match="values is None"):
        plan(ref.stored(B, lhs))


def test_batched_plan(rng, weight) -> None:
    plan = mc.SpMMPlan(
        mc.SrBcrs.from_dense(weight), rhs_dtype="int8", n=6, batch_count=3, a_scale="tensor",
        bias=True, batched=("bias", "a_scale"),
    )
    B = ref.values(rng, "int8", (3, 50, 6))
    scale = (rng.random((3, 1)) + 0.5).astype(np.float32)
    bias = rng.standard_normal((3, 37)).astype(np.float32)
    C = plan(B, a_scale=scale, bias=bias)
    assert C.shape == (3, 37, 6)
    for item in range(3):
        sums = ref.exact_product(weight, B[item])
        expected = ref.epilogue(sums, "fp32", a_scale=scale[item, 0], bias=bias[item])
        ref.same_bits(C[item], expected)
    ref.same_bits(plan(B[0], a_scale=scale, bias=bias)[0], C[0])
    with pytest.raises(mc.InvalidValueError, match="batch of 3"):
        plan(B[:2], a_scale=scale, bias=bias)
    with pytest.raises(mc.InvalidValueError, match="shape"):
        plan(B, a_scale=scale, bias=bias[0])


def test_info_and_close(rng, weight) -> None:
    plan = mc.SpMMPlan(mc.SrBcrs.from_dense(weight), rhs_dtype="int8", n=5)
    info = plan.info
    assert info.implementation in mc.spmm_implementations()
    assert any(info.implementation in line for line in info.reasons)
    assert info.plan_bytes >= 0 and info.workspace_bytes >= 0
    assert repr(plan) == f"SpMMPlan(shape=(37, 50), implementation={info.implementation!r})"
    with plan:
        plan(right(rng, 5))
    plan.close()
    assert repr(plan) == "SpMMPlan(closed)"
    with pytest.raises(mc.InvalidValueError, match="closed"):
        plan(right(rng, 5))
    with pytest.raises(mc.InvalidValueError, match="closed"):
        plan.info


def test_plan_outlives_its_handle(rng, weight) -> None:
    B = right(rng, 5)
    with mc.Handle("cpu") as handle:
        plan = mc.SpMMPlan(mc.SrBcrs.from_dense(weight), rhs_dtype="int8", n=5, handle=handle)
    del handle
    gc.collect()
    ref.same_bits(plan(B), ref.epilogue(ref.exact_product(weight, B), "int32"))


def test_nothing_leaks(weight) -> None:
    """Making, running and failing a thousand times leaves the process as large as it was."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    big = np.tile(weight, (8, 8))
    A, B = mc.SrBcrs.from_dense(big), np.ones((400, 64), np.int8)

    def once() -> None:
        plan = mc.SpMMPlan(A, rhs_dtype="int8", n=64)
        plan(B)
        mc.SrBcrs.from_dense(big).to_dense()
        with pytest.raises(mc.MagicubeError):
            plan(B[:5])

    for _ in range(30):
        once()
    before = resident()
    for _ in range(300):
        once()
    assert resident() - before < 16 << 20
