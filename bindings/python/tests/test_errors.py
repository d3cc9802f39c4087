# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle

import magicube as mc
import numpy as np
import pytest
from magicube import _native
from magicube.errors import error_from_status


@pytest.mark.parametrize(
    ("status", "kind", "also"),
    [
        (1, mc.InvalidValueError, ValueError),
        (2, mc.NotSupportedError, NotImplementedError),
        (3, mc.ArchMismatchError, Exception),
        (4, mc.NoDeviceError, Exception),
        (5, mc.DeviceMismatchError, ValueError),
        (6, mc.MisalignedError, ValueError),
        (7, mc.InsufficientWorkspaceError, ValueError),
        (8, mc.AllocFailedError, MemoryError),
        (9, mc.CudaError, Exception),
        (10, mc.InternalError, Exception),
        (11, mc.CapturingError, Exception),
    ],
)
def test_every_status_has_a_class(
    status: int, kind: type[mc.MagicubeError], also: type[Exception]
) -> None:
    error = error_from_status(status, "f: x is 3; it must be 4")
    assert type(error) is kind and isinstance(error, (also, mc.MagicubeError))
    assert error.status == status == kind.default_status
    assert error.name == kind.default_name == _native.status_name(status)
    assert str(error) == "f: x is 3; it must be 4"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status, again.name) == (
        kind, str(error), status, error.name,
    )
    assert str(error_from_status(status, "")) == _native.status_string(status) != ""


def test_issue_17_unknown_status() -> None:
    error = error_from_status(999, "")
    assert type(error) is mc.MagicubeError
    assert error.status == 999 and error.name == "MAGICUBE_STATUS_UNKNOWN"
    assert str(error)


def test_message_of_the_library_arrives() -> None:
    with pytest.raises(mc.InvalidValueError) as caught:
        mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8), vector_length=3)
    assert "magicube" in str(caught.value) and "vector_length" in str(caught.value)
    assert "3" in str(caught.value)
    with pytest.raises(mc.InvalidValueError, match="stride"):
        mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8), stride=7)


@pytest.mark.parametrize(
    "value", ["int9", "complex64", np.complex64, np.float64, None, int, float, object(), 7]
)
def test_unknown_types_are_named(value: object) -> None:
    A = mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8))
    if value is None:
        return
    with pytest.raises(mc.InvalidValueError, match="out_dtype is .* must be one of int4"):
        mc.spmm(A, np.ones((4, 4), np.int8), out_dtype=value)


@pytest.mark.parametrize("value", ["fp16", "float16", "half", np.float16, np.dtype("f2")])
def test_many_ways_to_name_a_type(value: object) -> None:
    A = mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8))
    assert mc.spmm(A, np.ones((4, 4), np.int8), out_dtype=value).dtype == np.float16


@pytest.mark.parametrize(
    "call",
    [
        lambda A, B: mc.spmm(A, [[1, 2]]),
        lambda A, B: mc.spmm(B, B),
        lambda A, B: mc.spmm(A, "text"),
        lambda A, B: mc.spmm(A, B, alpha="x"),
        lambda A, B: mc.spmm(A, B, implementation=3),
        lambda A, B: mc.spmm(A, np.ma.masked_array(B)),
        lambda A, B: mc.SrBcrs.from_dense(B, vector_length=2.5),
        lambda A, B: mc.SrBcrs.from_scipy(B),
        lambda A, B: mc.dequantize(B, None),
        lambda A, B: mc.set_log_callback(3),
        lambda A, B: B @ A,
    ],
)
def test_wrong_kinds_of_argument(call) -> None:
    A = mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8))
    with pytest.raises(TypeError):
        call(A, np.ones((4, 4), np.int8))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda A, B: mc.spmm(A, B[:3]), "B"),
        (lambda A, B: mc.spmm(A, B[0]), "B has shape"),
        (lambda A, B: mc.spmm(A, B, beta=1.0), "beta is 1.0"),
        (lambda A, B: mc.spmm(A, B, out=np.empty((4, 3), np.int32)), "out has shape"),
        (lambda A, B: mc.spmm(A, B, out=np.empty((4, 4), np.int64)), "int64"),
        (lambda A, B: mc.spmm(A, B, out=B, out_dtype="int8"), "shares memory"),
        (lambda A, B: mc.spmm(A, B, activation="tanh"), "activation is 'tanh'"),
        (lambda A, B: mc.spmm(A, B, alpha=1e300), "range of fp32"),
        (lambda A, B: mc.spmm(A, B, a_scale=np.ones(3, np.float32)), "a_scale has shape"),
        (lambda A, B: mc.spmm(A, B, a_scale=np.ones(4)), "float64"),
        (lambda A, B: mc.spmm(A, B, a_scale=np.ones(8, np.float32)[::2]), "not contiguous"),
        (lambda A, B: mc.spmm(A, B, bias=np.ones((2, 4), np.float32)), "bias has shape"),
        (lambda A, B: mc.spmm(A, B, a_scale=float("nan")), "a_scale"),
        (lambda A, B: mc.spmm(A, B, implementation="none such"), "none such"),
        (lambda A, B: mc.spmm(A, B, out_order="K"), "out_order is 'K'"),
        (lambda A, B: mc.spmm(A, B.astype(np.int64)), "int64"),
        (lambda A, B: mc.spmm(A, B.astype(">i2")), ">i2"),
        (lambda A, B: mc.spmm(A, B, rhs_dtype="int4"), "pack_int4"),
        (lambda A, B: mc.spmm(A.with_values(None), B), "pattern alone"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=(5, 3)), "n_m"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=(1, 2, 3)), "n is"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=2**70), "64-bit"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=1, a_scale="col"), "a_scale is 'col'"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=1, value_mode="x"), "value_mode is 'x'"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=1, batched="bias"), "batched is"),
        (lambda A, B: mc.SpMMPlan(A, rhs_dtype="int8", n=1, batched=["d"]), "'d'"),
        (lambda A, B: mc.prune(B), "exactly one"),
        (lambda A, B: mc.prune(B, sparsity=1.5), "1.5"),
        (lambda A, B: mc.prune(B, sparsity=float("nan")), "sparsity"),
        (lambda A, B: mc.prune(B, keep=-1), "keep is -1"),
        (lambda A, B: mc.prune(B, keep=1, scope="col"), "scope is 'col'"),
        (lambda A, B: mc.quantize(B), "int8"),
        (lambda A, B: mc.quantize(B.astype("f4"), granularity="none"), "granularity is 'none'"),
        (lambda A, B: mc.quantize(B.astype("f4"), "fp16"), "fp16"),
        (lambda A, B: mc.quantize(B.astype("f4"), calibration="given"), "scale is None"),
        (lambda A, B: mc.quantize(B.astype("f4"), scale=-1.0), "scale"),
        (lambda A, B: mc.quantize(B * np.float32("nan")), "real"),
        (lambda A, B: mc.SrBcrs.from_dense(B.astype("f8")), "fp32"),
        (lambda A, B: mc.SrBcrs.from_dense(B, mask=B[:2] > 0), "mask has shape"),
        (lambda A, B: mc.SrBcrs.from_dense(B, mask=B), "int8, not bool or uint8"),
        (lambda A, B: mc.SrBcrs.from_dense(B, index_dtype="int16"), "index_dtype is 'int16'"),
        (lambda A, B: A.astype("fp32"), "quantize"),
        (lambda A, B: A.with_values(np.ones(5, np.int8)), "values has shape"),
        (lambda A, B: A.with_values(None).to_dense(), "pattern alone"),
        (lambda A, B: mc.sparse_softmax(A), "int8"),
        (lambda A, B: mc.sddmm(A, B, B.astype(np.int16)), "int16"),
    ],
)
def test_bad_arguments_name_themselves(call, text: str) -> None:
    A = mc.SrBcrs.from_dense(np.eye(4, dtype=np.int8))
    with pytest.raises(mc.MagicubeError, match=text):
        call(A, np.ones((4, 4), np.int8))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("col_indices", lambda x: np.where(x == 5, 99, x)),
        ("col_indices", lambda x: np.where(x == 5, 3, x)),
        ("col_indices", lambda x: np.where(x == 5, -7, x)),
        ("row_begin", lambda x: x + 3),
        ("row_begin", lambda x: x - 32),
        ("row_begin", lambda x: x + 2**40),
        ("row_end", lambda x: x + 2**62),
        ("row_end", lambda x: -x),
    ],
)
def test_malformed_index_arrays(part: str, change) -> None:
    good = mc.SrBcrs.from_dense(np.ones((16, 24), np.int8))
    names = ("row_begin", "row_end", "col_indices", "values")
    arrays = {name: getattr(good, name) for name in names}
    arrays[part] = change(arrays[part].copy()).astype(arrays[part].dtype)
    options = {"vector_length": good.vector_length, "stride": good.stride}
    with pytest.raises(mc.InvalidValueError):
        mc.SrBcrs(good.shape, **arrays, **options)
    unchecked = mc.SrBcrs(good.shape, **arrays, **options, validate=False)
    B = np.ones((24, 3), np.int8)
    for call in (
        lambda: mc.validate(unchecked),
        lambda: unchecked @ B,
        lambda: unchecked.to_dense(),
        lambda: unchecked.to_mask(),
        lambda: unchecked.convert(vector_length=4),
        lambda: mc.sddmm(unchecked, np.ones((16, 4), np.int8), np.ones((4, 24), np.int8)),
        lambda: mc.sparse_softmax(unchecked.with_values(unchecked.values.astype(np.float32))),
        lambda: mc.attention(*(np.ones((n, 4), np.float32) for n in (16, 24, 24)), unchecked),
    ):
        with pytest.raises(mc.InvalidValueError):
            call()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shape": (16,)}, "shape"),
        ({"shape": (-1, 24)}, "shape"),
        ({"shape": (16, 2**70)}, "64-bit"),
        ({"shape": (16, 2**40)}, "cols|columns"),
        ({"shape": (64, 24)}, "row_begin has shape"),
        ({"vector_length": 3}, "vector_length"),
        ({"vector_length": 2**40}, "32-bit"),
        ({"stride": 5}, "stride"),
        ({"row_begin": np.zeros(2, np.float32)}, "row_begin has items of float32"),
        ({"row_begin": np.zeros(2, np.int32)}, "row_end has items of int64"),
        ({"col_indices": np.zeros(64, np.int64)}, "col_indices has items of int64"),
        ({"col_indices": np.zeros((8, 8), np.int32)}, "col_indices has shape"),
        ({"values": np.zeros(512, np.float64)}, "values has items of float64"),
        ({"values": np.zeros(511, np.int8)}, "values has shape"),
        ({"values": np.zeros(1024, np.int8)[::2]}, "not contiguous"),
        ({"element_mask": np.zeros(3, np.uint8)}, "element_mask has shape"),
    ],
)
def test_bad_parts(change: dict, text: str) -> None:
    good = mc.SrBcrs.from_dense(np.ones((16, 24), np.int8))
    parts = {
        "shape": good.shape,
        "row_begin": good.row_begin,
        "row_end": good.row_end,
        "col_indices": good.col_indices,
        "values": good.values,
        "vector_length": good.vector_length,
        "stride": good.stride,
    }
    mc.SrBcrs(**parts)
    with pytest.raises(mc.MagicubeError, match=text):
        mc.SrBcrs(**{**parts, **change})


def test_memory_that_cannot_be_had() -> None:
    A = mc.SrBcrs.from_mask(np.zeros((1, 1), np.uint8), vector_length=1)
    huge = mc.SrBcrs(
        (2**31 - 1, 2**31 - 1), np.zeros(2**25, np.int64), np.zeros(2**25, np.int64),
        A.col_indices, vector_length=64, stride=1, validate=False,
    )
    with pytest.raises(MemoryError):
        huge.to_mask()


def test_scales_whose_matrices_lie_between_elements_are_refused():
    a = mc.SrBcrs.from_dense(np.ones((2, 3, 4), np.int8), vector_length=1)
    b = np.ones((2, 4, 2), np.int8)
    memory = np.zeros(64, np.uint8)
    for step in (14, -16):
        scales = np.ndarray((2, 3), np.float32, memory, 16 if step < 0 else 0, (step, 4))
        with pytest.raises(ValueError, match="stride of -?1[46] bytes"):
            mc.spmm(a, b, a_scale=scales, out_dtype="fp32")
