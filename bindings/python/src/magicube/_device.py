# SPDX-License-Identifier: Apache-2.0
"""Version, devices and handles."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from magicube import _native
from magicube._arrays import as_int, choose
from magicube._place import CPU, Place, thread_handle
from magicube.errors import InvalidValueError


def build_info() -> str:
    """One line on how the library was built: compiler, CUDA runtime, architectures."""
    return _native.build_info()


def device_count(device: str = "cpu") -> int:
    """Number of devices of a kind.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        The kind.

    Returns
    -------
    int
        1 for the CPU; for CUDA 0 where there is no GPU, no driver, or no CUDA in this build.
    """
    return _native.device_count(choose(device, _native.DEVICES, "device"))


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of one device."""

    device: str
    """"cpu" or "cuda"."""
    ordinal: int
    name: str
    """As the device calls itself."""
    compute_capability: int
    """10 * major + minor on CUDA (90 for sm_90), 0 on the CPU."""
    multiprocessors: int
    """Streaming multiprocessors on CUDA, usable hardware threads on the CPU."""
    memory_bytes: int
    supported: bool
    """Whether this build holds code for the device."""


def device_info(device: str = "cpu", ordinal: int = 0) -> DeviceInfo:
    """Describe one device.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        The kind.
    ordinal : int
        Which of them, counted from 0.

    Raises
    ------
    NoDeviceError
        If there is none with this ordinal.
    """
    kind = choose(device, _native.DEVICES, "device")
    number = as_int(ordinal, "ordinal", 32)
    return DeviceInfo(device, number, *_native.device_info(kind, number))


class Handle:
    """A device together with the settings of calls on it.

    A handle serves one thread at a time; calls on one handle wait for each other. Plans may be
    shared by threads that each have their own handle. It is a context manager; leaving it closes
    the handle.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        Always named, never guessed.
    ordinal : int
        Which device of that kind.
    num_threads : int
        Threads of the process's pool that calls may use; 0 means all.
    validation : {"full", "basic"}, optional
        "basic", the default on a GPU, checks sizes, types and pointers; "full", the default on the
        CPU, also the contents of index arrays, scales and values. On a GPU "full" copies the index
        arrays that a conversion reads to the host.
    deterministic : bool
        Whether the same call gives the same bits each time, at some cost.
    stream : int, optional
        Address of the CUDA stream that calls run on (0: the legacy default stream). By default
        each call runs on the current stream of the library that its dense operand is from. With a
        stream named here, inputs are waited for, and the caller orders what uses the results.

    Raises
    ------
    NoDeviceError
        If the device is absent.
    ArchMismatchError
        If the library holds no code for it.
    InvalidValueError
        If a setting is unknown or out of range.
    """

    __slots__ = ("__weakref__", "_native", "device", "ordinal", "stream")

    def __init__(
        self,
        device: str = "cpu",
        ordinal: int = 0,
        num_threads: int = 0,
        validation: str | None = None,
        deterministic: bool = False,
        stream: int | None = None,
    ) -> None:
        kind = choose(device, _native.DEVICES, "device")
        if validation is not None:
            choose(validation, _native.VALIDATIONS, "validation")
        self.device = device
        """"cpu" or "cuda"."""
        self.ordinal = as_int(ordinal, "ordinal", 32)
        """Which device of that kind."""
        self.stream = None if stream is None else as_int(stream, "stream")
        """Address of the stream of all calls, or None."""
        if stream is not None and device != "cuda":
            raise InvalidValueError(f"stream is {stream}; a handle of the CPU has no stream")
        self._native = _native.Handle(kind, self.ordinal)
        self.num_threads = num_threads
        if validation is not None:
            self.validation = validation
        self._native.deterministic = bool(deterministic)

    @property
    def num_threads(self) -> int:
        """Threads of the process's pool that calls may use; 0 means all."""
        return self._native.num_threads

    @num_threads.setter
    def num_threads(self, count: int) -> None:
        self._native.num_threads = as_int(count, "num_threads", 32)

    @property
    def validation(self) -> str:
        """"basic" or "full"."""
        level = self._native.validation
        return next(name for name, code in _native.VALIDATIONS.items() if code == level)

    @validation.setter
    def validation(self, level: str) -> None:
        self._native.validation = choose(level, _native.VALIDATIONS, "validation")

    @property
    def deterministic(self) -> bool:
        """Whether the same call gives the same bits each time."""
        return self._native.deterministic

    @deterministic.setter
    def deterministic(self, enabled: bool) -> None:
        self._native.deterministic = bool(enabled)

    @property
    def closed(self) -> bool:
        """Whether the handle has been closed."""
        return self._native.closed

    def synchronize(self) -> None:
        """Wait for the stream of the last call; on the CPU all is done when a call returns."""
        native = self._native if self.stream is None else self._native.on_stream(self.stream)
        native.synchronize()

    def close(self) -> None:
        """Free the handle; calling it again does nothing."""
        self._native.close()

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"Handle({self.device!r}, {self.ordinal}{state})"


def native_handle(handle: Handle | None, place: Place = CPU) -> _native.Handle:
    """The handle to call with: the caller's, or this thread's own of the device."""
    if handle is None:
        return thread_handle(place)
    if not isinstance(handle, Handle):
        raise TypeError(f"handle is {handle!r}; it must be a magicube.Handle or None")
    return handle._native
