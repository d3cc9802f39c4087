# SPDX-License-Identifier: Apache-2.0
"""SpMM in a few lines: prune, quantise, convert, multiply; the same from SciPy."""

import numpy as np

import magicube as mc

rng = np.random.default_rng(0)
weight = rng.standard_normal((512, 768), dtype=np.float32)
x = rng.standard_normal((768, 64), dtype=np.float32)

# Keep the tenth of the 8 x 1 vectors with the largest norm, as int8 with a scale a row.
mask = mc.prune(weight, vector_length=8, sparsity=0.9)
values, row_scale = mc.quantize(weight * mask, "int8", granularity="row")
sparse = mc.SrBcrs.from_dense(values, mask=mask, vector_length=8)
print(sparse)

# Exact integer sums, then scales, bias and activation in the same pass.
q, col_scale = mc.quantize(x, "int8", granularity="col")
bias = np.zeros(512, np.float32)
y = mc.spmm(sparse, q, a_scale=row_scale, b_scale=col_scale, bias=bias, activation="relu")

expected = np.maximum((weight * mask) @ x, 0)
error = np.abs(y - expected).max() / np.abs(expected).max()
print(f"int8 against float32: relative error {error:.4f}")
assert error < 0.05

# Without an epilogue an integer product is int32, and exact.
assert np.array_equal(sparse @ q, values.astype(np.int32) @ q.astype(np.int32))

# From SciPy, in float32: every stored entry is kept.
try:
    import scipy.sparse
except ImportError:
    print("SciPy is not installed")
else:
    csr = scipy.sparse.random_array((300, 768), density=0.05, rng=rng, dtype=np.float32)
    a = mc.SrBcrs.from_scipy(csr, vector_length=4)
    assert np.allclose(a @ x, csr @ x, atol=1e-4)
    print(f"from SciPy: {a}")
