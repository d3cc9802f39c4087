# SPDX-License-Identifier: Apache-2.0
"""V:N:M matrices: conversions against the format as it is written, products against integers."""

from __future__ import annotations

import pickle
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from magicube.io import FileFormatError

TYPES = ["int8", "fp16", "bf16", "fp32", "e4m3"]
VECTOR_LENGTHS = [1, 16, 32, 64, 128, 256]


def random_vnm(
    rng: np.random.Generator, dtype: str, rows: int, cols: int, V: int, m: int, n: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Values (zeros among them) and which elements exist, a V:n:m matrix as its rule reads."""
    budget = n + 2 if n > 3 else 4
    values = ref.values(rng, dtype, (rows, cols))
    exists = np.zeros((rows, cols), bool)
    for top in range(0, rows, V):
        for left in range(0, cols, m):
            width = min(m, cols - left)
            chosen = rng.choice(width, min(budget, width), replace=False)
            for row in range(top, min(rows, top + V)):
                count = rng.integers(min(n, len(chosen)) + 1)
                exists[row, left + rng.choice(chosen, count, replace=False)] = True
    return np.where(exists, values, values.dtype.type(0)), exists


def unpack(A: mc.Vnm) -> np.ndarray:
    """The dense matrix, read from the arrays one by one; what repeats a column is added."""
    rows, cols = A.shape
    groups, budget = -(-cols // A.m), A.n + 2 if A.n > 3 else 4
    dense = np.zeros((rows, cols), np.float64)
    assert A.values is not None
    for row in range(rows):
        for group in range(groups):
            for i in range(A.n):
                if A.n == 2:
                    byte = int(A.metadata[row * -(-groups // 2) + group // 2])
                    place = byte >> (4 * (group % 2) + 2 * i) & 3
                else:
                    place = int(A.metadata[(row * groups + group) * A.n + i])
                block = row // A.vector_length
                column = int(A.column_loc[(block * groups + group) * budget + place])
                value = A.values[(row * groups + group) * A.n + i]
                dense[row, group * A.m + column] += float(value)
    return dense


@pytest.mark.parametrize("V", VECTOR_LENGTHS)
@pytest.mark.parametrize(("m", "n"), [(4, 2), (7, 2), (16, 2), (300, 2), (9, 3), (12, 5)])
def test_conversions(rng, V: int, m: int, n: int) -> None:
    dtype = TYPES[(V + m) % 5]
    rows, cols = V + 5, 41
    W, exists = random_vnm(rng, dtype, rows, cols, V, m, n)
    A = mc.Vnm.from_dense(W, m=m, vector_length=V, n=n)
    assert (A.dtype, A.groups, A.block_rows) == (dtype, -(-cols // m), -(-rows // V))
    A.validate()
    assert np.array_equal(unpack(A), W.astype(np.float64))
    for order in "CF":
        assert np.array_equal(A.to_dense(order=order), W)
    sparse = A.to_scipy()
    assert np.array_equal(sparse.toarray(), W.astype(sparse.dtype))
    assert sparse.nnz == A.nnz == A.to_mask().sum()
    assert (A.to_mask().astype(bool) | ~(W != 0)).all()
    again = mc.Vnm.from_scipy(sparse, m=m, vector_length=V, n=n, dtype=dtype)
    assert np.array_equal(again.to_dense(), W)
    marked = mc.Vnm.from_dense(W, m=m, vector_length=V, n=n, mask=exists)
    assert (marked.to_mask().astype(bool) >= exists).all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_shape_multiplies_exactly(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    V = data.draw(st.sampled_from(VECTOR_LENGTHS))
    rows = data.draw(st.integers(0, 2 * V + 3))
    cols, N = data.draw(st.integers(0, 70)), data.draw(st.integers(0, 40))
    m = data.draw(st.integers(4, 80))
    W, _ = random_vnm(rng, "int8", rows, cols, V, m)
    B = ref.values(rng, "int8", (cols, N))
    A = mc.Vnm.from_dense(W, m=m, vector_length=V)
    exact = ref.exact_product(W, B)
    for implementation in mc.spmm_implementations(format="vnm"):
        C = mc.spmm(A, ref.stored(B, "int8", "F", 3), implementation=implementation)
        ref.same_bits(C, ref.epilogue(exact, "int32"))


@pytest.mark.parametrize("shape", [(0, 9), (5, 0), (0, 0)])
def test_empty_matrices_have_no_elements(shape: tuple[int, int]) -> None:
    A = mc.Vnm.from_dense(np.zeros(shape, np.int8), m=4, vector_length=16)
    assert A.nnz == 0 and A.density == 0 and "nnz=0" in repr(A)


@pytest.mark.parametrize("out", ["int32", "fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("m", [4, 8, 13])
def test_integer_epilogue_bit_by_bit(rng, m: int, out: str) -> None:
    M, K, N = 70, 61, 9
    W, _ = random_vnm(rng, "int8", M, K, 64, m)
    B = ref.values(rng, "int8", (K, N))
    sums = ref.exact_product(W, B)
    A = mc.Vnm.from_dense(W, m=m)
    if out == "int32":
        ref.same_bits(A @ B, ref.epilogue(sums, out))
        return
    options: dict[str, Any] = {
        "alpha": 0.7182818,
        "beta": -1.6180339,
        "a_scale": (rng.random(M, np.float32) + 0.1).astype(np.float32),
        "b_scale": ((rng.random(N, np.float32) + 0.1) * 1e-3).astype(np.float32),
        "bias": rng.standard_normal(M, np.float32),
        "activation": "relu",
        "c_scale": 1.37 if out == "int8" else None,
    }
    C = ref.round_to(rng.standard_normal((M, N)).astype(np.float32), out)
    expected = ref.epilogue(sums, out, C=C, **options)
    ref.same_bits(mc.spmm(A, B, out=C, **options), expected)


@pytest.mark.parametrize("dtype", ref.FLOATS)
@pytest.mark.parametrize("V", VECTOR_LENGTHS)
def test_floats(rng, dtype: str, V: int) -> None:
    W, _ = random_vnm(rng, dtype, V + 3, 61, V, 8)
    B = ref.values(rng, dtype, (61, 13))
    A = mc.Vnm.from_dense(W, m=8, vector_length=V)
    for implementation in mc.spmm_implementations(format="vnm"):
        C = mc.spmm(A, B, out_dtype="fp32", implementation=implementation)
        exact, bound = ref.float_bound(W, B, "fp32")
        assert (abs(C.astype(np.float64) - exact) <= bound).all()


def test_columns_that_are_not_selected_never_reach_the_result(rng) -> None:
    W = np.zeros((64, 24), np.float32)
    W[:, [1, 3, 9, 12, 17, 20]] = 1
    A = mc.Vnm.from_dense(W, m=8)
    B = np.ones((24, 5), np.float32)
    used = {int(c) + 8 * g for g in range(3) for c in A.column_loc[4 * g : 4 * g + 4]}
    B[[k for k in range(24) if k not in used]] = [np.nan, np.inf, -np.inf, np.nan, np.inf]
    assert len(used) == 12
    assert (A @ B == 6).all()


def test_plans_in_every_value_mode_and_batches(rng) -> None:
    W, exists = random_vnm(rng, "int8", 70, 50, 32, 8)
    A = mc.Vnm.from_dense(W, m=8, vector_length=32, mask=exists)
    B = ref.values(rng, "int8", (3, 50, 6))
    many = A.with_values(np.stack([A.values, -(A.values // 2), A.values // 3]))
    assert many.shape == (3, 70, 50) and many.nnz == 3 * A.nnz
    expected = np.stack(
        [w.astype(np.int32) @ b.astype(np.int32) for w, b in zip(many.to_dense(), B)]
    )
    for mode in ("fixed", "updatable", "per_call"):
        start = many.with_values(np.zeros_like(many.values)) if mode == "updatable" else many
        plan = mc.SpMMPlan(start, rhs_dtype="int8", n=6, value_mode=mode)
        if mode == "updatable":
            plan.update_values(many)
        C = plan(B, values=many if mode == "per_call" else None)
        assert np.array_equal(C, expected)
        assert "simd" in repr(plan)
    assert np.array_equal(many @ B, expected)
    assert np.array_equal(mc.spmm(A, B), [W.astype(np.int32) @ b.astype(np.int32) for b in B])


def test_a_matrix_that_is_not_vnm_is_refused_with_the_place(rng) -> None:
    W = np.zeros((40, 20), np.int8)
    W[35, 8:11] = 1
    with pytest.raises(
        mc.InvalidValueError, match=r"3 elements in group 1 of row 35 \(block row 2\); 16:2:8"
    ):
        mc.Vnm.from_dense(W, m=8, vector_length=16)
    with pytest.raises(mc.InvalidValueError, match="3 elements in group 1 of row 35"):
        mc.Vnm.from_scipy(scipy.sparse.csr_array(W), m=8, vector_length=16)
    W[35] = 0
    W[range(16, 21), range(8, 13)] = 1
    with pytest.raises(mc.InvalidValueError, match="5 columns of group 1 of block row 1"):
        mc.Vnm.from_dense(W, m=8, vector_length=16)
    assert mc.Vnm.from_dense(W, m=8, vector_length=1).nnz == 2 * 40 * 3


def test_errors(rng) -> None:
    W, _ = random_vnm(rng, "fp16", 20, 30, 16, 8)
    A = mc.Vnm.from_dense(W, m=8, vector_length=16)
    with pytest.raises(mc.InvalidValueError, match="m is 3; for n = 2 it must be from 4"):
        mc.Vnm.from_dense(W, m=3)
    with pytest.raises(mc.InvalidValueError, match="vector_length is 8"):
        mc.Vnm.from_dense(W, m=8, vector_length=8)
    with pytest.raises(mc.InvalidValueError, match="float64, which no element type holds"):
        mc.Vnm.from_dense(W.astype(np.float64), m=8)
    with pytest.raises(TypeError, match="must be a SciPy sparse array"):
        mc.Vnm.from_scipy(W, m=8)
    with pytest.raises(mc.InvalidValueError, match="w has shape"):
        mc.Vnm.from_dense(W[None], m=8)
    parts: dict[str, Any] = {"vector_length": 16, "m": 8}
    with pytest.raises(mc.InvalidValueError, match=r"column_loc has shape \(3,\)"):
        mc.Vnm((20, 30), A.column_loc[:3], A.metadata, A.values, **parts)
    with pytest.raises(mc.InvalidValueError, match=r"values has shape \(5,\)"):
        mc.Vnm((20, 30), A.column_loc, A.metadata, A.values[:5], **parts)
    bad = np.zeros_like(A.metadata)
    with pytest.raises(mc.InvalidValueError, match="metadata gives row 0 place 0 after 0"):
        mc.Vnm((20, 30), A.column_loc, bad, A.values, **parts)
    with pytest.raises(ValueError, match="read-only"):
        A.metadata[0] = 0
    pattern = A.with_values(None)
    assert pattern.dtype is None and np.array_equal(pattern.to_mask(), A.to_mask())
    with pytest.raises(mc.InvalidValueError, match="pattern alone"):
        pattern.to_dense()
    wide = mc.Vnm.from_dense(np.zeros((20, 30), np.int8), m=8, n=4, vector_length=16)
    with pytest.raises(mc.NotSupportedError, match="16:4:8; products take n = 2"):
        wide @ np.zeros((30, 2), np.int8)
    with pytest.raises(mc.NotSupportedError, match="supported pairs with a V:N:M matrix"):
        mc.spmm(A, np.zeros((30, 2), np.float32))
    with pytest.raises(TypeError, match="must be a magicube.SrBcrs"):
        mc.sddmm(A, W, W)  # type: ignore[arg-type]
    with pytest.raises(mc.InvalidValueError, match="format is 'csr'"):
        mc.spmm_implementations(format="csr")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_files_and_pickles(rng, tmp_path, dtype: str, suffix: str) -> None:
    W, _ = random_vnm(rng, dtype, 40, 700, 32, 300)
    A = mc.Vnm.from_dense(W, m=300, vector_length=32)
    A.save(tmp_path / f"a{suffix}")
    for B in (mc.Vnm.load(tmp_path / f"a{suffix}"), pickle.loads(pickle.dumps(A))):
        assert repr(B) == repr(A) == (
            f"Vnm(shape=(40, 700), dtype={dtype}, pattern=32:2:300, nnz=240, density=0.008571)"
        )
        for part in ("column_loc", "metadata", "values"):
            ref.same_bits(getattr(B, part), getattr(A, part))
    pattern = A.with_values(None)
    pattern.save(tmp_path / f"p{suffix}")
    assert mc.Vnm.load(tmp_path / f"p{suffix}").dtype is None
    mc.SrBcrs.from_dense(W).save(tmp_path / f"s{suffix}")
    with pytest.raises(FileFormatError, match="holds no V:N:M matrix"):
        mc.Vnm.load(tmp_path / f"s{suffix}")


def test_a_broken_file_is_refused(rng, tmp_path) -> None:
    from magicube._io import safetensors

    W, _ = random_vnm(rng, "fp32", 20, 30, 16, 8)
    A = mc.Vnm.from_dense(W, m=8, vector_length=16)
    entry = '{"shape":[20,30],"vector_length":16,"n":2,"m":8,"dtype":%s}'
    good = '{"version":1,"matrices":{"":' + entry + "}}"
    arrays = {"column_loc": A.column_loc, "metadata": A.metadata, "values": A.values}
    for text, missing, message in (
        (good % '"fp32"', "values", "lacks the array 'values'"),
        (good % '"fp32"', "metadata", "lacks the array 'metadata'"),
        (good % '"fp33"', "", "dtype 'fp33'"),
        (good.replace("[20,30]", "[20,-1]") % '"fp32"', "", "all must be counts"),
        (good.replace('"n":2,', "") % '"fp32"', "", "it must have shape, vector_length, n, m"),
        (good.replace("[20,30]", "[21,30]") % '"fp32"', "", "malformed: metadata has shape"),
    ):
        path = tmp_path / "broken.safetensors"
        kept = {name: np.asarray(x) for name, x in arrays.items() if name != missing}
        safetensors.write(path, kept, {"magicube.vnm": text})
        with pytest.raises(FileFormatError, match=message):
            mc.Vnm.load(path)
