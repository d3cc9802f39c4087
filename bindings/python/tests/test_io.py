# SPDX-License-Identifier: Apache-2.0
"""Matrix Market, .smtx and safetensors: round trips, and every way in which a file can be wrong."""

import json
import pickle
import struct

import ml_dtypes
import numpy as np
import pytest

import magicube as mc
from magicube import io

scipy_sparse = pytest.importorskip("scipy.sparse")
scipy_io = pytest.importorskip("scipy.io")

ARRAY = "%%MatrixMarket matrix array real general\n"
HEADER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_file


def refused(read, path, *parts):
    """The reader's error names the file and all parts, and is a MagicubeError and a ValueError."""
    with pytest.raises(io.FileFormatError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith(str(path) + ": ")
    for part in parts:
        assert part in text, text
    assert isinstance(caught.value, mc.MagicubeError) and isinstance(caught.value, ValueError)
    assert caught.value.status == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


# ---- Matrix Market -------------------------------------------------------------------------------


def test_matrix_market_reads_what_scipy_writes(tmp_path):
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((13, 7)) * (rng.random((13, 7)) < 0.4)
    path = tmp_path / "a.mtx"
    scipy_io.mmwrite(path, scipy_sparse.coo_array(dense), symmetry="general")
    read = io.read_matrix_market(path)
    assert read.format == "coo" and np.array_equal(read.toarray(), dense)
    assert np.array_equal(np.lexsort(read.coords[::-1]), np.arange(read.nnz))


@pytest.mark.parametrize(
    "text, dense",
    [
        (HEADER + "% comment\n\n2 3 2\n1 1 1.5\n2 3 -2e1\n", [[1.5, 0, 0], [0, 0, -20]]),
        (HEADER + "2 3 1\r\n2 2 4\r\n", [[0, 0, 0], [0, 4, 0]]),
        (HEADER + "2 2 1\n1 2 0", [[0, 0], [0, 0]]),
        (HEADER + "0 0 0\n", np.zeros((0, 0))),
        (HEADER + "3 0 0\n", np.zeros((3, 0))),
        (HEADER + "1 2 2\n1 1 nan\n1 2 -inf\n", [[np.nan, -np.inf]]),
        (HEADER.replace("real", "pattern") + "2 2 1\n2 1\n", [[0, 0], [1, 0]]),
        (HEADER.replace("real", "integer") + "1 2 2\n1 2 -7\n1 1 3\n", [[3, -7]]),
        (HEADER.replace("general", "symmetric") + "2 2 2\n1 1 5\n2 1 3\n", [[5, 3], [3, 0]]),
        (HEADER.replace("general", "skew-symmetric") + "2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
        ("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
        ("%%MatrixMarket MATRIX Coordinate REAL General\n1 1 1\n1 1 2\n", [[2]]),
    ],
)
def test_matrix_market_reads(write, text, dense):
    read = io.read_matrix_market(write("a.mtx", text))
    array = read if isinstance(read, np.ndarray) else read.toarray()
    np.testing.assert_array_equal(array, dense)


def test_matrix_market_keeps_stored_zeros(write):
    read = io.read_matrix_market(write("a.mtx", HEADER + "2 2 2\n1 2 0\n2 1 3\n"))
    assert read.nnz == 2


BAD_MATRIX_MARKET = {
    "empty": ("", ["line 1", "%%MatrixMarket"]),
    "banner in lower case": (HEADER.lower() + "1 1 0\n", ["line 1", "%%MatrixMarket"]),
    "no banner": ("2 2 1\n1 1 1\n", ["line 1", "%%MatrixMarket"]),
    "binary": (bytes(range(256)) * 8, ["line 1"]),
    "gzip": (b"\x1f\x8b\x08\x00" + b"\0" * 50, ["compressed"]),
    "vector": ("%%MatrixMarket vector coordinate real general\n", ["line 1", "vector"]),
    "unknown format": (HEADER.replace("coordinate", "sparse") + "1 1 0\n", ["line 1", "sparse"]),
    "complex": (HEADER.replace("real", "complex") + "1 1 1\n1 1 1 2\n", ["'complex'", "integer"]),
    "hermitian": (HEADER.replace("general", "hermitian") + "1 1 1\n1 1 1\n", ["'hermitian'"]),
    "pattern array": ("%%MatrixMarket matrix array pattern general\n1 1\n", ["pattern"]),
    "skew pattern": (
        "%%MatrixMarket matrix coordinate pattern skew-symmetric\n2 2 1\n2 1\n", ["skew-symmetric"]
    ),
    "short banner": ("%%MatrixMarket matrix coordinate real\n1 1 0\n", ["line 1"]),
    "no size line": (HEADER + "% only a comment\n", ["size line"]),
    "size line too short": (HEADER + "3 3\n1 1 1\n", ["line 2", "3 integers"]),
    "size line too long": (HEADER + "3 3 1 1\n1 1 1\n", ["line 2", "3 integers"]),
    "negative size": (HEADER + "-3 3 1\n1 1 1\n", ["line 2", "-3"]),
    "size no number": (HEADER + "3 x 1\n1 1 1\n", ["line 2", "x"]),
    "size beyond int64": (HEADER + "9" * 30 + " 3 1\n1 1 1\n", ["line 2"]),
    "rows beyond int32": (HEADER + "2147483648 3 1\n1 1 1\n", ["2147483648", "2147483647"]),
    "columns beyond int32": (HEADER + "3 99999999999 1\n1 1 1\n", ["99999999999"]),
    "more entries than places": (HEADER + "2 2 5\n" + "1 1 1\n" * 5, ["5 entries", "4 places"]),
    "truncated": (HEADER + "3 3 3\n1 1 100.25\n2 2 200.25\n", ["2 entries", "line 2 claims 3"]),
    "cut in a line": (HEADER + "3 3 2\n1 1 100\n2 2", ["line 4"]),
    "too many lines": (HEADER + "3 3 1\n1 1 1\n2 2 2\n", ["2 entries", "claims 1"]),
    "row too large": (HEADER + "3 3 2\n1 1 1\n4 2 2\n", ["Line 4", "Row index"]),
    "row 0": (HEADER + "3 3 2\n1 1 1\n0 2 2\n", ["Line 4", "Row index"]),
    "column negative": (HEADER + "3 3 2\n1 1 1\n2 -2 2\n", ["line 4", "-2"]),
    "index no number": (HEADER + "3 3 2\n1 1 1\n2 x 2\n", ["line 4", "2 x 2"]),
    "index a fraction": (HEADER + "3 3 2\n1 1 1\n2 1.5 2\n", ["line 4", "1.5"]),
    "value no number": (HEADER + "3 3 2\n1 1 1\n2 2 zz\n", ["line 4", "zz", "a real number"]),
    "number too many": (HEADER + "3 3 2\n1 1 1 9\n2 2 2\n", ["line 3", "and no more"]),
    "value missing": (HEADER + "3 3 2\n1 1 1.25\n2 2\n", ["line 4", "row, column, a real number"]),
    "garbage after a value": (HEADER + "3 3 1\n1 1 2.5abc\n", ["line 3", "2.5abc"]),
    "two points": (HEADER + "3 3 1\n1 1 2.5.1\n", ["line 3", "2.5.1"]),
    "comment among entries": (HEADER + "3 3 1\n% here\n1 1 2.5\n", ["line 3", "% here"]),
    "value beyond float64": (HEADER + "3 3 1\n1 1 1e999\n", ["too large"]),
    "integer beyond int64": (
        HEADER.replace("real", "integer") + f"3 3 1\n1 1 {'9' * 30}\n", ["out of range"]
    ),
    "fraction in an integer file": (
        HEADER.replace("real", "integer") + "3 3 2\n1 1 4\n2 2 1.5\n", ["line 4", "1.5", "integer"]
    ),
    "place twice": (HEADER + "3 3 3\n1 1 1\n2 3 1\n1 1 2\n", ["row 1, column 1", "more than once"]),
    "mirrored twice": (
        HEADER.replace("general", "symmetric") + "3 3 2\n2 1 1\n1 2 1\n", ["more than once"]
    ),
    "symmetric not square": (
        HEADER.replace("general", "symmetric") + "3 4 1\n1 1 1\n", ["3 x 4", "square"]
    ),
    "binary among entries": (HEADER.encode() + b"3 3 1\n1 1 \x00\x01\n", ["line 3", "x00"]),
    "array too short": (ARRAY + "2 2\n1\n2\n3000\n", ["3 entries", "claims 4"]),
    "array too long": (ARRAY + "2 2\n1\n2\n3\n4\n5\n", ["5 entries", "claims 4"]),
    "endless line": (HEADER + "3 " * 5000, ["line 2", "longer than"]),
}


@pytest.mark.parametrize("name", BAD_MATRIX_MARKET)
def test_malformed_matrix_market_is_refused(write, name):
    content, parts = BAD_MATRIX_MARKET[name]
    refused(io.read_matrix_market, write("bad.mtx", content), *parts)


@pytest.mark.parametrize(
    "sizes", ["2000000000 2000000000 4000000000000000000", "100000 100000 9999999999"]
)
def test_matrix_market_entries_that_cannot_fit_are_refused_before_allocation(write, sizes):
    path = write("huge.mtx", HEADER + sizes + "\n1 1 1\n")
    refused(io.read_matrix_market, path, sizes.split()[2], "bytes")


def test_matrix_market_array_that_cannot_fit_is_refused(write):
    text = "%%MatrixMarket matrix array real general\n2000000000 2000000000\n1\n"
    refused(io.read_matrix_market, write("huge.mtx", text), "bytes")


@pytest.mark.parametrize("read", [io.read_matrix_market, io.read_smtx, io.load_safetensors])
def test_missing_file_and_directory_are_refused(read, tmp_path):
    refused(read, tmp_path / "nothing.mtx", "cannot be read", "No such file")
    refused(read, tmp_path, "is a directory")
    with pytest.raises(OSError):
        read(tmp_path / "nothing.mtx")


def test_matrix_market_round_trip(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "a.mtx"
    for dtype in (np.float32, np.int8, np.float64):
        dense = (rng.standard_normal((9, 5)) * 100).astype(dtype) * (rng.random((9, 5)) < 0.5)
        io.write_matrix_market(path, scipy_sparse.csr_array(dense.astype(dtype)), comment="a test")
        read = io.read_matrix_market(path)
        assert np.array_equal(read.toarray().astype(dtype), dense)
        assert ("integer" in path.read_text().splitlines()[0]) == (dtype == np.int8)
    io.write_matrix_market(path, np.arange(6.0).reshape(2, 3))
    assert np.array_equal(io.read_matrix_market(path), np.arange(6.0).reshape(2, 3))


def test_matrix_market_of_sr_bcrs_keeps_every_existing_element(tmp_path):
    mask = np.zeros((5, 4), np.uint8)
    mask[1, 2] = mask[4, 0] = mask[0, 0] = 1
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    matrix = mc.SrBcrs.from_dense(values, mask=mask, vector_length=4)
    path = tmp_path / "a.mtx"
    io.write_matrix_market(path, matrix)
    read = io.read_matrix_market(path)
    assert read.nnz == 3 and np.array_equal(read.toarray(), values * mask)


def test_failed_write_leaves_the_old_file(tmp_path, write):
    path = write("a.safetensors", b"old")
    with pytest.raises(io.FileFormatError, match="complex128"):
        io.save_safetensors(path, {"x": np.ones(3, np.complex128)})
    assert open(path, "rb").read() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.safetensors"]
    refused(lambda p: io.save_safetensors(p, {}), tmp_path / "no" / "folder.safetensors", "written")


# ---- .smtx ---------------------------------------------------------------------------------------


def test_smtx_reads(write):
    matrix = io.read_smtx(write("a.smtx", "3, 4, 4\n0 2 2 4\n3 1 0 2\n"))
    assert matrix.dtype == np.float32 and matrix.has_sorted_indices
    assert np.array_equal(matrix.toarray(), [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]])


def test_smtx_values_from_a_seed(write):
    path = write("a.smtx", "2, 3, 3\n0 2 3\n0 2 1")
    first, second, other = (io.read_smtx(path, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.data, second.data) and not np.array_equal(first.data, other.data)
    assert np.all(first.data != 0)


@pytest.mark.parametrize("text", ["0, 5, 0\n0\n\n", "2, 0, 0\n0 0 0\n", "2 3 0\n0 0 0"])
def test_smtx_empty(write, text):
    assert io.read_smtx(write("a.smtx", text)).nnz == 0


BAD_SMTX = {
    "empty": ("", ["line 1"]),
    "binary": (bytes(range(256)) * 4, ["line 1"]),
    "header too short": ("3, 4\n0 0 0 0\n\n", ["line 1", "3, 4"]),
    "negative": ("3, -4, 1\n0 1 1 1\n0\n", ["line 1", "-4"]),
    "rows beyond int32": ("2147483648, 4, 1\n0 1\n0\n", ["2147483648"]),
    "more nonzeros than places": ("1, 2, 3\n0 3\n0 1 1\n", ["3 nonzeros", "has 2"]),
    "huge": ("1000000000, 1000000000, 999999999999\n0 1\n0\n", ["bytes"]),
    "rows that cannot fit": ("1000000000, 4, 1\n0 1\n0\n", ["1000000000 rows", "bytes"]),
    "offsets missing": ("3, 4, 4\n0 2 2\n3 1 0 2            \n", ["line 2", "3 row offsets", "4"]),
    "offset no number": ("3, 4, 4\n0 2 x 4\n3 1 0 2\n", ["line 2", "'x'"]),
    "offset from 1": ("3, 4, 4\n1 2 2 4\n3 1 0 2\n", ["line 2", "1 to 4"]),
    "offsets end early": ("3, 4, 4\n0 2 2 3\n3 1 0 2\n", ["line 2", "0 to 3"]),
    "offsets fall": ("3, 4, 4\n0 3 2 4\n3 1 0 2\n", ["line 2", "3 to 2", "row 1"]),
    "columns missing": ("3, 4, 4\n0 2 2 4\n3 1 0\n\n\n", ["line 3", "3 column indices", "4"]),
    "column too large": ("3, 4, 4\n0 2 2 4\n3 1 0 4\n", ["line 3", "column 4", "row 2"]),
    "column negative": ("3, 4, 4\n0 2 2 4\n3 1 0 -2\n", ["line 3", "-2"]),
    "column twice": ("3, 4, 4\n0 2 2 4\n3 3 0 2\n", ["column 3", "row 0", "twice"]),
    "column beyond int64": (f"1, 4, 1\n0 1\n{'9' * 30}\n", ["line 3", "below"]),
    "fourth line": ("1, 4, 1\n0 1\n0\n5 6\n", ["three lines"]),
}


@pytest.mark.parametrize("name", BAD_SMTX)
def test_malformed_smtx_is_refused(write, name):
    content, parts = BAD_SMTX[name]
    refused(io.read_smtx, write("bad.smtx", content), *parts)


# ---- safetensors ---------------------------------------------------------------------------------


def every_type():
    rng = np.random.default_rng(2)
    types = [
        np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.float16, np.uint32, np.int32,
        np.float32, np.uint64, np.int64, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    ]
    arrays = {np.dtype(t).name: (rng.standard_normal((3, 5)) * 4).astype(t) for t in types}
    return {**arrays, "scalar": np.float32(3), "empty": np.zeros((0, 4), np.int8)}


def test_safetensors_round_trip(tmp_path):
    path = tmp_path / "a.safetensors"
    arrays = every_type()
    io.save_safetensors(path, arrays, {"key": "text \N{GREEK SMALL LETTER MU}"})
    read = io.load_safetensors(path)
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()
    assert list(io.load_safetensors(path, ["int8"])) == ["int8"]
    refused(lambda p: io.load_safetensors(p, ["nothing"]), path, "'nothing'", "'float64'")


def test_safetensors_agrees_with_the_format_s_own_package(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    from safetensors.numpy import save_file

    arrays = {k: v for k, v in every_type().items() if not k.startswith(("bfloat", "float8"))}
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    io.save_safetensors(ours, arrays, {"a": "b"})
    with safetensors.safe_open(ours, "numpy") as file:
        assert file.metadata() == {"a": "b"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
    save_file({k: np.asarray(v) for k, v in arrays.items()}, theirs)
    for name, array in io.load_safetensors(theirs).items():
        np.testing.assert_array_equal(array, arrays[name])


def container(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


ENTRY = b'"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
DUPLICATE = b"{" + ENTRY + b"," + ENTRY + b"}"

BAD_SAFETENSORS = {
    "empty": (b"", ["0 bytes"]),
    "too short": (b"abc", ["3 bytes"]),
    "header too long": (container({}, length=1 << 60), ["header of", "1152921504606846976"]),
    "header cut": (container(tensor(), length=5000), ["header of 5000 bytes"]),
    "binary": (bytes(range(256)), ["header of"]),
    "no JSON": (container(b"\xff\xfe!!"), ["JSON"]),
    "deep JSON": (container(b"[" * 100000), ["JSON"]),
    "no object": (container(b"[1]"), ["JSON object"]),
    "name twice": (container(DUPLICATE, b"\0"), ["'x'", "twice"]),
    "tensor no object": (container({"x": 5}), ["'x'", "JSON object"]),
    "unknown dtype": (container(tensor("F7"), b"\0" * 8), ["'F7'", "F32"]),
    "dtype no text": (container(tensor(["F32"]), b"\0" * 8), ["dtype", "F32"]),
    "negative extent": (container(tensor(shape=(-2,)), b"\0" * 8), ["[-2]"]),
    "extent a fraction": (container(tensor(shape=(2.0,)), b"\0" * 8), ["[2.0]"]),
    "one offset": (container(tensor(offsets=(0,)), b"\0" * 8), ["data_offsets [0]"]),
    "shape lies": (container(tensor(shape=(3,)), b"\0" * 8), ["8 bytes", "takes 12"]),
    "shape overflows": (
        container(tensor(shape=(1 << 62, 1 << 62)), b"\0" * 8), ["takes"]
    ),
    "offsets backwards": (container(tensor(offsets=(8, 0)), b"\0" * 8), ["-8 bytes"]),
    "truncated data": (container(tensor(), b"\0" * 7), ["8 bytes", "7 follow", "truncated"]),
    "trailing data": (container(tensor(), b"\0" * 9), ["9 follow", "nothing may follow"]),
    "gap": (container(tensor(offsets=(4, 12)), b"\0" * 12), ["byte 4", "gap"]),
    "overlap": (
        container({**tensor(), "y": tensor(offsets=(4, 12))["x"]}, b"\0" * 12), ["'y'", "overlap"]
    ),
    "metadata no map": (container({"__metadata__": [1]}), ["__metadata__"]),
    "metadata no text": (container({"__metadata__": {"a": 1}}), ["__metadata__", "strings"]),
}


@pytest.mark.parametrize("name", BAD_SAFETENSORS)
def test_malformed_safetensors_is_refused(write, name):
    content, parts = BAD_SAFETENSORS[name]
    refused(io.load_safetensors, write("bad.safetensors", content), *parts)
