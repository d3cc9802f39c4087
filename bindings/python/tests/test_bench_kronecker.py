# SPDX-License-Identifier: Apache-2.0
"""The chooser of Kronecker-sparse products: candidates, measured times, the command."""

import json

import numpy as np
import pytest

import magicube as mc
from cuda_arrays import needs_gpu
from magicube import kronecker

typer_testing = pytest.importorskip("typer.testing")

from magicube.cli import app  # noqa: E402


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGICUBE_CACHE_DIR", str(tmp_path / "cache"))


def invoke(*words, code=0):
    words = ["bench", "kronecker", *map(str, words), "--rounds", 1, "--json"]
    result = typer_testing.CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + repr(result.exception)
    return json.loads(result.stdout)


@pytest.mark.parametrize("layout", ["first", "last"])
def test_every_candidate_is_right(rng, layout):
    for pattern in ((3, 4, 5, 1), (2, 3, 4, 5)):
        K = mc.Kronecker(rng.standard_normal(pattern, np.float32))
        setting = kronecker.Setting((pattern,), 7, "fp32", layout)
        x = rng.standard_normal((7, K.shape[1]), np.float32)
        given = x if layout == "first" else np.ascontiguousarray(x.T)
        ran = []
        for candidate in kronecker.candidates():
            if candidate.accepts(setting):
                continue
            y = np.asarray(candidate.make(K, layout, 7)(given))
            exact = x @ K.to_dense().T
            assert np.allclose(y, exact if layout == "first" else exact.T, atol=1e-4)
            ran.append(candidate.name)
        assert ran[:4] == ["magicube", "dense", "bmm", "einsum"]
        assert ("bsr" in ran) == (pattern[3] == 1 and "csr" in ran)


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("name", ["dense", "bmm", "einsum", "csr", "bsr"])
def test_what_pytorch_computes(rng, name, layout):
    """On tensors in host memory: the same functions run on CUDA."""
    pytest.importorskip("torch")
    from magicube import _kronecker_torch as peers

    for pattern in ((3, 4, 4, 1), (2, 3, 4, 5)):
        if name == "bsr" and pattern[3] != 1:
            continue
        K = mc.Kronecker(rng.standard_normal(pattern, np.float32))
        x = rng.standard_normal((7, K.shape[1]), np.float32)
        run = getattr(peers, name)(K, layout, "cpu")
        y = run(peers.put(x if layout == "first" else x.T, "fp32", "cpu")).numpy()
        assert np.allclose(y if layout == "first" else y.T, x @ K.to_dense().T, atol=1e-4)


def test_candidates_on_cuda():
    def reasons(*patterns):
        setting = kronecker.Setting(patterns, 7, "fp16", "first", "cuda:0")
        return {c.name: c.accepts(setting) for c in kronecker.candidates()}

    pytest.importorskip("torch")
    assert not any(reasons((2, 16, 16, 1)).values())
    assert reasons((2, 16, 16, 2))["bsr"] == "d must be 1"
    chain = reasons((1, 4, 4, 8), (4, 8, 4, 1))
    assert chain["magicube"] == chain["dense"] == "" and chain["bmm"] == "takes one factor"


def test_times_on_cuda_are_those_between_events():
    from magicube.cli._cuda_timing import EnergyMeter, in_turns

    clock = [0.0]

    class Mark:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.time = clock[0]

        def synchronize(self):
            pass

        def elapsed_time(self, other):
            return other.time - self.time

    class Torch:  # a GPU whose calls take as many milliseconds as they say
        class cuda:
            Event = Mark
            synchronize = staticmethod(lambda: None)
            get_device_properties = staticmethod(lambda ordinal: None)

    def call(milliseconds):
        def run():
            clock[0] += milliseconds
        return run

    times = in_turns(Torch, {"fast": call(1.0), "slow": call(50.0)}, 3, 0)
    assert times["fast"].median == pytest.approx(1000) and times["fast"].calls == 60
    assert times["slow"].median == pytest.approx(50000) and times["slow"].calls == 3
    assert EnergyMeter(Torch, 0).joules(call(1.0), 1000) is None


@needs_gpu
def test_command_on_cuda():
    pytest.importorskip("torch")
    told = invoke("--patterns", "2,16,16,1 1,16,16,4;4,16,8,1", "--batch", 256, "--dtype", "fp16",
                  "--device", "cuda")
    single, chain = told["results"]
    assert set(single["implementations"]) >= {"magicube", "dense", "bmm", "einsum"}
    assert set(chain["implementations"]) == {"magicube", "dense"}
    assert not single["wrong"] and not chain["wrong"] and single["device"] == "cuda:0"
    K = mc.Kronecker(np.ones((2, 16, 16, 1), np.float16)).cuda()
    assert kronecker.best(K, batch=256).time_us is not None
    assert kronecker.best(K.cpu(), batch=256).time_us is None


def test_command_measures_remembers_and_goes_on(tmp_path):
    told = invoke("--patterns", "2,4,4,1 1,2,2,2;2,2,2,1", "--batch", 32)
    single, chain = told["results"]
    assert single["rule"] == 0.5 and 0 < single["permutation_share"]
    assert set(single["implementations"]) >= {"magicube", "dense", "bmm", "einsum"}
    assert set(chain["implementations"]) == {"magicube", "dense"}
    assert chain["declined"]["bmm"] == "takes one factor" and chain["rule"] is None
    for result in told["results"]:
        times = {name: e["time_us"] for name, e in result["implementations"].items()}
        assert result["best"] == min(times, key=times.get) and not result["wrong"]
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("2,4,4,1  # measured before\n1,4,4,2\n")
    again = invoke("--patterns", patterns, "--batch", 32)
    assert [result["patterns"] for result in again["results"]] == [[[1, 4, 4, 2]]]
    assert set(again["best"]) == {"2,4,4,1 32 fp32 first", "1,4,4,2 32 fp32 first"}
    plot = tmp_path / "times.png"
    words = ("--patterns", patterns, "--batch", 32, "--fresh", "--plot", plot)
    assert len(invoke(*words)["results"]) == 2
    assert plot.read_bytes().startswith(b"\x89PNG")
    half = invoke("--patterns", "2,4,4,1", "--batch", 32, "--dtype", "fp16", "--layout", "last")
    assert set(half["results"][0]["implementations"]) == {"magicube"}


def test_best_picks_what_was_measured(rng):
    K = mc.Kronecker(rng.standard_normal((2, 3, 4, 1), np.float32))
    x = rng.standard_normal((5, 8), np.float32)
    untried = kronecker.best(K, batch=5)
    assert untried.name == "magicube" and untried.time_us is None
    key = kronecker.Setting((K.pattern,), 5, "fp32", "first").key
    kronecker.save_times({key: {"magicube": 3.0, "bmm": 2.0, "gone": 1.0}})
    chosen = kronecker.best(K, batch=5)
    assert chosen.name == "bmm" and chosen.time_us == 2.0
    assert np.allclose(chosen.run(x), untried.run(x), atol=1e-5)
    assert kronecker.best(K, batch=6).name == "magicube"
    kronecker.cache_path().write_text("{broken")
    assert kronecker.best(K, batch=5).time_us is None
    with pytest.raises(mc.InvalidValueError, match="layout is 'middle'"):
        kronecker.best(K, batch=5, layout="middle")


def test_own_implementations(rng):
    def make(K, layout, batch):
        dense = K.to_dense()
        return lambda x: x @ dense.T

    def only_first(setting):
        return "" if setting.layout == "first" else "batch first alone"

    with pytest.raises(mc.InvalidValueError, match="'bmm'"):
        kronecker.register("bmm", make)
    kronecker.register("mine", make, accepts=only_first)
    kronecker.register("wrong", lambda K, layout, batch: lambda x: make(K, layout, batch)(x) + 1)
    try:
        told = invoke("--patterns", "2,4,4,1", "--batch", 16, code=1)["results"][0]
        assert "mine" in told["implementations"] and "off by" in told["wrong"]["wrong"]
        assert "wrong" not in told["implementations"]
        told = invoke("--patterns", "2,4,4,1", "--batch", 16, "--layout", "last", code=1)
        assert told["results"][0]["declined"]["mine"] == "batch first alone"
        assert "it raised ValueError" in told["results"][0]["wrong"]["wrong"]
    finally:
        kronecker.unregister("mine")
        kronecker.unregister("wrong")
    kronecker.unregister("bmm")
    assert "bmm" in [candidate.name for candidate in kronecker.candidates()]


@pytest.mark.parametrize(
    "words, part",
    [
        (("--patterns", ""), "names no pattern"),
        (("--patterns", "1,2,3"), "factor 0 is '1,2,3'"),
        (("--patterns", "1,2,2,1 1,0,2,1"), "factors[0].b is 0"),
        (("--patterns", "1,2,2,1", "--dtype", "int8"), "int8"),
        (("--patterns", "1,2,2,1", "--layout", "middle"), "middle"),
        (("--patterns", "1,2,2,1", "--plot", "times.txt"), "it must name a .png file"),
        (("--patterns", "1,2,2,1", "--device", "gpu"), "it must be cpu, cuda or such as cuda:1"),
        (("--patterns", "1,2,2,1", "--device", "cuda:99"), "CUDA"),
    ],
)
def test_command_refuses(words, part):
    assert part in invoke(*words, code=2)["error"]["message"]
