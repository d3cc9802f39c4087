# SPDX-License-Identifier: Apache-2.0
"""Times and energies of functions that launch work on PyTorch's current stream."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import Any

import magicube as mc
from magicube.cli._console import UsageError
from magicube.cli._timing import LEAST_ROUNDS, Times, summary

BURST_S = 0.02  # between two events: far longer than they resolve, and than a launch takes
MOST_CALLS = 1000
ENERGY_S = 0.5  # the counter moves every few tens of milliseconds


def cuda_torch(ordinal: int = 0) -> Any:
    """PyTorch, if it can use the device; else an error that tells what is missing."""
    try:
        import torch
    except ImportError as error:
        raise UsageError("--device cuda needs PyTorch: pip install torch") from error
    mc.device_info("cuda", ordinal)  # raises, with the reason, where there is none
    if not torch.cuda.is_available() or torch.cuda.device_count() <= ordinal:
        raise UsageError(f"PyTorch {torch.__version__} sees no CUDA device {ordinal}")
    return torch


def _burst(torch: Any, run: Callable[[], object], calls: int) -> tuple[float, float]:
    """Microseconds of a call between two events, and of the processor."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    torch.cuda.synchronize()
    processor = time.process_time()
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    processor = time.process_time() - processor
    end.synchronize()
    return 1e3 * begin.elapsed_time(end) / calls, 1e6 * processor / calls


def in_turns(
    torch: Any, runs: Mapping[str, Callable[[], object]], rounds: int, seconds: float
) -> dict[str, Times]:
    """Times of a call in a row of calls, functions in turns; caches stay warm.

    Parameters
    ----------
    torch
        The module.
    runs
        The functions by name.
    rounds : int
        Turns that each gets; 0: as many as fit the seconds, at least five.
    seconds : float
        Time for each function that decides on the rounds.
    """
    calls: dict[str, int] = {}
    for name, run in runs.items():
        first = min(_burst(torch, run, 3)[0] for _ in range(2))
        calls[name] = max(1, min(MOST_CALLS, int(1e6 * BURST_S / max(first, 1e-3))))
    if rounds <= 0:
        rounds = max(LEAST_ROUNDS, int(seconds / BURST_S))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            samples[name].append(_burst(torch, run, calls[name]))
    return {name: summary(taken, calls[name] * len(taken)) for name, taken in samples.items()}


class EnergyMeter:
    """The energy counter of a GPU, through NVML; without it nothing is told."""

    def __init__(self, torch: Any, ordinal: int) -> None:
        self._torch = torch
        self._device = ctypes.c_void_p()
        self._nvml: Any = None
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            at = torch.cuda.get_device_properties(ordinal)
            bus = f"{at.pci_domain_id:08x}:{at.pci_bus_id:02x}:{at.pci_device_id:02x}.0"
            found = nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByPciBusId_v2(
                bus.encode(), ctypes.byref(self._device)
            ) == 0
        except (OSError, AttributeError):
            return
        if found:
            self._nvml = nvml

    def _millijoules(self) -> int | None:
        total = ctypes.c_ulonglong()
        if self._nvml is None:
            return None
        status = self._nvml.nvmlDeviceGetTotalEnergyConsumption(
            self._device, ctypes.byref(total)
        )
        return total.value if status == 0 else None

    def joules(self, run: Callable[[], object], time_us: float) -> float | None:
        """Of a call, from as many in a row as fill half a second, the idle power included."""
        calls = max(1, int(1e6 * ENERGY_S / max(time_us, 1e-3)))
        self._torch.cuda.synchronize()
        before = self._millijoules()
        if before is None:
            return None
        for _ in range(calls):
            run()
        self._torch.cuda.synchronize()
        after = self._millijoules()
        return None if after is None else 1e-3 * (after - before) / calls
