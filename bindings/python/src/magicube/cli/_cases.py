# SPDX-License-Identifier: Apache-2.0
"""Random problems of every operation, each with its answer from the oracle.

A problem follows from a random generator alone, so that seed and number reproduce it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import magicube as mc
from magicube import _oracle as oracle
from magicube._dtypes import DTYPES
from magicube.cli._problems import (
    compare_softmax,
    native,
    on_device,
    shown,
    there,
    unpacked,
    with_scale,
)

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

VECTOR_LENGTHS = (1, 2, 4, 8, 16, 32, 64)
STRIDES = (1, 8, 16, 32)
FLOATS = ("fp32", "fp16", "bf16", "e4m3")
SPMM_PAIRS = (
    ("int16", "int16"), ("int16", "int8"), ("int16", "int4"), ("int12", "int8"), ("int12", "int4"),
    ("int8", "int8"), ("int8", "int4"), ("int4", "int4"), ("uint8", "int8"), ("uint8", "int4"),
    *((name, name) for name in FLOATS),
)
SDDMM_TYPES = ("int16", "int8", "int4", *FLOATS)
SOFTMAX_OUT = ("fp32", "fp16", "bf16", "int16", "int8", "uint8", "int4")


@dataclass
class Case:
    """A problem; run(implementation) tells what is wrong with the answer, or None."""

    parameters: dict[str, Any]
    run: Callable[[str | None], str | None]


@dataclass
class Sparse:
    """A random sparse operand: the matrix, and what it means as dense arrays."""

    matrix: mc.SrBcrs
    values: Array  # dense, 0 where nothing exists; (batch,) m, n
    exists: Array
    batch: int | None
    parameters: dict[str, Any] = field(default_factory=dict)


def pick(rng: Rng, items: Iterable[Any]) -> Any:
    """One of the items."""
    choices = list(items)
    return choices[int(rng.integers(len(choices)))]


def size(rng: Rng, most: int) -> int:
    """A size up to most; small ones and 0 more often than by chance."""
    return int(rng.integers(pick(rng, (1, 4, 20, most)) + 1))


def _random_exists(rng: Rng, shape: tuple[int, ...], vector_length: int) -> Array:
    """Which elements exist: whole vectors, or single elements."""
    density = pick(rng, (0.0, 0.05, 0.3, 0.7, 1.0))
    if rng.random() < 0.5:
        return np.asarray(rng.random(shape) < density)
    blocks = -(-shape[-2] // vector_length)
    kept = rng.random((*shape[:-2], blocks, shape[-1])) < density
    return np.repeat(kept, vector_length, axis=-2)[..., : shape[-2], :]


def _convert(values: Array, exists: Array, dtype: str, **how: Any) -> mc.SrBcrs:
    wide = "int12" if dtype == "int12" else None
    return mc.SrBcrs.from_dense(native(values, dtype), mask=exists, dtype=wide, **how)


def random_sparse(rng: Rng, dtype: str, rows: int, cols: int, batches: bool = True) -> Sparse:
    """One matrix, a batch of different patterns, or a batch with one pattern."""
    vector_length = pick(rng, VECTOR_LENGTHS)
    strides = [s for s in STRIDES if dtype != "int4" or s >= 8 or vector_length % 2 == 0]
    how = {
        "vector_length": vector_length,
        "stride": pick(rng, strides),
        "index_dtype": pick(rng, ("int32", "int64")),
    }
    kind = pick(rng, ("none", "none", "patterns", "values")) if batches else "none"
    batch = None if kind == "none" else int(rng.integers(1, 4))
    shape = (rows, cols) if batch is None else (batch, rows, cols)
    exists = _random_exists(rng, shape if kind == "patterns" else (rows, cols), vector_length)
    values = oracle.random_values(rng, dtype, shape)
    if kind == "values":
        assert batch is not None
        each = [_convert(one, exists, dtype, **how) for one in values]
        matrix = each[0].with_values(np.stack([np.asarray(item.values) for item in each]), dtype)
        exists = np.broadcast_to(exists, shape)
    else:
        matrix = _convert(values, exists, dtype, **how)
    dense = np.where(exists, values, values.dtype.type(0))
    told = {"shape": list(shape), "batch": kind, "type": dtype, **how}
    return Sparse(matrix, dense, exists, batch, told)


def random_dense(rng: Rng, dtype: str, shape: tuple[int, ...], order: str) -> tuple[Any, Array]:
    """A dense operand as the library takes it, often with gaps between lines, and its values."""
    values = oracle.random_values(rng, dtype, shape)
    if dtype == "int4":
        return mc.pack_int4(values, order), values
    return spread(rng, values, order), values


def spread(rng: Rng, values: Array, order: str) -> Array:
    """The same values in the given order, with lines further apart than they need be."""
    gap = pick(rng, (0, 0, 1, 5))
    *batch, rows, cols = values.shape
    lines, length = (rows, cols) if order == "C" else (cols, rows)
    room: Array = np.empty((*batch, lines, length + gap), values.dtype)
    room.view(np.uint8)[...] = 0x7F  # what lies in the gaps must not matter
    view = room[..., :length]
    spread: Array = view if order == "C" else view.swapaxes(-1, -2)
    spread[...] = values
    return spread


def _scales(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.001, 0.1, shape).astype(np.float32)


def describe(expected: oracle.Interval, result: Array, what: str) -> str | None:
    """The first element that is wrong."""
    if result.shape != expected.lowest.shape:
        return f"{what} has shape {result.shape}; {expected.lowest.shape} is right"
    wrong = expected.wrong(result)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{what}: {int(wrong.sum())} of {wrong.size} elements are wrong; at {place} it is "
        f"{result[place]}, between {expected.lowest[place]} and {expected.highest[place]} is right"
    )


def _same(expected: Array, result: Array, what: str) -> str | None:
    return describe(oracle.Interval(expected, expected), np.asarray(result), what)


# ---- SpMM ----------------------------------------------------------------------------------------


def spmm_epilogue(
    rng: Rng, out_dtype: str, rows: int, cols: int, batch: int | None
) -> tuple[dict[str, Any], dict[str, Any], oracle.Epilogue]:
    """Declaration for the plan, arguments of the call, and the oracle's epilogue."""
    beta = pick(rng, (0.0, 0.0, 1.0, 0.5))
    if out_dtype == "int32":
        beta = float(beta != 0)
        return {}, {"beta": beta}, oracle.Epilogue(beta=beta)
    alpha = pick(rng, (1.0, -0.5))
    activation = pick(rng, (None, None, "relu", "gelu"))
    batched = [name for name in ("a_scale", "b_scale", "bias") if batch and rng.random() < 0.3]
    declared: dict[str, Any] = {"activation": activation, "batched": batched}
    given: dict[str, Any] = {"alpha": alpha, "beta": beta}
    seen: dict[str, Any] = {}
    lengths = {"a_scale": ("row", rows), "b_scale": ("col", cols), "bias": ("row", rows)}
    for name, (line, length) in lengths.items():
        kind = pick(rng, ("none", line) if name == "bias" else ("none", "tensor", line))
        declared[name] = kind == line if name == "bias" else kind
        if kind == "none":
            batched = [entry for entry in batched if entry != name]
            continue
        count = 1 if kind == "tensor" else length
        array = _scales(rng, (batch, count) if name in batched and batch else (count,))
        given[name] = array * np.float32(50) if name == "bias" else array
        seen[name] = given[name][..., None, :] if line == "col" else given[name][..., :, None]
    declared["batched"] = batched
    if out_dtype == "int8":
        declared["c_scale"] = True
        given["c_scale"] = seen["c_scale"] = np.array([pick(rng, (0.5, 3.0))], np.float32)
    return declared, given, oracle.Epilogue(alpha=alpha, beta=beta, activation=activation, **seen)


def spmm_case(rng: Rng, device: str = "cpu") -> Case:
    """SpMM with any types, shapes, orders, batch, epilogue and value mode."""
    lhs, rhs = pick(rng, SPMM_PAIRS)
    integer = oracle.is_integer(lhs)
    out = pick(rng, (*(("int32",) if integer else ()), "fp32", "fp16", "bf16", "int8"))
    rows, inner, cols = size(rng, 140), size(rng, 300), size(rng, 70)
    sparse = random_sparse(rng, lhs, rows, inner)
    batch = sparse.batch
    if batch is None and rng.random() < 0.2:
        batch = int(rng.integers(1, 4))  # one A serves the batch
    head = () if batch is None else (batch,)
    orders = {"rhs_order": pick(rng, "CF"), "out_order": pick(rng, "CF")}
    b, b_values = random_dense(rng, rhs, (*head, inner, cols), orders["rhs_order"])
    declared, given, epilogue = spmm_epilogue(rng, out, rows, cols, batch)
    start = oracle.random_values(rng, out, (*head, rows, cols))
    mode = pick(rng, ("fixed", "updatable", "per_call"))
    expected = oracle.product(sparse.values, b_values, integer, epilogue, out, start)
    other = np.zeros_like(np.asarray(sparse.matrix.values))

    def run(implementation: str | None) -> str | None:
        matrix = sparse.matrix.to(device)
        a = sparse.matrix.with_values(other, lhs).to(device) if mode == "updatable" else matrix
        plan = mc.SpMMPlan(
            a, rhs_dtype=rhs, out_dtype=out, n=cols, batch_count=batch or 1, value_mode=mode,
            implementation=implementation, **orders, **declared,
        )
        if mode == "updatable":
            plan.update_values(matrix.values)
        c = spread(rng, start, orders["out_order"])
        if epilogue.beta == 0 and not oracle.is_integer(out):
            c[...] = np.nan  # what C held must not matter
        values = matrix.values if mode == "per_call" else None
        result = plan(
            on_device(b, device), on_device(c, device), values=values, **there(given, device)
        )
        return describe(expected, shown(result), "C")

    told = {
        "lhs": lhs, "rhs": rhs, "out": out, "n": cols, "dense_batch": batch, "value_mode": mode,
        "a": sparse.parameters, "epilogue": sorted(given), "activation": epilogue.activation,
        "alpha": epilogue.alpha, "beta": epilogue.beta, **orders,
    }
    return Case(told, run)


# ---- SDDMM ---------------------------------------------------------------------------------------


def _layout(sparse: Sparse, dense: Array) -> Array:
    """The value array of a dense matrix in a sparse operand's layout, unpacked."""
    how = sparse.matrix.vector_length, sparse.matrix.stride
    if dense.ndim == 2:
        return oracle.sr_bcrs(dense, sparse.exists, *how).values
    each = [oracle.sr_bcrs(d, e, *how).values for d, e in zip(dense, sparse.exists)]
    return np.stack(each) if sparse.parameters["batch"] == "values" else np.concatenate(each)


def sddmm_case(rng: Rng, device: str = "cpu") -> Case:
    """SDDMM with any types, shapes, orders, batch and scales."""
    dtype = pick(rng, SDDMM_TYPES)
    integer = oracle.is_integer(dtype)
    out = pick(rng, (*(("int32",) if integer else ()), "fp32", "fp16", "bf16", "int16", "int8"))
    rows, inner, cols = size(rng, 140), size(rng, 200), size(rng, 140)
    sparse = random_sparse(rng, "fp16", rows, cols)
    head = () if sparse.batch is None else (sparse.batch,)
    orders = {"lhs_order": pick(rng, "CF"), "rhs_order": pick(rng, "CF")}
    a, a_values = random_dense(rng, dtype, (*head, rows, inner), orders["lhs_order"])
    b, b_values = random_dense(rng, dtype, (*head, inner, cols), orders["rhs_order"])
    alpha = 1.0 if out == "int32" else pick(rng, (1.0, -0.25))
    given: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    if out != "int32":
        if rng.random() < 0.5:
            given["a_scale"] = _scales(rng, (rows,))
            seen["a_scale"] = given["a_scale"][:, None]
        if rng.random() < 0.5:
            given["b_scale"] = seen["b_scale"] = _scales(rng, (cols,))
    if out in ("int16", "int8"):
        given["out_scale"] = seen["c_scale"] = np.array([0.75], np.float32)
    epilogue = oracle.Epilogue(alpha=alpha, **seen)
    expected = oracle.product(a_values, b_values, integer, epilogue, out)
    ends = (_layout(sparse, np.asarray(end)) for end in expected)
    raw = oracle.Interval(*ends)

    def run(implementation: str | None) -> str | None:
        result = mc.sddmm(
            sparse.matrix.to(device), on_device(a, device), on_device(b, device), out_dtype=out,
            alpha=alpha, implementation=implementation, **there(given, device),
        )
        return describe(raw, np.asarray(result.cpu().values), "values")

    told = {
        "type": dtype, "out": out, "k": inner, "pattern": sparse.parameters, "alpha": alpha,
        "scales": sorted(given), **orders,
    }
    return Case(told, run)


# ---- sparse softmax ------------------------------------------------------------------------------


def softmax_case(rng: Rng, device: str = "cpu") -> Case:
    """Sparse softmax with any types, shapes, batch and scales."""
    dtype, out = pick(rng, ("fp32", "fp16", "int32")), pick(rng, SOFTMAX_OUT)
    sparse = random_sparse(rng, out, size(rng, 140), size(rng, 140))
    rows, cols = sparse.values.shape[-2:]
    values = oracle.random_values(rng, dtype, sparse.values.shape)
    scores = sparse.matrix.with_values(_layout(sparse, values), dtype)
    alpha = 2.0**-22 if dtype == "int32" else 1.5
    given: dict[str, Any] = {}
    if rng.random() < 0.5:
        given["row_scale"] = _scales(rng, (rows,))
    if rng.random() < 0.5:
        given["col_scale"] = _scales(rng, (cols,))
    bias: Array | None = None
    if rng.random() < 0.5:
        bias = np.asarray(rng.standard_normal(values.shape, np.float32))
    row_scale = given["row_scale"][:, None] if "row_scale" in given else None
    scales: dict[str, Any] = {
        "row_scale": row_scale, "col_scale": given.get("col_scale"), "bias": bias,
    }
    exact = oracle.softmax(values, sparse.exists, alpha=alpha, **scales)
    bound = oracle.softmax_bound(values, alpha, **scales)
    if bias is not None:
        given["bias"] = _layout(sparse, bias)

    def run(implementation: str | None) -> str | None:
        result = mc.sparse_softmax(
            scores.to(device), out_dtype=out, alpha=alpha, implementation=implementation,
            **there(given, device),
        )
        matrix, scale = with_scale(result)
        matrix, dense = matrix.cpu(), unpacked(matrix.cpu())
        scale = None if scale is None else shown(scale)
        error, right = compare_softmax(dense, scale, exact, bound, out)
        if not right:
            return f"probabilities differ by {error:.3g}, more than the bound allows"
        raw = np.asarray(matrix.values)
        if out == "int4":
            nibbles = np.stack((raw & 15, raw >> 4), -1).reshape(*raw.shape[:-1], -1)
            raw = nibbles[..., : matrix.slots * matrix.vector_length]
        absent = _layout(sparse, np.ones(dense.shape, np.uint8)) == 0
        return "padding or absent elements are not 0" if np.any(raw[absent] != 0) else None

    told = {
        "type": dtype, "out": out, "pattern": sparse.parameters, "alpha": alpha,
        "given": sorted(given),
    }
    return Case(told, run)


# ---- attention -----------------------------------------------------------------------------------


def attention_case(rng: Rng, device: str = "cpu") -> Case:
    """Sparse attention with any pattern, heads, causal offset and key lengths."""
    dtype, out = pick(rng, ("fp32", "fp16", "bf16")), pick(rng, ("fp32", "fp16", "bf16"))
    rows, cols, width = size(rng, 100), size(rng, 100), int(rng.integers(1, 80))
    batch, kv_heads = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    heads = kv_heads * int(rng.integers(1, 4))
    sparse = random_sparse(rng, "fp32", rows, cols, batches=False)
    q, k, v = (
        rng.standard_normal((batch, count, length, width)).astype(DTYPES[dtype].storage)
        for count, length in ((heads, rows), (kv_heads, cols), (kv_heads, cols))
    )
    given: dict[str, Any] = {}
    mask = np.broadcast_to(sparse.exists, (batch, 1, rows, cols))
    if rng.random() < 0.5:
        given = {"causal": True, "causal_offset": int(rng.integers(-rows, cols + 1))}
        mask = mask & (np.arange(cols) <= np.arange(rows)[:, None] + given["causal_offset"])
    if rng.random() < 0.5:
        given["key_lengths"] = rng.integers(0, cols + 1, batch)
        mask = mask & (np.arange(cols) < given["key_lengths"][:, None, None, None])
    keys, values = (np.repeat(x.astype(np.float64), heads // kv_heads, axis=1) for x in (k, v))
    exact, bound = oracle.attention(q.astype(np.float64), keys, values, mask)
    digits = {"fp32": 24, "fp16": 11, "bf16": 8}
    if device == "cuda" and dtype != "fp32":  # Tensor Cores sum exponentials rounded to that type
        weighted = oracle.attention(q.astype(np.float64), keys, abs(values), mask)[0]
        bound = bound + weighted * 1.01 * 2.0 ** -digits[dtype]
    bound = bound + abs(exact) * 1.01 * 2.0 ** -digits[out] + (2.0**-24 if out == "fp16" else 1e-37)

    def run(implementation: str | None) -> str | None:
        result = mc.attention(
            on_device(q, device), on_device(k, device), on_device(v, device),
            sparse.matrix.to(device), out_dtype=out, implementation=implementation,
            **there(given, device),
        )
        error = abs(shown(result).astype(np.float64) - exact)
        if (error <= bound).all():
            return None
        return f"the output differs by {error.max():.3g}, more than the bound allows"

    told = {
        "type": dtype, "out": out, "pattern": sparse.parameters, "width": width, "batch": batch,
        "heads": [heads, kv_heads], "given": sorted(given),
    }
    return Case(told, run)


# ---- conversion, pruning, quantisation -----------------------------------------------------------


def convert_case(rng: Rng) -> Case:
    """Dense to SR-BCRS and back."""
    dtype = pick(rng, [name for name in oracle.STORAGE if name != "int32"])
    sparse = random_sparse(rng, dtype, size(rng, 140), size(rng, 200), batches=False)

    def run(implementation: str | None) -> str | None:
        matrix = sparse.matrix
        layout = oracle.sr_bcrs(
            sparse.values, sparse.exists, matrix.vector_length, matrix.stride
        )
        values = np.asarray(matrix.values)
        if dtype == "int4":
            nibbles = np.stack((values & 15, values >> 4), -1).reshape(-1)[: layout.values.size]
            values = ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)
        return (
            _same(layout.row_begin, np.asarray(matrix.row_begin), "row_begin")
            or _same(layout.row_end, np.asarray(matrix.row_end), "row_end")
            or _same(layout.col_indices, np.asarray(matrix.col_indices), "col_indices")
            or _same(layout.values, values, "values")
            or _same(sparse.exists.astype(np.uint8), matrix.to_mask(), "to_mask()")
            or _same(sparse.values, unpacked(matrix), "to_dense()")
        )

    return Case(sparse.parameters, run)


def prune_case(rng: Rng) -> Case:
    """Magnitude pruning of vectors; integer weights, so that ties occur."""
    shape = size(rng, 140), size(rng, 200)
    vector_length, sparsity = pick(rng, VECTOR_LENGTHS), float(rng.random())
    scope, norm = pick(rng, ("matrix", "row")), pick(rng, ("l2", "l1"))
    dtype = pick(rng, ("int8", "fp32"))
    weight = oracle.random_values(rng, dtype, shape)
    block_rows = -(-shape[0] // vector_length)
    count = shape[1] * (1 if scope == "row" else block_rows)
    drop = oracle.dropped(sparsity, count)
    expected = oracle.prune(weight, vector_length, drop, scope == "row", norm)

    def run(implementation: str | None) -> str | None:
        mask = mc.prune(
            weight, vector_length=vector_length, sparsity=sparsity, scope=scope, norm=norm
        )
        return _same(expected, mask, "mask")

    told = {
        "shape": list(shape), "vector_length": vector_length, "sparsity": sparsity, "scope": scope,
        "norm": norm, "type": dtype,
    }
    return Case(told, run)


def quantize_case(rng: Rng) -> Case:
    """Absmax quantisation in any order and granularity."""
    shape = size(rng, 100), size(rng, 100)
    source = pick(rng, ("fp32", "fp16", "bf16"))
    target = pick(rng, ("int4", "int8", "int12", "int16"))
    granularity = pick(rng, ("tensor", "row", "col"))
    order, out_order = pick(rng, "CF"), pick(rng, "CF")
    real, values = random_dense(rng, source, shape, order)
    axis = {"tensor": None, "row": 1, "col": 0}[granularity]
    integers, scales = oracle.absmax_quantize(values, target, axis)

    def run(implementation: str | None) -> str | None:
        quantized, scale = mc.quantize(
            real, target, granularity=granularity, out_order=out_order
        )
        int4 = isinstance(quantized, mc.Int4Array)
        shown = quantized.unpack() if int4 else np.asarray(quantized)
        return _same(scales, scale, "scale") or _same(integers, shown, "integers")

    told = {
        "shape": list(shape), "from": source, "to": target, "granularity": granularity,
        "order": order, "out_order": out_order,
    }
    return Case(told, run)
