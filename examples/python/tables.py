# SPDX-License-Identifier: Apache-2.0
"""Tables and progress bars, plain where rich is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def progress(items: Sequence[T], what: str) -> Iterable[T]:
    """The items, with a progress bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        return items
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        return items
    return track(items, description=what, console=Console(stderr=True), transient=True)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; without a terminal it is plain text that fits 100 columns."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table(*columns, title=title)
            for row in rows:
                table.add_row(*row)
            Console().print(table)
            return
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    print(title)
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
