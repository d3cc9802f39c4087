# SPDX-License-Identifier: Apache-2.0
"""magicube bench spmm | sddmm | softmax | attention"""

from __future__ import annotations

import inspect
import math
import os
import secrets
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube import _oracle as oracle
from magicube.cli import _bench_attention as cuda_attention
from magicube.cli import _bench_cuda as cuda
from magicube.cli._console import (
    EXIT_FAILED,
    DeviceOption,
    JsonOption,
    Session,
    UsageError,
    choose,
    require_device,
    session,
)
from magicube.cli._peers import blas_threads
from magicube.cli._plots import describe, plot_benchmark
from magicube.cli._problems import BUILDERS, CUDA_OPERATIONS, Problem, Setting
from magicube.cli._timing import alternate

bench = typer.Typer(help="Time an operation against the peers found.", no_args_is_help=True)

MOption = Annotated[int, typer.Option("--m", min=0, help="Rows of the sparse matrix.")]
KOption = Annotated[int, typer.Option("--k", min=0, help="Length of the sums.")]
NOption = Annotated[int, typer.Option("--n", min=0, help="Columns of the result.")]
VectorOption = Annotated[int, typer.Option("--vector-length", help="1, 2, 4, 8, 16, 32 or 64.")]
StrideOption = Annotated[int, typer.Option(help="Slots a chunk; 0: the default.", min=0)]
SparsityOption = Annotated[
    str, typer.Option(help="Share of vectors dropped; several, with commas, make a sweep.")
]
TypeOption = Annotated[str, typer.Option(help="Element type.")]
ImplementationOption = Annotated[str, typer.Option(help="Force one by name; see magicube info.")]
ThreadsOption = Annotated[int, typer.Option(min=0, help="For all contestants; 0: all cores.")]
PeersOption = Annotated[bool, typer.Option("--peers", help="Time the peers as well.")]
RoundsOption = Annotated[int, typer.Option(min=0, help="Turns of each; 0: by --seconds.")]
SecondsOption = Annotated[float, typer.Option(min=0, help="Time for each contestant.")]
SeedOption = Annotated[int, typer.Option(help="Of the random data; -1: fresh each time.")]
PlotOption = Annotated[
    str, typer.Option(help="Write a plot to this PNG file: of a sweep with peers, the speed-up.")
]
ScoresOption = Annotated[str, typer.Option("--in", help="fp32, fp16 or int32.")]
InputOption = Annotated[
    str, typer.Option("--in", help="Of Q, K and V: fp32, fp16 or bf16; on CUDA int8 or int4 too.")
]
BatchOption = Annotated[int, typer.Option(min=1, help="Matrices Q, K and V, each of --heads.")]
CausalOption = Annotated[bool, typer.Option("--causal", help="No query sees a key behind it.")]
WindowOption = Annotated[
    int,
    typer.Option(min=-1, help="Keys that a query sees on either side; -1: a random pattern."),
]
FirstOption = Annotated[int, typer.Option(min=0, help="Of a window: keys at the start all see.")]
BitsOption = Annotated[
    int, typer.Option(help="Of the softmax of integers: 16 or 8 with int8, 8 or 4 with int4.")
]
HeadsOption = Annotated[int, typer.Option(min=1, help="Heads, all over one pattern.")]

# Options by name: type and default.
PATTERN = {
    "vector_length": (VectorOption, 8),
    "stride": (StrideOption, 0),
    "sparsity": (SparsityOption, "0.9"),
}
PRODUCT = {
    "lhs": (TypeOption, "int8"),
    "rhs": (TypeOption, "int8"),
    "out": (TypeOption, "int32"),
}
ON_CUDA = {
    "batch": (BatchOption, 1),
    "causal": (CausalOption, False),
    "window": (WindowOption, -1),
    "first": (FirstOption, 0),
    "probability_bits": (BitsOption, 8),
}
COMMON = {
    "implementation": (ImplementationOption, ""),
    "peers": (PeersOption, False),
    "threads": (ThreadsOption, 0),
    "rounds": (RoundsOption, 0),
    "seconds": (SecondsOption, 2.0),
    "seed": (SeedOption, -1),
    "plot": (PlotOption, ""),
    "json": (JsonOption, False),
}

PEER_TOLERANCE = 1e-3  # of the largest element: a sanity check, not a measure of quality


def _sparsities(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [-1.0]
    if not all(0 <= value <= 1 for value in values):
        raise UsageError(
            f"--sparsity is {text!r}; it must be a number in [0, 1], or several with commas"
        )
    return values


def _check_types(setting: Setting) -> None:
    known = list(oracle.STORAGE)
    for option, value in (("--lhs", setting.lhs), ("--rhs", setting.rhs), ("--out", setting.out)):
        choose(value, known, option)


def _time(
    problem: Problem, setting: Setting, options: dict[str, Any], current: Session
) -> dict[str, Any]:
    runs: dict[str, Callable[[], object]] = {"magicube": problem.run}
    fields: dict[str, Any] = {}
    peers = None
    if options["peers"]:
        peers, exact = problem.peers()
        runs |= {name: peer.run for name, peer in peers.found.items()}
        fields["missing_peers"] = peers.missing
    with current.progress() as progress:
        task = progress.add_task(f"sparsity {setting.sparsity:g}", total=None)
        times = alternate(
            runs, options["rounds"], options["seconds"], lambda: progress.advance(task)
        )
    own = times["magicube"]
    fields |= own.as_fields() | {"gops": problem.operations / own.median / 1e3, "peers": {}}
    for name, peer in (peers.found if peers else {}).items():
        error = np.abs(peer.dense(peer.run()) - exact).max(initial=0)
        fields["peers"][name] = times[name].as_fields() | {
            "speedup": times[name].median / own.median,
            "cpu_speedup": times[name].processor / own.processor if own.processor else None,
            "max_abs_error": float(error) if math.isfinite(error) else None,
            "agrees": bool(error <= PEER_TOLERANCE * np.abs(exact).max(initial=0)),
            "note": peer.note,
        }
    return fields


def measure(setting: Setting, options: dict[str, Any], current: Session) -> dict[str, Any]:
    """One line of the result."""
    _check_types(setting)
    with mc.Handle("cpu", num_threads=setting.threads) as handle:
        with blas_threads(setting.threads):
            problem = BUILDERS[setting.operation](setting, handle)
            error, right = problem.check()
            timed = _time(problem, setting, options, current)
    pattern = problem.pattern
    return {
        "operation": setting.operation,
        "device": "cpu",
        "m": setting.m,
        "k": setting.k,
        "n": setting.n,
        "vector_length": setting.vector_length,
        "stride": pattern.stride,
        "sparsity": setting.sparsity,
        "nnz": int(pattern.nnz),
        "lhs": setting.lhs,
        "rhs": setting.rhs,
        "out": setting.out,
        "alpha": problem.alpha,
        "threads": setting.threads,
        **({"heads": setting.heads} if setting.operation == "attention" else {}),
        "seed": setting.seed,
        "implementation": problem.info.implementation,
        "plan_bytes": problem.info.plan_bytes,
        "workspace_bytes": problem.info.workspace_bytes,
        **timed,
        "max_abs_error": error if math.isfinite(error) else None,
        "correct": right,
    }


def _shown(error: float | None) -> str:
    return "not finite" if error is None else f"{error:.3g}"


def _render(results: list[dict[str, Any]], console: Console) -> None:
    for result in results:
        console.print(
            f"{describe(result)}, sparsity {result['sparsity']:g}, seed {result['seed']}"
        )
        table = Table(
            "contestant", "median us", "min us", "max us", "cpu us", "speedup over it", "error"
        )
        own = f"magicube ({result['implementation']})"
        rows = [(own, result, "", _shown(result["max_abs_error"]))]
        rows += [
            (name, peer, f"{peer['speedup']:.2f}", _shown(peer["max_abs_error"]))
            for name, peer in result["peers"].items()
        ]
        for name, entry, speedup, error in rows:
            times = [f"{entry[key]:.0f}" for key in ("time_us", "min_us", "max_us", "cpu_us")]
            table.add_row(name, *times, speedup, error)
        console.print(table)
        console.print(
            f"{result['gops']:.2f} Gop/s over the elements stored; plan "
            f"{result['plan_bytes'] / 2**20:.1f} MiB, workspace "
            f"{result['workspace_bytes'] / 2**20:.1f} MiB"
        )
        for name, reason in result.get("missing_peers", {}).items():
            console.print(f"no {name}: {reason}")
        if not result["correct"]:
            console.print("[bold red]WRONG RESULT[/]: some elements differ from the reference")


def _measure_all(
    operation: str, values: dict[str, Any], sparsities: list[float], current: Session
) -> list[dict[str, Any]]:
    """On the CPU, one setting after another."""
    options = {key: values.pop(key) for key in ("peers", "rounds", "seconds")}
    threads = values.pop("threads") or len(os.sched_getaffinity(0))
    seed = values.pop("seed")
    stride = values.pop("stride") or None
    return [
        measure(
            Setting(
                operation=operation, sparsity=sparsity, threads=threads, stride=stride,
                seed=secrets.randbits(31) if seed < 0 else seed, **values,
            ),
            options,
            current,
        )
        for sparsity in sparsities
    ]


def _measure_on_cuda(
    operation: str,
    values: dict[str, Any],
    sparsities: list[float],
    extra: list[str],
    current: Session,
) -> list[dict[str, Any]]:
    options = {key: values.pop(key) for key in ("peers", "rounds", "seconds")}
    values.pop("threads")
    values["seed"] = secrets.randbits(31) if values["seed"] < 0 else values["seed"]
    if operation == "spmm":
        return cuda.run(cuda.arguments(values, sparsities, options, extra))
    values["dtype"] = values.pop("lhs")
    del values["rhs"]
    values["stride"] = values["stride"] or None
    if values["window"] >= 0:
        sparsities = sparsities[:1]  # it follows from the window
    settings = [cuda_attention.Setting(sparsity=sparsity, **values) for sparsity in sparsities]
    return cuda_attention.run(settings, options, current)


def _leave_out_cuda(operation: str, values: dict[str, Any]) -> None:
    """Takes out what the CPU's benchmarks do not know; raises where it was asked for."""
    if operation == "attention":
        choose(values["lhs"], ["fp32", "fp16", "bf16"], "--in (on the CPU)")
    for name, (_, default) in ON_CUDA.items():
        if values.pop(name, default) != default:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is of --device cuda alone")


def _run(operation: str, values: dict[str, Any], extra: list[str]) -> None:
    plot, device = values.pop("plot"), values.pop("device")
    with session(values.pop("json")) as current:
        if extra and (device == "cpu" or operation != "spmm"):
            raise UsageError(f"{extra[0]} is no option of magicube bench {operation}")
        require_device(device, operation, CUDA_OPERATIONS)
        sparsities = _sparsities(values.pop("sparsity"))
        values["implementation"] = values["implementation"] or None
        if device == "cpu":
            _leave_out_cuda(operation, values)
            results = _measure_all(operation, values, sparsities, current)
        else:
            results = _measure_on_cuda(operation, values, sparsities, extra, current)
        if plot:
            plot_benchmark(plot, results)
            current.note(f"wrote {plot}")
        payload = results if len(results) > 1 else results[0]
        on_cuda = cuda.render if operation == "spmm" else cuda_attention.render
        render = _render if device == "cpu" else on_cuda
        current.emit(payload, lambda console: render(results, console))
    if not all(result["correct"] for result in results):
        raise typer.Exit(EXIT_FAILED)


def _command(operation: str, text: str, options: dict[str, tuple[Any, Any]]) -> None:
    """Adds a subcommand. What magicube-bench alone knows passes through to it."""

    def command(context: typer.Context, **values: Any) -> None:
        if "scores" in values:
            values["lhs"] = values["rhs"] = values.pop("scores")
            values["k"] = 0
        if "inputs" in values:
            values["lhs"] = values["rhs"] = values.pop("inputs")
        _run(operation, values, context.args)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in {"device": (DeviceOption, "cpu"), **options, **COMMON}.items()
    ]
    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    signature = inspect.Signature([context, *parameters])
    setattr(command, "__signature__", signature)
    command.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    bench.command(operation, help=text, context_settings=settings)(command)


_command(
    "spmm",
    "C (m x n) = A (m x k, sparse) times B (k x n). With --device cuda it runs magicube-bench, "
    "whose further options (--scales, --b-order, --cold, ...) may follow.",
    {
        "m": (MOption, 2048), "k": (KOption, 2048), "n": (NOption, 512), **PATTERN, **PRODUCT,
    },
)
_command(
    "sddmm",
    "The elements of A (m x k) times B (k x n) that a sparse pattern (m x n) names.",
    {
        "m": (MOption, 2048), "k": (KOption, 64), "n": (NOption, 2048), **PATTERN, **PRODUCT,
    },
)
_command(
    "softmax",
    "Softmax of the existing elements of each row of a sparse matrix (m x n).",
    {
        "m": (MOption, 2048), "n": (NOption, 2048), **PATTERN,
        "scores": (ScoresOption, "fp32"), "out": (TypeOption, "fp32"),
    },
)
_command(
    "attention",
    "softmax(Q K^T / sqrt(k)) V, with m queries and n keys of width k, over a sparse pattern "
    "(m x n). With --device cuda by graph replay, beside PyTorch's cuDNN, Flash and FlexAttention.",
    {
        "m": (MOption, 2048), "k": (KOption, 64), "n": (NOption, 2048), "heads": (HeadsOption, 8),
        **PATTERN, "inputs": (InputOption, "fp32"), "out": (TypeOption, "fp32"), **ON_CUDA,
    },
)
