# SPDX-License-Identifier: Apache-2.0
"""Times on a GPU by PyTorch: captured graphs that take turns, between events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from magicube.cli._console import UsageError

Replay = Callable[[], object]

WARM_UP_RUNS = 3
BURST_US = 5_000.0  # that replays between two events take at least
MOST_REPLAYS = 1_000
LEAST_ROUNDS = 5


class Gpu:
    """The device on which torch captures and times."""

    device = "cuda"

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise UsageError(
                "this benchmark captures CUDA graphs by PyTorch, which is not installed: "
                "pip install torch"
            ) from error
        if not torch.cuda.is_available():
            raise UsageError(f"torch {torch.__version__} has no CUDA device to time on")
        self.torch: Any = torch

    @property
    def name(self) -> str:
        """The GPU, and the torch that captures."""
        return f"{self.torch.cuda.get_device_name()}, torch {self.torch.__version__}"

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function as torch's compiler makes it."""
        compiled: Callable[..., Any] = self.torch.compile(function, dynamic=False)
        return compiled

    def capture(self, run: Callable[[], Any]) -> tuple[Replay, Any]:
        """A graph of one run, and the result that every replay writes."""
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(WARM_UP_RUNS):
                run()
        cuda.current_stream().wait_stream(side)
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            result = run()
        return graph.replay, result

    def elapsed(self, replay: Replay, count: int) -> float:
        """Microseconds of one of so many replays, after one that is not timed."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        replay()
        start.record()
        for _ in range(count):
            replay()
        end.record()
        end.synchronize()
        return 1e3 * float(start.elapsed_time(end)) / count

    def alternate(
        self,
        replays: Mapping[str, Replay],
        rounds: int,
        seconds: float,
        advance: Callable[[], None] = lambda: None,
    ) -> dict[str, dict[str, float]]:
        """Times by name, in microseconds: each gets one burst of replays a round.

        Parameters
        ----------
        rounds : int
            0: as many as fit the seconds, at least five.
        seconds : float
            Time for each contestant that decides on the rounds.
        """
        first = {name: self.elapsed(replay, 2) for name, replay in replays.items()}
        counts = {
            name: max(1, min(MOST_REPLAYS, int(BURST_US / max(t, 1e-3))))
            for name, t in first.items()
        }
        if rounds <= 0:
            longest = max((counts[name] + 1) * t for name, t in first.items())
            rounds = max(LEAST_ROUNDS, int(1e6 * seconds / longest))
        samples: dict[str, list[float]] = {name: [] for name in replays}
        for _ in range(rounds):
            for name, replay in replays.items():
                samples[name].append(self.elapsed(replay, counts[name]))
                advance()
        return {
            name: {
                "time_us": statistics.median(times),
                "min_us": min(times),
                "max_us": max(times),
                "repeats": rounds * counts[name],
            }
            for name, times in samples.items()
        }
