# SPDX-License-Identifier: Apache-2.0
"""Replaces layers of networks by chains of Kronecker-sparse factors: error, bytes, time.

    python examples/python/chains.py [--layer NAME] [--ranks 2,4,8] [--tokens 4096] [--json]

First a linear layer of all-MiniLM-L6-v2, projected onto Monarch chains. A matrix of this pattern
consists of blocks whose rank is the pattern's; everything is exact from the rank of a block's edge
on. "aware" projections weigh each column with how active its feature is in the sentences of
examples/data/calibration.txt; errors are of what the layer gives, and cosines of embeddings, for
those of examples/data/sentences.txt. Nothing is retrained, and a trained dense layer is near no
chain: the errors are what they are.

Then the MLP blocks of ViT-S and GPT-2, with random weights: two chains against two dense layers,
y = W2 gelu(W1 x + b1) + b2, for --tokens tokens.

Times are of NumPy and SciPy (fp32) on the CPU; where PyTorch sees a GPU, of PyTorch on it too
(fp16, layers as it runs them by default), with 25,088 tokens unless --tokens says otherwise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bert import Encoder, model_folder, tokenize
from scipy.special import erf
from tables import print_table

import magicube as mc
from magicube.sparse import monarch_patterns

Array = np.ndarray[Any, Any]
Run = Callable[[], Any]
EDGES = 16  # blocks along the shorter side of a weight
CUDA_TOKENS = 25088
BLOCKS = {"ViT-S": (384, 1536), "GPT-2": (768, 3072)}


def patterns_of(rows: int, cols: int, rank: int) -> list[tuple[int, int, int, int]]:
    """A Monarch chain of rows x cols whose blocks are square."""
    edge = min(rows, cols) // EDGES
    return monarch_patterns(rows, cols, blocks=cols // edge, step=rows // edge, rank=rank)


def on_cpu(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # warms caches and threads
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def torch_with_cuda() -> Any:
    """PyTorch, if both it and magicube see a GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch if mc.device_count("cuda") and torch.cuda.is_available() else None


def on_cuda(torch: Any, runs: dict[str, Run], rounds: int, calls: int = 20) -> dict[str, float]:
    """Median milliseconds of a call, from events around so many, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):  # the first round warms up
        for name, run in runs.items():
            run()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / calls)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def distance(found: Array, exact: Array) -> float:
    """Relative error in the Frobenius norm."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


# ---- a layer of the encoder ----------------------------------------------------------------------


class OneReplaced:
    """The encoder's linear layers, one of which another function computes; keeps its inputs."""

    def __init__(self, encoder: Encoder, name: str, layer: Callable[[Array], Array]) -> None:
        self.tensors = encoder.tensors
        self.name = name
        self.layer = layer
        self.inputs = np.empty(0)

    def __call__(self, name: str, x: Array) -> Array:
        if name == self.name:
            self.inputs = x
            return self.layer(x)
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]


def layer_times(
    chain: mc.KroneckerChain, weight: Array, bias: Array, x: Array, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Milliseconds of the layer as a chain and dense, by device."""
    plan = mc.KroneckerMMPlan(chain, n=(1, len(x)), bias=True)
    runs: dict[str, Run] = {
        "chain": lambda: plan(x, bias=bias), "dense": lambda: x @ weight.T + bias
    }
    times = {"cpu": on_cpu(runs, options.rounds)}
    torch = torch_with_cuda()
    if torch is not None:
        tokens = np.resize(x, (options.tokens or CUDA_TOKENS, x.shape[1]))
        half = half_chain(chain)
        device_plan = mc.KroneckerMMPlan(half.cuda(), n=(1, len(tokens)), bias=True)
        X, W, b16 = (torch.tensor(a, dtype=torch.float16).cuda() for a in (tokens, weight, bias))
        b32 = torch.tensor(bias).cuda()
        linear = torch.nn.functional.linear
        times["cuda"] = on_cuda(
            torch,
            {"chain": lambda: device_plan(X, bias=b32), "dense": lambda: linear(X, W, b16)},
            options.rounds,
        )
    return times


def half_chain(chain: mc.KroneckerChain) -> mc.KroneckerChain:
    """The same with factors of fp16."""
    return mc.KroneckerChain(mc.Kronecker(k.values.astype(np.float16)) for k in chain)


def replace_layer(options: argparse.Namespace) -> dict[str, Any]:
    """Errors, bytes and times of one layer for each rank."""
    folder = model_folder()
    encoder = Encoder(folder)
    name = options.layer
    if name not in encoder.linear_names():
        raise SystemExit(f"chains: --layer is {name!r}; it must be one such as "
                         f"{encoder.linear_names()[4]}")
    weight, bias = (encoder.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
    data = Path(__file__).resolve().parents[1] / "data"
    seen, unseen = (
        tokenize(folder, (data / file).read_text(encoding="utf-8").splitlines()[:200])
        for file in ("calibration.txt", "sentences.txt")
    )
    dense = OneReplaced(encoder, name, lambda x: x @ weight.T + bias)
    encoder.encode(seen, dense)
    calibration = dense.inputs
    reference = encoder.encode(unseen, dense)
    x = dense.inputs
    exact = x @ weight.T
    results = []
    for rank in options.ranks:
        patterns = patterns_of(*weight.shape, rank)
        plain = mc.project(weight, patterns)
        aware = mc.project(weight, patterns, activations=calibration)
        plan = mc.KroneckerMMPlan(aware.chain, n=(1, len(x)), bias=True)
        embeddings = encoder.encode(
            unseen, OneReplaced(encoder, name, lambda x, plan=plan: plan(x, bias=bias))
        )
        results.append({
            "rank": rank, "patterns": patterns, "bytes": aware.chain.nbytes,
            "weight_error": plain.relative_error,
            "output_error": distance(x @ plain.chain.to_dense().T, exact),
            "aware_output_error": distance(x @ aware.chain.to_dense().T, exact),
            "cosine_mean": float(np.mean(np.sum(embeddings * reference, axis=1))),
            "times_ms": layer_times(aware.chain, weight, bias, x, options),
        })
    return {
        "layer": name, "shape": list(weight.shape), "tokens": len(x),
        "dense_bytes": int(weight.nbytes), "results": results,
    }


# ---- blocks of ViT-S and GPT-2 -------------------------------------------------------------------


def gelu(x: Array) -> Array:
    """In the erf form."""
    return x * (erf(x / np.float32(np.sqrt(2))) + 1) * np.float32(0.5)


def block(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Times and bytes of an MLP block as two chains and as two dense layers."""
    width, inner = BLOCKS[name]
    rng = np.random.default_rng(0)
    shapes = (inner, width), (width, inner)
    chains = [
        mc.KroneckerChain.random(patterns_of(*shape, 2), seed=i) for i, shape in enumerate(shapes)
    ]
    weights = [chain.to_dense() for chain in chains]
    biases = [rng.standard_normal(shape[0], np.float32) for shape in shapes]
    tokens = options.tokens or 1024
    x = rng.standard_normal((tokens, width), np.float32)
    up, down = (
        mc.KroneckerMMPlan(chain, n=(1, tokens), bias=True, activation=activation)
        for chain, activation in zip(chains, ("gelu", None))
    )

    def as_chains() -> Array:
        return down(up(x, bias=biases[0]), bias=biases[1])

    def as_dense() -> Array:
        return gelu(x @ weights[0].T + biases[0]) @ weights[1].T + biases[1]

    error = distance(as_chains(), as_dense())
    assert error < 1e-4, error
    times = {"cpu": on_cpu({"chain": as_chains, "dense": as_dense}, options.rounds)}
    torch = torch_with_cuda()
    if torch is not None:
        times["cuda"] = block_on_cuda(torch, chains, weights, biases, options)
    return {
        "block": name, "width": width, "inner": inner, "tokens": tokens,
        "patterns": [list(chain.patterns) for chain in chains], "error": error,
        "bytes": sum(chain.nbytes for chain in chains),
        "dense_bytes": sum(weight.nbytes for weight in weights), "times_ms": times,
    }


def block_on_cuda(
    torch: Any, chains: list[mc.KroneckerChain], weights: list[Array], biases: list[Array],
    options: argparse.Namespace,
) -> dict[str, float]:
    """Milliseconds of the block in fp16, after a check that both compute the same."""
    tokens = options.tokens or CUDA_TOKENS
    X = torch.randn(tokens, weights[0].shape[1], dtype=torch.float16, device="cuda")
    up, down = (
        mc.KroneckerMMPlan(
            half_chain(chain).cuda(), n=(1, tokens), bias=True, activation=activation
        )
        for chain, activation in zip(chains, ("gelu", None))
    )
    W = [torch.tensor(weight, dtype=torch.float16).cuda() for weight in weights]
    b32 = [torch.tensor(bias).cuda() for bias in biases]
    b16 = [bias.half() for bias in b32]
    functional = torch.nn.functional

    def as_chains() -> Any:
        return down(up(X, bias=b32[0]), bias=b32[1])

    def as_dense() -> Any:
        return functional.linear(functional.gelu(functional.linear(X, W[0], b16[0])), W[1], b16[1])

    exact = as_dense().float()
    error = float((as_chains().float() - exact).norm() / exact.norm())
    assert error < 1e-2, error
    return on_cuda(torch, {"chain": as_chains, "dense": as_dense}, options.rounds)


# ---- output --------------------------------------------------------------------------------------


def shown_times(times: dict[str, dict[str, float]]) -> list[str]:
    """Cells of chain and dense on the CPU and on CUDA."""
    cells = []
    for device in ("cpu", "cuda"):
        of = times.get(device)
        cells.append(f"{of['chain']:.3f} / {of['dense']:.3f}" if of else "not measured")
    return cells


def show(told: dict[str, Any]) -> None:
    layer = told["encoder"]
    print_table(
        f"{layer['layer']}, {layer['shape'][0]} x {layer['shape'][1]}, {layer['tokens']} tokens",
        ("rank", "of the bytes", "weight error", "output error", "aware", "cosine",
         "CPU ms, chain / dense", "CUDA"),
        [
            (
                str(r["rank"]), f"{r['bytes'] / layer['dense_bytes']:.0%}",
                f"{r['weight_error']:.3f}", f"{r['output_error']:.3f}",
                f"{r['aware_output_error']:.3f}", f"{r['cosine_mean']:.3f}",
                *shown_times(r["times_ms"]),
            )
            for r in layer["results"]
        ],
    )
    print_table(
        "MLP blocks, random weights",
        ("block", "tokens", "of the bytes", "CPU ms, chain / dense", "CUDA"),
        [
            (b["block"], str(b["tokens"]), f"{b['bytes'] / b['dense_bytes']:.0%}",
             *shown_times(b["times_ms"]))
            for b in told["blocks"]
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layer", default="encoder.layer.2.intermediate.dense")
    parser.add_argument(
        "--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[2, 4, 8]
    )
    parser.add_argument("--tokens", type=int, default=0, help="of the blocks, and on CUDA")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    told = {
        "encoder": replace_layer(options), "blocks": [block(name, options) for name in BLOCKS]
    }
    if options.json:
        json.dump(told, sys.stdout, indent=1)
    else:
        show(told)


if __name__ == "__main__":
    main()
