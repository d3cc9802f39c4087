# SPDX-License-Identifier: Apache-2.0
"""What every reader and writer shares: its errors, atomic writing, limits."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Union

from magicube.errors import InvalidValueError

PathLike = Union[str, "os.PathLike[str]"]

INDEX_LIMIT = 2**31 - 1  # largest number of rows or columns: column indices are int32


class FileFormatError(InvalidValueError):
    """A file that is missing, malformed or lies about its contents.

    The text names the file, the place in it, the value found there and the rule that it breaks.
    """

    def __init__(self, path: PathLike, text: str) -> None:
        super().__init__(f"{os.fspath(path)}: {text}")
        self.path = os.fspath(path)
        self.text = text

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.text)


class FileAccessError(FileFormatError, OSError):
    """A file that is missing, or that the system refuses to read or write."""


def shorten(value: object, limit: int = 60) -> str:
    """repr of a value from a file, short enough for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def open_for_reading(path: PathLike) -> BinaryIO:
    try:
        if os.path.isdir(path):
            raise FileAccessError(path, "is a directory; it must be a file")
        return open(path, "rb")
    except OSError as error:
        raise FileAccessError(path, f"cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that takes the place of path once the block has ended without an error, so that
    a failure never leaves half a file behind."""
    target = os.path.abspath(path)
    try:
        descriptor, temporary = tempfile.mkstemp(
            prefix=os.path.basename(target) + ".", suffix=".part", dir=os.path.dirname(target)
        )
    except OSError as error:
        raise FileAccessError(path, f"cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's own mode is for the owner alone
        os.replace(temporary, target)
    except OSError as error:
        raise FileAccessError(path, f"cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def require_scipy(path: PathLike) -> None:
    """Raises if SciPy, which this package works without, is missing."""
    try:
        import scipy.io  # noqa: F401
        import scipy.sparse  # noqa: F401
    except ImportError as error:
        raise FileFormatError(
            path, "reading and writing this format needs SciPy: pip install scipy"
        ) from error
