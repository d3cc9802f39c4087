# SPDX-License-Identifier: Apache-2.0
"""`magicube bench --device cuda` with a stand-in for magicube-bench that prints recorded JSON."""

import json
import os
import sys

import pytest

import magicube as mc

typer_testing = pytest.importorskip("typer.testing")
pytest.importorskip("rich")

from magicube.cli import _bench_cuda as cuda  # noqa: E402
from magicube.cli import app  # noqa: E402


def recorded(sparsity, **changes):
    """One entry as magicube-bench printed it on an H200."""
    timing = {"min_us": 69.5, "max_us": 70.1, "clock_mhz": 1798, "cycles": 125400}
    peer = {
        "time_us": 107.2, "min_us": 107.0, "max_us": 107.9, "clock_mhz": 1650, "cycles": 176900,
        "energy_uj": None, "speedup": 1.538, "note": "heuristic 3 of 16",
    }
    return {
        "operation": "spmm", "device": "cuda", "m": 4096, "k": 4096, "n": 4096,
        "vector_length": 8, "stride": 32, "sparsity": sparsity, "lhs": "int8", "rhs": "int8",
        "out": "int32", "b_order": "row", "c_order": "row", "pattern": "uniform", "scales": False,
        "ld_padding": 0, "cold": False, "seed": 7, "correct": True, "implementation": "sm90_slab",
        "plan_bytes": 26214400, "advice": "", "nnz": 13421772, "time_us": 69.7, **timing,
        "energy_uj": 42550.0, "tops": 197.2, "dense_tops": 1971.0, "shared_memory_bytes": 1e9,
        "device_memory_bytes": 1e8, "bound_us": 28.3, "bound_by": "shared memory",
        "bound_share": 0.41, "peers": {"cuBLASLt-int8": peer},
        "missing_peers": {"cuSPARSE": "cannot load libcusparse.so.12"}, **changes,
    }


class Fake:
    """A program that records its arguments and prints what it is told to."""

    def __init__(self, folder, monkeypatch):
        self.program, self.heard = folder / "magicube-bench", folder / "heard.json"
        self.answer = folder / "answer"
        self.program.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"told = {{'words': sys.argv[1:], 'peers': os.environ.get({cuda_path!r})}}\n"
            f"open({str(self.heard)!r}, 'w').write(json.dumps(told))\n"
            f"answer = json.load(open({str(self.answer)!r}))\n"
            "print(answer['out'], end='')\n"
            "print(answer['err'], end='', file=sys.stderr)\n"
            "sys.exit(answer['code'])\n"
        )
        self.program.chmod(0o755)
        monkeypatch.setenv("MAGICUBE_BENCH", str(self.program))
        monkeypatch.setattr(mc, "device_info", lambda *_: None)
        self.says(json.dumps([recorded(0.9)]))

    def says(self, out, err="", code=0):
        self.answer.write_text(json.dumps({"out": out, "err": err, "code": code}))

    def words(self):
        return json.loads(self.heard.read_text())["words"]

    def option(self, name):
        words = self.words()
        return words[words.index(name) + 1]


cuda_path = "MAGICUBE_BENCH_LIBRARY_PATH"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    return Fake(tmp_path, monkeypatch)


def bench(*words, code=0):
    result = typer_testing.CliRunner().invoke(
        app, ["bench", "spmm", "--device", "cuda", *map(str, words)]
    )
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def test_options_go_to_the_program_and_its_json_comes_back(fake):
    told = json.loads(
        bench(
            "--m", 4096, "--k", 1024, "--n", 64, "--vector-length", 16, "--sparsity", "0.9",
            "--lhs", "fp16", "--rhs", "fp16", "--out", "fp32", "--implementation", "plain",
            "--peers", "--rounds", 4, "--seconds", 2, "--seed", 5, "--json",
        ).stdout
    )
    assert told == recorded(0.9)
    given = {
        "--m": "4096", "--k": "1024", "--n": "64", "--vector-length": "16", "--stride": "0",
        "--sparsity": "0.9", "--lhs": "fp16", "--rhs": "fp16", "--out": "fp32",
        "--implementation": "plain", "--rounds": "4", "--seconds": "0.5", "--seed": "5",
    }
    assert {name: fake.option(name) for name in given} == given
    assert fake.words()[0] == "spmm" and {"--peers", "--json"} <= set(fake.words())
    assert "--threads" not in fake.words()


def test_what_the_program_alone_knows_passes_through(fake):
    bench("--b-order", "col", "--scales", "--ld-padding", "3", "--cold", "--pattern", "lognormal")
    assert fake.option("--b-order") == "col" and fake.option("--ld-padding") == "3"
    assert {"--scales", "--cold"} <= set(fake.words())
    assert fake.option("--pattern") == "lognormal"
    assert "--peers" not in fake.words() and "--implementation" not in fake.words()


def test_on_the_cpu_there_are_no_such_options():
    result = typer_testing.CliRunner().invoke(app, ["bench", "spmm", "--scales"])
    assert result.exit_code == 2 and "--scales" in result.output


def test_seeds_are_fresh_unless_given(fake):
    seeds = set()
    for _ in range(3):
        bench()
        seeds.add(fake.option("--seed"))
    assert len(seeds) > 1


def test_time_is_for_each_contestant_whatever_the_rounds(fake):
    bench("--seconds", 600)
    assert (fake.option("--rounds"), fake.option("--seconds")) == ("3", "60")
    bench("--seconds", 0, "--rounds", 7)
    assert (fake.option("--rounds"), fake.option("--seconds")) == ("7", "0.01")


def test_a_sweep_is_one_run_and_its_plot_a_picture(fake, tmp_path):
    fake.says(json.dumps([recorded(0.8), recorded(0.95, advice="dense would be faster: x")]))
    plot = tmp_path / "out.png"
    told = json.loads(
        bench("--sparsity", "0.8,0.95", "--peers", "--plot", plot, "--json").stdout
    )
    assert [entry["sparsity"] for entry in told] == [0.8, 0.95]
    assert fake.option("--sparsity") == "0.8,0.95"
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_plot_of_a_sweep_shows_the_speed_up(monkeypatch, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from magicube.cli import _plots

    drawn = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    _plots.plot_benchmark(
        str(tmp_path / "a.png"), [recorded(0.95, time_us=50.0), recorded(0.8, time_us=100.0)]
    )
    axes = drawn[0].axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    speed_up = lines["over cuBLASLt-int8"]
    assert list(speed_up.get_xdata()) == [0.8, 0.95]
    assert list(speed_up.get_ydata()) == pytest.approx([1.072, 2.144])
    assert axes.get_ylabel() == "speed-up"


def test_the_table(fake):
    fake.says(json.dumps([recorded(0.5, advice="dense would be faster: about 86 us")]))
    shown = bench("--sparsity", "0.5", "--peers").output
    for part in (
        "magicube (sm90_slab)", "69.70", "cuBLASLt-int8", "1.54", "197.2 TOP/s", "28.3 us",
        "shared memory", "no cuSPARSE: cannot load", "dense would be faster", "42.55",
    ):
        assert part in shown, part


def test_wrong_results_and_cases_that_do_not_run(fake):
    for key, text in (("mistake", "C(3, 4) is 7"), ("error", "NOT_SUPPORTED: no kernel")):
        entry = {name: recorded(0.9)[name] for name in list(recorded(0.9))[:19]}
        entry |= {"correct": False, key: text}
        fake.says(json.dumps([entry]), code=1)
        assert text in bench(code=1).output
        assert json.loads(bench("--json", code=1).stdout)[key] == text
        bench("--plot", fake.program.with_suffix(".png"), code=1)


def test_errors_of_the_program_are_told(fake):
    fake.says("", "magicube-bench: --lhs is 'int7', which is no type (see --help)\n", 2)
    told = json.loads(bench("--lhs", "int7", "--json", code=2).stdout)
    assert told["error"]["message"].startswith("magicube-bench: --lhs is 'int7'")
    fake.says("[{", "Killed", 137)
    assert "magicube-bench: Killed" in bench(code=2).output
    fake.says("", "", 3)
    assert "ended with 3" in bench(code=2).output


def test_without_the_program_the_build_option_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(mc, "device_info", lambda *_: None)
    monkeypatch.setattr(cuda, "_beside_the_library", list)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MAGICUBE_BENCH", raising=False)
    told = json.loads(bench("--json", code=2).stdout)["error"]["message"]
    assert "-DMAGICUBE_BUILD_BENCHMARK=ON" in told and "MAGICUBE_BENCH" in told
    monkeypatch.setenv("MAGICUBE_BENCH", str(tmp_path / "nothing"))
    assert "nothing" in json.loads(bench("--json", code=2).stdout)["error"]["message"]


def test_where_the_program_is_looked_for(fake, monkeypatch, tmp_path):
    monkeypatch.delenv("MAGICUBE_BENCH")
    assert any(path.parts[-2:] == ("bin", cuda.PROGRAM) for path in cuda._beside_the_library())
    monkeypatch.setattr(cuda, "_beside_the_library", lambda: [tmp_path / "no", fake.program])
    assert cuda.find_program() == str(fake.program)
    monkeypatch.setattr(cuda, "_beside_the_library", list)
    monkeypatch.setenv("PATH", str(fake.program.parent), prepend=os.pathsep)
    assert cuda.find_program() == str(fake.program)


def test_peers_are_looked_for_where_the_user_says(fake, monkeypatch):
    monkeypatch.setenv(cuda_path, "/somewhere")
    bench("--peers")
    assert json.loads(fake.heard.read_text())["peers"] == "/somewhere"


def test_only_spmm_runs_on_cuda(fake):
    for operation in ("sddmm", "softmax"):
        result = typer_testing.CliRunner().invoke(app, ["bench", operation, "--device", "cuda"])
        assert result.exit_code == 2 and "spmm" in result.output
