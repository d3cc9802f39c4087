# SPDX-License-Identifier: Apache-2.0
"""SDDMM: the elements of a dense product at the places of a sparse pattern."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from magicube import _native
from magicube._arrays import Stored, address, as_float, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DType, resolve_dtype
from magicube._layout import out_values
from magicube._matrix import Matrix, matrix
from magicube._plan import (
    Plan,
    Problem,
    Scales,
    check_all,
    check_batch,
    check_implementation,
    check_sparse,
    declare_all,
    implementations,
    plan_batch,
    pointer_entries,
    product_dtype,
    read_all,
    scale_entries,
    size_range,
)
from magicube.errors import InvalidValueError
from magicube.sparse import SrBcrs


def _lengths(pattern: SrBcrs) -> dict[str, dict[str, int]]:
    """Elements of each array of scales, by granularity."""
    return {
        "a_scale": {"tensor": 1, "row": pattern.shape[-2]},
        "b_scale": {"tensor": 1, "col": pattern.shape[-1]},
        "out_scale": {"tensor": 1},
    }


def _problem(
    pattern: SrBcrs,
    A: tuple[DType, str],
    B: tuple[DType, str],
    out: DType,
    k: tuple[int, int],
    batch_count: int,
    scales: Mapping[str, Scales],
    implementation: object,
) -> Problem:
    entries = {
        "a_type": A[0].code,
        "a_order": _native.ORDERS[A[1]],
        "b_type": B[0].code,
        "b_order": _native.ORDERS[B[1]],
        "out_type": out.code,
        "k_min": k[0],
        "k_max": k[1],
        "batch_count": batch_count,
        **scale_entries(scales),
    }
    return Problem(pattern, pattern._descriptor(), entries, check_implementation(implementation))


def _execute(
    plan: Any,
    call: Call,
    alpha: object,
    A: Matrix,
    B: Matrix,
    batch_count: int,
    values: Stored,
    scales: Mapping[str, Scales],
) -> None:
    owner, scratch = call.scratch(plan.workspace_bytes)
    plan.execute(
        call.native(),
        as_float(alpha, "alpha"),
        A.descriptor(batch_count),
        B.descriptor(batch_count),
        address(values),
        pointer_entries(scales),
        scratch,
    )
    del owner


def sddmm(
    pattern: SrBcrs,
    A: Any,
    B: Any,
    *,
    out_dtype: object = None,
    alpha: float = 1.0,
    a_scale: Any = None,
    b_scale: Any = None,
    out_scale: Any = None,
    lhs_dtype: object = None,
    rhs_dtype: object = None,
    implementation: str | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """Compute the elements of alpha * A B that a sparse pattern names.

    Integer sums are exact; then, in fp32, (alpha * a_scale[i]) * b_scale[j] * sum, divided by
    out_scale, rounded once to the output's type. It makes a plan for this one product; where the
    pattern is used again, :class:`SDDMMPlan` saves that.

    Parameters
    ----------
    pattern : SrBcrs
        M x N; its values, if it has any, are not looked at. A batch of different patterns wants
        batches of A and B of the same count.
    A : array or Int4Array
        M x K or (batch, M, K), row- or column-major: int16, int8, int4, fp32, fp16, bf16 or e4m3.
    B : array or Int4Array
        K x N or (batch, K, N), of A's type.
    out_dtype : optional
        fp32, fp16, bf16, int16, int8, or for integers int32 (the sum modulo 2^32, unscaled). By
        default int8 with ``out_scale``; else for floating types the same type (fp32 for e4m3); else
        int32 if there is no scale and alpha, and fp32 if there is.
    alpha : float
    a_scale, b_scale : number or array of fp32, optional
        One, or one a row of A (shape (M,)) and a column of B (shape (N,)); with a batch in front if
        each matrix has its own.
    out_scale : number or array of fp32, optional
        Scale of an output of int16 or int8.
    lhs_dtype, rhs_dtype : optional
        Types of A and B where the arrays do not tell them.
    implementation : str, optional
        One of :func:`sddmm_implementations`; by default the library chooses.
    handle : Handle, optional
        By default this thread's own handle of the device that the arrays lie on.

    Notes
    -----
    On CUDA all arrays lie on the pattern's device, and the product runs on the current stream of
    the library that A is from. Making the plan waits for that stream; executing an
    :class:`SDDMMPlan` does not, and can be captured in a graph.

    Returns
    -------
    SrBcrs
        The pattern with these values, on its device; padding and absent elements are 0. On CUDA
        ``values`` is a :class:`DeviceArray` over memory of A's library, which ``torch.from_dlpack``
        and ``cupy.from_dlpack`` show without a copy.

    Raises
    ------
    TypeError
        If ``pattern`` is not an SrBcrs, or A or B no array.
    InvalidValueError
        If a shape, a stride or a value breaks a rule.
    NotSupportedError
        If the types do not go together.
    DeviceMismatchError
        If the arrays lie on different devices.
    """
    pattern = check_sparse(pattern, "pattern")._pattern()
    call = pattern._call(handle, "pattern", ordered=False)
    left = matrix(A, "A", dtype=lhs_dtype, call=call)
    right = matrix(B, "B", dtype=rhs_dtype, call=call)
    batch = check_batch(pattern, left, right)
    count = 1 if batch is None else batch
    given = {"a_scale": a_scale, "b_scale": b_scale, "out_scale": out_scale}
    lengths = _lengths(pattern)
    scales = read_all(given, lengths, count, call)
    dtype = product_dtype(out_dtype, left.dtype, scales, "out_scale", alpha == 1)
    problem = _problem(
        pattern, (left.dtype, left.order), (right.dtype, right.order), dtype,
        (left.cols, left.cols), count, scales, implementation,
    )
    pattern._order(call)
    plan = _native.SDDMMPlan(
        call.native(), problem.descriptor, problem.entries, problem.implementation
    )
    shared = batch if pattern.ndim == 2 else None  # value arrays that share one pattern
    values = out_values(None, pattern._value_count, dtype, shared, call, left.library)
    _execute(plan, call, alpha, left, right, count, values, scales)
    return pattern.with_values(values, dtype)


class SDDMMPlan(Plan):
    """SDDMM at one pattern prepared for many products; see :func:`sddmm` for what it computes.

    Parameters
    ----------
    pattern : SrBcrs
        M x N, or a batch of different patterns. Copied: its arrays may then be freed.
    dtype
        Type of A and B.
    out_dtype : optional
        As in :func:`sddmm` by default.
    k : int or (int, int)
        Columns of A: exactly so many, or from the smallest to the largest.
    lhs_order, rhs_order : {"C", "F"}
        Row- or column-major A and B.
    batch_count : int, optional
        Number of products; by default the number of patterns.
    a_scale : {"none", "tensor", "row"}
    b_scale : {"none", "tensor", "col"}
    out_scale : bool
        Which arrays every execution will be given.
    batched : collection of str
        Names of those that each matrix of a batch has its own of.
    implementation : str, optional
        One of :func:`sddmm_implementations`.
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

    __slots__ = ("_at", "_batch_count", "_lhs", "_out", "_rhs", "_scales")
    _type = _native.SDDMMPlan
    _operand = "pattern"

    def __init__(
        self,
        pattern: SrBcrs,
        *,
        dtype: object,
        out_dtype: object = None,
        k: int | tuple[int, int],
        lhs_order: str = "C",
        rhs_order: str = "C",
        batch_count: int | None = None,
        a_scale: str | None = "none",
        b_scale: str | None = "none",
        out_scale: bool = False,
        batched: Iterable[str] = (),
        implementation: str | None = None,
        handle: Handle | None = None,
    ) -> None:
        pattern = check_sparse(pattern, "pattern")._pattern()
        operand = resolve_dtype(dtype)
        choose(lhs_order, _native.ORDERS, "lhs_order")
        choose(rhs_order, _native.ORDERS, "rhs_order")
        self._lhs, self._rhs = (operand, lhs_order), (operand, rhs_order)
        self._at = pattern
        self._batch_count = plan_batch(pattern, batch_count)
        given = {"a_scale": a_scale, "b_scale": b_scale, "out_scale": out_scale}
        self._scales, _ = declare_all(given, batched, _lengths(pattern))
        self._out = product_dtype(out_dtype, operand, self._scales, "out_scale", True)
        problem = _problem(
            pattern, self._lhs, self._rhs, self._out, size_range(k, "k"), self._batch_count,
            self._scales, implementation,
        )
        self._create(problem, handle)

    def __call__(
        self,
        A: Any,
        B: Any,
        out: Any = None,
        alpha: float = 1.0,
        *,
        a_scale: Any = None,
        b_scale: Any = None,
        out_scale: Any = None,
        handle: Handle | None = None,
    ) -> SrBcrs:
        """Execute the plan.

        Parameters
        ----------
        A, B : array or Int4Array
            As in :func:`sddmm`, of the plan's types, orders and batch.
        out : array, optional
            For the values: shape (slots * V,), or (batch, slots * V) for a batch with one pattern.
        alpha : float
        a_scale, b_scale, out_scale : number or array of fp32
            Those that the plan was made for, and no others.

        Returns
        -------
        SrBcrs
            The pattern with these values, which lie in ``out`` if that is given.

        Raises
        ------
        InvalidValueError
            If an array does not have the plan's type, order or shape.
        """
        plan, pattern = self._open(), self._at
        call = self._call_of(handle)
        left = matrix(A, "A", dtype=self._lhs[0], order=self._lhs[1], call=call)
        right = matrix(B, "B", dtype=self._rhs[0], order=self._rhs[1], call=call)
        batch = check_batch(pattern, left, right)
        if batch is not None and batch != self._batch_count:
            raise InvalidValueError(
                f"A and B are a batch of {batch}; the plan was made for {self._batch_count}"
            )
        if self._batch_count != 1:
            batch = self._batch_count
        given = {"a_scale": a_scale, "b_scale": b_scale, "out_scale": out_scale}
        scales = check_all(given, self._scales, _lengths(pattern), self._batch_count, call)
        shared = batch if pattern.ndim == 2 else None  # value arrays that share one pattern
        values = out_values(out, pattern._value_count, self._out, shared, call, left.library)
        _execute(plan, call, alpha, left, right, self._batch_count, values, scales)
        return pattern.with_values(values, self._out)


def sddmm_implementations(device: str = "cpu") -> list[str]:
    """Names of the implementations of SDDMM on a device ("cpu" or "cuda"), the reference last."""
    return implementations(_native.SDDMMPlan, device)
