# SPDX-License-Identifier: Apache-2.0
"""A stand-in for CuPy over the package's own arrays, for machines that have none: enough of its
interface to see that results come from the caller's library, on its current stream.
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, Iterator

import magicube as mc
import numpy as np
import pytest


class ndarray:  # noqa: N801 (CuPy's name)
    def __init__(self, inner: mc.DeviceArray) -> None:
        self.inner = inner

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inner.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def reshape(self, *shape: Any) -> ndarray:
        return ndarray(self.inner.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> ndarray:
        return ndarray(self.inner.swapaxes(first, second))


class StandIn:
    """Puts the stand-in where Python looks for CuPy, until undone."""

    name = "cupy"

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        cupy = types.ModuleType("cupy")

        @contextlib.contextmanager
        def device(ordinal: int) -> Iterator[None]:
            yield

        contents: dict[str, Any] = {
            "ndarray": ndarray,
            "empty": lambda shape, dtype: ndarray(mc.DeviceArray.empty(shape, dtype)),
            "zeros": lambda shape, dtype: self.put(np.zeros(shape, dtype)),
            "full": lambda shape, value, dtype: self.put(np.full(shape, value, dtype)),
            "cuda": types.SimpleNamespace(
                Device=device, get_current_stream=lambda: types.SimpleNamespace(ptr=0)
            ),
        }
        for name, value in contents.items():
            setattr(cupy, name, value)
        patch.setitem(sys.modules, "cupy", cupy)

    def put(self, x: np.ndarray) -> ndarray:
        return ndarray(mc.to_cuda(x))

    def get(self, x: Any) -> np.ndarray:
        assert isinstance(x, ndarray)
        return x.inner.numpy()
