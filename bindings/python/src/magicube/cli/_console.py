# SPDX-License-Identifier: Apache-2.0
"""What every command shares: results on stdout, all else on stderr, errors and exit codes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from magicube.errors import MagicubeError

EXIT_FAILED = 1  # the command ran and found something wrong
PLAIN_WIDTH = 120  # columns of tables that go to a file or a pipe
EXIT_UNUSABLE = 2  # arguments, files or devices with which it cannot run

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
DeviceOption = Annotated[str, typer.Option(help="cpu or cuda.")]


class UsageError(Exception):
    """Arguments that make no sense together; the text says what to change."""


class Session:
    """One run of a command."""

    def __init__(self, as_json: bool) -> None:
        self.json = as_json
        self.out = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
        self.err = Console(stderr=True, highlight=False)

    def emit(self, payload: Any, render: Callable[[Console], None]) -> None:
        """The result: as JSON, or drawn."""
        if self.json:
            print(json.dumps(payload, indent=2, allow_nan=False))
        else:
            render(self.out)

    def note(self, text: str) -> None:
        """A remark for people."""
        if not self.json:
            self.err.print(text)

    def progress(self) -> Progress:
        """A progress bar on stderr that vanishes once full; nothing if that is no terminal."""
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            disable=not self.err.is_terminal,
        )

    def fail(self, kind: str, text: str, code: int, **details: Any) -> typer.Exit:
        """The exception that ends the command with an error."""
        if self.json:
            print(json.dumps({"error": {"type": kind, "message": text, **details}}, indent=2))
        print(f"magicube: {text}", file=sys.stderr)
        return typer.Exit(code)


@contextlib.contextmanager
def session(as_json: bool) -> Iterator[Session]:
    """Runs a command's body; errors that a user can cause become text and an exit code."""
    current = Session(as_json)
    try:
        yield current
    except MagicubeError as error:
        raise current.fail(
            type(error).__name__, str(error), EXIT_UNUSABLE, status=error.status, name=error.name
        ) from error
    except (UsageError, MemoryError, OSError) as error:
        raise current.fail(
            type(error).__name__, str(error) or "out of memory", EXIT_UNUSABLE
        ) from error


def require_device(device: str, operation: str, on_cuda: Collection[str]) -> None:
    """Raises unless the device exists and computes the operation; an empty name stands for all."""
    import magicube as mc

    if device not in ("cpu", "cuda"):
        raise UsageError(f"--device is {device!r}; it must be cpu or cuda")
    mc.device_info(device, 0)
    if device == "cuda" and operation and operation not in on_cuda:
        raise UsageError(
            f"--device is {device!r}; on CUDA this version computes {', '.join(on_cuda)} alone"
        )


def choose(value: str, allowed: list[str], option: str) -> str:
    """The value, if it is one of those allowed."""
    if value not in allowed:
        raise UsageError(f"{option} is {value!r}; it must be one of {', '.join(allowed)}")
    return value
