# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each status of the library, all below :class:`MagicubeError`."""

from __future__ import annotations

from typing import Callable

__all__ = [
    "AllocFailedError",
    "ArchMismatchError",
    "CapturingError",
    "CudaError",
    "DeviceMismatchError",
    "InsufficientWorkspaceError",
    "InternalError",
    "InvalidValueError",
    "MagicubeError",
    "MisalignedError",
    "NoDeviceError",
    "NotSupportedError",
    "error_from_status",
]


class MagicubeError(Exception):
    """A call that did not succeed.

    Attributes
    ----------
    status : int
        The number of the library's status; a number that this version does not know is kept.
    name : str
        Its name, such as ``"MAGICUBE_STATUS_INVALID_VALUE"``.

    The text names the function, the argument, its value and the rule that it breaks.
    """

    default_status: int = 10
    default_name: str = "MAGICUBE_STATUS_INTERNAL_ERROR"

    def __init__(self, message: str, status: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.status = self.default_status if status is None else status
        self.name = self.default_name if name is None else name

    def __reduce__(self) -> tuple[Callable[..., MagicubeError], tuple[str, int, str]]:
        return type(self), (str(self), self.status, self.name)


class InvalidValueError(MagicubeError, ValueError):
    """An argument breaks a documented rule."""

    default_status = 1
    default_name = "MAGICUBE_STATUS_INVALID_VALUE"


class NotSupportedError(MagicubeError, NotImplementedError):
    """Legal, but nothing in this library computes it; the text says why."""

    default_status = 2
    default_name = "MAGICUBE_STATUS_NOT_SUPPORTED"


class ArchMismatchError(MagicubeError):
    """The library holds no code for this GPU."""

    default_status = 3
    default_name = "MAGICUBE_STATUS_ARCH_MISMATCH"


class NoDeviceError(MagicubeError):
    """There is no such device, or no driver for it."""

    default_status = 4
    default_name = "MAGICUBE_STATUS_NO_DEVICE"


class DeviceMismatchError(MagicubeError, ValueError):
    """An array or a plan belongs to another device."""

    default_status = 5
    default_name = "MAGICUBE_STATUS_DEVICE_MISMATCH"


class MisalignedError(MagicubeError, ValueError):
    """An address is not aligned as required."""

    default_status = 6
    default_name = "MAGICUBE_STATUS_MISALIGNED"


class InsufficientWorkspaceError(MagicubeError, ValueError):
    """A buffer is smaller than required."""

    default_status = 7
    default_name = "MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE"


class AllocFailedError(MagicubeError, MemoryError):
    """Out of host or device memory."""

    default_status = 8
    default_name = "MAGICUBE_STATUS_ALLOC_FAILED"


class CudaError(MagicubeError):
    """The CUDA runtime reported an error."""

    default_status = 9
    default_name = "MAGICUBE_STATUS_CUDA_ERROR"


class InternalError(MagicubeError):
    """A defect of the library."""


class CapturingError(MagicubeError):
    """Not allowed while the stream is being captured."""

    default_status = 11
    default_name = "MAGICUBE_STATUS_CAPTURING"


_CLASSES: dict[int, type[MagicubeError]] = {
    cls.default_status: cls
    for cls in (
        InvalidValueError,
        NotSupportedError,
        ArchMismatchError,
        NoDeviceError,
        DeviceMismatchError,
        MisalignedError,
        InsufficientWorkspaceError,
        AllocFailedError,
        CudaError,
        InternalError,
        CapturingError,
    )
}


def error_from_status(status: int, message: str) -> MagicubeError:
    """Make the exception for a status.

    Parameters
    ----------
    status : int
        A status number; any, also one that this version of the package does not know.
    message : str
        The library's text; if it is empty, the sentence that describes the status is taken.

    Returns
    -------
    MagicubeError
        An instance of the class for that status, or of MagicubeError itself.
    """
    from magicube import _native

    text = message or _native.status_string(status)
    return _CLASSES.get(status, MagicubeError)(text, status, _native.status_name(status))
