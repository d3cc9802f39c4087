# SPDX-License-Identifier: Apache-2.0
"""SR-BCRS matrices in files: round trips of every type, and files that are truncated or lie."""

import json
import zipfile

import numpy as np
import pytest

import magicube as mc
from magicube import _oracle as oracle
from magicube import io
from magicube._io import safetensors
from magicube._io.sr_bcrs import KEY

SUFFIXES = ["safetensors", "npz"]
ARRAYS = ("row_begin", "row_end", "col_indices", "values", "element_mask")


def make(dtype="fp32", shape=(21, 30), vector_length=8, **how):
    """A random matrix whose elements exist one by one, so that it has an element mask."""
    rng = np.random.default_rng(7)
    values = oracle.random_values(rng, dtype, shape)
    array = mc.pack_int4(values) if dtype == "int4" else values
    return mc.SrBcrs.from_dense(
        array, mask=rng.random(shape) < 0.2, vector_length=vector_length,
        dtype="int12" if dtype == "int12" else None, **how,
    )


def same(first, second):
    assert (first.shape, first.dtype) == (second.shape, second.dtype)
    assert (first.vector_length, first.stride) == (second.vector_length, second.stride)
    for part in ARRAYS:
        one, two = getattr(first, part), getattr(second, part)
        assert (one is None) == (two is None), part
        if one is not None:
            assert one.dtype == two.dtype and one.shape == two.shape, part
            assert one.tobytes() == two.tobytes(), part


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", list(oracle.STORAGE))
def test_round_trip_of_every_type(tmp_path, suffix, dtype):
    for vector_length, index in ((1, "int64"), (8, "int32"), (64, "int64")):
        matrix = make(dtype, vector_length=vector_length, index_dtype=index)
        path = tmp_path / f"a.{suffix}"
        matrix.save(path)
        same(matrix, mc.SrBcrs.load(path))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip_of_patterns_batches_and_empty_matrices(tmp_path, suffix):
    single = make()
    shared = single.with_values(np.stack([single.values, single.values * 2]))
    whole = mc.SrBcrs.from_dense(np.eye(16, dtype=np.float32))
    assert whole.element_mask is None
    for matrix in (
        single.with_values(None), make(shape=(3, 21, 30)), shared, whole, make(shape=(0, 5)),
        make(shape=(5, 0)), make(shape=(0, 0)),
    ):
        path = tmp_path / f"a.{suffix}"
        matrix.save(path)
        same(matrix, mc.SrBcrs.load(path))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_several_matrices_and_other_arrays(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    first, second = make("int8"), make("bf16", vector_length=2)
    io.save_sr_bcrs(path, {"one": first, "two": second}, {"one.scale": np.ones(21, np.float32)})
    assert io.list_sr_bcrs(path) == ["one", "two"]
    same(first, io.load_sr_bcrs(path, "one"))
    same(second, io.load_sr_bcrs(path, "two"))
    with pytest.raises(io.FileFormatError, match="several matrices.*'one', 'two'"):
        io.load_sr_bcrs(path)
    with pytest.raises(io.FileFormatError, match="no matrix 'three'"):
        io.load_sr_bcrs(path, "three")
    with pytest.raises(io.FileFormatError, match="one.values"):
        io.save_sr_bcrs(path, {"one": first}, {"one.values": np.ones(1)})


def test_archives_refuse_other_arrays_of_types_that_they_do_not_have(tmp_path):
    extra = {"x": np.ones(3, oracle.FLOAT_TYPES["bf16"])}
    with pytest.raises(io.FileFormatError, match="'x' is of bfloat16.*safetensors"):
        io.save_sr_bcrs(tmp_path / "a.npz", make(), extra)
    io.save_sr_bcrs(tmp_path / "a.safetensors", make(), extra)
    assert io.load_safetensors(tmp_path / "a.safetensors", ["x"])["x"].dtype == extra["x"].dtype


def test_the_ending_names_the_format(tmp_path):
    with pytest.raises(mc.MagicubeError, match=r"'\.pt'.*\.safetensors"):
        make().save(tmp_path / "a.pt")
    with pytest.raises(mc.MagicubeError, match=r"'\.pt'.*\.safetensors"):
        mc.SrBcrs.load(tmp_path / "a.pt")


def test_header_says_what_it_holds(tmp_path):
    path = tmp_path / "a.safetensors"
    make("int8", vector_length=4).save(path)
    described = json.loads(safetensors.Container(path).metadata[KEY])
    assert described == {
        "version": 1,
        "matrices": {
            "": {
                "shape": [21, 30], "vector_length": 4, "stride": 32, "dtype": "int8",
                "index_dtype": "int64",
            }
        },
    }


# ---- files that are wrong ------------------------------------------------------------------------


def rewrite(path, entry=None, arrays=None, text=None):
    """Writes a matrix with changes to its description and arrays."""
    matrix = make("int8", vector_length=8)
    described = {
        "shape": list(matrix.shape), "vector_length": 8, "stride": matrix.stride, "dtype": "int8",
        "index_dtype": "int64", **(entry or {}),
    }
    stored = {part: getattr(matrix, part) for part in ARRAYS}
    for part, change in (arrays or {}).items():
        stored[part] = None if change is None else change(stored[part].copy())
    stored = {part: array for part, array in stored.items() if array is not None}
    text = json.dumps({"version": 1, "matrices": {"": described}}) if text is None else text
    if path.suffix == ".npz":
        np.savez(path, **stored, **{KEY: np.frombuffer(text.encode(), np.uint8)})
    else:
        safetensors.write(path, stored, {KEY: text})


def put(index, value):
    """A change of one entry of an array."""

    def change(array):
        array[index] = value
        return array

    return change


LIES = {
    "no JSON": (dict(text="{"), ["JSON"]),
    "version": (dict(text='{"version": 2, "matrices": {}}'), ["version 2", "reads 1"]),
    "no map": (dict(text='{"version": 1, "matrices": [1]}'), ["[1]"]),
    "no matrix": (dict(text='{"version": 1, "matrices": {}}'), ["no SR-BCRS matrix"]),
    "entry no object": (dict(text='{"version": 1, "matrices": {"": 3}}'), ["JSON object"]),
    "shape missing": (dict(entry={"shape": None}), ["shape None"]),
    "shape of one": (dict(entry={"shape": [21]}), ["[21]"]),
    "shape negative": (dict(entry={"shape": [-21, 30]}), ["[-21, 30]"]),
    "shape huge": (dict(entry={"shape": [1 << 40, 30]}), ["2147483647"]),
    "more rows than arrays": (dict(entry={"shape": [1 << 30, 30]}), ["row_begin"]),
    "fewer columns": (dict(entry={"shape": [21, 3]}), ["malformed"]),
    "vector_length": (dict(entry={"vector_length": 3}), ["vector_length"]),
    "vector_length text": (dict(entry={"vector_length": "8"}), ["vector_length '8'"]),
    "other vector_length": (dict(entry={"vector_length": 16}), ["malformed"]),
    "stride": (dict(entry={"stride": 5}), ["stride"]),
    "stride huge": (dict(entry={"stride": 1 << 62}), ["stride"]),
    "dtype unknown": (dict(entry={"dtype": "int9"}), ["'int9'"]),
    "other dtype": (dict(entry={"dtype": "fp16"}), ["'values'", "int8", "float16"]),
    "dtype null": (dict(entry={"dtype": None}), ["values", "null"]),
    "index_dtype": (dict(entry={"index_dtype": "int8"}), ["index_dtype 'int8'"]),
    "other index_dtype": (dict(entry={"index_dtype": "int32"}), ["'row_begin'", "int64", "int32"]),
    "row_begin missing": (dict(arrays={"row_begin": None}), ["lacks", "'row_begin'"]),
    "values missing": (dict(arrays={"values": None}), ["lacks", "'values'"]),
    "row_begin short": (dict(arrays={"row_begin": lambda a: a[:-1]}), ["row_begin"]),
    "row_begin two axes": (dict(arrays={"row_begin": lambda a: a[None]}), ["row_begin"]),
    "values short": (dict(arrays={"values": lambda a: a[:-1]}), ["values"]),
    "mask short": (dict(arrays={"element_mask": lambda a: a[:-1]}), ["element_mask"]),
    "columns of int64": (
        dict(arrays={"col_indices": lambda a: a.astype(np.int64)}), ["col_indices"]
    ),
    "column out of range": (dict(arrays={"col_indices": put(0, 30)}), ["col_indices"]),
    "column negative": (dict(arrays={"col_indices": put(0, -2)}), ["col_indices"]),
    "columns not ascending": (dict(arrays={"col_indices": put(1, 0)}), ["col_indices"]),
    "row_begin no multiple": (dict(arrays={"row_begin": put(1, 1)}), ["row_begin"]),
    "row_begin out of range": (dict(arrays={"row_begin": put(1, 1 << 40)}), ["row_begin"]),
    "row_end negative": (dict(arrays={"row_end": put(0, -1)}), ["row_end"]),
    "row_end out of range": (dict(arrays={"row_end": put(2, 1 << 40)}), ["row_end"]),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", LIES)
def test_files_that_lie_are_refused(tmp_path, suffix, name):
    changes, parts = LIES[name]
    path = tmp_path / f"a.{suffix}"
    rewrite(path, **changes)
    with pytest.raises(io.FileFormatError) as caught:
        mc.SrBcrs.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and all(part in text for part in parts), text
    rewrite(path)
    mc.SrBcrs.load(path)  # the same file without the lie


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_truncated_anywhere_is_refused(tmp_path, suffix):
    path, cut = tmp_path / f"a.{suffix}", tmp_path / f"cut.{suffix}"
    make("int8").save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(io.FileFormatError):
            mc.SrBcrs.load(cut)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_bytes_never_do_worse_than_an_error(tmp_path, suffix):
    path, bad = tmp_path / f"a.{suffix}", tmp_path / f"bad.{suffix}"
    matrix = make("int8")
    matrix.save(path)
    rng = np.random.default_rng(8)
    whole = bytearray(path.read_bytes())
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = int(rng.integers(256))
        bad.write_bytes(damaged)
        try:
            mc.SrBcrs.load(bad).to_dense()
        except io.FileFormatError as error:
            assert str(error).startswith(str(bad))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_files_are_refused(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    for content in (b"", b"text", bytes(range(256)) * 20):
        path.write_bytes(content)
        with pytest.raises(io.FileFormatError):
            mc.SrBcrs.load(path)
    if suffix == "npz":
        np.savez(path, x=np.ones(3))
    else:
        io.save_safetensors(path, {"x": np.ones(3)})
    with pytest.raises(io.FileFormatError, match="no SR-BCRS matrix"):
        mc.SrBcrs.load(path)
    assert io.list_sr_bcrs(path) == []
    path.unlink()
    with pytest.raises(OSError, match="cannot be read"):
        mc.SrBcrs.load(path)


def member(shape, data=b"\0" * 64, descr="<f4"):
    head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data


@pytest.mark.parametrize(
    "content, part",
    [
        (member((10**12,)), "holds 64"),
        (member((-4,)), "holds 64"),
        (member((4, 4), descr="|O"), "Python objects"),
        (member((4, 4))[:20], "no NumPy array"),
        (b"text", "no NumPy array"),
    ],
)
def test_archive_members_that_lie_are_refused(tmp_path, content, part):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("values.npy", content)
    with pytest.raises(io.FileFormatError, match=part):
        mc.SrBcrs.load(path)


def test_archive_with_strange_members_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("values.npy", member((16,)))
    with pytest.raises(io.FileFormatError, match="stored or deflated"):
        mc.SrBcrs.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("values.txt", "text")
    with pytest.raises(io.FileFormatError, match="NAME.npy"):
        mc.SrBcrs.load(path)
