# SPDX-License-Identifier: Apache-2.0
"""V:N:M matrices on the GPU: their way there and back, and products with CUDA arrays."""

from __future__ import annotations

import pickle
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import Own, needs_gpu, spread
from test_vnm import TYPES, VECTOR_LENGTHS, random_vnm

pytestmark = needs_gpu


def problem(
    rng: np.random.Generator, dtype: str = "int8", V: int = 64, m: int = 8
) -> tuple[np.ndarray, mc.Vnm]:
    dense, exists = random_vnm(rng, dtype, V + 30, 90, V, m)
    return dense, mc.Vnm.from_dense(dense, m=m, vector_length=V, mask=exists)


def compare(got: np.ndarray, W: np.ndarray, B: np.ndarray, dtype: str) -> None:
    """An int32 product to the bit, a floating one within its bound."""
    if dtype == "int8":
        ref.same_bits(got, ref.epilogue(ref.exact_product(W, B), "int32"))
        return
    out = {"float32": "fp32", "float16": "fp16"}.get(got.dtype.name, "bf16")
    exact, bound = ref.float_bound(W.astype(np.float64), B.astype(np.float64), out)
    assert (abs(got.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_types(rng, any_lib, dtype: str) -> None:
    W, A = problem(rng, dtype)
    B = ref.values(rng, dtype, (90, 40))
    compare(any_lib.get(A.cuda() @ any_lib.put(B)), W, B, dtype)


@pytest.mark.parametrize("implementation", [*mc.spmm_implementations("cuda", "vnm"), None])
@pytest.mark.parametrize("V", VECTOR_LENGTHS)
@pytest.mark.parametrize("m", [4, 8, 13])
def test_every_implementation(rng, m: int, V: int, implementation: str | None) -> None:
    for dtype in ("int8", "fp16"):
        W, A = problem(rng, dtype, V, m)
        B = ref.values(rng, dtype, (90, 24))
        try:
            got = mc.spmm(A.cuda(), mc.to_cuda(B), implementation=implementation)
        except mc.NotSupportedError:
            assert implementation is not None
            continue
        compare(got.numpy(), W, B, dtype)


@pytest.mark.parametrize("order", ["C", "F"])
def test_leading_dimensions(rng, lib, order: str) -> None:
    W, A = problem(rng)
    B = ref.values(rng, "int8", (90, 21))
    turned = np.ascontiguousarray(B.T)
    right = spread(lib, B) if order == "C" else spread(lib, turned).swapaxes(0, 1)
    compare(lib.get(mc.spmm(A.cuda(), right)), W, B, "int8")


def test_epilogue_and_value_modes(rng, any_lib) -> None:
    _, A = problem(rng)
    other = A.with_values(-np.asarray(A.values) // 2)
    B = ref.values(rng, "int8", (90, 25))
    bias = rng.standard_normal(94).astype(np.float32)
    scale = rng.uniform(0.01, 0.1, 94).astype(np.float32)
    for mode in ("fixed", "updatable", "per_call"):
        plan = mc.SpMMPlan(
            A.cuda(), rhs_dtype="int8", out_dtype="fp16", n=25, a_scale="row", bias=True,
            activation="relu", value_mode=mode,
        )
        arrays: dict[str, Any] = {"a_scale": any_lib.put(scale), "bias": any_lib.put(bias)}
        for matrix in (A, other) if mode != "fixed" else (A,):
            values = any_lib.put(np.asarray(matrix.values))
            if mode == "updatable":
                plan.update_values(values)
            if mode == "per_call":
                arrays["values"] = values
            expected = mc.spmm(
                matrix, B, a_scale=scale, bias=bias, activation="relu", out_dtype="fp16"
            )
            ref.same_bits(any_lib.get(plan(any_lib.put(B), **arrays)), expected)


def test_a_batch_of_values(rng, lib) -> None:
    _, A = problem(rng)
    kept = np.asarray(A.values)
    A = A.with_values(np.stack([kept, -(kept // 2), kept // 3]))
    B = ref.values(rng, "int8", (3, 90, 19))
    ref.same_bits(lib.get(A.cuda() @ lib.put(B)), A @ B)
    given = A.with_values(kept).cuda().with_values(lib.put(np.asarray(A.values)))
    ref.same_bits(lib.get(given @ lib.put(B)), A @ B)
    assert given.with_values(None).values is None


def test_matrices_on_the_device(rng, lib, tmp_path) -> None:
    W, A = problem(rng, "fp16")
    G = A.cuda()
    assert (A.device, G.device) == ("cpu", "cuda:0") and G.cuda() is G and A.cpu() is A
    assert G.to("cuda") is G and A.to("cuda:0").device == "cuda:0" and G.to("cpu").device == "cpu"
    for name in ("nnz", "density", "nbytes", "dtype", "shape"):
        assert getattr(G, name) == getattr(A, name)
    assert repr(G) == repr(A) and isinstance(G.values, mc.DeviceArray)
    assert G.column_loc.read_only  # type: ignore[union-attr]
    for matrix in (G.cpu(), pickle.loads(pickle.dumps(G)).cpu()):
        ref.same_bits(matrix.to_dense(), W)
    assert pickle.loads(pickle.dumps(G)).device == "cuda:0"
    G.save(tmp_path / "a.safetensors")
    ref.same_bits(mc.Vnm.load(tmp_path / "a.safetensors").to_dense(), W)
    mc.validate(G)
    sizes = {"vector_length": A.vector_length, "m": A.m}
    arrays = [lib.put(np.asarray(x)) for x in (A.column_loc, A.metadata, A.values)]
    again = mc.Vnm(A.shape, *arrays, **sizes)
    assert (again.device, again.nnz) == ("cuda:0", A.nnz)
    ref.same_bits(again.cpu().to_dense(), W)
    with pytest.raises(mc.InvalidValueError, match="metadata gives row 0"):
        mc.Vnm(A.shape, arrays[0], lib.put(np.zeros_like(A.metadata)), arrays[2], **sizes)


def test_errors_name_the_fix(rng) -> None:
    lib = Own()
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    G, right = A.cuda(), lib.put(B)
    runs: list[tuple[Any, str]] = [
        (lambda: A @ right, r"A lies in host memory, but B lies on CUDA device 0.*A.cuda\(0\)"),
        (lambda: G @ B, r"A lies on CUDA device 0, but B lies in host.*to_cuda\(B, 0\)"),
        (lambda: G.with_values(np.asarray(A.values)), "values lies in host memory"),
    ]
    for run, text in runs:
        with pytest.raises(mc.DeviceMismatchError, match=text):
            run()
    for convert in (G.to_dense, G.to_mask, G.to_scipy):
        with pytest.raises(mc.NotSupportedError, match=r"CUDA device 0.*A\.cpu\(\)"):
            convert()
    with pytest.raises(mc.NoDeviceError):
        A.cuda(99)
