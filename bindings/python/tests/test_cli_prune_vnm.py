# SPDX-License-Identifier: Apache-2.0
"""magicube prune --format vnm"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import magicube as mc
import numpy as np
import pytest
from magicube import io

cli = pytest.importorskip("typer.testing")

from magicube.cli._app import app  # noqa: E402

Tensors = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def files(tmp_path: pathlib.Path) -> tuple[pathlib.Path, Tensors, Tensors]:
    """A file of weights in tmp_path and one of inputs."""
    rng = np.random.default_rng(7)
    weights: Tensors = {
        "first.weight": rng.standard_normal((70, 40), np.float32),
        "second.weight": rng.standard_normal((24, 21)).astype(np.float16),
        "first.bias": rng.standard_normal(70, np.float32),
    }
    inputs: Tensors = {
        "first.weight": (rng.standard_normal((2, 90, 40)) @ rng.standard_normal((40, 40))),
        "second.weight": rng.standard_normal((90, 21), np.float32),
    }
    io.save_safetensors(tmp_path / "w.safetensors", weights)
    io.save_safetensors(tmp_path / "x.safetensors", inputs)
    io.save_safetensors(tmp_path / "y.safetensors", {"first.weight": np.ones((90, 39), np.float32)})
    return tmp_path, weights, inputs


def invoke(folder: pathlib.Path, *words: object, code: int = 0) -> dict[str, Any]:
    command = ["prune", str(folder / "w.safetensors"), "--format", "vnm", *map(str, words)]
    done = cli.CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == code, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_magnitude(files: tuple[pathlib.Path, Tensors, Tensors]) -> None:
    folder, weights, _ = files
    out = folder / "out.safetensors"
    told = invoke(folder, "--all", "--v", 64, "--m", 8, "-o", out)
    stored = io.load_safetensors(out)
    assert set(stored) == {*weights, "first.weight.mask", "second.weight.mask"}
    np.testing.assert_array_equal(stored["first.bias"], weights["first.bias"])
    assert (told["v"], told["n"], told["m"], told["method"]) == (64, 2, 8, "magnitude")
    for name in ("first.weight", "second.weight"):
        mask = mc.prune_vnm(weights[name])
        np.testing.assert_array_equal(stored[f"{name}.mask"], mask)
        np.testing.assert_array_equal(stored[name], (weights[name] * mask).astype(np.float32))
        entry = told["tensors"][name]
        assert entry["kept_energy"] == mc.kept_energy(weights[name], mask)
        assert entry["density"] == mask.mean() and "output_error" not in entry


def test_obs(files: tuple[pathlib.Path, Tensors, Tensors]) -> None:
    folder, weights, inputs = files
    out = folder / "out.safetensors"
    told = invoke(
        folder, "--tensor", "first.weight", "--v", 16, "--m", 10, "--n", 2, "--method", "obs",
        "--inputs", folder / "x.safetensors", "--damping", 0.05, "--dtype", "bf16", "-o", out,
    )
    x = inputs["first.weight"].reshape(-1, 40).astype(np.float32)
    weight = weights["first.weight"]
    mask, updated = mc.prune_vnm_obs(weight, inputs=x, vector_length=16, m=10, damping=0.05)
    stored = io.load_safetensors(out)
    np.testing.assert_array_equal(stored["first.weight.mask"], mask)
    np.testing.assert_array_equal(
        stored["first.weight"].astype(np.float32), updated.astype(stored["first.weight"].dtype)
    )
    error = np.linalg.norm(x @ (updated - weight).T) / np.linalg.norm(x @ weight.T)
    assert told["tensors"]["first.weight"]["output_error"] == pytest.approx(error**2, rel=1e-4)


def test_table(files: tuple[pathlib.Path, Tensors, Tensors]) -> None:
    folder = files[0]
    shown = cli.CliRunner().invoke(
        app, ["prune", str(folder / "w.safetensors"), "--format", "vnm", "--all", "--method", "obs",
              "--inputs", str(folder / "x.safetensors"), "-o", str(folder / "o.safetensors")],
    )
    assert shown.exit_code == 0, shown.output
    assert "output error" in shown.output and "64:2:8 by obs" in shown.output


@pytest.mark.parametrize(
    "words, part",
    [
        (("-o", "o.npz"), "must end in .safetensors"),
        (("--method", "obs"), "obs needs a file of layer inputs"),
        (("--inputs", "x.safetensors"), "magnitude none"),
        (("--method", "best"), "best"),
        (("--dtype", "int8"), "int8"),
        (("--m", 3), "m is 3"),
        (("--v", 8), "vector_length is 8"),
        (("--method", "obs", "--inputs", "y.safetensors"), "they must be floating, samples x 40"),
        (("--method", "obs", "--inputs", "none.safetensors"), "none.safetensors"),
    ],
)
def test_refused(
    files: tuple[pathlib.Path, Tensors, Tensors],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[object, ...],
    part: str,
) -> None:
    folder = files[0]
    monkeypatch.chdir(folder)
    output = () if "-o" in words else ("-o", "o.safetensors")
    told = invoke(folder, "--tensor", "first.weight", *output, *words, code=2)
    assert part in told["error"]["message"]
    assert not (folder / "o.safetensors").exists()


def test_inputs_must_hold_every_tensor(files: tuple[pathlib.Path, Tensors, Tensors]) -> None:
    folder, _, inputs = files
    io.save_safetensors(folder / "few.safetensors", {"first.weight": inputs["first.weight"]})
    told = invoke(
        folder, "--all", "--method", "obs", "--inputs", folder / "few.safetensors", "-o",
        folder / "o.safetensors", code=2,
    )
    assert "no inputs of 'second.weight'" in told["error"]["message"]
