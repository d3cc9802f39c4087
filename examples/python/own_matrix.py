# SPDX-License-Identifier: Apache-2.0
"""encoder.py --matrix: a matrix from a file times random columns, against SciPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tables import print_table, progress

import magicube as mc
from magicube import io

VECTOR_LENGTHS = (1, 2, 4, 8, 16)
REPEATS = 5


def least_ms(run: Callable[[], object]) -> float:
    """Least of a few times, after one call that does not count."""
    run()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def run_matrix(path: str, columns: int) -> dict[str, Any]:
    """Converts the matrix for several vector lengths and multiplies it in float32."""
    read = io.read_smtx if path.endswith(".smtx") else io.read_matrix_market
    matrix = read(path)
    import scipy.sparse

    csr = scipy.sparse.csr_array(matrix).astype(np.float32)
    b = np.random.default_rng(0).standard_normal((csr.shape[1], columns), dtype=np.float32)
    expected = csr @ b
    result: dict[str, Any] = {
        "matrix": path, "shape": list(csr.shape), "nnz": int(csr.nnz), "columns": columns,
        "scipy_csr_ms": least_ms(lambda: csr @ b), "results": [],
    }
    for vector_length in progress(VECTOR_LENGTHS, "vector lengths"):
        a = mc.SrBcrs.from_scipy(csr, vector_length=vector_length)
        plan = mc.SpMMPlan(a, rhs_dtype="fp32", out_dtype="fp32", n=columns)
        out = np.empty((csr.shape[0], columns), np.float32)
        time_ms = least_ms(lambda: plan(b, out=out))
        result["results"].append({
            "vector_length": vector_length, "stride": a.stride, "vectors": int(a.num_vectors),
            "bytes": int(a.nbytes), "fill": float(csr.nnz / max(a.num_vectors * vector_length, 1)),
            "time_ms": time_ms, "speedup": result["scipy_csr_ms"] / time_ms,
            "max_abs_error": float(np.abs(out - expected).max(initial=0)),
        })
    return result


def show_matrix(result: dict[str, Any]) -> None:
    """The table."""
    rows, cols = result["shape"]
    print_table(
        f"{result['matrix']}: {rows} x {cols}, {result['nnz']} entries, times {result['columns']} "
        f"columns; SciPy CSR {result['scipy_csr_ms']:.2f} ms",
        ["V", "vectors", "bytes", "vectors filled", "time", "speedup over SciPy", "largest error"],
        [
            [str(entry["vector_length"]), str(entry["vectors"]), str(entry["bytes"]),
             f"{entry['fill']:.0%}", f"{entry['time_ms']:.2f} ms", f"{entry['speedup']:.2f}",
             f"{entry['max_abs_error']:.2g}"]
            for entry in result["results"]
        ],
    )
