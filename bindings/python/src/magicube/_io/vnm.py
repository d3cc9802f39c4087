# SPDX-License-Identifier: Apache-2.0
"""V:N:M matrices in .safetensors and .npz files.

Both hold the arrays column_loc, metadata and values and, under the key KEY, a JSON text:

    {"version": 1, "matrices": {"": {"shape": [M, K], "vector_length": V, "n": n, "m": M,
                                     "dtype": TYPE or null}}}

.npz, which has no bf16 and e4m3, stores their bits as uint16 and uint8.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from magicube._dtypes import DTYPES
from magicube.errors import MagicubeError

from . import npz, safetensors
from .common import FileFormatError, PathLike, shorten
from .sr_bcrs import Array, Source, stored_bits, suffix_of

if TYPE_CHECKING:
    from magicube._device import Handle
    from magicube._vnm import Vnm

KEY = "magicube.vnm"
ARRAYS = ("column_loc", "metadata", "values")


def save_vnm(path: PathLike, matrix: Vnm) -> None:
    """Write a V:N:M matrix; the file is replaced only once the new one is complete."""
    suffix = suffix_of(path)
    found = {part: getattr(matrix, part) for part in ARRAYS}
    arrays: dict[str, Array] = {part: x for part, x in found.items() if x is not None}
    described = {
        "shape": list(matrix.shape),
        "vector_length": matrix.vector_length,
        "n": matrix.n,
        "m": matrix.m,
        "dtype": matrix.dtype,
    }
    text = json.dumps({"version": 1, "matrices": {"": described}}, separators=(",", ":"))
    if suffix == ".safetensors":
        safetensors.write(path, arrays, {KEY: text})
    else:
        stored = {name: stored_bits(array) for name, array in arrays.items()}
        npz.write(path, {KEY: np.frombuffer(text.encode(), np.uint8), **stored})


def load_vnm(path: PathLike, *, handle: Handle | None = None) -> Vnm:
    """Read a V:N:M matrix.

    Raises
    ------
    FileFormatError
        If the file is missing, truncated, of another kind, or describes a malformed matrix.
    """
    from magicube._vnm import Vnm

    source = Source(path, KEY)
    if not source.matrices or "" not in source.matrices:
        raise FileFormatError(path, f"holds no V:N:M matrix: the entry {KEY!r} is missing or empty")
    entry = source.matrices[""]
    keys = ("shape", "vector_length", "n", "m", "dtype")
    if not isinstance(entry, dict) or not all(key in entry for key in keys):
        raise FileFormatError(
            path, f"the matrix is {shorten(entry)}; it must have {', '.join(keys)}"
        )
    shape, dtype = entry["shape"], entry["dtype"]
    sizes = {key: entry[key] for key in ("vector_length", "n", "m")}
    counts = [*shape, *sizes.values()] if isinstance(shape, list) else [shape]
    if not all(safetensors.is_count(count) for count in counts):
        raise FileFormatError(
            path, f"the matrix has shape {shorten(shape)} and {sizes}; all must be counts"
        )
    if dtype is not None and (not isinstance(dtype, str) or dtype not in DTYPES):
        raise FileFormatError(path, f"the matrix has dtype {shorten(dtype)}; it must be a type")
    arrays: dict[str, Any] = {}
    for part in ARRAYS:
        if part not in source.names:
            if part == "values" and dtype is None:
                continue
            raise FileFormatError(path, f"the matrix lacks the array {part!r}")
        arrays[part] = source.read(part)
    if source.raw_bits and dtype is not None:
        wanted = DTYPES[dtype].storage
        if arrays["values"].dtype == stored_bits(np.empty(0, wanted)).dtype:
            arrays["values"] = arrays["values"].view(wanted)
    try:
        return Vnm(tuple(shape), **arrays, **sizes, handle=handle)
    except (MagicubeError, TypeError) as error:
        raise FileFormatError(path, f"the matrix is malformed: {error}") from error
