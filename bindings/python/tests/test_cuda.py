# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays in and out: torch, CuPy and the library's own, against the results of the CPU."""

from __future__ import annotations

import json
import pickle
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import CuPy, Own, Torch, needs_gpu, problem, to_gpu

pytestmark = needs_gpu


# ---- what is computed ----------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [*ref.INTEGER_PAIRS, *((name, name) for name in ref.FLOATS)])
def test_types(rng, lib, pair: tuple[str, str]) -> None:
    dense, A = problem(rng, pair[0])
    data = ref.values(rng, pair[1], (90, 40))
    B = ref.stored(data, pair[1])
    got = A.cuda() @ to_gpu(lib, B)
    shown, expected = lib.get(got), A @ B
    if pair[0] in ref.RANGES:
        ref.same_bits(shown, expected)
        return
    assert shown.dtype == expected.dtype
    out = {"float32": "fp32", "float16": "fp16"}.get(shown.dtype.name, "bf16")
    exact, bound = ref.float_bound(dense.astype(np.float64), data.astype(np.float64), out)
    assert (abs(shown.astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("V", [1, 4, 16, 64])
@pytest.mark.parametrize("implementation", [*mc.spmm_implementations("cuda"), None])
def test_every_implementation(rng, V: int, implementation: str | None) -> None:
    lib = Torch()
    if implementation in ("sm80_int4", "two_packings"):
        pytest.skip("it takes int4 alone, or plans for many widths: `magicube verify` runs it")
    dense, A = problem(rng, V=V)
    B = ref.values(rng, "int8", (90, 33))
    got = mc.spmm(A.cuda(), lib.put(B), implementation=implementation)
    ref.same_bits(lib.get(got), ref.epilogue(ref.exact_product(dense, B), "int32"))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("out_order", ["C", "F"])
@pytest.mark.parametrize("pad", [0, 1, 16])
def test_issue_04_orders_and_leading_dimensions(rng, order: str, out_order: str, pad: int) -> None:
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 21))
    lines = np.ascontiguousarray(B if order == "C" else B.T)
    room = np.full((lines.shape[0], lines.shape[1] + pad), 0x5B, np.int8)
    room[:, : lines.shape[1]] = lines
    expected = A @ B
    for lib in (Torch(), CuPy()):
        view = lib.put(room)[:, : lines.shape[1]]
        view = view if order == "C" else view.T
        got = mc.spmm(A.cuda(), view, out_order=out_order)
        ref.same_bits(lib.get(got), expected)
        shown = got.T if out_order == "F" else got
        dense = shown.is_contiguous() if isinstance(lib, Torch) else shown.flags.c_contiguous
        assert dense


def test_issue_04_what_is_not_contiguous_is_refused_with_the_fix(rng) -> None:
    _, A = problem(rng)
    wide = ref.values(rng, "int8", (90, 42))
    fixes = {Torch: r"B\.contiguous\(\)", CuPy: r"cupy\.ascontiguousarray\(B\)"}
    for kind, fix in fixes.items():
        lib = kind()
        with pytest.raises(mc.InvalidValueError, match=fix):
            mc.spmm(A.cuda(), lib.put(wide)[:, ::2])
        out = lib.put(np.zeros((72, 42), np.int32))[:, ::2]
        with pytest.raises(mc.InvalidValueError, match=fix.replace("B", "out")):
            mc.spmm(A.cuda(), lib.put(wide[:, :21].copy()), out=out)


def test_out_and_beta(rng, lib) -> None:
    _, A = problem(rng)
    B, C = ref.values(rng, "int8", (90, 30)), ref.values(rng, "int32", (72, 30))
    out = lib.put(C)
    assert mc.spmm(A.cuda(), lib.put(B), out=out, beta=1.0) is out
    ref.same_bits(lib.get(out), mc.spmm(A, B, out=C.copy(), beta=1.0))
    host = np.asarray(ref.values(rng, "fp32", (72, 30)))
    target = lib.put(host)
    mc.spmm(A.cuda(), lib.put(B), out=target, alpha=0.25, beta=-0.5)
    ref.same_bits(lib.get(target), mc.spmm(A, B, out=host.copy(), alpha=0.25, beta=-0.5))


@pytest.mark.parametrize("out", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_epilogue(rng, lib, out: str, activation: str | None) -> None:
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 30))
    scales = {
        "a_scale": rng.uniform(0.001, 0.01, 72).astype(np.float32),
        "b_scale": rng.uniform(0.01, 0.1, 30).astype(np.float32),
        "bias": rng.standard_normal(72).astype(np.float32),
    }
    if out == "int8":
        scales["c_scale"] = np.array([0.05], np.float32)
    options: dict[str, Any] = {"out_dtype": out, "activation": activation, "alpha": 0.5}
    expected = mc.spmm(A, B, **scales, **options)
    if out == "bf16" and isinstance(lib, CuPy):
        lib.put(expected)  # skips where CuPy has no bfloat16
    on_gpu = {name: lib.put(x) for name, x in scales.items()}
    got = mc.spmm(A.cuda(), lib.put(B), **on_gpu, **options)
    ref.same_bits(lib.get(got), expected)
    number = mc.spmm(A.cuda(), lib.put(B), a_scale=0.125, out_dtype="fp32")
    ref.same_bits(lib.get(number), mc.spmm(A, B, a_scale=0.125, out_dtype="fp32"))


@pytest.mark.parametrize("order", ["C", "F"])
def test_plan_over_a_range_of_n(rng, lib, order: str) -> None:
    dense, A = problem(rng)
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=(1, 300), rhs_order=order)
    for n in (1, 7, 8, 64, 129, 300):
        B = ref.values(rng, "int8", (90, n))
        given = lib.put(B) if order == "C" else lib.put(np.ascontiguousarray(B.T)).swapaxes(0, 1)
        sums = ref.exact_product(dense, B)
        ref.same_bits(lib.get(plan(given)), ref.epilogue(sums, "int32"))
    known = mc.spmm_implementations("cuda")
    assert all(name in known for name in plan.info.implementation.split("+"))
    with pytest.raises(mc.InvalidValueError):
        plan(lib.put(ref.values(rng, "int8", (90, 301))))


def test_value_modes(rng, lib) -> None:
    _, A = problem(rng)
    assert A.values is not None
    other = A.with_values(ref.values(rng, "int8", A.values.shape))
    B = ref.values(rng, "int8", (90, 25))
    right = lib.put(B)
    updatable = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=25, value_mode="updatable")
    ref.same_bits(lib.get(updatable(right)), A @ B)
    updatable.update_values(lib.put(np.asarray(other.values)))
    ref.same_bits(lib.get(updatable(right)), other @ B)
    updatable.update_values(A.cuda())
    ref.same_bits(lib.get(updatable(right)), A @ B)
    per_call = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=25, value_mode="per_call")
    for matrix in (A, other):
        values = lib.put(np.asarray(matrix.values))
        ref.same_bits(lib.get(per_call(right, values=values)), matrix @ B)
    ref.same_bits(lib.get(per_call(right, values=other.cuda())), other @ B)
    view = A.cuda().with_values(lib.put(np.asarray(other.values)))
    ref.same_bits(lib.get(view @ right), other @ B)


@pytest.mark.parametrize("kind", ["patterns", "values", "shared"])
def test_issue_19_batches(rng, lib, kind: str) -> None:
    data = ref.values(rng, "int8", (3, 40, 56))
    exists = ref.keep(rng, (3, 40, 56), 8, 0.4)
    if kind == "patterns":
        A = mc.SrBcrs.from_dense(np.where(exists, data, 0).astype(np.int8), mask=exists)
    else:
        A = mc.SrBcrs.from_dense(np.where(exists[0], data[0], 0).astype(np.int8), mask=exists[0])
    if kind == "values":
        A = A.with_values(ref.values(rng, "int8", (3, np.asarray(A.values).size)))
    B = ref.values(rng, "int8", (3, 56, 19))
    ref.same_bits(lib.get(A.cuda() @ lib.put(B)), A @ B)


def test_issue_06_empty_matrices(rng, lib) -> None:
    A = mc.SrBcrs.from_dense(np.zeros((16, 24), np.int8))
    ref.same_bits(lib.get(A.cuda() @ lib.put(np.ones((24, 5), np.int8))), np.zeros((16, 5), "i4"))
    nothing = A.cuda() @ lib.put(np.ones((24, 0), np.int8))
    assert tuple(nothing.shape) == (16, 0)


@pytest.mark.parametrize("granularity", ["tensor", "row", "col"])
@pytest.mark.parametrize("dtype", ["int4", "int8", "int16", "int32"])
def test_dequantize(rng, lib, granularity: str, dtype: str) -> None:
    q = ref.stored(ref.values(rng, dtype, (30, 44)), dtype)
    length = {"tensor": 1, "row": 30, "col": 44}[granularity]
    scale = rng.uniform(0.01, 2, length).astype(np.float32)
    how = {"granularity": granularity, "dtype": "fp16", "out_order": "F"}
    got = mc.dequantize(to_gpu(lib, q), lib.put(scale), **how)
    ref.same_bits(lib.get(got), mc.dequantize(q, scale, **how))


# ---- where arrays lie ----------------------------------------------------------------------------


def test_issue_03_mixed_devices(rng) -> None:
    lib = Torch()
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    right = lib.put(B)
    on_gpu = A.cuda()
    ones = np.ones(72, np.float32)
    plan = mc.SpMMPlan(on_gpu, rhs_dtype="int8", n=24)
    scaled = mc.SpMMPlan(on_gpu, rhs_dtype="int8", n=24, out_dtype="fp32", a_scale="row")
    host_plan = mc.SpMMPlan(A, rhs_dtype="int8", n=24)
    out = np.zeros((72, 24), np.int32)
    q = lib.torch.ones((4, 4), dtype=lib.torch.int8, device="cuda")
    for run, text in [
        (lambda: A @ right, r"A lies in host memory, but B lies on CUDA device 0.*A.cuda\(0\)"),
        (lambda: on_gpu @ B, r"A lies on CUDA device 0, but B lies in host.*to_cuda\(B, 0\)"),
        (lambda: on_gpu @ right.cpu(), r"pass B.cuda\(0\)"),
        (lambda: mc.spmm(on_gpu, right, a_scale=ones), r"a_scale lies in host memory.*to_cuda"),
        (lambda: mc.spmm(on_gpu, right, out=out), "out lies in host memory"),
        (lambda: plan(B), r"the plan was made on CUDA device 0, but B lies in host memory"),
        (lambda: scaled(right, a_scale=ones), r"a_scale lies in host memory"),
        (lambda: host_plan(right), r"the plan was made in host memory.*A.cuda\(0\)"),
        (lambda: plan(right, handle=mc.Handle("cpu")), "handle of cuda:0"),
        (lambda: mc.spmm(on_gpu, right, handle=mc.Handle("cpu")), "handle is in host memory"),
        (lambda: on_gpu.with_values(np.asarray(A.values)), "values lies in host memory"),
        (lambda: mc.dequantize(q, np.ones(1, np.float32)), "scale lies in host memory"),
    ]:
        with pytest.raises(mc.DeviceMismatchError, match=text) as caught:
            run()
        assert caught.value.status == 5


@pytest.mark.skipif(mc.device_count("cuda") < 2, reason="there are not two GPUs")
def test_issue_03_two_gpus(rng) -> None:
    """The device is that of the arrays, whatever the current one is."""
    torch = Torch().torch
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    for ordinal in (1, 0):
        right = torch.from_numpy(B).cuda(ordinal)
        got = A.cuda(ordinal) @ right
        assert got.device == right.device and torch.cuda.current_device() == 0
        ref.same_bits(got.cpu().numpy(), A @ B)
        ref.same_bits((A.cuda(ordinal) @ mc.to_cuda(B, ordinal)).numpy(), A @ B)
    moved = A.cuda(0).cuda(1)
    assert moved.device == "cuda:1"
    ref.same_bits(np.asarray(moved.cpu().to_dense()), np.asarray(A.to_dense()))
    with pytest.raises(mc.DeviceMismatchError, match=r"device 1, but B lies on CUDA device 0"):
        moved @ torch.from_numpy(B).cuda(0)
    with pytest.raises(mc.DeviceMismatchError, match="handle of cuda:1"):
        mc.spmm(moved, torch.from_numpy(B).cuda(1), handle=mc.Handle("cuda", 0))


def test_libraries_may_be_mixed(rng) -> None:
    torch, cupy, own = Torch(), CuPy(), Own()
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    scale = rng.uniform(0.1, 1, 72).astype(np.float32)
    expected = mc.spmm(A, B, a_scale=scale)
    for first in (torch, cupy, own):
        for second in (torch, cupy, own):
            got = mc.spmm(A.cuda(), first.put(B), a_scale=second.put(scale))
            ref.same_bits(first.get(got), expected)
            out = second.put(np.zeros((72, 24), np.float32))
            mc.spmm(A.cuda(), first.put(B), a_scale=first.put(scale), out=out)
            ref.same_bits(second.get(out), expected)


def test_cuda_array_interface_alone(rng) -> None:
    lib = CuPy()

    class Holder:
        def __init__(self, array: Any, **change: Any) -> None:
            self.keep = array
            self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **change}

    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    right = lib.put(B)
    side = lib.cupy.cuda.Stream(non_blocking=True)
    for stream in (None, 1, side.ptr):
        got = A.cuda() @ Holder(right, stream=stream)
        assert isinstance(got, mc.DeviceArray)
        ref.same_bits(got.numpy(), A @ B)
    column = lib.put(np.ascontiguousarray(B.T)).T
    ref.same_bits((A.cuda() @ Holder(column)).numpy(), A @ B)
    with pytest.raises(mc.InvalidValueError, match="stream 0"):
        A.cuda() @ Holder(right, stream=0)
    with pytest.raises(mc.InvalidValueError, match="out is read-only"):
        pointer = (right.data.ptr, True)
        mc.spmm(A.cuda(), right, out=Holder(lib.put(np.zeros((72, 24), "i4")), data=pointer))


def test_matrices_on_the_device(rng, tmp_path) -> None:
    dense, A = problem(rng)
    G = A.cuda()
    assert (A.device, G.device) == ("cpu", "cuda:0") and G.cuda() is G and A.cpu() is A
    assert G.to("cuda") is G and A.to("cuda:0").device == "cuda:0" and A.to("cpu") is A
    for name in ("nnz", "num_vectors", "density", "nbytes"):
        assert getattr(G, name) == getattr(A, name)
    assert repr(G) == repr(A) and isinstance(G.values, mc.DeviceArray)
    for matrix in (G.cpu(), pickle.loads(pickle.dumps(G)).cpu()):
        ref.same_bits(np.asarray(matrix.to_dense()), dense)
    assert pickle.loads(pickle.dumps(G)).device == "cuda:0"
    G.save(tmp_path / "a.npz")
    ref.same_bits(np.asarray(mc.SrBcrs.load(tmp_path / "a.npz").to_dense()), dense)
    mc.validate(G)
    arrays = (G.row_begin, G.row_end, G.col_indices, G.values)
    again = mc.SrBcrs(G.shape, *arrays, vector_length=8, stride=G.stride)
    assert (again.device, again.nnz) == ("cuda:0", A.nnz)
    assert G.col_indices.read_only  # type: ignore[union-attr]
    with pytest.raises(mc.NotSupportedError, match=r"CUDA device 0.*A\.cpu\(\)"):
        G.to_scipy()
    with pytest.raises(mc.NoDeviceError):
        A.cuda(99)
    masked = mc.SrBcrs.from_dense(dense, mask=rng.random(dense.shape) < 0.4)
    assert masked.cuda().nnz == masked.nnz
    B = ref.values(rng, "int8", (90, 9))
    ref.same_bits((masked.cuda() @ mc.to_cuda(B)).numpy(), masked @ B)


def test_host_only_operations_say_so() -> None:
    torch = Torch().torch
    x = torch.ones((16, 16), device="cuda")
    for run, text in [
        (lambda: mc.pack_int4(x), r"\.cpu\(\)"),
        (lambda: mc.to_cuda(x), r"\.cpu\(\)"),
    ]:
        with pytest.raises(mc.NotSupportedError, match=text):
            run()
    with pytest.raises(mc.InvalidValueError, match="detach|grad"):
        mc.SrBcrs.from_dense(np.ones((16, 16), np.float32)).cuda() @ x.requires_grad_()


def test_device_arrays_and_other_libraries(rng) -> None:
    torch, cupy = Torch(), CuPy()
    data = ref.values(rng, "int16", (6, 10))
    x = mc.to_cuda(data)
    assert (x.shape, x.dtype, x.device, x.ndim, x.nbytes) == ((6, 10), "int16", "cuda:0", 2, 120)
    ref.same_bits(torch.get(torch.torch.from_dlpack(x)), data)
    ref.same_bits(torch.get(torch.torch.as_tensor(x, device="cuda")), data)
    ref.same_bits(cupy.get(cupy.cupy.asarray(x)), data)
    ref.same_bits(cupy.get(cupy.cupy.from_dlpack(x)), data)
    shared = torch.torch.from_dlpack(x)
    shared.zero_()
    torch.torch.cuda.synchronize()
    assert not x.numpy().any()
    del x
    assert not torch.get(shared).any()  # the tensor keeps the memory
    half = mc.to_cuda(ref.values(rng, "bf16", (4, 4)))
    assert torch.torch.from_dlpack(half).dtype == torch.torch.bfloat16
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    result = mc.spmm(A.cuda(), mc.to_cuda(B), out_order="F")
    ref.same_bits(result.numpy(), A @ B)
    ref.same_bits(torch.get(torch.torch.from_dlpack(result)), A @ B)
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(result)
    assert mc.DeviceArray.empty((0, 3), np.float32).numpy().shape == (0, 3)


def test_int4_moves(rng) -> None:
    packed = mc.pack_int4(ref.values(rng, "int4", (30, 13)))
    moved = packed.cuda()
    assert moved.cuda() is moved and moved.shape == (30, 13)
    np.testing.assert_array_equal(moved.cpu().unpack(), packed.unpack())
    with pytest.raises(mc.NotSupportedError, match=r"cpu\(\)"):
        moved.unpack()


def test_commands() -> None:
    typer_testing = pytest.importorskip("typer.testing")
    pytest.importorskip("rich")
    from magicube.cli._app import app

    runner = typer_testing.CliRunner()
    sizes = ["--m", "256", "--k", "256", "--n", "128", "--rounds", "1", "--json"]
    done = runner.invoke(app, ["bench", "spmm", "--device", "cuda", *sizes])
    if done.exit_code == 2:  # the program that it runs was not built
        assert "MAGICUBE_BUILD_BENCHMARK" in done.output
    else:
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["correct"]
    done = runner.invoke(app, ["bench", "sddmm", "--device", "cuda", *sizes])
    assert done.exit_code == 2
    done = runner.invoke(app, ["verify", "--device", "cuda", "--cases", "150", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["cases"] > 150 and len(told["operations"]) == 5
