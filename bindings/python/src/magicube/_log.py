# SPDX-License-Identifier: Apache-2.0
"""Logging, off until asked for."""

from __future__ import annotations

import atexit
import os
from typing import Callable

from magicube import _native
from magicube._arrays import choose
from magicube.errors import InvalidValueError


def set_log_level(level: str) -> None:
    """Set the most detailed level that is reported, for the whole process.

    Parameters
    ----------
    level : {"off", "error", "warn", "info", "debug"}
        "off" until set, by this function or by the environment's MAGICUBE_LOG_LEVEL.

    Raises
    ------
    InvalidValueError
        If the level is none of these.
    """
    _native.set_log_level(choose(level, _native.LOG_LEVELS, "level"))


def get_log_level() -> str:
    """The level that :func:`set_log_level` or the environment has set."""
    return _level_name(_native.get_log_level())


def set_log_file(path: str | os.PathLike[str] | None) -> None:
    """Append messages to a file; None sends them to stderr again.

    Raises
    ------
    InvalidValueError
        If the file cannot be opened for writing.
    """
    encoded = None if path is None else os.fsencode(path)
    if encoded is not None and b"\0" in encoded:
        raise InvalidValueError(f"path is {path!r}; it must not hold a null character")
    _native.set_log_file(encoded)


def set_log_callback(function: Callable[[str, str], object] | None) -> None:
    """Send messages to a function instead of the file or stderr; None ends that.

    Parameters
    ----------
    function : callable(level, message)
        Called with the level's name and one line of text, from any thread, one message at a time.
        It must not call magicube. What it raises is reported as unraisable and goes no further.
    """
    if function is None:
        _native.set_log_callback(None)
        return
    if not callable(function):
        raise TypeError(f"function is {function!r}; it must be callable or None")
    receive = function

    def deliver(level: int, message: bytes) -> None:
        receive(_level_name(level), message.decode("utf-8", "replace"))

    _native.set_log_callback(deliver)
    # The library's threads may log after the interpreter is gone.
    atexit.unregister(_detach)
    atexit.register(_detach)


def _detach() -> None:
    _native.set_log_callback(None)


def _level_name(level: int) -> str:
    return next((name for name, code in _native.LOG_LEVELS.items() if code == level), str(level))
