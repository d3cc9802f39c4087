# SPDX-License-Identifier: Apache-2.0
"""Independent answers to what the library computes: NumPy on 64-bit integers and float64.

Shares no code with the library; `magicube verify`, `magicube bench` and tests compare against it.
An answer is an interval: integer products have to be right bit by bit (lowest == highest), floating
ones within a bound from the length of the sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

INTEGER_RANGES = {
    "int4": (-8, 7),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int12": (-2048, 2047),
    "int16": (-32768, 32767),
    "int32": (-(2**31), 2**31 - 1),
}
FLOAT_TYPES: dict[str, Any] = {
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
}
STORAGE: dict[str, Any] = {
    "int4": np.int8,  # unpacked
    "int8": np.int8,
    "uint8": np.uint8,
    "int12": np.int16,
    "int16": np.int16,
    "int32": np.int32,
    **FLOAT_TYPES,
}
EPS32 = 2.0**-24  # half the distance between neighbours at 1


class Interval(NamedTuple):
    """Lowest and highest right value of each element, in the output type."""

    lowest: Array
    highest: Array

    def wrong(self, result: Array) -> Array:
        """Where a result lies outside; NaN is right where both ends are NaN."""
        value = widen(result)
        low, high = widen(self.lowest), widen(self.highest)
        inside = (value >= low) & (value <= high)
        if value.dtype == np.float64:
            inside |= np.isnan(value) & np.isnan(low) & np.isnan(high)
        return ~inside

    def error(self, result: Array) -> float:
        """Largest distance from the interval's middle; 0 for a result that is right bit by bit."""
        if result.size == 0:
            return 0.0
        value = widen(result).astype(np.float64)
        middle = (widen(self.lowest).astype(np.float64) + widen(self.highest)) / 2
        same = (value == middle) | (np.isnan(value) & np.isnan(middle))
        with np.errstate(invalid="ignore"):
            return float(np.max(np.where(same, 0.0, np.abs(value - middle))))


def widen(array: Array) -> Array:
    """int64 or float64 of the same values."""
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)


def is_integer(dtype: str) -> bool:
    return dtype in INTEGER_RANGES


def random_values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Signed random data over the whole range of a type, its extremes more often than by chance."""
    if not is_integer(dtype):
        scale = 8.0 if dtype == "e4m3" else 1.0
        return np.asarray((rng.standard_normal(shape) * scale).astype(FLOAT_TYPES[dtype]))
    low, high = INTEGER_RANGES[dtype]
    values = rng.integers(low, high, shape, dtype=np.int64, endpoint=True)
    extremes = np.where(rng.random(shape) < 0.5, low, high)
    values = np.where(rng.random(shape) < 0.1, extremes, values)
    return np.asarray(values.astype(STORAGE[dtype]))


def exact_product(a: Array, b: Array) -> Array:
    """a @ b of integers without rounding, for stacks of matrices too."""
    a, b = a.astype(np.int64), b.astype(np.int64)
    inner = a.shape[-1]
    if inner == 0 or a.size == 0 or b.size == 0:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*batch, a.shape[-2], b.shape[-1]), np.int64)
    largest = int(np.abs(a).max()) * int(np.abs(b).max()) * inner
    if largest < 2**53:  # every partial sum is an integer that float64 holds, in any order
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    if largest < 2**63:
        return np.asarray(a @ b)
    return np.asarray(a.astype(object) @ b.astype(object))


def fma32(a: Any, b: Any, c: Any) -> Array:
    """a * b + c of float32 arrays, rounded once.

    The product is exact in float64; the sum is rounded to odd there, after which rounding to
    float32 gives what a single rounding would have given.
    """
    with np.errstate(all="ignore"):
        product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
        addend = np.asarray(c, np.float64)
        total = np.asarray(product + addend)
        virtual = total - product
        rest = (product - (total - virtual)) + (addend - virtual)
        bits = total.view(np.int64)
        inexact = np.isfinite(total) & np.isfinite(rest) & (rest != 0)
        step = np.where((rest > 0) == (total > 0), 1, -1)
        odd = np.where(inexact & (bits & 1 == 0), bits + step, bits)
        return np.asarray(odd.view(np.float64).astype(np.float32))


def gelu(x: Array) -> Array:
    """x * (1 + erf(x / sqrt(2))) / 2 in float64."""
    erf = np.asarray(np.frompyfunc(math.erf, 1, 1)(x / math.sqrt(2))).astype(np.float64)
    with np.errstate(all="ignore"):
        return np.where(np.isneginf(x), -0.0, 0.5 * x * (1 + erf))


def round_to(y: Array, dtype: str) -> Array:
    """One rounding to nearest even; integers saturate and NaN becomes 0."""
    with np.errstate(all="ignore"):
        if not is_integer(dtype):
            return y.astype(FLOAT_TYPES[dtype])
        low, high = INTEGER_RANGES[dtype]
        whole = np.nan_to_num(np.rint(y), nan=0.0, posinf=high, neginf=low)
        return np.asarray(np.clip(whole, low, high).astype(STORAGE[dtype]))


class Epilogue(NamedTuple):
    """What follows a product. Scales and bias broadcast against the result."""

    alpha: float = 1.0
    beta: float = 0.0
    a_scale: Any = None
    b_scale: Any = None
    bias: Any = None
    activation: str | None = None
    c_scale: Any = None


def _float32(value: Any, absent: float) -> Array:
    return np.asarray(absent if value is None else value, np.float32)


def _scale(epilogue: Epilogue) -> Array:
    with np.errstate(all="ignore"):
        scaled = np.float32(epilogue.alpha) * _float32(epilogue.a_scale, 1)
        return np.asarray(scaled * _float32(epilogue.b_scale, 1))


def _summand(epilogue: Epilogue, c: Array | None) -> Array:
    bias = _float32(epilogue.bias, 0)
    if epilogue.beta == 0 or c is None:
        return fma32(np.float32(epilogue.beta), np.float32(0), bias)
    return fma32(np.float32(epilogue.beta), c.astype(np.float32), bias)


def _finish(y: Array, slack: Any, epilogue: Epilogue, out_dtype: str) -> Interval:
    """Activation, output scale and rounding of y, known to within slack."""
    y = y.astype(np.float64)
    with np.errstate(all="ignore"):
        if epilogue.activation == "relu":
            y = np.where(np.isnan(y), y, np.maximum(y, 0))
        elif epilogue.activation == "gelu":
            slack = 1.2 * slack + np.abs(y) * 2.0**-20  # GELU's slope is below 1.13
            y = gelu(y)
        if epilogue.c_scale is not None:
            reciprocal = np.float32(1) / _float32(epilogue.c_scale, 1)
            slack = slack * reciprocal + np.where(slack > 0, np.abs(y * reciprocal) * EPS32 * 2, 0)
            y = (y * reciprocal.astype(np.float64)).astype(np.float32).astype(np.float64)
        exact = np.broadcast_to(slack == 0, y.shape)
        low, high = (np.where(exact, y, y - slack), np.where(exact, y, y + slack))
        if out_dtype in FLOAT_TYPES:  # results are float32 before the last rounding
            low, high = low.astype(np.float32), high.astype(np.float32)
    return Interval(round_to(low, out_dtype), round_to(high, out_dtype))


def integer_result(
    total: Array, epilogue: Epilogue, out_dtype: str, c: Array | None = None
) -> Interval:
    """What an exact integer sum becomes, by the order that the documentation fixes."""
    if out_dtype == "int32":
        if epilogue.beta:
            assert c is not None
            total = total + c.astype(np.int64)
        wrapped = np.asarray(total % 2**32).astype(np.uint32).view(np.int32)
        return Interval(wrapped, wrapped)
    y = fma32(_scale(epilogue), total.astype(np.float32), _summand(epilogue, c))
    return _finish(y, np.float64(0), epilogue, out_dtype)


def floating_result(
    total: Array, magnitude: Array, terms: int, epilogue: Epilogue, out_dtype: str,
    c: Array | None = None,
) -> Interval:
    """What a floating sum of so many terms becomes. total is the sum in float64, magnitude that of
    the terms' absolute values; the bound is that of float32 sums in any order."""
    scale = np.abs(_scale(epilogue).astype(np.float64))
    summand = _summand(epilogue, c).astype(np.float64)
    with np.errstate(all="ignore"):
        y = _scale(epilogue).astype(np.float64) * total + summand
        slack = scale * magnitude * (terms + 8) * EPS32 + 8 * EPS32 * (np.abs(y) + np.abs(summand))
        slack = np.where(np.isfinite(slack), slack + 2.0**-126, 0)
    return _finish(y, slack, epilogue, out_dtype)


def product(
    a: Array, b: Array, integer: bool, epilogue: Epilogue, out_dtype: str, c: Array | None = None
) -> Interval:
    """act(scale * (a @ b) + beta * c + bias); a holds 0 where no element exists."""
    if integer:
        return integer_result(exact_product(a, b), epilogue, out_dtype, c)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    magnitude = np.abs(wide_a) @ np.abs(wide_b)
    return floating_result(wide_a @ wide_b, magnitude, a.shape[-1], epilogue, out_dtype, c)


def softmax(
    scores: Array, exists: Array, *, alpha: float = 1.0, row_scale: Any = None,
    col_scale: Any = None, bias: Array | None = None,
) -> Array:
    """Probabilities in float64 of each row over the elements that exist; 0 elsewhere."""
    scale = np.float32(alpha) * _float32(row_scale, 1) * _float32(col_scale, 1)
    x = fma32(np.broadcast_to(scale, scores.shape), scores.astype(np.float32), _float32(bias, 0))
    if x.shape[-1] == 0:
        return np.zeros(x.shape)
    x = np.where(exists, x.astype(np.float64), -np.inf)
    top = x.max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        weights = np.exp(x - np.where(np.isneginf(top), 0, top))
        sums = weights.sum(axis=-1, keepdims=True)
        return np.where(sums == 0, 0.0, weights / np.where(sums == 0, 1, sums))


def softmax_bound(scores: Array, alpha: float, row_scale: Any, col_scale: Any, bias: Any) -> float:
    """Relative error that float32 may make: rounding of x, of exp, of the sum."""
    scale = np.float32(alpha) * _float32(row_scale, 1) * _float32(col_scale, 1)
    largest = np.max(np.abs(scale * scores.astype(np.float64)), initial=0)
    largest += np.max(np.abs(_float32(bias, 0)), initial=0)
    return float((scores.shape[-1] + 16 + 4 * largest) * EPS32 * 2)


def quantized_rows(p: Array, out_dtype: str) -> tuple[Array, Array]:
    """Scale of each row of probabilities and the integers before rounding."""
    top = INTEGER_RANGES[out_dtype][1]
    largest = p.max(axis=-1, initial=0)
    scale = np.where(largest == 0, 1.0, largest / top)
    return scale, p / scale[..., None]


def prune(
    weight: Array, vector_length: int, drop: int, per_row: bool, norm: str
) -> Array:
    """uint8 keep-mask without the `drop` smallest vectors of each scope, ties by lowest index."""
    rows, cols = weight.shape
    block_rows = -(-rows // vector_length)
    padded = np.zeros((block_rows * vector_length, cols))
    padded[:rows] = np.abs(weight.astype(np.float64))
    blocks = padded.reshape(block_rows, vector_length, cols)
    norms = np.zeros((block_rows, cols))
    for v in range(vector_length):
        norms = norms + (blocks[:, v] if norm == "l1" else blocks[:, v] ** 2)
    kept = np.zeros((block_rows, cols), np.uint8)
    if norms.size == 0:
        return np.zeros((rows, cols), np.uint8)
    groups = norms.reshape(block_rows if per_row else 1, -1)
    for group, marks in zip(groups, kept.reshape(groups.shape)):
        order = np.argsort(-group, kind="stable")
        marks[order[: group.size - drop]] = 1
    return np.repeat(kept, vector_length, axis=0)[:rows]


def dropped(sparsity: float, count: int) -> int:
    """Vectors that a sparsity drops out of count."""
    return math.floor(sparsity * count + 0.5)


def absmax_quantize(x: Array, dtype: str, axis: int | None) -> tuple[Array, Array]:
    """Symmetric quantisation: integers and float32 scales. axis is the one that shares a scale."""
    high = INTEGER_RANGES[dtype][1]
    largest = np.max(np.abs(x.astype(np.float32)), axis=axis, keepdims=True, initial=0)
    scale = np.where(largest == 0, np.float32(1), largest / np.float32(high))
    scale = np.maximum(scale, np.float32(2.0**-126))
    return round_to(x.astype(np.float32) / scale, dtype), scale.reshape(-1)


class Layout(NamedTuple):
    """Arrays of one SR-BCRS matrix."""

    row_begin: Array
    row_end: Array
    col_indices: Array
    values: Array  # unpacked
    element_exists: Array  # slots x V


def sr_bcrs(dense: Array, exists: Array, vector_length: int, stride: int) -> Layout:
    """The format from its definition, one vector at a time."""
    rows, cols = dense.shape
    begin: list[int] = []
    end: list[int] = []
    columns: list[int] = []
    values: list[Array] = []
    marks: list[Array] = []
    for first in range(0, rows, vector_length):
        block = np.zeros((vector_length, cols), dense.dtype)
        marked = np.zeros((vector_length, cols), bool)
        height = min(vector_length, rows - first)
        block[:height] = np.where(exists[first : first + height], dense[first : first + height], 0)
        marked[:height] = exists[first : first + height]
        stored = [column for column in range(cols) if marked[:, column].any()]
        begin.append(len(columns))
        end.append(len(columns) + len(stored))
        padded = stored + [-1] * (-len(stored) % stride)
        columns += padded
        for start in range(0, len(padded), stride):
            chunk = np.zeros((vector_length, stride), dense.dtype)
            for slot, column in enumerate(padded[start : start + stride]):
                marks.append(marked[:, column] if column >= 0 else np.zeros(vector_length, bool))
                if column >= 0:
                    chunk[:, slot] = block[:, column]
            values.append(chunk.reshape(-1))
    flat = np.concatenate(values) if values else np.empty(0, dense.dtype)
    existing = np.stack(marks) if marks else np.empty((0, vector_length), bool)
    rows_of_slots = np.array(begin, np.int64), np.array(end, np.int64)
    return Layout(*rows_of_slots, np.array(columns, np.int32), flat, existing)


def attention(q: Array, k: Array, v: Array, mask: Array) -> tuple[Array, Array]:
    """softmax(q k^T / sqrt(width)) v over the mask in fp64, and how far fp32 may be off."""
    width = q.shape[-1]
    keys = np.swapaxes(k, -1, -2)
    scores = np.where(mask, q @ keys * width**-0.5, -np.inf)
    reach = np.where(mask, abs(q) @ abs(keys) * width**-0.5, 0).max(-1, initial=0, keepdims=True)
    top = scores.max(-1, initial=-np.inf, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total > 0, total, 1)
    slack = (2 * reach * (width + 4) + k.shape[-2] + 16) * 2.0**-22
    return weights @ v, slack * (weights @ abs(v))
