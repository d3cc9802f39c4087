# SPDX-License-Identifier: Apache-2.0
"""Sparse operands whose arrays lie together on one device."""

from __future__ import annotations

from typing import Any, Callable, Sequence, TypeVar

import numpy as np

from magicube import _native
from magicube._arrays import Stored, array_of, as_int, check_aligned, contiguous, place_of
from magicube._call import Call
from magicube._device import Handle
from magicube._device_array import DeviceArray, upload
from magicube._place import Place
from magicube.errors import InvalidValueError, NotSupportedError

Self = TypeVar("Self", bound="Placed")
Move = Callable[[Stored], Stored]


class Placed:
    """What the sparse formats share: where a matrix lies, and its way to another device."""

    __slots__ = ()
    _array_names: tuple[str, ...]
    _place: Place

    def _arrays(self) -> dict[str, Stored]:
        """The arrays that there are, by name."""
        found = {name: getattr(self, name) for name in self._array_names}
        return {name: array for name, array in found.items() if array is not None}

    def _moved(self: Self, arrays: dict[str, Stored]) -> Self:
        """This matrix of copies of its arrays elsewhere."""
        raise NotImplementedError

    def _common_place(self) -> Place:
        call = Call(None)
        for name, array in self._arrays().items():
            call.meet(place_of(array), name, array)
        return call.place

    @property
    def device(self) -> str:
        """Where the arrays lie: ``"cpu"``, or such as ``"cuda:0"``."""
        return str(self._place)

    def to(self: Self, device: str) -> Self:
        """A copy on a device; this matrix if it is there already.

        Parameters
        ----------
        device : str
            "cpu", "cuda" (which is "cuda:0") or such as "cuda:1".

        Raises
        ------
        InvalidValueError
            If ``device`` is none of these.
        NoDeviceError
            If there is no such device.
        """
        kind, colon, number = str(device).partition(":")
        named = number.isdecimal() if colon else True
        if kind not in _native.DEVICES or not named or (kind == "cpu" and number not in ("", "0")):
            raise InvalidValueError(
                f"device is {device!r}; it must be 'cpu', 'cuda' or such as 'cuda:1'"
            )
        return self.cuda(int(number or 0)) if kind == "cuda" else self.cpu()

    def cuda(self: Self, ordinal: int = 0) -> Self:
        """A copy in the memory of a CUDA device; this matrix if it is there already.

        It is there when this returns.

        Raises
        ------
        NoDeviceError
            If there is no such device.
        """
        place = Place("cuda", as_int(ordinal, "ordinal", 32))
        if self._place == place:
            return self
        source = self.cpu()
        return source._copied(lambda array: upload(np.asarray(array), place.ordinal))

    def cpu(self: Self) -> Self:
        """A copy in host memory; this matrix if it is there already."""
        if not self._place.on_cuda:
            return self

        def fetch(array: Stored) -> Stored:
            return array.numpy() if isinstance(array, DeviceArray) else array

        return self._copied(fetch)

    def _copied(self: Self, move: Move) -> Self:
        return self._moved({name: move(array) for name, array in self._arrays().items()})

    def _call(self, handle: Handle | None, name: str = "A", ordered: bool = True) -> Call:
        """A call that reads this matrix, on its device."""
        call = Call(handle, self._place, name)
        if ordered:
            self._order(call)
        return call

    def _order(self, call: Call) -> None:
        """Let a call find what the arrays hold."""
        if self._place.on_cuda:
            for name, array in self._arrays().items():
                call.array(array, name)

    def _require_host(self, operation: str) -> None:
        """Raise unless the matrix lies in host memory, which every operation takes."""
        if self._place.on_cuda:
            raise NotSupportedError(
                f"{operation} takes matrices in host memory alone in this version of the Python "
                f"package, and the matrix lies on CUDA device {self._place.ordinal}; call it on a "
                "copy in host memory: A.cpu()"
            )


def restore(matrix: Placed, device: str) -> Any:
    """A pickled matrix, back on the device that it was on."""
    return matrix.to(device)


def index_array(
    x: Any, argument: str, names: Sequence[str], length: int | None = None
) -> Stored:
    """A read-only view of an array that describes a pattern, of one of the types named."""
    array, _ = array_of(x, argument)
    if array.dtype.name not in names or not array.dtype.isnative:
        raise InvalidValueError(
            f"{argument} has items of {array.dtype}; they must be {' or '.join(names)}"
        )
    if array.ndim != 1 or (length is not None and array.size != length):
        expected = "one axis" if length is None else f"shape ({length},)"
        raise InvalidValueError(f"{argument} has shape {array.shape}; it must have {expected}")
    if not contiguous(array):
        raise InvalidValueError(f"{argument} is not contiguous; pass numpy.ascontiguousarray(x)")
    check_aligned(array, argument)
    if isinstance(array, DeviceArray):
        return array._frozen()
    view = array.view()
    view.flags.writeable = False
    return view
