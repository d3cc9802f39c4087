# SPDX-License-Identifier: Apache-2.0
"""magicube bench kronecker"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube import _oracle as oracle
from magicube import kronecker as choice
from magicube._kronecker import Pattern
from magicube.cli._console import EXIT_FAILED, JsonOption, Session, UsageError, choose, session
from magicube.cli._kronecker_devices import Bench, open_bench
from magicube.cli._peers import blas_threads
from magicube.cli._plots import check_plot, plot_kronecker
from magicube.cli._project import TYPES, parse_chain
from magicube.cli._values import Array

CHECKED = 64  # vectors whose results are compared with fp64
TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}


def read_patterns(text: str) -> list[tuple[Pattern, ...]]:
    """Chains from a list, or from the lines of a file: "16,64,64,1 1,4,4,8;8,4,4,1"."""
    if os.path.isfile(text):
        with open(text, encoding="utf-8") as stream:
            lines = [line.split("#")[0] for line in stream]
        text = " ".join(lines)
    chains = [tuple(parse_chain(part, "--patterns")) for part in text.split()]
    if not chains:
        raise UsageError("--patterns names no pattern")
    return chains


def _wrong(
    found: Array, K: choice.AnyKronecker, x: Array, setting: choice.Setting
) -> str:
    """Empty if a candidate's result is near that of fp64, where it is compared."""
    wide = K.to_dense(dtype="fp32").astype(np.float64)
    if setting.layout == "first":
        found, part = found[:CHECKED], x[:CHECKED].astype(np.float64)
        exact = part @ wide.T
    else:
        found, part = found[:, :CHECKED], x[:, :CHECKED].astype(np.float64)
        exact = wide @ part
    if found.shape != exact.shape:
        return f"its result has shape {found.shape}; it must be {exact.shape}"
    limit = TOLERANCE[setting.dtype] * np.abs(exact).max(initial=1e-30)
    error = float(np.abs(found - exact).max(initial=0))
    return "" if error <= limit else f"its result is off by {error:.3g}, more than {limit:.3g}"


@dataclass
class Contest:
    """Candidates that take part, and why others do not."""

    runs: dict[str, Any]
    declined: dict[str, str]
    wrong: dict[str, str]


def _enter(setting: choice.Setting, bench: Bench, K: choice.AnyKronecker, x: Array) -> Contest:
    """Makes and checks every candidate."""
    contest = Contest({}, {}, {})
    placed, given = bench.place(K), bench.put(x, setting.dtype)
    for candidate in choice.candidates():
        reason = candidate.accepts(setting)
        if reason:
            contest.declined[candidate.name] = reason
            continue
        try:
            run = candidate.make(placed, setting.layout, setting.batch)
            reason = _wrong(bench.get(run(given)), K, x, setting)
        except mc.NotSupportedError as error:
            contest.declined[candidate.name] = str(error)
            continue
        except Exception as error:  # anything may go wrong in what a user registered
            reason = f"it raised {type(error).__name__}: {error}"
        if reason:
            contest.wrong[candidate.name] = reason
        else:
            contest.runs[candidate.name] = lambda run=run: run(given)
    return contest


def measure(
    setting: choice.Setting, bench: Bench, rounds: int, seconds: float, seed: int
) -> dict[str, Any]:
    """Times of every candidate, in turns; what is wrong or declines is told."""
    random = np.random.default_rng(seed)
    chain = mc.KroneckerChain.random(setting.patterns, dtype=setting.dtype, seed=seed)
    K: choice.AnyKronecker = chain if len(chain) > 1 else chain[0]
    features = K.shape[1]
    shape = (
        (setting.batch, features) if setting.layout == "first" else (features, setting.batch)
    )
    x = random.standard_normal(shape, np.float32).astype(oracle.STORAGE[setting.dtype])
    contest = _enter(setting, bench, K, x)
    runs = contest.runs
    moved = x.nbytes + x.nbytes * K.shape[0] // max(K.shape[1], 1)
    extras: dict[str, Any] = {"copy": bench.copy(moved // 2)}
    if "bmm" in runs and isinstance(K, mc.Kronecker):
        given = bench.put(x, setting.dtype)
        extras["permutations"] = bench.permutations(K, setting.layout, given, runs["bmm"]())
    times = bench.times({**runs, **extras}, rounds, seconds)
    joules = bench.joules(runs, times)
    copy = times["copy"].median
    a, b, c, d = setting.patterns[0]
    return {
        "patterns": [list(pattern) for pattern in setting.patterns],
        "batch": setting.batch, "dtype": setting.dtype, "layout": setting.layout,
        "device": setting.device,
        "implementations": {
            name: {
                **times[name].as_fields(), "roofline_share": copy / times[name].median,
                "joules": joules[name],
            }
            for name in runs
        },
        "best": min(runs, key=lambda name: times[name].median),
        "declined": contest.declined,
        "wrong": contest.wrong,
        "permutation_share": (
            times["permutations"].median / times["bmm"].median if "permutations" in times else None
        ),
        "rule": (b + c) / (b * c) if len(setting.patterns) == 1 else None,
    }


def _render(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(
        "pattern", "implementation", "us", "of a copy's speed", "mJ", "against magicube"
    )
    for result in results:
        name = ";".join(",".join(map(str, pattern)) for pattern in result["patterns"])
        own = result["implementations"].get("magicube")
        for key, entry in result["implementations"].items():
            ratio = f"{entry['time_us'] / own['time_us']:.2f}" if own else ""
            energy = "" if entry["joules"] is None else f"{1e3 * entry['joules']:.2f}"
            table.add_row(
                name, key + (" *" if key == result["best"] else ""), f"{entry['time_us']:.1f}",
                f"{entry['roofline_share']:.2f}", energy, ratio,
            )
            name = ""
    console.print(table)
    for result in results:
        if result["permutation_share"] is not None:
            console.print(
                f"{result['patterns'][0]}: permutations take {result['permutation_share']:.0%} of "
                f"bmm; (b + c) / bc = {result['rule']:.3f}, the larger, the more a fused kernel "
                "saves"
            )
        for name, reason in result["wrong"].items():
            console.print(f"[bold red]WRONG RESULT[/]: {name}, {result['patterns']}: {reason}")


def _unmeasured(
    settings: list[choice.Setting], known: dict[str, dict[str, float]], current: Session
) -> Iterator[choice.Setting]:
    """Those to measure, with a progress bar."""
    with current.progress() as progress:
        task = progress.add_task("measuring", total=len(settings))
        for setting in settings:
            if setting.key in known:
                current.note(f"measured before: {setting.key} (--fresh measures it again)")
            else:
                yield setting
            progress.advance(task)


def kronecker(
    patterns: Annotated[
        str,
        typer.Option(help='Factors "16,64,64,1 1,64,64,16", chains "a,b,c,d;...", or a file.'),
    ],
    batch: Annotated[int, typer.Option(min=1, help="Vectors.")] = 4096,
    dtype: Annotated[str, typer.Option(help="fp32, fp16 or bf16")] = "fp32",
    layout: Annotated[str, typer.Option(help="first or last: the axis of vectors.")] = "first",
    device: Annotated[
        str, typer.Option(help="cpu (against NumPy and SciPy), or cuda (against PyTorch).")
    ] = "cpu",
    threads: Annotated[int, typer.Option(min=0, help="Of BLAS; 0: all cores.")] = 0,
    rounds: Annotated[int, typer.Option(min=0, help="Turns of each; 0: by --seconds.")] = 0,
    seconds: Annotated[float, typer.Option(min=0, help="Time for each contestant.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Of the random data.")] = 0,
    plot: Annotated[
        Optional[str], typer.Option(help="A .png file of all times measured by this call.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure also what the file of times holds.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Time every implementation of Kronecker-sparse products, check them, remember the best.

    Times go to the file that magicube.kronecker.best reads; what it holds already is not measured
    again, so that an interrupted run goes on where it stopped."""
    results: list[dict[str, Any]] = []
    with session(json) as current:
        choose(dtype, TYPES, "--dtype")
        choose(layout, ["first", "last"], "--layout")
        if plot is not None:
            check_plot(plot)
        chains = read_patterns(patterns)
        for chain in chains:
            mc.KroneckerChain.zeros(chain)  # refuses wrong patterns before any is measured
        bench = open_bench(device)
        settings = [choice.Setting(chain, batch, dtype, layout, bench.name) for chain in chains]
        known = choice.load_times(bench.name)
        with blas_threads(threads or mc.device_info().multiprocessors):
            for setting in _unmeasured(settings, {} if fresh else known, current):
                results.append(measure(setting, bench, rounds, seconds, seed))
                entries = results[-1]["implementations"].items()
                known[setting.key] = {name: entry["time_us"] for name, entry in entries}
                choice.save_times(known, bench.name)
        if plot is not None and results:
            plot_kronecker(plot, results)
        payload = {
            "device": choice.device_key(bench.name), "cache": str(choice.cache_path()),
            "results": results,
            "best": {
                setting.key: min(times, key=lambda name: times[name])
                for setting in settings
                if (times := known.get(setting.key))
            },
        }
        current.emit(payload, lambda console: _render(results, console))
    if any(result["wrong"] for result in results):
        raise typer.Exit(EXIT_FAILED)
