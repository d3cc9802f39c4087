# SPDX-License-Identifier: Apache-2.0
"""Attention over integers: its scales, and the quantisation that makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from magicube._arrays import Stored, array_of, as_float, contiguous
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import resolve_dtype
from magicube._int4 import Int4Array
from magicube._quantize import quantize
from magicube.errors import InvalidValueError

SCALES = {"q_scale": "row", "k_scale": "row", "v_scale": "col"}
"""The arrays of scales, and what one that is no single number goes by."""


def scales_of(
    x: Any, argument: str, shape: tuple[int, ...], granularity: str, call: Call
) -> Stored | None:
    """An array of scales as the ABI takes it, None if the plan has none."""
    if granularity == "none":
        if x is not None:
            raise InvalidValueError(f"{argument} is given, but the plan was made without it")
        return None
    if x is None:
        raise InvalidValueError(f"{argument} is None, but the plan was made with it")
    if isinstance(x, (int, float, np.number)):
        array = call.full(as_float(x, argument))
    else:
        array, library = call.array(x, argument)
        if not isinstance(array, np.ndarray) and not contiguous(array):
            raise InvalidValueError(
                f"{argument} is not contiguous; pass {library.contiguous(argument)}"
            )
    wanted = (1,) if granularity == "tensor" else shape
    fitting = [wanted[i:] for i in range(len(wanted)) if all(n == 1 for n in wanted[:i])]
    if array.shape not in (*fitting, *([()] if granularity == "tensor" else [])):
        raise InvalidValueError(
            f"{argument} has shape {array.shape}; the plan was made for {granularity}, and it must "
            f"be {wanted}, where axes of 1 in front may be left out"
        )
    if array.dtype != np.float32:
        raise InvalidValueError(f"{argument} has items of {array.dtype}; they must be float32")
    return np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array


def granularity_of(x: Any, name: str) -> str:
    """What an array of scales goes by, as far as its shape tells."""
    if x is None:
        return "none"
    if isinstance(x, (int, float, np.number)) or array_of(x, name)[0].shape in ((), (1,)):
        return "tensor"
    return SCALES[name]


@dataclass(frozen=True)
class QuantizedAttention:
    """Q, K and V as integers with their scales, as :func:`attention` takes them."""

    q: Any
    """int8 array or :class:`Int4Array`, of the real array's shape."""
    k: Any
    v: Any
    q_scale: Any
    """fp32, one a query: q's shape without its last axis."""
    k_scale: Any
    """fp32, one a key."""
    v_scale: Any
    """fp32, one a feature: v's shape without its axis of keys."""

    @property
    def scales(self) -> dict[str, Any]:
        """The three scales by the names that :func:`attention` has for them."""
        return {"q_scale": self.q_scale, "k_scale": self.k_scale, "v_scale": self.v_scale}


def quantize_attention(
    q: Any, k: Any, v: Any, dtype: object = "int8", *, handle: Handle | None = None
) -> QuantizedAttention:
    """Quantise Q and K with a scale a row and V with a scale a column, the largest absolute value
    of each being the type's largest.

    Parameters
    ----------
    q, k, v : array
        As in :func:`attention`. In host memory or in that of a GPU, where the work is done in the
        order of the array's stream.
    dtype : {"int8", "int4"}
    handle : Handle, optional

    Returns
    -------
    QuantizedAttention
        ``attention(x.q, x.k, x.v, pattern, **x.scales)`` is attention over it.

    Raises
    ------
    InvalidValueError
        If a type or shape breaks a rule, or, in host memory, a number is NaN or infinite.
    """
    target = resolve_dtype(dtype, "dtype")
    if target.name not in ("int8", "int4"):
        raise InvalidValueError(f"dtype is {target.name}; it must be int8 or int4")
    parts: dict[str, Any] = {}
    for name, x, granularity in (("q", q, "row"), ("k", k, "row"), ("v", v, "col")):
        view, _ = array_of(x, name)
        shape = view.shape
        if len(shape) not in (2, 3, 4):
            raise InvalidValueError(f"{name} has shape {shape}; it must have 2 to 4 axes")
        whole = x if hasattr(x, "reshape") else view
        matrices = whole.reshape((math.prod(shape[:-2]), *shape[-2:]))
        integers, scales = quantize(matrices, target.name, granularity=granularity, handle=handle)
        if isinstance(integers, Int4Array):
            packed = integers.packed.reshape((*shape[:-1], -(-shape[-1] // 2)))
            parts[name] = Int4Array(packed, shape)
        else:
            parts[name] = integers.reshape(shape)
        length = shape[-2] if granularity == "row" else shape[-1]
        parts[f"{name}_scale"] = scales.reshape((*shape[:-2], length))
    return QuantizedAttention(**parts)
