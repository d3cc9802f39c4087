# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory of a GPU, made by the library itself, and views of those of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from magicube import _native
from magicube._dtypes import DTYPES
from magicube._place import Place, thread_handle
from magicube.errors import InvalidValueError, NotSupportedError

DLPACK_CUDA = 2
# (code, bits) of DLPack's element types beside the integers and IEEE floats that NumPy spells out.
_DLPACK_TYPES: dict[tuple[int, int], np.dtype[Any]] = {
    (4, 16): DTYPES["bf16"].storage,
    (6, 8): np.dtype(np.bool_),
    (10, 8): DTYPES["e4m3"].storage,
}
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f"}
LEGACY_STREAM = 1  # how DLPack and __cuda_array_interface__ write the stream that CUDA calls 0


def dlpack_dtype(code: int, bits: int, lanes: int) -> np.dtype[Any] | None:
    """The NumPy type of a DLPack type, or None."""
    if lanes != 1 or bits % 8:
        return None
    if code in _DLPACK_KINDS:
        try:
            return np.dtype(f"{_DLPACK_KINDS[code]}{bits // 8}")
        except TypeError:
            return None
    return _DLPACK_TYPES.get((code, bits))


def _dlpack_code(dtype: np.dtype[Any]) -> tuple[int, int]:
    for pair, known in _DLPACK_TYPES.items():
        if known == dtype:
            return pair
    code = next(code for code, kind in _DLPACK_KINDS.items() if kind == dtype.kind)
    return code, dtype.itemsize * 8


class DeviceArray:
    """An array in the memory of a CUDA device, for programs without torch and CuPy.

    :func:`magicube.to_cuda` and :meth:`empty` make one; it frees its memory itself, after waiting
    for the device. torch, CuPy and other libraries read it without a copy, for example by
    ``torch.from_dlpack(x)`` or ``cupy.asarray(x)``.
    """

    __slots__ = (
        "__weakref__",
        "_library",
        "_owner",
        "_stream",
        "dtype",
        "ordinal",
        "ptr",
        "read_only",
        "shape",
        "strides",
    )

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        ordinal: int,
        owner: Any,
        *,
        read_only: bool = False,
        stream: int | None = None,
        library: Any = None,
    ) -> None:
        self.ptr = ptr
        """Address of the first item."""
        self.shape = shape
        self.strides = strides
        """In bytes."""
        self.dtype = dtype
        """NumPy type of the items."""
        self.ordinal = ordinal
        """Which CUDA device."""
        self.read_only = read_only
        self._owner = owner
        # The stream that its contents come in the order of; None: they are there already.
        self._stream = stream
        # Another library's array: the _arrays.Library that tells its current stream.
        self._library = library

    @classmethod
    def empty(cls, shape: Any, dtype: Any, ordinal: int = 0) -> DeviceArray:
        """A new array, row by row, whose contents are undefined.

        Raises
        ------
        NoDeviceError
            If there is no such device.
        AllocFailedError
            If it has not that much free memory.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        item = np.dtype(dtype)
        count = math.prod(sizes)
        memory = _native.Memory(_native.DEVICES["cuda"], ordinal, count * item.itemsize)
        return cls(memory.address, sizes, dense_strides(sizes, item), item, ordinal, memory)

    @property
    def device(self) -> str:
        """Such as ``"cuda:0"``."""
        return str(Place("cuda", self.ordinal))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of items."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the items."""
        return self.size * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether the items lie row by row without gaps."""
        dense = dense_strides(self.shape, self.dtype)
        return self.size == 0 or all(
            n == 1 or a == b for n, a, b in zip(self.shape, self.strides, dense)
        )

    def pending_stream(self) -> int | None:
        """The stream that the contents come in the order of, None if they are there already."""
        return self._stream if self._library is None else int(self._library.current_stream())

    def _with(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(
            self.ptr, shape, strides, self.dtype, self.ordinal, self._owner,
            read_only=self.read_only, stream=self._stream, library=self._library,
        )

    def _frozen(self) -> DeviceArray:
        """The same items, not to be written to."""
        view = self.reshape(*self.shape)
        view.read_only = True
        return view

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        """The same items with two axes exchanged."""
        axes = list(range(self.ndim))
        axes[first], axes[second] = axes[second], axes[first]
        return self._with(
            tuple(self.shape[axis] for axis in axes), tuple(self.strides[axis] for axis in axes)
        )

    def reshape(self, *sizes: Any) -> DeviceArray:
        """The same items in another shape, given as integers or a tuple of them; they must lie row
        by row without gaps.
        """
        shape: tuple[int, ...] = sizes[0] if sizes and isinstance(sizes[0], tuple) else sizes
        if math.prod(shape) != self.size or not self.contiguous:
            raise InvalidValueError(
                f"an array of shape {self.shape} and strides {self.strides} has no view of shape "
                f"{shape}"
            )
        return self._with(shape, dense_strides(shape, self.dtype))

    def view(self, dtype: Any) -> DeviceArray:
        """The same memory as items of another type of the same size."""
        item = np.dtype(dtype)
        if item.itemsize != self.dtype.itemsize:
            raise InvalidValueError(
                f"items of {self.dtype} cannot be seen as {item}, whose size is another"
            )
        other = self._with(self.shape, self.strides)
        other.dtype = item
        return other

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in host memory; waits for the work that writes the items."""
        result: np.ndarray[Any, Any] = np.empty(self.shape, self.dtype)
        if self.size == 0:
            return result
        if min(self.strides, default=0) < 0:
            raise NotSupportedError("an array with negative strides cannot be copied")
        spans = ((n - 1) * stride for n, stride in zip(self.shape, self.strides))
        span = sum(spans) + self.dtype.itemsize
        raw = result if self.contiguous else np.empty(span, np.uint8)
        stream = self.pending_stream() or 0
        handle = thread_handle(Place("cuda", self.ordinal)).on_stream(stream)
        _native.copy(handle, raw.__array_interface__["data"][0], self.ptr, raw.nbytes)
        handle.synchronize()
        if raw is not result:
            result[...] = np.ndarray(self.shape, self.dtype, raw.data, 0, self.strides)
        return result

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("a DeviceArray lies in the memory of a GPU; copy it with its numpy()")

    def _wait(self, stream: int) -> None:
        """Let work that is now submitted to ``stream`` find the contents."""
        pending = self.pending_stream()
        if pending is not None and pending != stream:
            thread_handle(Place("cuda", self.ordinal)).on_stream(pending).synchronize()

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CUDA, self.ordinal

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule over the memory. Waits if the items come in the order of another stream."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a DeviceArray is exported without a copy, on its own device")
        versioned = max_version is not None and max_version[0] >= 1
        if self.read_only and not versioned:
            raise BufferError("the array is read-only, which only DLPack 1 and newer can say")
        if stream != -1:
            self._wait(0 if stream in (None, LEGACY_STREAM) else int(stream or 0))
        size = self.dtype.itemsize
        return _native.dlpack_capsule(
            self, self.ptr, self.shape, [stride // size for stride in self.strides],
            self.__dlpack_device__(), _dlpack_code(self.dtype), versioned, self.read_only,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        pending = self.pending_stream()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr, self.read_only),
            "strides": None if self.contiguous else self.strides,
            "stream": LEGACY_STREAM if pending == 0 else pending,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"


def dense_strides(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Strides in bytes of an array without gaps, row by row."""
    strides = []
    step = dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def upload(array: np.ndarray[Any, Any], ordinal: int) -> DeviceArray:
    """A copy of a host array on a device; it is there when this returns."""
    result = DeviceArray.empty(array.shape, array.dtype, ordinal)
    if array.size:
        dense = np.ascontiguousarray(array)
        handle = thread_handle(Place("cuda", ordinal)).on_stream(0)
        _native.copy(handle, result.ptr, dense.__array_interface__["data"][0], dense.nbytes)
        handle.synchronize()
    return result
