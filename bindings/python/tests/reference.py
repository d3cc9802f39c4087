# SPDX-License-Identifier: Apache-2.0
"""What the library documents, again in NumPy and Python integers; it shares no code with it."""

from __future__ import annotations

import math
from typing import Any

import magicube as mc
import ml_dtypes
import numpy as np

F32 = np.float32
RANGES = {
    "int4": (-8, 7),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int12": (-2048, 2047),
    "int16": (-32768, 32767),
    "int32": (-(2**31), 2**31 - 1),
}
STORAGE: dict[str, Any] = {
    "int4": np.int8,
    "int8": np.int8,
    "uint8": np.uint8,
    "int12": np.int16,
    "int16": np.int16,
    "int32": np.int32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
}
INTEGER_PAIRS = [
    ("int16", "int16"),
    ("int16", "int8"),
    ("int16", "int4"),
    ("int12", "int8"),
    ("int12", "int4"),
    ("int8", "int8"),
    ("int8", "int4"),
    ("int4", "int4"),
    ("uint8", "int8"),
    ("uint8", "int4"),
]
FLOATS = ["fp32", "fp16", "bf16", "e4m3"]
VECTOR_LENGTHS = [1, 2, 4, 8, 16, 32, 64]
STRIDES = [1, 8, 16, 32]
# Largest relative error of rounding to a type.
EPS = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8, "e4m3": 2.0**-4}


# ---- data ----------------------------------------------------------------------------------------


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random data over the whole range, both ends included; int4 unpacked in int8."""
    if dtype in RANGES:
        low, high = RANGES[dtype]
        data = rng.integers(low, high, shape, endpoint=True)
        ends = rng.random(shape)
        data = np.where(ends < 0.05, low, np.where(ends > 0.95, high, data))
        return data.astype(STORAGE[dtype])
    scale = np.exp2(rng.integers(-3, 4, shape))
    return (rng.standard_normal(shape) * scale).astype(np.float32).astype(STORAGE[dtype])


def keep(rng: np.random.Generator, shape: tuple[int, ...], V: int, density: float) -> np.ndarray:
    """A random boolean mask of whole V x 1 vectors, with empty block rows now and then."""
    *head, rows, cols = shape
    blocks = -(-rows // V)
    chosen = rng.random((*head, blocks, cols)) < density
    chosen &= rng.random((*head, blocks, 1)) < 0.85
    return np.repeat(chosen, V, axis=-2)[..., :rows, :]


def stored(data: np.ndarray, dtype: str, order: str = "C", pad: int = 0) -> Any:
    """The data as the package takes it: packed for int4, in an order, with a larger ld.

    What lies between the rows (or columns) is poison.
    """
    *head, rows, cols = data.shape
    lines, length = (rows, cols) if order == "C" else (cols, rows)
    across = data if order == "C" else data.swapaxes(-1, -2)
    if dtype == "int4":
        width = -(-length // 2)
        packed = np.full((*head, lines, width + pad), 0x5A, np.uint8)
        nibbles = across.astype(np.uint8) & 15
        packed[..., : length // 2] = nibbles[..., 0 : length // 2 * 2 : 2]
        packed[..., : length // 2] |= nibbles[..., 1::2] << 4
        if length % 2:
            packed[..., width - 1] = nibbles[..., -1] | 0xA0
        return mc.Int4Array(packed[..., :width], data.shape, order)
    buffer = poison((*head, lines, length + pad), data.dtype)
    buffer[..., :length] = across
    view = buffer[..., :length]
    return view if order == "C" else view.swapaxes(-1, -2)


def poison(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array full of NaN, or of a large odd integer."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return np.full(shape, 0x5B if dtype.itemsize == 1 else 0x5B5B, dtype)
    return np.full(shape, np.nan, np.float32).astype(dtype)


# ---- SR-BCRS -------------------------------------------------------------------------------------


def default_stride(V: int, dtype: str) -> int:
    """The stride that is taken where none is named."""
    if dtype == "int4":
        return 32
    if V == 1:
        return 1
    return 32 if np.dtype(STORAGE[dtype]).itemsize == 1 else 16


def encode(
    dense: np.ndarray, V: int, S: int, mask: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """SR-BCRS arrays of a matrix as formats.md lays them out; one value an item also for int4."""
    rows, cols = dense.shape
    exists = (dense != 0) if mask is None else mask.astype(bool)
    begin, end, columns, chunks, masks = [], [], [], [], []
    for block in range(-(-rows // V)):
        tall = slice(block * V, min((block + 1) * V, rows))
        found = np.flatnonzero(exists[tall].any(axis=0))
        slots = -(-len(found) // S) * S
        begin.append(len(columns))
        end.append(len(columns) + len(found))
        vectors = np.zeros((V, slots), dense.dtype)
        vectors[: tall.stop - tall.start, : len(found)] = dense[tall][:, found]
        marks = np.zeros((V, slots), bool)
        marks[: tall.stop - tall.start, : len(found)] = exists[tall][:, found]
        columns += [*found, *[-1] * (slots - len(found))]
        chunks += [vectors[:, at : at + S].ravel() for at in range(0, slots, S)]
        masks.append(np.packbits(marks.T, axis=1, bitorder="little").ravel())
    return {
        "row_begin": np.array(begin, np.int64),
        "row_end": np.array(end, np.int64),
        "col_indices": np.array(columns, np.int32),
        "values": np.concatenate(chunks) if chunks else np.zeros(0, dense.dtype),
        "element_mask": np.concatenate(masks) if masks else np.zeros(0, np.uint8),
    }


def decode(matrix: mc.SrBcrs, values: np.ndarray | None = None) -> np.ndarray:
    """Dense form of one SR-BCRS matrix, read straight from its arrays."""
    V, S = matrix.vector_length, matrix.stride
    items = unpacked(matrix) if values is None else values
    rows, cols = matrix.shape[-2:]
    dense = np.zeros((rows, cols), items.dtype)
    for block, (begin, end) in enumerate(zip(matrix.row_begin, matrix.row_end)):
        for slot in range(int(begin), int(end)):
            for v in range(min(V, rows - block * V)):
                at = slot // S * V * S + v * S + slot % S
                dense[block * V + v, matrix.col_indices[slot]] = items[at]
    return dense


def unpacked(matrix: mc.SrBcrs) -> np.ndarray:
    """Its value array with one element an item."""
    assert matrix.values is not None
    if matrix.dtype != "int4":
        return matrix.values
    nibbles = np.stack((matrix.values & 15, matrix.values >> 4), axis=-1)
    lines = nibbles.reshape(*matrix.values.shape[:-1], -1)
    return ((lines ^ 8).astype(np.int8) - 8).astype(np.int8)


def sparse(
    data: np.ndarray,
    dtype: str,
    V: int,
    S: int | None = None,
    mask: np.ndarray | None = None,
    **options: Any,
) -> mc.SrBcrs:
    """The package's matrix of dense data (zero outside the mask)."""
    label = "int12" if dtype == "int12" else None
    return mc.SrBcrs.from_dense(
        stored(data, dtype), vector_length=V, stride=S, mask=mask, dtype=label, **options
    )


# ---- arithmetic ----------------------------------------------------------------------------------


def exact_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B in Python integers."""
    return A.astype(object) @ B.astype(object)


def as_fp32(sums: np.ndarray) -> np.ndarray:
    """Python integers rounded once to fp32: below 2^63, where NumPy's cast is exact rounding."""
    return np.asarray(sums).astype(np.int64).astype(F32)


def fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """a * b + c rounded once to fp32.

    The product of two fp32 numbers is exact in fp64. The sum is rounded to odd there (its last bit
    is set if it is not exact), after which rounding to fp32 is right.
    """
    with np.errstate(all="ignore"):
        product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
        addend = np.asarray(c, np.float64)
        total = product + addend
        back = total - product
        error = (product - (total - back)) + (addend - back)
        even = (total.view(np.int64) & 1) == 0
        adjust = np.isfinite(total) & (error != 0) & even
        toward = np.where(error > 0, np.inf, -np.inf)
        total = np.where(adjust, np.nextafter(total, toward), total)
        return total.astype(F32)


def gelu(y: np.ndarray) -> np.ndarray:
    """GELU in fp64, of the erf form."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    wide = y.astype(np.float64)
    return wide * (1 + erf(wide / math.sqrt(2))) / 2 if y.size else wide


def round_to(y: np.ndarray, dtype: str) -> np.ndarray:
    """fp32 rounded to the output type, saturated for integers."""
    if dtype in RANGES:
        return np.clip(np.rint(y), *RANGES[dtype]).astype(STORAGE[dtype])
    with np.errstate(over="ignore"):
        return y.astype(STORAGE[dtype])


def epilogue(
    sums: np.ndarray,
    out: str,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    C: np.ndarray | None = None,
    a_scale: Any = 1.0,
    b_scale: Any = 1.0,
    bias: Any = 0.0,
    activation: str | None = None,
    c_scale: float | None = None,
) -> np.ndarray:
    """spmm.h's epilogue, bit by bit; ``sums`` are exact (Python integers, or fp32)."""
    if out == "int32":
        total = sums if not beta else sums + C.astype(object)
        wrapped = np.vectorize(lambda x: (int(x) + 2**31) % 2**32 - 2**31, otypes=[np.int64])
        return wrapped(total).astype(np.int32) if total.size else total.astype(np.int32)
    sums = as_fp32(sums) if sums.dtype == object else sums
    scale = (F32(alpha) * column(a_scale)).astype(F32) * np.asarray(b_scale, F32)
    start = np.broadcast_to(column(bias), sums.shape)
    if beta:
        start = fma(F32(beta), C.astype(F32), start)
    y = fma(scale, sums, start)
    if activation == "relu":
        y = np.maximum(y, F32(0))
    if activation == "gelu":
        y = gelu(y).astype(F32)
    if c_scale is not None:
        y = y * (F32(1) / F32(c_scale))
    return round_to(y, out)


def column(x: Any) -> np.ndarray:
    """Values a row, to be combined with a matrix."""
    x = np.asarray(x, F32)
    return x if x.ndim == 0 else x[:, None]


def float_bound(A: np.ndarray, B: np.ndarray, out: str) -> tuple[np.ndarray, np.ndarray]:
    """A @ B of floating data in fp64, and how far fp32 sums rounded to ``out`` may lie off."""
    wide, tall = A.astype(np.float64), B.astype(np.float64)
    exact = wide @ tall
    terms = A.shape[1] + 2
    slack = terms * 2.0**-23 * (abs(wide) @ abs(tall))
    return exact, slack + EPS.get(out, 0.0) * 1.01 * (abs(exact) + slack) + 1e-7


def same_bits(left: np.ndarray, right: np.ndarray) -> None:
    """Assert that two arrays are equal bit by bit, but for the payload of NaN and the sign of 0."""
    assert left.dtype == right.dtype and left.shape == right.shape
    if left.dtype.kind not in "iu":
        left, right = left.astype(np.float32), right.astype(np.float32)
    np.testing.assert_array_equal(left, right)
