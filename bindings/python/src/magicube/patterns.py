# SPDX-License-Identifier: Apache-2.0
"""Patterns for sparse attention: which keys each query sees.

Each function returns a pattern (an :class:`magicube.SrBcrs` without values) of any vector length V.
What it names is exact to the element: where the V queries of a block row do not all see a key, the
element mask says which do. Lq queries and Lk keys stand in one sequence; ``offset`` is the place of
query 0 among the keys, so that with Lk - Lq the last query stands at the last key.

The rules are asked for every pair of query and key, but band by band: memory follows the elements
that exist, not Lq * Lk.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from magicube import _convert
from magicube._arrays import AnyArray, as_float, as_int, host_array
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DTYPES
from magicube._place import CPU
from magicube.errors import InvalidValueError
from magicube.sparse import SrBcrs

__all__ = [
    "bigbird",
    "block",
    "from_csr",
    "from_mask",
    "random_vectors",
    "sliding_window",
    "strided",
]

_BAND_ELEMENTS = 1 << 22


def from_mask(
    mask: Any,
    *,
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """The pattern of a dense mask.

    Parameters
    ----------
    mask : array of bool or uint8
        (Lq, Lk), or (batch, Lq, Lk) for a batch of patterns: query i sees key j where it is not 0.
    vector_length : {1, 2, 4, 8, 16, 32, 64}
    stride : {1, 8, 16, 32}, optional

    Raises
    ------
    InvalidValueError
        If a shape, type or parameter breaks a rule.
    """
    return SrBcrs.from_mask(mask, vector_length=vector_length, stride=stride, handle=handle)


def from_csr(
    shape: tuple[int, int],
    indptr: Any,
    indices: Any,
    *,
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """The pattern of compressed rows: query i sees keys indices[indptr[i] : indptr[i + 1]].

    Parameters
    ----------
    shape : (int, int)
        Lq and Lk.
    indptr : array of int32 or int64
        Lq + 1 offsets.
    indices : array of int32 or int64
        Keys, ascending in each row and different.
    vector_length, stride
        As in :func:`from_mask`.

    Raises
    ------
    InvalidValueError
        If a length or the content of an array breaks a rule.
    """
    sizes = _size(shape[0], "shape"), _size(shape[1], "shape")
    offsets, _ = host_array(indptr, "indptr")
    columns, _ = host_array(indices, "indices")
    for array, name in ((offsets, "indptr"), (columns, "indices")):
        if array.ndim != 1 or array.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
            raise InvalidValueError(
                f"{name} has shape {array.shape} and items of {array.dtype}; it must be one axis "
                "of int32 or int64"
            )
    if offsets.size != sizes[0] + 1:
        raise InvalidValueError(
            f"indptr has {offsets.size} entries; it must have {sizes[0] + 1}, one more than rows"
        )
    if offsets[0] != 0 or offsets[-1] != columns.size:
        raise InvalidValueError(
            f"indptr goes from {offsets[0]} to {offsets[-1]}; it must go from 0 to the "
            f"{columns.size} entries of indices"
        )
    marks = np.ones(columns.size, np.uint8)
    rows = _convert.compressed_rows(sizes, None, offsets, columns, marks, DTYPES["uint8"])
    layout = _convert.make_layout(sizes, vector_length, stride, DTYPES["fp16"], "int64")
    parts = _convert.from_sparse(Call(handle, CPU, "indices"), rows.descriptor(), layout, False)
    return SrBcrs._from_parts(layout, parts, DTYPES["fp16"])


def _size(value: object, argument: str, least: int = 0) -> int:
    number = as_int(value, argument)
    if number < least:
        raise InvalidValueError(f"{argument} is {number}; it must be at least {least}")
    return number


def _from_rule(
    lq: object,
    lk: object,
    sees: Callable[[AnyArray, AnyArray], AnyArray],
    vector_length: int,
    stride: int | None,
    handle: Handle | None,
) -> SrBcrs:
    """The pattern of a rule for a column of queries and a row of keys, asked band by band."""
    queries, keys = _size(lq, "lq"), _size(lk, "lk")
    band = max(1, _BAND_ELEMENTS // max(keys, 1))
    places = np.arange(keys, dtype=np.int64)[None, :]
    counts, columns = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
    for first in range(0, queries, band):
        rows = np.arange(first, min(first + band, queries), dtype=np.int64)[:, None]
        seen = np.broadcast_to(sees(rows, places), (rows.size, keys))
        counts.append(seen.sum(axis=1, dtype=np.int64))
        columns.append(np.nonzero(seen)[1].astype(np.int32))
    offsets = np.cumsum(np.concatenate(counts))
    return from_csr(
        (queries, keys), offsets, np.concatenate(columns), vector_length=vector_length,
        stride=stride, handle=handle,
    )


def sliding_window(
    lq: int,
    lk: int,
    *,
    before: int,
    after: int = 0,
    first: int = 0,
    offset: int = 0,
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """Each query sees the keys around its own place, and all see the first ones.

    Query i sees key j if i + offset - before <= j <= i + offset + after, or if j < first.

    Parameters
    ----------
    lq, lk : int
    before, after : int
        Keys that are seen on either side of the query's own place.
    first : int
        Keys at the start that every query sees, also those behind it: add ``causal=True`` to the
        attention for none behind.
    offset : int
    vector_length, stride
        As in :func:`from_mask`.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    """
    left, right = _size(before, "before"), _size(after, "after")
    start, shift = _size(first, "first"), as_int(offset, "offset")

    def sees(i: AnyArray, j: AnyArray) -> AnyArray:
        distance = j - (i + shift)
        seen: AnyArray = ((distance >= -left) & (distance <= right)) | (j < start)
        return seen

    return _from_rule(lq, lk, sees, vector_length, stride, handle)


def strided(
    lq: int,
    lk: int,
    *,
    step: int,
    window: int = 0,
    offset: int = 0,
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """Each query sees every ``step``-th key, counted from its own place, and those nearby.

    Query i sees key j if j - i - offset is a multiple of ``step``, or no farther from 0 than
    ``window``.

    Parameters
    ----------
    lq, lk : int
    step : int
        At least 1.
    window : int
    offset : int
    vector_length, stride
        As in :func:`from_mask`.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    """
    every, near = _size(step, "step", 1), _size(window, "window")
    shift = as_int(offset, "offset")

    def sees(i: AnyArray, j: AnyArray) -> AnyArray:
        distance = j - (i + shift)
        seen: AnyArray = (distance % every == 0) | (np.abs(distance) <= near)
        return seen

    return _from_rule(lq, lk, sees, vector_length, stride, handle)


def block(
    lq: int,
    lk: int,
    blocks: Any,
    *,
    block_size: int | tuple[int, int],
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """Blocks of queries see blocks of keys.

    Parameters
    ----------
    lq, lk : int
        Need not be multiples of the block size.
    blocks : array of bool
        (ceil(lq / rows), ceil(lk / columns)): which block of queries sees which block of keys.
    block_size : int or (int, int)
        Rows and columns of a block.
    vector_length, stride
        As in :func:`from_mask`.

    Raises
    ------
    InvalidValueError
        If ``blocks`` does not have that shape and type, or a parameter breaks a rule.
    """
    pair = block_size if isinstance(block_size, (tuple, list)) else (block_size, block_size)
    if len(pair) != 2:
        raise InvalidValueError(f"block_size is {block_size!r}; it must be one number or two")
    rows, cols = _size(pair[0], "block_size", 1), _size(pair[1], "block_size", 1)
    table, _ = host_array(blocks, "blocks")
    shape = (-(-_size(lq, "lq") // rows), -(-_size(lk, "lk") // cols))
    if table.dtype != np.bool_ or table.shape != shape:
        raise InvalidValueError(
            f"blocks has shape {table.shape} and items of {table.dtype}; it must be of bool and "
            f"shape {shape}"
        )
    return _from_rule(
        lq, lk, lambda i, j: table[i // rows, j // cols], vector_length, stride, handle
    )


def bigbird(
    lq: int,
    lk: int,
    *,
    block_size: int,
    window_blocks: int = 3,
    global_blocks: int = 1,
    random_blocks: int = 3,
    seed: int = 0,
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """BigBird (Zaheer et al., 2020): blocks of a window, of global tokens and at random.

    A block of queries sees the ``window_blocks`` blocks of keys around its own, the first
    ``global_blocks`` and ``random_blocks`` of the others; the first ``global_blocks`` blocks of
    queries see all keys.

    Parameters
    ----------
    lq, lk : int
    block_size : int
    window_blocks : int
        Odd, or 0 for no window.
    global_blocks, random_blocks : int
        Where fewer blocks are left than ``random_blocks``, all of them are taken.
    seed : int
        Of the random choice; the same one gives the same pattern.
    vector_length, stride
        As in :func:`from_mask`.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    """
    size = _size(block_size, "block_size", 1)
    window = _size(window_blocks, "window_blocks")
    if window and window % 2 == 0:
        raise InvalidValueError(f"window_blocks is {window}; it must be odd, or 0")
    everywhere = _size(global_blocks, "global_blocks")
    chance = _size(random_blocks, "random_blocks")
    rng = np.random.default_rng(_size(seed, "seed"))
    shape = (-(-_size(lq, "lq") // size), -(-_size(lk, "lk") // size))
    table = np.zeros(shape, np.bool_)
    table[:everywhere] = True
    table[:, :everywhere] = True
    if window:
        place = np.arange(max(shape))
        table |= abs(place[: shape[0], None] - place[None, : shape[1]]) <= window // 2
    for row in table:
        left = np.flatnonzero(~row)
        row[rng.choice(left, min(chance, left.size), replace=False)] = True
    return block(
        lq, lk, table, block_size=size, vector_length=vector_length, stride=stride, handle=handle
    )


def random_vectors(
    lq: int,
    lk: int,
    *,
    sparsity: float,
    seed: int = 0,
    vector_length: int = 8,
    stride: int | None = None,
    handle: Handle | None = None,
) -> SrBcrs:
    """Whole vectors at random: each block row of V queries sees the same number of keys.

    That number is (1 - sparsity) * lk, rounded to the nearest integer.

    Parameters
    ----------
    lq, lk : int
    sparsity : float
        In [0, 1].
    seed : int
        Of the random choice; the same one gives the same pattern.
    vector_length, stride
        As in :func:`from_mask`.

    Raises
    ------
    InvalidValueError
        If a parameter breaks a rule.
    """
    queries, keys = _size(lq, "lq"), _size(lk, "lk")
    share = as_float(sparsity, "sparsity")
    if not 0 <= share <= 1:
        raise InvalidValueError(f"sparsity is {sparsity}; it must lie in [0, 1]")
    length = _size(vector_length, "vector_length", 1)
    count = round((1 - share) * keys)
    rng = np.random.default_rng(_size(seed, "seed"))
    block_rows = -(-queries // length)
    chosen = [np.sort(rng.choice(keys, count, replace=False)) for _ in range(block_rows)]
    columns = np.concatenate([np.zeros(0, np.int64), *(c for c in chosen for _ in range(length))])
    columns = columns[: queries * count]
    offsets = np.arange(queries + 1, dtype=np.int64) * count
    return from_csr(
        (queries, keys), offsets, columns, vector_length=length, stride=stride, handle=handle
    )
