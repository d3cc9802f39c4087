# SPDX-License-Identifier: Apache-2.0
"""What needs no GPU of the CUDA side: views over memory that is only said to be a GPU's, errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import magicube as mc
import ml_dtypes
import numpy as np
import pytest
from magicube import _native


def pretended(x: np.ndarray, **options: Any) -> mc.DeviceArray:
    """A DeviceArray over host memory; nothing here reads through it."""
    return mc.DeviceArray(x.ctypes.data, x.shape, x.strides, x.dtype, 0, x, **options)


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(24, dtype=np.int16).reshape(4, 6)


def test_views(x: np.ndarray) -> None:
    array = pretended(x)
    assert (array.shape, array.strides, array.ndim, array.size) == ((4, 6), (12, 2), 2, 24)
    assert array.nbytes == 48 and array.device == "cuda:0" and array.contiguous
    turned = array.swapaxes(0, 1)
    assert (turned.shape, turned.strides, turned.contiguous) == ((6, 4), (2, 12), False)
    assert array.reshape(24).strides == (2,)
    for shape in ((5,), (4, 7)):
        with pytest.raises(mc.InvalidValueError, match="no view"):
            array.reshape(*shape)
    with pytest.raises(mc.InvalidValueError, match="no view"):
        turned.reshape(24)
    assert pretended(x[:, :3]).contiguous is False and pretended(x[:1, :3]).contiguous
    assert repr(array) == "DeviceArray(shape=(4, 6), dtype=int16, device='cuda:0')"
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(array)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(x: np.ndarray, versioned: bool) -> None:
    version = {"max_version": (1, 0)} if versioned else {}
    array = pretended(x).swapaxes(0, 1)
    assert array.__dlpack_device__() == (2, 0)
    tensor = _native.DlpackTensor(array.__dlpack__(stream=-1, **version))
    assert (tensor.address, tensor.shape, tensor.strides) == (x.ctypes.data, (6, 4), (1, 6))
    assert tensor.device == (2, 0) and tensor.type == (0, 16, 1) and not tensor.read_only
    np.testing.assert_array_equal(_native.dlpack_array(tensor, x.dtype), x.T)
    codes = {
        np.uint8: (1, 8), np.float16: (2, 16), np.float32: (2, 32), ml_dtypes.bfloat16: (4, 16),
        ml_dtypes.float8_e4m3fn: (10, 8),
    }
    for dtype, code in codes.items():
        capsule = pretended(np.zeros(3, dtype)).__dlpack__(stream=1, **version)
        assert _native.DlpackTensor(capsule).type == (*code, 1)
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(dl_device=(1, 0))


def test_dlpack_read_only(x: np.ndarray) -> None:
    array = pretended(x, read_only=True)
    assert _native.DlpackTensor(array.__dlpack__(max_version=(1, 0))).read_only
    with pytest.raises(BufferError, match="read-only"):
        array.__dlpack__()


@pytest.mark.parametrize("consumed", [True, False])
def test_capsules_keep_the_memory(consumed: bool) -> None:
    x = np.zeros((4, 6), np.int16).view(type("Tracked", (np.ndarray,), {}))
    dead = weakref.ref(x)
    capsule = pretended(x).__dlpack__(max_version=(1, 0))
    del x
    gc.collect()
    assert dead() is not None
    keep = _native.DlpackTensor(capsule) if consumed else None
    del capsule
    gc.collect()
    assert (dead() is not None) == consumed
    del keep
    gc.collect()
    assert dead() is None


def test_cuda_array_interface(x: np.ndarray) -> None:
    told = pretended(x, read_only=True).__cuda_array_interface__
    assert told == {
        "shape": (4, 6), "typestr": "<i2", "data": (x.ctypes.data, True), "strides": None,
        "stream": None, "version": 3,
    }
    turned = pretended(x).swapaxes(0, 1)
    assert turned.__cuda_array_interface__["strides"] == (2, 12)
    for stream, shown in ((None, None), (0, 1), (77, 77)):
        assert pretended(x, stream=stream).__cuda_array_interface__["stream"] == shown


class Told:
    """An array of which only the CUDA array interface is known."""

    def __init__(self, **change: Any) -> None:
        told = {"shape": (30, 7), "typestr": "|i1", "data": (256, False), "version": 3}
        self.__cuda_array_interface__ = {**told, **change}


def test_mixed_devices_without_a_gpu() -> None:
    A = mc.SrBcrs.from_dense(np.ones((24, 30), np.int8))
    B = np.ones((30, 7), np.int8)
    plan = mc.SpMMPlan(A, rhs_dtype="int8", n=7, value_mode="updatable")
    for run, text in [
        (lambda: A @ Told(), r"A lies in host memory, but B lies on CUDA device 0.*A\.cuda\(0\)"),
        (lambda: mc.spmm(A, B, a_scale=Told(shape=(24,), typestr="<f4")), "but a_scale lies on"),
        (lambda: mc.spmm(A, B, out=Told(shape=(24, 7), typestr="<i4")), "but out lies on CUDA"),
        (lambda: plan(Told()), r"the plan was made in host memory, but B.*plan of A\.cuda\(0\)"),
        (lambda: plan.update_values(Told()), "but values lies on CUDA device 0"),
        (lambda: A.with_values(Told(shape=A.values.shape)), "col_indices lies in host memory, but"),
        (lambda: mc.dequantize(B, Told(shape=(1,), typestr="<f4")), "but scale lies on CUDA"),
        (
            lambda: mc.spmm(A, mc.Int4Array(Told(shape=(30, 4), typestr="|u1"), (30, 7))),
            "but B lies on CUDA",
        ),
    ]:
        with pytest.raises(mc.DeviceMismatchError, match=text) as caught:
            run()
        assert isinstance(caught.value, ValueError) and caught.value.status == 5
    with pytest.raises(mc.DeviceMismatchError, match="pass a handle of cuda:0, or none"):
        mc.dequantize(Told(), np.ones(1, np.float32), handle=mc.Handle("cpu"))


def test_malformed_interfaces() -> None:
    scale = np.ones(1, np.float32)
    with pytest.raises(mc.InvalidValueError, match="q names stream 0"):
        mc.dequantize(Told(stream=0), scale)
    with pytest.raises(TypeError, match="q has a mask"):
        mc.dequantize(Told(mask=object()), scale)
    with pytest.raises(mc.InvalidValueError, match="items of float64"):
        mc.dequantize(Told(typestr="<f8"), scale)
    with pytest.raises(mc.MisalignedError, match="q starts"):
        mc.dequantize(Told(typestr="<i2", data=(257, False)), scale)


def test_names_of_devices() -> None:
    A = mc.SrBcrs.from_dense(np.ones((24, 30), np.int8))
    assert A.device == "cpu" and A.to("cpu") is A and A.cpu() is A
    for wrong in ("gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", ""):
        with pytest.raises(mc.InvalidValueError, match="device is"):
            A.to(wrong)
    with pytest.raises(TypeError, match="ordinal"):
        A.cuda("0")  # type: ignore[arg-type]


@pytest.mark.skipif(mc.device_count("cuda") > 0, reason="there is a GPU")
def test_without_a_gpu() -> None:
    A = mc.SrBcrs.from_dense(np.ones((24, 30), np.int8))
    for run in (
        A.cuda,
        lambda: A.to("cuda"),
        lambda: mc.to_cuda(np.ones(3, np.int8)),
        lambda: mc.DeviceArray.empty(3, np.int8),
        lambda: mc.Handle("cuda", stream=0),
    ):
        with pytest.raises(mc.NoDeviceError):
            run()
