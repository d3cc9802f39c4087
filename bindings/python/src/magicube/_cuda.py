# SPDX-License-Identifier: Apache-2.0
"""Host arrays to the GPU."""

from __future__ import annotations

from typing import Any

from magicube._arrays import as_int, host_array
from magicube._device_array import DeviceArray, upload


def to_cuda(x: Any, ordinal: int = 0) -> DeviceArray:
    """A copy of an array in host memory on a CUDA device; it is there when this returns.

    Parameters
    ----------
    x : array
        In host memory.
    ordinal : int
        Which CUDA device.

    Raises
    ------
    TypeError
        If ``x`` is no array.
    NotSupportedError
        If it lies in CUDA memory.
    NoDeviceError
        If there is no such device.
    """
    return upload(host_array(x, "x")[0], as_int(ordinal, "ordinal", 32))
