# SPDX-License-Identifier: Apache-2.0
"""What the tests on a GPU share: the array libraries, and random problems."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import magicube as mc
import ml_dtypes
import numpy as np
import pytest
import reference as ref

needs_gpu = pytest.mark.skipif(mc.device_count("cuda") == 0, reason="there is no GPU")


class Torch:
    name = "torch"

    def __init__(self) -> None:
        self.torch = pytest.importorskip("torch")
        if not self.torch.cuda.is_available():
            pytest.skip("this torch has no CUDA")

    def put(self, x: np.ndarray) -> Any:
        names = {ml_dtypes.bfloat16: "bfloat16", ml_dtypes.float8_e4m3fn: "float8_e4m3fn"}
        name = names.get(x.dtype.type)
        if name is None:
            return self.torch.from_numpy(x.copy()).cuda()
        raw = x.view({1: np.uint8, 2: np.int16}[x.itemsize])
        return self.torch.from_numpy(raw.copy()).view(getattr(self.torch, name)).cuda()

    def get(self, x: Any) -> np.ndarray:
        assert isinstance(x, self.torch.Tensor) and x.is_cuda
        if x.dtype == self.torch.bfloat16:
            return x.view(self.torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
        return x.cpu().numpy()

    @contextlib.contextmanager
    def stream(self, own: bool) -> Iterator[Callable[[], None]]:
        """Makes a stream current, one of its own or the default one; gives what waits for it."""
        cuda = self.torch.cuda
        chosen = cuda.Stream() if own else cuda.default_stream()
        with cuda.stream(chosen):
            yield chosen.synchronize


class CuPy:
    name = "cupy"

    def __init__(self) -> None:
        self.cupy = pytest.importorskip("cupy")

    def put(self, x: np.ndarray) -> Any:
        try:
            return self.cupy.asarray(x)
        except (TypeError, ValueError):
            pytest.skip(f"this CuPy has no {x.dtype}")

    def get(self, x: Any) -> np.ndarray:
        assert isinstance(x, self.cupy.ndarray)
        return x.get()

    @contextlib.contextmanager
    def stream(self, own: bool) -> Iterator[Callable[[], None]]:
        """As Torch.stream."""
        cuda = self.cupy.cuda
        with cuda.Stream(non_blocking=True) if own else cuda.Stream.null as chosen:
            yield chosen.synchronize


class Own:
    name = None

    def put(self, x: np.ndarray) -> Any:
        return mc.to_cuda(x)

    def get(self, x: Any) -> np.ndarray:
        assert isinstance(x, mc.DeviceArray)
        return x.numpy()


MAKERS: dict[str, Any] = {"torch": Torch, "cupy": CuPy, "magicube": Own}


def made_by(lib: Any, values: Any) -> bool:
    """Whether the values of a sparse result are a view of an array of the library."""
    assert isinstance(values, mc.DeviceArray)
    return getattr(values._library, "name", None) == lib.name


def spread(lib: Any, x: np.ndarray) -> Any:
    """The same array on the GPU with a gap behind each line of its last axis."""
    wide = np.concatenate((x, ref.poison((*x.shape[:-1], 16), x.dtype)), axis=-1)
    there = lib.put(wide)
    if isinstance(there, mc.DeviceArray):
        return there._with(x.shape, there.strides)
    return there[..., : x.shape[-1]]


def to_gpu(lib: Any, x: Any) -> Any:
    """A host operand, packed or not, as one of the library on the GPU."""
    if isinstance(x, mc.Int4Array):
        return mc.Int4Array(lib.put(np.ascontiguousarray(x.packed)), x.shape, x.order)
    return lib.put(x)


def problem(
    rng: np.random.Generator, dtype: str = "int8", shape: tuple[int, int] = (72, 90), V: int = 8
) -> tuple[np.ndarray, mc.SrBcrs]:
    data = ref.values(rng, dtype, shape)
    dense = np.where(ref.keep(rng, shape, V, 0.4), data, data.dtype.type(0))
    return dense, ref.sparse(dense, dtype, V)
