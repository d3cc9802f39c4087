# SPDX-License-Identifier: Apache-2.0
"""Files of any kind in, SR-BCRS matrices of any element type out."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import magicube as mc
from magicube import io
from magicube import _oracle as oracle
from magicube._io.npz import Archive
from magicube._io.numpy_files import read_npy, read_scipy_npz
from magicube._io.safetensors import Container, listing
from magicube._io.sr_bcrs import KEY
from magicube.cli._console import UsageError

Array = np.ndarray[Any, Any]

READABLE = (".mtx", ".smtx", ".npy", ".npz", ".safetensors")
NATIVE = {
    np.dtype(storage): name
    for name, storage in oracle.STORAGE.items()
    if name not in ("int4", "int12")
}


def suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def read_matrix(path: str, tensor: str | None, seed: int | None) -> Any:
    """The matrix in a file: an SrBcrs, a SciPy sparse array or a NumPy array."""
    kind = suffix(path)
    if kind == ".mtx":
        return io.read_matrix_market(path)
    if kind == ".smtx":
        return io.read_smtx(path, seed=seed)
    if kind == ".npy":
        return read_npy(path)
    if kind == ".npz":
        return io.load_sr_bcrs(path, tensor) if KEY in Archive(path).names else read_scipy_npz(path)
    if kind == ".safetensors":
        return _read_safetensors(path, tensor)
    raise UsageError(f"{path} ends in {kind!r}; it must be one of {', '.join(READABLE)}")


def _read_safetensors(path: str, tensor: str | None) -> Any:
    container = Container(path)
    if KEY in container.metadata and (tensor is None or tensor in io.list_sr_bcrs(path)):
        return io.load_sr_bcrs(path, tensor)
    if tensor is None:
        raise UsageError(
            f"{path} holds dense tensors; choose one with --tensor: "
            f"{listing(list(container.tensors))}"
        )
    if len(container.spec(tensor).shape) != 2:
        raise UsageError(
            f"tensor {tensor!r} has shape {container.spec(tensor).shape}; it must be a matrix"
        )
    return container.read(tensor)


def default_dtype(values: Array) -> str:
    """The element type that keeps the values: their own; fp32 for float64; of the integer types
    that hold all of them the smallest."""
    if values.dtype in NATIVE:
        return NATIVE[values.dtype]
    if values.dtype.kind not in "iub":
        return "fp32"
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for name in ("int8", "int16", "int32"):
        if oracle.INTEGER_RANGES[name][0] <= low and high <= oracle.INTEGER_RANGES[name][1]:
            return name
    raise UsageError(f"the values lie in [{low}, {high}]; int32 is the widest integer type")


def cast(values: Array, dtype: str) -> Array:
    """Values of another type: floats are rounded, integers have to fit exactly."""
    if oracle.is_integer(dtype):
        low, high = oracle.INTEGER_RANGES[dtype]
        with np.errstate(invalid="ignore"):
            wide = values if values.dtype.kind in "iub" else values.astype(np.float64)
            bad = ~((wide >= low) & (wide <= high) & (wide == np.floor(wide)))
        if bad.any():
            raise UsageError(
                f"the value {values[bad].flat[0]:.6g} is no {dtype}: integers in [{low}, {high}]; "
                "magicube prune quantises"
            )
        return wide.astype(oracle.STORAGE[dtype])
    with np.errstate(over="ignore"):
        result = values.astype(np.float32).astype(oracle.FLOAT_TYPES[dtype])
    lost = ~np.isfinite(result.astype(np.float32)) & np.isfinite(values.astype(np.float64))
    if lost.any():
        raise UsageError(f"the value {values[lost].flat[0]:.6g} is beyond the range of {dtype}")
    return result


def to_sr_bcrs(
    source: Any, vector_length: int, stride: int | None, dtype: str | None
) -> mc.SrBcrs:
    """Any matrix that read_matrix gives as SR-BCRS."""
    if isinstance(source, mc.SrBcrs):
        return source.convert(vector_length=vector_length, stride=stride, dtype=dtype)
    sparse = not isinstance(source, np.ndarray)
    wanted = default_dtype(source.data if sparse else source) if dtype is None else dtype
    if wanted not in oracle.STORAGE:
        raise UsageError(f"--dtype is {wanted!r}; it must be one of {', '.join(oracle.STORAGE)}")
    wide = "int12" if wanted == "int12" else None
    if not sparse:
        values = cast(source, wanted)
        array = mc.pack_int4(values) if wanted == "int4" else values
        return mc.SrBcrs.from_dense(array, vector_length=vector_length, stride=stride, dtype=wide)
    _require_memory(source.shape)
    source = source.tocsr().copy()
    source.sum_duplicates()
    source.data = cast(source.data, wanted)
    if wanted == "int4":
        stride = stride or 32
    if wanted in ("bf16", "e4m3"):  # types that SciPy's arrays cannot hold
        source.data = source.data.astype(np.float32)
        wide = wanted
    matrix = mc.SrBcrs.from_scipy(source, vector_length=vector_length, stride=stride, dtype=wide)
    return _packed(matrix) if wanted == "int4" else matrix


def _require_memory(shape: tuple[int, int]) -> None:
    """A few bytes of a file can name two thousand million rows, each of which takes offsets."""
    needed = 3 * 8 * (shape[0] + 1)
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > present:
        raise MemoryError(
            f"the offsets of a matrix of {shape[0]} x {shape[1]} take {needed} bytes; this machine "
            f"has {present}"
        )


def _packed(matrix: mc.SrBcrs) -> mc.SrBcrs:
    """int8 values, two to a byte."""
    packed = mc.pack_int4(np.asarray(matrix.values).reshape(1, -1)).packed
    return matrix.with_values(np.asarray(packed).reshape(-1), dtype="int4")


def facts(matrix: mc.SrBcrs) -> dict[str, Any]:
    """What the commands tell of a matrix."""
    vectors = int(matrix.num_vectors)
    slots = int(matrix.slots)
    return {
        "shape": list(matrix.shape),
        "dtype": matrix.dtype,
        "vector_length": matrix.vector_length,
        "stride": matrix.stride,
        "nnz": int(matrix.nnz),
        "density": float(matrix.density),
        "vectors": vectors,
        "slots": slots,
        "padding": (slots - vectors) / slots if slots else 0.0,
        "bytes": int(matrix.nbytes),
    }
