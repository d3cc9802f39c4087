# SPDX-License-Identifier: Apache-2.0
"""Kronecker-sparse products as PyTorch computes them: what this library is compared with on CUDA.

Every function takes K, the layout and the device that X lies on, and returns X to Y, both tensors
of K's type. Nothing here is imported unless a GPU's products are compared.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, Union

import numpy as np

from magicube._kronecker import Kronecker, KroneckerChain
from magicube.errors import NotSupportedError

AnyKronecker = Union[Kronecker, KroneckerChain]
Run = Callable[[Any], Any]
TRIAL = 64  # vectors of the product that tells whether PyTorch takes a sparse matrix

_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def put(array: Any, dtype: str, device: str) -> Any:
    """A copy of a NumPy array of a floating type as a tensor; every fp16 and bf16 is an fp32."""
    import torch

    wide = np.ascontiguousarray(array, dtype=np.float32)
    return torch.from_numpy(wide).to(device=device, dtype=getattr(torch, _TYPES[dtype]))


def dense(K: AnyKronecker, layout: str, device: str) -> Run:
    """A dense matrix."""
    matrix = put(K.cpu().to_dense(dtype="fp32"), K.dtype, device)
    if layout == "last":
        return lambda x: matrix @ x
    return lambda x: x @ matrix.T


def permutations(K: Kronecker, layout: str) -> tuple[Run, Run]:
    """What a batched product needs around it: X to (a d, n, c) or (a d, c, n), and its result back
    to Y, contiguous. Where d = 1, X is read in place."""
    a, b, c, d = K.pattern

    def before(x: Any) -> Any:
        if layout == "first" and d == 1:
            return x.view(-1, a, c).transpose(0, 1)
        if layout == "first":
            return x.view(-1, a, c, d).permute(1, 3, 0, 2).contiguous().view(a * d, -1, c)
        return x.view(a, c, d, -1).permute(0, 2, 1, 3).contiguous().view(a * d, c, -1)

    def after(y: Any) -> Any:
        if layout == "first":
            return y.view(a, d, -1, b).permute(2, 0, 3, 1).contiguous().view(-1, a * b * d)
        return y.view(a, d, b, -1).permute(0, 2, 1, 3).contiguous().view(a * b * d, -1)

    return before, after


def bmm(K: Kronecker, layout: str, device: str) -> Run:
    """A batched product."""
    import torch

    a, b, c, d = K.pattern
    left = put(K.cpu().values.transpose(0, 3, 1, 2), K.dtype, device).view(a * d, b, c)
    before, after = permutations(K, layout)
    if layout == "last":
        return lambda x: after(torch.bmm(left, before(x)))
    right = left.transpose(1, 2).contiguous()
    return lambda x: after(torch.bmm(before(x), right))


def einsum(K: Kronecker, layout: str, device: str) -> Run:
    """torch.einsum, which orders the operands itself."""
    import torch

    a, b, c, d = K.pattern
    w = put(K.cpu().values, K.dtype, device)
    if layout == "first":
        return lambda x: torch.einsum("nikl,ijkl->nijl", x.view(-1, a, c, d), w).reshape(
            -1, a * b * d
        )
    return lambda x: torch.einsum("ikln,ijkl->ijln", x.view(a, c, d, -1), w).reshape(
        a * b * d, -1
    )


def _sparse(make: Callable[[Any], Any]) -> Callable[[Kronecker, str, str], Run]:
    def build(K: Kronecker, layout: str, device: str) -> Run:
        import torch

        def first(x: Any) -> Any:
            return (matrix @ x.T).T

        def last(x: Any) -> Any:
            return matrix @ x

        run = first if layout == "first" else last
        features = K.shape[1]
        shape = (TRIAL, features) if layout == "first" else (features, TRIAL)
        x = put(np.zeros(shape), K.dtype, device)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it calls these tensors a beta
                whole = put(K.cpu().to_dense(dtype="fp32"), K.dtype, device)
                matrix = make(whole)
                run(x)
        except (RuntimeError, NotImplementedError, ValueError) as error:
            reason = f"{error}".splitlines()[0]
            raise NotSupportedError(f"PyTorch {torch.__version__} refuses: {reason}") from error
        return run

    return build


csr = _sparse(lambda whole: whole.to_sparse_csr())


def bsr(K: Kronecker, layout: str, device: str) -> Run:
    """Blocks of b x c; d is 1."""
    _, b, c, _ = K.pattern
    return _sparse(lambda whole: whole.to_sparse_bsr((b, c)))(K, layout, device)
