# SPDX-License-Identifier: Apache-2.0
"""Work on a GPU as graphs that PyTorch captures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from magicube.cli._cuda_timing import cuda_torch, in_turns
from magicube.cli._timing import Times

Replay = Callable[[], object]

WARM_UP_RUNS = 3


class Gpu:
    """The device on which torch captures and times."""

    device = "cuda"

    def __init__(self) -> None:
        self.torch: Any = cuda_torch()

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

    def times(
        self, replays: Mapping[str, Replay], rounds: int, seconds: float
    ) -> dict[str, Times]:
        """In turns, between events."""
        return in_turns(self.torch, replays, rounds, seconds)
