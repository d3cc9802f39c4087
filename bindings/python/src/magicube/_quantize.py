# SPDX-License-Identifier: Apache-2.0
"""Symmetric quantisation: real = scale * integer."""

from __future__ import annotations

from typing import Any

import numpy as np

from magicube import _native
from magicube._arrays import Stored, address, as_float, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DTYPES, resolve_dtype
from magicube._matrix import Matrix, empty_matrix, matrix, result_of
from magicube._plan import read_scales
from magicube.errors import InvalidValueError


def _scale_shape(real: Matrix, granularity: str) -> tuple[int, ...]:
    length = {"tensor": 1, "row": real.rows, "col": real.cols}[granularity]
    return (length,) if real.batch is None else (real.batch, length)


def _granularity(name: object) -> str:
    names = {key: code for key, code in _native.GRANULARITIES.items() if key != "none"}
    choose(name, names, "granularity")
    return str(name)


def _given_scales(
    scale: Any, x: Matrix, granularity: str, call: Call
) -> tuple[Stored, int]:
    """The caller's scales and their batch stride; 0 if one array serves the whole batch."""
    lengths = {granularity: _scale_shape(x, granularity)[-1]}
    scales = read_scales(scale, "scale", lengths, x.batch_count, call)
    assert scales.array is not None
    return scales.array, scales.batch_stride


def quantize(
    x: Any,
    dtype: object = "int8",
    *,
    granularity: str = "tensor",
    calibration: str | None = None,
    percentile: float = 99.9,
    scale: Any = None,
    out_order: str | None = None,
    handle: Handle | None = None,
) -> tuple[Any, Any]:
    """Round a real matrix to integers: round-to-nearest-even(x / scale), saturated.

    Parameters
    ----------
    x : array
        fp32, fp16 or bf16, rows x cols or (batch, rows, cols), of either order. In host memory or
        in that of a GPU, where the work is done in the order of the array's stream.
    dtype
        "int4", "int8", "int12" (an int16 array) or "int16".
    granularity : {"tensor", "row", "col"}
        Which elements share a scale.
    calibration : {"absmax", "percentile", "mse", "given"}, optional
        How scales are found, with qmax = 2^(bits - 1) - 1: the largest abs(x) / qmax; that
        ``percentile`` of abs(x) / qmax, where what lies beyond saturates; of absmax * i / 100 /
        qmax, i = 100 .. 1, the one of least mean squared error; or ``scale``. "absmax" by default,
        "given" with ``scale``.
    percentile : float
        In (0, 100]: of n elements the ceil(percentile / 100 * n)-th smallest abs(x) is taken.
    scale : number or array of fp32, optional
        Positive scales: shape (1,), (rows,) or (cols,), with a batch in front if each matrix has
        its own.
    out_order : {"C", "F"}, optional
        Order of the result, by default that of ``x``: a matrix of tokens x features written as "F"
        is transposed in memory in the same pass.
    handle : Handle, optional

    Returns
    -------
    (array or Int4Array, array)
        The integers, and the scales: fp32 of shape (1,), (rows,) or (cols,), with a batch in front
        for a batch. A group of zeros gets scale 1. Both of the library that ``x`` came from.

    Raises
    ------
    InvalidValueError
        If a type or parameter breaks a rule, or, in host memory, x holds NaN or infinity or a
        given scale is not finite and positive.
    """
    call = Call(handle)
    real = matrix(x, "x", call=call)
    target = resolve_dtype(dtype)
    name = _granularity(granularity)
    how = calibration or ("absmax" if scale is None else "given")
    code = choose(how, _native.CALIBRATIONS, "calibration")
    if (how == "given") != (scale is not None):
        raise InvalidValueError(
            f"calibration is {how!r} and scale is {'None' if scale is None else 'given'}; "
            "a scale is given exactly for 'given'"
        )
    order = real.order if out_order is None else out_order
    choose(order, _native.ORDERS, "out_order")
    params: dict[str, int | float] = {
        "granularity": _native.GRANULARITIES[name],
        "calibration": code,
        "percentile": as_float(percentile, "percentile"),
    }
    if scale is not None:
        scales, params["scale_batch_stride"] = _given_scales(scale, real, name, call)
        shown: Any = scale
    else:
        shown, scales = real.library.empty(_scale_shape(real, name), DTYPES["fp32"])
    result, out = empty_matrix(real.library, real.shape, target, order)
    source, sink = real.descriptor(), out.descriptor()
    native = call.native()
    size = _native.quantize_workspace(native, source, sink, params)
    owner, scratch = call.workspace(size)
    _native.quantize(native, source, sink, address(scales), params, scratch, size)
    del owner
    shown = scales if isinstance(shown, (int, float, np.number)) else shown
    return result_of(real.library, result), shown if scale is not None else real.library.give(shown)


def dequantize(
    q: Any,
    scale: Any,
    *,
    granularity: str = "tensor",
    dtype: object = "fp32",
    out_order: str | None = None,
    handle: Handle | None = None,
) -> Any:
    """Turn integers back into reals: scale * integer in fp32, rounded once.

    Parameters
    ----------
    q : array or Int4Array
        int4, int8, uint8, int12, int16 or int32, rows x cols or (batch, rows, cols).
    scale : number or array of fp32
        Shape (1,), (rows,) or (cols,), as ``granularity`` says, with a batch in front if each
        matrix has its own.
    granularity : {"tensor", "row", "col"}
    dtype
        "fp32", "fp16" or "bf16".
    out_order : {"C", "F"}, optional
        Order of the result, by default that of ``q``.
    handle : Handle, optional

    Returns
    -------
    array
        Shape of ``q`` and of its library.

    Raises
    ------
    InvalidValueError
        If a type, shape or parameter breaks a rule.
    """
    call = Call(handle)
    integers = matrix(q, "q", call=call)
    name = _granularity(granularity)
    if scale is None:
        raise TypeError("scale is None; it must be a number or an array of float32")
    order = integers.order if out_order is None else out_order
    choose(order, _native.ORDERS, "out_order")
    scales, stride = _given_scales(scale, integers, name, call)
    params: dict[str, int | float] = {
        "granularity": _native.GRANULARITIES[name],
        "scale_batch_stride": stride,
    }
    target = resolve_dtype(dtype)
    result, out = empty_matrix(integers.library, integers.shape, target, order)
    _native.dequantize(
        call.native(), integers.descriptor(), out.descriptor(), address(scales), params
    )
    return result_of(integers.library, result)
