# SPDX-License-Identifier: Apache-2.0
"""The package as such: import, version, devices, exit, fork, noise."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import magicube as mc
import numpy as np
import pytest
from magicube import _native

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_version_is_that_of_the_repository() -> None:
    text = (REPOSITORY / "VERSION").read_text().split()[0]
    assert mc.__version__ == text
    assert re.fullmatch(r"\d+\.\d+\.\d+", text)
    assert "cuda" in mc.build_info()
    assert "\n" not in mc.build_info()


def test_issue_01_import_without_gpu() -> None:
    done = run(
        "import sys, magicube as mc, numpy as np\n"
        "heavy = {'torch', 'scipy', 'cupy', 'typer', 'rich', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'libcuda.so' not in maps and 'libcudart' not in maps\n"
        "A = mc.SrBcrs.from_dense(np.eye(8, dtype=np.int8))\n"
        "B = np.arange(-32, 32, dtype=np.int8).reshape(8, 8)\n"
        "assert ((A @ B) == B).all()\n"
        "print('right')",
        CUDA_VISIBLE_DEVICES="",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "right\n", "")


@pytest.mark.skipif(mc.device_count("cuda") > 0, reason="there is a GPU")
def test_issue_01_cuda_handle_says_no_device() -> None:
    with pytest.raises(mc.NoDeviceError) as caught:
        mc.Handle("cuda")
    assert caught.value.status == 4
    assert caught.value.name == "MAGICUBE_STATUS_NO_DEVICE"
    assert re.search(r"[Cc][Uu][Dd][Aa]|GPU", str(caught.value))
    with pytest.raises(mc.NoDeviceError):
        mc.device_info("cuda", 0)


def test_devices() -> None:
    assert mc.device_count() == 1
    info = mc.device_info("cpu", 0)
    assert info.device == "cpu" and info.ordinal == 0 and info.supported
    assert info.name and info.compute_capability == 0
    assert info.multiprocessors >= 1 and info.memory_bytes > 1 << 20
    with pytest.raises(mc.NoDeviceError):
        mc.device_info("cpu", 1)
    with pytest.raises(mc.InvalidValueError, match="device is 'gpu'"):
        mc.device_count("gpu")
    with pytest.raises(mc.InvalidValueError, match="32-bit"):
        mc.device_info("cpu", 2**40)


def test_issue_08_exit_code_with_live_handles() -> None:
    done = run(
        "import magicube as mc, numpy as np, threading\n"
        "handles = [mc.Handle('cpu') for _ in range(3)]\n"
        "A = mc.SrBcrs.from_dense(np.eye(64, dtype=np.int8))\n"
        "plan = mc.SpMMPlan(A, rhs_dtype='int8', n=8, handle=handles[0])\n"
        "B = np.ones((64, 8), np.int8)\n"
        "ring = [plan, handles]; ring.append(ring)\n"
        "out = []\n"
        "thread = threading.Thread(target=lambda: out.append(plan(B)))\n"
        "thread.start(); thread.join()\n"
        "mc.set_log_callback(lambda level, text: None); mc.set_log_level('debug')\n"
        "plan(B)\n"
        "import sys; sys.keep = (plan, handles)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_issue_16_stderr_is_empty_by_default() -> None:
    done = run(
        "import magicube as mc, numpy as np\n"
        "A = mc.SrBcrs.from_dense(np.eye(16, dtype=np.int8))\n"
        "for wrong in (lambda: A @ np.ones((16, 4), np.int32),\n"
        "              lambda: A @ np.ones((5, 4), np.int8),\n"
        "              lambda: mc.Handle('cuda', 99)):\n"
        "    try: wrong()\n"
        "    except mc.MagicubeError: pass\n"
        "    else: raise SystemExit('no error')\n"
        "mc.spmm_implementations()"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_issue_16_not_supported_gives_the_reason() -> None:
    A = mc.SrBcrs.from_dense(np.eye(16, dtype=np.int8))
    with pytest.raises(NotImplementedError) as caught:
        A @ np.ones((16, 4), np.int16)
    assert isinstance(caught.value, mc.NotSupportedError) and caught.value.status == 2
    assert "int8" in str(caught.value) and "int16" in str(caught.value)
    supported, reason = mc.SpMMPlan.is_supported(A, rhs_dtype="int16", n=4)
    assert not supported and "int16" in reason
    assert mc.SpMMPlan.is_supported(A, rhs_dtype="int8", n=4) == (True, "")
    assert mc.SDDMMPlan.is_supported(A, dtype="int8", k=4) == (True, "")
    assert mc.SparseSoftmaxPlan.is_supported(A, in_dtype="fp32") == (True, "")
    supported, reason = mc.SparseSoftmaxPlan.is_supported(A, in_dtype="int8")
    assert not supported and "int8" in reason


def test_fork_after_use() -> None:
    done = run(
        "import os, magicube as mc, numpy as np\n"
        "rng = np.random.default_rng(0)\n"
        "W = rng.integers(-128, 128, (512, 512)).astype(np.int8)\n"
        "B = rng.integers(-128, 128, (512, 256)).astype(np.int8)\n"
        "A = mc.SrBcrs.from_dense(W)\n"
        "right = W.astype(np.int64) @ B\n"
        "plan = mc.SpMMPlan(A, rhs_dtype='int8', n=256)\n"
        "assert (plan(B) == right).all()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    ok = (plan(B) == right).all() and ((A @ B) == right).all()\n"
        "    with mc.Handle('cpu') as handle:\n"
        "        ok = ok and (plan(B, handle=handle) == right).all()\n"
        "    os._exit(0 if ok else 3)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "assert (plan(B) == right).all()",
        PYTHONWARNINGS="ignore::DeprecationWarning",  # Python 3.12 warns of any fork with threads
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_issue_03_eight_threads_on_one_plan(rng: np.random.Generator) -> None:
    W = rng.integers(-128, 128, (96, 80)).astype(np.int8)
    inputs = [rng.integers(-128, 128, (80, 33)).astype(np.int8) for _ in range(8)]
    plan = mc.SpMMPlan(mc.SrBcrs.from_dense(W, vector_length=4), rhs_dtype="int8", n=33)
    wrong: list[object] = []
    start = threading.Barrier(8)

    def work(B: np.ndarray) -> None:
        try:
            with mc.Handle("cpu", num_threads=2) as handle:
                start.wait()
                for _ in range(25):
                    if not (plan(B, handle=handle) == W.astype(np.int64) @ B).all():
                        wrong.append("result")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(B,)) for B in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_may_share_a_handle(rng: np.random.Generator) -> None:
    W = rng.integers(-128, 128, (64, 64)).astype(np.int8)
    plan = mc.SpMMPlan(mc.SrBcrs.from_dense(W), rhs_dtype="int8", n=16)
    B = rng.integers(-128, 128, (64, 16)).astype(np.int8)
    results: list[bool] = []
    with mc.Handle("cpu") as handle:

        def work() -> None:
            for _ in range(20):
                results.append(bool((plan(B, handle=handle) == W.astype(np.int64) @ B).all()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 80 and all(results)


def test_the_gil_is_released(rng: np.random.Generator) -> None:
    """Another thread's Python runs while a long product does."""
    W = rng.integers(-128, 128, (1024, 1024)).astype(np.int8)
    B = rng.integers(-128, 128, (1024, 512)).astype(np.int8)
    plan = mc.SpMMPlan(mc.SrBcrs.from_dense(W), rhs_dtype="int8", n=512)
    begun, done = threading.Event(), threading.Event()
    steps = 0
    out = np.empty((1024, 512), np.int32)

    def count() -> None:
        nonlocal steps
        begun.set()
        while not done.is_set():
            steps += 1
            time.sleep(0)  # lets the other thread in, whatever the interval

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    try:
        sys.setswitchinterval(1000)  # so that only a released lock lets the other thread in
        thread.start()
        begun.wait()
        before = steps
        with mc.Handle("cpu", num_threads=1) as handle:
            plan(B, out, handle=handle)
        during = steps - before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert during > 0


def test_handle_settings() -> None:
    with mc.Handle("cpu", num_threads=2, validation="basic", deterministic=True) as handle:
        assert (handle.device, handle.ordinal) == ("cpu", 0)
        assert handle.num_threads == 2 and handle.validation == "basic" and handle.deterministic
        handle.num_threads, handle.validation, handle.deterministic = 0, "full", False
        assert handle.num_threads == 0 and handle.validation == "full" and not handle.deterministic
        handle.synchronize()
        with pytest.raises(mc.InvalidValueError):
            handle.num_threads = -1
        with pytest.raises(mc.InvalidValueError, match="validation is 'some'"):
            handle.validation = "some"
        assert repr(handle) == "Handle('cpu', 0)"
    assert handle.closed
    handle.close()
    with pytest.raises(mc.InvalidValueError, match="stream is 5"):
        mc.Handle("cpu", stream=5)
    with pytest.raises(mc.InvalidValueError, match="closed"):
        handle.synchronize()
    with pytest.raises(mc.InvalidValueError, match="closed"):
        mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8), handle=handle)
    A = mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8))
    with pytest.raises(TypeError, match="handle is 3"):
        mc.validate(A, handle=3)  # type: ignore[arg-type]


def test_stub_lists_what_the_native_module_has() -> None:
    """_native.pyi and the compiled module name the same functions, classes and members."""
    text = pathlib.Path(_native.__file__).with_name("_native.pyi").read_text()
    stub: dict[str, set[str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            members |= {ast.unparse(n.target) for n in node.body if isinstance(n, ast.AnnAssign)}
            inherited = (stub[base.id] for base in node.bases if isinstance(base, ast.Name))
            stub[node.name] = members.union(*inherited)
        elif isinstance(node, ast.FunctionDef):
            stub[node.name] = set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            stub[node.target.id] = set()
    runtime = {name for name in vars(_native) if not name.startswith("__")}
    assert {name for name in stub if not name.startswith("_")} == runtime
    for name in runtime:
        kind = getattr(_native, name)
        if isinstance(kind, type):
            members = {member for member in vars(kind) if not member.startswith("_")}
            assert {m for m in stub[name] if not m.startswith("_")} == members, name
