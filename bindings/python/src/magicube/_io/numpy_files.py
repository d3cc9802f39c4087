# SPDX-License-Identifier: Apache-2.0
"""Matrices that NumPy and SciPy have saved."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .common import FileFormatError, PathLike, open_for_reading, require_scipy, shorten
from .npz import Archive


def read_npy(path: PathLike) -> np.ndarray[Any, Any]:
    """A matrix from an .npy file. The file is mapped, so that a header cannot claim more than it
    holds."""
    open_for_reading(path).close()
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy parses the header as Python and fails in many ways
        raise FileFormatError(path, f"is no NumPy array, or truncated: {error}") from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2:
        raise FileFormatError(
            path, f"holds {shorten(getattr(matrix, 'shape', matrix))}; it must be one matrix"
        )
    return matrix


def read_scipy_npz(path: PathLike) -> Any:
    """A sparse array that scipy.sparse.save_npz wrote, its indices checked."""
    require_scipy(path)
    import scipy.sparse

    names = Archive(path).names
    if "format" not in names or "shape" not in names:
        raise FileFormatError(
            path, "holds neither an SR-BCRS matrix nor one that scipy.sparse.save_npz wrote"
        )
    try:
        matrix = scipy.sparse.load_npz(os.fspath(path))
        if matrix.format == "coo":
            matrix = scipy.sparse.coo_array((matrix.data, matrix.coords), shape=matrix.shape)
        elif matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        elif matrix.format != "dia":
            raise ValueError(f"format {matrix.format!r} is not supported")
    except Exception as error:  # SciPy trusts the file and fails in many ways
        raise FileFormatError(path, f"is no valid SciPy sparse array: {error}") from error
    return matrix
