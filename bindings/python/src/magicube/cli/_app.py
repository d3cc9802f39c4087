# SPDX-License-Identifier: Apache-2.0
"""The commands and their common options."""

from __future__ import annotations

from typing import Annotated

import typer

from magicube.cli._bench import bench
from magicube.cli._bench_kronecker import kronecker
from magicube.cli._convert import convert
from magicube.cli._info import info
from magicube.cli._project import project
from magicube.cli._prune import prune
from magicube.cli._verify import verify

app = typer.Typer(
    name="magicube",
    help="Sparse low-precision matrix products: information, benchmarks, conversion, pruning, "
    "projection.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import magicube as mc

        typer.echo(mc.__version__)
        raise typer.Exit()


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command()(info)
app.command()(convert)
app.command()(prune)
app.command()(project)
app.command()(verify)
bench.command()(kronecker)
app.add_typer(bench, name="bench")
