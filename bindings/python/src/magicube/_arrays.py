# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: any host array as a NumPy view without a copy, results in the same library."""

from __future__ import annotations

import math
import operator
import sys
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from magicube import _native
from magicube._dtypes import DTYPES, DType, dtype_of_array, resolve_dtype
from magicube.errors import InvalidValueError, MisalignedError, NotSupportedError

AnyArray = np.ndarray[Any, Any]

_DLPACK_HOST = (1, 3)  # host memory, and host memory that CUDA has pinned
_DLPACK_CUDA = (2, 13)
# (code, bits) of DLPack's element types beside the integers and IEEE floats that NumPy spells out.
_DLPACK_TYPES: dict[tuple[int, int], np.dtype[Any]] = {
    (4, 16): DTYPES["bf16"].storage,
    (6, 8): np.dtype(np.bool_),
    (10, 8): DTYPES["e4m3"].storage,
}
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f"}


def as_int(value: object, argument: str, bits: int = 64) -> int:
    """``value`` as an integer that fits the C type of the argument."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{argument} is {value!r}; it must be an integer") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise InvalidValueError(f"{argument} is {number}; it must fit a {bits}-bit integer")
    return number


def as_float(value: object, argument: str) -> float:
    """``value`` as a number that fp32 can hold."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{argument} is {value!r}; it must be a number") from None
    with np.errstate(over="ignore"):
        if math.isfinite(number) and not np.isfinite(np.float32(number)):
            raise InvalidValueError(f"{argument} is {number}; it must lie in the range of fp32")
    return number


def choose(value: object, table: dict[str, int], argument: str) -> int:
    """The C number that ``value`` names in one of the tables of ``_native``."""
    if isinstance(value, str) and value in table:
        return table[value]
    raise InvalidValueError(f"{argument} is {value!r}; it must be one of {', '.join(table)}")


# ---- results -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Library:
    """Makes arrays of the library that the caller's arrays came from."""

    name: str
    namespace: Any = None

    def empty(
        self, shape: tuple[int, ...], dtype: DType, order: str = "C", zero: bool = False
    ) -> tuple[Any, AnyArray]:
        """An array, and a NumPy view of it for the library to write through.

        ``shape`` counts items of ``dtype.storage``; the last two axes are in ``order``.
        """
        if self.name == "torch":
            return self._empty_torch(shape, dtype, order, zero)
        stored = shape if order == "C" else (*shape[:-2], shape[-1], shape[-2])
        array = (np.zeros if zero else np.empty)(stored, dtype.storage)
        if order == "F":
            array = array.swapaxes(-1, -2)
        return array, array

    def _empty_torch(
        self, shape: tuple[int, ...], dtype: DType, order: str, zero: bool
    ) -> tuple[Any, AnyArray]:
        torch = sys.modules["torch"]
        name = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn"}.get(dtype.name, dtype.storage.name)
        stored = shape if order == "C" else (*shape[:-2], shape[-1], shape[-2])
        tensor = (torch.zeros if zero else torch.empty)(stored, dtype=getattr(torch, name))
        if order == "F":
            tensor = tensor.mT
        return tensor, host_array(tensor, "out")[0]

    def give(self, result: Any) -> Any:
        """The finished result as the caller's library holds it."""
        if self.namespace is None or result.dtype.kind not in "iuf":
            return result  # NumPy exports no bf16 and e4m3 through DLPack
        return self.namespace.from_dlpack(result)


NUMPY = Library("numpy")


def _library_of(x: Any) -> Library:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return Library("torch")
    find: Callable[[], Any] | None = getattr(x, "__array_namespace__", None)
    if find is not None:
        return Library("array namespace", find())
    return NUMPY


# ---- arguments -----------------------------------------------------------------------------------


def host_array(x: Any, argument: str) -> tuple[AnyArray, Library]:
    """A NumPy view of an array in host memory, without a copy, and the library that it is from.

    Raises
    ------
    TypeError
        If ``x`` is no array.
    NotSupportedError
        If it lies in the memory of a GPU.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{argument} is a masked array, whose mask would be ignored; "
            "pass x.filled(0) or x.data"
        )
    if isinstance(x, np.ndarray):
        return x, NUMPY
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, argument), _library_of(x)
    if hasattr(x, "__cuda_array_interface__"):
        raise _cuda_array(argument)
    if hasattr(x, "__array_interface__"):
        return np.asarray(x), NUMPY
    raise TypeError(
        f"{argument} is of type {type(x).__name__}; it must be a NumPy array or an object with "
        f"__dlpack__ or __array_interface__: pass numpy.asarray({argument})"
    )


def _cuda_array(argument: str) -> NotSupportedError:
    return NotSupportedError(
        f"{argument} lies in CUDA memory; this version computes on the CPU only: "
        "pass a copy in host memory"
    )


def _from_dlpack(x: Any, argument: str) -> AnyArray:
    device = int(x.__dlpack_device__()[0])
    if device in _DLPACK_CUDA:
        raise _cuda_array(argument)
    if device not in _DLPACK_HOST:
        raise NotSupportedError(
            f"{argument} lies on a device of DLPack type {device}; it must lie in host memory"
        )
    try:
        try:
            capsule = x.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer from before DLPack 1.0
            capsule = x.__dlpack__()
        tensor = _native.DlpackTensor(capsule)
        dtype = _dlpack_dtype(*tensor.type)
        if dtype is None:
            raise BufferError(f"its element type (DLPack code, bits, lanes) is {tensor.type}")
        array: AnyArray = _native.dlpack_array(tensor, dtype)
    except (BufferError, RuntimeError) as error:
        raise InvalidValueError(f"{argument} cannot be read through DLPack: {error}") from error
    if tensor.read_only:
        array.flags.writeable = False
    return array


def _dlpack_dtype(code: int, bits: int, lanes: int) -> np.dtype[Any] | None:
    if lanes != 1 or bits % 8:
        return None
    if code in _DLPACK_KINDS:
        try:
            return np.dtype(f"{_DLPACK_KINDS[code]}{bits // 8}")
        except TypeError:
            return None
    return _DLPACK_TYPES.get((code, bits))


def address(array: AnyArray) -> int:
    """Address of an array's first item; some address also for an empty one."""
    return int(array.__array_interface__["data"][0])


def check_aligned(array: AnyArray, argument: str) -> None:
    """Raise unless every item lies at a multiple of its size."""
    if array.size and address(array) % array.dtype.itemsize:
        raise MisalignedError(
            f"{argument} starts at an address that is no multiple of its "
            f"{array.dtype.itemsize}-byte items; pass a copy: x.copy()"
        )


def checked_dtype(array: AnyArray, wanted: object, argument: str) -> DType:
    """The element type of an array, which ``wanted`` (None: any) may narrow to int12."""
    found = dtype_of_array(array.dtype)
    if wanted is not None:
        dtype = resolve_dtype(wanted, f"the type of {argument}")
        if dtype.bits != 4 and dtype.storage == array.dtype:
            return dtype
        fix = (
            "pass a magicube.Int4Array, for example magicube.pack_int4(x)"
            if dtype.bits == 4
            else f"convert it, for example with x.astype({dtype.storage.name!r})"
        )
        raise InvalidValueError(f"{argument} has items of {array.dtype}, not {dtype.name}: {fix}")
    if found is None:
        raise InvalidValueError(
            f"{argument} has items of {array.dtype}; they must be one of "
            f"{', '.join(DTYPES)}: convert it, for example with x.astype('float32')"
        )
    return found


def check_writable(array: AnyArray, argument: str, writable: bool) -> None:
    """Raise if the library is to write to an array that is read-only."""
    if writable and not array.flags.writeable:
        raise InvalidValueError(f"{argument} is read-only; the result is written to it")
