# SPDX-License-Identifier: Apache-2.0
"""SDDMM, softmax, attention and V:N:M on side streams and in captured graphs, without a wait."""

from __future__ import annotations

import functools
import gc
from typing import Any, Callable

import magicube as mc
import numpy as np
import pytest
import reference as ref
from cuda_arrays import CuPy, Own, Torch, needs_gpu
from test_cuda_streams import SPIN_CYCLES, spin
from test_vnm import random_vnm

pytestmark = needs_gpu

OPERATIONS = ["sddmm", "softmax", "attention", "int8_attention", "vnm"]


class Work:
    """A plan of an operation over the inputs of a library, and what its result must be."""

    def __init__(self, operation: str, rng: np.random.Generator, lib: Any) -> None:
        self.rng = rng
        gc.collect()  # the end of another test's plan waits for the device
        getattr(self, operation)(lib)

    def set(
        self,
        lib: Any,
        shapes: list[tuple[int, ...]],
        dtype: str,
        out: np.ndarray,
        run: Callable[..., Any],
        expected: Callable[..., Any],
    ) -> None:
        """``run`` takes the arrays on the device and out; ``expected`` the arrays in host memory,
        with the largest difference that is right."""
        self.hosts = [self.draw(dtype, shape) for shape in shapes]
        self.fresh = [self.draw(dtype, shape) for shape in shapes]
        self.inputs = [lib.put(x) for x in self.hosts]
        self.sources = [lib.put(x) for x in self.fresh]
        self.out = lib.put(out)
        self.run = lambda **options: run(*self.inputs, self.out, **options)
        self.expected = expected

    def draw(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        if dtype in ref.RANGES:
            return ref.values(self.rng, dtype, shape)
        return self.rng.standard_normal(shape).astype(ref.STORAGE[dtype])

    def sddmm(self, lib: Any) -> None:
        pattern = mc.SrBcrs.from_mask(ref.keep(self.rng, (72, 88), 8, 0.4))
        plan = mc.SDDMMPlan(pattern.cuda(), dtype="int8", k=33)
        self.set(
            lib, [(72, 33), (33, 88)], "int8", np.zeros(pattern._value_count, np.int32), plan,
            lambda a, b: (np.asarray(mc.sddmm(pattern, a, b).values), 0),
        )

    def softmax(self, lib: Any) -> None:
        pattern = mc.SrBcrs.from_mask(ref.keep(self.rng, (72, 88), 8, 0.4))
        plan = mc.SparseSoftmaxPlan(pattern.cuda(), in_dtype="fp32")
        count = pattern._value_count

        def expected(x: np.ndarray) -> tuple[np.ndarray, float]:
            return np.asarray(mc.sparse_softmax(pattern.with_values(x)).values), 1e-5

        self.set(lib, [(count,)], "fp32", np.zeros(count, np.float32), plan, expected)

    def attention(self, lib: Any) -> None:
        pattern = mc.patterns.sliding_window(64, 64, before=20)
        plan = mc.AttentionPlan(
            pattern.cuda(), head_dim=64, dtype="fp16", q_heads=2, causal=True, key_lengths=True
        )
        lengths = lib.put(np.array([50]))

        def expected(*qkv: np.ndarray) -> tuple[np.ndarray, float]:
            exact = mc.attention(
                *(x.astype(np.float32) for x in qkv), pattern, causal=True, key_lengths=[50]
            )
            return exact, 1e-2

        self.set(
            lib, [(1, 2, 64, 64)] * 3, "fp16", np.zeros((1, 2, 64, 64), np.float16),
            functools.partial(plan, key_lengths=lengths), expected,
        )

    def int8_attention(self, lib: Any) -> None:
        pattern = mc.SrBcrs.from_mask(ref.keep(self.rng, (64, 64), 8, 0.4))
        scales = {"q_scale": 0.01, "k_scale": 0.01, "v_scale": 0.01}
        plan = mc.AttentionPlan(
            pattern.cuda(), head_dim=64, dtype="int8", q_heads=2, **{n: "tensor" for n in scales}
        )
        there = {n: lib.put(np.array([x], np.float32)) for n, x in scales.items()}

        def expected(*qkv: np.ndarray) -> tuple[np.ndarray, float]:
            result = mc.attention(*qkv, pattern, **scales, out_dtype="fp32")
            return result, 0.03 * float(abs(result).max())

        self.set(
            lib, [(1, 2, 64, 64)] * 3, "int8", np.zeros((1, 2, 64, 64), np.float16),
            functools.partial(plan, **there), expected,
        )

    def vnm(self, lib: Any) -> None:
        W, _ = random_vnm(self.rng, "int8", 128, 96, 64, 8)
        A = mc.Vnm.from_dense(W, m=8)
        plan = mc.SpMMPlan(A.cuda(), rhs_dtype="int8", n=32)
        self.set(
            lib, [(96, 32)], "int8", np.zeros((128, 32), np.int32), plan, lambda b: (A @ b, 0)
        )

    def check(self, lib: Any, arrays: list[np.ndarray]) -> None:
        exact, slack = self.expected(*arrays)
        found = lib.get(self.out)
        if slack == 0:
            ref.same_bits(found, exact)
        else:
            assert (abs(found.astype(np.float64) - exact) <= slack).all()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_torch_side_stream_without_waiting(rng, operation: str) -> None:
    lib = Torch()
    torch = lib.torch
    work = Work(operation, rng, lib)
    work.run()
    torch.cuda.synchronize()
    work.check(lib, work.hosts)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SPIN_CYCLES)
        for target, source in zip(work.inputs, work.sources):
            target.copy_(source)
        work.run()
        assert not side.query(), "the call waited for the stream"
    assert torch.cuda.current_stream().query(), "the call used another stream"
    side.synchronize()
    work.check(lib, work.fresh)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_cupy_side_stream_without_waiting(rng, operation: str) -> None:
    lib = CuPy()
    cupy = lib.cupy
    work = Work(operation, rng, lib)
    cupy.cuda.Device().synchronize()
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        spin(cupy)  # compiles the kernel; so do the copies
        for target in work.inputs:
            target[...] = target
        work.run()  # allocates this stream's scratch
        side.synchronize()
        spin(cupy)
        for target, source in zip(work.inputs, work.sources):
            target[...] = source
        work.run()
        assert not side.done, "the call waited for the stream"
    side.synchronize()
    work.check(lib, work.fresh)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_torch_graph(rng, operation: str) -> None:
    lib = Torch()
    torch = lib.torch
    work = Work(operation, rng, lib)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work.run()
    for hosts in (work.hosts, work.fresh):
        for target, x in zip(work.inputs, hosts):
            target.copy_(lib.put(x))
        work.out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        work.check(lib, hosts)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_cupy_graph(rng, operation: str) -> None:
    lib = CuPy()
    cupy = lib.cupy
    work = Work(operation, rng, lib)
    side = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with side:
        work.run()  # allocates this stream's scratch
        side.synchronize()
        side.begin_capture()
        work.run()
        graph = side.end_capture()
    for hosts in (work.hosts, work.fresh):
        for target, x in zip(work.inputs, hosts):
            target.set(x)
        work.out.fill(0)
        cupy.cuda.Device().synchronize()
        graph.launch(side)
        side.synchronize()
        work.check(lib, hosts)


def test_torch_graph_of_the_whole_chain(rng) -> None:
    """SDDMM, softmax and SpMM make their results themselves, from torch's pool for the graph."""
    lib = Torch()
    torch = lib.torch
    mask = ref.keep(rng, (64, 64), 8, 0.5)
    mask[:, :2] = True
    pattern = mc.SrBcrs.from_mask(mask)
    there = pattern.cuda()
    q, k, v = (lib.put(rng.standard_normal((64, 32)).astype(np.float16)) for _ in range(3))
    scores = mc.SDDMMPlan(there, dtype="fp16", out_dtype="fp32", k=32, rhs_order="F")
    soft = mc.SparseSoftmaxPlan(there, in_dtype="fp32", out_dtype="fp16")
    product = mc.SpMMPlan(
        there, rhs_dtype="fp16", lhs_dtype="fp16", n=32, value_mode="per_call"
    )

    def chain() -> Any:
        return product(v, values=soft(scores(q, k.T), alpha=32**-0.5))

    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = chain()
    for _ in range(2):
        for x in (q, k, v):
            x.copy_(lib.put(rng.standard_normal((64, 32)).astype(np.float16)))
        graph.replay()
        torch.cuda.synchronize()
        host = [lib.get(x).astype(np.float32) for x in (q, k, v)]
        exact = mc.attention(*host, pattern)
        assert (abs(lib.get(out).astype(np.float32) - exact) <= 2e-2).all()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_handle_with_a_stream_of_its_own(rng, operation: str) -> None:
    lib = Torch()
    torch = lib.torch
    work = Work(operation, rng, lib)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with mc.Handle("cuda", stream=side.cuda_stream) as handle:
        work.run(handle=handle)  # allocates this stream's scratch
        handle.synchronize()
        torch.cuda._sleep(SPIN_CYCLES)
        for target, source in zip(work.inputs, work.sources):
            target.copy_(source)
        work.run(handle=handle)  # waits, on the GPU, for torch's current stream
        handle.synchronize()
    work.check(lib, work.fresh)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("stream", [None, 0])
def test_the_work_is_right(rng, operation: str, stream: int | None) -> None:
    """What the other tests compare with, without streams; a handle of the caller's."""
    lib = Own()
    work = Work(operation, rng, lib)
    work.run()
    work.check(lib, work.hosts)
    work.out = lib.put(np.zeros(work.out.shape, work.out.dtype))
    with mc.Handle("cuda", stream=stream) as handle:
        work.run(handle=handle)
        handle.synchronize()
    work.check(lib, work.hosts)
