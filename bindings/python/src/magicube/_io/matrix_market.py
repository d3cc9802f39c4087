# SPDX-License-Identifier: Apache-2.0
"""Matrix Market files. SciPy parses; what it would take without a word is checked around it."""

from __future__ import annotations

import os
import re
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .common import (
    INDEX_LIMIT,
    FileFormatError,
    PathLike,
    open_for_reading,
    replacing,
    require_scipy,
    shorten,
)

BANNER = "%%MatrixMarket"
LINE_LIMIT = 4096  # bytes of the banner and of the size line
CHUNK = 1 << 22
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
REAL = rb"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


class Header(NamedTuple):
    """What the lines before the entries say."""

    coordinate: bool
    field: str
    symmetry: str
    rows: int
    cols: int
    entries: int
    line: int  # number of the size line, from 1
    body: int  # first byte after it


def read_matrix_market(path: PathLike) -> Any:
    """Read a Matrix Market file.

    Parameters
    ----------
    path
        The file: real, integer or pattern; general, symmetric or skew-symmetric.

    Returns
    -------
    scipy.sparse.coo_array or numpy.ndarray
        The former for the ``coordinate`` format, ordered by row and column, zeros that the file
        stores included; the latter for the ``array`` format. float64 or int64; a pattern's values
        are 1.

    Raises
    ------
    FileFormatError
        If the file is missing or malformed, or claims more than it holds.
    """
    require_scipy(path)
    import scipy.io

    with open_for_reading(path) as stream:
        header = _read_header(path, stream)
        _check_sizes(path, header, os.fstat(stream.fileno()).st_size)
        letters = _check_body(path, stream, header)
    try:
        matrix = scipy.io.mmread(os.fspath(path), spmatrix=False)
    except MemoryError as error:
        raise FileFormatError(path, "does not fit into memory") from error
    except Exception as error:  # the parser has no error class of its own
        raise FileFormatError(path, f"is no valid Matrix Market file: {error}") from error
    values = matrix.data if header.coordinate else matrix
    if not letters and not np.isfinite(values).all():
        raise FileFormatError(path, "holds a value that is too large for float64")
    return _ordered(path, matrix) if header.coordinate else matrix


def _read_line(path: PathLike, stream: BinaryIO, number: int) -> bytes:
    line = stream.readline(LINE_LIMIT + 1)
    if len(line) > LINE_LIMIT:
        raise FileFormatError(
            path, f"line {number} is longer than {LINE_LIMIT} bytes, which no header line may be"
        )
    return line


def _read_header(path: PathLike, stream: BinaryIO) -> Header:
    first = stream.readline(LINE_LIMIT)
    if first[:2] in (b"\x1f\x8b", b"BZ"):
        raise FileFormatError(path, "is compressed; decompress it first (gunzip or bunzip2)")
    words = first.decode("latin-1").split()
    if words[:1] != [BANNER]:
        raise FileFormatError(
            path, f"line 1 is {shorten(first)}; it must begin with %%MatrixMarket"
        )
    words = [word.lower() for word in words]
    if len(words) != 5 or words[1] != "matrix" or words[2] not in ("coordinate", "array"):
        raise FileFormatError(
            path,
            f"line 1 is {shorten(first)}; it must be "
            "'%%MatrixMarket matrix coordinate|array FIELD SYMMETRY'",
        )
    coordinate, field, symmetry = words[2] == "coordinate", words[3], words[4]
    if field not in FIELDS or (field == "pattern" and not coordinate):
        raise FileFormatError(
            path, f"line 1 names the field {shorten(field)}; it must be real, integer or, for "
            "coordinate files, pattern (complex matrices are not supported)"
        )
    if symmetry not in SYMMETRIES or (symmetry == "skew-symmetric" and field == "pattern"):
        raise FileFormatError(
            path, f"line 1 names the symmetry {shorten(symmetry)}; it must be general, symmetric "
            "or, unless the field is pattern, skew-symmetric"
        )
    number = 1
    while True:
        number += 1
        line = _read_line(path, stream, number)
        if not line:
            raise FileFormatError(path, f"ends after line {number - 1}: the size line is missing")
        if line.strip() and not line.lstrip().startswith(b"%"):
            break
    sizes = _parse_sizes(path, number, line, 3 if coordinate else 2)
    return Header(coordinate, field, symmetry, *sizes, number, stream.tell())


def _parse_sizes(path: PathLike, number: int, line: bytes, count: int) -> tuple[int, int, int]:
    words = line.split()
    if len(words) != count or not all(word.isdigit() and len(word) < 20 for word in words):
        expected = "rows, columns and entries" if count == 3 else "rows and columns"
        raise FileFormatError(
            path,
            f"line {number} is {shorten(line)}; it must hold {count} integers >= 0: {expected}",
        )
    sizes = [int(word) for word in words]
    return sizes[0], sizes[1], sizes[2] if count == 3 else -1


def _check_sizes(path: PathLike, header: Header, size: int) -> None:
    """The sizes are possible, and the file is long enough for what they claim."""
    where = f"line {header.line}"
    for name, extent in (("rows", header.rows), ("columns", header.cols)):
        if extent > INDEX_LIMIT:
            raise FileFormatError(
                path, f"{where} claims {extent} {name}; at most {INDEX_LIMIT} are supported"
            )
    if header.symmetry != "general" and header.rows != header.cols:
        raise FileFormatError(
            path,
            f"{where} claims {header.rows} x {header.cols}; a {header.symmetry} matrix must be "
            "square",
        )
    stored = _places(header)
    if header.coordinate and header.entries > stored:
        raise FileFormatError(
            path,
            f"{where} claims {header.entries} entries; a {header.symmetry} matrix of "
            f"{header.rows} x {header.cols} has {stored} places",
        )
    entries = header.entries if header.coordinate else stored
    least = 2 * _words(header)  # a character and its separator for each number
    if entries * least > size - header.body + 1:
        raise FileFormatError(
            path,
            f"{where} claims {entries} entries, which take at least {entries * least} bytes; "
            f"after it the file has {size - header.body}",
        )


def _places(header: Header) -> int:
    """Places of the matrix that a file of this symmetry may store."""
    if header.symmetry == "general":
        return header.rows * header.cols
    diagonal = 1 if header.symmetry == "symmetric" else -1
    if header.coordinate:
        diagonal = 1  # written out by some programs, with value 0
    return header.rows * (header.rows + diagonal) // 2


def _words(header: Header) -> int:
    """Numbers that an entry takes."""
    if not header.coordinate:
        return 1
    return 2 if header.field == "pattern" else 3


def _line_pattern(header: Header) -> re.Pattern[bytes]:
    """Exactly what an entry's line may be; SciPy's parser passes over what follows a number."""
    blank = rb"[ \t]+"
    indices = rb"\d+" + blank + rb"\d+" if header.coordinate else rb""
    value = {
        "pattern": rb"",
        "integer": rb"[-+]?\d+",
        "unsigned-integer": rb"\d+",
    }.get(header.field, REAL)
    separator = blank if indices and value else rb""
    line = rb"^[ \t]*" + indices + separator + value + rb"[ \t\r]*(?:\n|\Z)"
    return re.compile(line, re.MULTILINE)


def _check_body(path: PathLike, stream: BinaryIO, header: Header) -> bool:
    """Every line is an entry or blank, and there are as many entries as claimed. Returns whether
    a value is spelt as infinite or NaN."""
    pattern = _line_pattern(header)
    stream.seek(header.body)
    entries, letters = 0, False
    while True:
        block = stream.read(CHUNK) + stream.readline()
        if not block:
            break
        rest, count = pattern.subn(b"", block)
        if rest.strip():
            _raise_for_line(path, stream, header, pattern)
        entries += count
        letters = letters or b"n" in block or b"N" in block
    claimed = header.entries if header.coordinate else _places(header)
    if entries != claimed:
        raise FileFormatError(
            path,
            f"holds {entries} entries, but line {header.line} claims {claimed}"
            + (" (truncated?)" if entries < claimed else ""),
        )
    return letters


def _raise_for_line(
    path: PathLike, stream: BinaryIO, header: Header, pattern: re.Pattern[bytes]
) -> None:
    stream.seek(header.body)
    kind = {"pattern": "", "integer": "an integer", "unsigned-integer": "an integer >= 0"}
    value = kind.get(header.field, "a real number")
    parts = ["row", "column"] * header.coordinate + [value] * bool(value)
    for number, line in enumerate(stream, header.line + 1):
        if line.strip() and not pattern.fullmatch(line):
            raise FileFormatError(
                path,
                f"line {number} is {shorten(line)}; it must hold {', '.join(parts)} and no more",
            )


def _ordered(path: PathLike, matrix: Any) -> Any:
    """The matrix by row and column, refused if a place occurs twice: to add or to replace would
    both be a guess."""
    import scipy.sparse

    rows, cols = matrix.coords
    order = np.lexsort((cols, rows))
    rows, cols, values = rows[order], cols[order], matrix.data[order]
    twice = np.flatnonzero((rows[1:] == rows[:-1]) & (cols[1:] == cols[:-1]))
    if twice.size:
        row, col = int(rows[twice[0]]) + 1, int(cols[twice[0]]) + 1
        raise FileFormatError(
            path, f"stores row {row}, column {col} more than once (a symmetric file stores each "
            "place and its mirror image once)"
        )
    ordered = scipy.sparse.coo_array((values, (rows, cols)), shape=matrix.shape)
    ordered.has_canonical_format = True
    return ordered


def write_matrix_market(path: PathLike, matrix: Any, *, comment: str = "") -> None:
    """Write a matrix as a Matrix Market file of the ``general`` symmetry.

    Parameters
    ----------
    path
        The file; it is replaced only once the new one is complete.
    matrix
        An SrBcrs, a SciPy sparse array or matrix (``coordinate``, every stored entry, zeros
        included), or a NumPy array (``array``). Integers are written as such, everything else with
        the digits that give its float64 back.
    comment : str
        Text for the comment lines.
    """
    require_scipy(path)
    import scipy.io
    import scipy.sparse

    if hasattr(matrix, "to_scipy"):
        matrix = matrix.to_scipy("coo")
    values = matrix.data if scipy.sparse.issparse(matrix) else np.asarray(matrix)
    if not (np.issubdtype(values.dtype, np.integer) or np.issubdtype(values.dtype, np.float64)):
        matrix = matrix.astype(np.float64)
    with replacing(path) as stream:
        scipy.io.mmwrite(stream, matrix, comment=comment, symmetry="general")
