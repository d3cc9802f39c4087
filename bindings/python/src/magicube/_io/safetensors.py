# SPDX-License-Identifier: Apache-2.0
"""The safetensors container: eight bytes of header length, a JSON header, tensors back to back.

Read here rather than through the safetensors package because bf16 and e4m3 become ml_dtypes arrays,
nothing is loaded before the header has been checked against the file's size, and every error names
the tensor, the value and the rule.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from .common import FileFormatError, PathLike, open_for_reading, replacing, shorten

Array = np.ndarray[Any, Any]
HEADER_LIMIT = 100_000_000  # bytes, as in the format's own reader

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TensorSpec(NamedTuple):
    """Where a tensor lies."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int  # bytes from the start of the data


class Container:
    """A safetensors file whose header has been read and checked; tensors are read on demand."""

    def __init__(self, path: PathLike):
        self.path = path
        with open_for_reading(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            self._data_start, header = _read_header(path, stream, size)
        self.metadata = _metadata(path, header.pop("__metadata__", {}))
        self.tensors = {name: _spec(path, name, entry) for name, entry in header.items()}
        _check_layout(path, self.tensors, size - self._data_start)

    def spec(self, name: str) -> TensorSpec:
        if name not in self.tensors:
            raise FileFormatError(
                self.path,
                f"holds no tensor {shorten(name)}; it holds {listing(list(self.tensors))}",
            )
        return self.tensors[name]

    def read(self, name: str) -> Array:
        """A tensor, as an array of its own."""
        spec = self.spec(name)
        if 0 in spec.shape:
            return np.empty(spec.shape, spec.dtype)
        count = int(np.prod(spec.shape, dtype=np.int64))
        with open_for_reading(self.path) as stream:
            stream.seek(self._data_start + spec.begin)
            raw = np.fromfile(stream, np.uint8, count * spec.dtype.itemsize)
        if raw.size != count * spec.dtype.itemsize:
            raise FileFormatError(
                self.path,
                f"tensor {shorten(name)} ended after {raw.size} of "
                f"{count * spec.dtype.itemsize} bytes: the file shrank while it was read",
            )
        return raw.view(spec.dtype).reshape(spec.shape)


def listing(names: Sequence[str], limit: int = 8) -> str:
    """Names for a message."""
    if not names:
        return "none"
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"key {shorten(key)} appears twice")
        entries[key] = value
    return entries


def parse_json(text: str) -> Any:
    """JSON whose objects name no key twice."""
    return json.loads(text, object_pairs_hook=_unique_pairs)


def _read_header(path: PathLike, stream: BinaryIO, size: int) -> tuple[int, dict[str, Any]]:
    if size < 8:
        raise FileFormatError(
            path, f"has {size} bytes; a safetensors file starts with 8 bytes of header length"
        )
    length = int.from_bytes(stream.read(8), "little")
    if length > min(size - 8, HEADER_LIMIT):
        raise FileFormatError(
            path,
            f"bytes 0-7 claim a header of {length} bytes; after them the file has {size - 8}, and "
            f"{HEADER_LIMIT} are the most allowed (truncated, or no safetensors file)",
        )
    try:
        header = parse_json(stream.read(length).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"the header is no valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise FileFormatError(path, f"the header is {shorten(header)}; it must be a JSON object")
    return 8 + length, header


def _metadata(path: PathLike, entry: Any) -> dict[str, str]:
    if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
        raise FileFormatError(
            path, f"__metadata__ is {shorten(entry)}; it must map strings to strings"
        )
    return entry


def is_count(value: Any) -> bool:
    """Whether a JSON value is a size or an offset."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _spec(path: PathLike, name: str, entry: Any) -> TensorSpec:
    where = f"tensor {shorten(name)}"
    if not isinstance(entry, dict):
        raise FileFormatError(path, f"{where} is {shorten(entry)}; it must be a JSON object")
    code, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(code, str) or code not in DTYPES:
        raise FileFormatError(
            path, f"{where} has dtype {shorten(code)}; it must be one of {', '.join(DTYPES)}"
        )
    if not isinstance(shape, list) or not all(is_count(extent) for extent in shape):
        raise FileFormatError(
            path, f"{where} has shape {shorten(shape)}; it must be a list of integers >= 0"
        )
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_count, offsets)):
        raise FileFormatError(
            path, f"{where} has data_offsets {shorten(offsets)}; they must be two integers >= 0"
        )
    bytes_needed = DTYPES[code].itemsize
    for extent in shape:
        bytes_needed *= extent
    if offsets[1] - offsets[0] != bytes_needed:
        raise FileFormatError(
            path,
            f"{where} has data_offsets {offsets}, {offsets[1] - offsets[0]} bytes; its shape "
            f"{shorten(shape)} of {code} takes {bytes_needed}",
        )
    return TensorSpec(DTYPES[code], tuple(shape), offsets[0])


def _check_layout(path: PathLike, tensors: Mapping[str, TensorSpec], data_size: int) -> None:
    """Tensors follow one another without gap or overlap and fill the file."""
    position = 0
    for name, spec in sorted(tensors.items(), key=lambda item: (item[1].begin, _bytes(item[1]))):
        if spec.begin != position:
            raise FileFormatError(
                path,
                f"tensor {shorten(name)} begins at data byte {spec.begin}; the one before it ends "
                f"at {position}, and there must be neither gap nor overlap",
            )
        position += _bytes(spec)
    if position != data_size:
        raise FileFormatError(
            path,
            f"the tensors take {position} bytes, but {data_size} follow the header "
            + ("(truncated)" if data_size < position else "(nothing may follow the last tensor)"),
        )


def _bytes(spec: TensorSpec) -> int:
    count = spec.dtype.itemsize
    for extent in spec.shape:
        count *= extent
    return count


def write(path: PathLike, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes a file; the widest types come first, so that every tensor is aligned to its type."""
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    for name, array in arrays.items():
        if array.dtype not in NAMES:
            raise FileFormatError(
                path,
                f"tensor {shorten(name)} is of dtype {array.dtype}; safetensors stores "
                f"{', '.join(DTYPES)}",
            )
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for name in order:
        array = arrays[name]
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for name in order:
            stream.write(arrays[name].reshape(-1).view(np.uint8).data)


def load_safetensors(path: PathLike, names: Sequence[str] | None = None) -> dict[str, Array]:
    """Tensors of a safetensors file by name: those asked for, or all. bf16 and 8-bit floats come as
    ml_dtypes arrays."""
    container = Container(path)
    return {name: container.read(name) for name in (container.tensors if names is None else names)}


def save_safetensors(
    path: PathLike,
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays by name, with strings of metadata."""
    write(path, {name: np.asarray(array) for name, array in tensors.items()}, metadata or {})
