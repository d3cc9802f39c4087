# SPDX-License-Identifier: Apache-2.0
"""Conversion, pruning and quantisation of CUDA arrays, against the results of the CPU."""

from __future__ import annotations

from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import Own, Torch, needs_gpu, to_gpu

pytestmark = needs_gpu


def same_matrix(found: mc.SrBcrs, wanted: mc.SrBcrs) -> None:
    """The same arrays, of which those of ``found`` lie on the GPU."""
    assert found.device == "cuda:0" and found.shape == wanted.shape and found.dtype == wanted.dtype
    assert (found.vector_length, found.stride) == (wanted.vector_length, wanted.stride)
    for name in ("row_begin", "row_end", "col_indices", "values"):
        array = getattr(wanted, name)
        if array is None:
            assert getattr(found, name) is None
            continue
        ref.same_bits(getattr(found, name).numpy(), np.asarray(array))
    # The CPU leaves out a mask that says nothing.
    if wanted.element_mask is not None:
        ref.same_bits(found.element_mask.numpy(), np.asarray(wanted.element_mask))  # type: ignore
    assert found.nnz == wanted.nnz


def sparse_data(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], V: int) -> np.ndarray:
    data = ref.values(rng, dtype, shape)
    return np.where(ref.keep(rng, shape, V, 0.3), data, data.dtype.type(0))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", *ref.FLOATS])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("V", [1, 8, 64])
def test_from_dense(rng, lib, dtype: str, order: str, V: int) -> None:
    data = sparse_data(rng, dtype, (77, 90), V)
    wanted = mc.SrBcrs.from_dense(data, vector_length=V)
    given = lib.put(data) if order == "C" else lib.put(np.ascontiguousarray(data.T)).swapaxes(0, 1)
    found = mc.SrBcrs.from_dense(given, vector_length=V)
    same_matrix(found, wanted)
    ref.same_bits(found.to_dense(order=order).numpy(), data)
    ref.same_bits(found.to_mask().numpy(), wanted.to_mask())


@pytest.mark.parametrize("marks", [np.bool_, np.uint8])
def test_masks_and_batches(rng, lib, marks: Any) -> None:
    data = ref.values(rng, "int8", (3, 41, 53))
    mask = (rng.random(data.shape) < 0.2).astype(marks)
    wanted = mc.SrBcrs.from_dense(data, mask=mask, vector_length=4, index_dtype="int32")
    found = mc.SrBcrs.from_dense(
        lib.put(data), mask=lib.put(mask), vector_length=4, index_dtype="int32"
    )
    same_matrix(found, wanted)
    ref.same_bits(found.to_dense().numpy(), np.asarray(wanted.to_dense()))
    pattern = mc.SrBcrs.from_mask(lib.put(mask), vector_length=4, dtype="fp16")
    same_matrix(pattern, mc.SrBcrs.from_mask(mask, vector_length=4, dtype="fp16"))
    with pytest.raises(mc.DeviceMismatchError, match="mask lies in host memory"):
        mc.SrBcrs.from_dense(lib.put(data), mask=mask)


def test_int4(rng, lib) -> None:
    packed = mc.pack_int4(ref.values(rng, "int4", (19, 33)))
    found = mc.SrBcrs.from_dense(to_gpu(lib, packed), vector_length=2)
    same_matrix(found, mc.SrBcrs.from_dense(packed, vector_length=2))
    back = found.to_dense(order="F")
    np.testing.assert_array_equal(back.cpu().unpack(), packed.unpack())


def test_convert_and_astype(rng, lib) -> None:
    data = sparse_data(rng, "fp32", (70, 45), 8)
    wanted = mc.SrBcrs.from_dense(data)
    found = mc.SrBcrs.from_dense(lib.put(data))
    for change in (
        {"vector_length": 2}, {"vector_length": 32, "stride": 8}, {"dtype": "bf16"},
        {"index_dtype": "int32"}, {"dtype": "e4m3", "vector_length": 1},
    ):
        same_matrix(found.convert(**change), wanted.convert(**change))
    same_matrix(found.astype("fp16"), wanted.astype("fp16"))
    small = (data * 100).astype(np.int16) % 1000
    narrow = mc.SrBcrs.from_dense(lib.put(small)).astype("int12")
    assert narrow.dtype == "int12"
    with pytest.raises(mc.InvalidValueError, match="float64 and lies on a GPU"):
        mc.SrBcrs.from_dense(lib.put(data.astype(np.float64)))


def test_torch_tensors(rng) -> None:
    lib = Torch()
    torch = lib.torch
    data = sparse_data(rng, "fp32", (64, 40), 4)
    dense = lib.put(data)
    wanted = mc.SrBcrs.from_dense(data, mask=data != 0, vector_length=4)
    for tensor in (dense.to_sparse_csr(), dense.to_sparse(), dense.to_sparse_bsr((4, 1))):
        found = mc.SrBcrs.from_torch(tensor, vector_length=4)
        ref.same_bits(found.to_dense().numpy(), data)
        if tensor.layout != torch.sparse_bsr:
            same_matrix(found, wanted)
    back = mc.SrBcrs.from_torch(dense, vector_length=4).to_torch("strided")
    assert back.is_cuda and torch.equal(back, dense)
    on_device = mc.SrBcrs.from_dense(dense).to_dense()
    assert torch.equal(torch.from_dlpack(on_device), dense)


@pytest.mark.parametrize("scope", ["matrix", "row"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "int8"])
def test_prune(rng, lib, scope: str, norm: str, dtype: str) -> None:
    data = ref.values(rng, dtype, (2, 100, 130))
    how: dict[str, Any] = {"vector_length": 4, "sparsity": 0.7, "scope": scope, "norm": norm}
    ref.same_bits(lib.get(mc.prune(lib.put(data), **how)), mc.prune(data, **how))


@pytest.mark.parametrize("granularity", ["tensor", "row", "col"])
@pytest.mark.parametrize("calibration", ["absmax", "percentile", "mse", "given"])
@pytest.mark.parametrize("dtype", ["int4", "int8", "int16"])
def test_quantize(rng, lib, granularity: str, calibration: str, dtype: str) -> None:
    data = rng.standard_normal((2, 33, 57)).astype(np.float32)
    length = {"tensor": 1, "row": 33, "col": 57}[granularity]
    how: dict[str, Any] = {
        "granularity": granularity, "calibration": calibration, "out_order": "F", "percentile": 95
    }
    scale = rng.uniform(0.01, 0.1, length).astype(np.float32) if calibration == "given" else None
    wanted, scales = mc.quantize(data, dtype, scale=scale, **how)
    found, on_gpu = mc.quantize(
        lib.put(data), dtype, scale=None if scale is None else lib.put(scale), **how
    )
    ref.same_bits(lib.get(on_gpu), scales)
    if dtype == "int4":
        np.testing.assert_array_equal(
            mc.Int4Array(lib.get(found.packed), found.shape, "F").unpack(), wanted.unpack()
        )
    else:
        ref.same_bits(lib.get(found), wanted)


def test_a_layer_stays_on_the_gpu(rng, lib) -> None:
    """Prune, quantise, convert and multiply on one stream, without a copy to the host."""
    weight = rng.standard_normal((96, 128)).astype(np.float32)
    B = ref.values(rng, "int8", (128, 24))

    def layer(w: Any, b: Any) -> Any:
        mask = mc.prune(w, sparsity=0.5)
        integers, _ = mc.quantize(w, "int8", granularity="row")
        return mc.SrBcrs.from_dense(integers, mask=mask) @ b

    ref.same_bits(lib.get(layer(lib.put(weight), lib.put(B))), layer(weight, B))


def test_streams(rng) -> None:
    """The work is in the order of the stream that is current, of its own or the default one."""
    lib = Torch()
    data = rng.standard_normal((512, 512)).astype(np.float32)
    wanted = mc.SrBcrs.from_dense(data, mask=mc.prune(data, sparsity=0.9))
    for own in (False, True):
        with lib.stream(own):
            w = lib.torch.zeros((512, 512), device="cuda")
            lib.torch.cuda._sleep(20_000_000)
            w.copy_(lib.torch.from_numpy(data))
            found = mc.SrBcrs.from_dense(w, mask=mc.prune(w, sparsity=0.9))
            back = found.to_torch("strided")
            w.zero_()
            kept = back.cpu().numpy()
        ref.same_bits(kept, np.asarray(wanted.to_dense()))
    named = mc.Handle("cuda", stream=lib.torch.cuda.Stream().cuda_stream)
    found = mc.SrBcrs.from_dense(lib.put(data), handle=named)
    ref.same_bits(found.to_dense().numpy(), data)


def test_empty(lib) -> None:
    for shape in ((0, 5), (5, 0), (16, 24)):
        data = np.zeros(shape, np.float32)
        found = mc.SrBcrs.from_dense(lib.put(data))
        assert found.slots == 0 and found.shape == shape
        ref.same_bits(found.to_dense().numpy(), data)
        ref.same_bits(lib.get(mc.prune(lib.put(data), sparsity=0.5)), mc.prune(data, sparsity=0.5))
        integers, scales = mc.quantize(lib.put(data), granularity="row")
        wanted, wanted_scales = mc.quantize(data, granularity="row")
        ref.same_bits(lib.get(integers), wanted)
        ref.same_bits(lib.get(scales), wanted_scales)


def test_views_of_device_arrays() -> None:
    x = Own().put(np.arange(6, dtype=np.uint8).reshape(2, 3))
    assert x.view(np.int8).dtype == np.int8 and x.view(np.int8).ptr == x.ptr
    with pytest.raises(mc.InvalidValueError, match="size is another"):
        x.view(np.int16)


def test_full_validation_is_asked_for() -> None:
    A = mc.SrBcrs.from_dense(np.ones((8, 4), np.int8)).cuda()
    columns = A.col_indices.numpy()  # type: ignore[union-attr]
    columns[1] = 9
    bad = mc.SrBcrs(
        A.shape, A.row_begin, A.row_end, mc.to_cuda(columns), A.values, vector_length=8,
        stride=A.stride, validate=False,
    )
    assert mc.Handle("cuda").validation == "basic" and mc.Handle().validation == "full"
    with pytest.raises(mc.InvalidValueError, match=r"source: col_indices\[1\] is 9"):
        bad.to_dense(handle=mc.Handle("cuda", validation="full"))
