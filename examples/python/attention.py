# SPDX-License-Identifier: Apache-2.0
"""Sparse attention: in one call, of reals or integers, and from its three operations."""

import numpy as np

import magicube as mc

rng = np.random.default_rng(0)
heads, tokens, width, window = 4, 256, 64, 32
q, k, v = rng.standard_normal((3, heads, tokens, width), dtype=np.float32)


def dense(mask):
    """The same with every score computed."""
    scores = np.where(mask, q @ k.swapaxes(1, 2) * width**-0.5, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True) @ v


# One call, all heads: each token sees the 32 before it and the first 8 of all, none behind itself.
pattern = mc.patterns.sliding_window(tokens, tokens, before=window, first=8, vector_length=8)
place = np.arange(tokens)
behind = place[:, None] - place
exact = dense((behind >= 0) & ((behind <= window) | (place < 8)))
error = np.abs(mc.attention(q, k, v, pattern, causal=True) - exact).max()
print(f"{heads} heads, {tokens} tokens, {pattern.density:.0%} of the scores: error {error:.1e}")
assert error < 1e-5

# The same in int8: a scale a query, a key and a feature, probabilities of 8 bits.
x = mc.quantize_attention(q, k, v, "int8")
out = mc.attention(x.q, x.k, x.v, pattern, causal=True, **x.scales, out_dtype="fp32")
error = np.linalg.norm(out - exact) / np.linalg.norm(exact)
print(f"the same in int8: relative error {error:.4f}")
assert error < 0.03

# The same q, k and v as torch tensors (or anything with DLPack) would give a torch tensor.
# Below: head 0 in int8. SDDMM, sparse softmax and SpMM share one layout.
pattern = mc.patterns.sliding_window(tokens, tokens, before=window, after=window)
q8, q_scale = mc.quantize(q[0], "int8")
k8, k_scale = mc.quantize(k[0], "int8")
v8, v_scale = mc.quantize(v[0], "int8")

# Scores where the pattern has elements, as exact int32 sums of int8 products; k.T is not copied.
scores = mc.sddmm(pattern, q8, k8.T, out_dtype="int32")

# Probabilities as uint8 with a scale a row, then times the values.
probabilities, row_scale = mc.sparse_softmax(
    scores, out_dtype="uint8", alpha=width**-0.5, row_scale=q_scale, col_scale=k_scale
)
out = mc.spmm(probabilities, v8, a_scale=row_scale, b_scale=v_scale)
error = np.abs(out - dense(np.abs(behind) <= window)[0]).max()
print(f"head 0 in int8, {pattern.density:.0%} of the scores: largest error {error:.4f}")
assert error < 0.1
