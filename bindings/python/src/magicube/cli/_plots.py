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


def check_plot(path: str) -> None:
    """Raises what would keep a plot from being written, before anything is measured."""
    if not path.lower().endswith(".png"):
        raise UsageError(f"--plot is {path!r}; it must name a .png file")
    _pyplot()


def _figure(path: str, width: float, height: float) -> tuple[Any, Any, Any]:
    check_plot(path)
    pyplot = _pyplot()
    return pyplot, *pyplot.subplots(figsize=(width, height), layout="constrained")


def _save(pyplot: Any, figure: Any, axes: Any, title: str, path: str) -> None:
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def plot_benchmark(path: str, results: list[dict[str, Any]]) -> None:
    """Bars for one result; for several lines over sparsity: speed-up over peers, or the time."""
    pyplot, figure, axes = _figure(path, 8, 4.5)
    if len(results) == 1:
        _draw_bars(axes, results[0])
    else:
        _draw_sweep(axes, results)
        figure.legend(loc="outside right upper", fontsize="small")
    _save(pyplot, figure, axes, describe(results[0]), path)


def plot_kronecker(path: str, results: list[dict[str, Any]]) -> None:
    """Every implementation's time, a line for each pattern."""
    names = list(dict.fromkeys(name for result in results for name in result["implementations"]))
    pyplot, figure, axes = _figure(path, 8, 1.5 + 0.4 * len(results))
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    rows = range(len(results))
    for name in names:
        entries = [result["implementations"].get(name, {}) for result in results]
        times = [float(entry.get("time_us", math.nan)) for entry in entries]
        axes.plot(times, rows, "o", label=name)
    labels = [";".join(",".join(map(str, p)) for p in result["patterns"]) for result in results]
    axes.set_yticks(rows, labels)
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("median time (us)")
    figure.legend(loc="outside right upper", fontsize="small")
    first = results[0]
    title = f"{first['batch']} vectors, {first['dtype']}, batch {first['layout']}"
    _save(pyplot, figure, axes, f"{title}, {first['device'].upper()}", path)
