# SPDX-License-Identifier: Apache-2.0
"""magicube convert"""

from __future__ import annotations

import os
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube import io
from magicube.cli._console import JsonOption, UsageError, session
from magicube.cli._values import facts, read_matrix, suffix, to_sr_bcrs

WRITABLE = (".safetensors", ".npz", ".mtx", ".npy")


def _write(path: str, matrix: mc.SrBcrs) -> None:
    kind = suffix(path)
    if kind == ".mtx":
        io.write_matrix_market(path, matrix)
    elif kind == ".npy":
        dense = matrix.to_dense()
        np.save(path, dense.unpack() if isinstance(dense, mc.Int4Array) else dense)
    else:
        io.save_sr_bcrs(path, matrix)


def render(rows: dict[str, Any], console: Console) -> None:
    """A table of names and values."""
    table = Table(show_header=False)
    for key, value in rows.items():
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(key.replace("_", " "), shown)
    console.print(table)


def convert(
    source: Annotated[str, typer.Argument(help=".mtx, .smtx, .npy, .npz or .safetensors")],
    target: Annotated[str, typer.Argument(help=".safetensors or .npz (SR-BCRS), .mtx or .npy")],
    vector_length: Annotated[
        int, typer.Option(help="1, 2, 4, 8, 16, 32 or 64; 0: 8, or that of the source.", min=0)
    ] = 0,
    stride: Annotated[int, typer.Option(help="1, 8, 16 or 32; 0: the default.", min=0)] = 0,
    dtype: Annotated[str, typer.Option(help="Element type; else what keeps the values.")] = "",
    tensor: Annotated[str, typer.Option(help="Name of the tensor or matrix in the source.")] = "",
    seed: Annotated[
        int, typer.Option(help="Random values for .smtx, which has none; -1: ones.")
    ] = -1,
    json: JsonOption = False,
) -> None:
    """Convert between Matrix Market, .smtx, NumPy, SciPy, safetensors and SR-BCRS."""
    with session(json) as current:
        if suffix(target) not in WRITABLE:
            raise UsageError(
                f"{target} ends in {suffix(target)!r}; it must be one of {', '.join(WRITABLE)}"
            )
        with current.progress() as progress:
            task = progress.add_task("reading", total=3)
            matrix = read_matrix(source, tensor or None, seed if seed >= 0 else None)
            progress.update(task, description="converting", advance=1)
            inherited = matrix.vector_length if isinstance(matrix, mc.SrBcrs) else 8
            result = to_sr_bcrs(matrix, vector_length or inherited, stride or None, dtype or None)
            progress.update(task, description="writing", advance=1)
            _write(target, result)
            progress.advance(task)
        payload = {
            "input": source,
            "output": target,
            **facts(result),
            "input_bytes": os.path.getsize(source),
            "output_bytes": os.path.getsize(target),
        }
        current.emit(payload, lambda console: render(payload, console))
