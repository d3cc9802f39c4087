# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys

import magicube as mc
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def quiet():
    yield
    mc.set_log_callback(None)
    mc.set_log_file(None)
    mc.set_log_level("off")


def work() -> None:
    A = mc.SrBcrs.from_dense(np.eye(8, dtype=np.int8))
    A @ np.ones((8, 2), np.int8)
    with pytest.raises(mc.MagicubeError):
        A @ np.ones((3, 2), np.int8)


def test_callback_gets_levels_and_lines() -> None:
    lines: list[tuple[str, str]] = []
    mc.set_log_callback(lambda level, text: lines.append((level, text)))
    work()
    assert lines == []
    mc.set_log_level("debug")
    assert mc.get_log_level() == "debug"
    work()
    assert any(level == "error" and "B is 3 x 2" in text for level, text in lines)
    assert {level for level, _ in lines} <= {"error", "warn", "info", "debug"}
    assert all("\n" not in text for _, text in lines)
    mc.set_log_level("off")
    count = len(lines)
    work()
    assert len(lines) == count


def test_callback_that_raises_is_contained(capsys) -> None:
    seen = []

    def hook(unraisable) -> None:
        seen.append(unraisable.exc_value)

    def broken(level: str, text: str) -> None:
        raise KeyError("mine")

    before, sys.unraisablehook = sys.unraisablehook, hook
    try:
        mc.set_log_callback(broken)
        mc.set_log_level("error")
        work()
    finally:
        sys.unraisablehook = before
    assert seen and isinstance(seen[0], KeyError)


def test_file(tmp_path) -> None:
    path = tmp_path / "log.txt"
    mc.set_log_file(path)
    mc.set_log_level("error")
    work()
    mc.set_log_file(None)
    assert "B is 3 x 2" in path.read_text()
    with pytest.raises(mc.InvalidValueError, match="path|file"):
        mc.set_log_file(tmp_path / "none" / "log.txt")
    with pytest.raises(mc.InvalidValueError, match="null character"):
        mc.set_log_file("a\0b")
    with pytest.raises(mc.InvalidValueError, match="level is 'loud'"):
        mc.set_log_level("loud")


def test_environment() -> None:
    code = (
        "import magicube as mc\n"
        "assert mc.get_log_level() == 'error'\n"
        "try: mc.device_info('cpu', 7)\n"
        "except mc.NoDeviceError: pass"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MAGICUBE_LOG_LEVEL": "error"},
    )
    assert done.returncode == 0 and done.stdout == "" and "7" in done.stderr
