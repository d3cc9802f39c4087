# SPDX-License-Identifier: Apache-2.0
"""Sparse attention of torch tensors on a GPU: one call, a plan in a CUDA graph, integers, and the
three operations that it is made of. Without a GPU the same tensors lie in host memory, and nothing
is captured.
"""

import sys

import magicube as mc

try:
    import torch
except ImportError:
    print("this example needs PyTorch, which is not installed: pip install torch")
    sys.exit(0)

on_gpu = torch.cuda.is_available() and mc.device_count("cuda") > 0
device = "cuda" if on_gpu else "cpu"
if not on_gpu:
    print("there is no CUDA device: the same on the CPU, without a graph")

batch, heads, tokens, width = 2, 4, 512, 64
torch.manual_seed(0)
q, k, v = (torch.randn(batch, heads, tokens, width, device=device).half() for _ in range(3))

# Each token sees the 64 before it and the first 8 of all, none behind itself. The plan copies the
# pattern, which lies on the device of the tensors.
pattern = mc.patterns.sliding_window(tokens, tokens, before=64, first=8, vector_length=8)
there = pattern.to(device)
place = torch.arange(tokens, device=device)
behind = place[:, None] - place
mask = (behind >= 0) & ((behind <= 64) | (place < 8))


def dense(q, k, v):
    """The same with every score computed, in float64."""
    scores = (q.double() @ k.double().mT * width**-0.5).masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1) @ v.double()


def report(what, out, limit):
    exact = dense(q, k, v)
    error = float((out.double() - exact).norm() / exact.norm())
    print(f"{what}: relative error {error:.2g}")
    assert error < limit


# One call; the result is a tensor on the same device.
out = mc.attention(q, k, v, there, causal=True)
assert out.device == q.device and out.dtype == torch.float16
report(f"{batch} x {heads} heads, {pattern.density:.0%} of the scores", out, 2e-3)

# A plan saves the preparation. It runs on torch's current stream, waits for nothing, and can be
# captured: every replay reads what q, k and v hold then.
plan = mc.AttentionPlan(
    there, head_dim=width, dtype="fp16", batch_count=batch, q_heads=heads, causal=True
)
if on_gpu:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = plan(q, k, v)
    q.normal_()
    graph.replay()
    report("replayed with other queries", out, 2e-3)
else:
    report("by a plan", plan(q, k, v), 2e-3)

# In int8: a scale a query, a key and a feature, probabilities of 8 bits.
x = mc.quantize_attention(q, k, v, "int8")
report("in int8", mc.attention(x.q, x.k, x.v, there, causal=True, **x.scales), 2.5e-2)

# The three operations, of one head: scores where the pattern has elements, their softmax, and the
# product with V. They share one layout and stay on the device.
one = mc.patterns.from_mask(mask, vector_length=8)
scores = mc.sddmm(one, q[0, 0], k[0, 0].T, out_dtype="fp32")
probabilities = mc.sparse_softmax(scores, alpha=width**-0.5, out_dtype="fp16")
out = probabilities @ v[0, 0]
error = float((out.double() - dense(q, k, v)[0, 0]).abs().max())
print(f"one head by SDDMM, softmax and SpMM on {scores.device}: largest error {error:.2g}")
assert error < 1e-2
