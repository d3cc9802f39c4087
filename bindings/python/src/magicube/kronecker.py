# SPDX-License-Identifier: Apache-2.0
"""Which implementation of a Kronecker-sparse product is best: candidates, and what was measured.

``magicube bench kronecker`` times every candidate, those registered here included, and keeps the
times in a file; :func:`best` picks from it.
"""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Union

import numpy as np

from magicube._arrays import AnyArray
from magicube._device import device_info
from magicube._dtypes import DTYPES
from magicube._kronecker import Kronecker, KroneckerChain, Pattern, check_kronecker
from magicube._kronecker_mm import KroneckerMMPlan
from magicube._native import version
from magicube.errors import InvalidValueError

__all__ = ["Best", "Candidate", "Setting", "best", "cache_path", "candidates", "register",
           "unregister"]

AnyKronecker = Union[Kronecker, KroneckerChain]
Run = Callable[[Any], Any]
"""X to Y, for one K, layout and number of vectors."""
Make = Callable[[AnyKronecker, str, int], Run]
Accepts = Callable[["Setting"], str]


@dataclass(frozen=True)
class Setting:
    """What a product is measured for."""

    patterns: tuple[Pattern, ...]
    """One of a factor, several of a chain."""
    batch: int
    """Vectors."""
    dtype: str
    layout: str
    """"first" or "last"."""
    device: str = "cpu"
    """Where K, X and Y lie, such as "cuda:0"; X is then a tensor of PyTorch."""

    @property
    def key(self) -> str:
        """Its name in the file of measured times, where each device has its own."""
        chain = ";".join(",".join(map(str, pattern)) for pattern in self.patterns)
        return f"{chain} {self.batch} {self.dtype} {self.layout}"


@dataclass(frozen=True)
class Candidate:
    """An implementation that can be chosen."""

    name: str
    make: Make
    """From K, layout and number of vectors; what is packed once belongs here."""
    accepts: Accepts
    """Empty, or why it does not take the setting. ``make`` may still raise NotSupportedError."""


@dataclass(frozen=True)
class Best:
    """What :func:`best` chose."""

    name: str
    run: Run
    """X to Y."""
    time_us: float | None
    """As measured; None if the setting has not been, and magicube is taken untried."""


# ---- candidates ----------------------------------------------------------------------------------


def _own(K: AnyKronecker, layout: str, batch: int) -> Run:
    return KroneckerMMPlan(K, n=(0, batch), layout=layout)


def _either(name: str, host: Make) -> Make:
    """On the CPU what NumPy or SciPy does, on CUDA what PyTorch does under that name."""

    def make(K: AnyKronecker, layout: str, batch: int) -> Run:
        if K.device == "cpu":
            return host(K, layout, batch)
        from magicube import _kronecker_torch

        run: Run = getattr(_kronecker_torch, name)(K, layout, K.device)
        return run

    return make


def _dense(K: AnyKronecker, layout: str, batch: int) -> Run:
    matrix = K.to_dense(dtype="fp32")
    if layout == "last":
        return lambda x: matrix @ x
    return lambda x: x @ matrix.T


def permutations(K: Kronecker, layout: str) -> tuple[Run, Run]:
    """What a batched product needs around it: X to (a d, n, c) or (a d, c, n), and its result back
    to Y, both contiguous."""
    a, b, c, d = K.pattern
    if layout == "first":

        def before(x: AnyArray) -> AnyArray:
            blocks = x.reshape(-1, a, c, d).transpose(1, 3, 0, 2)
            return np.ascontiguousarray(blocks).reshape(a * d, -1, c)

        def after(y: AnyArray) -> AnyArray:
            blocks = y.reshape(a, d, -1, b).transpose(2, 0, 3, 1)
            return np.ascontiguousarray(blocks).reshape(-1, a * b * d)

        return before, after

    def before_last(x: AnyArray) -> AnyArray:
        blocks = x.reshape(a, c, d, -1).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(blocks).reshape(a * d, c, -1)

    def after_last(y: AnyArray) -> AnyArray:
        blocks = y.reshape(a, d, b, -1).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(blocks).reshape(a * b * d, -1)

    return before_last, after_last


def _bmm(K: AnyKronecker, layout: str, batch: int) -> Run:
    assert isinstance(K, Kronecker)
    a, b, c, d = K.pattern
    before, after = permutations(K, layout)
    left = np.ascontiguousarray(K.values.transpose(0, 3, 1, 2)).reshape(a * d, b, c)
    if layout == "last":
        return lambda x: after(left @ before(x))
    right = np.ascontiguousarray(left.transpose(0, 2, 1))
    return lambda x: after(before(x) @ right)


def _einsum(K: AnyKronecker, layout: str, batch: int) -> Run:
    assert isinstance(K, Kronecker)
    a, b, c, d = K.pattern
    w = K.values
    if layout == "first":
        return lambda x: np.einsum("nikl,ijkl->nijl", x.reshape(-1, a, c, d), w).reshape(
            -1, a * b * d
        )
    return lambda x: np.einsum("ikln,ijkl->ijln", x.reshape(a, c, d, -1), w).reshape(
        a * b * d, -1
    )


def _scipy(make: Callable[[Any, Kronecker], Any]) -> Make:
    def build(K: AnyKronecker, layout: str, batch: int) -> Run:
        assert isinstance(K, Kronecker)
        import scipy.sparse

        sparse = make(scipy.sparse, K)
        if layout == "last":
            return lambda x: sparse @ x
        return lambda x: (sparse @ x.T).T

    return build


def _anything(setting: Setting) -> str:
    return ""


def _fp32(setting: Setting) -> str:
    return "" if setting.dtype == "fp32" else "computes in fp32 alone"


def _fp32_factor(setting: Setting) -> str:
    return "takes one factor" if len(setting.patterns) > 1 else _fp32(setting)


def _small_factor(setting: Setting) -> str:
    reason = _fp32_factor(setting)
    if reason:
        return reason
    a, b, c, d = setting.patterns[0]
    work = a * b * c * d * setting.batch
    return "" if work <= 2 * 10**9 else f"{work} multiplications take it too long"


def _scipy_factor(setting: Setting) -> str:
    try:
        import scipy.sparse  # noqa: F401
    except ImportError:
        return "SciPy is not installed"
    return _fp32_factor(setting)


def _scipy_blocks(setting: Setting) -> str:
    return "d must be 1" if setting.patterns[0][3] != 1 else _scipy_factor(setting)


def _torch(setting: Setting) -> str:
    return "" if importlib.util.find_spec("torch") else "PyTorch is not installed"


def _torch_factor(setting: Setting) -> str:
    return "takes one factor" if len(setting.patterns) > 1 else _torch(setting)


def _torch_blocks(setting: Setting) -> str:
    return "d must be 1" if setting.patterns[0][3] != 1 else _torch_factor(setting)


def _rules(host: Accepts, cuda: Accepts) -> Accepts:
    return lambda setting: (host if setting.device == "cpu" else cuda)(setting)


def _scipy_bsr(scipy: Any, K: Kronecker) -> Any:
    return scipy.bsr_array(K.to_scipy(), blocksize=K.pattern[1:3])


_candidates: dict[str, Candidate] = {
    item.name: item
    for item in (
        Candidate("magicube", _own, _anything),
        Candidate("dense", _either("dense", _dense), _rules(_fp32, _torch)),
        Candidate("bmm", _either("bmm", _bmm), _rules(_fp32_factor, _torch_factor)),
        Candidate("einsum", _either("einsum", _einsum), _rules(_small_factor, _torch_factor)),
        Candidate(
            "csr", _either("csr", _scipy(lambda scipy, K: K.to_scipy())),
            _rules(_scipy_factor, _torch_factor),
        ),
        Candidate(
            "bsr", _either("bsr", _scipy(_scipy_bsr)), _rules(_scipy_blocks, _torch_blocks)
        ),
    )
}
_BUILT_IN = frozenset(_candidates)


def register(
    name: str,
    make: Make,
    *,
    accepts: Accepts | None = None,
) -> None:
    """Add an implementation of one's own to what is measured and chosen from.

    Parameters
    ----------
    name : str
        Of no built-in candidate; one registered before is replaced.
    make : callable
        ``make(K, layout, n)`` prepares K (a Kronecker or KroneckerChain) for up to n vectors and
        returns ``run(X)``, which computes Y as :func:`kronecker_mm` does. On CUDA, X is a tensor of
        PyTorch.
    accepts : callable, optional
        ``accepts(setting)`` returns "" or the reason why it does not take a :class:`Setting`.

    Raises
    ------
    InvalidValueError
        If the name is taken by a built-in candidate.
    """
    if name in _BUILT_IN or not name:
        raise InvalidValueError(f"name is {name!r}; it must not be one of {', '.join(_BUILT_IN)}")
    _candidates[name] = Candidate(name, make, accepts or _anything)


def unregister(name: str) -> None:
    """Remove what :func:`register` added; unknown names are ignored."""
    if name not in _BUILT_IN:
        _candidates.pop(name, None)


def candidates() -> tuple[Candidate, ...]:
    """All candidates, magicube first."""
    return tuple(_candidates.values())


# ---- measured times ------------------------------------------------------------------------------


def cache_path() -> Path:
    """The file of measured times: ``$MAGICUBE_CACHE_DIR/kronecker.json``, by default in
    ``$XDG_CACHE_HOME/magicube`` or ``~/.cache/magicube``."""
    folder = os.environ.get("MAGICUBE_CACHE_DIR")
    if folder is None:
        folder = os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "magicube"
        )
    return Path(folder) / "kronecker.json"


def device_key(device: str = "cpu") -> str:
    """Times are of one device and one version of the library."""
    if device == "cpu":
        info = device_info("cpu")
        return f"{info.name}, {info.multiprocessors} threads, magicube {version()}"
    kind, _, ordinal = device.partition(":")
    return f"{device_info(kind, int(ordinal or 0)).name}, magicube {version()}"


def load_times(device: str = "cpu") -> dict[str, dict[str, float]]:
    """Microseconds by setting and candidate, of one device; a damaged file counts as empty."""
    try:
        content = json.loads(cache_path().read_text())
        entry = content.get(device_key(device), {})
        return {
            str(key): {str(name): float(time) for name, time in times.items()}
            for key, times in entry.items()
        }
    except (OSError, ValueError, AttributeError):
        return {}


def save_times(times: dict[str, dict[str, float]], device: str = "cpu") -> None:
    """Replace a device's times, keeping those of others."""
    target = cache_path()
    try:
        content = json.loads(target.read_text())
        content = content if isinstance(content, dict) else {}
    except (OSError, ValueError):
        content = {}
    content[device_key(device)] = times
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    partial.write_text(json.dumps(content, indent=1, sort_keys=True))
    os.replace(partial, target)


def best(K: AnyKronecker, *, batch: int, layout: str = "first") -> Best:
    """The fastest candidate that was measured for a product, ready to run.

    Parameters
    ----------
    K : Kronecker or KroneckerChain
        In host memory, or on CUDA, where others than magicube itself take tensors of PyTorch.
    batch : int
        Largest number of vectors.
    layout : {"first", "last"}

    Returns
    -------
    Best
        magicube itself where ``magicube bench kronecker`` has not measured the setting on this
        device with this version.

    Raises
    ------
    InvalidValueError
        If an argument breaks a rule.
    """
    K = check_kronecker(K, "K")
    if layout not in ("first", "last"):
        raise InvalidValueError(f"layout is {layout!r}; it must be one of first, last")
    assert K.dtype in DTYPES
    setting = Setting(K._patterns, batch, K.dtype, layout, K.device)
    times = load_times(K.device).get(setting.key, {})
    usable = {
        name: time
        for name, time in times.items()
        if name in _candidates and not _candidates[name].accepts(setting)
    }
    name = min(usable, key=lambda key: usable[key], default="magicube")
    run = _candidates[name].make(K, layout, batch)
    return Best(name, run, usable.get(name))
