# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref

TARGETS = {"int4": 7, "int8": 127, "int12": 2047, "int16": 32767}


def groups(x: np.ndarray, granularity: str) -> list[tuple[Any, np.ndarray]]:
    """Index and elements of each group that shares a scale."""
    if granularity == "tensor":
        return [(np.s_[:, :], x)]
    if granularity == "row":
        return [(np.s_[i, :], x[i]) for i in range(x.shape[0])]
    return [(np.s_[:, j], x[:, j]) for j in range(x.shape[1])]


def unpack(q: Any) -> np.ndarray:
    return q.unpack() if isinstance(q, mc.Int4Array) else q


def rounded(x: np.ndarray, scale: Any, dtype: str) -> np.ndarray:
    """round-half-even(x / scale), saturated."""
    q = np.rint(x.astype(np.float32) / np.float32(scale))
    return np.clip(q, *ref.RANGES[dtype]).astype(ref.STORAGE[dtype])


@pytest.mark.parametrize("dtype", list(TARGETS))
@pytest.mark.parametrize("granularity", ["tensor", "row", "col"])
@pytest.mark.parametrize("source", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_absmax(rng, dtype: str, granularity: str, source: str, orders: str) -> None:
    x = ref.values(rng, source, (19, 14))
    x[3] = 0
    q, scale = mc.quantize(
        ref.stored(x, source, orders[0], 3), dtype, granularity=granularity, out_order=orders[1]
    )
    if dtype == "int4":
        assert q.order == orders[1]
    else:
        assert q.dtype == ref.STORAGE[dtype]
        assert q.flags.c_contiguous if orders[1] == "C" else q.flags.f_contiguous
    parts = groups(x, granularity)
    assert scale.dtype == np.float32 and scale.shape == (len(parts),)
    values = unpack(q)
    for number, (where, part) in enumerate(parts):
        top = np.abs(part.astype(np.float32)).max()
        expected = ref.F32(top) / ref.F32(TARGETS[dtype]) if top else ref.F32(1)
        assert scale[number] == expected
        np.testing.assert_array_equal(values[where], rounded(part, expected, dtype))


@pytest.mark.parametrize("percentile", [0.1, 50.0, 90.0, 99.9, 100.0])
@pytest.mark.parametrize("granularity", ["tensor", "row"])
def test_percentile(rng, percentile: float, granularity: str) -> None:
    x = ref.values(rng, "fp32", (11, 40))
    q, scale = mc.quantize(
        x, "int8", granularity=granularity, calibration="percentile", percentile=percentile
    )
    for number, (where, part) in enumerate(groups(x, granularity)):
        order = np.sort(np.abs(part).ravel())
        rank = max(math.ceil(percentile / 100 * order.size), 1)
        expected = order[rank - 1] / ref.F32(127)
        assert scale[number] == expected
        np.testing.assert_array_equal(q[where], rounded(part, expected, "int8"))


@pytest.mark.parametrize("dtype", ["int4", "int8"])
def test_least_mean_square(rng, dtype: str) -> None:
    x = ref.values(rng, "fp32", (4, 300))
    q, scale = mc.quantize(x, dtype, granularity="row", calibration="mse")
    qmax = TARGETS[dtype]

    def error(row: np.ndarray, s: Any) -> float:
        back = rounded(row, s, dtype).astype(np.float64) * np.float64(s)
        return float(((back - row) ** 2).sum())

    for row, s, integers in zip(x, scale, unpack(q)):
        tried = [ref.F32(np.abs(row).max() * ref.F32(i) / ref.F32(100) / ref.F32(qmax))
                 for i in range(1, 101)]
        best = min(error(row, t) for t in tried)
        assert min(abs(s / t - 1) for t in tried) < 1e-5
        assert error(row, s) <= best * (1 + 1e-4)
        np.testing.assert_array_equal(integers, rounded(row, s, dtype))


def test_given_scales_round_half_to_even_and_saturate() -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 1e9, -1e9, -128.5]], np.float32)
    q, scale = mc.quantize(x, scale=1.0)
    assert q.tolist() == [[0, 2, 2, 0, -2, 126, 127, 127, -128, -128]]
    assert scale == 1
    rows = np.array([0.5], np.float32)
    q, same = mc.quantize(x, "int16", granularity="row", scale=rows)
    assert same is rows and q.tolist()[0][:3] == [1, 3, 5]
    for bad in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(mc.InvalidValueError, match="scale"):
            mc.quantize(x, scale=bad)
    with pytest.raises(mc.InvalidValueError, match="scale has shape"):
        mc.quantize(x, granularity="row", scale=np.ones(3, np.float32))


def test_batches(rng) -> None:
    x = ref.values(rng, "fp32", (3, 6, 10))
    for granularity, length in [("tensor", 1), ("row", 6), ("col", 10)]:
        q, scale = mc.quantize(x, granularity=granularity)
        assert scale.shape == (3, length)
        for item in range(3):
            alone, alone_scale = mc.quantize(x[item], granularity=granularity)
            np.testing.assert_array_equal(q[item], alone)
            np.testing.assert_array_equal(scale[item], alone_scale)
        back = mc.dequantize(q, scale, granularity=granularity)
        assert (abs(back - x) <= scale.reshape(3, *((1, 1) if length == 1 else (
            (6, 1) if granularity == "row" else (1, 10)))) * 0.5001).all()
        shared = mc.dequantize(q, scale[0], granularity=granularity)
        np.testing.assert_array_equal(shared[0], back[0])


@pytest.mark.parametrize("dtype", ["int4", "int8", "uint8", "int12", "int16", "int32"])
@pytest.mark.parametrize("out", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("granularity", ["tensor", "row", "col"])
def test_dequantize(rng, dtype: str, out: str, granularity: str) -> None:
    q = ref.values(rng, dtype, (9, 13))
    count = {"tensor": 1, "row": 9, "col": 13}[granularity]
    scale = ((rng.random(count) + 0.1) * (1e-6 if dtype == "int32" else 1e-3)).astype(np.float32)
    by = scale[:, None] if granularity == "row" else scale
    expected = ref.round_to(by * q.astype(np.float32), out)
    for order in "CF":
        result = mc.dequantize(
            ref.stored(q, dtype, order, 1), scale, granularity=granularity, dtype=out
        )
        ref.same_bits(result, expected)
    assert mc.dequantize(ref.stored(q, dtype), 0.5, out_order="F").flags.f_contiguous


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
@pytest.mark.parametrize("granularity", ["tensor", "row", "col"])
def test_issue_06_empty(shape: tuple[int, int], granularity: str) -> None:
    q, scale = mc.quantize(np.zeros(shape, np.float32), granularity=granularity)
    assert q.shape == shape and (scale == 1).all()
    assert mc.dequantize(q, scale, granularity=granularity).shape == shape


def test_tokens_times_features(rng) -> None:
    """Activations quantised a token, transposed in one pass, multiplied by a quantised weight."""
    x = ref.values(rng, "fp32", (12, 40))
    w = ref.values(rng, "fp32", (24, 40))
    xq, xs = mc.quantize(x, "int8", granularity="row", out_order="F")
    wq, ws = mc.quantize(w, "int8", granularity="row")
    y = mc.spmm(mc.SrBcrs.from_dense(wq), xq.T, a_scale=ws, b_scale=xs)
    assert y.shape == (24, 12)
    sums = ref.exact_product(wq, xq.T)
    ref.same_bits(y, ref.epilogue(sums, "fp32", a_scale=ws, b_scale=xs))
    exact = w.astype(np.float64) @ x.T.astype(np.float64)
    assert abs(y - exact).max() < 0.02 * abs(exact).max()
