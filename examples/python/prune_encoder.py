# SPDX-License-Identifier: Apache-2.0
"""Prunes a real sentence encoder to V:N:M, by magnitude and by second order, without retraining.

    python examples/python/prune_encoder.py [--patterns 64:2:8,64:2:16] [--json]

Every linear layer of all-MiniLM-L6-v2 is pruned, one after the other in the order of execution.
The second-order methods see each layer's inputs, as the network pruned so far computes them, for
the sentences of examples/data/calibration.txt. "second order" prunes with these alone. "second
order, corrected" also asks each layer to give what the dense network's layer gave, by least
squares, so that later layers make up for earlier ones, and lets the bias take the mean error.

Printed is the cosine of the embeddings to the dense ones on the sentences of
examples/data/sentences.txt, none of which the pruning has seen. Masks and weights are applied in
float32 NumPy products.
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
MOST_LOSS = 0.5  # of what magnitude loses in mean cosine


class Layers:
    """Linear layers whose weights and biases can be exchanged while the encoder runs."""

    def __init__(self, encoder: Encoder) -> None:
        names = encoder.linear_names()
        self.weights = {name: encoder.tensors[f"{name}.weight"] for name in names}
        self.biases = {name: encoder.tensors[f"{name}.bias"] for name in names}

    def __call__(self, name: str, x: Array) -> Array:
        return x @ self.weights[name].T + self.biases[name]


class Recorder(Layers):
    """The dense layers; keeps what goes into each."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.inputs: dict[str, Array] = {}

    def __call__(self, name: str, x: Array) -> Array:
        self.inputs[name] = x
        return super().__call__(name, x)


class SecondOrder(Layers):
    """Prunes each layer when its inputs arrive, and goes on with the pruned one."""

    def __init__(self, encoder: Encoder, pattern: dict[str, int], damping: float) -> None:
        super().__init__(encoder)
        self.pattern = pattern
        self.damping = damping
        self.seconds = 0.0

    def __call__(self, name: str, x: Array) -> Array:
        start = time.perf_counter()
        self.prune(name, x)
        self.seconds += time.perf_counter() - start
        return super().__call__(name, x)

    def prune(self, name: str, x: Array) -> None:
        """Replaces the weights of a layer."""
        _, self.weights[name] = mc.prune_vnm_obs(
            self.weights[name], inputs=x, damping=self.damping, **self.pattern
        )


class CorrectedSecondOrder(SecondOrder):
    """Aims at the dense network's outputs, given its inputs of every layer."""

    def __init__(
        self, encoder: Encoder, pattern: dict[str, int], damping: float, dense: dict[str, Array]
    ) -> None:
        super().__init__(encoder, pattern, damping)
        self.dense = dense

    def prune(self, name: str, x: Array) -> None:
        # With x what the layer gets and d what the dense one got, both without their means, the
        # weights T of least |x T^T - d W^T|^2 + lambda |T - W|^2 are W + W (d - x)^T x H^-1.
        weight = self.weights[name].astype(np.float64)
        x_mean = x.mean(axis=0, dtype=np.float64)
        dense_mean = self.dense[name].mean(axis=0, dtype=np.float64)
        centred = x - x_mean
        gap = self.dense[name] - dense_mean - centred
        hessian = centred.T @ centred
        level = self.damping * np.trace(hessian) / len(hessian)
        damped = hessian + level * np.eye(len(hessian))
        target = weight + weight @ np.linalg.solve(damped, centred.T @ gap).T
        _, pruned = mc.prune_vnm_obs(
            target.astype(np.float32), hessian=hessian.astype(np.float32), damping=self.damping,
            **self.pattern,
        )
        self.weights[name] = pruned
        shift = weight @ dense_mean - pruned.astype(np.float64) @ x_mean
        self.biases[name] = (self.biases[name] + shift).astype(np.float32)


def by_magnitude(encoder: Encoder, pattern: dict[str, int]) -> Layers:
    """All layers pruned by magnitude."""
    layers = Layers(encoder)
    for name, weight in layers.weights.items():
        layers.weights[name] = weight * mc.prune_vnm(weight, **pattern)
    return layers


def read_pattern(text: str) -> dict[str, int]:
    """V:N:M as options of the pruning functions."""
    try:
        v, n, m = (int(part) for part in text.split(":"))
    except ValueError:
        raise SystemExit(f"prune_encoder: {text!r} is no pattern such as 64:2:8") from None
    return {"vector_length": v, "n": n, "m": m}


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The measurements."""
    folder = model_folder()
    encoder = Encoder(folder)
    read = [
        Path(path).read_text(encoding="utf-8").splitlines()
        for path in (options.calibration, options.sentences)
    ]
    calibration = tokenize(folder, read[0][: options.calibration_sentences])
    sentences = tokenize(folder, read[1])
    recorder = Recorder(encoder)
    encoder.encode(calibration, recorder)
    reference = encoder.encode(sentences, Layers(encoder))
    result: dict[str, Any] = {
        "calibration_sentences": len(calibration),
        "calibration_tokens": sum(map(len, calibration)),
        "sentences": len(sentences), "damping": options.damping, "results": [],
    }
    for text in progress(options.patterns.split(","), "patterns"):
        pattern = read_pattern(text)
        start = time.perf_counter()
        methods: dict[str, tuple[Layers, float]] = {
            "magnitude": (by_magnitude(encoder, pattern), time.perf_counter() - start)
        }
        for label, layers in (
            ("second order", SecondOrder(encoder, pattern, options.damping)),
            ("second order, corrected",
             CorrectedSecondOrder(encoder, pattern, options.damping, recorder.inputs)),
        ):
            encoder.encode(calibration, layers)
            pruned = Layers(encoder)
            pruned.weights, pruned.biases = layers.weights, layers.biases
            methods[label] = pruned, layers.seconds
        lost = 0.0
        for label, (used, seconds) in methods.items():
            cosine = np.sum(encoder.encode(sentences, used) * reference, axis=1)
            loss = 1 - float(cosine.mean())
            lost = lost or loss
            result["results"].append({
                "pattern": text, "method": label, "cosine_mean": 1 - loss,
                "cosine_min": float(cosine.min()), "loss_to_magnitude": loss / lost,
                "prune_seconds": seconds,
            })
    return result


def show(result: dict[str, Any]) -> None:
    """The table."""
    print_table(
        f"all-MiniLM-L6-v2, {result['sentences']} sentences; pruned with "
        f"{result['calibration_tokens']} tokens of {result['calibration_sentences']} others, "
        f"damping {result['damping']}",
        ["pattern", "method", "mean cosine", "least", "loss to magnitude's", "pruning"],
        [[e["pattern"], e["method"], f"{e['cosine_mean']:.4f}", f"{e['cosine_min']:.4f}",
          f"{e['loss_to_magnitude']:.2f}", f"{e['prune_seconds']:.1f} s"]
         for e in result["results"]],
    )
    print("Cosines are to the embeddings of the dense model. Pruned once, without retraining.")


def main() -> int:
    data = Path(__file__).resolve().parent.parent / "data"
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--patterns", default="64:2:8,64:2:16", help="V:N:M, separated by commas")
    parser.add_argument("--calibration", default=str(data / "calibration.txt"))
    parser.add_argument("--calibration-sentences", type=int, help="only so many of them")
    parser.add_argument("--sentences", default=str(data / "sentences.txt"))
    parser.add_argument("--damping", type=float, default=0.05)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        result = run(options)
    except mc.MagicubeError as error:
        print(f"prune_encoder: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    corrected = [e for e in result["results"] if e["method"] == "second order, corrected"]
    if any(entry["loss_to_magnitude"] > MOST_LOSS for entry in corrected):
        print(
            f"prune_encoder: second order, corrected, loses more than {MOST_LOSS} of what "
            "magnitude loses", file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
