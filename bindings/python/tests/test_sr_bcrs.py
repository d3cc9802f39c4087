# SPDX-License-Identifier: Apache-2.0
"""The format: layout as documented, conversions there and back, files, Python protocol."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import magicube as mc
import ml_dtypes
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st

scipy_sparse = pytest.importorskip("scipy.sparse")
VALUE_TYPES = ["int4", "int8", "uint8", "int12", "int16", "int32", "fp16", "bf16", "fp32", "e4m3"]


def check_layout(A: mc.SrBcrs, dense: np.ndarray, mask: np.ndarray | None = None) -> None:
    """Every array is what formats.md lays down for this matrix."""
    expected = ref.encode(dense, A.vector_length, A.stride, mask)
    np.testing.assert_array_equal(A.row_begin, expected["row_begin"])
    np.testing.assert_array_equal(A.row_end, expected["row_end"])
    np.testing.assert_array_equal(A.col_indices, expected["col_indices"])
    if A.values is not None:
        ref.same_bits(ref.unpacked(A), expected["values"])
    if A.element_mask is not None:
        np.testing.assert_array_equal(A.element_mask, expected["element_mask"])
        assert A.nnz == int((dense != 0).sum() if mask is None else mask.sum())


def test_issue_18_documented_example() -> None:
    """The example of the documentation, value by value."""
    dense = np.zeros((4, 10), np.int16)
    dense[0, [1, 5, 9]], dense[1, [1, 5, 9]] = [10, 20, 30], [11, 21, 31]
    dense[2, 4], dense[3, 4] = 40, 41
    A = mc.SrBcrs.from_dense(dense, vector_length=2, stride=16)
    assert A.row_begin.tolist() == [0, 16] and A.row_end.tolist() == [3, 17]
    assert A.col_indices.tolist() == [1, 5, 9] + [-1] * 13 + [4] + [-1] * 15
    assert A.values is not None
    assert A.values.tolist() == (
        [10, 20, 30] + [0] * 13 + [11, 21, 31] + [0] * 13 + [40] + [0] * 15 + [41] + [0] * 15
    )
    assert (A.slots, A.num_vectors, A.nnz, A.density) == (32, 4, 8, 0.2)


@pytest.mark.parametrize("V", ref.VECTOR_LENGTHS)
@pytest.mark.parametrize("dtype", VALUE_TYPES)
def test_from_dense_and_back(rng, dtype: str, V: int) -> None:
    shape = (2 * V + 3, 71)
    dense = np.where(ref.keep(rng, shape, V, 0.4), ref.values(rng, dtype, shape), 0)
    dense = dense.astype(ref.STORAGE[dtype])
    A = ref.sparse(dense, dtype, V)
    assert A.shape == shape and A.dtype == dtype and A.vector_length == V
    assert A.stride == ref.default_stride(V, dtype) and A.element_mask is None
    check_layout(A, dense)
    back = A.to_dense()
    ref.same_bits(back.unpack() if dtype == "int4" else back, dense)
    back = A.to_dense(order="F")
    assert isinstance(back, mc.Int4Array) or back.flags.f_contiguous
    ref.same_bits(back.unpack() if dtype == "int4" else back, dense)
    ref.same_bits(A.to_mask(), (ref.decode(A, np.ones(A.slots * V, np.uint8))))
    assert A.nnz == int(A.to_mask().sum())


@pytest.mark.parametrize("S", ref.STRIDES)
@pytest.mark.parametrize("V", [1, 2, 8, 64])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_masks_keep_zeros_and_single_elements(rng, V: int, S: int, index: str) -> None:
    shape = (V + 5, 40)
    dense = ref.values(rng, "int16", shape)
    mask = rng.random(shape) < 0.3
    dense = np.where(mask, dense, 0).astype(np.int16)
    dense[rng.random(shape) < 0.2] = 0
    for form in (mask, mask.astype(np.uint8) * 7, np.asfortranarray(mask)):
        A = mc.SrBcrs.from_dense(dense, vector_length=V, stride=S, mask=form, index_dtype=index)
        assert A.row_begin.dtype == A.row_end.dtype == np.dtype(index)
        check_layout(A, dense, mask)
        np.testing.assert_array_equal(A.to_mask(), mask)
        np.testing.assert_array_equal(A.to_dense(), dense)
        pattern = mc.SrBcrs.from_mask(form, vector_length=V, stride=S, index_dtype=index)
        check_layout(pattern, dense, mask)
        assert pattern.values is None and pattern.dtype is None


def test_whole_vectors_need_no_element_mask(rng) -> None:
    mask = ref.keep(rng, (21, 30), 8, 0.4)
    assert mc.SrBcrs.from_mask(mask).element_mask is None
    mask[0, np.flatnonzero(mask[0])[:1]] ^= mask[:8].any()
    partial = mc.SrBcrs.from_mask(mask)
    assert partial.element_mask is not None and partial.nnz == mask.sum()


def test_batch_of_patterns(rng) -> None:
    shape = (3, 13, 25)
    dense = np.where(ref.keep(rng, shape, 4, 0.4), ref.values(rng, "int8", shape), np.int8(0))
    A = mc.SrBcrs.from_dense(dense, vector_length=4)
    assert A.shape == shape and A.batch_count == 3 and A.ndim == 3
    assert A.row_begin.shape == (12,) and A.nnz == int(A.to_mask().sum())
    np.testing.assert_array_equal(A.to_dense(), dense)
    np.testing.assert_array_equal(A.to_dense(order="F"), dense)
    mc.validate(A)
    ones = mc.SrBcrs.from_dense(dense[:1], vector_length=4)
    assert ones.shape == (1, 13, 25)
    np.testing.assert_array_equal(ones.to_dense(), dense[:1])
    none = mc.SrBcrs.from_dense(dense[:0], vector_length=4)
    assert none.shape == (0, 13, 25) and none.to_dense().shape == (0, 13, 25) and none.nnz == 0


def test_batch_of_values(rng) -> None:
    mask = rng.random((12, 20)) < 0.4
    pattern = mc.SrBcrs.from_mask(mask, vector_length=4, dtype="int16")
    values = ref.values(rng, "int16", (3, pattern.slots * 4))
    dense = np.stack([np.where(mask, ref.decode(pattern, v), 0) for v in values])
    stacked = np.stack([ref.encode(d, 4, pattern.stride, mask)["values"] for d in dense])
    A = pattern.with_values(stacked)
    assert A.shape == (3, 12, 20) and A.nnz == 3 * mask.sum() and A.density == pytest.approx(
        mask.mean()
    )
    np.testing.assert_array_equal(A.to_dense(), dense)
    np.testing.assert_array_equal(A.to_mask(), np.broadcast_to(mask, A.shape))
    assert A.with_values(None).shape == (12, 20)
    assert A.astype("int12" if abs(stacked).max() < 2048 else "int16").shape == A.shape
    floats = pattern.with_values(stacked.astype(np.float32))
    half = floats.astype("bf16")
    assert half.shape == A.shape and half.dtype == "bf16"
    ref.same_bits(half.to_dense(), dense.astype(np.float32).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("source", ["fp32", "fp16", "bf16", "e4m3"])
@pytest.mark.parametrize("target", ["fp32", "fp16", "bf16", "e4m3"])
def test_floating_types_convert_rounded_to_even(rng, source: str, target: str) -> None:
    dense = ref.values(rng, source, (19, 40))
    ties = [1.0625, 1.1875, 0, -0.0, 2.0**-9, 3 * 2.0**-10, 240, 17]
    dense[0, :8] = np.array(ties).astype(dense.dtype)
    expected = dense.astype(np.float32).astype(ref.STORAGE[target])
    mask = np.ones(dense.shape, bool)
    direct = mc.SrBcrs.from_dense(dense, mask=mask, dtype=target)
    assert direct.dtype == target
    ref.same_bits(direct.to_dense(), expected)
    ref.same_bits(mc.SrBcrs.from_dense(dense, mask=mask).astype(target).to_dense(), expected)


def test_convert_between_variants(rng) -> None:
    mask = rng.random((45, 60)) < 0.2
    dense = np.where(mask, ref.values(rng, "fp16", mask.shape), 0).astype(np.float16)
    A = mc.SrBcrs.from_dense(dense, vector_length=8, mask=mask)
    for V in ref.VECTOR_LENGTHS:
        for S in (None, 1, 32):
            B = A.convert(vector_length=V, stride=S, index_dtype="int32")
            assert B.row_begin.dtype == np.int32
            assert B.stride == (S or (A.stride if V == 8 else ref.default_stride(V, "fp16")))
            check_layout(B, dense, mask)
            np.testing.assert_array_equal(B.to_mask(), mask)
    pattern = A.with_values(None).convert(vector_length=2)
    assert pattern.values is None
    np.testing.assert_array_equal(pattern.to_mask(), mask)
    with pytest.raises(mc.InvalidValueError):
        A.convert(dtype="int8")


def test_int12_is_a_label_that_is_checked(rng) -> None:
    dense = ref.values(rng, "int12", (9, 20))
    A = mc.SrBcrs.from_dense(dense, dtype="int12")
    assert A.dtype == "int12" and A.values is not None and A.values.dtype == np.int16
    assert A.astype("int16").dtype == "int16"
    assert A.astype("int16").astype("int12").dtype == "int12"
    dense[0, 0] = 2048
    wide = mc.SrBcrs.from_dense(dense)
    with pytest.raises(mc.InvalidValueError, match="2048.*int12 holds"):
        wide.astype("int12")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dia"])
@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "fp32"])
def test_from_scipy(rng, kind: str, matrix: bool, dtype: str) -> None:
    shape = (26, 35)
    dense = np.where(rng.random(shape) < 0.2, ref.values(rng, dtype, shape), 0)
    dense = dense.astype(ref.STORAGE[dtype])
    make = scipy_sparse.coo_matrix if matrix else scipy_sparse.coo_array
    s = make(dense).asformat(kind)
    for V in (1, 4, 16):
        A = mc.SrBcrs.from_scipy(s, vector_length=V)
        mc.validate(A)
        assert A.dtype == dtype and A.nnz == s.tocsr().nnz if kind != "bsr" else A.nnz >= s.nnz
        np.testing.assert_array_equal(A.to_dense(), dense)


def test_stored_zeros_exist(rng) -> None:
    data, columns = np.array([0, 5, 0], np.int8), np.array([3, 1, 70000])
    s = scipy_sparse.csr_array((data, columns, np.array([0, 1, 3])), shape=(2, 80000))
    A = mc.SrBcrs.from_scipy(s, vector_length=2)
    assert A.nnz == 3 and A.num_vectors == 3
    assert A.to_scipy().nnz == 3
    with_duplicates = scipy_sparse.coo_array(
        (np.array([1, 2, 4], np.int8), (np.array([0, 0, 1]), np.array([7, 7, 2]))), shape=(2, 9)
    ).tocsr()
    raw = scipy_sparse.csr_array(
        (np.array([1, 2], np.int8), np.array([7, 7]), np.array([0, 2])), shape=(1, 9)
    )
    assert mc.SrBcrs.from_scipy(raw).to_dense()[0, 7] == 3
    assert raw.nnz == 2, "the caller's matrix stays as it is"
    assert mc.SrBcrs.from_scipy(with_duplicates).to_dense()[0, 7] == 3
    unsorted = scipy_sparse.csr_array(
        (np.array([1, 2], np.int8), np.array([7, 3]), np.array([0, 2])), shape=(1, 9)
    )
    assert mc.SrBcrs.from_scipy(unsorted).to_dense()[0, [3, 7]].tolist() == [2, 1]
    assert unsorted.indices.tolist() == [7, 3]


def test_issue_18_columns_above_65535(rng) -> None:
    K = 200_003
    columns = np.unique(rng.integers(0, K, 500))
    columns = np.unique(np.concatenate((columns, [65535, 65536, 131072, K - 1])))
    data = ref.values(rng, "int8", (columns.size,))
    s = scipy_sparse.csr_array((data, columns, np.array([0, columns.size])), shape=(1, K))
    B = ref.values(rng, "int8", (K, 3))
    for V in (1, 8):
        A = mc.SrBcrs.from_scipy(s, vector_length=V)
        assert A.col_indices.max() == K - 1
        expected = ref.exact_product(data[None], B[columns])
        ref.same_bits(A @ B, ref.epilogue(expected, "int32"))


@pytest.mark.parametrize("dtype", VALUE_TYPES)
@pytest.mark.parametrize("format", ["csr", "bsr", "coo", "csc"])
def test_to_scipy(rng, dtype: str, format: str) -> None:
    shape = (24, 35)
    dense = np.where(ref.keep(rng, shape, 8, 0.4), ref.values(rng, dtype, shape), 0)
    A = ref.sparse(dense.astype(ref.STORAGE[dtype]), dtype, 8)
    s = A.to_scipy(format)
    assert s.format == format and s.shape == shape
    np.testing.assert_array_equal(s.toarray(), dense.astype(np.float64))
    if format == "csr":
        assert s.nnz == A.nnz and s.has_sorted_indices
    if format == "bsr":
        assert s.blocksize == (8, 1)
        wide = A.to_scipy("bsr", blocksize=(4, 5))
        assert wide.blocksize == (4, 5)
        np.testing.assert_array_equal(wide.toarray(), dense.astype(np.float64))
        with pytest.raises(mc.InvalidValueError, match="divide"):
            A.to_scipy("bsr", blocksize=(5, 5))


def test_scipy_floats_name_their_type(rng) -> None:
    s = scipy_sparse.random_array((20, 30), density=0.3, rng=rng)
    with pytest.raises(mc.InvalidValueError, match="dtype='fp32'"):
        mc.SrBcrs.from_scipy(s)
    A = mc.SrBcrs.from_scipy(s, dtype="fp32")
    ref.same_bits(A.to_dense(), s.toarray().astype(np.float32))
    with pytest.raises(mc.MagicubeError):
        mc.SrBcrs.from_scipy(s.astype(np.int64))
    with pytest.raises(mc.NotSupportedError, match="batch"):
        mc.SrBcrs.from_dense(np.ones((2, 8, 8), np.int8)).to_scipy()


@settings(max_examples=150)
@given(
    rows=st.integers(0, 70),
    cols=st.integers(0, 50),
    V=st.sampled_from(ref.VECTOR_LENGTHS),
    S=st.sampled_from([None, *ref.STRIDES]),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    order=st.sampled_from("CF"),
    seed=st.integers(0, 2**32 - 1),
)
def test_property_of_conversions(
    rows: int, cols: int, V: int, S: int | None, density: float, order: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, cols)) < density
    dense = np.where(mask, ref.values(rng, "int8", (rows, cols)), 0).astype(np.int8)
    A = mc.SrBcrs.from_dense(
        ref.stored(dense, "int8", order, 2), vector_length=V, stride=S, mask=mask
    )
    check_layout(A, dense, mask)
    mc.validate(A)
    s = A.to_scipy()
    np.testing.assert_array_equal(s.toarray(), dense)
    assert s.nnz == mask.sum() == A.nnz
    again = mc.SrBcrs.from_scipy(s, vector_length=V, stride=A.stride)
    for name in ("row_begin", "row_end", "col_indices", "values"):
        np.testing.assert_array_equal(getattr(again, name), getattr(A, name))
    np.testing.assert_array_equal(again.to_mask(), A.to_mask())


@pytest.mark.parametrize("end", [".safetensors", ".npz"])
@pytest.mark.parametrize("dtype", [*VALUE_TYPES, None])
def test_save_and_load(rng, tmp_path, dtype: str | None, end: str) -> None:
    shape = (19, 30)
    kind = dtype or "int8"
    dense = np.where(ref.keep(rng, shape, 4, 0.5), ref.values(rng, kind, shape), 0)
    mask = rng.random(shape) < 0.3
    A = ref.sparse(dense.astype(ref.STORAGE[kind]), kind, 4, mask=mask)
    A = A if dtype else A.with_values(None)
    path = tmp_path / f"matrix{end}"
    A.save(path)
    B = mc.SrBcrs.load(path)
    assert (B.shape, B.dtype, B.vector_length, B.stride) == (
        A.shape, A.dtype, A.vector_length, A.stride,
    )
    for name in ("row_begin", "row_end", "col_indices", "values", "element_mask"):
        left, right = getattr(A, name), getattr(B, name)
        assert (left is None) == (right is None)
        if left is not None:
            assert left.dtype == right.dtype and left.tobytes() == right.tobytes()
    with pytest.raises(mc.MagicubeError):
        A.save(tmp_path / "matrix.txt")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(mc.MagicubeError):
        mc.SrBcrs.load(path)


def test_python_protocol(rng) -> None:
    dense = np.where(ref.keep(rng, (16, 40), 8, 0.4), ref.values(rng, "int8", (16, 40)), 0)
    A = mc.SrBcrs.from_dense(dense.astype(np.int8))
    assert repr(A) == (
        f"SrBcrs(shape=(16, 40), dtype=int8, vector_length=8, stride=32, nnz={A.nnz}, "
        f"density={A.density:.4g})"
    )
    assert mc.sparse.SrBcrs is mc.SrBcrs
    for again in (pickle.loads(pickle.dumps(A)), copy.deepcopy(A)):
        np.testing.assert_array_equal(again.to_dense(), A.to_dense())
    arrays: list[Any] = [A.row_begin, A.row_end, A.col_indices, A.values]
    assert A.nbytes == sum(x.nbytes for x in arrays)
    for pattern in arrays[:3]:
        with pytest.raises(ValueError, match="read-only"):
            pattern[:1] = 0
    with pytest.raises(TypeError):
        np.ones((3, 16), np.int8) @ A


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (3, 0, 5), (3, 5, 0)])
@pytest.mark.parametrize("dtype", ["int8", "int4", "fp32"])
def test_issue_06_empty_matrices(shape: tuple[int, ...], dtype: str, tmp_path) -> None:
    A = ref.sparse(np.zeros(shape, ref.STORAGE[dtype]), dtype, 8)
    assert A.nnz == 0 and A.slots == 0 and A.density == 0.0 and A.shape == shape
    mc.validate(A)
    assert A.to_dense().shape == shape and A.to_mask().shape == shape
    A.save(tmp_path / "a.npz")
    assert mc.SrBcrs.load(tmp_path / "a.npz").shape == shape
    if len(shape) == 2:
        assert A.to_scipy().shape == shape
    assert mc.SrBcrs.from_mask(np.zeros(shape, bool)).shape == shape
    assert A.convert(vector_length=2).shape == shape
