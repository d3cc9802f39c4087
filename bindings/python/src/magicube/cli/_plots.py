# SPDX-License-Identifier: Apache-2.0
"""Plots as PNG files, drawn without a display."""

from __future__ import annotations

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
    softmax = result["operation"] == "softmax"
    types = result["lhs"] if softmax else f"{result['lhs']} x {result['rhs']}"
    shape = " x ".join(str(result[size]) for size in ("mn" if softmax else "mkn"))
    return (
        f"{result['operation']} {shape}, V = {result['vector_length']}, {types} -> "
        f"{result['out']}, {result['threads']} threads"
    )


def plot_benchmark(path: str, results: list[dict[str, Any]]) -> None:
    """Bars for one result, lines over sparsity for several."""
    if not path.lower().endswith(".png"):
        raise UsageError(f"--plot is {path!r}; it must name a .png file")
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    names = ["magicube", *results[0]["peers"]]

    def milliseconds(result: dict[str, Any], name: str) -> float:
        entry = result if name == "magicube" else result["peers"].get(name)
        return float("nan") if entry is None else float(entry["time_us"]) / 1e3

    if len(results) == 1:
        axes.barh(names, [milliseconds(results[0], name) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("median time (ms)")
    else:
        ordered = sorted(results, key=lambda result: float(result["sparsity"]))
        for name in names:
            times = [milliseconds(result, name) for result in ordered]
            axes.plot([result["sparsity"] for result in ordered], times, marker="o", label=name)
        axes.set_xlabel("sparsity")
        axes.set_ylabel("median time (ms)")
        axes.set_yscale("log")
        figure.legend(loc="outside right upper", fontsize="small")
    axes.set_title(describe(results[0]), fontsize="medium")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
