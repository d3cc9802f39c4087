# SPDX-License-Identifier: Apache-2.0
"""`magicube bench attention --device cuda`: beside PyTorch's attention, all of them as graphs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube.cli._console import Session, UsageError, choose
from magicube.cli._gpu import Gpu
from magicube.cli._peers import Peer, Peers
from magicube.cli._plots import describe
from magicube.cli._problems import random_mask

TYPES = ("fp32", "fp16", "bf16", "int8", "int4")
OUTPUTS = ("fp32", "fp16", "bf16")
QUERIES_AT_ONCE = 1024  # of the reference, whose scores are dense
# Largest relative error by Frobenius norm: of floating types their rounding, of integers that of
# Q, K and V as well.
LIMITS = {"fp32": 1e-4, "fp16": 2e-3, "bf16": 1.6e-2, "int8": 2.5e-2, "int4": 0.5}


@dataclass(frozen=True)
class Setting:
    """What is asked for; ``window`` below 0 is a random pattern of so much sparsity."""

    m: int
    n: int
    k: int
    batch: int
    heads: int
    vector_length: int
    stride: int | None
    sparsity: float
    window: int
    first: int
    causal: bool
    dtype: str
    out: str
    probability_bits: int
    implementation: str | None
    seed: int

    def check(self) -> None:
        """Raise unless the values make sense."""
        choose(self.dtype, list(TYPES), "--in")
        choose(self.out, list(OUTPUTS), "--out")
        if min(self.m, self.n, self.k) < 1:
            raise UsageError(
                f"--m, --n and --k are {self.m}, {self.n} and {self.k}; on CUDA all are at least 1"
            )


def _pattern(setting: Setting) -> mc.SrBcrs:
    how: dict[str, Any] = {"vector_length": setting.vector_length, "stride": setting.stride}
    if setting.window >= 0:
        after = 0 if setting.causal else setting.window
        return mc.patterns.sliding_window(
            setting.m, setting.n, before=setting.window, after=after, first=setting.first, **how
        )
    rng = np.random.default_rng(setting.seed)
    mask = random_mask(
        rng, setting.m, setting.n, setting.vector_length, setting.sparsity
    )
    return mc.SrBcrs.from_mask(mask, **how)


def _mask_mod(setting: Setting, mask: Any) -> Callable[..., Any]:
    """Whether a query sees a key, as FlexAttention asks: the window itself, or the mask."""
    window, first, causal = setting.window, setting.first, setting.causal

    def random(b: Any, h: Any, query: Any, key: Any) -> Any:
        seen = mask[query, key]
        return seen & (key <= query) if causal else seen

    def near(b: Any, h: Any, query: Any, key: Any) -> Any:
        seen = (key >= query - window) | (key < first)
        return seen & ((key <= query) if causal else (key <= query + window) | (key < first))

    return near if window >= 0 else random


class Problem:
    """Random Q, K and V on the device, and a pattern; what attention of them is in float64."""

    def __init__(self, setting: Setting, gpu: Gpu) -> None:
        torch = self.torch = gpu.torch
        self.setting, self.gpu = setting, gpu
        self.pattern = _pattern(setting).to(gpu.device)
        self.mask = torch.from_dlpack(self.pattern.to_mask()).bool()
        generator = torch.Generator(gpu.device).manual_seed(setting.seed)
        names = {"fp32": torch.float32, "bf16": torch.bfloat16}
        self.type = names.get(setting.dtype, torch.float16)
        self.half = torch.bfloat16 if setting.dtype == "bf16" else torch.float16
        self.q, self.k, self.v = (
            torch.randn(
                setting.batch, setting.heads, length, setting.k, generator=generator,
                device=gpu.device,
            ).to(self.type)
            for length in (setting.m, setting.n, setting.n)
        )

    def error(self, out: Any, sparse: bool) -> float:
        """Relative Frobenius error of a result, over the pattern or over all keys."""
        torch, setting = self.torch, self.setting
        keys = torch.arange(setting.n, device=self.gpu.device)
        difference = total = 0.0
        for b in range(setting.batch):
            for h in range(setting.heads):
                right, values = self.k[b, h].double().T, self.v[b, h].double()
                for top in range(0, setting.m, QUERIES_AT_ONCE):
                    rows = slice(top, top + QUERIES_AT_ONCE)
                    scores = self.q[b, h, rows].double() @ right * setting.k**-0.5
                    if sparse:
                        scores.masked_fill_(~self.mask[rows], -math.inf)
                    if setting.causal:
                        queries = torch.arange(top, top + len(scores), device=self.gpu.device)
                        scores.masked_fill_(keys > queries[:, None], -math.inf)
                    exact = torch.softmax(scores, -1).nan_to_num(0.0) @ values
                    difference += float((out[b, h, rows].double() - exact).square().sum())
                    total += float(exact.square().sum())
        return math.sqrt(difference / total) if total else math.sqrt(difference)

    def plan(self) -> tuple[mc.AttentionPlan, Callable[[], Any]]:
        """The library's plan, and a run of it."""
        setting = self.setting
        q, k, v = self.q, self.k, self.v
        scales: dict[str, Any] = {}
        declared: dict[str, Any] = {}
        if setting.dtype in ("int8", "int4"):
            quantized = mc.quantize_attention(q, k, v, setting.dtype)
            q, k, v, scales = quantized.q, quantized.k, quantized.v, quantized.scales
            declared = {"q_scale": "row", "k_scale": "row", "v_scale": "col"}
            declared["probability_bits"] = setting.probability_bits
        plan = mc.AttentionPlan(
            self.pattern, head_dim=setting.k, dtype=setting.dtype, out_dtype=setting.out,
            batch_count=setting.batch, q_heads=setting.heads, causal=setting.causal,
            implementation=setting.implementation, **declared,
        )
        out = plan(q, k, v, **scales)
        return plan, lambda: plan(q, k, v, out, **scales)

    # ---- peers -----------------------------------------------------------------------------------

    def peers(self) -> Peers:
        """PyTorch's: two dense products, and FlexAttention over the blocks of the pattern."""
        peers = Peers()
        dense = "dense, causal" if self.setting.causal else "dense, all keys seen"
        for name, backend in (("cudnn", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION")):
            peers.add(f"torch_{name}", functools.partial(self._dense, backend, dense))
        peers.add("torch_flex", self._flex)
        return peers

    def _halves(self) -> list[Any]:
        return [x.to(self.half) for x in (self.q, self.k, self.v)]

    def _captured(self, run: Callable[[], Any], note: str) -> Peer:
        replay, result = self.gpu.capture(run)
        return Peer(replay, lambda _: result, f"{str(self.half).removeprefix('torch.')}, {note}")

    def _dense(self, backend: str, note: str) -> Peer:
        from torch.nn import attention

        arrays = self._halves()
        attend = self.torch.nn.functional.scaled_dot_product_attention
        kernel = getattr(attention.SDPBackend, backend)

        def run() -> Any:
            with attention.sdpa_kernel([kernel]):
                return attend(*arrays, is_causal=self.setting.causal)

        return self._captured(run, f"scaled_dot_product_attention, {note}")

    def _flex(self) -> Peer:
        from torch.nn.attention import flex_attention as flex

        arrays, setting = self._halves(), self.setting
        blocks = flex.create_block_mask(
            _mask_mod(setting, self.mask), None, None, setting.m, setting.n, device=self.gpu.device
        )
        attend = self.gpu.compile(flex.flex_attention)
        share = 1 - float(blocks.sparsity()) / 100
        return self._captured(
            lambda: attend(*arrays, block_mask=blocks),
            f"FlexAttention, compiled; {100 * share:.3g} % of the blocks of its mask are computed",
        )


def _agreement(problem: Problem, out: Any, name: str, limit: float) -> dict[str, Any]:
    error = problem.error(out, sparse=name in ("magicube", "torch_flex"))
    right = math.isfinite(error) and error <= limit
    return {"relative_error": error if math.isfinite(error) else None, "agrees": right}


def measure(
    setting: Setting, gpu: Gpu, options: dict[str, Any], current: Session
) -> dict[str, Any]:
    """One line of the result."""
    setting.check()
    problem = Problem(setting, gpu)
    plan, run = problem.plan()
    replay, out = gpu.capture(run)
    found = problem.peers() if options["peers"] else Peers()
    replays = {"magicube": replay, **{name: peer.run for name, peer in found.found.items()}}
    with current.progress() as progress:
        progress.add_task(f"attention, sparsity {1 - problem.pattern.density:.3g}", total=None)
        times = gpu.times(replays, options["rounds"], options["seconds"])
    limit = max(LIMITS[setting.dtype], LIMITS[setting.out])
    own = _agreement(problem, out, "magicube", limit)
    half = "bf16" if setting.dtype == "bf16" else "fp16"
    peers = {
        name: {
            **times[name].as_fields(),
            "speedup": times[name].median / times["magicube"].median,
            **_agreement(problem, peer.dense(None), name, LIMITS[half]),
            "note": peer.note,
        }
        for name, peer in found.found.items()
    }
    pattern, info = problem.pattern, plan.info
    pairs = pattern.num_vectors * setting.vector_length * setting.heads * setting.batch
    kind = "random" if setting.window < 0 else "window"
    return {
        "operation": "attention",
        "device": "cuda",
        "gpu": gpu.name,
        **{name: getattr(setting, name) for name in ("m", "k", "n", "batch", "heads")},
        "vector_length": setting.vector_length,
        "stride": pattern.stride,
        "pattern": kind,
        "sparsity": 1 - pattern.density,
        **({"window": setting.window, "first": setting.first} if kind == "window" else {}),
        "causal": setting.causal,
        "nnz": int(pattern.nnz),
        "lhs": setting.dtype,
        "rhs": setting.dtype,
        "out": setting.out,
        "probability_bits": (
            setting.probability_bits if setting.dtype in ("int8", "int4") else None
        ),
        "seed": setting.seed,
        "implementation": info.implementation,
        "plan_bytes": info.plan_bytes,
        "workspace_bytes": info.workspace_bytes,
        "graph_replay": True,
        **times["magicube"].as_fields(),
        "tops": 4e-6 * pairs * setting.k / times["magicube"].median,
        "relative_error": own["relative_error"],
        "correct": own["agrees"],
        "peers": peers,
        **({"missing_peers": found.missing} if options["peers"] else {}),
    }


def run(
    settings: list[Setting], options: dict[str, Any], current: Session
) -> list[dict[str, Any]]:
    """The settings one after another."""
    gpu = Gpu()
    return [measure(setting, gpu, options, current) for setting in settings]


def _shown(error: float | None) -> str:
    return "not finite" if error is None else f"{error:.2g}"


def render(results: list[dict[str, Any]], console: Console) -> None:
    """A table for each result."""
    for result in results:
        causal = ", causal" if result["causal"] else ""
        console.print(
            f"{describe(result)}, batch {result['batch']}, {result['pattern']} pattern{causal}, "
            f"sparsity {result['sparsity']:.4g}, seed {result['seed']}; {result['gpu']}"
        )
        table = Table("contestant", "median us", "min us", "max us", "speedup over it", "error")
        own = f"magicube ({result['implementation']})"
        rows = [(own, result, "")]
        rows += [(name, x, f"{x['speedup']:.2f}") for name, x in result["peers"].items()]
        for name, entry, speedup in rows:
            times = [f"{entry[key]:.1f}" for key in ("time_us", "min_us", "max_us")]
            table.add_row(name, *times, speedup, _shown(entry["relative_error"]))
        console.print(table)
        console.print(f"{result['tops']:.2f} TOP/s over the elements stored, by graph replay")
        for name, peer in result["peers"].items():
            wrong = "" if peer["agrees"] else " [bold red]WRONG RESULT[/]"
            console.print(f"{name}: {peer['note']}{wrong}")
        for name, reason in result.get("missing_peers", {}).items():
            console.print(f"no {name}: {reason}", markup=False)
        if not result["correct"]:
            console.print("[bold red]WRONG RESULT[/]: it is too far from the float64 reference")
