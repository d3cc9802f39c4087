# SPDX-License-Identifier: Apache-2.0
""".smtx files, the format of the Deep Learning Matrix Collection: three lines, pattern alone."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np

from .common import (
    INDEX_LIMIT,
    FileFormatError,
    PathLike,
    open_for_reading,
    require_scipy,
    shorten,
)

HEADER_LIMIT = 256  # bytes of the first line


def read_smtx(path: PathLike, *, seed: int | None = None) -> Any:
    """Read an .smtx file: ``rows, cols, nnz``, then row offsets, then column indices.

    Parameters
    ----------
    path
        The file.
    seed : int, optional
        The format stores no values. They are 1, or drawn from the normal distribution if a seed is
        given.

    Returns
    -------
    scipy.sparse.csr_array
        float32, columns ascending within each row.

    Raises
    ------
    FileFormatError
        If the file is missing or malformed, or claims more than it holds.
    """
    require_scipy(path)
    import scipy.sparse

    with open_for_reading(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        rows, cols, nnz = _read_header(path, stream)
        _check_sizes(path, rows, cols, nnz, size - stream.tell())
        offsets = _read_integers(path, stream, 2, rows + 1, "row offsets")
        columns = _read_integers(path, stream, 3, nnz, "column indices")
        if stream.read().strip():
            raise FileFormatError(path, "has more than three lines; nothing may follow the third")
    _check_pattern(path, cols, offsets, columns)
    matrix = scipy.sparse.csr_array(
        (np.ones(nnz, np.float32), columns.astype(np.int32), offsets), shape=(rows, cols)
    )
    matrix.sort_indices()
    _check_distinct(path, matrix)
    if seed is not None:
        values = np.random.default_rng(seed).standard_normal(nnz, np.float32)
        matrix.data = np.where(values == 0, np.float32(1), values)
    return matrix


def _read_header(path: PathLike, stream: BinaryIO) -> tuple[int, int, int]:
    line = stream.readline(HEADER_LIMIT + 1)
    words = line.replace(b",", b" ").split()
    if len(line) > HEADER_LIMIT or len(words) != 3 or not all(word.isdigit() for word in words):
        raise FileFormatError(
            path, f"line 1 is {shorten(line)}; it must be 'rows, columns, nonzeros', integers >= 0"
        )
    rows, cols, nnz = (int(word) for word in words)
    return rows, cols, nnz


def _check_sizes(path: PathLike, rows: int, cols: int, nnz: int, rest: int) -> None:
    for name, extent in (("rows", rows), ("columns", cols)):
        if extent > INDEX_LIMIT:
            raise FileFormatError(
                path, f"line 1 claims {extent} {name}; at most {INDEX_LIMIT} are supported"
            )
    if nnz > rows * cols:
        raise FileFormatError(
            path, f"line 1 claims {nnz} nonzeros; a matrix of {rows} x {cols} has {rows * cols}"
        )
    least = 2 * (rows + 1 + nnz) - 2  # a digit and its separator for each number
    if least > rest:
        raise FileFormatError(
            path,
            f"line 1 claims {rows} rows and {nnz} nonzeros, which take at least {least} bytes; "
            f"after it the file has {rest}",
        )


def _read_integers(
    path: PathLike, stream: BinaryIO, number: int, count: int, what: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    line = stream.readline()
    strange = line.translate(None, b"0123456789 \t\r\n")
    if strange:
        stranger = next((word for word in line.split() if not word.isdigit()), strange)
        raise FileFormatError(
            path, f"line {number} holds {shorten(stranger)}; the {what} must be integers >= 0"
        )
    words = line.split()
    if len(words) != count:
        raise FileFormatError(
            path, f"line {number} holds {len(words)} {what}; line 1 asks for {count}"
        )
    longest = max(words, key=len, default=b"")
    if len(longest) > 18:
        raise FileFormatError(
            path, f"line {number} holds {shorten(longest)}; the {what} must be below 10^18"
        )
    return np.array(words, dtype="S18").astype(np.int64) if words else np.empty(0, np.int64)


def _check_pattern(
    path: PathLike, cols: int, offsets: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]
) -> None:
    if offsets[0] != 0 or offsets[-1] != columns.size:
        raise FileFormatError(
            path,
            f"line 2 runs from {offsets[0]} to {offsets[-1]}; row offsets must run from 0 to the "
            f"number of nonzeros, {columns.size}",
        )
    falling = np.flatnonzero(np.diff(offsets) < 0)
    if falling.size:
        row = int(falling[0])
        raise FileFormatError(
            path,
            f"line 2 falls from {offsets[row]} to {offsets[row + 1]} at row {row}; row offsets "
            "must not fall",
        )
    outside = np.flatnonzero(columns >= cols)
    if outside.size:
        place = int(outside[0])
        row = int(np.searchsorted(offsets, place, side="right")) - 1
        raise FileFormatError(
            path,
            f"line 3 holds column {columns[place]} (entry {place}, row {row}); columns must lie "
            f"in [0, {cols - 1}]",
        )


def _check_distinct(path: PathLike, matrix: Any) -> None:
    same = np.flatnonzero(np.diff(matrix.indices) == 0)
    row_starts = np.searchsorted(matrix.indptr, same + 1, side="left")
    same = same[matrix.indptr[row_starts] != same + 1]  # neighbours of one row
    if same.size:
        place = int(same[0])
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        raise FileFormatError(
            path,
            f"line 3 holds column {matrix.indices[place]} twice in row {row}; a row must not hold "
            "a column twice",
        )
