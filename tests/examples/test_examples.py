# SPDX-License-Identifier: Apache-2.0
"""Every example builds and runs, and checks its own result."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import magicube as mc
from magicube import io

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PREFIX = Path(os.environ.get("MAGICUBE_PREFIX", ROOT / "build" / "dev" / "install"))


def run(*command, **options):
    """Runs a command that is expected to succeed without a word on stderr."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", done.stderr
    return done.stdout


def library_folder():
    found = sorted(PREFIX.glob("lib*/libmagicube.so"))
    assert found, f"no installed library below {PREFIX}; set MAGICUBE_PREFIX"
    return found[0].parent


@pytest.fixture(scope="module")
def c_programs(tmp_path_factory):
    """The C examples, built as a project that finds the installed package."""
    build = tmp_path_factory.mktemp("c")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    warnings = "-Wall -Wextra -Wstrict-prototypes -Werror"
    for command in (
        ["cmake", "-S", EXAMPLES / "c", "-B", build, f"-DCMAKE_PREFIX_PATH={PREFIX}",
         f"-DCMAKE_C_FLAGS={warnings}", *generator],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    return build


def test_c_spmm(c_programs):
    shown = run(c_programs / "spmm_quickstart")
    assert "0 of 262144 elements differ from the plain loop" in shown and "Gop/s" in shown


def test_c_attention(c_programs):
    assert "largest error" in run(c_programs / "sparse_attention")


def test_c_attention_on_cuda(c_programs):
    shown = run(c_programs / "cuda_attention")
    assert "largest error" in shown
    on_gpu = mc.device_count("cuda") > 0
    assert "on the GPU" in shown if on_gpu else "there is no CUDA device" in shown


def test_c_vnm(c_programs):
    assert "0 of 65536 elements differ from the plain loop" in run(c_programs / "vnm_spmm")


def test_c_example_compiles_with_one_cc_command(tmp_path):
    folder = library_folder()
    program = tmp_path / "program"
    run("cc", "-std=c11", EXAMPLES / "c" / "spmm_quickstart.c", "-o", program, "-I",
        PREFIX / "include", "-L", folder, f"-Wl,-rpath,{folder}", "-lmagicube", "-lm")
    run(program)


@pytest.mark.parametrize("name", ["spmm.py", "attention.py", "vnm.py", "kronecker.py"])
def test_python_example(name):
    assert "error" in run(sys.executable, EXAMPLES / "python" / name)


def test_python_example_on_cuda():
    shown = run(sys.executable, EXAMPLES / "python" / "cuda_attention.py")
    try:
        import torch
    except ImportError:
        assert "needs PyTorch" in shown
        return
    assert shown.count("error") == 4
    on_gpu = torch.cuda.is_available() and mc.device_count("cuda") > 0
    assert on_gpu or "there is no CUDA device" in shown


def encoder(*words):
    return run(sys.executable, EXAMPLES / "python" / "encoder.py", *words)


def test_encoder(tmp_path):
    plot = tmp_path / "encoder.png"
    told = json.loads(encoder("--sparsity", "0,0.9", "--plot", plot, "--json"))
    assert told["sentences"] == 100 and told["tokens"] > 1000
    unpruned, pruned = told["sparse"]
    assert unpruned["cosine_mean"] > 0.99 and unpruned["cosine_min"] > 0.98
    assert told["dense"]["paraphrases_found"] == unpruned["paraphrases_found"] == 20
    assert pruned["cosine_mean"] < unpruned["cosine_mean"]
    assert pruned["cosine_to_pruned_fp32"] > 0.98  # what differs is the pruning, not the product
    assert pruned["weight_bytes"] < unpruned["weight_bytes"] / 5
    assert unpruned["weight_bytes"] < told["dense"]["weight_bytes"] / 2
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_encoder_prints_a_table_and_what_is_slower():
    shown = encoder("--sparsity", "0.95")
    assert "95% pruned" in shown and "dense fp32" in shown and "without retraining" in shown


def test_prune_encoder():
    program = EXAMPLES / "python" / "prune_encoder.py"
    told = json.loads(
        run(sys.executable, program, "--patterns", "64:2:8", "--calibration-sentences", 200,
            "--json")
    )
    magnitude, second, corrected = told["results"]
    assert magnitude["loss_to_magnitude"] == 1 and magnitude["cosine_mean"] < 0.5
    assert corrected["loss_to_magnitude"] < second["loss_to_magnitude"] < 0.6
    shown = subprocess.run(
        [sys.executable, program, "--patterns", "64:2"], capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 1 and "'64:2' is no pattern" in shown.stderr


def test_chains():
    program = EXAMPLES / "python" / "chains.py"
    told = json.loads(
        run(sys.executable, program, "--ranks", "4,24", "--tokens", 256, "--rounds", 1, "--json")
    )
    part, whole = told["encoder"]["results"]
    assert part["weight_error"] < 1 and part["aware_output_error"] < part["output_error"]
    assert part["bytes"] * 3 == told["encoder"]["dense_bytes"]
    # Rank 24 is that of any 24 x 24 block.
    assert whole["weight_error"] < 1e-5 and whole["cosine_mean"] > 0.99999
    assert [block["block"] for block in told["blocks"]] == ["ViT-S", "GPT-2"]
    assert all(block["error"] < 1e-4 for block in told["blocks"])
    assert all(block["times_ms"]["cpu"]["chain"] > 0 for block in told["blocks"])


@pytest.fixture
def matrices(tmp_path):
    """The same matrix as .mtx and .smtx."""
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((200, 150), density=0.05, rng=rng).tocsr()
    io.write_matrix_market(tmp_path / "a.mtx", matrix)
    lines = [
        f"200, 150, {matrix.nnz}", " ".join(map(str, matrix.indptr)),
        " ".join(map(str, matrix.indices)),
    ]
    (tmp_path / "a.smtx").write_text("\n".join(lines) + "\n")
    return tmp_path, matrix.nnz


@pytest.mark.parametrize("name", ["a.mtx", "a.smtx"])
def test_own_matrix(matrices, name):
    folder, nnz = matrices
    told = json.loads(encoder("--matrix", folder / name, "--json"))
    assert told["shape"] == [200, 150] and told["nnz"] == nnz
    assert [entry["vector_length"] for entry in told["results"]] == [1, 2, 4, 8, 16]
    assert all(entry["max_abs_error"] < 1e-4 for entry in told["results"])
    assert "speedup over SciPy" in encoder("--matrix", folder / name)


def test_malformed_matrix_is_refused(tmp_path):
    (tmp_path / "bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 9999\n")
    done = subprocess.run(
        [sys.executable, EXAMPLES / "python" / "encoder.py", "--matrix", tmp_path / "bad.mtx"],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 2 and "bad.mtx" in done.stderr and "Traceback" not in done.stderr


def test_quickstart_with_a_matrix(matrices):
    if Path(sys.prefix).resolve() != (ROOT / "build" / "venv").resolve():
        pytest.skip("the quick start runs in build/venv, and these tests in another environment")
    done = subprocess.run(
        [EXAMPLES / "quickstart.sh", "--matrix", matrices[0] / "a.mtx", "--json"],
        capture_output=True, text=True, timeout=290,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nnz"] == matrices[1]
    assert "0 of 262144 elements differ" in done.stderr


def lines_of(name):
    return (EXAMPLES / "data" / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name, count", [("sentences.txt", 100), ("calibration.txt", 387)])
def test_sentences_are_varied(name, count):
    lines = lines_of(name)
    assert len(lines) == len(set(lines)) == count
    assert all(20 <= len(line) <= 120 and line.endswith(".") for line in lines)


def test_no_sentence_is_both_pruned_with_and_judged_by():
    assert not set(lines_of("sentences.txt")) & set(lines_of("calibration.txt"))
