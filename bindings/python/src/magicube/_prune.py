# SPDX-License-Identifier: Apache-2.0
"""Magnitude pruning."""

from __future__ import annotations

from typing import Any

from magicube import _native
from magicube._arrays import as_float, as_int, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DTYPES
from magicube._matrix import empty_matrix, matrix, result_of
from magicube.errors import InvalidValueError


def prune(
    w: Any,
    *,
    vector_length: int = 8,
    sparsity: float | None = None,
    keep: int | None = None,
    scope: str = "matrix",
    norm: str = "l2",
    handle: Handle | None = None,
) -> Any:
    """Choose which column vectors of a weight to keep: those of the largest norm.

    Ties go to the lowest index, block row first, then column. Norms are sums in fp64.

    Parameters
    ----------
    w : array or Int4Array
        M x K of any type, or (batch, M, K): each matrix is pruned for itself. In host memory or in
        that of a GPU, where the work is done in the order of the array's stream.
    vector_length : {1, 2, 4, 8, 16, 32, 64}
        V: a vector is V consecutive rows of one column.
    sparsity : float
        In [0, 1]: floor(sparsity * count + 0.5) of the scope's ``count`` vectors are dropped.
    keep : int
        Exactly so many vectors of each scope are kept; give either this or ``sparsity``.
    scope : {"matrix", "row"}
        Whether all vectors of a matrix compete, or those of each block row.
    norm : {"l2", "l1"}
    handle : Handle, optional

    Returns
    -------
    array of uint8
        Shape of ``w`` and of its library: 1 in every element of a kept vector, 0 elsewhere. Pass
        it to :meth:`SrBcrs.from_dense` as ``mask``.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule, or a weight in host memory is NaN or infinite.
    """
    if (sparsity is None) == (keep is None):
        raise InvalidValueError(
            f"sparsity is {sparsity} and keep is {keep}; exactly one of them must be given"
        )
    params: dict[str, int | float] = {
        "vector_length": as_int(vector_length, "vector_length", 32),
        "scope": choose(scope, _native.SCOPES, "scope"),
        "norm": choose(norm, _native.NORMS, "norm"),
    }
    if keep is not None:
        params["keep"] = as_int(keep, "keep")
        if params["keep"] < 0:
            raise InvalidValueError(f"keep is {keep}; it must not be negative")
    else:
        params["sparsity"] = as_float(sparsity, "sparsity")
    call = Call(handle)
    weight = matrix(w, "w", call=call)
    result, mask = empty_matrix(weight.library, weight.shape, DTYPES["uint8"])
    source, target = weight.descriptor(), mask.descriptor()
    native = call.native()
    size = _native.prune_workspace(native, source, params)
    owner, scratch = call.workspace(size)
    _native.prune(native, source, target, params, scratch, size)
    del owner
    return result_of(weight.library, result)
