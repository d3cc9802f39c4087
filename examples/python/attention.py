# SPDX-License-Identifier: Apache-2.0
"""Sparse attention in 8-bit integers: SDDMM, sparse softmax and SpMM share one layout."""

import numpy as np

import magicube as mc

rng = np.random.default_rng(0)
tokens, width, window = 256, 64, 32
q, k, v = rng.standard_normal((3, tokens, width), dtype=np.float32)
place = np.arange(tokens)
mask = np.abs(place[:, None] - place) <= window
pattern = mc.SrBcrs.from_mask(mask, vector_length=8)

# Scores where the mask allows them, as exact int32 sums of int8 products; k.T is not copied.
q8, q_scale = mc.quantize(q, "int8")
k8, k_scale = mc.quantize(k, "int8")
v8, v_scale = mc.quantize(v, "int8")
scores = mc.sddmm(pattern, q8, k8.T, out_dtype="int32")

# Probabilities as uint8 with a scale a row, then times the values.
probabilities, row_scale = mc.sparse_softmax(
    scores, out_dtype="uint8", alpha=width**-0.5, row_scale=q_scale, col_scale=k_scale
)
out = mc.spmm(probabilities, v8, a_scale=row_scale, b_scale=v_scale)

dense = np.where(mask, q @ k.T * width**-0.5, -np.inf)
weights = np.exp(dense - dense.max(axis=1, keepdims=True))
expected = weights / weights.sum(axis=1, keepdims=True) @ v
error = np.abs(out - expected).max()
print(f"attention over {tokens} tokens, window {window}: largest error {error:.4f}")
assert error < 0.1
