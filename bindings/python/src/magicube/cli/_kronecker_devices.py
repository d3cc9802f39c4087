# SPDX-License-Identifier: Apache-2.0
"""Where `magicube bench kronecker` measures: NumPy's arrays on the CPU, PyTorch's on a GPU."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Protocol

import numpy as np

import magicube as mc
from magicube import kronecker as choice
from magicube.cli._console import UsageError
from magicube.cli._cuda_timing import EnergyMeter, cuda_torch, in_turns
from magicube.cli._timing import Times, alternate
from magicube.cli._values import Array

Runs = Mapping[str, Callable[[], object]]


class Bench(Protocol):
    """A device's arrays, clock and energy meter."""

    name: str
    """As in :class:`magicube.kronecker.Setting`."""

    def place(self, K: choice.AnyKronecker) -> choice.AnyKronecker:
        """K on the device."""

    def put(self, x: Array, dtype: str) -> Any:
        """X on the device."""

    def get(self, y: Any) -> Array:
        """Y in host memory, as fp64."""

    def copy(self, count: int) -> Callable[[], object]:
        """Reads and writes so many bytes each."""

    def permutations(
        self, K: mc.Kronecker, layout: str, x: Any, y: Any
    ) -> Callable[[], object]:
        """What a batched product does besides multiplying; y is K's product with x."""

    def times(self, runs: Runs, rounds: int, seconds: float) -> dict[str, Times]:
        """In turns."""

    def joules(self, runs: Runs, times: Mapping[str, Times]) -> dict[str, float | None]:
        """Of a call; None where nothing measures them."""


class Host:
    """The CPU, whose energy this program cannot read."""

    name = "cpu"

    def place(self, K: choice.AnyKronecker) -> choice.AnyKronecker:
        return K

    def put(self, x: Array, dtype: str) -> Any:
        return x

    def get(self, y: Any) -> Array:
        return np.asarray(y).astype(np.float64)

    def copy(self, count: int) -> Callable[[], object]:
        target = np.empty(max(count, 1), np.uint8)
        source = np.ones_like(target)
        return lambda: np.copyto(target, source)

    def permutations(
        self, K: mc.Kronecker, layout: str, x: Any, y: Any
    ) -> Callable[[], object]:
        before, after = choice.permutations(K, layout)
        back = _batched(K, layout, np.asarray(y))
        return lambda: (before(x), after(back))

    def times(self, runs: Runs, rounds: int, seconds: float) -> dict[str, Times]:
        return alternate(runs, rounds, seconds)

    def joules(self, runs: Runs, times: Mapping[str, Times]) -> dict[str, float | None]:
        return dict.fromkeys(runs)


class Cuda:
    """A GPU, through PyTorch; NVML tells its energy."""

    def __init__(self, ordinal: int) -> None:
        torch = cuda_torch(ordinal)
        torch.cuda.set_device(ordinal)
        self.name = f"cuda:{ordinal}"
        self._ordinal = ordinal
        self._torch: Any = torch
        self._meter = EnergyMeter(torch, ordinal)

    def place(self, K: choice.AnyKronecker) -> choice.AnyKronecker:
        return K.cuda(self._ordinal)

    def put(self, x: Array, dtype: str) -> Any:
        from magicube import _kronecker_torch

        return _kronecker_torch.put(x, dtype, self.name)

    def get(self, y: Any) -> Array:
        return np.asarray(self._torch.as_tensor(y, device=self.name).double().cpu())

    def copy(self, count: int) -> Callable[[], object]:
        source = self._torch.ones(max(count, 1), dtype=self._torch.uint8, device=self.name)
        target = self._torch.empty_like(source)
        return lambda: target.copy_(source)

    def permutations(
        self, K: mc.Kronecker, layout: str, x: Any, y: Any
    ) -> Callable[[], object]:
        from magicube import _kronecker_torch

        before, after = _kronecker_torch.permutations(K, layout)
        back = _batched(K, layout, y)
        return lambda: (before(x), after(back))

    def times(self, runs: Runs, rounds: int, seconds: float) -> dict[str, Times]:
        return in_turns(self._torch, runs, rounds, seconds)

    def joules(self, runs: Runs, times: Mapping[str, Times]) -> dict[str, float | None]:
        return {name: self._meter.joules(run, times[name].median) for name, run in runs.items()}


def _batched(K: mc.Kronecker, layout: str, y: Any) -> Any:
    """Memory of Y's size in the shape that a batched product gives."""
    a, b, _, d = K.pattern
    return y.reshape(a * d, -1, b) if layout == "first" else y.reshape(a * d, b, -1)


def open_bench(device: str) -> Bench:
    """The bench that --device names."""
    kind, _, ordinal = device.partition(":")
    if device == "cpu":
        return Host()
    if kind != "cuda" or not (ordinal or "0").isdecimal():
        raise UsageError(f"--device is {device!r}; it must be cpu, cuda or such as cuda:1")
    return Cuda(int(ordinal or 0))
