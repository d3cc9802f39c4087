# SPDX-License-Identifier: Apache-2.0
"""Random products with a V:N:M matrix, each with its answer from the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

import magicube as mc
from magicube import _oracle as oracle
from magicube.cli._cases import (
    Array,
    Case,
    Rng,
    describe,
    pick,
    random_dense,
    size,
    spmm_epilogue,
    spread,
)
from magicube.cli._problems import on_device, shown, there

VECTOR_LENGTHS = (1, 16, 32, 64, 128, 256)
TYPES = ("int8", "fp32", "fp16", "bf16", "e4m3")


def random_pattern(rng: Rng, rows: int, cols: int, vector_length: int, m: int) -> Array:
    """Which elements of a V:2:m matrix exist."""
    exists = np.zeros((rows, cols), bool)
    for top in range(0, rows, vector_length):
        for left in range(0, cols, m):
            width = min(m, cols - left)
            chosen = left + rng.choice(width, min(4, width), replace=False)
            for row in range(top, min(rows, top + vector_length)):
                exists[row, rng.permutation(chosen)[: rng.integers(3)]] = True
    return exists


def vnm_case(rng: Rng, device: str = "cpu") -> Case:
    """SpMM with a V:N:M matrix of any type, V, M and shape; epilogue, batch and value mode."""
    dtype, vector_length = pick(rng, TYPES), pick(rng, VECTOR_LENGTHS)
    m = pick(rng, (4, 5, 8, 16, 40, 300))
    integer = oracle.is_integer(dtype)
    out = pick(rng, (*(("int32",) if integer else ()), "fp32", "fp16", "bf16", "int8"))
    rows, inner, cols = size(rng, 300), size(rng, 200), size(rng, 70)
    exists = random_pattern(rng, rows, inner, vector_length, m)
    batch = None if rng.random() < 0.7 else int(rng.integers(1, 4))
    head = () if batch is None else (batch,)
    orders = {"rhs_order": pick(rng, "CF"), "out_order": pick(rng, "CF")}
    values = oracle.random_values(rng, dtype, (rows, inner))
    dense = np.where(exists, values, values.dtype.type(0))
    matrix = mc.Vnm.from_dense(dense, m=m, vector_length=vector_length, mask=exists)
    b, b_values = random_dense(rng, dtype, (*head, inner, cols), orders["rhs_order"])
    declared, given, epilogue = spmm_epilogue(rng, out, rows, cols, batch)
    start = oracle.random_values(rng, out, (*head, rows, cols))
    mode = pick(rng, ("fixed", "updatable", "per_call"))
    expected = oracle.product(
        np.broadcast_to(dense, (*head, rows, inner)), b_values, integer, epilogue, out, start
    )

    def run(implementation: str | None) -> str | None:
        own = matrix.to(device)
        other = matrix.with_values(np.zeros_like(matrix.values)).to(device)
        plan = mc.SpMMPlan(
            other if mode == "updatable" else own, rhs_dtype=dtype, out_dtype=out, n=cols,
            batch_count=batch or 1, value_mode=mode, implementation=implementation, **orders,
            **declared,
        )
        if mode == "updatable":
            plan.update_values(own)
        c = spread(rng, start, orders["out_order"])
        result = plan(
            on_device(b, device), on_device(c, device),
            values=own if mode == "per_call" else None, **there(given, device),
        )
        return describe(expected, shown(result), "C")

    told: dict[str, Any] = {
        "type": dtype, "out": out, "shape": [rows, inner, cols], "vector_length": vector_length,
        "m": m, "batch": batch, "value_mode": mode, "epilogue": sorted(given),
        "activation": epilogue.activation, "alpha": epilogue.alpha, "beta": epilogue.beta, **orders,
    }
    return Case(told, run)
