# SPDX-License-Identifier: Apache-2.0
"""The chooser of Kronecker-sparse products: candidates, measured times, the command."""

import json

import numpy as np
import pytest

import magicube as mc
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
    assert len(invoke("--patterns", patterns, "--batch", 32, "--fresh")["results"]) == 2
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
    ],
)
def test_command_refuses(words, part):
    assert part in invoke(*words, code=2)["error"]["message"]
