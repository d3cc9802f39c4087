# SPDX-License-Identifier: Apache-2.0
"""Attention over a sparse pattern: softmax(scale Q K^T) V over the keys that each query sees."""

from __future__ import annotations

from typing import Any, Mapping

from magicube import _native
from magicube._arrays import address, as_float, as_int, choose
from magicube._attention_scales import granularity_of, scales_of
from magicube._attention_tensors import Tensor, check_shape, integers, tensor
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DTYPES, resolve_dtype
from magicube._plan import Plan, Problem, check_implementation, check_sparse, implementations
from magicube.errors import InvalidValueError
from magicube.sparse import SrBcrs


def _sharing(pattern: SrBcrs, patterns: object, batch: int, heads: int) -> str:
    """Which heads share a pattern; found out from their number where that tells it."""
    if patterns is not None:
        choose(patterns, _native.ATTENTION_PATTERNS, "patterns")
        return str(patterns)
    count = pattern.batch_count
    if pattern.ndim == 2 or count == 1:
        return "shared"
    counts = {"head": heads, "batch": batch, "batch_head": batch * heads}
    fitting = [name for name, number in counts.items() if number == count]
    if heads == 1 or batch <= 1:
        fitting = fitting[:1]  # the names mean the same
    if len(fitting) == 1:
        return fitting[0]
    raise InvalidValueError(
        f"pattern is a batch of {count} for a batch of {batch} with {heads} heads; "
        + (
            f"say with patterns which of {', '.join(fitting)} it is for"
            if fitting
            else f"it must have 1, {heads} (head), {batch} (batch) or {batch * heads} (batch_head)"
        )
    )


class AttentionPlan(Plan):
    """Attention at one pattern prepared for many calls; see :func:`attention`.

    Parameters
    ----------
    pattern : SrBcrs
        Lq x Lk, or a batch of different patterns. Copied: its arrays may then be freed.
    head_dim : int
    dtype
        Of Q, K and V: fp32, fp16, bf16, int8 or int4.
    out_dtype : optional
        fp32, fp16 or bf16; by default as ``dtype``, fp16 for integers.
    batch_count, q_heads : int
    kv_heads : int, optional
        A divisor of ``q_heads``; by default the same.
    patterns : {"shared", "head", "batch", "batch_head"}, optional
        Which heads share a pattern of the batch of patterns; needed where their number does not
        tell.
    causal : bool
    causal_offset : int
        Query i sees key j only if j <= i + causal_offset.
    causal_offsets, key_lengths, log_sum_exp : bool
        Whether every execution brings offsets, brings lengths, and returns the log-sum-exp.
    probability_bits : int, optional
        To which the softmax of integers is rounded: 16 or 8 for int8, 8 or 4 for int4; by default
        8.
    q_scale, k_scale : {"none", "tensor", "row"}
        Whether every execution brings a scale, and if so one in all or one a query or key.
    v_scale : {"none", "tensor", "col"}
        The same; one a feature.
    implementation : str, optional
        One of :func:`attention_implementations`.
    handle : Handle, optional

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    NotSupportedError
        If the types are not supported, or the named implementation declines.
    """

    __slots__ = ("_flags", "_q_shape", "_k_shape", "_scales", "_source", "_target")
    _type = _native.AttentionPlan
    _operand = "pattern"

    def __init__(
        self,
        pattern: SrBcrs,
        *,
        head_dim: int,
        dtype: object = "fp16",
        out_dtype: object = None,
        batch_count: int = 1,
        q_heads: int = 1,
        kv_heads: int | None = None,
        patterns: str | None = None,
        causal: bool = False,
        causal_offset: int = 0,
        causal_offsets: bool = False,
        key_lengths: bool = False,
        log_sum_exp: bool = False,
        probability_bits: int | None = None,
        q_scale: str = "none",
        k_scale: str = "none",
        v_scale: str = "none",
        implementation: str | None = None,
        handle: Handle | None = None,
    ) -> None:
        pattern = check_sparse(pattern, "pattern")._pattern()
        batch, heads = as_int(batch_count, "batch_count"), as_int(q_heads, "q_heads")
        groups = heads if kv_heads is None else as_int(kv_heads, "kv_heads")
        width = as_int(head_dim, "head_dim")
        self._source = resolve_dtype(dtype, "dtype")
        integers = self._source.name in ("int8", "int4")
        usual = DTYPES["fp16"] if integers else self._source
        self._target = usual if out_dtype is None else resolve_dtype(out_dtype, "out_dtype")
        bits = 8 if integers else 0
        if probability_bits is not None:
            bits = as_int(probability_bits, "probability_bits")
        self._scales = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        self._q_shape = (batch, heads, pattern.shape[-2], width)
        self._k_shape = (batch, groups, pattern.shape[-1], width)
        self._flags = {
            "causal_offsets": bool(causal_offsets),
            "key_lengths": bool(key_lengths),
            "log_sum_exp": bool(log_sum_exp),
        }
        sharing = _sharing(pattern, patterns, batch, heads)
        entries = {
            "patterns": _native.ATTENTION_PATTERNS[sharing],
            "in_type": self._source.code,
            "out_type": self._target.code,
            "batch_count": batch,
            "q_heads": heads,
            "kv_heads": groups,
            "head_dim": width,
            "causal": int(bool(causal)),
            "causal_offset": as_int(causal_offset, "causal_offset"),
            **{name: int(value) for name, value in self._flags.items()},
            "probability_bits": bits,
            **{
                name: choose(value, _native.GRANULARITIES, name)
                for name, value in self._scales.items()
            },
        }
        name = check_implementation(implementation)
        self._create(Problem(pattern, pattern._descriptor(), entries, name), handle)

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any = None,
        scale: float | None = None,
        *,
        causal_offsets: Any = None,
        key_lengths: Any = None,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        handle: Handle | None = None,
    ) -> Any:
        """Execute the plan.

        Parameters
        ----------
        q, k, v : array
            As in :func:`attention`, of the plan's sizes.
        out : array, optional
            For the result, of q's shape; its rows are contiguous.
        scale : float, optional
        causal_offsets, key_lengths : array of integers
            Those that the plan was made for, and no others.
        q_scale, k_scale, v_scale : array of fp32, or number
            The same.

        Returns
        -------
        array, or (array, array)
            As :func:`attention` returns them; ``out`` if it is given.

        Raises
        ------
        InvalidValueError
            If an array does not have the plan's type or shape.
        """
        call = self._call_of(handle)
        return self._run(
            call, tensor(q, "q", call), tensor(k, "k", call), tensor(v, "v", call), out, scale,
            causal_offsets, key_lengths,
            {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale},
        )

    def _run(
        self,
        call: Call,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Any,
        scale: float | None,
        causal_offsets: Any,
        key_lengths: Any,
        scales: Mapping[str, Any],
    ) -> Any:
        plan = self._open()
        check_shape(q, "q", self._q_shape, self._source)
        check_shape(k, "k", self._k_shape, self._source)
        check_shape(v, "v", self._k_shape, self._source)
        given = {"causal_offsets": causal_offsets, "key_lengths": key_lengths}
        arrays = {}
        for name, x in given.items():
            if (x is not None) != self._flags[name]:
                made = "with" if self._flags[name] else "without"
                raise InvalidValueError(
                    f"{name} is {'None' if x is None else 'given'}, but the plan was made {made} it"
                )
            if x is not None:
                arrays[name] = integers(x, name, self._q_shape[0], call)
        batch, heads, _, width = self._k_shape
        shapes = {
            "q_scale": self._q_shape[:3],
            "k_scale": self._k_shape[:3],
            "v_scale": (batch, heads, width),
        }
        for name, x in scales.items():
            array = scales_of(x, name, shapes[name], self._scales[name], call)
            if array is not None:
                arrays[name] = array
        shape = self._q_shape[4 - q.axes :]
        made_here = out is None
        result = q.library.empty(shape, self._target)[0] if made_here else out
        target = tensor(result, "out", call, writable=True)
        check_shape(target, "out", self._q_shape, self._target)
        args = {name: address(array) for name, array in arrays.items()}
        statistics: Any = None
        if self._flags["log_sum_exp"]:
            statistics, view = q.library.empty(shape[:-1], DTYPES["fp32"])
            args["log_sum_exp"] = address(view)
        factor = None if scale is None else as_float(scale, "scale")
        owner, scratch = call.scratch(plan.workspace_bytes)
        plan.execute(
            call.native(), factor, q.native, k.native, v.native, target.native, args, scratch
        )
        del owner
        if made_here:
            result = q.library.give(result)
        return result if statistics is None else (result, q.library.give(statistics))


def attention(
    q: Any,
    k: Any,
    v: Any,
    pattern: SrBcrs,
    *,
    scale: float | None = None,
    out_dtype: object = None,
    patterns: str | None = None,
    causal: bool = False,
    causal_offset: int = 0,
    causal_offsets: Any = None,
    key_lengths: Any = None,
    log_sum_exp: bool = False,
    probability_bits: int | None = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    implementation: str | None = None,
    handle: Handle | None = None,
) -> Any:
    """softmax(scale Q K^T) V, where each query sees the keys that its row of the pattern names.

    Query i of matrix b sees key j if the pattern has element (i, j), if j <= i + causal_offset +
    causal_offsets[b] where it is causal, and if j < key_lengths[b]: exactly, for every vector
    length. A query that sees no key gets 0 and a log-sum-exp of -infinity. Sums and statistics are
    fp32. It makes a plan for this one call; where the pattern is used again,
    :class:`AttentionPlan` saves that.

    Q, K and V of int8 or int4 stand for their scales times them, as :func:`quantize_attention`
    makes them; the softmax is then rounded to ``probability_bits`` unsigned bits against the
    largest score of its row, and the row's sum is that of the rounded values.
    ``magicube/attention.h`` defines it.

    Parameters
    ----------
    q : array
        (batch, q_heads, Lq, head_dim), (q_heads, Lq, head_dim) or (Lq, head_dim), of fp32, fp16,
        bf16 or int8, or an :class:`Int4Array`. Rows are contiguous; the other axes may lie in any
        order and with gaps, as transposed views have them.
    k, v : array
        (batch, kv_heads, Lk, head_dim) and so on, of q's type; q_heads is a multiple of kv_heads.
    pattern : SrBcrs
        Lq x Lk, such as those of :mod:`magicube.patterns`; or a batch of them.
    scale : float, optional
        1 / sqrt(head_dim) by default.
    out_dtype : optional
        fp32, fp16 or bf16; by default q's type, fp16 for integers.
    patterns : {"shared", "head", "batch", "batch_head"}, optional
        Which heads share a pattern of a batch of patterns: there are 1, q_heads, batch or batch *
        q_heads. Needed only where their number does not tell.
    causal : bool
    causal_offset : int
    causal_offsets : array of integers, optional
        Shape (batch,), with ``causal``. In CUDA memory of int64; a list is copied there, which
        waits for the device.
    key_lengths : array of integers, optional
        Shape (batch,), each in [0, Lk]; as causal_offsets.
    log_sum_exp : bool
        Whether to return it as well.
    probability_bits : int, optional
        For int8 16 or 8, for int4 8 or 4; by default 8.
    q_scale, k_scale : number or array of fp32, optional
        One number, or one a query of (batch, q_heads, Lq), one a key of (batch, kv_heads, Lk).
    v_scale : number or array of fp32, optional
        One number, or one a feature of (batch, kv_heads, head_dim).
    implementation : str, optional
        One of :func:`attention_implementations`; by default the library chooses.
    handle : Handle, optional
        By default this thread's own handle of the device that the arrays lie on.

    Notes
    -----
    On CUDA all arrays lie on the pattern's device, and attention runs on the current stream of the
    library that q is from. Making the plan waits for it; executing an :class:`AttentionPlan` does
    not, and can be captured in a graph.

    Returns
    -------
    array, or (array, array)
        Of q's shape and library; with ``log_sum_exp`` also the natural logarithm of each query's
        sum of exponentials, fp32 of q's shape without its last axis.

    Raises
    ------
    TypeError
        If an operand is no array, or pattern is no SrBcrs.
    InvalidValueError
        If a shape or a value breaks a rule.
    NotSupportedError
        If the type is not supported.
    DeviceMismatchError
        If the arrays lie on different devices.
    """
    pattern = check_sparse(pattern, "pattern")
    call = pattern._call(handle, "pattern", ordered=False)
    queries, keys, values = tensor(q, "q", call), tensor(k, "k", call), tensor(v, "v", call)
    pattern._order(call)
    batch, heads, _, width = queries.shape
    scales = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
    with AttentionPlan(
        pattern,
        head_dim=width,
        dtype=queries.dtype.name,
        out_dtype=out_dtype,
        batch_count=batch,
        q_heads=heads,
        kv_heads=keys.shape[1],
        patterns=patterns,
        causal=causal,
        causal_offset=causal_offset,
        causal_offsets=causal_offsets is not None,
        key_lengths=key_lengths is not None,
        log_sum_exp=log_sum_exp,
        probability_bits=probability_bits,
        **{name: granularity_of(x, name) for name, x in scales.items()},
        implementation=implementation,
        handle=handle,
    ) as plan:
        return plan._run(
            call, queries, keys, values, None, scale, causal_offsets, key_lengths, scales
        )


def attention_implementations(device: str = "cpu") -> list[str]:
    """Names of the implementations of attention on a device, the reference last."""
    return implementations(_native.AttentionPlan, device)
