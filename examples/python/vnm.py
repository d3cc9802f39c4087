# SPDX-License-Identifier: Apache-2.0
"""V:N:M in a few lines: prune a weight to 64:2:8, multiply it, and go through SciPy and a file."""

import tempfile
from pathlib import Path

import numpy as np

import magicube as mc

rng = np.random.default_rng(0)
weight = rng.standard_normal((256, 384), dtype=np.float32)
x = rng.standard_normal((384, 32), dtype=np.float32)
V, M = 64, 8

# Of every 8 columns, 64 rows share the four with the largest norm; each row keeps its best two.
groups = weight.reshape(256 // V, V, 384 // M, M)
shared = np.argsort(-(groups**2).sum(axis=1), axis=-1)[..., :4]
mask = np.zeros(groups.shape, bool)
np.put_along_axis(mask, np.broadcast_to(shared[:, None], (*groups.shape[:3], 4)), True, axis=-1)
best = np.argsort(-np.where(mask, abs(groups), -1), axis=-1)[..., :2]
mask[...] = False
np.put_along_axis(mask, best, True, axis=-1)
mask = mask.reshape(weight.shape)

values, row_scale = mc.quantize(weight * mask, "int8", granularity="row")
sparse = mc.Vnm.from_dense(values, m=M, vector_length=V, mask=mask)
print(sparse)
q, col_scale = mc.quantize(x, "int8", granularity="col")
y = mc.spmm(sparse, q, a_scale=row_scale, b_scale=col_scale)
expected = (weight * mask) @ x
error = np.abs(y - expected).max() / np.abs(expected).max()
print(f"int8 against float32: relative error {error:.4f}")
assert error < 0.05
assert np.array_equal(sparse @ q, values.astype(np.int32) @ q.astype(np.int32))

# A matrix that is not 64:2:8 is refused, and the place is named.
try:
    mc.Vnm.from_dense(weight, m=M, vector_length=V)
except mc.InvalidValueError as refused:
    print(refused)
else:
    raise AssertionError("a dense weight is not 64:2:8")

with tempfile.TemporaryDirectory() as folder:
    sparse.save(Path(folder) / "layer.safetensors")
    assert np.array_equal(mc.Vnm.load(Path(folder) / "layer.safetensors").to_dense(), values)
try:
    csr = sparse.to_scipy()
except ImportError:
    print("SciPy is not installed")
else:
    assert np.array_equal(mc.Vnm.from_scipy(csr, m=M, vector_length=V).to_dense(), values)
