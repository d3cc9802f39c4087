# SPDX-License-Identifier: Apache-2.0
"""The problems that `magicube bench` times: random data, a plan, the right answer, the peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import magicube as mc
from magicube import _oracle as oracle
from magicube.cli._console import UsageError
from magicube.cli._peers import (
    Peers,
    attention_peers,
    sddmm_peers,
    softmax_peers,
    spmm_peers,
)

Array = np.ndarray[Any, Any]
CUDA_OPERATIONS = ("spmm", "attention")


@dataclass(frozen=True)
class Setting:
    """What is asked for. lhs, rhs: types of the operands; for softmax lhs is that of the scores,
    for attention that of Q, K and V, and k is their width."""

    operation: str
    m: int
    k: int
    n: int
    vector_length: int
    stride: int | None
    sparsity: float
    lhs: str
    rhs: str
    out: str
    implementation: str | None
    threads: int
    seed: int
    heads: int = 1


@dataclass(frozen=True)
class Problem:
    """Something to time."""

    run: Callable[[], Any]
    check: Callable[[], tuple[float, bool]]
    """Runs it; tells the largest error and whether all elements are right."""
    operations: float
    """Of one run, counted over the elements stored."""
    pattern: mc.SrBcrs
    info: mc.PlanInfo
    alpha: float
    peers: Callable[[], tuple[Peers, Array]]
    """The peers, and the float64 result that all have to come near."""


def random_mask(
    rng: np.random.Generator, rows: int, cols: int, vector_length: int, sparsity: float
) -> Array:
    """A mask of whole vectors, of which a share of sparsity, rounded to a count, is dropped."""
    block_rows = -(-rows // vector_length)
    count = block_rows * cols
    kept = np.ones(count, bool)
    kept[rng.permutation(count)[: oracle.dropped(sparsity, count)]] = False
    return np.repeat(kept.reshape(block_rows, cols), vector_length, axis=0)[:rows]


def native(values: Array, dtype: str) -> Any:
    """The array as the library takes it."""
    return mc.pack_int4(values) if dtype == "int4" else values


def on_device(x: Any, device: str, ordinal: int = 0) -> Any:
    """A dense operand of the host where a device can read it, its lines as far apart."""
    if device == "cpu":
        return x
    if isinstance(x, mc.Int4Array):
        return x.cuda(ordinal)
    if not isinstance(x.base, np.ndarray) or x.base.ctypes.data != x.ctypes.data:
        return mc.to_cuda(x, ordinal)
    return mc.to_cuda(x.base, ordinal)._with(x.shape, x.strides)


def there(given: dict[str, Any], device: str) -> dict[str, Any]:
    """Arguments of a call, whose arrays a device can read."""
    return {
        name: on_device(x, device) if isinstance(x, np.ndarray) else x for name, x in given.items()
    }


def shown(x: Any) -> Array:
    """A dense result in host memory."""
    return x.numpy() if isinstance(x, mc.DeviceArray) else np.asarray(x)


def _matrix(values: Array, mask: Array, dtype: str, setting: Setting) -> mc.SrBcrs:
    return mc.SrBcrs.from_dense(
        native(values, dtype),
        vector_length=setting.vector_length,
        stride=setting.stride,
        mask=mask,
        dtype=dtype,
    )


def _alpha(setting: Setting, terms: float) -> float:
    """A factor that spreads the results over the output type's range."""
    if setting.out == "int32" or (not oracle.is_integer(setting.lhs) and setting.out != "int8"):
        return 1.0

    def spread(dtype: str) -> float:
        if not oracle.is_integer(dtype):
            return 8.0 if dtype == "e4m3" else 1.0
        low, high = oracle.INTEGER_RANGES[dtype]
        return (high - low) / math.sqrt(12) + (high + low + 1) / 2

    aim = {"int8": 40.0, "int16": 10000.0}.get(setting.out, 1.0)
    return float(
        np.float32(aim / (spread(setting.lhs) * spread(setting.rhs) * math.sqrt(max(terms, 1))))
    )


def _compared(expected: oracle.Interval, result: Array) -> tuple[float, bool]:
    return expected.error(result), not bool(expected.wrong(result).any())


def spmm(setting: Setting, handle: mc.Handle) -> Problem:
    """C = A @ B."""
    rng = np.random.default_rng(setting.seed)
    mask = random_mask(rng, setting.m, setting.k, setting.vector_length, setting.sparsity)
    values = oracle.random_values(rng, setting.lhs, (setting.m, setting.k))
    right = oracle.random_values(rng, setting.rhs, (setting.k, setting.n))
    weight = np.where(mask, values, values.dtype.type(0))
    a, b = _matrix(values, mask, setting.lhs, setting), native(right, setting.rhs)
    alpha = _alpha(setting, (1 - setting.sparsity) * setting.k)
    plan = mc.SpMMPlan(
        a, rhs_dtype=setting.rhs, out_dtype=setting.out, n=setting.n,
        implementation=setting.implementation, handle=handle,
    )
    out = np.empty((setting.m, setting.n), oracle.STORAGE[setting.out])

    def run() -> Any:
        return plan(b, out=out, alpha=alpha, handle=handle)

    def check() -> tuple[float, bool]:
        run()
        epilogue = oracle.Epilogue(alpha=alpha)
        expected = oracle.product(
            weight, right, oracle.is_integer(setting.lhs), epilogue, setting.out
        )
        return _compared(expected, out)

    def peers() -> tuple[Peers, Array]:
        exact = weight.astype(np.float64) @ right.astype(np.float64)
        return spmm_peers(weight, right, setting.threads), exact

    work = 2.0 * a.num_vectors * setting.vector_length * setting.n
    return Problem(run, check, work, a, plan.info, alpha, peers)


def sddmm(setting: Setting, handle: mc.Handle) -> Problem:
    """The elements of A @ B that a pattern names."""
    if setting.lhs != setting.rhs:
        raise UsageError(
            f"--lhs is {setting.lhs} and --rhs {setting.rhs}; SDDMM takes operands of one type"
        )
    rng = np.random.default_rng(setting.seed)
    mask = random_mask(rng, setting.m, setting.n, setting.vector_length, setting.sparsity)
    left = oracle.random_values(rng, setting.lhs, (setting.m, setting.k))
    right = oracle.random_values(rng, setting.rhs, (setting.k, setting.n))
    pattern = mc.SrBcrs.from_mask(
        mask, vector_length=setting.vector_length, stride=setting.stride
    )
    a, b = native(left, setting.lhs), native(right, setting.rhs)
    alpha = _alpha(setting, setting.k)
    plan = mc.SDDMMPlan(
        pattern, dtype=setting.lhs, out_dtype=setting.out, k=setting.k,
        implementation=setting.implementation, handle=handle,
    )
    out = plan(a, b, alpha=alpha, handle=handle).values

    def run() -> mc.SrBcrs:
        return plan(a, b, out, alpha, handle=handle)

    def check() -> tuple[float, bool]:
        expected = oracle.product(
            left, right, oracle.is_integer(setting.lhs), oracle.Epilogue(alpha=alpha), setting.out
        )
        zero = expected.lowest.dtype.type(0)
        low, high = (np.where(mask, end, zero) for end in expected)
        return _compared(oracle.Interval(low, high), np.asarray(run().to_dense()))

    def peers() -> tuple[Peers, Array]:
        exact = left.astype(np.float64) @ right.astype(np.float64)
        return sddmm_peers(left, right, mask, setting.threads), np.where(mask, exact, 0.0)

    work = 2.0 * pattern.num_vectors * setting.vector_length * setting.k
    return Problem(run, check, work, pattern, plan.info, alpha, peers)


def softmax(setting: Setting, handle: mc.Handle) -> Problem:
    """Softmax over the existing elements of each row."""
    rng = np.random.default_rng(setting.seed)
    mask = random_mask(rng, setting.m, setting.n, setting.vector_length, setting.sparsity)
    scores = oracle.random_values(rng, setting.lhs, (setting.m, setting.n))
    a = _matrix(scores, mask, setting.lhs, setting)
    alpha = 2.0**-29 if setting.lhs == "int32" else 1.0
    plan = mc.SparseSoftmaxPlan(
        a, in_dtype=setting.lhs, out_dtype=setting.out, implementation=setting.implementation,
        handle=handle,
    )
    probabilities, scale = with_scale(plan(a, alpha=alpha, handle=handle))
    out = probabilities.values

    def run() -> Any:
        return plan(a, out, alpha, out_scale=scale, handle=handle)

    def check() -> tuple[float, bool]:
        exact = oracle.softmax(scores, mask, alpha=alpha)
        bound = oracle.softmax_bound(scores, alpha, None, None, None)
        run()
        return compare_softmax(unpacked(probabilities), scale, exact, bound, setting.out)

    def peers() -> tuple[Peers, Array]:
        scaled = scores.astype(np.float64) * alpha
        return softmax_peers(scaled, mask, setting.threads), oracle.softmax(
            scores, mask, alpha=alpha
        )

    work = 4.0 * a.num_vectors * setting.vector_length  # scale, exponential, sum, division
    return Problem(run, check, work, a, plan.info, alpha, peers)


def attention(setting: Setting, handle: mc.Handle) -> Problem:
    """Attention of some heads over one pattern."""
    rng = np.random.default_rng(setting.seed)
    mask = random_mask(rng, setting.m, setting.n, setting.vector_length, setting.sparsity)
    pattern = mc.SrBcrs.from_mask(
        mask, vector_length=setting.vector_length, stride=setting.stride
    )
    q, k, v = (
        oracle.round_to(
            rng.standard_normal((1, setting.heads, length, setting.k), np.float32), setting.lhs
        )
        for length in (setting.m, setting.n, setting.n)
    )
    plan = mc.AttentionPlan(
        pattern, head_dim=setting.k, dtype=setting.lhs, out_dtype=setting.out,
        q_heads=setting.heads, implementation=setting.implementation, handle=handle,
    )
    out = plan(q, k, v, handle=handle)

    def run() -> Any:
        return plan(q, k, v, out, handle=handle)

    def exact(head: int) -> tuple[Array, Array]:
        queries, keys, values = (x[0, head].astype(np.float64) for x in (q, k, v))
        return oracle.attention(queries, keys, values, mask)

    def check() -> tuple[float, bool]:
        run()
        error, right = 0.0, True
        for head in range(setting.heads):
            result, slack = exact(head)
            expected = oracle.Interval(
                oracle.round_to((result - slack).astype(np.float32), setting.out),
                oracle.round_to((result + slack).astype(np.float32), setting.out),
            )
            one = _compared(expected, out[0, head])
            error, right = max(error, one[0]), right and one[1]
        return error, right

    def peers() -> tuple[Peers, Array]:
        queries, keys, values = (x[0].astype(np.float32) for x in (q, k, v))
        right = np.stack([exact(head)[0] for head in range(setting.heads)])
        return attention_peers(queries, keys, values, mask, setting.threads), right

    work = 4.0 * pattern.num_vectors * setting.vector_length * setting.k * setting.heads
    return Problem(run, check, work, pattern, plan.info, 1.0, peers)


def with_scale(result: mc.SrBcrs | tuple[mc.SrBcrs, Any]) -> tuple[mc.SrBcrs, Any]:
    """Probabilities and their scales; None for those of floating types."""
    return (result, None) if isinstance(result, mc.SrBcrs) else result


def unpacked(matrix: mc.SrBcrs) -> Array:
    """The dense matrix, int4 as int8."""
    dense = matrix.to_dense()
    return dense.unpack() if isinstance(dense, mc.Int4Array) else np.asarray(dense)


def compare_softmax(
    dense: Array, scale: Any, exact: Array, bound: float, out_dtype: str
) -> tuple[float, bool]:
    """Largest error of probabilities, and whether all are within the bound."""
    if scale is None:
        slack = exact * bound
        expected = oracle.Interval(
            oracle.round_to((exact - slack).astype(np.float32), out_dtype),
            oracle.round_to((exact + slack).astype(np.float32), out_dtype),
        )
        return _compared(expected, dense)
    expected_scale, integers = oracle.quantized_rows(exact, out_dtype)
    scale = np.asarray(scale, np.float64)
    slack = integers * (2 * bound)
    right = np.abs(dense - integers) <= 0.5 + slack
    right &= (np.abs(scale - expected_scale) <= expected_scale * 2 * bound)[..., None]
    error = np.abs(dense * scale[..., None] - exact)
    return float(error.max(initial=0)), bool(right.all())


BUILDERS: dict[str, Callable[[Setting, mc.Handle], Problem]] = {
    "spmm": spmm,
    "sddmm": sddmm,
    "softmax": softmax,
    "attention": attention,
}
