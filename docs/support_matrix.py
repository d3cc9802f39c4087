# SPDX-License-Identifier: Apache-2.0
"""Writes docs/support.md: which implementation takes what, by asking the library.

    support_matrix.py [--check]     --check: fails if the page says something else

Each cell is what `is_supported` of a plan for that implementation said, so the page holds what is
true of a machine with a GPU of sm_90. It has to see one: tests/emulation/run.sh calls it with the
emulated device.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import magicube as mc

PAGE = Path(__file__).with_name("support.md")
LENGTHS = (1, 2, 4, 8, 16, 32, 64)
VNM_LENGTHS = (1, 16, 32, 64, 128, 256)
DEVICES = ("cuda", "cpu")
PAIRS = (
    *(("int16", b) for b in ("int16", "int8", "int4")),
    *(("int12", b) for b in ("int8", "int4")),
    *(("int8", b) for b in ("int8", "int4")),
    ("int4", "int4"),
    *(("uint8", b) for b in ("int8", "int4")),
    *((t, t) for t in ("fp32", "fp16", "bf16", "e4m3")),
)
HEAD = """# What takes what

Made by `docs/support_matrix.py` from the answers of the library itself, for a GPU of sm_90 (some
families need sm_80 or sm_89 alone) and the CPU; a test compares it. Of the implementations that
take a problem a plan chooses the one that it thinks cheapest, and `plan.info.reasons` tells what it
thought of each. Numbers are the vector lengths V.
"""


def as_values(ones: Any, dtype: str) -> Any:
    """Zeros and ones as an array that from_dense takes for the type."""
    if dtype == "int4":
        return mc.pack_int4(ones)
    if "int" not in dtype:
        return ones.astype(np.float32)  # rounded to the type
    return ones.astype("int16" if dtype == "int12" else dtype)


def matrix(vector_length: int, dtype: str) -> mc.SrBcrs:
    rng = np.random.default_rng(1)
    rows = max(vector_length, 8)
    mask = (rng.random((128 // rows, 96)) < 0.5).repeat(rows, axis=0)
    return mc.SrBcrs.from_dense(
        as_values(mask.astype(np.int8), dtype), vector_length=vector_length, dtype=dtype, mask=mask
    )


def lengths(taken: list[int], all_of: Iterable[int]) -> str:
    everything = list(all_of)
    if not taken:
        return "-"
    if taken == everything:
        return "all"
    first = everything.index(taken[0])
    if taken == everything[first:]:
        return f"{taken[0]} and more"
    return ", ".join(map(str, taken))


def table(
    names: dict[str, list[str]],
    rows: Iterable[tuple[str, Iterable[int], Callable[[str, int, str], bool]]],
    first: str,
) -> str:
    columns = [(device, name) for device in DEVICES for name in names[device]]
    text = f"| {first} | " + " | ".join(f"{d}: {n}" for d, n in columns) + " |\n"
    text += "|--" * (len(columns) + 1) + "|\n"
    for label, values, takes in rows:
        values = tuple(values)
        cells = [
            lengths([v for v in values if takes(device, v, name)], values)
            for device, name in columns
        ]
        text += f"| {label} | " + " | ".join(cells) + " |\n"
    return text


def both(of: Callable[..., list[str]], *arguments: str) -> dict[str, list[str]]:
    return {device: of(device, *arguments) for device in DEVICES}


def placed(A: Any, device: str) -> Any:
    return A.cuda() if device == "cuda" else A


def spmm() -> str:
    def row(a: str, b: str) -> Any:
        def takes(device: str, v: int, name: str) -> bool:
            return mc.SpMMPlan.is_supported(
                placed(matrix(v, a), device), rhs_dtype=b, n=(1, 1024), implementation=name
            )[0]

        return f"{a} x {b}", LENGTHS, takes

    return table(both(mc.spmm_implementations), (row(a, b) for a, b in PAIRS), "A x B")


def vnm() -> str:
    def row(dtype: str) -> Any:
        def takes(device: str, v: int, name: str) -> bool:
            zeros = as_values(np.zeros((512, 64), np.int8), dtype)
            A = mc.Vnm.from_dense(zeros, m=8, vector_length=v, dtype=dtype)
            return mc.SpMMPlan.is_supported(
                placed(A, device), rhs_dtype=dtype, n=(1, 1024), implementation=name
            )[0]

        return f"{dtype} x {dtype}", VNM_LENGTHS, takes

    types = ("int8", "fp32", "fp16", "bf16", "e4m3")
    return table(both(mc.spmm_implementations, "vnm"), map(row, types), "A x B")


def sddmm() -> str:
    def row(dtype: str) -> Any:
        def takes(device: str, v: int, name: str) -> bool:
            return mc.SDDMMPlan.is_supported(
                placed(matrix(v, "fp32"), device), dtype=dtype, k=64, implementation=name
            )[0]

        return dtype, LENGTHS, takes

    types = ("int16", "int8", "int4", "fp32", "fp16", "bf16", "e4m3")
    return table(both(mc.sddmm_implementations), map(row, types), "A and B")


def softmax() -> str:
    def row(dtype: str) -> Any:
        def takes(device: str, v: int, name: str) -> bool:
            return mc.SparseSoftmaxPlan.is_supported(
                placed(matrix(v, "fp32"), device), in_dtype=dtype, implementation=name
            )[0]

        return dtype, LENGTHS, takes

    types = ("fp32", "fp16", "int32")
    return table(both(mc.sparse_softmax_implementations), map(row, types), "scores")


def attention() -> str:
    def row(dtype: str, head_dim: int, bits: int | None) -> Any:
        scales = {"q_scale": "row", "k_scale": "row", "v_scale": "col"} if bits else {}

        def takes(device: str, v: int, name: str) -> bool:
            return mc.AttentionPlan.is_supported(
                placed(matrix(v, "fp32"), device), head_dim=head_dim, dtype=dtype,
                out_dtype="fp16" if bits else None, probability_bits=bits, implementation=name,
                **scales,
            )[0]  # fmt: skip

        words = f", softmax of {bits} bits" if bits else ""
        return f"{dtype}{words}, head_dim {head_dim}", LENGTHS, takes

    rows = [row(t, d, None) for t in ("fp32", "fp16", "bf16") for d in (64, 128, 256)]
    rows += [row(t, d, b) for t, b in (("int8", 16), ("int8", 8), ("int4", 8), ("int4", 4))
             for d in (64, 128)]  # fmt: skip
    return table(both(mc.attention_implementations), rows, "Q, K and V")


def page() -> str:
    text = HEAD
    for title, make in (
        ("SpMM, A in SR-BCRS, plans for N from 1 to 1024", spmm),
        ("SpMM, A in V:N:M with M = 8", vnm),
        ("SDDMM", sddmm),
        ("Sparse softmax, fp32 out", softmax),
        ("Sparse attention, without an element mask", attention),
    ):
        text += f"\n## {title}\n\n{make()}"
    return text


def main() -> None:
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"{PAGE.name} is not what the library says; docs/support_matrix.py writes it anew")


if __name__ == "__main__":
    main()
