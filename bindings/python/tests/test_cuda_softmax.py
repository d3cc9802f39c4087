# SPDX-License-Identifier: Apache-2.0
"""Sparse softmax of scores on the GPU, in the library that the scores are from."""

from __future__ import annotations

from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import Own, made_by, needs_gpu
from test_softmax import OUTPUTS, check, logits

pytestmark = needs_gpu


def problem(
    rng: np.random.Generator, dtype: str = "fp32", V: int = 8
) -> tuple[np.ndarray, np.ndarray, mc.SrBcrs]:
    """Scores, which of them exist, and the sparse matrix of those; a row is empty."""
    scores = ref.values(rng, dtype, (V + 37, 50))
    if dtype == "int32":
        scores = (scores % 1000).astype(np.int32)
    mask = rng.random(scores.shape) < 0.4
    mask[3] = False
    kept = np.where(mask, scores, scores.dtype.type(0))
    return scores, mask, mc.SrBcrs.from_dense(kept, mask=mask, vector_length=V)


def pulled(result: Any, lib: Any) -> tuple[mc.SrBcrs, Any]:
    """Probabilities and scales in host memory."""
    if isinstance(result, mc.SrBcrs):
        return result.cpu(), None
    return result[0].cpu(), lib.get(result[1])


def on_device(S: mc.SrBcrs, lib: Any) -> mc.SrBcrs:
    """The matrix with values of a library."""
    return S.cuda().with_values(lib.put(np.asarray(S.values)))


@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "int32"])
def test_types(rng, any_lib, dtype: str, out: str) -> None:
    scores, mask, S = problem(rng, dtype)
    alpha = 0.01 if dtype == "int32" else 1.0
    result = mc.sparse_softmax(on_device(S, any_lib), out_dtype=out, alpha=alpha)
    P, scale = pulled(result, any_lib)
    check(P, scale, logits(scores, alpha), mask, out)
    values = result.values if isinstance(result, mc.SrBcrs) else result[0].values
    assert made_by(any_lib, values)


@pytest.mark.parametrize("implementation", [*mc.sparse_softmax_implementations("cuda"), None])
@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
def test_every_implementation(rng, V: int, implementation: str | None) -> None:
    scores, mask, S = problem(rng, V=V)
    try:
        P = mc.sparse_softmax(S.cuda(), implementation=implementation)
    except mc.NotSupportedError:
        assert implementation is not None
        return
    check(P.cpu(), None, scores, mask, "fp32")


def test_scales_and_bias(rng, any_lib) -> None:
    scores, mask, S = problem(rng, "int32")
    row, col = (rng.uniform(0.01, 0.1, n).astype(np.float32) for n in scores.shape)
    bias = np.where(mask, rng.standard_normal(scores.shape), 0).astype(np.float32)
    summands = mc.SrBcrs.from_dense(bias, mask=mask, stride=S.stride)
    expected = mc.sparse_softmax(S, row_scale=row, col_scale=col, alpha=0.5, bias=summands)
    got = mc.sparse_softmax(
        on_device(S, any_lib), row_scale=any_lib.put(row), col_scale=any_lib.put(col), alpha=0.5,
        bias=any_lib.put(np.asarray(summands.values)),
    )
    np.testing.assert_allclose(
        np.asarray(got.cpu().values), np.asarray(expected.values), rtol=1e-4, atol=1e-7
    )


def test_plans_and_batches(rng, any_lib) -> None:
    _, _, S = problem(rng)
    pattern = S.with_values(None)
    count = np.asarray(S.values).size
    scores = rng.standard_normal((3, count)).astype(np.float32)
    expected = mc.SparseSoftmaxPlan(pattern, in_dtype="fp32", out_dtype="uint8", batch_count=3)(
        scores
    )
    plan = mc.SparseSoftmaxPlan(
        pattern.cuda(), in_dtype="fp32", out_dtype="uint8", batch_count=3
    )
    P, scale = plan(any_lib.put(scores))
    assert made_by(any_lib, P.values)
    out = any_lib.put(np.zeros((3, count), np.uint8))
    scales = any_lib.put(np.zeros((3, S.shape[0]), np.float32))
    again, told = plan(any_lib.put(scores), out, out_scale=scales)
    assert told is scales and made_by(any_lib, again.values)
    for integers, factors in ((P.cpu().values, any_lib.get(scale)), (any_lib.get(out),
                                                                    any_lib.get(scales))):
        assert (abs(integers.astype(int) - np.asarray(expected[0].values).astype(int)) <= 1).all()
        np.testing.assert_allclose(factors, expected[1], rtol=1e-4)


def test_in_place(rng, lib) -> None:
    scores, mask, S = problem(rng)
    plan = mc.SparseSoftmaxPlan(S.with_values(None).cuda(), in_dtype="fp32")
    values = lib.put(np.asarray(S.values))
    plan(values, values)
    check(S.with_values(lib.get(values)), None, scores, mask, "fp32")


def test_a_chain_of_the_three_operations_stays_in_its_library(rng, any_lib) -> None:
    """SDDMM, softmax and SpMM are attention."""
    q, k, v = (rng.standard_normal((40, 32)).astype(np.float16) for _ in range(3))
    mask = rng.random((40, 40)) < 0.5
    mask[:, 0] = True
    pattern = mc.SrBcrs.from_mask(mask).cuda()
    keys = any_lib.put(k).swapaxes(0, 1)  # columns are contiguous
    scores = mc.sddmm(pattern, any_lib.put(q), keys, out_dtype="fp32")
    P = mc.sparse_softmax(scores, alpha=32**-0.5, out_dtype="fp16")
    assert made_by(any_lib, P.values)
    out = any_lib.get(mc.spmm(P, any_lib.put(v), out_dtype="fp32"))
    wide = np.where(mask, q.astype(np.float64) @ k.T.astype(np.float64) * 32**-0.5, -np.inf)
    e = np.exp(wide - wide.max(-1, keepdims=True))
    np.testing.assert_allclose(out, e @ v / e.sum(-1, keepdims=True), atol=4e-3)


def test_errors_name_the_fix(rng) -> None:
    lib = Own()
    _, _, S = problem(rng)
    G = S.cuda()
    host = np.asarray(S.values)
    rows = np.ones(S.shape[0], np.float32)
    plan = mc.SparseSoftmaxPlan(G.with_values(None), in_dtype="fp32", out_dtype="int8")
    runs: list[tuple[Any, str]] = [
        (lambda: mc.sparse_softmax(G, row_scale=rows), r"to_cuda\(row_scale, 0\)"),
        (lambda: mc.sparse_softmax(G, bias=host), r"to_cuda\(bias, 0\)"),
        (lambda: mc.sparse_softmax(S, bias=G), r"S lies in host memory.*pass S.cuda\(0\)"),
        (lambda: plan(host), "the plan was made on CUDA device 0, but scores lies in host"),
        (lambda: plan(S), "the plan was made on CUDA device 0, but scores lies in host"),
        (lambda: plan(G, out_scale=rows), r"to_cuda\(out_scale, 0\)"),
    ]
    for run, text in runs:
        with pytest.raises(mc.DeviceMismatchError, match=text):
            run()
    with pytest.raises(mc.InvalidValueError, match="out_scale has shape"):
        plan(G, out_scale=lib.put(np.zeros(3, np.float32)))
    with pytest.raises(mc.InvalidValueError, match="pattern alone"):
        mc.sparse_softmax(G.with_values(None))
