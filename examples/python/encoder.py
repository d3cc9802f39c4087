# SPDX-License-Identifier: Apache-2.0
"""Prunes and quantises a real sentence encoder and shows what that costs and brings.

    python examples/python/encoder.py [--sparsity 0,0.5,0.9] [--plot FILE] [--json]
    python examples/python/encoder.py --matrix FILE.mtx|FILE.smtx [--json]

The first form takes all-MiniLM-L6-v2. Every linear layer's weight is pruned in vectors of 8 x 1,
quantised to int8 with a scale for each output, and multiplied by magicube; the activations are
quantised to int8 with a scale for each token. It prints, for each sparsity, the time of the linear
layers (quantisation of the activations included) against NumPy's float32, the memory of the
weights, and how near the embeddings of a hundred sentences stay to the dense ones. The weights are
pruned after training, without any retraining, so high sparsities lose quality. The second form
multiplies your own matrix, for several vector lengths, against SciPy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bert import Encoder, model_folder, tokenize
from tables import print_table, progress

import magicube as mc

Array = np.ndarray[Any, Any]
VECTOR_LENGTH = 8
PAIRS = 10  # the first twenty sentences are ten pairs of paraphrases
LEAST_COSINE = 0.99  # on average, for int8 without pruning


class DenseLinear:
    """Linear layers as NumPy computes them in float32, all weights or those that masks keep."""

    def __init__(self, encoder: Encoder, masks: dict[str, Array] | None = None) -> None:
        self.tensors = encoder.tensors
        self.weights = {name: self.tensors[f"{name}.weight"] for name in encoder.linear_names()}
        self.weight_bytes = sum(weight.nbytes for weight in self.weights.values())
        for name, mask in (masks or {}).items():
            self.weights[name] = self.weights[name] * mask
        self.seconds = 0.0

    def __call__(self, name: str, x: Array) -> Array:
        start = time.perf_counter()
        y = x @ self.weights[name].T + self.tensors[f"{name}.bias"]
        self.seconds += time.perf_counter() - start
        return y


class SparseLinear:
    """Linear layers as magicube computes them: pruned int8 weights, int8 activations.

    With x of tokens x features, row-major, y^T = W x^T: x^T is the same memory read as a
    column-major K x N matrix, and y comes back as tokens x outputs because C is column-major too.
    """

    def __init__(self, encoder: Encoder, sparsity: float, most_tokens: int) -> None:
        self.layers: dict[str, tuple[mc.SpMMPlan, Array, Array]] = {}
        self.masks: dict[str, Array] = {}
        self.weight_bytes = 0
        self.seconds = 0.0
        for name in encoder.linear_names():
            weight = encoder.tensors[f"{name}.weight"]
            mask = mc.prune(weight, vector_length=VECTOR_LENGTH, sparsity=sparsity)
            values, scale = mc.quantize(weight * mask, "int8", granularity="row")
            sparse = mc.SrBcrs.from_dense(values, mask=mask, vector_length=VECTOR_LENGTH)
            plan = mc.SpMMPlan(
                sparse, rhs_dtype="int8", out_dtype="fp32", n=(1, most_tokens), rhs_order="F",
                out_order="F", a_scale="row", b_scale="col", bias=True,
            )
            self.masks[name] = mask
            self.layers[name] = plan, scale, encoder.tensors[f"{name}.bias"]
            self.weight_bytes += sparse.nbytes + scale.nbytes

    def __call__(self, name: str, x: Array) -> Array:
        start = time.perf_counter()
        plan, scale, bias = self.layers[name]
        quantized, token_scale = mc.quantize(x, "int8", granularity="row")
        y = plan(quantized.T, a_scale=scale, b_scale=token_scale, bias=bias).T
        self.seconds += time.perf_counter() - start
        return y


def timed(encoder: Encoder, tokens: list[list[int]], linear: Any, passes: int) -> Array:
    """Embeddings; linear.seconds becomes the least time of its layers in one pass."""
    best = float("inf")
    for _ in range(passes):
        linear.seconds = 0.0
        embeddings = encoder.encode(tokens, linear)
        best = min(best, linear.seconds)
    linear.seconds = best
    return embeddings


def paired(embeddings: Array) -> int:
    """How many of the paraphrases have their partner as nearest neighbour among all sentences."""
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -1)
    nearest = similarity[: 2 * PAIRS].argmax(axis=1)
    return int(np.sum(nearest == (np.arange(2 * PAIRS) ^ 1)))


def run_encoder(options: argparse.Namespace) -> dict[str, Any]:
    """The measurements, dense first."""
    folder = model_folder()
    encoder = Encoder(folder)
    sentences = Path(options.sentences).read_text(encoding="utf-8").splitlines()
    tokens = tokenize(folder, sentences)
    count = sum(map(len, tokens))
    dense = DenseLinear(encoder)
    timed(encoder, tokens, dense, 1)  # warms caches and threads
    reference = timed(encoder, tokens, dense, options.passes)
    result: dict[str, Any] = {
        "sentences": len(sentences), "tokens": count, "vector_length": VECTOR_LENGTH,
        "dense": {
            "linear_ms": dense.seconds * 1e3, "weight_bytes": dense.weight_bytes,
            "paraphrases_found": paired(reference),
        },
        "sparse": [],
    }
    for sparsity in progress(options.sparsity, "sparsities"):
        linear = SparseLinear(encoder, sparsity, count)
        embeddings = timed(encoder, tokens, linear, options.passes)
        cosine = np.sum(embeddings * reference, axis=1)
        pruned = encoder.encode(tokens, DenseLinear(encoder, linear.masks))
        result["implementation"] = next(iter(linear.layers.values()))[0].info.implementation
        result["sparse"].append({
            "sparsity": sparsity, "linear_ms": linear.seconds * 1e3,
            "speedup": dense.seconds / linear.seconds, "weight_bytes": linear.weight_bytes,
            "cosine_mean": float(cosine.mean()), "cosine_min": float(cosine.min()),
            "cosine_to_pruned_fp32": float(np.sum(embeddings * pruned, axis=1).mean()),
            "paraphrases_found": paired(embeddings),
        })
    return result


def show_encoder(result: dict[str, Any]) -> None:
    """The table, and what it says."""
    dense = result["dense"]
    rows = [["dense fp32", dense["linear_ms"], 1.0, dense["weight_bytes"], 1.0, 1.0, 1.0,
             dense["paraphrases_found"]]]
    rows += [
        [f"int8, {entry['sparsity']:.0%} pruned", entry["linear_ms"], entry["speedup"],
         entry["weight_bytes"], entry["cosine_mean"], entry["cosine_min"],
         entry["cosine_to_pruned_fp32"], entry["paraphrases_found"]]
        for entry in result["sparse"]
    ]
    print_table(
        f"all-MiniLM-L6-v2, {result['sentences']} sentences, {result['tokens']} tokens, "
        f"V = {result['vector_length']}, implementation {result['implementation']}",
        ["weights", "linear layers", "speedup", "memory", "mean cosine", "least", "same mask fp32",
         "paraphrases"],
        [[name, f"{ms:.0f} ms", f"{speedup:.2f}", f"{size / 1e6:.1f} MB", f"{mean:.4f}",
          f"{least:.4f}", f"{masked:.4f}", f"{found} of {2 * PAIRS}"]
         for name, ms, speedup, size, mean, least, masked, found in rows],
    )
    print(
        "Cosines are to the embeddings of the dense model; 'same mask fp32' is to those of the\n"
        "pruned model before quantisation, so it shows what int8 alone costs. Paraphrases: how\n"
        "many sentences have theirs as nearest neighbour. Pruned once, without retraining."
    )
    slower = [f"{e['sparsity']:.0%}" for e in result["sparse"] if e["speedup"] < 1]
    if slower:
        print(f"Slower than NumPy's dense float32 here: {', '.join(slower)} pruned.")


def plot_encoder(path: str, result: dict[str, Any]) -> None:
    """Time and cosine over sparsity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sparse = result["sparse"]
    x = [entry["sparsity"] * 100 for entry in sparse]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(x, [entry["linear_ms"] for entry in sparse], marker="o", label="magicube int8")
    dense_ms = result["dense"]["linear_ms"]
    left.axhline(dense_ms, color="gray", linestyle="--", label="NumPy fp32 dense")
    left.set(xlabel="vectors pruned (%)", ylabel="linear layers (ms)", ylim=(0, None))
    left.legend()
    right.plot(x, [entry["cosine_mean"] for entry in sparse], marker="o", label="mean")
    right.plot(x, [entry["cosine_min"] for entry in sparse], marker="s", label="least")
    right.set(xlabel="vectors pruned (%)", ylabel="cosine to the dense embedding")
    right.legend()
    figure.suptitle(f"all-MiniLM-L6-v2, {result['tokens']} tokens, no retraining")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> int:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sentences", default=str(here.parent / "data" / "sentences.txt"))
    parser.add_argument(
        "--sparsity", default=[0.0, 0.5, 0.7, 0.8, 0.9],
        type=lambda text: [float(part) for part in text.split(",")],
    )
    parser.add_argument("--passes", type=int, default=1, help="the best of so many is reported")
    parser.add_argument("--plot", default="")
    parser.add_argument("--matrix", default="", help="a .mtx or .smtx file instead of the encoder")
    parser.add_argument("--columns", type=int, default=256, help="N of the product with --matrix")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.matrix:
        from own_matrix import run_matrix, show_matrix

        try:
            result, show = run_matrix(options.matrix, options.columns), show_matrix
        except mc.MagicubeError as error:
            print(f"encoder: {error}", file=sys.stderr)
            return 2
    else:
        result, show = run_encoder(options), show_encoder
        if options.plot:
            plot_encoder(options.plot, result)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    if options.plot and not options.matrix and not options.json:
        print(f"wrote {options.plot}")
    unpruned = [e for e in result["sparse"] if e.get("sparsity") == 0] if not options.matrix else []
    if any(entry["cosine_mean"] <= LEAST_COSINE for entry in unpruned):
        print(f"encoder: unpruned, the mean cosine is not above {LEAST_COSINE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
