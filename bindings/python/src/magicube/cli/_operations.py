# SPDX-License-Identifier: Apache-2.0
"""The operations that ``magicube verify`` knows."""

from __future__ import annotations

import functools
from collections.abc import Callable

import magicube as mc
from magicube.cli import _cases as cases
from magicube.cli._cases import Case, Rng
from magicube.cli._vnm_cases import vnm_case

CUDA_OPERATIONS: dict[str, Callable[[Rng], Case]] = {
    "spmm": functools.partial(cases.spmm_case, device="cuda"),
    "sddmm": functools.partial(cases.sddmm_case, device="cuda"),
    "sparse_softmax": functools.partial(cases.softmax_case, device="cuda"),
    "attention": functools.partial(cases.attention_case, device="cuda"),
    "spmm_vnm": functools.partial(vnm_case, device="cuda"),
}

Listing = Callable[[str], list[str]]

OPERATIONS: dict[str, tuple[Callable[[Rng], Case], Listing | None]] = {
    "spmm": (cases.spmm_case, mc.spmm_implementations),
    "sddmm": (cases.sddmm_case, mc.sddmm_implementations),
    "sparse_softmax": (cases.softmax_case, mc.sparse_softmax_implementations),
    "convert": (cases.convert_case, None),
    "prune": (cases.prune_case, None),
    "quantize": (cases.quantize_case, None),
    "attention": (cases.attention_case, mc.attention_implementations),
    "spmm_vnm": (vnm_case, functools.partial(mc.spmm_implementations, format="vnm")),
}
