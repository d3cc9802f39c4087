# SPDX-License-Identifier: Apache-2.0
"""Softmax over the existing elements of each row of a sparse matrix."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from magicube import _native
from magicube._arrays import Library, Stored, address, as_float, check_writable, contiguous
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._layout import check_values, new_array, out_values, raw_values
from magicube._plan import (
    Plan,
    Problem,
    Scales,
    check_all,
    check_implementation,
    check_sparse,
    declare_all,
    implementations,
    plan_batch,
    pointer_entries,
    read_all,
    scale_entries,
)
from magicube.errors import InvalidValueError
from magicube.sparse import SrBcrs

_FP32 = DTYPES["fp32"]


def _lengths(pattern: SrBcrs) -> dict[str, dict[str, int]]:
    """Elements of each array of scales, by granularity."""
    return {
        "row_scale": {"tensor": 1, "row": pattern.shape[-2]},
        "col_scale": {"tensor": 1, "col": pattern.shape[-1]},
    }


def _problem(
    pattern: SrBcrs,
    source: DType,
    target: DType,
    batch_count: int,
    scales: Mapping[str, Scales],
    bias: bool,
    bias_batch_stride: int,
    implementation: object,
) -> Problem:
    entries = {
        "in_type": source.code,
        "out_type": target.code,
        "batch_count": batch_count,
        "bias": int(bias),
        "bias_batch_stride": bias_batch_stride,
        **scale_entries(scales),
    }
    return Problem(pattern, pattern._descriptor(), entries, check_implementation(implementation))


def _bias_values(bias: Any, pattern: SrBcrs, batch: int | None, call: Call) -> Stored | None:
    """Summands in the pattern's layout: one array, or one for each value array of a batch."""
    if bias is None:
        return None
    array, _ = call.array(raw_values(bias, "bias"), "bias")
    own = batch if array.ndim == 2 and pattern.ndim == 2 else None
    check_values(array, "bias", pattern._value_count, _FP32, own)
    return array


def _bias_stride(array: Stored | None) -> int:
    return 0 if array is None or array.ndim == 1 else int(array.shape[1])


def _out_scales(
    pattern: SrBcrs, batch: int | None, given: Any, call: Call, library: Library
) -> tuple[Any, Stored]:
    """The array that receives a scale a row, (M,) or (batch, M), and a view of it."""
    count = pattern.batch_count if pattern.ndim == 3 else batch
    shape = (pattern.shape[-2],) if count is None else (count, pattern.shape[-2])
    if given is None:
        return new_array(shape, _FP32, call, library)
    array, _ = call.array(given, "out_scale", writable=True)
    if array.shape != shape or array.dtype != np.float32 or not contiguous(array):
        raise InvalidValueError(
            f"out_scale has shape {array.shape} and items of {array.dtype}; it must be "
            f"contiguous, of shape {shape} and float32"
        )
    check_writable(array, "out_scale", True)
    return given, array


def _execute(
    plan: Any,
    call: Call,
    alpha: object,
    scores: Stored,
    values: Stored,
    scales: Mapping[str, Scales],
    bias: Stored | None,
    out_scale: Stored | None,
) -> None:
    pointers = pointer_entries(scales)
    pointers["bias"] = 0 if bias is None else address(bias)
    pointers["out_scale"] = 0 if out_scale is None else address(out_scale)
    owner, scratch = call.scratch(plan.workspace_bytes)
    plan.execute(
        call.native(), as_float(alpha, "alpha"), address(scores), address(values), pointers,
        scratch,
    )
    del owner


def sparse_softmax(
    S: SrBcrs,
    *,
    out_dtype: object = "fp32",
    alpha: float = 1.0,
    row_scale: Any = None,
    col_scale: Any = None,
    bias: Any = None,
    implementation: str | None = None,
    handle: Handle | None = None,
) -> SrBcrs | tuple[SrBcrs, Any]:
    """Softmax over the existing elements of each row.

    In fp32, x = fma((alpha * row_scale[i]) * col_scale[j], score, bias) and
    p = exp(x - max of the row) / sum of the row's exp. A row without elements, or of -infinity
    alone, becomes 0; one with NaN or +infinity becomes NaN (integers: 0 with scale NaN).

    Parameters
    ----------
    S : SrBcrs
        M x N scores of fp32, fp16 or int32, such as :func:`sddmm` makes; or a batch.
    out_dtype
        fp32, fp16 or bf16; or int16, int8, uint8 or int4 with a scale a row.
    alpha : float
    row_scale : number or array of fp32, optional
        One, or one a row: shape (M,), with a batch in front if each matrix has its own.
    col_scale : number or array of fp32, optional
        One, or one a column: shape (N,), or with a batch in front.
    bias : SrBcrs or array of fp32, optional
        A summand for each element, in S's layout; (batch, slots * V) if each matrix has its own.
    implementation : str, optional
        One of :func:`sparse_softmax_implementations`; by default the library chooses.
    handle : Handle, optional
        By default this thread's own handle of the device that the arrays lie on.

    Notes
    -----
    On CUDA all arrays lie on S's device, and softmax runs on the current stream of the library that
    S's values are from. Making the plan waits for that stream; executing a
    :class:`SparseSoftmaxPlan` does not, and can be captured in a graph.

    Returns
    -------
    SrBcrs, or (SrBcrs, array)
        The probabilities p in S's layout and on its device, as :func:`sddmm` gives them; for
        integers with the scales, fp32 of shape (M,) or (batch, M), of NumPy or, on CUDA, the
        library that S's values are from: p = scale[i] * integer.

    Raises
    ------
    TypeError
        If S is not an SrBcrs.
    InvalidValueError
        If a shape or a value breaks a rule, or S is a pattern alone.
    NotSupportedError
        If the types do not go together.
    DeviceMismatchError
        If the arrays lie on different devices.
    """
    S = check_sparse(S, "S")
    if S.values is None or S._dtype is None:
        raise InvalidValueError("S is a pattern alone; softmax needs its scores")
    call = S._call(handle, "S", ordered=False)
    scores, library = call.array(S.values, "S")
    pattern = S._pattern()
    batch = S.batch_count if S._batch == "values" else None
    count = S.batch_count
    given = {"row_scale": row_scale, "col_scale": col_scale}
    scales = read_all(given, _lengths(pattern), count, call)
    target = resolve_dtype(out_dtype, "out_dtype")
    summands = _bias_values(bias, pattern, batch, call)
    problem = _problem(
        pattern, S._dtype, target, count, scales, summands is not None, _bias_stride(summands),
        implementation,
    )
    pattern._order(call)
    plan = _native.SparseSoftmaxPlan(
        call.native(), problem.descriptor, problem.entries, problem.implementation
    )
    values = out_values(None, pattern._value_count, target, batch, call, library)
    shown = scale = None
    if not target.floating:
        shown, scale = _out_scales(pattern, batch, None, call, library)
    _execute(plan, call, alpha, scores, values, scales, summands, scale)
    result = pattern.with_values(values, target)
    return result if scale is None else (result, shown)


class SparseSoftmaxPlan(Plan):
    """Softmax at one pattern prepared for many score arrays; see :func:`sparse_softmax`.

    Parameters
    ----------
    pattern : SrBcrs
        M x N, or a batch of different patterns. Copied: its arrays may then be freed.
    in_dtype, out_dtype
        Types of the scores and of the probabilities.
    batch_count : int, optional
        Number of score arrays; by default the number of patterns.
    row_scale : {"none", "tensor", "row"}
    col_scale : {"none", "tensor", "col"}
    bias : bool
        Which arrays every execution will be given.
    batched : collection of str
        Names of those that each matrix of a batch has its own of.
    implementation : str, optional
        One of :func:`sparse_softmax_implementations`.
    handle : Handle, optional

    Notes
    -----
    As for :class:`SpMMPlan`. With an ``out`` of torch, CuPy or another library, which the result's
    values are a view of, nothing is allocated but torch's scratch.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    NotSupportedError
        If the types do not go together, or the named implementation declines.
    """

    __slots__ = ("_at", "_batch_count", "_bias", "_source", "_scales", "_target")
    _type = _native.SparseSoftmaxPlan
    _operand = "pattern"

    def __init__(
        self,
        pattern: SrBcrs,
        *,
        in_dtype: object,
        out_dtype: object = "fp32",
        batch_count: int | None = None,
        row_scale: str | None = "none",
        col_scale: str | None = "none",
        bias: bool = False,
        batched: Iterable[str] = (),
        implementation: str | None = None,
        handle: Handle | None = None,
    ) -> None:
        pattern = check_sparse(pattern, "pattern")._pattern()
        self._source = resolve_dtype(in_dtype, "in_dtype")
        self._target = resolve_dtype(out_dtype, "out_dtype")
        self._at = pattern
        self._batch_count = plan_batch(pattern, batch_count)
        given = {"row_scale": row_scale, "col_scale": col_scale}
        self._scales, names = declare_all(given, batched, _lengths(pattern), ("bias",))
        stride = pattern._value_count if "bias" in names else 0
        self._bias = bool(bias), stride
        problem = _problem(
            pattern, self._source, self._target, self._batch_count, self._scales, *self._bias,
            implementation,
        )
        self._create(problem, handle)

    def __call__(
        self,
        scores: Any,
        out: Any = None,
        alpha: float = 1.0,
        *,
        row_scale: Any = None,
        col_scale: Any = None,
        bias: Any = None,
        out_scale: Any = None,
        handle: Handle | None = None,
    ) -> SrBcrs | tuple[SrBcrs, Any]:
        """Execute the plan.

        Parameters
        ----------
        scores : SrBcrs or array
            Of this pattern, or in its layout: shape (slots * V,), or (batch, slots * V) for a batch
            with one pattern.
        out : array, optional
            For the probabilities, of the scores' shape; the scores' own array if the types agree.
        alpha : float
        row_scale, col_scale, bias : number or array of fp32
            Those that the plan was made for, and no others.
        out_scale : array of fp32, optional
            For the scales of integer output: shape (M,), or (batch, M).

        Returns
        -------
        SrBcrs, or (SrBcrs, array)
            As :func:`sparse_softmax` returns them; they lie in ``out`` and ``out_scale`` if those
            are given.

        Raises
        ------
        InvalidValueError
            If an array does not have the plan's type or shape.
        """
        plan, pattern = self._open(), self._at
        call = self._call_of(handle)
        array, library = call.array(raw_values(scores, "scores"), "scores")
        batch = self._batch_count if pattern.ndim == 2 and self._batch_count != 1 else None
        if batch is None and pattern.ndim == 2 and array.ndim == 2:
            batch = 1
        count = pattern._value_count
        check_values(array, "scores", count, self._source, batch)
        given = {"row_scale": row_scale, "col_scale": col_scale}
        scales = check_all(given, self._scales, _lengths(pattern), self._batch_count, call)
        summands = _bias_values(bias, pattern, batch, call)
        if (summands is not None, _bias_stride(summands)) != self._bias:
            raise InvalidValueError(
                "bias must be given, in the declared shape, exactly if the plan was made with it"
            )
        values = out_values(out, count, self._target, batch, call, library)
        shown = scale = None
        if not self._target.floating:
            shown, scale = _out_scales(pattern, batch, out_scale, call, library)
        _execute(plan, call, alpha, array, values, scales, summands, scale)
        result = pattern.with_values(values, self._target)
        return result if scale is None else (result, shown)


def sparse_softmax_implementations(device: str = "cpu") -> list[str]:
    """Names of the implementations of sparse softmax on a device, the reference last."""
    return implementations(_native.SparseSoftmaxPlan, device)
