# SPDX-License-Identifier: Apache-2.0
"""magicube prune --format vnm"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube import _oracle as oracle
from magicube._io.safetensors import Container, listing
from magicube.cli._console import Session, UsageError
from magicube.cli._values import Array


@dataclass(frozen=True)
class How:
    """The options of one call."""

    v: int
    n: int
    m: int
    method: str
    inputs: str | None
    damping: float
    norm: str
    dtype: str

    def check(self) -> None:
        if (self.method == "obs") != (self.inputs is not None):
            raise UsageError(
                f"--method is {self.method} and --inputs is {self.inputs}; obs needs a file of "
                "layer inputs, magnitude none"
            )
        if self.dtype not in oracle.FLOAT_TYPES:
            raise UsageError(
                f"--dtype is {self.dtype!r}; with --format vnm it must be one of "
                f"{', '.join(oracle.FLOAT_TYPES)}"
            )


def inputs_of(inputs: Container, name: str, columns: int) -> Array:
    """What went into a layer: samples x columns, fp64 rounded to fp32."""
    if name not in inputs.tensors:
        raise UsageError(
            f"{inputs.path} holds no inputs of {name!r}; it has {listing(list(inputs.tensors))}"
        )
    x = inputs.read(name)
    if x.ndim < 2 or x.shape[-1] != columns or x.dtype.kind in "iub":
        raise UsageError(
            f"inputs {name!r} have shape {x.shape} and type {x.dtype}; they must be floating, "
            f"samples x {columns}"
        )
    x = x.reshape(-1, columns)
    return x.astype(np.float32) if x.dtype == np.float64 else x


def prune_tensor(weight: Array, x: Array | None, how: How) -> tuple[Array, Array, dict[str, Any]]:
    """The pruned weight, its keep-mask, and what is to be told of them."""
    wide = weight.astype(np.float32) if weight.dtype == np.float64 else weight
    pattern: dict[str, Any] = {"vector_length": how.v, "m": how.m, "n": how.n}
    if x is None:
        mask = np.asarray(mc.prune_vnm(wide, norm=how.norm, **pattern))
        pruned = np.where(mask != 0, wide, wide.dtype.type(0))
    else:
        mask, pruned = mc.prune_vnm_obs(wide, inputs=x, damping=how.damping, **pattern)
    told: dict[str, Any] = {
        "shape": list(weight.shape),
        "density": float(mask.mean()) if mask.size else 0.0,
        "kept_energy": mc.kept_energy(wide, mask),
    }
    if x is not None:
        wanted = x.astype(np.float64) @ wide.T.astype(np.float64)
        error = x.astype(np.float64) @ pruned.T.astype(np.float64) - wanted
        energy = float(np.sum(wanted**2))
        told["output_error"] = float(np.sum(error**2)) / energy if energy else 0.0
    return pruned.astype(oracle.FLOAT_TYPES[how.dtype]), mask, told


def prune_all(
    container: Container, names: list[str], how: How, current: Session
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Tensors to write, and what is to be told of each pruned one."""
    how.check()
    inputs = None if how.inputs is None else Container(how.inputs)
    tensors: dict[str, Array] = {}
    told: dict[str, Any] = {}
    with current.progress() as progress:
        task = progress.add_task("pruning", total=len(names))
        for name in names:
            weight = container.read(name)
            x = None if inputs is None else inputs_of(inputs, name, weight.shape[1])
            tensors[name], tensors[f"{name}.mask"], told[name] = prune_tensor(weight, x, how)
            progress.advance(task)
    return tensors, told


def render(payload: dict[str, Any], console: Console) -> None:
    """A table of the tensors."""
    table = Table("tensor", "shape", "density", "kept energy", "output error")
    for name, entry in payload["tensors"].items():
        error = entry.get("output_error")
        table.add_row(
            name,
            " x ".join(map(str, entry["shape"])),
            f"{entry['density']:.4f}",
            f"{entry['kept_energy']:.4f}",
            "" if error is None else f"{error:.4f}",
        )
    console.print(table)
    console.print(
        f"{payload['v']}:{payload['n']}:{payload['m']} by {payload['method']}; dense weights and "
        f"keep-masks in {payload['output']}"
    )
