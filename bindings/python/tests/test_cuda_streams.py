# SPDX-License-Identifier: Apache-2.0
"""The order of calls on CUDA streams: no waiting, current streams, graphs, threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import CuPy, Torch, needs_gpu, problem

pytestmark = needs_gpu
SPIN_CYCLES = 200_000_000  # about a tenth of a second


def test_torch_current_stream_and_no_waiting(rng) -> None:
    lib = Torch()
    torch = lib.torch
    dense, A = problem(rng)
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=24)
    B, later = (ref.values(rng, "int8", (90, 24)) for _ in range(2))
    right, source = lib.put(B), lib.put(later)
    plan(right)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SPIN_CYCLES)
        right.copy_(source)
        result = plan(right)
        assert not side.query(), "the call waited for the stream"
    assert torch.cuda.current_stream().query(), "the call used another stream"
    side.synchronize()
    ref.same_bits(lib.get(result), ref.epilogue(ref.exact_product(dense, later), "int32"))


def spin(cupy: Any) -> None:
    code = "extern \"C\" __global__ void spin(long long n)" \
        "{ long long t = clock64(); while (clock64() - t < n); }"
    cupy.RawKernel(code, "spin")((1,), (1,), (np.int64(SPIN_CYCLES),))


def test_cupy_current_stream_and_no_waiting(rng) -> None:
    lib = CuPy()
    cupy = lib.cupy
    dense, A = problem(rng)
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=24)
    B, later = (ref.values(rng, "int8", (90, 24)) for _ in range(2))
    right, source, out = lib.put(B), lib.put(later), lib.put(np.zeros((72, 24), np.int32))
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        spin(cupy)  # compiles the kernel
        plan(right, out)  # allocates this stream's scratch
        side.synchronize()
        spin(cupy)
        right[...] = source
        plan(right, out)
        assert not side.done, "the call waited for the stream"
    side.synchronize()
    ref.same_bits(lib.get(out), ref.epilogue(ref.exact_product(dense, later), "int32"))


def test_producers_on_another_stream_are_waited_for(rng) -> None:
    """B is torch's; a scale comes from CuPy, whose stream is still busy with it."""
    lib, other = Torch(), CuPy()
    _, A = problem(rng)
    B = ref.values(rng, "int8", (90, 24))
    scale = rng.uniform(0.1, 1, 72).astype(np.float32)
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", out_dtype="fp32", n=24, a_scale="row")
    right, target, source = lib.put(B), other.put(np.zeros(72, np.float32)), other.put(scale)
    side = other.cupy.cuda.Stream(non_blocking=True)
    with side:
        spin(other.cupy)
        target[...] = source
        result = plan(right, a_scale=target)
    ref.same_bits(lib.get(result), mc.spmm(A, B, a_scale=scale))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mode", ["fixed", "updatable", "per_call"])
def test_issue_07_torch_graph(rng, mode: str, order: str) -> None:
    lib = Torch()
    torch = lib.torch
    _, A = problem(rng)
    values = lib.put(np.asarray(A.values))
    plan = mc.SpMMPlan(
        A.cuda(), rhs_dtype="int8", out_dtype="fp16", n=31, value_mode=mode, rhs_order=order,
        a_scale="row", bias=True,
    )
    B = [ref.values(rng, "int8", (90, 31)) for _ in range(3)]
    scale, bias = rng.uniform(0.001, 0.1, (2, 72)).astype(np.float32)
    lines = lib.put(B[0] if order == "C" else np.ascontiguousarray(B[0].T))
    right = lines if order == "C" else lines.T
    arguments: dict[str, Any] = {"a_scale": lib.put(scale), "bias": lib.put(bias)}
    if mode == "per_call":
        arguments["values"] = values
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if mode == "updatable":
            plan.update_values(values)
        result = plan(right, **arguments)
    matrix = A
    for step, data in enumerate(B):
        right.copy_(lib.put(data))
        if step == 2 and mode != "fixed":
            matrix = A.with_values(ref.values(rng, "int8", np.asarray(A.values).shape))
            values.copy_(lib.put(np.asarray(matrix.values)))
        result.fill_(torch.nan)
        graph.replay()
        expected = mc.spmm(matrix, data, a_scale=scale, bias=bias, out_dtype="fp16")
        ref.same_bits(lib.get(result), expected)


def test_issue_07_a_plan_ends_during_a_capture(rng) -> None:
    """As where a garbage collector finds one there."""
    lib = Torch()
    torch = lib.torch
    _, A = problem(rng)
    data = ref.values(rng, "int8", (90, 31))
    plan, ended = (mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=31) for _ in range(2))
    matrices = [A.cuda() for _ in range(2)]
    right = lib.put(data)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        del ended, matrices
        gc.collect()
        result = plan(right)
    result.fill_(0)
    graph.replay()
    ref.same_bits(lib.get(result), A @ data)


def test_issue_07_cupy_graph(rng) -> None:
    lib = CuPy()
    cupy = lib.cupy
    _, A = problem(rng)
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=31)
    B = [ref.values(rng, "int8", (90, 31)) for _ in range(3)]
    right, out = lib.put(B[0]), lib.put(np.zeros((72, 31), np.int32))
    cupy.cuda.Device().synchronize()
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        side.begin_capture()
        plan(right, out)
        graph = side.end_capture()
    for data in B:
        right.set(data)
        out.fill(-1)
        cupy.cuda.Device().synchronize()
        graph.launch(side)
        side.synchronize()
        ref.same_bits(lib.get(out), A @ data)


def test_a_handle_with_a_stream_of_its_own(rng) -> None:
    lib = Torch()
    torch = lib.torch
    _, A = problem(rng)
    B, later = (ref.values(rng, "int8", (90, 24)) for _ in range(2))
    right, source = lib.put(B), lib.put(later)
    out = lib.put(np.zeros((72, 24), np.int32))
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=24)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with mc.Handle("cuda", stream=side.cuda_stream) as handle:
        plan(right, out, handle=handle)
        handle.synchronize()
        torch.cuda._sleep(SPIN_CYCLES)
        right.copy_(source)
        plan(right, out, handle=handle)  # waits, on the GPU, for torch's current stream
        handle.synchronize()
    ref.same_bits(lib.get(out), A @ later)


def test_two_streams_at_once(rng) -> None:
    """Executions that overlap on the GPU do not share scratch."""
    lib = CuPy()
    cupy = lib.cupy
    _, A = problem(rng, shape=(64, 4096))
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=60)
    assert plan.info.workspace_bytes > 0
    inputs = [ref.values(rng, "int8", (4096, 60)) for _ in range(2)]
    rights = [lib.put(B) for B in inputs]
    outs = [[lib.put(np.zeros((64, 60), np.int32)) for _ in range(40)] for _ in range(2)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    graphs = []
    cupy.cuda.Device().synchronize()
    for stream, right, targets in zip(streams, rights, outs):
        with stream:
            stream.begin_capture()
            for out in targets:
                plan(right, out)
            graphs.append(stream.end_capture())
    for _ in range(5):
        for graph, stream in zip(graphs, streams):
            graph.launch(stream)
    cupy.cuda.Device().synchronize()
    for B, targets in zip(inputs, outs):
        expected = A @ B
        for out in targets:
            ref.same_bits(lib.get(out), expected)


@pytest.mark.parametrize("own_streams", [False, True])
@pytest.mark.parametrize("library", [Torch, CuPy])
def test_issue_03_threads_on_one_plan(rng, library: Any, own_streams: bool) -> None:
    """torch gives scratch to each execution; CuPy's executions take the plan's of their stream."""
    lib = library()
    _, A = problem(rng, shape=(128, 256))
    inputs = [ref.values(rng, "int8", (256, 60)) for _ in range(8)]
    expected = [A @ B for B in inputs]
    # Rows of 60 bytes are staged by it.
    plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=60, implementation="sm80_gather")
    assert plan.info.workspace_bytes > 0
    wrong: list[object] = []
    start = threading.Barrier(8)

    def work(index: int) -> None:
        try:
            with lib.stream(own_streams) as wait:
                right = lib.put(inputs[index])
                wait()
                start.wait()
                results = [plan(right) for _ in range(20)]
                wait()
                wrong.extend(index for x in results if (lib.get(x) != expected[index]).any())
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
