# SPDX-License-Identifier: Apache-2.0
"""Where arrays lie, and each thread's own handles of those devices."""

from __future__ import annotations

import threading
from typing import NamedTuple

from magicube import _native


class Place(NamedTuple):
    """A device: its kind, "cpu" or "cuda", and which of them."""

    kind: str
    ordinal: int = 0

    @property
    def on_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.kind == "cuda"

    @property
    def where(self) -> str:
        """For messages: what lies there lies ..."""
        return f"on CUDA device {self.ordinal}" if self.on_cuda else "in host memory"

    def __str__(self) -> str:
        return f"cuda:{self.ordinal}" if self.on_cuda else "cpu"


CPU = Place("cpu")

_cache = threading.local()


def thread_handle(place: Place) -> _native.Handle:
    """This thread's own handle of a device, made when it is first asked for."""
    handles: dict[Place, _native.Handle] | None = getattr(_cache, "handles", None)
    if handles is None:
        handles = _cache.handles = {}
    found = handles.get(place)
    if found is None:
        found = handles[place] = _native.Handle(_native.DEVICES[place.kind], place.ordinal)
    return found
