# SPDX-License-Identifier: Apache-2.0
"""Element types: their names, the NumPy types that store them, and what else is taken for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from magicube import _native
from magicube.errors import InvalidValueError


@dataclass(frozen=True)
class DType:
    """One element type of the library."""

    name: str
    bits: int
    storage: np.dtype[Any]
    """NumPy type of the arrays that hold it: two elements a uint8 for int4."""
    floating: bool

    @property
    def code(self) -> int:
        """Number of the type in the C ABI."""
        return _native.DATA_TYPES[self.name]

    def storage_count(self, elements: int) -> int:
        """Items of ``storage`` that hold so many elements."""
        return (elements + 1) // 2 if self.bits == 4 else elements


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("int4", 4, np.dtype(np.uint8), False),
        DType("int8", 8, np.dtype(np.int8), False),
        DType("uint8", 8, np.dtype(np.uint8), False),
        DType("int12", 16, np.dtype(np.int16), False),
        DType("int16", 16, np.dtype(np.int16), False),
        DType("int32", 32, np.dtype(np.int32), False),
        DType("fp16", 16, np.dtype(np.float16), True),
        DType("bf16", 16, np.dtype(ml_dtypes.bfloat16), True),
        DType("fp32", 32, np.dtype(np.float32), True),
        DType("e4m3", 8, np.dtype(ml_dtypes.float8_e4m3fn), True),
    )
}

_ALIASES = {
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "float8_e4m3fn": "e4m3",
}

_BY_STORAGE: dict[np.dtype[Any], DType] = {
    dtype.storage: dtype for dtype in DTYPES.values() if dtype.name not in ("int4", "int12")
}


def dtype_of_array(dtype: np.dtype[Any]) -> DType | None:
    """The element type that an array of this NumPy type holds, or None."""
    return _BY_STORAGE.get(dtype)


def resolve_dtype(value: object, argument: str = "dtype") -> DType:
    """Find the element type that ``value`` names.

    Parameters
    ----------
    value
        A name (``"int8"``, ``"bf16"``, ``"float32"``), a NumPy or ml_dtypes type or scalar type,
        or a torch type.
    argument : str
        Name of the caller's argument, for the message.

    Raises
    ------
    InvalidValueError
        If it is none of them.
    """
    if isinstance(value, DType):
        return value
    name = name_of(value)
    found = DTYPES.get(_ALIASES.get(name, name))
    if found is None:
        raise InvalidValueError(
            f"{argument} is {value!r}; it must be one of {', '.join(DTYPES)} or a NumPy, "
            "ml_dtypes or torch type with that meaning"
        )
    return found


def name_of(value: object) -> str:
    """The name of a type given as a string or as a type of NumPy, ml_dtypes or torch."""
    if isinstance(value, str) or type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    if value is None or value is float or value is int or value is bool:
        return repr(value)  # NumPy would take these for 64-bit types that nobody named
    try:
        return np.dtype(value).name  # type: ignore[call-overload, no-any-return]
    except TypeError:
        return repr(value)
