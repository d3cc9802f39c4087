# SPDX-License-Identifier: Apache-2.0
"""Steady-state times of functions that take turns on the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SETTLE_S = 0.05  # BLAS and OpenMP workers spin for up to 30 ms after a call and would take a core
BURST_S = 0.1
BURST_CALLS = 10
LEAST_ROUNDS = 5


class Times(NamedTuple):
    """Microseconds of the timed calls, by the clock on the wall but for `processor`."""

    median: float
    least: float
    most: float
    calls: int
    processor: float
    """Median of the time that processors worked for the process, all threads together: what a
    machine that others load tells best, with one thread."""

    def as_fields(self) -> dict[str, Any]:
        return {
            "time_us": self.median,
            "min_us": self.least,
            "max_us": self.most,
            "repeats": self.calls,
            "cpu_us": self.processor,
        }


def _elapsed(run: Callable[[], object]) -> tuple[float, float]:
    processor, start = time.process_time(), time.perf_counter()
    run()
    return time.perf_counter() - start, time.process_time() - processor


def _burst(run: Callable[[], object], calls: int) -> list[tuple[float, float]]:
    time.sleep(SETTLE_S)
    run()  # brings caches, clocks and workers back
    return [_elapsed(run) for _ in range(calls)]


def alternate(
    runs: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds: float,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Times]:
    """Time functions in turns.

    Parameters
    ----------
    runs
        The functions by name.
    rounds : int
        Turns that each gets; 0: as many as fit the seconds, at least five.
    seconds : float
        Time for each function that decides on the rounds.
    advance
        Called after each turn.
    """
    first = {name: min(_burst(run, 1))[0] for name, run in runs.items()}
    burst = {
        name: max(1, min(BURST_CALLS, int(BURST_S / max(t, 1e-9)))) for name, t in first.items()
    }
    if rounds <= 0:
        turn = max(SETTLE_S + first[name] * (burst[name] + 1) for name in runs)
        rounds = max(LEAST_ROUNDS, int(seconds / turn))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            samples[name] += _burst(run, burst[name])
            advance()
    return {
        name: summary([(1e6 * wall, 1e6 * processor) for wall, processor in taken], len(taken))
        for name, taken in samples.items()
    }


def summary(samples: list[tuple[float, float]], calls: int) -> Times:
    """Of times of a call and of its processor time, in microseconds, taken over so many calls."""
    times, processor = ([sample[i] for sample in samples] for i in range(2))
    return Times(
        statistics.median(times), min(times), max(times), calls, statistics.median(processor)
    )
