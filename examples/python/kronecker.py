# SPDX-License-Identifier: Apache-2.0
"""Kronecker-sparse layers: a weight projected onto a Monarch chain, products, a fast transform."""

import time

import numpy as np

import magicube as mc
from magicube.sparse import monarch_patterns

rng = np.random.default_rng(0)
features, vectors = 1024, 512

# A weight that nearly is a Monarch matrix, as training with that structure leaves it.
patterns = monarch_patterns(features, features, blocks=32)
weight = mc.KroneckerChain.random(patterns, seed=1).to_dense()
weight += rng.standard_normal(weight.shape, np.float32) * np.float32(0.0002)

found = mc.project(weight, patterns)
print(found.chain)
print(f"relative error {found.relative_error:.4f}, at least {max(found.step_errors):.4f} in norm")
assert found.relative_error < 0.01
assert found.chain.nbytes * 8 < weight.nbytes

# y = act(x K^T + bias), one read of x and one write of y.
x = rng.standard_normal((vectors, features), np.float32)
bias = rng.standard_normal(features, np.float32)
plan = mc.KroneckerMMPlan(found.chain, n=(1, vectors), bias=True, activation="relu")
y = plan(x, bias=bias)
expected = np.maximum(x @ weight.T + bias, 0)
error = np.linalg.norm(y - expected) / np.linalg.norm(expected)
print(f"products against the dense weight: relative error {error:.4f}")
assert error < 0.01

for name, product in (("chain", lambda: plan(x, bias=bias)), ("dense", lambda: x @ weight.T)):
    start = time.perf_counter()
    product()
    print(f"{name}: {1e3 * (time.perf_counter() - start):.2f} ms")

# The Hadamard transform of size 1024: ten factors of 2 x 2 blocks, merged in the plan.
H = mc.KroneckerChain.hadamard(10)
once = mc.kronecker_mm(H, x)
assert np.allclose(mc.kronecker_mm(H, once), x, atol=1e-4)  # it is its own inverse
print(f"{H.nnz} values stand for {H.shape[0] * H.shape[1]}")
