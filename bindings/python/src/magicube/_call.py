# SPDX-License-Identifier: Apache-2.0
"""One call of the library: its arrays lie on one device, its work has one place in a stream."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from magicube import _native
from magicube._arrays import NUMPY, Library, Stored, Use, array_of
from magicube._device import Handle, native_handle
from magicube._device_array import DeviceArray
from magicube._place import Place
from magicube.errors import DeviceMismatchError


class Call:
    """Collects the operands of a call, the sparse one or the plan first, then the dense ones.

    The first array from a library with a current stream decides on the stream, unless the handle
    names one; what later arrays hold is ordered before the call.
    """

    def __init__(
        self,
        handle: Handle | None,
        place: Place | None = None,
        name: str = "",
        operand: str = "A",
    ) -> None:
        """``operand`` is what the sparse operand is called where ``name`` is that of a plan."""
        self._handle = handle
        self._name = name
        self._operand = operand
        self._place: Place | None = None
        self._stream: int | None = None
        self._lead: Library | None = None
        native_handle(handle)  # raises for what is no handle
        if handle is not None:
            self._stream = handle.stream
            self.meet(Place(handle.device, handle.ordinal), "handle")
        if place is not None:
            self.meet(place, name)

    def meet(self, place: Place, name: str, x: Any = None) -> None:
        """Raise unless what is called ``name`` lies where the call takes place."""
        if self._place is None:
            self._place, self._name = place, name
        elif place != self._place:
            raise DeviceMismatchError(
                f"{self._name} {_is(self._name)} {self._place.where}, but {name} {_is(name)} "
                f"{place.where}; a call takes place on one device: "
                + _fix(self._name, self._operand, self._place, name, place, x)
            )

    @property
    def place(self) -> Place:
        """The device of the call."""
        return Place("cpu") if self._place is None else self._place

    @property
    def lead(self) -> Library:
        """The library of the array that decides on the stream."""
        if self._lead is not None:
            return self._lead
        return self.own_library()

    def array(self, x: Any, argument: str, writable: bool = False) -> tuple[Stored, Library]:
        """A view of an operand, as :func:`array_of` gives it, in the order of the call's stream."""
        follows = self._handle is None or self._handle.stream is None
        use = Use(
            self._stream,
            self._lead if follows else None,
            self.place.ordinal,
            lambda place: self.meet(place, argument, x),
        )
        view, library = array_of(x, argument, use)
        if library.ordinal is None:
            return view, library
        if self._stream is None and isinstance(view, DeviceArray):
            self._stream = view.pending_stream() or 0
        if library.name == "magicube":
            library = replace(library, own_stream=self._stream or 0)
        if writable and isinstance(view, DeviceArray):
            view._stream = self._stream or 0
        if self._lead is None:
            self._lead = library
        return view, library

    def own_library(self) -> Library:
        """What makes arrays of NumPy or of this package where the call takes place."""
        if not self.place.on_cuda:
            return NUMPY
        return Library("magicube", ordinal=self.place.ordinal, own_stream=self._stream or 0)

    def empty(self, count: int, dtype: np.dtype[Any]) -> Stored:
        """A new array of one axis where the call takes place, for the call to write to."""
        if not self.place.on_cuda:
            return np.empty(count, dtype)
        array = DeviceArray.empty(count, dtype, self.place.ordinal)
        array._stream = self._stream or 0
        return array

    @property
    def _has_named_stream(self) -> bool:
        """Whether the call runs on another stream than the leading library's current one."""
        return self._handle is not None and self._handle.stream is not None

    def full(self, number: float) -> Stored:
        """One fp32 number where the call takes place, as an array of shape (1,)."""
        library = self.own_library() if self._has_named_stream else self.lead
        return library.full(number)

    def scratch(self, count: int) -> tuple[Any, int]:
        """Memory of the leading library's stream-ordered allocator: what owns it, and its address;
        (None, 0) if it offers none, where a plan takes scratch of its own.
        """
        memory = None
        if count and not self._has_named_stream:
            memory = self.lead.scratch(count)
        return memory, 0 if memory is None else int(memory.data_ptr())

    def workspace(self, count: int) -> tuple[Any, int]:
        """Scratch memory where the call takes place: what owns it, and its address."""
        owner, scratch = self.scratch(count)
        if scratch or count == 0:
            return owner, scratch
        memory = _native.Memory(_native.DEVICES[self.place.kind], self.place.ordinal, count)
        return memory, memory.address

    def native(self) -> _native.Handle:
        """The handle to call with, on the call's stream."""
        handle = native_handle(self._handle, self.place)
        return handle.on_stream(self._stream or 0) if self.place.on_cuda else handle


def _is(name: str) -> str:
    return "is" if name == "handle" else "was made" if name == "the plan" else "lies"


def _fix(
    first: str, operand: str, first_place: Place, second: str, second_place: Place, x: Any
) -> str:
    """What to write instead; ``x`` is the second operand."""
    if first == "handle":
        return f"pass a handle of {second_place}, or none"
    if first_place.on_cuda:
        there = first_place.ordinal
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(x, torch.Tensor):
            return f"pass {second}.cuda({there})"
        if second_place.on_cuda:
            return f"move {second} to CUDA device {there}"
        return f"pass magicube.to_cuda({second}, {there})"
    if first == "the plan":
        return f"make the plan of {operand}.cuda({second_place.ordinal})"
    if first in ("A", "K", "S", "pattern"):
        return f"pass {first}.cuda({second_place.ordinal})"
    return f"pass magicube.to_cuda({first}, {second_place.ordinal}), or {second} in host memory"
