# SPDX-License-Identifier: Apache-2.0
"""magicube verify"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube.cli._cases import Case
from magicube.cli._console import (
    EXIT_FAILED,
    DeviceOption,
    JsonOption,
    UsageError,
    choose,
    require_device,
    session,
)
from magicube.cli._operations import CUDA_OPERATIONS, OPERATIONS
from magicube.errors import NotSupportedError


def _run(case: Case, implementation: str | None, must_accept: bool) -> str | None:
    """What is wrong with an implementation's answer, "declined", or None."""
    try:
        return case.run(implementation)
    except NotSupportedError as error:
        return f"declined: {error}" if must_accept else "declined"
    except Exception as error:  # an exception is a failure like a wrong number
        return f"{type(error).__name__}: {error}"


def run_case(
    operation: str, seed: int, index: int, device: str
) -> tuple[int, list[dict[str, Any]]]:
    """Runs a case in every implementation of its operation.

    Returns how many of them computed it, and the failures.
    """
    make, list_implementations = OPERATIONS[operation]
    if device == "cuda":
        make = CUDA_OPERATIONS[operation]
    operation_number = list(OPERATIONS).index(operation)
    case = make(np.random.default_rng([seed, operation_number, index]))
    names: list[Any] = list_implementations(device) if list_implementations else [None]
    computed, failures = 0, []
    for name in names:
        wrong = _run(case, name, must_accept=name == names[-1])
        if wrong == "declined":
            continue
        computed += 1
        if wrong is not None:
            failures.append({
                "operation": operation, "implementation": name, "seed": seed, "case": index,
                "parameters": case.parameters, "error": wrong,
                "reproduce": f"magicube verify --device {device} --operation {operation} "
                f"--seed {seed} --case {index}",
            })
    return computed, failures


def _render(payload: dict[str, Any], console: Console) -> None:
    table = Table("operation", "implementations", "runs", "failures", title="Verification")
    for name, entry in payload["operations"].items():
        shown = ", ".join(entry["implementations"]) or "-"
        table.add_row(name, shown, str(entry["cases"]), str(entry["failures"]))
    console.print(table)
    for failure in payload["failures"]:
        console.print(f"[red]{failure['operation']} ({failure['implementation']})[/]: ", end="")
        console.print(failure["error"], markup=False)
        console.print(f"  {failure['parameters']}", markup=False)
        console.print(f"  {failure['reproduce']}", markup=False)
    console.print(f"{payload['cases']} cases, {len(payload['failures'])} failures")


def verify(
    device: DeviceOption = "cpu",
    operation: Annotated[str, typer.Option(help="One alone; by default all.")] = "",
    cases: Annotated[int, typer.Option(min=0, help="Random problems, over all operations.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="Of the random problems.")] = 0,
    case: Annotated[int, typer.Option(help="Run only the case of this number.")] = -1,
    json: JsonOption = False,
) -> None:
    """Compare every implementation with an independent oracle on random problems."""
    with session(json) as current:
        require_device(device, operation, CUDA_OPERATIONS)
        known = list(OPERATIONS if device == "cpu" else CUDA_OPERATIONS)
        chosen = [choose(operation, known, "--operation")] if operation else known
        if case >= 0 and not operation:
            raise UsageError("--case is the number of a case of one --operation; name that")
        each = math.ceil(cases / len(chosen))
        failures: list[dict[str, Any]] = []
        told: dict[str, Any] = {}
        with current.progress() as progress:
            numbers = [case] if case >= 0 else range(each)
            task = progress.add_task("verifying", total=len(chosen) * len(numbers))
            for name in chosen:
                listed = OPERATIONS[name][1]
                computed, wrong = 0, []
                for index in numbers:
                    count, found = run_case(name, seed, index, device)
                    computed += count
                    wrong += found
                    progress.update(task, description=f"verifying {name}", advance=1)
                told[name] = {
                    "implementations": listed(device) if listed else [], "cases": computed,
                    "failures": len(wrong),
                }
                failures += wrong
        payload = {
            "version": mc.__version__, "device": device, "seed": seed,
            "cases": sum(entry["cases"] for entry in told.values()),
            "operations": told, "failures": failures,
        }
        current.emit(payload, lambda console: _render(payload, console))
    if failures:
        raise typer.Exit(EXIT_FAILED)
