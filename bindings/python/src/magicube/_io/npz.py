# SPDX-License-Identifier: Apache-2.0
"""NumPy archives, read so that no header makes the reader allocate what the file cannot hold."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .common import FileFormatError, PathLike, open_for_reading, replacing, shorten

DEFLATE_LIMIT = 1032  # zlib cannot expand a byte into more
HEADER_LIMIT = 1 << 16


class _Member(NamedTuple):
    info: zipfile.ZipInfo
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int


class Archive:
    """An .npz file whose members' headers have been read and checked; arrays are read on demand."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self._members: dict[str, _Member] = {}
        with self._open() as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    raise FileFormatError(
                        path, f"member {shorten(info.filename)} must be named NAME.npy"
                    )
                name = info.filename[: -len(".npy")]
                if name in self._members:
                    raise FileFormatError(path, f"member {shorten(name)} appears twice")
                self._members[name] = self._checked(archive, info)

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """An array of the archive."""
        member = self._members[name]
        with self._open() as archive:
            try:
                data = archive.read(member.info)
            except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
                raise FileFormatError(
                    self.path, f"member {shorten(name)} is damaged: {error}"
                ) from error
        flat = np.frombuffer(bytearray(data[member.start :]), member.dtype)
        return flat.reshape(member.shape, order="F" if member.fortran else "C")

    def _open(self) -> zipfile.ZipFile:
        open_for_reading(self.path).close()
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise FileFormatError(
                self.path, f"is no NumPy archive, or truncated: {error}"
            ) from error

    def _checked(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
        where = f"member {shorten(info.filename)}"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileFormatError(self.path, f"{where} must be stored or deflated")
        expansion = 1 if info.compress_type == zipfile.ZIP_STORED else DEFLATE_LIMIT
        if info.file_size > info.compress_size * expansion:
            raise FileFormatError(
                self.path,
                f"{where} claims {info.file_size} bytes, more than its {info.compress_size} stored "
                "bytes can give",
            )
        try:
            with archive.open(info) as stream:
                version = np.lib.format.read_magic(stream)
                if version not in ((1, 0), (2, 0)):
                    raise ValueError(f"npy version {version} is not supported")
                if version == (1, 0):
                    read = np.lib.format.read_array_header_1_0
                else:
                    read = np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(stream, max_header_size=HEADER_LIMIT)
                start = stream.tell()
        except Exception as error:  # NumPy parses the header as Python and fails in many ways
            raise FileFormatError(self.path, f"{where} is no NumPy array: {error}") from error
        if dtype.hasobject:
            raise FileFormatError(self.path, f"{where} holds Python objects, which are not read")
        needed, held = math.prod(shape) * dtype.itemsize, info.file_size - start
        if min(shape, default=0) < 0 or needed != held:
            raise FileFormatError(
                self.path,
                f"{where} has shape {shorten(shape)} of {dtype}, {needed} bytes; it holds {held}",
            )
        return _Member(info, dtype, shape, fortran, start)


def write(path: PathLike, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes arrays by name, uncompressed."""
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
