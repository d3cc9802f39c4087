# SPDX-License-Identifier: Apache-2.0
"""Pruning to V:N:M, by magnitude and by the optimal brain surgeon."""

from __future__ import annotations

from typing import Any

from magicube import _native
from magicube._arrays import as_float, as_int, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DTYPES
from magicube._matrix import Matrix, empty_matrix, matrix, result_of
from magicube.errors import InvalidValueError


def _pattern(vector_length: int, m: int, n: int) -> dict[str, int]:
    return {
        "vector_length": as_int(vector_length, "vector_length", 32),
        "m": as_int(m, "m", 32),
        "n": as_int(n, "n", 32),
    }


def prune_vnm(
    w: Any,
    *,
    vector_length: int = 64,
    m: int = 8,
    n: int = 2,
    norm: str = "l2",
    handle: Handle | None = None,
) -> Any:
    """Choose which weights to keep in the pattern V:N:M: those of the largest magnitude.

    In each group of ``m`` columns the rows of a row group share a few columns, the column budget:
    4, or ``n`` + 2 for ``n`` above 3. Within these each row keeps ``n`` weights. The columns taken
    are those of which the rows together keep the most: of all sets if there are at most 2,000 (as
    for ``m`` up to 16 with ``n`` = 2; ties go to the first in lexicographic order), else by taking
    one after the other and exchanging them as long as that helps, which the tests hold to 98 % of
    the best set's sum. Of equal weights a row keeps those of lowest column.

    Parameters
    ----------
    w : array or Int4Array
        R x K of any type, or (batch, R, K): each matrix is pruned for itself. In host memory.
    vector_length : {1, 16, 32, 64, 128, 256}
        V: rows of a row group; it need not divide R.
    m : int
        Columns of a group, from 4; it need not divide K.
    n : int
        Weights kept in each row of each group; Sparse Tensor Cores multiply 2, more is for pruning
        step by step (see :func:`gradual_schedule`). A shorter group keeps at most what it has.
    norm : {"l2", "l1"}
        Whether squares or magnitudes are summed.
    handle : Handle, optional

    Returns
    -------
    array of uint8
        Shape of ``w`` and of its library: 1 for kept weights, 0 elsewhere.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule, or a weight is NaN or infinite.
    NotSupportedError
        If ``w`` lies in the memory of a GPU.

    References
    ----------
    VENOM: Castro et al., 2023, arXiv 2310.02065.
    """
    params = {**_pattern(vector_length, m, n), "norm": choose(norm, _native.NORMS, "norm")}
    call = Call(handle)
    weight = matrix(w, "w", call=call)
    result, mask = empty_matrix(weight.library, weight.shape, DTYPES["uint8"])
    source, target = weight.descriptor(), mask.descriptor()
    native = call.native()
    size = _native.prune_vnm_workspace(native, source, params)
    owner, scratch = call.workspace(size)
    _native.prune_vnm(native, source, target, params, scratch, size)
    del owner
    return result_of(weight.library, result)


def _curvature(given: dict[str, Any], call: Call) -> tuple[str, Matrix]:
    """The one source of curvature that is not None."""
    named = [name for name, array in given.items() if array is not None]
    if len(named) != 1:
        raise InvalidValueError(
            f"{' and '.join(named) or 'no curvature'} given; exactly one of inputs, hessian and "
            "gradients must be"
        )
    name = named[0]
    found = matrix(given[name], name, call=call)
    if name == "gradients" and found.batch is None:
        raise InvalidValueError(
            f"gradients has shape {found.shape}; it must be (samples, R, K), a gradient a sample"
        )
    return name, found


def prune_vnm_obs(
    w: Any,
    *,
    inputs: Any = None,
    hessian: Any = None,
    gradients: Any = None,
    vector_length: int = 64,
    m: int = 8,
    n: int = 2,
    selection: str = "exhaustive",
    damping: float = 0.01,
    fisher_block: int = 16,
    refit: bool = True,
    handle: Handle | None = None,
) -> tuple[Any, Any]:
    """Prune to V:N:M by the optimal brain surgeon: choose by loss, and make up for what goes.

    With A the inverse curvature of a row and w its weights, pruning the set P costs
    w_P^T (A_PP)^-1 w_P / 2, and -A[:, P] (A_PP)^-1 w_P is the best change of all weights. Groups of
    columns are pruned from left to right, each with the weights that earlier ones left.

    Layer-wise, from ``inputs`` or a ``hessian``, the curvature is H = X^T X, the same for all rows:
    the error of the layer's outputs. From ``gradients`` it is the Fisher information of each row,
    sum g g^T / samples, in blocks of ``fisher_block`` columns. To both is added ``damping`` times
    their mean diagonal. Arithmetic is fp64.

    Parameters
    ----------
    w : array
        R x K of a floating type, in host memory: the layer computes x w^T.
    inputs : array
        X: samples x K, or (batch, samples, K), of a floating type.
    hessian : array
        K x K: X^T X of samples too many to hold; its upper triangle is read.
    gradients : array
        (samples, R, K): gradients of the loss with respect to ``w``, one a sample.
    vector_length, m, n
        The pattern, as for :func:`prune_vnm`.
    selection : {"exhaustive", "pairwise"}
        For ``n`` up to 2, whether the correlation of all weights of a row's group counts, or that
        of the two weights of each pair alone. From ``n`` = 3 both remove columns one by one, then
        in each row the best one or two weights.
    damping : float
        At least 0; more makes a curvature from few samples safe to invert.
    fisher_block : int
        From 1 to 256; with ``gradients``.
    refit : bool
        Layer-wise: whether each row is solved anew at the end for what it keeps. The cost is the
        cube of its kept weights; without it, kept weights are not changed by later groups.
    handle : Handle, optional
        Its number of threads bounds the scratch memory, which is about 16 K^2 bytes and, a thread,
        8 (V (K + m^2 / 2) + c^2) bytes, where c is the number of weights that a row keeps.

    Returns
    -------
    mask : array of uint8
        1 for kept weights, 0 elsewhere.
    weights : array
        Shape and type of ``w``: the changed weights, exactly 0 where pruned.

    Raises
    ------
    InvalidValueError
        If a parameter or shape breaks a rule, a matrix holds NaN or infinity, or the curvature is
        not positive definite (raise ``damping``).
    NotSupportedError
        If ``w`` lies in the memory of a GPU.

    References
    ----------
    The optimal BERT surgeon: Kurtic et al., 2022, arXiv 2203.07259. OBC: Frantar et al., 2022,
    arXiv 2208.11580. VENOM: Castro et al., 2023, arXiv 2310.02065.
    """
    call = Call(handle)
    weight = matrix(w, "w", call=call)
    kind, curvature = _curvature(
        {"inputs": inputs, "hessian": hessian, "gradients": gradients}, call
    )
    params: dict[str, int | float] = {
        **_pattern(vector_length, m, n),
        "curvature": _native.CURVATURES[kind],
        "selection": choose(selection, _native.OBS_SELECTIONS, "selection"),
        "damping": as_float(damping, "damping"),
        "fisher_block": as_int(fisher_block, "fisher_block", 32),
        "refit": int(bool(refit)),
    }
    mask_array, mask = empty_matrix(weight.library, weight.shape, DTYPES["uint8"])
    updated_array, updated = empty_matrix(weight.library, weight.shape, weight.dtype)
    source, bends = weight.descriptor(), curvature.descriptor()
    native = call.native()
    size = _native.prune_vnm_obs_workspace(native, source, bends, params)
    owner, scratch = call.workspace(size)
    _native.prune_vnm_obs(
        native, source, bends, mask.descriptor(), updated.descriptor(), params, scratch, size
    )
    del owner
    return result_of(weight.library, mask_array), result_of(weight.library, updated_array)


def gradual_schedule(m: int, n: int = 2, steps: int = 3) -> list[int]:
    """How many weights of a group of ``m`` to keep in each step of pruning step by step.

    Each step drops the same share, so that the numbers fall from ``m`` in equal ratios, rounded to
    the nearest; the last is ``n``. A training loop prunes to the next number, trains on, and so on
    (the decay of the structure in VENOM, arXiv 2310.02065).

    Examples
    --------
    >>> magicube.gradual_schedule(16, 2, 3)
    [8, 4, 2]
    """
    return _native.vnm_schedule(as_int(m, "m", 32), as_int(n, "n", 32), as_int(steps, "steps", 32))


def kept_energy(w: Any, mask: Any, *, handle: Handle | None = None) -> float:
    """The share of a weight's sum of squares that lies where a mask is not 0.

    Parameters
    ----------
    w : array or Int4Array
        R x K, or (batch, R, K), in host memory.
    mask : array of uint8 or bool
        Of the same shape.
    handle : Handle, optional

    Returns
    -------
    float
        From 0 to 1; 1 for a weight of zeros or without elements.
    """
    call = Call(handle)
    weight = matrix(w, "w", call=call)
    kept = matrix(mask, "mask", mask=True, call=call)
    return _native.kept_energy(call.native(), weight.descriptor(), kept.descriptor())
