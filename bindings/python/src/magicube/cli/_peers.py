# SPDX-License-Identifier: Apache-2.0
"""What else computes the same on this machine: NumPy, SciPy, ONNX Runtime, PyTorch.

Each peer gets its data in the types and layout that suit it best, converted before the clock
starts; weights that it may prepare (ONNX Runtime's initializers) are prepared beforehand.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Peer(NamedTuple):
    """A competitor: run() computes, dense() gives its last result as an M x N array."""

    run: Callable[[], Any]
    dense: Callable[[Any], Array]
    note: str


class Peers:
    """Those found, and why others are missing."""

    def __init__(self) -> None:
        self.found: dict[str, Peer] = {}
        self.missing: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], Peer]) -> None:
        """Adds a peer unless its package is missing or refuses the problem."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch calls its CSR tensors a beta
                peer = make()
                peer.run()
        except ImportError as error:
            self.missing[name] = f"not installed: {error.name}"
        except Exception as error:  # another package's failure is a line in the table
            self.missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            self.found[name] = peer


def blas_kernel() -> str:
    """Which BLAS NumPy uses, and its kernel for this processor."""
    try:
        import threadpoolctl
    except ImportError:
        return "unknown (threadpoolctl is not installed)"
    np.zeros((2, 2)) @ np.zeros((2, 2))  # loads it
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    numpy_own = [pool for pool in pools if "numpy" in pool["filepath"]] or pools
    if not numpy_own:
        return "unknown"
    pool = numpy_own[0]
    return f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Limits the threads of NumPy's and SciPy's BLAS."""
    try:
        import threadpoolctl
    except ImportError:
        yield
        return
    with threadpoolctl.threadpool_limits(count, user_api="blas"):
        yield


def _numpy_dense(weight: Array, b: Array) -> Peer:
    wide, right = weight.astype(np.float32), b.astype(np.float32)
    out = np.empty((weight.shape[0], b.shape[1]), np.float32)
    return Peer(lambda: np.matmul(wide, right, out=out), np.asarray, blas_kernel())


def _scipy_csr(weight: Array, b: Array) -> Peer:
    import scipy.sparse

    sparse = scipy.sparse.csr_array(weight.astype(np.float32))
    right = b.astype(np.float32)
    return Peer(lambda: sparse @ right, np.asarray, "SciPy's product runs on one thread")


def _onnx_session(operator: str, weight: Array, threads: int) -> Any:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    integer = operator == "MatMulInteger"
    element = TensorProto.UINT8 if integer else TensorProto.FLOAT
    inputs = ["x", "w", "zero"] if integer else ["x", "w"]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"])],
        "peer",
        [helper.make_tensor_value_info("x", element, [None, weight.shape[1]])],
        [
            helper.make_tensor_value_info(
                "y", TensorProto.INT32 if integer else TensorProto.FLOAT, [None, weight.shape[0]]
            )
        ],
        [
            numpy_helper.from_array(np.ascontiguousarray(weight.T), "w"),
            numpy_helper.from_array(np.array(128, np.uint8), "zero"),
        ][: len(inputs) - 1],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _onnxruntime(operator: str, weight: Array, b: Array, threads: int) -> Peer:
    if operator == "MatMulInteger":
        # Its fast kernels take unsigned activations: the same numbers with a zero point of 128.
        runner = _onnx_session(operator, weight, threads)
        x = (b.T.astype(np.int16) + 128).astype(np.uint8)
        note = "MatMulInteger, uint8 activations with zero point, dense, weight as initializer"
    else:
        runner = _onnx_session(operator, weight.astype(np.float32), threads)
        x = b.T.astype(np.float32)
        note = "MatMul, dense, weight as initializer"
    feed = {"x": np.ascontiguousarray(x)}
    return Peer(lambda: runner.run(None, feed)[0], lambda y: np.asarray(y).T, note)


def _torch_product(weight: Array, b: Array, threads: int, sparse: bool) -> Peer:
    import torch

    torch.set_num_threads(threads)
    left = torch.from_numpy(weight.astype(np.float32))
    right = torch.from_numpy(b.astype(np.float32))
    if sparse:
        left = left.to_sparse_csr()
    return Peer(lambda: left @ right, lambda y: np.asarray(y.numpy()), f"torch {torch.__version__}")


def spmm_peers(weight: Array, b: Array, threads: int) -> Peers:
    """Peers of weight @ b; weight is dense with zeros, both are integers or floats."""
    peers = Peers()
    peers.add("numpy_dense_fp32", lambda: _numpy_dense(weight, b))
    peers.add("scipy_csr_fp32", lambda: _scipy_csr(weight, b))
    peers.add("onnxruntime_dense_fp32", lambda: _onnxruntime("MatMul", weight, b, threads))
    if weight.dtype == np.int8 and b.dtype == np.int8:
        peers.add(
            "onnxruntime_dense_int8", lambda: _onnxruntime("MatMulInteger", weight, b, threads)
        )
    else:
        peers.missing["onnxruntime_dense_int8"] = "the operands are not 8-bit or 4-bit integers"
    peers.add("torch_dense_fp32", lambda: _torch_product(weight, b, threads, sparse=False))
    peers.add("torch_csr_fp32", lambda: _torch_product(weight, b, threads, sparse=True))
    return peers


def _scatter(shape: tuple[int, ...], places: tuple[Array, ...], values: Array) -> Array:
    dense = np.zeros(shape, np.float64)
    dense[places] = values
    return dense


def _numpy_sampled(a: Array, b: Array, mask: Array) -> Peer:
    left, right = a.astype(np.float32), b.astype(np.float32)
    places = np.nonzero(mask)
    return Peer(
        lambda: (left @ right)[places],
        lambda values: _scatter(mask.shape, places, values),
        f"dense product, then gathered; {blas_kernel()}",
    )


def _torch_sampled(a: Array, b: Array, mask: Array, threads: int) -> Peer:
    import torch

    torch.set_num_threads(threads)
    left = torch.from_numpy(a.astype(np.float32))
    right = torch.from_numpy(b.astype(np.float32))
    pattern = torch.from_numpy(mask.astype(np.float32)).to_sparse_csr()
    return Peer(
        lambda: torch.sparse.sampled_addmm(pattern, left, right, beta=0.0),
        lambda y: np.asarray(y.to_dense().numpy()),
        f"sampled_addmm, torch {torch.__version__}",
    )


def sddmm_peers(a: Array, b: Array, mask: Array, threads: int) -> Peers:
    """Peers of (a @ b) at the places of mask."""
    peers = Peers()
    peers.add("numpy_dense_fp32", lambda: _numpy_sampled(a, b, mask))
    peers.add("torch_sampled_fp32", lambda: _torch_sampled(a, b, mask, threads))
    return peers


def _numpy_softmax(scores: Array, mask: Array) -> Peer:
    rows = mask.sum(axis=1)
    starts = (np.cumsum(rows) - rows)[rows > 0]
    lengths = rows[rows > 0]
    places = np.nonzero(mask)
    values = scores[places].astype(np.float32)

    def run() -> Array:
        top = np.maximum.reduceat(values, starts)
        weights = np.exp(values - np.repeat(top, lengths))
        return np.asarray(weights / np.repeat(np.add.reduceat(weights, starts), lengths))

    return Peer(run, lambda p: _scatter(mask.shape, places, p), "reduceat over CSR values")


def _torch_softmax(scores: Array, mask: Array, threads: int) -> Peer:
    import torch

    torch.set_num_threads(threads)
    dense = torch.from_numpy(np.where(mask, scores, -np.inf).astype(np.float32))
    return Peer(
        lambda: torch.softmax(dense, dim=1),
        lambda p: np.asarray(p.numpy()),
        f"dense with -infinity where no element exists, torch {torch.__version__}",
    )


def softmax_peers(scores: Array, mask: Array, threads: int) -> Peers:
    """Peers of the softmax of each row of scores (scaled already) over the places of mask."""
    peers = Peers()
    peers.add("numpy_csr_fp32", lambda: _numpy_softmax(scores, mask))
    peers.add("torch_dense_fp32", lambda: _torch_softmax(scores, mask, threads))
    return peers


def _numpy_attention(q: Array, k: Array, v: Array, mask: Array) -> Peer:
    keys = np.ascontiguousarray(np.swapaxes(k, -1, -2))
    hidden = np.where(mask, np.float32(0), np.float32(-np.inf))
    factor = np.float32(q.shape[-1] ** -0.5)

    def run() -> Array:
        scores = q @ keys
        scores *= factor
        scores += hidden
        top = scores.max(-1, keepdims=True)
        scores -= np.where(np.isfinite(top), top, np.float32(0))
        np.exp(scores, out=scores)
        total = scores.sum(-1, keepdims=True)
        out = scores @ v
        out /= np.where(total > 0, total, np.float32(1))
        return np.asarray(out)

    return Peer(run, np.asarray, f"dense with a mask of -infinity; {blas_kernel()}")


def _torch_attention(q: Array, k: Array, v: Array, mask: Array | None, threads: int) -> Peer:
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    seen = None if mask is None else torch.from_numpy(mask)
    attend = torch.nn.functional.scaled_dot_product_attention
    what = "dense, all keys seen" if mask is None else "dense with a boolean mask"
    return Peer(
        lambda: attend(*tensors, attn_mask=seen),
        lambda y: np.asarray(y.numpy()),
        f"scaled_dot_product_attention, {what}, torch {torch.__version__}",
    )


def attention_peers(q: Array, k: Array, v: Array, mask: Array, threads: int) -> Peers:
    """Peers of attention of (heads, length, width) arrays of fp32 over the places of mask."""
    peers = Peers()
    peers.add("numpy_dense_fp32", lambda: _numpy_attention(q, k, v, mask))
    peers.add("torch_masked_fp32", lambda: _torch_attention(q, k, v, mask, threads))
    # Another product, and the fastest way to the dense one: it sees all keys.
    peers.add("torch_dense_fp32", lambda: _torch_attention(q, k, v, None, threads))
    return peers
