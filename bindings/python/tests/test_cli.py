# SPDX-License-Identifier: Apache-2.0
"""The command line: every command, its JSON, its errors and exit codes."""

import json
import subprocess
import sys

import numpy as np
import pytest

import magicube as mc
from magicube import _oracle as oracle
from magicube import io

typer_testing = pytest.importorskip("typer.testing")
scipy_sparse = pytest.importorskip("scipy.sparse")

from magicube.cli import _cases, _operations, _verify  # noqa: E402
from magicube.cli import app  # noqa: E402

ISSUE_BENCH = (
    "bench spmm --device cpu --m 2048 --k 2048 --n 512 --vector-length 8 --sparsity 0.9 "
    "--lhs int8 --rhs int8 --peers --json"
)


def invoke(*words):
    """Runs a command in this process."""
    return typer_testing.CliRunner().invoke(app, [str(word) for word in words])


def invoke_json(*words, code=0):
    """The JSON that a command prints; nothing else may be on stdout."""
    result = invoke(*words, "--json")
    assert result.exit_code == code, result.output + repr(result.exception)
    return json.loads(result.stdout)


def run(*words, **options):
    """Runs a command as a process of its own."""
    command = [sys.executable, "-m", "magicube.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def sparse_file(tmp_path):
    """A Matrix Market file and its SciPy array."""
    rng = np.random.default_rng(3)
    matrix = scipy_sparse.random_array((37, 50), density=0.1, rng=rng).astype(np.float32).tocsr()
    path = tmp_path / "in.mtx"
    io.write_matrix_market(path, matrix)
    return path, matrix


# ---- info ----------------------------------------------------------------------------------------


def test_info():
    told = invoke_json("info")
    assert told["version"] == mc.__version__ and told["build"] == mc.build_info()
    assert told["devices"][0]["device"] == "cpu"
    assert told["implementations"]["spmm"]["cpu"] == mc.spmm_implementations("cpu")
    assert told["packages"]["numpy"] == np.__version__
    shown = invoke("info")
    assert shown.exit_code == 0 and mc.__version__ in shown.output


def test_info_as_a_process_prints_pure_json():
    done = run("info", "--json")
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout)["version"] == mc.__version__


def test_version_and_help():
    assert invoke("--version").output.strip() == mc.__version__
    for command in ("info", "bench", "convert", "prune", "project", "verify"):
        assert command in invoke("--help").output


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_there_is_a_hint(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from magicube.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert "pip install 'magicube[cli]'" in done.stderr and "Traceback" not in done.stderr


# ---- bench ---------------------------------------------------------------------------------------


def test_issue_bench_command_line():
    done = run(*ISSUE_BENCH.split(), "--rounds", "1")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # The issue's bound for this product on two cores: half a second.
    assert 0 < told["time_us"] < 500_000
    assert told["implementation"] in mc.spmm_implementations("cpu")
    work = 2 * told["nnz"] * 512
    assert told["gops"] == pytest.approx(work / told["time_us"] / 1e3, rel=1e-3)
    assert told["max_abs_error"] == 0 and told["correct"]
    assert {"numpy_dense_fp32", "scipy_csr_fp32"} <= set(told["peers"])
    for name, peer in told["peers"].items():
        assert peer["time_us"] > 0 and peer["agrees"], name
        assert peer["speedup"] == pytest.approx(peer["time_us"] / told["time_us"])


SMALL = ("--m", 48, "--k", 40, "--n", 24, "--rounds", 1, "--threads", 1)


@pytest.mark.parametrize("lhs, rhs", _cases.SPMM_PAIRS)
def test_bench_spmm_of_every_pair(lhs, rhs):
    out = "int32" if oracle.is_integer(lhs) else "fp32"
    told = invoke_json("bench", "spmm", *SMALL, "--lhs", lhs, "--rhs", rhs, "--out", out)
    assert told["correct"] and told["peers"] == {} and told["m"] == 48


@pytest.mark.parametrize("out", ["fp32", "fp16", "bf16", "int8"])
def test_bench_outputs_use_their_range(out):
    told = invoke_json("bench", "spmm", *SMALL, "--out", out)
    assert told["correct"] and 0 < told["alpha"] < 1


@pytest.mark.parametrize("out", ["int32", "fp16", "int8"])
def test_bench_sddmm(out):
    told = invoke_json("bench", "sddmm", *SMALL, "--out", out, "--peers")
    assert told["correct"] and told["peers"]["numpy_dense_fp32"]["agrees"]


@pytest.mark.parametrize("scores", ["fp32", "fp16", "int32"])
@pytest.mark.parametrize("out", ["fp32", "uint8", "int4"])
def test_bench_softmax(scores, out):
    told = invoke_json(
        "bench", "softmax", "--m", 40, "--n", 50, "--rounds", 1, "--in", scores, "--out", out,
        "--peers",
    )
    assert told["correct"] and told["peers"]["numpy_csr_fp32"]["agrees"]


@pytest.mark.parametrize("inputs, out", [("fp32", "fp32"), ("fp16", "fp16"), ("bf16", "fp32")])
def test_bench_attention(inputs, out):
    told = invoke_json(
        "bench", "attention", "--m", 40, "--n", 50, "--k", 12, "--heads", 3, "--rounds", 1,
        "--in", inputs, "--out", out, "--peers",
    )
    assert told["correct"] and told["heads"] == 3
    assert told["peers"]["numpy_dense_fp32"]["agrees"]


def test_bench_tells_memory_and_processor_time():
    told = invoke_json("bench", "spmm", *SMALL, "--peers")
    assert told["plan_bytes"] > 0 and told["workspace_bytes"] > 0
    assert 0 < told["cpu_us"] < 1e6
    assert told["peers"]["numpy_dense_fp32"]["cpu_us"] > 0


def test_bench_sweep_and_plots(tmp_path):
    plot = tmp_path / "out.png"
    told = invoke_json(
        "bench", "spmm", *SMALL, "--sparsity", "0.5,0.9", "--peers", "--plot", plot
    )
    assert [entry["sparsity"] for entry in told] == [0.5, 0.9]
    assert told[0]["nnz"] > told[1]["nnz"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    invoke_json("bench", "spmm", *SMALL, "--plot", tmp_path / "single.png")
    assert (tmp_path / "single.png").read_bytes().startswith(b"\x89PNG")


def test_bench_data_follow_the_seed_and_are_fresh_without():
    first, second = (invoke_json("bench", "spmm", *SMALL, "--seed", 5)["seed"] for _ in range(2))
    assert first == second == 5
    fresh = {invoke_json("bench", "spmm", *SMALL)["seed"] for _ in range(3)}
    assert len(fresh) > 1


def test_bench_table():
    shown = invoke("bench", "spmm", *SMALL, "--peers")
    assert shown.exit_code == 0 and "numpy_dense_fp32" in shown.output


def test_bench_reports_wrong_results(monkeypatch):
    real = oracle.exact_product
    monkeypatch.setattr(oracle, "exact_product", lambda a, b: real(a, b) + 1)
    told = invoke_json("bench", "spmm", *SMALL, code=1)
    assert not told["correct"] and told["max_abs_error"] == 1


def test_bench_reports_results_that_are_no_numbers(monkeypatch):
    real = mc.SpMMPlan.__call__

    def spoilt(self, b, out=None, **named):
        real(self, b, out=out, **named)[0, 0] = np.nan

    monkeypatch.setattr(mc.SpMMPlan, "__call__", spoilt)
    words = ("bench", "spmm", *SMALL, "--lhs", "fp32", "--rhs", "fp32", "--out", "fp32")
    told = invoke_json(*words, code=1)
    assert not told["correct"] and told["max_abs_error"] is None
    shown = invoke(*words)
    assert shown.exit_code == 1 and "WRONG RESULT" in shown.output


@pytest.mark.parametrize(
    "words, part",
    [
        (("--device", "cuda"), ""),
        (("--device", "tpu"), "'tpu'"),
        (("--lhs", "int7"), "int7"),
        (("--lhs", "int4", "--rhs", "int16"), ""),
        (("--out", "uint8"), ""),
        (("--sparsity", "1.5"), "1.5"),
        (("--sparsity", "half"), "half"),
        (("--vector-length", 3), "3"),
        (("--stride", 5), "5"),
        (("--implementation", "nothing"), "nothing"),
        (("--plot", "out.jpg"), "out.jpg"),
    ],
)
def test_bench_refuses(words, part, monkeypatch):
    monkeypatch.setenv("MAGICUBE_BENCH", "/no/such/program")
    told = invoke_json("bench", "spmm", *SMALL, *words, code=2)
    assert set(told) == {"error"} and told["error"]["type"]
    assert part in told["error"]["message"] and len(told["error"]["message"]) > 10
    shown = invoke("bench", "spmm", *SMALL, *words)
    assert shown.exit_code == 2 and part in shown.output


# ---- verify --------------------------------------------------------------------------------------


def test_issue_verify_command_line():
    done = run("verify", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stdout
    told = json.loads(done.stdout)
    assert told["cases"] >= 400 and told["failures"] == []
    assert set(told["operations"]) == set(_operations.OPERATIONS)


def test_verify_catches_a_wrong_result_and_reproduces_it(monkeypatch):
    real = mc.SpMMPlan.__call__

    def wrong(self, b, out=None, *args, **named):
        result = real(self, b, out, *args, **named)
        if np.asarray(result).size:
            bits = np.asarray(result)
            index = (0,) * bits.ndim
            bits[index] = 0 if bits[index] != 0 else 100
        return result

    monkeypatch.setattr(mc.SpMMPlan, "__call__", wrong)
    told = invoke_json("verify", "--operation", "spmm", "--cases", 30, code=1)
    assert told["failures"]
    failure = told["failures"][0]
    assert failure["implementation"] in mc.spmm_implementations("cpu")
    again = invoke_json(*failure["reproduce"].split()[1:], code=1)
    assert again["failures"][0]["error"] == failure["error"]
    monkeypatch.undo()
    assert invoke_json(*failure["reproduce"].split()[1:])["failures"] == []
    shown = invoke("verify", "--operation", "spmm", "--cases", 3)
    assert shown.exit_code == 0 and "0 failures" in shown.output


def test_verify_reports_exceptions(monkeypatch):
    monkeypatch.setattr(mc, "prune", lambda *a, **k: 1 / 0)
    told = invoke_json("verify", "--operation", "prune", "--cases", 2, code=1)
    assert "ZeroDivisionError" in told["failures"][0]["error"]


def test_verify_refuses():
    assert "device" in invoke_json("verify", "--device", "tpu", code=2)["error"]["message"]
    assert "nothing" in invoke_json("verify", "--operation", "nothing", code=2)["error"]["message"]
    assert "--case" in invoke_json("verify", "--case", 3, code=2)["error"]["message"]


def test_every_case_follows_from_its_seed():
    for name in _operations.OPERATIONS:
        make = _operations.OPERATIONS[name][0]
        first, second = (make(np.random.default_rng([1, 2, 3])).parameters for _ in range(2))
        assert first == second
        assert _verify.run_case(name, 0, 1, "cpu") == _verify.run_case(name, 0, 1, "cpu")


# ---- convert -------------------------------------------------------------------------------------


def test_issue_convert_command_line(sparse_file, tmp_path):
    source, matrix = sparse_file
    target = tmp_path / "out.safetensors"
    done = run("convert", source, target, "--vector-length", "8", "--json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    told = json.loads(done.stdout)
    loaded = mc.SrBcrs.load(target)
    assert told["shape"] == [37, 50] and told["nnz"] == matrix.nnz and told["vector_length"] == 8
    assert told["vectors"] == loaded.num_vectors and told["bytes"] == loaded.nbytes
    assert told["density"] == pytest.approx(matrix.nnz / (37 * 50))
    assert told["output_bytes"] == target.stat().st_size
    assert np.array_equal(loaded.to_dense(), matrix.toarray())


@pytest.mark.parametrize("vector_length, stride", [(1, 1), (2, 8), (4, 0), (16, 32), (64, 16)])
def test_convert_there_and_back(sparse_file, tmp_path, vector_length, stride):
    source, matrix = sparse_file
    for suffix in ("safetensors", "npz"):
        middle, back = tmp_path / f"a.{suffix}", tmp_path / "back.mtx"
        told = invoke_json(
            "convert", source, middle, "--vector-length", vector_length, "--stride", stride
        )
        assert told["vector_length"] == vector_length
        assert told["stride"] == stride or stride == 0
        invoke_json("convert", middle, back)
        assert np.array_equal(io.read_matrix_market(back).toarray(), matrix.toarray())
        assert io.read_matrix_market(back).nnz == matrix.nnz


def test_convert_reads_every_kind(tmp_path):
    rng = np.random.default_rng(4)
    dense = rng.standard_normal((10, 12), np.float32) * (rng.random((10, 12)) < 0.3)
    np.save(tmp_path / "a.npy", dense)
    np.save(tmp_path / "f.npy", np.asfortranarray(dense))
    io.save_safetensors(tmp_path / "a.safetensors", {"w": dense, "v": dense[0]})
    sources = [("a.npy",), ("f.npy",), ("a.safetensors", "--tensor", "w")]
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        matrix = scipy_sparse.coo_array(dense).asformat(kind)
        scipy_sparse.save_npz(tmp_path / f"{kind}.npz", matrix)
        sources.append((f"{kind}.npz",))
    for name, *rest in sources:
        target = tmp_path / "out.npz"
        invoke_json("convert", tmp_path / name, target, *rest)
        assert np.array_equal(mc.SrBcrs.load(target).to_dense(), dense), name
        invoke_json("convert", target, tmp_path / "back.npy")
        assert np.array_equal(np.load(tmp_path / "back.npy"), dense)
    (tmp_path / "a.smtx").write_text("2, 3, 3\n0 2 3\n0 2 1\n")
    assert invoke_json("convert", tmp_path / "a.smtx", tmp_path / "out.npz")["nnz"] == 3


@pytest.mark.parametrize("dtype", list(oracle.STORAGE))
def test_convert_to_every_type(tmp_path, dtype):
    if dtype == "int32":
        pytest.skip("no value array is int32 but softmax scores")
    low = 0 if dtype == "uint8" else -7
    values = np.random.default_rng(5).integers(low, 8, (9, 11)).astype(np.float64)
    io.write_matrix_market(tmp_path / "a.mtx", scipy_sparse.coo_array(values))
    np.save(tmp_path / "a.npy", values)
    for source in ("a.mtx", "a.npy"):
        target = tmp_path / "out.safetensors"
        told = invoke_json("convert", tmp_path / source, target, "--dtype", dtype)
        assert told["dtype"] == dtype
        shown = mc.SrBcrs.load(target).to_dense()
        shown = shown.unpack() if dtype == "int4" else shown
        assert np.array_equal(shown.astype(np.float64), values)


def test_convert_keeps_the_type_of_the_source(tmp_path):
    for dtype, name in ((np.float16, "fp16"), (np.int16, "int16"), (np.float64, "fp32")):
        np.save(tmp_path / "a.npy", np.eye(4, dtype=dtype))
        assert invoke_json("convert", tmp_path / "a.npy", tmp_path / "o.npz")["dtype"] == name
    for value, name in ((100, "int8"), (1000, "int16"), (100000, "int32")):
        np.save(tmp_path / "a.npy", np.eye(4, dtype=np.int64) * value)
        assert invoke_json("convert", tmp_path / "a.npy", tmp_path / "o.npz")["dtype"] == name


def refusals(tmp_path):
    np.save(tmp_path / "half.npy", np.full((4, 4), 0.5, np.float32))
    np.save(tmp_path / "large.npy", np.full((4, 4), 1e30, np.float32))
    np.save(tmp_path / "line.npy", np.ones(4, np.float32))
    np.save(tmp_path / "good.npy", np.ones((4, 4), np.float32))
    whole = (tmp_path / "good.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-5])
    (tmp_path / "lies.npy").write_bytes(whole.replace(b"(4, 4)", b"(9, 9)"))
    (tmp_path / "noise.npz").write_bytes(bytes(range(256)) * 4)
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    scipy_sparse.save_npz(tmp_path / "cut.npz", scipy_sparse.eye_array(40, format="csr"))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-30])
    bad = scipy_sparse.eye_array(4, format="csr")
    bad.indices[2] = 77
    scipy_sparse.save_npz(tmp_path / "range.npz", bad)
    tensors = {"w": np.ones((2, 2), np.float32), "v": np.ones(3)}
    io.save_safetensors(tmp_path / "dense.safetensors", tensors)
    return [
        (("half.npy", "o.npz", "--dtype", "int8"), "0.5"),
        (("large.npy", "o.npz", "--dtype", "fp16"), "1e+30"),
        (("large.npy", "o.npz", "--dtype", "int5"), "int5"),
        (("line.npy", "o.npz"), "(4,)"),
        (("cut.npy", "o.npz"), "truncated"),
        (("lies.npy", "o.npz"), "lies.npy"),
        (("noise.npz", "o.npz"), "no NumPy archive"),
        (("other.npz", "o.npz"), "scipy.sparse.save_npz"),
        (("cut.npz", "o.npz"), "truncated"),
        (("range.npz", "o.npz"), "range.npz"),
        (("dense.safetensors", "o.npz"), "--tensor"),
        (("dense.safetensors", "o.npz", "--tensor", "x"), "'x'"),
        (("dense.safetensors", "o.npz", "--tensor", "v"), "(3,)"),
        (("nothing.mtx", "o.npz"), "nothing.mtx"),
        (("good.npy", "o.txt"), "o.txt"),
        (("good.npy", "no/folder/o.npz"), "cannot be written"),
        (("good.txt", "o.npz"), "good.txt"),
        (("good.npy", "o.npz", "--vector-length", "3"), "vector_length"),
        (("good.npy", "o.npz", "--stride", "7"), "stride"),
    ]


def test_convert_refuses(tmp_path):
    for (source, target, *rest), part in refusals(tmp_path):
        told = invoke_json("convert", tmp_path / source, tmp_path / target, *rest, code=2)
        assert part in told["error"]["message"], (source, told)
        assert not (tmp_path / target).exists()


# ---- prune ---------------------------------------------------------------------------------------


@pytest.fixture
def weights(tmp_path):
    """A file of three tensors."""
    rng = np.random.default_rng(6)
    tensors = {
        "first.weight": rng.standard_normal((40, 64), np.float32),
        "second.weight": rng.standard_normal((24, 40), np.float32).astype(np.float16),
        "first.bias": rng.standard_normal(40, np.float32),
    }
    path = tmp_path / "W.safetensors"
    io.save_safetensors(path, tensors)
    return path, tensors


def test_prune_all_as_a_process(weights, tmp_path):
    path, tensors = weights
    out = tmp_path / "out.safetensors"
    done = run(
        "prune", path, "--all", "--format", "sr-bcrs", "--vector-length", "8", "--sparsity", "0.75",
        "--scope", "row", "--norm", "l2", "--dtype", "int8", "-o", out, "--json",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["tensors"]) == {"first.weight", "second.weight"}
    assert set(io.list_sr_bcrs(out)) == {"first.weight", "second.weight"}
    stored = io.load_safetensors(out)
    assert np.array_equal(stored["first.bias"], tensors["first.bias"])
    for name, entry in told["tensors"].items():
        weight = tensors[name].astype(np.float64)
        mask = oracle.prune(weight, 8, oracle.dropped(0.75, weight.shape[1]), True, "l2") != 0
        matrix = io.load_sr_bcrs(out, name)
        assert np.array_equal(matrix.to_mask() != 0, mask) and matrix.dtype == "int8"
        kept = (weight[mask] ** 2).sum() / (weight**2).sum()
        assert entry["kept_energy"] == pytest.approx(kept) and entry["density"] == mask.mean()
        restored = matrix.to_dense() * stored[f"{name}.scale"][:, None]
        assert np.abs(restored - weight * mask).max() <= stored[f"{name}.scale"].max() / 2 * 1.001
    assert told["sparse_bytes"] == sum(entry["sparse_bytes"] for entry in told["tensors"].values())


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "int16", "int12", "int8", "int4"])
def test_prune_one_tensor_to_every_type(weights, tmp_path, dtype):
    path, tensors = weights
    out = tmp_path / "out.npz"
    told = invoke_json(
        "prune", path, "--tensor", "first.weight", "--sparsity", 0.5, "--dtype", dtype, "-o", out,
        "--norm", "l1",
    )
    assert told["tensors"]["first.weight"]["dtype"] == dtype
    matrix = io.load_sr_bcrs(out)
    weight = tensors["first.weight"]
    mask = oracle.prune(weight, 8, oracle.dropped(0.5, 5 * 64), False, "l1")
    assert np.array_equal(matrix.to_mask(), mask)


def test_prune_table(weights, tmp_path):
    shown = invoke("prune", weights[0], "--all", "-o", tmp_path / "out.safetensors")
    assert shown.exit_code == 0 and "kept energy" in shown.output


@pytest.mark.parametrize(
    "words, part",
    [
        (("-o", "o.npz"), "--tensor"),
        (("-o", "o.npz", "--all", "--tensor", "first.weight"), "--tensor"),
        (("-o", "o.npz", "--tensor", "nothing"), "nothing"),
        (("-o", "o.npz", "--tensor", "first.bias"), "(40,)"),
        (("-o", "o.txt", "--all"), "o.txt"),
        (("-o", "o.npz", "--all", "--scope", "column"), "column"),
        (("-o", "o.npz", "--all", "--norm", "l3"), "l3"),
        (("-o", "o.npz", "--all", "--format", "csr"), "csr"),
        (("-o", "o.npz", "--all", "--dtype", "uint8"), "uint8"),
        (("-o", "o.npz", "--all", "--vector-length", "5"), "5"),
    ],
)
def test_prune_refuses(weights, monkeypatch, tmp_path, words, part):
    monkeypatch.chdir(tmp_path)
    told = invoke_json("prune", weights[0], *words, code=2)
    assert part in told["error"]["message"]
    assert not (tmp_path / "o.npz").exists()
