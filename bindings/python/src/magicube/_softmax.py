# SPDX-License-Identifier: Apache-2.0
"""Softmax over the existing elements of each row of a sparse matrix."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from magicube import _native
from magicube._arrays import AnyArray, address, as_float, check_writable, host_array
from magicube._device import Handle, native_handle
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._plan import (
    Plan,
    Problem,
    Scales,
    check_all,
    check_implementation,
    check_sparse,
    declare_all,
    implementations,
    layout_values,
    plan_batch,
    pointer_entries,
    read_all,
    scale_entries,
    values_of,
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


def _bias_values(bias: Any, pattern: SrBcrs, batch: int | None) -> AnyArray | None:
    """Summands in the pattern's layout: one array, or one for each value array of a batch."""
    if bias is None:
        return None
    array = values_of(bias, "bias")
    own = batch if array.ndim == 2 and pattern.ndim == 2 else None
    return layout_values(array, "bias", pattern._value_count, _FP32, own, writable=False)


def _bias_stride(array: AnyArray | None) -> int:
    return 0 if array is None or array.ndim == 1 else int(array.shape[1])


def _out_scales(pattern: SrBcrs, batch: int | None, given: Any) -> AnyArray:
    """The array that receives a scale a row: (M,), or (batch, M)."""
    count = pattern.batch_count if pattern.ndim == 3 else batch
    shape = (pattern.shape[-2],) if count is None else (count, pattern.shape[-2])
    if given is None:
        return np.empty(shape, np.float32)
    array, _ = host_array(given, "out_scale")
    if array.shape != shape or array.dtype != np.float32 or not array.flags.c_contiguous:
        raise InvalidValueError(
            f"out_scale has shape {array.shape} and items of {array.dtype}; it must be "
            f"contiguous, of shape {shape} and float32"
        )
    check_writable(array, "out_scale", True)
    return array


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
) -> SrBcrs | tuple[SrBcrs, AnyArray]:
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

    Returns
    -------
    SrBcrs, or (SrBcrs, numpy.ndarray)
        The probabilities p in S's layout; for integers with the scales, fp32 of shape (M,) or
        (batch, M): p = scale[i] * integer.

    Raises
    ------
    TypeError
        If S is not an SrBcrs.
    InvalidValueError
        If a shape or a value breaks a rule, or S is a pattern alone.
    NotSupportedError
        If the types do not go together.
    """
    S = check_sparse(S, "S")
    if S.values is None or S._dtype is None:
        raise InvalidValueError("S is a pattern alone; softmax needs its scores")
    pattern = S._pattern()
    batch = S.batch_count if S._batch == "values" else None
    count = S.batch_count
    given = {"row_scale": row_scale, "col_scale": col_scale}
    scales = read_all(given, _lengths(pattern), count)
    target = resolve_dtype(out_dtype, "out_dtype")
    summands = _bias_values(bias, pattern, batch)
    problem = _problem(
        pattern, S._dtype, target, count, scales, summands is not None, _bias_stride(summands),
        implementation,
    )
    call = native_handle(handle)
    plan = _native.SparseSoftmaxPlan(
        call, problem.descriptor, problem.entries, problem.implementation
    )
    values = layout_values(None, "out", pattern._value_count, target, batch)
    pointers = pointer_entries(scales)
    pointers["bias"] = 0 if summands is None else address(summands)
    out_scale: AnyArray | None = None
    if not target.floating:
        out_scale = _out_scales(pattern, batch, None)
        pointers["out_scale"] = address(out_scale)
    plan.execute(call, as_float(alpha, "alpha"), address(S.values), address(values), pointers)
    result = pattern.with_values(values, target)
    return result if out_scale is None else (result, out_scale)


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

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    NotSupportedError
        If the types do not go together, or the named implementation declines.
    """

    __slots__ = ("_at", "_batch_count", "_bias", "_source", "_scales", "_target")
    _type = _native.SparseSoftmaxPlan

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
    ) -> SrBcrs | tuple[SrBcrs, AnyArray]:
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
        SrBcrs, or (SrBcrs, numpy.ndarray)
            As :func:`sparse_softmax` returns them; they lie in ``out`` and ``out_scale`` if those
            are given.

        Raises
        ------
        InvalidValueError
            If an array does not have the plan's type or shape.
        """
        plan, pattern = self._open(), self._at
        array = values_of(scores, "scores")
        batch = self._batch_count if pattern.ndim == 2 and self._batch_count != 1 else None
        if batch is None and pattern.ndim == 2 and array.ndim == 2:
            batch = 1
        count = pattern._value_count
        source = layout_values(array, "scores", count, self._source, batch, writable=False)
        given = {"row_scale": row_scale, "col_scale": col_scale}
        scales = check_all(given, self._scales, _lengths(pattern), self._batch_count)
        pointers = pointer_entries(scales)
        summands = _bias_values(bias, pattern, batch)
        if (summands is not None, _bias_stride(summands)) != self._bias:
            raise InvalidValueError(
                "bias must be given, in the declared shape, exactly if the plan was made with it"
            )
        pointers["bias"] = 0 if summands is None else address(summands)
        values = layout_values(out, "out", count, self._target, batch)
        scale = None if self._target.floating else _out_scales(pattern, batch, out_scale)
        pointers["out_scale"] = 0 if scale is None else address(scale)
        call = native_handle(handle)
        plan.execute(call, as_float(alpha, "alpha"), address(source), address(values), pointers)
        result = pattern.with_values(values, self._target)
        return result if scale is None else (result, scale)


def sparse_softmax_implementations(device: str = "cpu") -> list[str]:
    """Names of the implementations of sparse softmax on a device, the reference last."""
    return implementations(_native.SparseSoftmaxPlan, device)
