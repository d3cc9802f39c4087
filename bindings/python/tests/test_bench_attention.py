# SPDX-License-Identifier: Apache-2.0
"""`magicube bench attention --device cuda`, by a GPU and, of what needs none, by one that is only
said to be one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import magicube as mc
import pytest

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("rich")

from magicube.cli import _bench_attention as attention  # noqa: E402
from magicube.cli import _gpu as gpu  # noqa: E402
from magicube.cli import app  # noqa: E402
from magicube.cli._timing import Times, alternate  # noqa: E402


def invoke(*words: object, code: int = 0) -> Any:
    given = ["bench", "attention", *map(str, words), "--rounds", "2"]
    done = typer_testing.CliRunner().invoke(app, given)
    assert done.exit_code == code, done.output + repr(done.exception)
    return done


class Pretended(gpu.Gpu):
    """The host in place of a GPU, without graphs."""

    device = "cpu"

    def __init__(self) -> None:
        self.torch = pytest.importorskip("torch")

    @property
    def name(self) -> str:
        return "a host"

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def capture(self, run: Callable[[], Any]) -> tuple[gpu.Replay, Any]:
        return run, run()

    def times(
        self, replays: Mapping[str, gpu.Replay], rounds: int, seconds: float
    ) -> dict[str, Times]:
        return alternate(replays, rounds, seconds)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(attention, "Gpu", Pretended)
    monkeypatch.setattr("magicube.cli._bench.require_device", lambda *given: None)


SIZES = ["--m", 64, "--n", 72, "--k", 16, "--heads", 2, "--batch", 2]


@pytest.mark.parametrize("inputs", ["fp32", "fp16", "bf16", "int8", "int4"])
@pytest.mark.parametrize("causal", [False, True])
def test_its_own_result_is_checked(pretended, inputs: str, causal: bool) -> None:
    words = ["--device", "cuda", *SIZES, "--in", inputs, "--out", "fp16", "--sparsity", 0.8]
    result = json.loads(invoke(*words, *(["--causal"] if causal else []), "--json").stdout)
    limit = max(attention.LIMITS[inputs], attention.LIMITS["fp16"])
    assert result["correct"] and 0 <= result["relative_error"] < limit
    assert result["time_us"] > 0 and result["peers"] == {} and "missing_peers" not in result
    assert result["batch"] == 2 and abs(result["sparsity"] - 0.8) < 0.01
    assert result["probability_bits"] == (8 if inputs.startswith("int") else None)


def test_a_wrong_result_fails(pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "LIMITS", dict.fromkeys(attention.LIMITS, 1e-9))
    done = invoke("--device", "cuda", *SIZES, "--json", code=1)
    assert not json.loads(done.stdout)["correct"]


@pytest.mark.parametrize("window", [-1, 9])
@pytest.mark.parametrize("causal", [False, True])
def test_peers_are_checked_or_say_why_not(pretended, causal: bool, window: int) -> None:
    words = ["--device", "cuda", *SIZES, "--in", "fp16", "--out", "fp16", "--peers"]
    words += ["--window", window, "--first", 5, *(["--causal"] if causal else [])]
    result = json.loads(invoke(*words, "--json").stdout)
    assert result["correct"] and result["pattern"] == ("random" if window < 0 else "window")
    known = {"torch_cudnn", "torch_flash", "torch_flex"}
    assert set(result["peers"]) | set(result["missing_peers"]) == known
    assert "torch_cudnn" in result["missing_peers"]  # it is of CUDA alone
    assert all(result["missing_peers"].values()) and "torch_flex" in result["peers"]
    for peer in result["peers"].values():
        assert peer["agrees"] and peer["speedup"] > 0 and "float16" in peer["note"]
    shown = invoke(*words).output
    assert "magicube (" in shown and "no torch_cudnn: " in shown


def test_options_of_cuda_are_refused_elsewhere() -> None:
    for words in (["--causal"], ["--batch", 2], ["--window", 3], ["--probability-bits", 16]):
        done = invoke(*SIZES[:8], *words, code=2)
        assert f"{words[0]} is of --device cuda alone" in done.output
    assert "'int8'; it must be one of fp32" in invoke(*SIZES[:8], "--in", "int8", code=2).output


@pytest.mark.skipif(mc.device_count("cuda") > 0, reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    assert "no CUDA device" in invoke("--device", "cuda", code=2).output


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magicube.cli._bench.require_device", lambda *given: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pip install torch" in invoke("--device", "cuda", code=2).output


@pytest.mark.skipif(mc.device_count("cuda") == 0, reason="there is no GPU")
@pytest.mark.parametrize("inputs", ["fp16", "int8"])
def test_on_a_gpu(inputs: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    words = ["--m", 512, "--n", 512, "--k", 64, "--heads", 2, "--in", inputs, "--out", "fp16"]
    result = json.loads(
        invoke("--device", "cuda", *words, "--peers", "--seconds", 0.2, "--json").stdout
    )
    assert result["correct"] and result["graph_replay"]
    assert all(peer["agrees"] for peer in result["peers"].values()), result["peers"]
    assert set(result["peers"]) | set(result["missing_peers"]) == {
        "torch_cudnn", "torch_flash", "torch_flex"
    }
