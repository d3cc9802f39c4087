# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: DLPack, strides, errors that name the fix, int4 packing, torch."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import magicube as mc
import ml_dtypes
import numpy as np
import pytest
import reference as ref


class Producer:
    """An array library of which only DLPack is known."""

    def __init__(self, array: np.ndarray, versioned: bool = True, device: tuple[int, int] = (1, 0)):
        self.array, self.versioned, self.device = array, versioned, device
        self.calls = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        self.calls += 1
        if not self.versioned and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)


class Namespaced(Producer):
    """A library that also follows the array API standard."""

    def __array_namespace__(self, **_: Any) -> type[Namespaced]:
        return Namespaced

    @staticmethod
    def from_dlpack(x: Any) -> Namespaced:
        return Namespaced(np.from_dlpack(x))


@pytest.fixture
def weight(rng: np.random.Generator) -> np.ndarray:
    return np.where(ref.keep(rng, (24, 30), 8, 0.5), ref.values(rng, "int8", (24, 30)), 0).astype(
        np.int8
    )


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_producers(rng, weight, versioned: bool) -> None:
    B = ref.values(rng, "int8", (30, 7))
    A = mc.SrBcrs.from_dense(Producer(weight, versioned))
    result = A @ Producer(B, versioned)
    assert isinstance(result, np.ndarray)
    ref.same_bits(result, ref.epilogue(ref.exact_product(weight, B), "int32"))
    view = Producer(ref.stored(B, "int8", "F", 5), versioned)
    ref.same_bits(A @ view, result)
    out = np.zeros((24, 7), np.int32)
    target = Producer(out, versioned)
    assert mc.spmm(A, B, out=target) is target
    ref.same_bits(out, result)


def test_results_belong_to_the_library_of_the_input(rng, weight) -> None:
    B = ref.values(rng, "int8", (30, 7))
    result = mc.SrBcrs.from_dense(weight) @ Namespaced(B)
    assert isinstance(result, Namespaced)
    ref.same_bits(result.array, ref.epilogue(ref.exact_product(weight, B), "int32"))
    q, scale = mc.quantize(Namespaced(B.astype(np.float32)))
    assert isinstance(q, Namespaced) and isinstance(scale, Namespaced)
    q, _ = mc.quantize(Namespaced(B.astype(np.float32)), "int4")
    assert isinstance(q.packed, Namespaced)
    assert isinstance(mc.prune(Namespaced(B), keep=1), Namespaced)


def test_producers_are_released(rng, weight) -> None:
    B = ref.values(rng, "int8", (30, 7)).view(type("Tracked", (np.ndarray,), {}))
    dead = weakref.ref(B)
    mc.SrBcrs.from_dense(weight) @ Producer(B)
    del B
    gc.collect()
    assert dead() is None


def test_no_silent_copy(weight) -> None:
    """A producer is asked once and for no copy; the matrix sees later writes to shared values."""
    producer = Producer(weight)
    mc.SrBcrs.from_dense(producer)
    assert producer.calls == 1
    A = mc.SrBcrs.from_dense(weight)
    assert A.values is not None
    values = np.ones_like(A.values)
    shared = A.with_values(Producer(values))
    values[:] = 3
    assert (shared.to_dense() <= 3).all() and shared.to_dense().max() == 3


def test_cuda_arrays_are_refused(weight) -> None:
    class CudaArray:
        __cuda_array_interface__ = {"shape": (30, 7), "typestr": "|i1", "data": (256, False)}

    A = mc.SrBcrs.from_dense(weight)
    device = Producer(np.ones((30, 7), np.int8), device=(2, 0))
    for array in (CudaArray(), device):
        with pytest.raises(mc.DeviceMismatchError, match=r"A lies in host memory.*B lies on CUDA"):
            A @ array
        with pytest.raises(NotImplementedError, match="values lies in CUDA memory.*host memory"):
            mc.pack_int4(array)
    assert device.calls == 0
    with pytest.raises(NotImplementedError, match="DLPack type 10"):
        A @ Producer(np.ones((30, 7), np.int8), device=(10, 0))


def test_array_interface(rng, weight) -> None:
    class Holder:
        def __init__(self, array: np.ndarray) -> None:
            self.__array_interface__ = array.__array_interface__
            self.keep = array

    B = ref.values(rng, "int8", (30, 7))
    A = mc.SrBcrs.from_dense(weight)
    ref.same_bits(A @ Holder(B), A @ B)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("pad", [0, 1, 5])
def test_issue_04_ld_is_honoured(rng, weight, order: str, pad: int) -> None:
    B = ref.values(rng, "int8", (30, 7))
    expected = ref.epilogue(ref.exact_product(weight, B), "int32")
    A = mc.SrBcrs.from_dense(ref.stored(weight, "int8", order, pad))
    np.testing.assert_array_equal(A.to_dense(), weight)
    ref.same_bits(A @ ref.stored(B, "int8", order, pad), expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2, ::2],
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.lib.stride_tricks.sliding_window_view(x[0], 5),
        lambda x: x.reshape(15, 2, 14)[:, :, 0].reshape(15, 2)[:, ::-1],
    ],
)
def test_issue_04_or_an_error_names_the_fix(rng, view) -> None:
    x = view(ref.values(rng, "int8", (30, 14)))
    A = mc.SrBcrs.from_dense(np.ones((8, x.shape[0]), np.int8))
    with pytest.raises(mc.InvalidValueError, match=r"ascontiguousarray\(B\)"):
        A @ x
    fixed = np.ascontiguousarray(x)
    sums = ref.exact_product(np.ones((8, len(x)), int), fixed)
    ref.same_bits(A @ fixed, ref.epilogue(sums, "int32"))


def test_issue_04_rows_apart_are_no_copy(rng, weight) -> None:
    """Every second row is an ld; so is a slice of columns."""
    B = ref.values(rng, "int8", (60, 20))
    A = mc.SrBcrs.from_dense(weight)
    for x in (B[::2, 3:9], B[:30, ::1], B.T[:, ::2].T, B[::2, 4:5], B[:1].repeat(30, 0)[:, :1]):
        ref.same_bits(A @ x, ref.epilogue(ref.exact_product(weight, x), "int32"))


def test_misaligned_and_odd_strides() -> None:
    raw = np.zeros(8 * 8 * 4 + 1, np.uint8)
    x = raw[1:].view(np.float32).reshape(8, 8)
    A = mc.SrBcrs.from_dense(np.eye(8, dtype=np.float32))
    with pytest.raises(mc.MisalignedError, match="copy"):
        A @ x
    records = np.zeros((8, 8), [("a", np.int8), ("b", "<i2")])
    with pytest.raises(mc.MagicubeError):
        mc.SrBcrs.from_dense(np.eye(8, dtype=np.int16)) @ records["b"]


def test_read_only_outputs_are_refused(weight) -> None:
    A = mc.SrBcrs.from_dense(weight)
    out = np.zeros((24, 2), np.int32)
    out.flags.writeable = False
    with pytest.raises(mc.InvalidValueError, match="out is read-only"):
        mc.spmm(A, np.ones((30, 2), np.int8), out=out)
    ones = np.ones((30, 2), np.int8)
    ones.flags.writeable = False
    assert (A @ ones == weight.sum(axis=1, dtype=np.int32)[:, None]).all()


# ---- int4 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(3, 4), (3, 5), (1, 1), (0, 3), (3, 0), (2, 3, 5), (5, 4, 7)])
def test_int4_packing(rng, shape: tuple[int, ...], order: str) -> None:
    data = ref.values(rng, "int4", shape)
    packed = mc.pack_int4(data, order)
    assert packed.shape == shape and packed.dtype == "int4" and packed.order == order
    expected = ref.stored(data, "int4", order)
    length = shape[-1] if order == "C" else shape[-2]
    whole = length // 2
    np.testing.assert_array_equal(packed.packed[..., :whole], expected.packed[..., :whole])
    assert length % 2 == 0 or (packed.packed[..., -1] >> 4 == 0).all()
    np.testing.assert_array_equal(packed.unpack(), data)
    np.testing.assert_array_equal(expected.unpack(), data)
    assert packed.nbytes == packed.packed.nbytes and packed.ndim == len(shape)
    assert repr(packed) == f"Int4Array(shape={shape}, order={order!r})"


def test_int4_low_nibble_first() -> None:
    packed = mc.pack_int4(np.array([[1, -2, 7]], np.int8))
    assert packed.packed.tolist() == [[0xE1, 0x07]]
    assert mc.pack_int4(np.array([[1, -2]]).astype(ml_dtypes.int4)).packed.tolist() == [[0xE1]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mc.pack_int4(np.array([[8]], np.int8)), "values holds 8"),
        (lambda: mc.pack_int4(np.array([[-9]], np.int8)), "values holds -9"),
        (lambda: mc.pack_int4(np.array([[1]], np.int16)), "int16"),
        (lambda: mc.pack_int4(np.array([1], np.int8)), "shape"),
        (lambda: mc.pack_int4(np.array([[1]], np.int8), "K"), "order is 'K'"),
        (lambda: mc.Int4Array(np.zeros((2, 2), np.int8), (2, 4)), "uint8"),
        (lambda: mc.Int4Array(np.zeros((2, 3), np.uint8), (2, 4)), r"takes \(2, 2\)"),
        (lambda: mc.Int4Array(np.zeros((2, 3), np.uint8), (2, -4)), "shape"),
        (
            lambda: mc.SrBcrs.from_dense(np.ones((8, 4), np.int8))
            @ mc.Int4Array(np.zeros((4, 4), np.uint8)[:, ::2], (4, 4)),
            "B.packed",
        ),
    ],
)
def test_int4_errors(call, text: str) -> None:
    with pytest.raises(mc.InvalidValueError, match=text):
        call()


# ---- torch ---------------------------------------------------------------------------------------


def torch_of(torch: Any, array: np.ndarray) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype == ml_dtypes.float8_e4m3fn:
        return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
    return torch.from_numpy(array)


@pytest.mark.parametrize("dtype", ["int8", "int16", "fp32", "fp16", "bf16", "e4m3"])
@pytest.mark.parametrize("transposed", [False, True])
def test_torch_tensors(rng, dtype: str, transposed: bool) -> None:
    torch = pytest.importorskip("torch")
    W, B = ref.values(rng, dtype, (24, 30)), ref.values(rng, dtype, (30, 7))
    A = mc.SrBcrs.from_torch(torch_of(torch, W))
    ref.same_bits(A.to_dense(), W)
    right = torch_of(torch, np.ascontiguousarray(B.T)).T if transposed else torch_of(torch, B)
    result = A @ right
    assert isinstance(result, torch.Tensor)
    expected = A @ B
    kind = {"int32": torch.int32, "float32": torch.float32, "float16": torch.float16}.get(
        expected.dtype.name, torch.bfloat16
    )
    assert result.dtype == kind and result.shape == (24, 7)
    np.testing.assert_array_equal(result.float().numpy(), expected.astype(np.float32))
    column = mc.spmm(A, right, out_order="F", out_dtype=torch.bfloat16)
    assert column.dtype == torch.bfloat16 and column.stride() == (1, 24)
    out = torch.zeros((24, 7), dtype=kind)
    assert mc.spmm(A, right, out=out) is out and torch.equal(out, result)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_torch_sparse_layouts(rng) -> None:
    torch = pytest.importorskip("torch")
    dense = np.where(rng.random((24, 30)) < 0.3, ref.values(rng, "fp32", (24, 30)), 0)
    dense = dense.astype(np.float32)
    t = torch.from_numpy(dense)
    kept = np.where(ref.keep(rng, (24, 30), 8, 0.4), dense, np.float32(0))
    blocks = torch.from_numpy(kept)
    for source, expected in [
        (t.to_sparse_csr(), t), (t.to_sparse_coo(), t), (blocks.to_sparse_bsr((4, 5)), blocks),
    ]:
        A = mc.SrBcrs.from_torch(source, vector_length=4)
        mc.validate(A)
        ref.same_bits(A.to_dense(), expected.numpy())
    back = A.to_torch()
    assert back.layout == torch.sparse_csr and torch.equal(back.to_dense(), blocks)
    assert torch.equal(A.to_torch("strided"), blocks)
    half = A.astype("bf16").to_torch("strided")
    assert half.dtype == torch.bfloat16
    with pytest.raises(mc.InvalidValueError, match="layout is 'x'"):
        A.to_torch("x")
    with pytest.raises(mc.InvalidValueError, match="sparse_csc"):
        mc.SrBcrs.from_torch(t.to_sparse_csc())
    with pytest.raises(mc.InvalidValueError, match="detach"):
        mc.SrBcrs.from_torch(torch.ones((8, 8), requires_grad=True))


def test_torch_elsewhere(rng) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(ref.values(rng, "fp32", (16, 40)))
    q, scale = mc.quantize(x, torch.int8, granularity="row", out_order="F")
    assert q.dtype == torch.int8 and q.stride() == (1, 16) and scale.shape == (16,)
    back = mc.dequantize(q, scale, granularity="row", dtype=torch.bfloat16)
    assert back.dtype == torch.bfloat16 and back.shape == x.shape
    packed, _ = mc.quantize(x, "int4")
    assert isinstance(packed.packed, torch.Tensor) and packed.packed.dtype == torch.uint8
    mask = mc.prune(x, sparsity=0.5)
    assert mask.dtype == torch.uint8 and int(mask.sum()) == 320
    A = mc.SrBcrs.from_dense(x, mask=mask.bool())
    scales = torch.rand(16)
    result = mc.spmm(A, torch.ones((40, 3)), a_scale=scales, bias=torch.ones(16))
    assert isinstance(result, torch.Tensor)
