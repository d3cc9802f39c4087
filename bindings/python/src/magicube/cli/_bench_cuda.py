# SPDX-License-Identifier: Apache-2.0
"""`magicube bench --device cuda`: runs the C++ program magicube-bench, and shows what it found."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from magicube.cli._console import UsageError
from magicube.cli._plots import describe

PROGRAM = "magicube-bench"
ROUNDS = 3
SHORTEST, LONGEST = 0.01, 60.0  # seconds that the program takes for a side in a round


def _beside_the_library() -> list[Path]:
    """Where a build or an installation has the program, seen from the library that is loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "/libmagicube.so" in line}
    folders = [Path(path).parent for path in sorted(loaded)]
    return [
        folder / place / PROGRAM
        for folder in folders
        for place in (".", "../bin", "tests/benchmark")
    ]


def find_program() -> str:
    """Path of magicube-bench."""
    named = os.environ.get("MAGICUBE_BENCH")
    if named:
        found = shutil.which(named)
        if found is None:
            raise UsageError(f"MAGICUBE_BENCH is {named!r}, which is no program")
        return found
    for candidate in _beside_the_library():
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which(PROGRAM)
    if found is None:
        raise UsageError(
            f"{PROGRAM}, which times products on CUDA, is neither beside the library nor on PATH: "
            "build it with cmake -DMAGICUBE_BUILD_BENCHMARK=ON, or name it in MAGICUBE_BENCH"
        )
    return found


def _environment() -> dict[str, str]:
    """Where the peers are: in the folders that the user names, or in Python's NVIDIA packages."""
    variable = "MAGICUBE_BENCH_LIBRARY_PATH"
    environment = dict(os.environ)
    if variable not in environment:
        try:
            import nvidia
        except ImportError:
            return environment
        folders = [lib for root in nvidia.__path__ for lib in glob.glob(f"{root}/*/lib")]
        environment[variable] = ":".join(sorted(folders))
    return environment


def arguments(
    values: dict[str, Any], sparsities: list[float], options: dict[str, Any], extra: list[str]
) -> list[str]:
    """The program's command line, without its name."""
    rounds = options["rounds"] or ROUNDS
    seconds = min(max(options["seconds"] / rounds, SHORTEST), LONGEST)
    words = ["spmm", "--sparsity", ",".join(f"{value!r}" for value in sparsities)]
    for name, value in values.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), str(value)]
    words += ["--rounds", str(rounds), "--seconds", f"{seconds:g}"]
    words += ["--peers"] if options["peers"] else []
    return [*words, *extra, "--json"]


def run(words: list[str]) -> list[dict[str, Any]]:
    """What the program prints for each sparsity."""
    done = subprocess.run(
        [find_program(), *words], capture_output=True, text=True, env=_environment(), check=False
    )
    try:
        results: list[dict[str, Any]] = json.loads(done.stdout)
    except json.JSONDecodeError:
        told = done.stderr.strip() or f"it ended with {done.returncode} and printed no JSON"
        raise UsageError(told if told.startswith(PROGRAM) else f"{PROGRAM}: {told}") from None
    return results


def _row(name: str, entry: dict[str, Any], speedup: str) -> list[str]:
    energy = entry.get("energy_uj")
    return [
        name,
        *(f"{entry[key]:.2f}" for key in ("time_us", "min_us", "max_us")),
        f"{entry['clock_mhz']:.0f}",
        "" if energy is None else f"{energy / 1e3:.2f}",
        speedup,
    ]


def render(results: list[dict[str, Any]], console: Console) -> None:
    """A table for each sparsity."""
    for result in results:
        console.print(
            f"{describe(result)}, sparsity {result['sparsity']:g}, seed {result['seed']}"
        )
        if "time_us" not in result:
            console.print(
                f"[bold red]WRONG RESULT[/]: {result['mistake']}"
                if "mistake" in result
                else f"not run: {result['error']}"
            )
            continue
        table = Table("contestant", "median us", "min us", "max us", "MHz", "mJ", "speedup over it")
        table.add_row(*_row(f"magicube ({result['implementation']})", result, ""))
        for name, peer in result["peers"].items():
            table.add_row(*_row(name, peer, f"{peer['speedup']:.2f}"))
        console.print(table)
        console.print(
            f"{result['tops']:.1f} TOP/s over the elements stored, {result['dense_tops']:.0f} as a "
            f"dense product; bound {result['bound_us']:.1f} us by {result['bound_by']}, "
            f"{100 * result['bound_share']:.0f} % of it reached"
        )
        if result.get("advice"):
            console.print(result["advice"])
        for name, reason in result["missing_peers"].items():
            console.print(f"no {name}: {reason}")
