# SPDX-License-Identifier: Apache-2.0
"""SR-BCRS matrices in .safetensors and .npz files.

Both hold the arrays under their own names (row_begin, row_end, col_indices, values, element_mask)
and, under the key KEY, a JSON text:

    {"version": 1, "matrices": {NAME: {"shape": [M, K], "vector_length": V, "stride": S,
                                       "dtype": TYPE or null, "index_dtype": "int64"}}}

A file with one matrix calls it "". With several, an array's name is "NAME.row_begin" and so on.
Other arrays may lie beside them. int4 is stored two a byte (uint8), int12 as int16; .npz, which has
no bf16 and e4m3, stores their bits as uint16 and uint8.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from magicube._dtypes import DTYPES
from magicube.errors import MagicubeError

from . import npz, safetensors
from .common import INDEX_LIMIT, FileFormatError, PathLike, shorten

if TYPE_CHECKING:
    from magicube._device import Handle
    from magicube.sparse import SrBcrs

Array = np.ndarray[Any, Any]

KEY = "magicube.sr_bcrs"
VERSION = 1
ARRAYS = ("row_begin", "row_end", "col_indices", "values", "element_mask")
REQUIRED = ARRAYS[:3]
SUFFIXES = (".safetensors", ".npz")


def suffix_of(path: PathLike) -> str:
    """The end of a path, which tells the container."""
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in SUFFIXES:
        raise FileFormatError(path, f"ends in {suffix!r}; it must end in {' or '.join(SUFFIXES)}")
    return suffix


def _array_name(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


# ---- writing -------------------------------------------------------------------------------------


def save_sr_bcrs(
    path: PathLike,
    matrices: SrBcrs | Mapping[str, SrBcrs],
    tensors: Mapping[str, Array] | None = None,
) -> None:
    """Write one SR-BCRS matrix, or several by name.

    Parameters
    ----------
    path
        Ends in ``.safetensors`` or ``.npz``; it is replaced only once the new file is complete.
    matrices
        The matrix, or matrices by name.
    tensors
        Arrays to store beside them, such as scales.

    Raises
    ------
    FileFormatError
        If the path ends otherwise, or cannot be written.
    """
    suffix = suffix_of(path)
    named = matrices if isinstance(matrices, Mapping) else {"": matrices}
    arrays: dict[str, Array] = dict(tensors or {})
    described: dict[str, Any] = {}
    for name, matrix in named.items():
        described[name] = {
            "shape": list(matrix.shape),
            "vector_length": matrix.vector_length,
            "stride": matrix.stride,
            "dtype": matrix.dtype,
            "index_dtype": matrix.row_begin.dtype.name,
        }
        for part in ARRAYS:
            array = getattr(matrix, part)
            if array is None:
                continue
            if _array_name(name, part) in arrays:
                raise FileFormatError(path, f"two arrays are called {_array_name(name, part)!r}")
            arrays[_array_name(name, part)] = array
    text = json.dumps({"version": VERSION, "matrices": described}, separators=(",", ":"))
    if suffix == ".safetensors":
        safetensors.write(path, arrays, {KEY: text})
    else:
        for name in tensors or {}:
            if stored_bits(arrays[name]) is not arrays[name]:
                raise FileFormatError(
                    path,
                    f"array {shorten(name)} is of {arrays[name].dtype}, which .npz files do not "
                    "have; write a .safetensors file",
                )
        stored = {name: stored_bits(array) for name, array in arrays.items()}
        npz.write(path, {KEY: np.frombuffer(text.encode(), np.uint8), **stored})


def stored_bits(array: Array) -> Array:
    """An array as .npz files hold it: bf16 and e4m3 as their bits."""
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn"):
        return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return array


# ---- reading -------------------------------------------------------------------------------------


class Source:
    """The arrays of a file, whatever its container."""

    def __init__(self, path: PathLike, key: str = KEY) -> None:
        self.path = path
        self.key = key
        self.raw_bits = suffix_of(path) == ".npz"
        self.names: list[str]
        self.read: Callable[[str], Array]
        text: str | None
        if self.raw_bits:
            archive = npz.Archive(path)
            self.names, self.read = archive.names, archive.read
            text = self._archive_text(archive) if key in archive.names else None
        else:
            container = safetensors.Container(path)
            self.names, self.read = list(container.tensors), container.read
            text = container.metadata.get(key)
        self.matrices = None if text is None else self._parse(text)

    def _archive_text(self, archive: npz.Archive) -> str:
        raw = archive.read(self.key)
        if raw.dtype != np.uint8 or raw.ndim != 1:
            raise FileFormatError(self.path, f"member {self.key!r} must be a line of bytes")
        return raw.tobytes().decode("utf-8", errors="replace")

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            described = safetensors.parse_json(text)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(self.path, f"{self.key} is no valid JSON: {error}") from error
        if not isinstance(described, dict) or described.get("version") != VERSION:
            version = described.get("version") if isinstance(described, dict) else described
            raise FileFormatError(
                self.path,
                f"{self.key} has version {shorten(version)}; this package reads {VERSION}",
            )
        matrices = described.get("matrices")
        if not isinstance(matrices, dict):
            raise FileFormatError(
                self.path,
                f"{self.key} has matrices {shorten(matrices)}; it must map names to matrices",
            )
        return matrices


def list_sr_bcrs(path: PathLike) -> list[str]:
    """Names of the SR-BCRS matrices in a file: none if it is another file of the container."""
    return list(Source(path).matrices or {})


def load_sr_bcrs(
    path: PathLike, name: str | None = None, *, handle: Handle | None = None
) -> SrBcrs:
    """Read an SR-BCRS matrix.

    Parameters
    ----------
    path
        A file that :func:`save_sr_bcrs` wrote.
    name : str, optional
        Which of its matrices, where it has several.

    Raises
    ------
    FileFormatError
        If the file is missing, truncated, of another kind, or describes a malformed matrix.
    """
    from magicube.sparse import SrBcrs

    source = Source(path)
    if not source.matrices:
        raise FileFormatError(
            path, f"holds no SR-BCRS matrix: the entry {KEY!r} is missing or empty"
        )
    listing = safetensors.listing(list(source.matrices))
    if name is None and len(source.matrices) > 1:
        raise FileFormatError(path, f"holds several matrices; name one of {listing}")
    name = next(iter(source.matrices)) if name is None else name
    if name not in source.matrices:
        raise FileFormatError(path, f"holds no matrix {shorten(name)}; it holds {listing}")
    entry = _checked_entry(path, name, source.matrices[name])
    arrays = _read_arrays(source, name, entry)
    try:
        return SrBcrs(
            tuple(entry["shape"]),
            arrays["row_begin"],
            arrays["row_end"],
            arrays["col_indices"],
            arrays.get("values"),
            element_mask=arrays.get("element_mask"),
            vector_length=entry["vector_length"],
            stride=entry["stride"],
            dtype=entry["dtype"],
            handle=handle,
        )
    except (MagicubeError, TypeError) as error:
        raise FileFormatError(path, f"matrix {name!r} is malformed: {error}") from error


def _checked_entry(path: PathLike, name: str, entry: Any) -> dict[str, Any]:
    where = f"matrix {name!r}"
    if not isinstance(entry, dict):
        raise FileFormatError(path, f"{where} is {shorten(entry)}; it must be a JSON object")
    shape = entry.get("shape")
    if (
        not isinstance(shape, list)
        or len(shape) not in (2, 3)
        or not all(safetensors.is_count(extent) and extent <= INDEX_LIMIT for extent in shape)
    ):
        raise FileFormatError(
            path,
            f"{where} has shape {shorten(shape)}; it must be [rows, columns] or [batch, rows, "
            f"columns], each in [0, {INDEX_LIMIT}]",
        )
    for key in ("vector_length", "stride"):
        if not safetensors.is_count(entry.get(key)) or entry[key] > 64:
            raise FileFormatError(
                path, f"{where} has {key} {shorten(entry.get(key))}; it must be an integer in "
                "[1, 64]"
            )
    dtype, index = entry.get("dtype"), entry.get("index_dtype")
    if dtype is not None and (not isinstance(dtype, str) or dtype not in DTYPES):
        raise FileFormatError(
            path,
            f"{where} has dtype {shorten(dtype)}; it must be null or one of {', '.join(DTYPES)}",
        )
    if index not in ("int32", "int64"):
        raise FileFormatError(
            path, f"{where} has index_dtype {shorten(index)}; it must be int32 or int64"
        )
    return {**entry, "dtype": dtype}


def _read_arrays(source: Source, name: str, entry: dict[str, Any]) -> dict[str, Array]:
    """The matrix's arrays, of the types that its entry names."""
    present = [part for part in ARRAYS if _array_name(name, part) in source.names]
    missing = [part for part in REQUIRED if part not in present]
    if entry["dtype"] is not None and "values" not in present:
        missing.append("values")
    if missing:
        raise FileFormatError(
            source.path, f"matrix {name!r} lacks the array {_array_name(name, missing[0])!r}"
        )
    index = np.dtype(entry["index_dtype"])
    expected = {
        "row_begin": index,
        "row_end": index,
        "col_indices": np.dtype(np.int32),
        "element_mask": np.dtype(np.uint8),
    }
    if "values" in present:
        if entry["dtype"] is None:
            raise FileFormatError(
                source.path, f"matrix {name!r} has values but dtype null; one of them is wrong"
            )
        expected["values"] = DTYPES[entry["dtype"]].storage
    arrays = {}
    for part in present:
        array = source.read(_array_name(name, part))
        wanted = expected[part]
        if source.raw_bits and array.dtype == stored_bits(np.empty(0, wanted)).dtype:
            array = array.view(wanted)
        if array.dtype != wanted:
            raise FileFormatError(
                source.path,
                f"array {_array_name(name, part)!r} is of {array.dtype}; it must be of {wanted}",
            )
        arrays[part] = array
    return arrays
