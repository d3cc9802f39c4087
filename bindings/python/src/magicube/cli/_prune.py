# SPDX-License-Identifier: Apache-2.0
"""magicube prune: SR-BCRS, and the choice of the format"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Any, Optional

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube import io
from magicube import _oracle as oracle
from magicube._io.safetensors import Container, listing
from magicube.cli import _prune_vnm as vnm
from magicube.cli._console import JsonOption, Session, UsageError, choose, session
from magicube.cli._values import Array, facts, suffix

QUANTISED = ("int16", "int12", "int8", "int4")
FORMATS = ["sr-bcrs", "vnm"]


def _chosen(container: Container, names: list[str], everything: bool) -> list[str]:
    if bool(names) == everything:
        raise UsageError("give either --tensor, once or more, or --all")
    matrices = [
        name
        for name, spec in container.tensors.items()
        if len(spec.shape) == 2 and spec.dtype.kind not in "iub"
    ]
    wrong = [name for name in names if name not in matrices]
    if wrong:
        spec = container.spec(wrong[0])
        raise UsageError(
            f"tensor {wrong[0]!r} has shape {spec.shape} and type {spec.dtype}; it must be a "
            "floating matrix"
        )
    if everything and not matrices:
        raise UsageError(f"{container.path} holds no floating matrix")
    return matrices if everything else names


def prune_tensor(
    weight: Array, dtype: str, **how: Any
) -> tuple[mc.SrBcrs, dict[str, Array], dict[str, Any]]:
    """A pruned matrix, its scales if it was quantised, and what is to be told of it."""
    if weight.dtype in (np.float64, oracle.FLOAT_TYPES["e4m3"]):
        weight = weight.astype(np.float32)
    mask = np.asarray(mc.prune(weight, **how))
    wide = weight.astype(np.float64)
    energy = float(np.sum(wide**2))
    kept = float(np.sum(wide[mask != 0] ** 2)) / energy if energy else 1.0
    extra: dict[str, Array] = {}
    if dtype in QUANTISED:
        masked = np.where(mask != 0, weight, weight.dtype.type(0))
        values, scale = mc.quantize(masked, dtype, granularity="row")
        extra["scale"] = np.asarray(scale)
    else:
        values = weight
    matrix = mc.SrBcrs.from_dense(
        values, vector_length=how["vector_length"], mask=mask,
        dtype=None if dtype in ("int8", "int16", "int4") else dtype,
    )
    told = {
        **facts(matrix),
        "kept_energy": kept,
        "dense_bytes": int(weight.nbytes),
        "sparse_bytes": int(matrix.nbytes + sum(array.nbytes for array in extra.values())),
    }
    return matrix, extra, told


def _render(payload: dict[str, Any], console: Console) -> None:
    table = Table("tensor", "shape", "density", "kept energy", "dense bytes", "sparse bytes")
    for name, entry in payload["tensors"].items():
        table.add_row(
            name,
            " x ".join(map(str, entry["shape"])),
            f"{entry['density']:.4f}",
            f"{entry['kept_energy']:.4f}",
            str(entry["dense_bytes"]),
            str(entry["sparse_bytes"]),
        )
    console.print(table)
    console.print(
        f"{payload['dense_bytes']} bytes dense, {payload['sparse_bytes']} sparse; wrote "
        f"{payload['output']}"
    )


def _prune_all(
    container: Container, names: list[str], dtype: str, how: dict[str, Any], current: Session
) -> tuple[dict[str, mc.SrBcrs], dict[str, Array], dict[str, Any]]:
    matrices: dict[str, mc.SrBcrs] = {}
    extras: dict[str, Array] = {}
    told: dict[str, Any] = {}
    with current.progress() as progress:
        task = progress.add_task("pruning", total=len(names))
        for name in names:
            matrices[name], extra, told[name] = prune_tensor(container.read(name), dtype, **how)
            extras |= {f"{name}.{key}": array for key, array in extra.items()}
            progress.advance(task)
    return matrices, extras, told


def _write_sr_bcrs(
    container: Container, names: list[str], everything: bool, output: str, current: Session,
    dtype: str, how: dict[str, Any],
) -> dict[str, Any]:
    matrices, extras, told = _prune_all(container, names, dtype, how, current)
    if everything:
        extras |= _rest(container, names, current)
    io.save_sr_bcrs(output, matrices, extras)
    return {
        "input": container.path, "output": output, "format": "sr-bcrs", "dtype": dtype, **how,
        "tensors": told,
        "dense_bytes": sum(entry["dense_bytes"] for entry in told.values()),
        "sparse_bytes": sum(entry["sparse_bytes"] for entry in told.values()),
        "output_bytes": os.path.getsize(output),
    }


def _write_vnm(
    container: Container, names: list[str], everything: bool, output: str, current: Session,
    how: vnm.How,
) -> dict[str, Any]:
    if suffix(output) != ".safetensors":
        raise UsageError(f"--output is {output!r}; with --format vnm it must end in .safetensors")
    tensors, told = vnm.prune_all(container, names, how, current)
    if everything:
        tensors |= _rest(container, names, current)
    io.save_safetensors(output, tensors)
    return {
        "input": container.path, "output": output, "format": "vnm", **asdict(how),
        "tensors": told, "output_bytes": os.path.getsize(output),
    }


def _rest(container: Container, names: list[str], current: Session) -> dict[str, Array]:
    rest = [name for name in container.tensors if name not in names]
    current.note(f"copied as they are: {listing(rest)}")
    return {name: container.read(name) for name in rest}


def prune(
    weights: Annotated[str, typer.Argument(help="A .safetensors file of dense tensors.")],
    output: Annotated[str, typer.Option("--output", "-o", help=".safetensors or .npz")],
    tensor: Annotated[
        Optional[list[str]], typer.Option(help="Name of a matrix; may be repeated.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Every floating matrix; other tensors are copied as they are."),
    ] = False,
    format: Annotated[
        str,
        typer.Option(help="sr-bcrs, or vnm: V:N:M as dense weights, each with NAME.mask."),
    ] = "sr-bcrs",
    vector_length: Annotated[
        int, typer.Option(help="sr-bcrs: 1, 2, 4, 8, 16, 32 or 64")
    ] = 8,
    sparsity: Annotated[
        float, typer.Option(help="sr-bcrs: share of vectors to drop.", min=0, max=1)
    ] = 0.9,
    scope: Annotated[
        str, typer.Option(help="sr-bcrs: matrix or row, where vectors compete.")
    ] = "matrix",
    norm: Annotated[str, typer.Option(help="l2 or l1")] = "l2",
    v: Annotated[int, typer.Option("--v", help="vnm: 1, 16, 32, 64, 128 or 256 rows.")] = 64,
    n: Annotated[int, typer.Option("--n", help="vnm: weights kept of each group.")] = 2,
    m: Annotated[int, typer.Option("--m", help="vnm: columns of a group.")] = 8,
    method: Annotated[
        str, typer.Option(help="vnm: magnitude or obs (second order).")
    ] = "magnitude",
    inputs: Annotated[
        Optional[str],
        typer.Option(help="obs: a .safetensors file with each layer's inputs, samples x K."),
    ] = None,
    damping: Annotated[
        float, typer.Option(help="obs: of the curvature's mean diagonal.", min=0)
    ] = 0.01,
    dtype: Annotated[
        str,
        typer.Option(help="fp32, fp16, bf16, e4m3; int16, int12, int8, int4: a scale a row."),
    ] = "fp32",
    json: JsonOption = False,
) -> None:
    """Prune weights by magnitude in vectors, to SR-BCRS, or in the pattern V:N:M."""
    with session(json) as current:
        choose(format, FORMATS, "--format")
        choose(scope, ["matrix", "row"], "--scope")
        choose(norm, ["l2", "l1"], "--norm")
        choose(method, ["magnitude", "obs"], "--method")
        choose(dtype, [*oracle.FLOAT_TYPES, *QUANTISED], "--dtype")
        if suffix(output) not in (".safetensors", ".npz"):
            raise UsageError(f"--output is {output!r}; it must end in .safetensors or .npz")
        container = Container(weights)
        names = _chosen(container, tensor or [], everything)
        if format == "vnm":
            how = vnm.How(v, n, m, method, inputs, damping, norm, dtype)
            payload = _write_vnm(container, names, everything, output, current, how)
            current.emit(payload, lambda console: vnm.render(payload, console))
            return
        vectors = {
            "vector_length": vector_length, "sparsity": sparsity, "scope": scope, "norm": norm,
        }
        payload = _write_sr_bcrs(container, names, everything, output, current, dtype, vectors)
        current.emit(payload, lambda console: _render(payload, console))
