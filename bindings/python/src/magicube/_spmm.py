# SPDX-License-Identifier: Apache-2.0
"""SpMM: a sparse matrix times a dense one."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from magicube import _native
from magicube._arrays import Stored, address, as_float, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DType, resolve_dtype
from magicube._layout import given_values
from magicube._matrix import Matrix, empty_matrix, matrix, result_of
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
from magicube.sparse import SrBcrs, Vnm


def _lengths(rows: int, cols: int) -> dict[str, dict[str, int]]:
    """Elements of each array of the epilogue, by granularity."""
    return {
        "a_scale": {"tensor": 1, "row": rows},
        "b_scale": {"tensor": 1, "col": cols},
        "bias": {"row": rows},
        "c_scale": {"tensor": 1},
    }


def _check_lhs(A: Any) -> SrBcrs | Vnm:
    """Raise unless A is of a format that SpMM takes."""
    return A if isinstance(A, Vnm) else check_sparse(A, "A")


def _problem(
    A: SrBcrs | Vnm,
    lhs: DType,
    B: tuple[DType, str],
    C: tuple[DType, str],
    n: tuple[int, int],
    batch_count: int,
    scales: Mapping[str, Scales],
    activation: object,
    value_mode: str,
    implementation: object,
) -> Problem:
    entries = {
        "b_type": B[0].code,
        "b_order": _native.ORDERS[B[1]],
        "c_type": C[0].code,
        "c_order": _native.ORDERS[C[1]],
        "n_min": n[0],
        "n_max": n[1],
        "batch_count": batch_count,
        "activation": choose(
            "none" if activation is None else activation, _native.ACTIVATIONS, "activation"
        ),
        "value_mode": choose(value_mode, _native.VALUE_MODES, "value_mode"),
        **scale_entries(scales),
    }
    return Problem(A, A._descriptor(lhs), entries, check_implementation(implementation))


def _lhs_dtype(A: SrBcrs | Vnm, wanted: object) -> DType:
    if wanted is None:
        if A._dtype is None:
            raise InvalidValueError(
                "A is a pattern alone; give it values, or name lhs_dtype for value_mode='per_call'"
            )
        return A._dtype
    dtype = resolve_dtype(wanted, "lhs_dtype")
    if A._dtype is not None and (dtype.storage, dtype.bits) != (A._dtype.storage, A._dtype.bits):
        raise InvalidValueError(f"lhs_dtype is {dtype.name}, but A holds {A._dtype.name}")
    return dtype


def _out_matrix(
    call: Call,
    rows: int,
    B: Matrix,
    batch: int | None,
    out: Any,
    dtype: DType,
    order: str | None,
) -> tuple[Any, Matrix]:
    """C: the caller's array, or a new one of B's library."""
    shape = (rows, B.cols) if batch is None else (batch, rows, B.cols)
    if order is not None:
        choose(order, _native.ORDERS, "out_order")
    if out is None:
        return empty_matrix(B.library, shape, dtype, "C" if order is None else order)
    C = matrix(out, "out", dtype=dtype, order=order, writable=True, call=call)
    if C.shape != shape:
        raise InvalidValueError(f"out has shape {C.shape}; it must be {shape}")
    if _overlap(C, B):
        raise InvalidValueError("out shares memory with B; pass another array or B.copy()")
    return out, C


_MAX_WORK: Any = 100_000  # bounds the search, which is exponential at worst


def _overlap(first: Matrix, second: Matrix) -> bool:
    if not isinstance(first.array, np.ndarray) or not isinstance(second.array, np.ndarray):
        return False  # the library looks at the ranges of addresses
    try:
        return bool(np.shares_memory(first.array, second.array, max_work=_MAX_WORK))
    except np.exceptions.TooHardError:
        return False


def _execute(
    plan: Any,
    call: Call,
    alpha: object,
    B: Matrix,
    beta: object,
    C: Matrix,
    batch_count: int,
    scales: Mapping[str, Scales],
    a_values: int = 0,
) -> None:
    owner, scratch = call.scratch(plan.workspace_bytes)
    plan.execute(
        call.native(),
        as_float(alpha, "alpha"),
        B.descriptor(batch_count),
        as_float(beta, "beta"),
        C.descriptor(),
        {"a_values": a_values, **pointer_entries(scales)},
        scratch,
    )
    del owner


def spmm(
    A: SrBcrs | Vnm,
    B: Any,
    *,
    out: Any = None,
    out_dtype: object = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    a_scale: Any = None,
    b_scale: Any = None,
    bias: Any = None,
    activation: str | None = None,
    c_scale: Any = None,
    rhs_dtype: object = None,
    out_order: str | None = None,
    implementation: str | None = None,
    handle: Handle | None = None,
) -> Any:
    """Multiply a sparse by a dense matrix: C = act(scale * (A B) + beta * C + bias).

    Integer sums are exact. With s = (alpha * a_scale[i]) * b_scale[j], all in fp32,
    y = fma(s, sum, fma(beta, C[i, j], bias[i])); then the activation, then division by c_scale,
    then one rounding to the type of C. It makes a plan for this one product; where A is used again,
    :class:`SpMMPlan` saves that.

    Parameters
    ----------
    A : SrBcrs or Vnm
        M x K, or a batch of them. A Vnm has n = 2; its B is of its own type.
    B : array or Int4Array
        K x N or (batch, K, N), row- or column-major with any leading dimension. With A it is one
        of the pairs int16/int16, int16/int8, int16/int4, int12/int8, int12/int4, int8/int8,
        int8/int4, int4/int4, uint8/int8, uint8/int4, or both are fp32, fp16, bf16 or e4m3.
    out : array, optional
        C itself, written to; needed where ``beta`` is not 0.
    out_dtype : optional
        fp32, fp16, bf16, int8, or for integers int32 (the sum modulo 2^32, without scale, bias and
        activation). By default int8 with ``c_scale``; else for floating types the same type (fp32
        for e4m3); else int32 if there is no scale, bias, activation and alpha, and fp32 if there
        is.
    alpha, beta : float
        Factors of the product and of C as it was.
    a_scale : number or array of fp32, optional
        One, or one a row of A: shape (M,); (batch, M) or (batch, 1) if each matrix has its own.
    b_scale : number or array of fp32, optional
        One, or one a column of B: shape (N,), or with a batch in front.
    bias : array of fp32, optional
        One summand a row of C: shape (M,), or (batch, M).
    activation : {"relu", "gelu"}, optional
        GELU in the erf form.
    c_scale : number or array of fp32, optional
        Scale of C of int8: C = y / c_scale, saturated.
    rhs_dtype : optional
        Type of B where the array does not tell it.
    out_order : {"C", "F"}, optional
        Row- or column-major C; "C" by default.
    implementation : str, optional
        One of :func:`spmm_implementations`; by default the library chooses.
    handle : Handle, optional
        By default this thread's own handle of the device that the arrays lie on.

    Notes
    -----
    On CUDA all arrays lie on A's device, and the product runs on the current stream of the library
    that B is from. Making the plan waits for that stream; executing an :class:`SpMMPlan` does not,
    and can be captured in a graph.

    Returns
    -------
    array
        C, of the library that B came from, or ``out``.

    Raises
    ------
    TypeError
        If A is no SrBcrs or Vnm, or B no array.
    InvalidValueError
        If a shape, a stride or a value breaks a rule.
    NotSupportedError
        If the types do not go together.
    DeviceMismatchError
        If the arrays lie on different devices.
    """
    A = _check_lhs(A)
    call = A._call(handle, "A", ordered=False)
    right = matrix(B, "B", dtype=rhs_dtype, call=call)
    batch = check_batch(A, right)
    count = 1 if batch is None else batch
    given = {"a_scale": a_scale, "b_scale": b_scale, "bias": bias, "c_scale": c_scale}
    lengths = _lengths(A.shape[-2], right.cols)
    scales = read_all(given, lengths, count, call)
    if out is None and beta != 0:
        raise InvalidValueError(f"beta is {beta}, but there is no C to add: pass it as out")
    lhs = _lhs_dtype(A, None)
    if out_dtype is None and out is not None:
        dtype = matrix(out, "out", call=call).dtype
    else:
        plain = activation is None and alpha == 1
        dtype = product_dtype(out_dtype, lhs, scales, "c_scale", plain)
    result, C = _out_matrix(call, A.shape[-2], right, batch, out, dtype, out_order)
    problem = _problem(
        A, lhs, (right.dtype, right.order), (dtype, C.order), (right.cols, right.cols), count,
        scales, activation, "fixed", implementation,
    )
    A._order(call)
    plan = _native.SpMMPlan(
        call.native(), problem.descriptor, problem.entries, problem.implementation
    )
    _execute(plan, call, alpha, right, beta, C, count, scales)
    return result if out is not None else result_of(right.library, result)


class SpMMPlan(Plan):
    """A product with one A prepared for many B; see :func:`spmm` for what it computes.

    Parameters
    ----------
    A : SrBcrs or Vnm
        M x K, or a batch. Packed (value modes fixed and updatable): its arrays may then be freed.
    rhs_dtype
        Type of B.
    out_dtype : optional
        Type of C; as in :func:`spmm` by default.
    n : int or (int, int)
        Columns of B: exactly so many, or from the smallest to the largest.
    rhs_order, out_order : {"C", "F"}
        Row- or column-major B and C.
    batch_count : int, optional
        Number of matrices of B and C; by default that of A.
    a_scale : {"none", "tensor", "row"}
    b_scale : {"none", "tensor", "col"}
    bias, c_scale : bool
        Which arrays every execution will be given.
    batched : collection of str
        Names of those that each matrix of a batch has its own of.
    activation : {"relu", "gelu"}, optional
    value_mode : {"fixed", "updatable", "per_call"}
        "updatable": :meth:`update_values` repacks new values. "per_call": each execution is given
        ``values`` in A's layout.
    lhs_dtype : optional
        Type of A's values where A is a pattern alone.
    implementation : str, optional
        One of :func:`spmm_implementations`.
    handle : Handle, optional

    Notes
    -----
    With an A on a GPU, making the plan waits for it; executing and :meth:`update_values` do not
    wait, run on the current stream of the library that B (or the values) is from, and can be
    captured by ``torch.cuda.graph`` and by CuPy's streams. A graph needs the plan alive, and so the
    arrays that it was captured with. Where B is a :class:`DeviceArray`, pass ``out``: a new one is
    allocated by the driver, which a capture forbids, as it forbids that plans or DeviceArrays are
    freed meanwhile.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    NotSupportedError
        If the types do not go together, or the named implementation declines.
    """

    __slots__ = ("_batch_count", "_c", "_rhs", "_scales", "_value_mode", "_values")
    _type = _native.SpMMPlan

    def __init__(
        self,
        A: SrBcrs | Vnm,
        *,
        rhs_dtype: object,
        out_dtype: object = None,
        n: int | tuple[int, int],
        rhs_order: str = "C",
        out_order: str = "C",
        batch_count: int | None = None,
        a_scale: str | None = "none",
        b_scale: str | None = "none",
        bias: bool = False,
        c_scale: bool = False,
        batched: Iterable[str] = (),
        activation: str | None = None,
        value_mode: str = "fixed",
        lhs_dtype: object = None,
        implementation: str | None = None,
        handle: Handle | None = None,
    ) -> None:
        A = _check_lhs(A)
        self._rhs = resolve_dtype(rhs_dtype, "rhs_dtype"), rhs_order
        lhs = _lhs_dtype(A, lhs_dtype)
        self._values = A._value_count, lhs, A.batch_count if A._batch == "values" else None
        self._batch_count = plan_batch(A, batch_count)
        self._scales = _declared(
            A,
            n,
            {"a_scale": a_scale, "b_scale": b_scale, "bias": bias, "c_scale": c_scale},
            batched,
        )
        self._value_mode = value_mode
        dtype = product_dtype(out_dtype, lhs, self._scales, "c_scale", activation is None)
        self._c = dtype, out_order
        choose(rhs_order, _native.ORDERS, "rhs_order")
        choose(out_order, _native.ORDERS, "out_order")
        problem = _problem(
            A, lhs, self._rhs, self._c, size_range(n, "n"), self._batch_count, self._scales,
            activation, value_mode, implementation,
        )
        self._create(problem, handle)

    def __call__(
        self,
        B: Any,
        out: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        *,
        a_scale: Any = None,
        b_scale: Any = None,
        bias: Any = None,
        c_scale: Any = None,
        values: Any = None,
        handle: Handle | None = None,
    ) -> Any:
        """Execute the plan.

        Parameters
        ----------
        B : array or Int4Array
            As in :func:`spmm`, of the plan's type, order and batch.
        out : array, optional
            C itself; needed where ``beta`` is not 0.
        alpha, beta : float
        a_scale, b_scale, bias, c_scale : number or array of fp32
            Those that the plan was made for, and no others.
        values : SrBcrs, Vnm or array
            A's values in its layout, for value_mode "per_call" alone.

        Returns
        -------
        array
            C, of the library that B came from, or ``out``.

        Raises
        ------
        InvalidValueError
            If an array does not have the plan's type, order or shape.
        """
        plan, rows = self._open(), self._shape[-2]
        call = self._call_of(handle)
        right = matrix(B, "B", dtype=self._rhs[0], order=self._rhs[1], call=call)
        if right.batch is not None and right.batch != self._batch_count:
            raise InvalidValueError(
                f"B has shape {right.shape}; the plan was made for a batch of {self._batch_count}"
            )
        if out is None and beta != 0:
            raise InvalidValueError(f"beta is {beta}, but there is no C to add: pass it as out")
        many = right.batch is not None or len(self._shape) == 3 or self._batch_count != 1
        batch = self._batch_count if many else None
        lengths = _lengths(rows, right.cols)
        given = {"a_scale": a_scale, "b_scale": b_scale, "bias": bias, "c_scale": c_scale}
        scales = check_all(given, self._scales, lengths, self._batch_count, call)
        per_call = self._value_mode == "per_call"
        if per_call != (values is not None):
            raise InvalidValueError(
                f"values is {'None' if per_call else 'given'}, but value_mode is "
                f"{self._value_mode!r}: it is given for 'per_call' alone"
            )
        own = self._own_values(values, call) if per_call else None
        result, C = _out_matrix(call, rows, right, batch, out, *self._c)
        _execute(
            plan, call, alpha, right, beta, C, self._batch_count, scales,
            0 if own is None else address(own),
        )
        return result if out is not None else result_of(right.library, result)

    def update_values(self, values: Any, *, handle: Handle | None = None) -> None:
        """Repack new values of the same pattern; no execution may run at the same time.

        Parameters
        ----------
        values : SrBcrs, Vnm or array
            In A's layout, of its type and shape.

        Raises
        ------
        NotSupportedError
            Unless the plan was made with value_mode "updatable".
        """
        plan = self._open()
        call = self._call_of(handle)
        array = self._own_values(values, call)
        plan.update_values(call.native(), address(array))

    def _own_values(self, values: Any, call: Call) -> Stored:
        """Values for A, in A's layout and of its shape."""
        return given_values(values, "values", *self._values, call)


def _declared(
    A: SrBcrs | Vnm, n: object, granularities: Mapping[str, object], batched: Iterable[str]
) -> dict[str, Scales]:
    """The plan's arrays; a batch of scales a column needs one N, so that its stride is known."""
    smallest, largest = size_range(n, "n")
    lengths = _lengths(A.shape[-2], largest)
    declared, names = declare_all(granularities, batched, lengths)
    if "b_scale" in names and granularities["b_scale"] == "col" and smallest != largest:
        raise InvalidValueError(
            f"batched names b_scale, whose stride is N, but n is {(smallest, largest)}; make the "
            "plan for one N"
        )
    return declared


def spmm_implementations(device: str = "cpu", format: str = "sr_bcrs") -> list[str]:
    """Names of the implementations of SpMM, the reference last.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    format : {"sr_bcrs", "vnm"}
        Of A.
    """
    if format not in ("sr_bcrs", "vnm"):
        raise InvalidValueError(f"format is {format!r}; it must be 'sr_bcrs' or 'vnm'")
    if format == "vnm":
        return _native.vnm_implementations(choose(device, _native.DEVICES, "device"))
    return implementations(_native.SpMMPlan, device)
