# SPDX-License-Identifier: Apache-2.0
"""Kronecker-sparse products of CUDA arrays: torch, CuPy and the library's own."""

from __future__ import annotations

from typing import Any

import magicube as mc
import numpy as np
import pytest
from cuda_arrays import Own, needs_gpu

pytestmark = needs_gpu

PATTERNS = [(2, 24, 40, 1), (1, 33, 16, 2), (3, 8, 16, 4), (1, 16, 24, 16), (2, 3, 5, 3)]


def factor(rng: np.random.Generator, pattern: tuple[int, ...], dtype: str) -> mc.Kronecker:
    return mc.Kronecker(rng.standard_normal(pattern).astype(dtype))


@pytest.mark.parametrize("implementation", [*mc.kronecker_mm_implementations("cuda"), None])
@pytest.mark.parametrize("layout", ["first", "last"])
def test_products(rng, lib, layout: str, implementation: str | None) -> None:
    for pattern in PATTERNS:
        K = factor(rng, pattern, "float16")
        x = rng.standard_normal((41, K.shape[1])).astype(np.float16)
        given = x if layout == "first" else np.ascontiguousarray(x.T)
        exact = x.astype(np.float64) @ K.to_dense(dtype="fp32").astype(np.float64).T
        got = lib.get(
            mc.kronecker_mm(K.cuda(), lib.put(given), layout=layout, implementation=implementation)
        )
        assert got.dtype == np.float16
        found = got if layout == "first" else got.T
        assert np.allclose(found, exact, rtol=2e-3, atol=2e-3)


def test_values_of_another_library_are_not_copied(rng, lib) -> None:
    host = factor(rng, (2, 8, 8, 2), "float32")
    K = mc.Kronecker(lib.put(host.values))
    assert K.device == "cuda:0" and host.device == "cpu"
    assert (K.cpu().to_dense() == host.to_dense()).all()
    assert K.cuda() is K and host.cpu() is host
    x = rng.standard_normal((9, 32)).astype(np.float32)
    found = lib.get(mc.kronecker_mm(K, lib.put(x)))
    assert np.allclose(found, x @ host.to_dense().T, atol=1e-5)


def test_plans_update_and_take_values_per_call(rng, lib) -> None:
    patterns = [(1, 6, 4, 8), (4, 8, 5, 1)]
    chains = [mc.KroneckerChain.random(patterns, seed=seed) for seed in (1, 2)]
    x = rng.standard_normal((33, chains[0].shape[1])).astype(np.float32)
    bias = rng.standard_normal(chains[0].shape[0]).astype(np.float32)

    def right(y: Any, chain: mc.KroneckerChain) -> None:
        exact = np.maximum(x @ chain.to_dense().T + bias, 0)
        assert np.allclose(lib.get(y), exact, atol=1e-4)

    settings = {"n": (0, 50), "bias": True, "activation": "relu"}
    device = [chain.cuda() for chain in chains]
    plan = mc.KroneckerMMPlan(device[0], value_mode="updatable", **settings)
    right(plan(lib.put(x), bias=lib.put(bias)), chains[0])
    plan.update_values(device[1])
    right(plan(lib.put(x), bias=lib.put(bias)), chains[1])
    plan = mc.KroneckerMMPlan(device[0], value_mode="per_call", **settings)
    right(plan(lib.put(x), bias=lib.put(bias), values=device[1]), chains[1])


@pytest.mark.parametrize("layout", ["first", "last"])
def test_gradient(rng, lib, layout: str) -> None:
    pattern = (2, 5, 18, 3)
    shapes = (70, 2 * 18 * 3), (70, 2 * 5 * 3)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    if layout == "last":
        arrays = [np.ascontiguousarray(array.T) for array in arrays]
    exact = mc.kronecker_gradient(pattern, *arrays, layout=layout)
    found = mc.kronecker_gradient(pattern, *map(lib.put, arrays), layout=layout)
    assert found.device == "cuda:0"
    assert np.allclose(found.cpu().values, exact.values, rtol=1e-6, atol=1e-6)


def test_issue_07_operands_on_two_devices_are_refused(rng) -> None:
    host = factor(rng, (2, 8, 8, 2), "float32")
    x = rng.standard_normal((9, 32)).astype(np.float32)
    with pytest.raises(mc.DeviceMismatchError, match="K lies on CUDA device 0"):
        mc.kronecker_mm(host.cuda(), x)
    with pytest.raises(mc.DeviceMismatchError, match="K lies in host memory"):
        mc.kronecker_mm(host, Own().put(x))
    with pytest.raises(mc.DeviceMismatchError, match=r"factors\[1\] lies on CUDA device 0"):
        mc.KroneckerChain([host, host.cuda()])
    with pytest.raises(mc.NotSupportedError, match=r"K\.cpu\(\)"):
        host.cuda().to_dense()
