# SPDX-License-Identifier: Apache-2.0
"""Plots as PNG files, drawn without a display."""

from __future__ import annotations

import math
from typing import Any

from magicube.cli._console import UsageError


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def describe(result: dict[str, Any]) -> str:
    """A benchmark in one line."""
    product = result["operation"] in ("spmm", "sddmm")
    types = f"{result['lhs']} x {result['rhs']}" if product else result["lhs"]
    shape = " x ".join(
        str(result[size]) for size in ("mn" if result["operation"] == "softmax" else "mkn")
    )
    if "heads" in result:
        shape = f"{result['heads']} heads of {shape}"
    place = f"{result['threads']} threads" if "threads" in result else result["device"].upper()
    return (
        f"{result['operation']} {shape}, V = {result['vector_length']}, {types} -> "
        f"{result['out']}, {place}"
    )


def _milliseconds(result: dict[str, Any], name: str) -> float:
    entry = result if name == "magicube" else result["peers"].get(name, {})
    return float(entry.get("time_us", math.nan)) / 1e3


def _draw_bars(axes: Any, result: dict[str, Any]) -> None:
    names = ["magicube", *result.get("peers", {})]
    axes.barh(names, [_milliseconds(result, name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("median time (ms)")


def _draw_sweep(axes: Any, results: list[dict[str, Any]]) -> None:
    ordered = sorted(results, key=lambda result: float(result["sparsity"]))
    sparsities = [result["sparsity"] for result in ordered]
    peers = list(dict.fromkeys(name for result in ordered for name in result.get("peers", {})))
    own = [_milliseconds(result, "magicube") for result in ordered]
    for name in peers:
        times = [_milliseconds(result, name) for result in ordered]
        ratios = [theirs / ours for theirs, ours in zip(times, own)]
        axes.plot(sparsities, ratios, marker="o", label=f"over {name}")
    if peers:
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_ylabel("speed-up")
        axes.set_ylim(bottom=0)
    else:
        axes.plot(sparsities, own, marker="o", label="magicube")
        axes.set_ylabel("median time (ms)")
        axes.set_yscale("log")
    axes.set_xlabel("sparsity")


def plot_benchmark(path: str, results: list[dict[str, Any]]) -> None:
    """Bars for one result; for several lines over sparsity: speed-up over peers, or the time."""
    if not path.lower().endswith(".png"):
        raise UsageError(f"--plot is {path!r}; it must name a .png file")
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    if len(results) == 1:
        _draw_bars(axes, results[0])
    else:
        _draw_sweep(axes, results)
        figure.legend(loc="outside right upper", fontsize="small")
    axes.set_title(describe(results[0]), fontsize="medium")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
