# SPDX-License-Identifier: Apache-2.0
"""magicube project"""

from __future__ import annotations

import os
from typing import Annotated, Any, Optional

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube import _oracle as oracle
from magicube._io.safetensors import Container, listing, save_safetensors
from magicube.cli._console import JsonOption, UsageError, choose, session
from magicube.cli._prune_vnm import inputs_of
from magicube.cli._values import Array, suffix

TYPES = ["fp32", "fp16", "bf16"]


def parse_chain(text: str, option: str = "--chain") -> list[tuple[int, int, int, int]]:
    """ "1,192,48,2;2,48,192,1" as patterns."""
    patterns = []
    for i, part in enumerate(text.split(";")):
        try:
            a, b, c, d = (int(size) for size in part.split(","))
        except ValueError:
            raise UsageError(
                f"{option}: factor {i} is {part!r}; it must be a,b,c,d, four integers"
            ) from None
        patterns.append((a, b, c, d))
    return patterns


def _matrices(container: Container, names: list[str], shape: tuple[int, int]) -> list[str]:
    """The tensors that were named, or every floating matrix of the chain's size."""
    fitting = [
        name
        for name, spec in container.tensors.items()
        if spec.shape == shape and spec.dtype.kind not in "iub"
    ]
    wrong = [name for name in names if name not in fitting]
    if wrong:
        spec = container.spec(wrong[0])
        raise UsageError(
            f"tensor {wrong[0]!r} has shape {spec.shape} and type {spec.dtype}; it must be a "
            f"floating matrix of the chain's shape {shape}"
        )
    if not fitting:
        raise UsageError(
            f"{container.path} holds no floating matrix of the chain's shape {shape}; it holds "
            f"{listing(list(container.tensors))}"
        )
    return names or fitting


def _told(weight: Array, found: mc.Projection, x: Array | None) -> dict[str, Any]:
    rounded = found.chain.to_dense(dtype="fp32").astype(np.float64)
    wide = weight.astype(np.float64)
    norm = float(np.linalg.norm(wide))
    told: dict[str, Any] = {
        "shape": list(weight.shape),
        "relative_error": found.relative_error,
        "stored_relative_error": float(np.linalg.norm(wide - rounded)) / norm if norm else 0.0,
        "error": found.error,
        "bound": found.bound,
        "step_errors": list(found.step_errors),
        "dense_bytes": int(weight.nbytes),
        "chain_bytes": found.chain.nbytes,
    }
    if x is not None:
        exact = x.astype(np.float64) @ wide.T
        size = float(np.linalg.norm(exact))
        rest = float(np.linalg.norm(x.astype(np.float64) @ rounded.T - exact))
        told["output_error"] = rest / size if size else 0.0
    return told


def _render(payload: dict[str, Any], console: Console) -> None:
    table = Table(
        "tensor", "shape", "relative error", "error", "bound", "output error", "dense bytes",
        "bytes",
    )
    for name, entry in payload["tensors"].items():
        table.add_row(
            name,
            " x ".join(map(str, entry["shape"])),
            f"{entry['stored_relative_error']:.4e}",
            f"{entry['error']:.4e}",
            f"{entry['bound']:.4e}",
            f"{entry['output_error']:.4e}" if "output_error" in entry else "",
            str(entry["dense_bytes"]),
            str(entry["chain_bytes"]),
        )
    console.print(table)
    if payload["output"] is not None:
        console.print(f"wrote {payload['output']}")


def project(
    weights: Annotated[str, typer.Argument(help="A .safetensors file of dense tensors.")],
    chain: Annotated[
        str, typer.Option(help='Factors a,b,c,d, leftmost first: "1,192,48,2;2,48,192,1".')
    ],
    output: Annotated[
        Optional[str],
        typer.Option("--output", "-o", help=".safetensors; factor i of W is stored as W.i."),
    ] = None,
    tensor: Annotated[
        Optional[list[str]],
        typer.Option(help="Name of a matrix; may be repeated. Default: all of the chain's size."),
    ] = None,
    activations: Annotated[
        Optional[str],
        typer.Option(
            help="A .safetensors file with each layer's inputs, samples x N, which weigh columns."
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="fp32, fp16 or bf16")] = "fp32",
    json: JsonOption = False,
) -> None:
    """Project weights onto a chain of Kronecker-sparse factors and tell the error."""
    with session(json) as current:
        choose(dtype, TYPES, "--dtype")
        if output is not None and suffix(output) != ".safetensors":
            raise UsageError(f"--output is {output!r}; it must end in .safetensors")
        patterns = parse_chain(chain)
        shape = mc.KroneckerChain.zeros(patterns).shape
        container = Container(weights)
        names = _matrices(container, tensor or [], shape)
        inputs = None if activations is None else Container(activations)
        factors: dict[str, Array] = {}
        told: dict[str, Any] = {}
        with current.progress() as progress:
            task = progress.add_task("projecting", total=len(names))
            for name in names:
                weight = container.read(name)
                if weight.dtype == oracle.FLOAT_TYPES["e4m3"]:
                    weight = weight.astype(np.float32)
                x = None if inputs is None else inputs_of(inputs, name, shape[1])
                found = mc.project(weight, patterns, activations=x, dtype=dtype)
                told[name] = _told(weight, found, x)
                factors |= {f"{name}.{i}": k.values for i, k in enumerate(found.chain)}
                progress.advance(task)
        payload: dict[str, Any] = {
            "input": weights, "output": output, "chain": [list(p) for p in patterns],
            "dtype": dtype, "tensors": told,
        }
        if output is not None:
            save_safetensors(output, factors, {"magicube_kronecker_chain": chain})
            payload["output_bytes"] = os.path.getsize(output)
        current.emit(payload, lambda console: _render(payload, console))
