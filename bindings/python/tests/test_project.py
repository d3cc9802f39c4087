# SPDX-License-Identifier: Apache-2.0
"""Projections onto chains: exact where they can be, within the stated bound everywhere."""

from __future__ import annotations

import json

import magicube as mc
import numpy as np
import pytest
from magicube import io
from magicube.sparse import butterfly_patterns, low_rank_patterns, monarch_patterns

CHAINS = {
    "vit": [(1, 24, 6, 2), (2, 6, 24, 1)],
    "monarch": monarch_patterns(24, 30, blocks=6, step=4, rank=2),
    "low rank": low_rank_patterns(20, 13, 3),
    "redundant": [(1, 5, 8, 1), (1, 8, 6, 1)],
    "one factor": [(2, 5, 3, 4)],
    "three": [(1, 5, 8, 6), (4, 6, 4, 2), (8, 2, 3, 2)],
    "butterfly": butterfly_patterns(5),
}


@pytest.mark.parametrize("name", CHAINS)
def test_products_are_recovered(name):
    chain = mc.KroneckerChain.random(CHAINS[name], seed=5)
    w = chain.to_dense()
    found = mc.project(w, CHAINS[name])
    assert found.relative_error < 1e-5
    assert np.linalg.norm(found.chain.to_dense() - w) <= 1e-5 * np.linalg.norm(w)


@pytest.mark.parametrize("name", CHAINS)
def test_errors_are_told_and_bounded(rng, name):
    """Of a product and noise: the noise is a chain's error, so that the best one is not above."""
    chain = mc.KroneckerChain.random(CHAINS[name], seed=6)
    for size in (0.01, 1.0, 100.0):
        noise = size * rng.standard_normal(chain.shape) / np.sqrt(chain.shape[0])
        w = chain.to_dense().astype(np.float64) + noise
        found = mc.project(w, CHAINS[name])
        rest = np.linalg.norm(w - found.chain.to_dense())
        assert rest == pytest.approx(found.error, rel=1e-4, abs=1e-5 * np.linalg.norm(w))
        assert found.error == pytest.approx(np.sqrt(np.sum(np.square(found.step_errors))))
        assert found.error <= found.bound * (1 + 1e-12)
        splits = max(len(chain) - 1, 1)
        assert len(found.step_errors) == splits
        assert found.least_error == max(found.step_errors)
        assert found.least_error <= np.linalg.norm(noise) * (1 + 1e-9)
        assert found.error <= np.sqrt(splits) * np.linalg.norm(noise) * (1 + 1e-9)
        assert found.relative_error == pytest.approx(found.error / np.linalg.norm(w))


def test_two_factors_are_the_best_there_is(rng):
    """No step of alternating least squares from the projection, or from elsewhere, beats it."""
    patterns = CHAINS["monarch"]
    w = rng.standard_normal((24, 30), np.float32).astype(np.float64)
    best = mc.project(w, patterns).error
    right = mc.KroneckerChain.random(patterns, seed=1)[1].to_dense().astype(np.float64)
    support = mc.Kronecker(np.ones(patterns[0], np.float32)).to_dense() != 0
    other = mc.Kronecker(np.ones(patterns[1], np.float32)).to_dense() != 0
    left = np.zeros(support.shape)
    for _ in range(60):
        for row in range(24):
            at = support[row]
            left[row, at] = np.linalg.lstsq(right[at].T, w[row], rcond=None)[0]
        for col in range(30):
            at = other[:, col]
            right[at, col] = np.linalg.lstsq(left[:, at], w[:, col], rcond=None)[0]
        assert np.linalg.norm(w - left @ right) >= best * (1 - 1e-9)


def test_factors_but_the_last_are_orthonormal(rng):
    found = mc.project(rng.standard_normal((32, 32)), butterfly_patterns(5))
    for factor in list(found.chain)[:-1]:
        for block in np.moveaxis(factor.values, 3, 1).reshape(-1, 2, 2):
            norms = np.linalg.norm(block, axis=0)
            assert np.allclose(norms, 1, atol=1e-6)


def test_weights(rng):
    patterns = CHAINS["monarch"]
    w = rng.standard_normal((24, 30))
    x = rng.standard_normal((200, 30)) * np.linspace(0.01, 3, 30)
    plain, aware = mc.project(w, patterns), mc.project(w, patterns, activations=x)
    scale = np.sqrt(np.mean(x**2, axis=0))
    weighted = [np.linalg.norm((w - p.chain.to_dense()) * scale) for p in (plain, aware)]
    assert weighted[1] < weighted[0]
    assert aware.error == pytest.approx(weighted[1], rel=1e-5)
    same = mc.project(w, patterns, column_weights=scale)
    assert same.error == pytest.approx(aware.error)
    never = x.copy()
    never[:, 3] = 0
    assert np.isfinite(mc.project(w, patterns, activations=never).chain.to_dense()).all()


def test_refusals(rng):
    w = rng.standard_normal((24, 30))
    patterns = CHAINS["monarch"]
    with pytest.raises(mc.InvalidValueError, match="weight is 30 x 24; it must be 24 x 30"):
        mc.project(w.T, patterns)
    with pytest.raises(mc.InvalidValueError, match=r"factors\[0\] .* are not chainable"):
        mc.project(np.ones((6, 4)), [(2, 3, 4, 1), (1, 8, 4, 1)])
    with pytest.raises(mc.InvalidValueError, match=r"factors\[1\].c is 0"):
        mc.project(w, [(1, 6, 12, 4), (6, 8, 0, 1)])
    with pytest.raises(mc.InvalidValueError, match="it must be finite"):
        mc.project(np.full((24, 30), np.nan), patterns)
    with pytest.raises(mc.InvalidValueError, match="not both"):
        mc.project(w, patterns, column_weights=np.ones(30), activations=w)
    with pytest.raises(mc.InvalidValueError, match=r"weights\[0\] is 0; it must be positive"):
        mc.project(w, patterns, column_weights=np.zeros(30))
    with pytest.raises(mc.InvalidValueError, match="at least one sample"):
        mc.project(w, patterns, activations=w[:0])
    with pytest.raises(mc.InvalidValueError, match=r"column_weights has shape \(29,\)"):
        mc.project(w, patterns, column_weights=np.ones(29))
    with pytest.raises(mc.InvalidValueError, match="dtype is int8"):
        mc.project(w, patterns, dtype="int8")
    with pytest.raises(mc.InvalidValueError, match=r"factors\[1\] would hold .*; fp16 holds"):
        mc.project(1e6 * w, patterns, dtype="fp16")
    with pytest.raises(TypeError, match="w is of type list"):
        mc.project([[1.0]], [(1, 1, 1, 1)])


def test_zero_and_half_precision(rng):
    zero = mc.project(np.zeros((24, 30)), CHAINS["monarch"])
    assert zero.error == 0 and zero.relative_error == 0 and not zero.chain.to_dense().any()
    w = rng.standard_normal((24, 30), np.float32)
    half = mc.project(w, CHAINS["monarch"], dtype="fp16")
    assert half.chain.dtype == "fp16"
    assert np.linalg.norm(w - half.chain.to_dense(dtype="fp32")) < half.error * 1.01


def test_types_and_layouts(rng):
    """Whatever the library reads is read in place; fp64 and wide integers are rounded to fp32."""
    w = rng.integers(-100, 100, (24, 30))
    wanted = mc.project(w.astype(np.float32), CHAINS["monarch"])
    for same in (w, w.astype(np.float64), w.astype(np.int8), np.asfortranarray(w.astype(np.int16))):
        found = mc.project(same, CHAINS["monarch"])
        assert found.error == wanted.error
        assert all(
            np.array_equal(a.values, b.values) for a, b in zip(found.chain, wanted.chain)
        )
    with mc.Handle("cpu") as handle:
        handle.num_threads = 1
        assert mc.project(w, CHAINS["monarch"], handle=handle).error == wanted.error


def test_any_two_supports(rng):
    """A chain's, with rows, columns and the inner index in another order."""
    patterns = CHAINS["monarch"]
    w = rng.standard_normal((24, 30), np.float32)
    expected = mc.project(w, patterns).error
    first, second = (mc.Kronecker(np.ones(p, np.float32)).to_dense() != 0 for p in patterns)
    rows, inner, cols = (rng.permutation(n) for n in (24, 48, 30))
    first, second = first[np.ix_(rows, inner)], second[np.ix_(inner, cols)]
    moved = w[np.ix_(rows, cols)]
    found = mc.project_supports(moved, first, second)
    assert found.error == pytest.approx(expected)
    assert np.linalg.norm(moved - found.left @ found.right) == pytest.approx(expected, rel=1e-5)
    assert found.relative_error == pytest.approx(expected / np.linalg.norm(w))
    assert not found.left[~first].any() and not found.right[~second].any()
    weights = np.linspace(0.1, 2, 30)
    aware = mc.project_supports(moved, first, second, column_weights=weights, dtype="fp16")
    assert aware.left.dtype == np.float16
    rest = np.linalg.norm((moved - aware.left.astype(np.float32) @ aware.right) * weights)
    assert rest == pytest.approx(aware.error, rel=1e-3)
    assert rest < np.linalg.norm((moved - found.left @ found.right) * weights)
    second[0] = True
    with pytest.raises(mc.InvalidValueError, match=r"the rectangles of k = 0 and k = \d+ meet at"):
        mc.project_supports(moved, first, second)


def test_command(rng, tmp_path):
    typer_testing = pytest.importorskip("typer.testing")
    from magicube.cli import app

    def invoke(*words, code=0):
        result = typer_testing.CliRunner().invoke(app, ["project", *map(str, words)])
        assert result.exit_code == code, result.output + repr(result.exception)
        return result.stdout

    path, out = tmp_path / "W.safetensors", tmp_path / "K.safetensors"
    tensors = {
        "up": rng.standard_normal((24, 30), np.float32),
        "half": rng.standard_normal((24, 30), np.float32).astype(np.float16),
        "other": rng.standard_normal((30, 24), np.float32),
    }
    io.save_safetensors(path, tensors)
    chain = "1,6,12,4;6,8,5,1"
    told = json.loads(invoke(path, "--chain", chain, "-o", out, "--json"))
    assert set(told["tensors"]) == {"up", "half"} and told["chain"][1] == [6, 8, 5, 1]
    stored = io.load_safetensors(out)
    for name, entry in told["tensors"].items():
        factors = mc.KroneckerChain(mc.Kronecker(stored[f"{name}.{i}"]) for i in range(2))
        w = tensors[name].astype(np.float64)
        rest = np.linalg.norm(w - factors.to_dense()) / np.linalg.norm(w)
        assert rest == pytest.approx(entry["stored_relative_error"], rel=1e-6)
        assert entry["error"] <= entry["bound"] * (1 + 1e-12)
        assert entry["chain_bytes"] == factors.nbytes
    inputs = tmp_path / "inputs.safetensors"
    x = rng.standard_normal((40, 30), np.float32) * np.linspace(0.01, 3, 30, dtype=np.float32)
    io.save_safetensors(inputs, {"up": x})
    words = (path, "--chain", chain, "--tensor", "up", "--activations", inputs, "--json")
    aware = json.loads(invoke(*words))["tensors"]["up"]
    assert aware["error"] == mc.project(tensors["up"], factors.patterns, activations=x).error
    plain = mc.project(tensors["up"], factors.patterns).chain.to_dense()
    exact = x @ tensors["up"].T
    rest = np.linalg.norm(x @ plain.T - exact) / np.linalg.norm(exact)
    assert 0 < aware["output_error"] < rest
    table = invoke(path, "--chain", chain, "--tensor", "up")
    assert "relative error" in table and "half" not in table
    for words, part in (
        (("--chain", "1,6,12;6,8,5,1"), "factor 0 is '1,6,12'"),
        (("--chain", "1,6,12,4;6,7,5,1"), "factors[1]"),
        (("--chain", chain, "--tensor", "other"), "(24, 30)"),
        (("--chain", chain, "--tensor", "none"), "none"),
        (("--chain", "1,2,2,1"), "holds no floating matrix"),
        (("--chain", chain, "-o", "K.npz"), ".safetensors"),
        (("--chain", chain, "--activations", inputs), "holds no inputs of 'half'"),
        (("--chain", chain, "--dtype", "int8"), "int8"),
    ):
        assert part in json.loads(invoke(path, *words, "--json", code=2))["error"]["message"]
