# SPDX-License-Identifier: Apache-2.0
"""SDDMM of CUDA arrays: right at the places of the pattern, in the caller's library."""

from __future__ import annotations

from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import CuPy, Own, Torch, made_by, needs_gpu, spread, to_gpu
from test_sddmm import TYPES, check

pytestmark = needs_gpu


def operands(rng: np.random.Generator, dtype: str, K: int = 37) -> tuple[np.ndarray, np.ndarray]:
    return ref.values(rng, dtype, (45, K)), ref.values(rng, dtype, (K, 50))


@pytest.mark.parametrize("dtype", TYPES)
def test_types_and_masks(rng, any_lib, dtype: str) -> None:
    A, B = operands(rng, dtype)
    out = "int32" if dtype in ref.RANGES else {"e4m3": "fp32"}.get(dtype, dtype)
    for mask in (ref.keep(rng, (45, 50), 8, 0.4), rng.random((45, 50)) < 0.3):
        pattern = mc.SrBcrs.from_mask(mask).cuda()
        S = mc.sddmm(pattern, *(to_gpu(any_lib, ref.stored(x, dtype)) for x in (A, B)))
        assert S.device == "cuda:0" and made_by(any_lib, S.values)
        check(S.cpu(), A, B, mask, dtype, out)


@pytest.mark.parametrize("implementation", [*mc.sddmm_implementations("cuda"), None])
@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
def test_every_implementation(rng, V: int, implementation: str | None) -> None:
    A, B = operands(rng, "int8")
    mask = ref.keep(rng, (45, 50), V, 0.4)
    pattern = mc.SrBcrs.from_mask(mask, vector_length=V).cuda()
    S = mc.sddmm(pattern, mc.to_cuda(A), mc.to_cuda(B), implementation=implementation)
    check(S.cpu(), A, B, mask, "int8", "int32")


@pytest.mark.parametrize("order", ["C", "F"])
def test_leading_dimensions(rng, lib, order: str) -> None:
    A, B = operands(rng, "int8")
    mask = ref.keep(rng, (45, 50), 8, 0.4)
    pattern = mc.SrBcrs.from_mask(mask).cuda()
    turned = np.ascontiguousarray(B.T)
    right = spread(lib, B) if order == "C" else spread(lib, turned).swapaxes(0, 1)
    check(mc.sddmm(pattern, spread(lib, A), right).cpu(), A, B, mask, "int8", "int32")


def test_scales(rng, any_lib) -> None:
    A, B = operands(rng, "int8")
    pattern = mc.SrBcrs.from_mask(ref.keep(rng, (45, 50), 8, 0.4))
    scales = {
        "a_scale": rng.uniform(0.001, 0.1, 45).astype(np.float32),
        "b_scale": rng.uniform(0.001, 0.1, 50).astype(np.float32),
    }
    for out, more in (("fp16", {}), ("int8", {"out_scale": 0.5}), ("int16", {"out_scale": 0.25})):
        expected = mc.sddmm(pattern, A, B, out_dtype=out, alpha=0.5, **scales, **more)
        got = mc.sddmm(
            pattern.cuda(), any_lib.put(A), any_lib.put(B), out_dtype=out, alpha=0.5,
            **{name: any_lib.put(x) for name, x in scales.items()}, **more,
        )
        ref.same_bits(np.asarray(got.cpu().values), np.asarray(expected.values))


@pytest.mark.parametrize("kind", ["patterns", "shared"])
def test_plans_and_batches(rng, any_lib, kind: str) -> None:
    masks = ref.keep(rng, (3, 45, 50), 8, 0.4)
    pattern = mc.SrBcrs.from_mask(masks if kind == "patterns" else masks[0])
    plan = mc.SDDMMPlan(pattern.cuda(), dtype="int8", k=(1, 60), batch_count=3)
    for K in (1, 33, 60):
        A, B = ref.values(rng, "int8", (3, 45, K)), ref.values(rng, "int8", (3, K, 50))
        expected = mc.sddmm(pattern, A, B)
        got = plan(any_lib.put(A), any_lib.put(B))
        assert got.shape == expected.shape
        ref.same_bits(np.asarray(got.cpu().values), np.asarray(expected.values))
        out = any_lib.put(np.zeros_like(np.asarray(expected.values)))
        again = plan(any_lib.put(A), any_lib.put(B), out)
        ref.same_bits(any_lib.get(out), np.asarray(expected.values))
        assert made_by(any_lib, again.values)
    assert plan.info.implementation in mc.sddmm_implementations("cuda")


def test_its_result_is_multiplied_where_it_lies(rng, any_lib) -> None:
    A, B = operands(rng, "fp16")
    mask = ref.keep(rng, (45, 50), 8, 0.4)
    S = mc.sddmm(mc.SrBcrs.from_mask(mask).cuda(), any_lib.put(A), any_lib.put(B))
    X = ref.values(rng, "fp16", (50, 24))
    got = any_lib.get(S @ any_lib.put(X))
    np.testing.assert_allclose(
        got.astype(np.float64), (S.cpu() @ X).astype(np.float64), rtol=2e-2, atol=2.0
    )


def test_a_mask_on_the_device_makes_a_pattern_there(rng, lib) -> None:
    A, B = operands(rng, "int8")
    mask = rng.random((45, 50)) < 0.3
    pattern = mc.patterns.from_mask(lib.put(mask.astype(np.uint8)), vector_length=4)
    assert pattern.device == "cuda:0" and pattern.values is None
    check(mc.sddmm(pattern, lib.put(A), lib.put(B)).cpu(), A, B, mask, "int8", "int32")


def test_errors_name_the_fix(rng) -> None:
    lib = Own()
    A, B = operands(rng, "int8")
    pattern = mc.SrBcrs.from_mask(ref.keep(rng, (45, 50), 8, 0.4))
    there, left, right = pattern.cuda(), lib.put(A), lib.put(B)
    plan = mc.SDDMMPlan(there, dtype="int8", k=37)
    host_plan = mc.SDDMMPlan(pattern, dtype="int8", k=37)
    scale = np.ones(45, np.float32)
    out = np.zeros(pattern._value_count, np.int32)
    runs: list[tuple[Any, str]] = [
        (lambda: mc.sddmm(pattern, left, right), r"pattern lies in host.*pass pattern.cuda\(0\)"),
        (lambda: mc.sddmm(there, A, right), r"A lies in host memory.*to_cuda\(A, 0\)"),
        (lambda: mc.sddmm(there, left, B), r"B lies in host memory.*to_cuda\(B, 0\)"),
        (lambda: mc.sddmm(there, left, right, a_scale=scale), r"to_cuda\(a_scale, 0\)"),
        (lambda: plan(A, right), r"the plan was made on CUDA device 0, but A lies in host"),
        (lambda: plan(left, right, out), r"to_cuda\(out, 0\)"),
        (lambda: host_plan(left, right), r"make the plan of pattern.cuda\(0\)"),
        (lambda: mc.sddmm(there, left, right, handle=mc.Handle("cpu")), "handle of cuda:0"),
    ]
    for run, text in runs:
        with pytest.raises(mc.DeviceMismatchError, match=text):
            run()
    with pytest.raises(mc.InvalidValueError, match=r"out has shape \(3,\)"):
        plan(left, right, lib.put(np.zeros(3, np.int32)))
    ones = np.ones((45, 74), np.int8)
    with pytest.raises(mc.InvalidValueError, match=r"A has strides.*contiguous"):
        wide = lib.put(ones)
        mc.sddmm(there, wide._with((45, 37), (74, 2)), right)


@pytest.mark.parametrize("library", [Torch, CuPy])
def test_values_are_read_without_a_copy(rng, library: Any) -> None:
    lib = library()
    A, B = operands(rng, "fp32")
    pattern = mc.SrBcrs.from_mask(ref.keep(rng, (45, 50), 8, 0.4))
    S = mc.sddmm(pattern.cuda(), lib.put(A), lib.put(B))
    assert isinstance(S.values, mc.DeviceArray)
    module = lib.torch if library is Torch else lib.cupy
    shown = module.from_dlpack(S.values)
    pointer = shown.data_ptr() if library is Torch else shown.data.ptr
    assert pointer == S.values.ptr
    ref.same_bits(lib.get(shown), S.values.numpy())


def test_torch_tensors_with_gradients_are_refused(rng) -> None:
    lib = Torch()
    A, B = operands(rng, "fp32")
    pattern = mc.SrBcrs.from_mask(ref.keep(rng, (45, 50), 8, 0.4)).cuda()
    with pytest.raises(mc.InvalidValueError, match="detach|grad"):
        mc.sddmm(pattern, lib.put(A).requires_grad_(), lib.put(B))
