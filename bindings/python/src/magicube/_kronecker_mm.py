# SPDX-License-Identifier: Apache-2.0
"""Products with Kronecker-sparse factors and chains."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from magicube import _native
from magicube._arrays import Stored, address, as_float, as_int, choose, contiguous
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DType
from magicube._kronecker import Kronecker, KroneckerChain, Pattern, as_pattern, check_kronecker
from magicube._layout import check_values
from magicube._matrix import Matrix, empty_matrix, matrix, result_of
from magicube._plan import (
    Plan,
    Problem,
    Scales,
    check_all,
    check_implementation,
    declare_all,
    implementations,
    pointer_entries,
    product_dtype,
    read_all,
    scale_entries,
    size_range,
)
from magicube.errors import InvalidValueError


def _lengths(features: int, vectors: int) -> dict[str, dict[str, int]]:
    """Elements of each array of the epilogue, by granularity."""
    return {
        "k_scale": {"tensor": 1, "row": features},
        "x_scale": {"tensor": 1, "col": vectors},
        "bias": {"row": features},
        "y_scale": {"tensor": 1},
    }


def _features(K: Kronecker | KroneckerChain, transpose: bool) -> int:
    return K.shape[1] if transpose else K.shape[0]


def _problem(
    K: Kronecker | KroneckerChain,
    transpose: bool,
    layout: str,
    x_order: str,
    Y: tuple[DType, str],
    n: tuple[int, int],
    batch_count: int,
    scales: Mapping[str, Scales],
    activation: object,
    value_mode: str,
    implementation: object,
) -> Problem:
    entries = {
        "transpose": int(bool(transpose)),
        "layout": choose(layout, _native.BATCH_LAYOUTS, "layout"),
        "x_order": _native.ORDERS[x_order],
        "y_type": Y[0].code,
        "y_order": _native.ORDERS[Y[1]],
        "n_min": n[0],
        "n_max": n[1],
        "batch_count": batch_count,
        "activation": choose(
            "none" if activation is None else activation, _native.ACTIVATIONS, "activation"
        ),
        "value_mode": choose(value_mode, _native.VALUE_MODES, "value_mode"),
        **scale_entries(scales),
    }
    return Problem(K, K._descriptor(), entries, check_implementation(implementation))


def _vectors(X: Matrix, layout: str) -> int:
    return X.rows if layout == "first" else X.cols


def _out_matrix(
    call: Call,
    X: Matrix,
    features: int,
    layout: str,
    out: Any,
    dtype: DType,
    order: str | None,
) -> tuple[Any, Matrix]:
    """Y: the caller's array, or a new one of X's library."""
    head = () if X.batch is None else (X.batch,)
    tail = (X.rows, features) if layout == "first" else (features, X.cols)
    shape = (*head, *tail)
    if order is not None:
        choose(order, _native.ORDERS, "out_order")
    if out is None:
        return empty_matrix(X.library, shape, dtype, "C" if order is None else order)
    Y = matrix(out, "out", dtype=dtype, order=order, writable=True, call=call)
    if Y.shape != shape:
        raise InvalidValueError(f"out has shape {Y.shape}; it must be {shape}")
    return out, Y


def _execute(
    plan: Any,
    call: Call,
    alpha: object,
    X: Matrix,
    beta: object,
    Y: Matrix,
    batch_count: int,
    scales: Mapping[str, Scales],
    values: list[int],
) -> None:
    owner, scratch = call.scratch(plan.workspace_bytes)
    plan.execute(
        call.native(),
        as_float(alpha, "alpha"),
        X.descriptor(batch_count),
        as_float(beta, "beta"),
        Y.descriptor(),
        values,
        pointer_entries(scales),
        scratch,
    )
    del owner


def kronecker_mm(
    K: Kronecker | KroneckerChain,
    X: Any,
    *,
    layout: str = "first",
    transpose: bool = False,
    out: Any = None,
    out_dtype: object = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    k_scale: Any = None,
    x_scale: Any = None,
    bias: Any = None,
    activation: str | None = None,
    y_scale: Any = None,
    out_order: str | None = None,
    implementation: str | None = None,
    handle: Handle | None = None,
) -> Any:
    """Multiply vectors by a Kronecker-sparse factor or chain.

    Batch first: Y = act(scale * (X K^T) + beta * Y + bias), rows are vectors; batch last:
    Y = act(scale * (K X) + beta * Y + bias), columns are. In fp32: s = (alpha * k_scale[i]) *
    x_scale[n], y = fma(s, sum, fma(beta, Y, bias[i])), the activation, division by y_scale, one
    rounding. Sums are formed in at least fp32, those of int8 exactly. It makes a plan for this one
    product; where K is used again, :class:`KroneckerMMPlan` saves that.

    Parameters
    ----------
    K : Kronecker or KroneckerChain
        M x N of fp32, fp16 or bf16; or one factor of int8.
    X : array
        Of K's type, on K's device: n x N or (batch, n, N) batch first, N x n or (batch, N, n)
        batch last; row- or column-major with any leading dimension.
    layout : {"first", "last"}
        Which axis of X and Y counts vectors.
    transpose : bool
        K^T in place of K: the gradient by X of a loss is this product with its gradient by Y.
    out : array, optional
        Y itself, written to; needed where ``beta`` is not 0.
    out_dtype : optional
        fp32, fp16, bf16, int8, or after int8 also int32 (the sum modulo 2^32). By default int8 with
        ``y_scale``; else for floating types the same type; else int32 if there is no scale, bias,
        activation and alpha, and fp32 if there is.
    alpha, beta : float
    k_scale : number or array of fp32, optional
        One, or one a feature of Y: shape (M,); with a batch in front if each matrix has its own.
    x_scale : number or array of fp32, optional
        One, or one a vector: shape (n,), or with a batch in front.
    bias : array of fp32, optional
        One summand a feature of Y: shape (M,), or (batch, M).
    activation : {"relu", "gelu"}, optional
    y_scale : number or array of fp32, optional
        Scale of Y of int8.
    out_order : {"C", "F"}, optional
        Row- or column-major Y; "C" by default.
    implementation : str, optional
        One of :func:`kronecker_mm_implementations`; by default the library chooses.
    handle : Handle, optional

    Returns
    -------
    array
        Y, of the library that X came from, or ``out``.

    Raises
    ------
    TypeError
        If K is neither a Kronecker nor a KroneckerChain, or X no array.
    InvalidValueError
        If a shape, a stride or a value breaks a rule.
    NotSupportedError
        If the types do not go together.
    DeviceMismatchError
        If K and the arrays do not lie on one device.
    """
    K = check_kronecker(K, "K")
    choose(layout, _native.BATCH_LAYOUTS, "layout")
    call = K._call(handle, ordered=False)
    operand = matrix(X, "X", dtype=K.dtype, call=call)
    count = operand.batch_count
    features, vectors = _features(K, transpose), _vectors(operand, layout)
    given = {"k_scale": k_scale, "x_scale": x_scale, "bias": bias, "y_scale": y_scale}
    scales = read_all(given, _lengths(features, vectors), count, call)
    if out is None and beta != 0:
        raise InvalidValueError(f"beta is {beta}, but there is no Y to add: pass it as out")
    if out_dtype is None and out is not None:
        dtype = matrix(out, "out", call=call).dtype
    else:
        plain = activation is None and alpha == 1
        dtype = product_dtype(out_dtype, K._dtype, scales, "y_scale", plain)
    result, Y = _out_matrix(call, operand, features, layout, out, dtype, out_order)
    problem = _problem(
        K, transpose, layout, operand.order, (dtype, Y.order), (vectors, vectors), count, scales,
        activation, "fixed", implementation,
    )
    plan = _native.KroneckerMMPlan(
        call.native(), problem.descriptor, problem.entries, problem.implementation
    )
    _execute(plan, call, alpha, operand, beta, Y, count, scales, [])
    return result if out is not None else result_of(operand.library, result)


class KroneckerMMPlan(Plan):
    """A product with one K prepared for many X; see :func:`kronecker_mm` for what it computes.

    Neighbouring factors of a chain are multiplied into one where that saves work (not with
    value_mode "per_call").

    Parameters
    ----------
    K : Kronecker or KroneckerChain
        Packed (value modes fixed and updatable): its arrays may then be freed.
    n : int or (int, int)
        Vectors: exactly so many, or from the smallest to the largest.
    layout : {"first", "last"}
    transpose : bool
    out_dtype : optional
        As in :func:`kronecker_mm` by default.
    x_order, out_order : {"C", "F"}
        Row- or column-major X and Y.
    batch_count : int
        Number of matrices X and Y.
    k_scale : {"none", "tensor", "row"}
    x_scale : {"none", "tensor", "col"}
    bias, y_scale : bool
        Which arrays every execution will be given.
    batched : collection of str
        Names of those that each matrix of a batch has its own of.
    activation : {"relu", "gelu"}, optional
    value_mode : {"fixed", "updatable", "per_call"}
        "updatable": :meth:`update_values` repacks new values. "per_call": each execution is given
        ``values``.
    implementation : str, optional
        One of :func:`kronecker_mm_implementations`.
    handle : Handle, optional

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    NotSupportedError
        If the types do not go together, or the named implementation declines.
    """

    __slots__ = (
        "_batch_count", "_features", "_layout", "_patterns", "_scales", "_value_mode", "_x", "_y",
    )
    _type = _native.KroneckerMMPlan
    _operand = "K"

    def __init__(
        self,
        K: Kronecker | KroneckerChain,
        *,
        n: int | tuple[int, int],
        layout: str = "first",
        transpose: bool = False,
        out_dtype: object = None,
        x_order: str = "C",
        out_order: str = "C",
        batch_count: int = 1,
        k_scale: str | None = "none",
        x_scale: str | None = "none",
        bias: bool = False,
        y_scale: bool = False,
        batched: Iterable[str] = (),
        activation: str | None = None,
        value_mode: str = "fixed",
        implementation: str | None = None,
        handle: Handle | None = None,
    ) -> None:
        K = check_kronecker(K, "K")
        choose(layout, _native.BATCH_LAYOUTS, "layout")
        choose(x_order, _native.ORDERS, "x_order")
        choose(out_order, _native.ORDERS, "out_order")
        self._layout = layout
        self._value_mode = value_mode
        self._patterns = K._patterns
        self._batch_count = as_int(batch_count, "batch_count")
        self._features = _features(K, transpose)
        smallest, largest = size_range(n, "n")
        given = {"k_scale": k_scale, "x_scale": x_scale, "bias": bias, "y_scale": y_scale}
        self._scales, names = declare_all(given, batched, _lengths(self._features, largest))
        if "x_scale" in names and x_scale == "col" and smallest != largest:
            raise InvalidValueError(
                f"batched names x_scale, whose stride is n, but n is {(smallest, largest)}; make "
                "the plan for one n"
            )
        dtype = product_dtype(out_dtype, K._dtype, self._scales, "y_scale", activation is None)
        self._x = K._dtype, x_order
        self._y = dtype, out_order
        problem = _problem(
            K, transpose, layout, x_order, self._y, (smallest, largest), self._batch_count,
            self._scales, activation, value_mode, implementation,
        )
        self._create(problem, handle)

    def __call__(
        self,
        X: Any,
        out: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        *,
        k_scale: Any = None,
        x_scale: Any = None,
        bias: Any = None,
        y_scale: Any = None,
        values: Any = None,
        handle: Handle | None = None,
    ) -> Any:
        """Execute the plan.

        Parameters
        ----------
        X : array
            As in :func:`kronecker_mm`, of the plan's type, order and batch.
        out : array, optional
            Y itself; needed where ``beta`` is not 0.
        alpha, beta : float
        k_scale, x_scale, bias, y_scale : number or array of fp32
            Those that the plan was made for, and no others.
        values : Kronecker, KroneckerChain or sequence of arrays
            One array a factor, for value_mode "per_call" alone.

        Returns
        -------
        array
            Y, of the library that X came from, or ``out``.

        Raises
        ------
        InvalidValueError
            If an array does not have the plan's type, order or shape.
        """
        plan = self._open()
        call = self._call_of(handle)
        operand = matrix(X, "X", dtype=self._x[0], order=self._x[1], call=call)
        if operand.batch_count != self._batch_count:
            raise InvalidValueError(
                f"X has shape {operand.shape}; the plan was made for a batch of "
                f"{self._batch_count}"
            )
        if out is None and beta != 0:
            raise InvalidValueError(f"beta is {beta}, but there is no Y to add: pass it as out")
        lengths = _lengths(self._features, _vectors(operand, self._layout))
        given = {"k_scale": k_scale, "x_scale": x_scale, "bias": bias, "y_scale": y_scale}
        scales = check_all(given, self._scales, lengths, self._batch_count, call)
        per_call = self._value_mode == "per_call"
        if per_call != (values is not None):
            raise InvalidValueError(
                f"values is {'None' if per_call else 'given'}, but value_mode is "
                f"{self._value_mode!r}: it is given for 'per_call' alone"
            )
        own = self._own_values(values, call) if per_call else []
        result, Y = _out_matrix(call, operand, self._features, self._layout, out, *self._y)
        _execute(
            plan, call, alpha, operand, beta, Y, self._batch_count, scales,
            [address(array) for array in own],
        )
        return result if out is not None else result_of(operand.library, result)

    def update_values(self, values: Any, *, handle: Handle | None = None) -> None:
        """Repack new values of the same patterns; no execution may run at the same time.

        Parameters
        ----------
        values : Kronecker, KroneckerChain or sequence of arrays
            One array a factor, each of shape (a, b, c, d).

        Raises
        ------
        NotSupportedError
            Unless the plan was made with value_mode "updatable".
        """
        plan = self._open()
        call = self._call_of(handle)
        own = self._own_values(values, call)
        plan.update_values(call.native(), [address(array) for array in own])

    def _own_values(self, values: Any, call: Call) -> list[Stored]:
        given = values._arrays if isinstance(values, (Kronecker, KroneckerChain)) else values
        arrays = [call.array(x, f"values[{i}]")[0] for i, x in enumerate(given)]
        if len(arrays) != len(self._patterns):
            raise InvalidValueError(
                f"values holds {len(arrays)} arrays; K has {len(self._patterns)} factors"
            )
        for i, (array, pattern) in enumerate(zip(arrays, self._patterns)):
            if array.shape != pattern:
                raise InvalidValueError(
                    f"values[{i}] has shape {array.shape}; it must be {pattern}"
                )
            flat = array.reshape(array.size) if contiguous(array) else array
            check_values(flat, f"values[{i}]", array.size, self._x[0], None)
        return arrays


def kronecker_mm_implementations(device: str = "cpu") -> list[str]:
    """Names of the implementations on a device ("cpu" or "cuda"), the reference last."""
    return implementations(_native.KroneckerMMPlan, device)


def kronecker_gradient(
    pattern: Pattern,
    X: Any,
    dY: Any,
    *,
    layout: str = "first",
    dtype: object = None,
    handle: Handle | None = None,
) -> Kronecker:
    """The gradient of a factor's values: of Y = X K^T (batch first) or K X (batch last).

    gradient[i, j, k, l] is the sum over all vectors of dY at (i*b + j)*d + l times X at
    (i*c + k)*d + l, in fp64 and rounded once. (The gradient of X is :func:`kronecker_mm` of dY with
    ``transpose``.)

    Parameters
    ----------
    pattern : (int, int, int, int)
        (a, b, c, d) of the factor.
    X, dY : array
        fp32, fp16 or bf16, both of one type, on one device; shapes as X and Y of
        :func:`kronecker_mm`.
    layout : {"first", "last"}
    dtype : optional
        Of the gradient: fp32 (the default), fp16 or bf16.
    handle : Handle, optional

    Returns
    -------
    Kronecker
        On the device of X.

    Raises
    ------
    InvalidValueError
        If shapes do not fit.
    NotSupportedError
        If a type is none of these.
    """
    call = Call(handle)
    operand, upstream = matrix(X, "X", call=call), matrix(dY, "dY", call=call)
    result = Kronecker.zeros(
        as_pattern(pattern, "pattern"), dtype="fp32" if dtype is None else dtype
    )
    if call.place.on_cuda:
        values = call.empty(result.nnz, result._dtype.storage)
        result = Kronecker(values.reshape(*result.pattern))
    _native.kronecker_gradient(
        call.native(), operand.descriptor(), upstream.descriptor(),
        choose(layout, _native.BATCH_LAYOUTS, "layout"), result._descriptor(True),
    )
    return result
