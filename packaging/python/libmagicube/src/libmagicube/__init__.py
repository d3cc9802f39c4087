# SPDX-License-Identifier: Apache-2.0
"""Where this package keeps the shared library of Magicube and its C headers.

To compile against them::

    export PKG_CONFIG_PATH=$(python -m libmagicube)
    cc program.c $(pkg-config --cflags --libs magicube)
"""

from importlib.metadata import version as _version
from pathlib import Path

__all__ = ["__version__", "include_dir", "library", "pkg_config_dir"]

__version__ = _version("libmagicube")
_folder = Path(__file__).resolve().parent


def library() -> Path:
    """The shared library, to be linked or opened; its file name ends in the ABI's number."""
    (found,) = (_folder / "lib").glob("libmagicube.so.*")
    return found


def include_dir() -> Path:
    """The folder to give a C or C++ compiler: headers are ``magicube/*.h`` in it."""
    return _folder / "include"


def pkg_config_dir() -> Path:
    """The folder that holds ``magicube.pc``."""
    return _folder / "lib" / "pkgconfig"
