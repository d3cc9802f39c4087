# SPDX-License-Identifier: Apache-2.0
"""Kronecker-sparse factors and chains against dense matrices in fp64."""

from __future__ import annotations

import math

import magicube as mc
import ml_dtypes
import numpy as np
import pytest
from magicube._kronecker import Pair
from magicube.sparse import butterfly_patterns, low_rank_patterns, monarch_patterns

STORAGE = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}
EPSILON = {"fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}
SUBNORMAL = {"fp32": 1e-30, "fp16": 2.0**-24, "bf16": 1e-30}


def dense_of(values: np.ndarray) -> np.ndarray:
    """I_a (x) W (x) I_d as numpy.kron would put it together, in fp64."""
    a, b, c, d = values.shape
    dense = np.zeros((a, b, d, a, c, d))
    for i in range(a):
        for residue in range(d):
            dense[i, :, residue, i, :, residue] = values[i, :, :, residue].astype(np.float64)
    return dense.reshape(a * b * d, a * c * d)


def factor(rng, pattern, dtype: str = "fp32") -> mc.Kronecker:
    return mc.Kronecker(rng.standard_normal(pattern, np.float32).astype(STORAGE[dtype]))


def chain_of(rng, patterns, dtype: str = "fp32") -> tuple[mc.KroneckerChain, np.ndarray]:
    chain = mc.KroneckerChain(factor(rng, pattern, dtype) for pattern in patterns)
    dense = np.eye(chain.shape[0])
    for item in chain:
        dense = dense @ dense_of(item.values)
    return chain, dense


def random_pattern(rng) -> tuple[int, int, int, int]:
    """Sizes up to 40 each, of a matrix that is still small enough as a dense one."""
    while True:
        a, b, c, d = (int(size) for size in rng.integers(1, 41, 4))
        if a * a * d * d * b * c <= 2_000_000:
            return a, b, c, d


def check(found: np.ndarray, exact: np.ndarray, size: np.ndarray, dtype: str, terms: int) -> None:
    """Within one rounding to the type, and one to fp32 for each term."""
    error = np.abs(found.astype(np.float64) - exact)
    bound = EPSILON[dtype] * np.abs(exact) + (terms + 2) * 2.0**-23 * size
    assert (error <= bound + SUBNORMAL[dtype]).all(), (error / bound).max()


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("implementation", [None, "reference"])
def test_random_factors(rng, dtype, layout, implementation):
    for case in range(12):
        pattern = random_pattern(rng)
        if case % 4 == 0:
            pattern = (pattern[0], *pattern[1:3], 1)
        if case % 4 == 1:
            pattern = (1, *pattern[1:])
        K = factor(rng, pattern, dtype)
        dense = dense_of(K.values)
        n = int(rng.integers(0, 50)) * 2 + 1
        transpose = case % 3 == 0
        matrix = dense.T if transpose else dense
        shape = (n, matrix.shape[1]) if layout == "first" else (matrix.shape[1], n)
        wide = rng.standard_normal((shape[0], shape[1] + case), np.float32).astype(STORAGE[dtype])
        X = wide[:, : shape[1]]  # ld > columns
        Y = mc.kronecker_mm(
            K, X, layout=layout, transpose=transpose, implementation=implementation
        )
        columns = X.astype(np.float64).T if layout == "first" else X.astype(np.float64)
        exact, size = matrix @ columns, np.abs(matrix) @ np.abs(columns)
        assert Y.dtype == STORAGE[dtype]
        check(Y.T if layout == "first" else Y, exact, size, dtype, pattern[1 if transpose else 2])


def test_fp16_sums_are_formed_in_fp32(rng):
    K = mc.Kronecker((rng.random((1, 64, 1024, 1), np.float32) / 32).astype(np.float16))
    X = rng.random((33, 1024), np.float32).astype(np.float16)
    exact = X.astype(np.float64) @ dense_of(K.values).T
    found = mc.kronecker_mm(K, X).astype(np.float64)
    assert (np.abs(found - exact) / np.abs(exact)).max() < 2e-3


def test_int8_is_exact_and_scaled(rng):
    w = rng.integers(-128, 128, (3, 5, 700, 2), np.int8)
    x = rng.integers(-128, 128, (9, 3 * 700 * 2), np.int8)
    K = mc.Kronecker(w)
    exact = x.astype(np.int64) @ dense_of(w).astype(np.int64).T
    assert np.array_equal(mc.kronecker_mm(K, x), exact)
    assert np.array_equal(K @ np.ascontiguousarray(x.T), exact.T)
    scale = rng.random(K.shape[0], np.float32) / 1000
    bias = rng.standard_normal(K.shape[0], np.float32)
    found = mc.kronecker_mm(K, x, k_scale=scale, x_scale=0.5, bias=bias, activation="relu")
    wanted = np.maximum(exact * (scale * np.float32(0.5)) + bias, 0)
    assert found.dtype == np.float32 and np.allclose(found, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(mc.NotSupportedError, match="chain of 2 factors of int8"):
        mc.kronecker_mm(mc.KroneckerChain.zeros(butterfly_patterns(2), dtype="int8"), x[:, :4])


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("mode", ["fixed", "updatable", "per_call"])
def test_plans_of_chains(rng, mode, layout):
    for patterns in (butterfly_patterns(6), monarch_patterns(64, 96, blocks=8, rank=2),
                     low_rank_patterns(33, 20, 3), [(2, 3, 4, 1), (1, 4, 2, 2)]):
        chain, dense = chain_of(rng, patterns)
        start = mc.KroneckerChain.zeros(patterns) if mode != "fixed" else chain
        bias = rng.standard_normal(chain.shape[0], np.float32)
        plan = mc.KroneckerMMPlan(
            start, n=(0, 50), layout=layout, bias=True, value_mode=mode, activation="gelu"
        )
        if mode == "updatable":
            plan.update_values(chain)
        else:
            with pytest.raises(mc.NotSupportedError):
                plan.update_values(chain)
        for n in (0, 1, 37, 50):
            x = rng.standard_normal((n, chain.shape[1]), np.float32)
            given = x if layout == "first" else np.ascontiguousarray(x.T)
            y = plan(given, bias=bias, values=chain if mode == "per_call" else None)
            linear = x.astype(np.float64) @ dense.T + bias
            exact = linear * (1 + np.vectorize(math.erf, otypes=[float])(linear / 2**0.5)) / 2
            assert np.allclose(y if layout == "first" else y.T, exact, atol=2e-4)


def test_batches_beta_and_out(rng):
    K = factor(rng, (2, 3, 5, 4))
    dense = dense_of(K.values)
    X = rng.standard_normal((3, 7, K.shape[1]), np.float32)
    out = np.ones((3, 7, K.shape[0]), np.float32)
    assert mc.kronecker_mm(K, X, out=out, alpha=2, beta=-1) is out
    assert np.allclose(out, 2 * X @ dense.T - 1, atol=1e-4)
    last = mc.kronecker_mm(K, X.swapaxes(1, 2), layout="last", out_order="F")
    assert np.allclose(last.swapaxes(1, 2), X @ dense.T, atol=1e-4)


def test_gradients(rng):
    for layout in ("first", "last"):
        K = factor(rng, (2, 9, 10, 3))
        X = rng.standard_normal((31, K.shape[1]), np.float32)
        dY = rng.standard_normal((31, K.shape[0]), np.float32)
        given = [np.ascontiguousarray(m.T) if layout == "last" else m for m in (X, dY)]
        G = mc.kronecker_gradient(K.pattern, *given, layout=layout)
        whole = dY.astype(np.float64).T @ X.astype(np.float64)
        wanted = whole.reshape(2, 9, 3, 2, 10, 3)
        for i in range(2):
            for residue in range(3):
                block = wanted[i, :, residue, i, :, residue]
                assert np.allclose(G.values[i, :, :, residue], block, atol=1e-4)
        upstream = mc.kronecker_mm(K, given[1], layout=layout, transpose=True)
        exact = dY @ dense_of(K.values)
        assert np.allclose(upstream if layout == "first" else upstream.T, exact, atol=1e-4)


def test_conversions(rng):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    for dtype in STORAGE:
        K = factor(rng, (3, 4, 5, 2), dtype)
        dense = K.to_dense()
        assert dense.dtype == STORAGE[dtype]
        assert np.array_equal(dense.astype(np.float64), dense_of(K.values))
        assert np.array_equal(mc.Kronecker.from_dense(dense, K.pattern).values, K.values)
        csr = K.to_scipy()
        assert csr.nnz == K.nnz and np.array_equal(csr.toarray(), dense.astype(np.float32))
        back = mc.Kronecker.from_scipy(csr, K.pattern)
        assert np.array_equal(back.values, K.values.astype(np.float32))
    with pytest.raises(mc.InvalidValueError, match=r"dense\[\d, \d\] is 1; it lies outside"):
        mc.Kronecker.from_dense(np.ones((4, 4), np.float32), (1, 2, 2, 2))
    outside = scipy_sparse.csr_array(np.eye(4, k=1, dtype=np.float32))
    with pytest.raises(mc.InvalidValueError, match=r"source\[0, 1\]"):
        mc.Kronecker.from_scipy(outside, (4, 1, 1, 1))
    blocks = rng.standard_normal((3, 2, 4), np.float32)
    diagonal = mc.Kronecker.block_diagonal(blocks)
    assert diagonal.pattern == (3, 2, 4, 1)
    assert np.array_equal(diagonal.to_dense()[2:4, 4:8], blocks[1])


def test_chains(rng):
    chain, dense = chain_of(rng, monarch_patterns(24, 30, blocks=6, step=4, rank=2))
    assert chain.patterns == ((1, 6, 12, 4), (6, 8, 5, 1)) and chain.shape == (24, 30)
    assert np.allclose(chain.to_dense(), dense, atol=1e-5)
    assert chain.pairs == (Pair(True, 2, False),)
    assert np.allclose(chain.product().to_dense(), dense, atol=1e-5)
    assert len(chain[:1]) == 1 and chain[1].pattern == (6, 8, 5, 1)
    H = mc.KroneckerChain.hadamard(5)
    assert np.allclose(H.to_dense() @ H.to_dense().T, np.eye(32), atol=1e-6)
    signs = mc.KroneckerChain.hadamard(3, orthonormal=False, dtype="int8")
    assert set(np.unique(signs.to_dense())) == {-1.0, 1.0}
    random = mc.KroneckerChain.random(butterfly_patterns(10), seed=3)
    assert 0.5 < np.linalg.norm(random @ np.ones((1024, 1), np.float32)) / 32 < 2


@pytest.mark.parametrize(
    "patterns, part",
    [
        ([(1, 2, 2, 4), (2, 0, 2, 2)], r"factors\[1\]\.b is 0; it must be at least 1"),
        ([(1, 2, 2, 4), (2, 2, 2, 2), (4, 3, 2, 1)], r"factors\[2\] .* has 12 rows; .* have 8"),
        ([(1, 2**40, 2**40, 1)], r"factors\[0\]\.values, a \* b \* c, overflows 64 bits"),
        ([(1, 2, 2)], r"factors\[0\] is \(1, 2, 2\); it must be \(a, b, c, d\)"),
        ([(1, 2**70, 1, 1)], r"factors\[0\]\.b is 1180591620717411303424; it must fit"),
        ([], "count is 0"),
    ],
)
def test_patterns_are_refused_by_name_and_position(patterns, part):
    with pytest.raises(mc.InvalidValueError, match=part):
        mc.KroneckerChain.zeros(patterns)


def test_arguments_are_refused(rng):
    K = factor(rng, (2, 3, 4, 1))
    X = np.ones((5, 8), np.float32)
    with pytest.raises(TypeError, match="it must be a magicube.Kronecker"):
        mc.kronecker_mm(X, X)
    with pytest.raises(mc.InvalidValueError, match="X has items of float16, not fp32"):
        mc.kronecker_mm(K, X.astype(np.float16))
    with pytest.raises(mc.InvalidValueError, match="X is 5 x 7; it must be 5 x 8"):
        mc.kronecker_mm(K, np.ones((5, 7), np.float32))
    with pytest.raises(mc.InvalidValueError, match="layout is 'middle'; it must be one of first"):
        mc.kronecker_mm(K, X, layout="middle")
    with pytest.raises(mc.InvalidValueError, match="there is no Y to add"):
        mc.kronecker_mm(K, X, beta=1)
    with pytest.raises(mc.InvalidValueError, match=r"out has shape \(5, 5\); it must be \(5, 6\)"):
        mc.kronecker_mm(K, X, out=np.ones((5, 5), np.float32))
    with pytest.raises(mc.InvalidValueError, match="values has shape"):
        mc.Kronecker(X)
    with pytest.raises(mc.InvalidValueError, match="values is not contiguous"):
        mc.Kronecker(np.ones((2, 2, 2, 2), np.float32)[..., ::2])
    with pytest.raises(mc.InvalidValueError, match=r"factors\[1\] is of fp16; it must be of fp32"):
        mc.KroneckerChain([K, mc.Kronecker(np.ones((1, 8, 1, 1), np.float16))])
    plan = mc.KroneckerMMPlan(K, n=5, value_mode="per_call")
    with pytest.raises(mc.InvalidValueError, match=r"values\[0\] has shape \(2, 3, 4, 2\)"):
        plan(X, values=[np.ones((2, 3, 4, 2), np.float32)])
    with pytest.raises(mc.InvalidValueError, match="values holds 2 arrays; K has 1 factors"):
        plan(X, values=[K.values, K.values])
    assert mc.KroneckerMMPlan.is_supported(K, n=5) == (True, "")
    supported, reason = mc.KroneckerMMPlan.is_supported(
        mc.Kronecker(np.ones((1, 1, 1, 1), np.int16)), n=5
    )
    assert not supported and "int16" in reason
    assert mc.kronecker_mm_implementations() == ["simd", "reference"]
    with plan:
        assert plan.info.implementation == "simd"
