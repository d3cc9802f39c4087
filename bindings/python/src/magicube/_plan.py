# SPDX-License-Identifier: Apache-2.0
"""What the plans of all operations share: scale arrays, problems, information, lifetime."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Iterable, Mapping, Protocol, TypeVar

import numpy as np

from magicube import _native
from magicube._arrays import Stored, address, as_float, as_int, check_aligned, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._dtypes import DType, resolve_dtype
from magicube._matrix import Matrix
from magicube._place import Place
from magicube.errors import InvalidValueError, NotSupportedError
from magicube.sparse import SrBcrs, Vnm

Self = TypeVar("Self", bound="Plan")


@dataclass(frozen=True)
class PlanInfo:
    """What a plan says of itself."""

    implementation: str
    """Name of the implementation that executes."""
    reasons: tuple[str, ...]
    """One line a candidate (accepted with its cost, or declined and why), one that names the choice
    and, on CUDA, one that says so where a dense product is estimated to be faster."""
    plan_bytes: int
    """Memory that the plan keeps."""
    workspace_bytes: int
    """Scratch of one execution."""


# ---- scales and bias -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scales:
    """One array of scales or summands as the C ABI sees it."""

    granularity: str = "none"
    batch_stride: int = 0
    array: Stored | None = None

    def pointer(self) -> int:
        """Its address, 0 if there is none."""
        return 0 if self.array is None else address(self.array)


def read_scales(
    x: Any,
    argument: str,
    lengths: Mapping[str, int],
    batch_count: int,
    call: Call,
) -> Scales:
    """Find out from its shape which elements an array of scales is for.

    Parameters
    ----------
    x : None, number or array of fp32
        Shape (1,) or (length,), or (batch, 1) or (batch, length).
    lengths
        Number of elements of each granularity that is allowed, in the order of preference.
    call : Call
        The call that they are for, on whose device they must lie.
    """
    if x is None:
        return Scales()
    if isinstance(x, (int, float, np.number)):
        array = call.full(as_float(x, argument))
    else:
        array, _ = call.array(x, argument)
        array = array.reshape(1) if array.ndim == 0 else array
    allowed = " or ".join(
        f"({length},) for {name}, (batch, {length}) if each matrix of a batch has its own"
        for name, length in lengths.items()
    )
    found = next((name for name, length in lengths.items() if array.shape[-1] == length), None)
    if found is None or array.ndim > 2:
        raise InvalidValueError(f"{argument} has shape {array.shape}; it must be {allowed}")
    _check_fp32(array, argument)
    if array.ndim == 1:
        return Scales(found, 0, array)
    if array.shape[0] != batch_count:
        raise InvalidValueError(
            f"{argument} has shape {array.shape} for a batch of {batch_count}; it must be {allowed}"
        )
    apart = array.shape[0] > 1 and array.size > 0
    step = array.strides[0] if apart else array.shape[1] * 4
    if step < 0 or step % 4:
        raise InvalidValueError(
            f"{argument} has a stride of {step} bytes between matrices; it must be a multiple of 4 "
            f"and not negative: pass {argument}.copy()"
        )
    stride = step // 4
    return Scales(found, stride, array)


def _check_fp32(array: Stored, argument: str) -> None:
    if array.dtype != np.float32:
        raise InvalidValueError(
            f"{argument} has items of {array.dtype}; they must be float32: "
            f"pass {argument}.astype('float32')"
        )
    if array.shape[-1] > 1 and array.strides[-1] != 4:
        raise InvalidValueError(
            f"{argument} is not contiguous; pass numpy.ascontiguousarray({argument})"
        )
    check_aligned(array, argument)


def declare_scales(
    granularity: object, argument: str, lengths: Mapping[str, int], batched: bool
) -> Scales:
    """Scales that a plan will be given: their granularity and batch stride, without the array."""
    name = granularity
    if granularity in (None, False):
        name = "none"
    elif granularity is True and len(lengths) == 1:
        name = next(iter(lengths))
    if name == "none":
        return Scales()
    if not isinstance(name, str) or name not in lengths:
        raise InvalidValueError(
            f"{argument} is {granularity!r}; it must be one of none, {', '.join(lengths)}"
        )
    return Scales(name, lengths[name] if batched else 0)


def declare_all(
    granularities: Mapping[str, object],
    batched: Iterable[str],
    lengths: Mapping[str, Mapping[str, int]],
    others: Iterable[str] = (),
) -> tuple[dict[str, Scales], frozenset[str]]:
    """The scales of a plan, and the names in ``batched``, which may be theirs or ``others``."""
    names = check_batched(batched, (*granularities, *others))
    scales = {
        name: declare_scales(value, name, lengths[name], name in names)
        for name, value in granularities.items()
    }
    return scales, names


def read_all(
    given: Mapping[str, Any],
    lengths: Mapping[str, Mapping[str, int]],
    batch_count: int,
    call: Call,
) -> dict[str, Scales]:
    """The scales of one product, as :func:`read_scales` reads each."""
    return {
        name: read_scales(x, name, lengths[name], batch_count, call) for name, x in given.items()
    }


def check_all(
    given: Mapping[str, Any],
    declared: Mapping[str, Scales],
    lengths: Mapping[str, Mapping[str, int]],
    batch_count: int,
    call: Call,
) -> dict[str, Scales]:
    """The scales of an execution, as :func:`check_declared` checks each."""
    return {
        name: check_declared(x, name, declared[name], lengths[name], batch_count, call)
        for name, x in given.items()
    }


def product_dtype(
    given: object, lhs: DType, scales: Mapping[str, Scales], out_scale: str, plain: bool
) -> DType:
    """The type of a product's result: the caller's, or what goes with its operands and scales."""
    if given is not None:
        return resolve_dtype(given, "out_dtype")
    if scales[out_scale].granularity != "none":
        return resolve_dtype("int8")
    if lhs.floating:
        return resolve_dtype("fp32") if lhs.name == "e4m3" else lhs
    unscaled = plain and all(item.granularity == "none" for item in scales.values())
    return resolve_dtype("int32" if unscaled else "fp32")


def check_declared(
    x: Any,
    argument: str,
    declared: Scales,
    lengths: Mapping[str, int],
    batch_count: int,
    call: Call,
) -> Scales:
    """The array for scales that a plan declared, in exactly the declared shape."""
    if declared.granularity == "none":
        if x is not None:
            raise InvalidValueError(f"{argument} is given, but the plan was made without it")
        return declared
    if x is None:
        raise InvalidValueError(
            f"{argument} is None, but the plan was made with {argument}={declared.granularity!r}"
        )
    length = lengths[declared.granularity]
    given = read_scales(x, argument, {declared.granularity: length}, batch_count, call)
    if given.batch_stride != declared.batch_stride:
        wanted = (batch_count, length) if declared.batch_stride else (length,)
        raise InvalidValueError(
            f"{argument} must have shape {wanted} and be contiguous, as the plan was made for that"
        )
    return given


def scale_entries(scales: Mapping[str, Scales]) -> dict[str, int]:
    """Fields of a problem struct that describe arrays of scales."""
    entries: dict[str, int] = {}
    for name, item in scales.items():
        entries[name] = _native.GRANULARITIES[item.granularity]
        entries[f"{name}_batch_stride"] = item.batch_stride
    return entries


def pointer_entries(scales: Mapping[str, Scales]) -> dict[str, int]:
    """Fields of an args struct that point to arrays of scales."""
    return {name: item.pointer() for name, item in scales.items()}


def check_batched(batched: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """Names of the arrays that each matrix of a batch has its own of."""
    if isinstance(batched, str):
        raise InvalidValueError(f"batched is {batched!r}; it must be a collection of names")
    names, allowed = frozenset(batched), sorted(known)
    if not names.issubset(allowed):
        raise InvalidValueError(
            f"batched names {', '.join(map(repr, sorted(names.difference(allowed))))}; it may "
            f"name {', '.join(allowed)}"
        )
    return names


# ---- problems and plans --------------------------------------------------------------------------


class SparseOperand(Protocol):
    """What a plan asks of its sparse operand."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its size, a batch in front."""

    def _call(self, handle: Handle | None, name: str) -> Call:
        """A call that reads it under a name, on its device."""


@dataclass(frozen=True)
class Problem:
    """What a plan is made for: the sparse operand, and the rest of the C struct."""

    sparse: SparseOperand
    """Holds the arrays that the descriptor points to."""
    descriptor: _native.SpMat | _native.KroneckerMat
    entries: dict[str, int]
    implementation: str | None


def size_range(value: Any, argument: str) -> tuple[int, int]:
    """A size, or a pair of smallest and largest."""
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise InvalidValueError(f"{argument} is {value!r}; it must be (smallest, largest)")
        return as_int(value[0], argument), as_int(value[1], argument)
    size = as_int(value, argument)
    return size, size


def check_sparse(x: Any, argument: str) -> SrBcrs:
    """Raise unless the operand is an SrBcrs."""
    if isinstance(x, SrBcrs):
        return x
    fix = "from_scipy" if hasattr(x, "tocsr") else "from_dense"
    raise TypeError(
        f"{argument} is of type {type(x).__name__}; it must be a magicube.SrBcrs: "
        f"pass magicube.SrBcrs.{fix}({argument})"
    )


def check_implementation(name: object) -> str | None:
    """Raise unless it is a name or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"implementation is {name!r}; it must be a name or None")
    return name


def plan_batch(sparse: SrBcrs | Vnm, batch_count: object) -> int:
    """Number of matrices of a plan, by default that of its sparse operand."""
    return sparse.batch_count if batch_count is None else as_int(batch_count, "batch_count")


def check_batch(sparse: SrBcrs | Vnm, *dense: Matrix) -> int | None:
    """Number of matrices of a call, None if nothing is a batch."""
    counts = [item.batch for item in dense if item.batch is not None]
    if len(set(counts)) > 1:
        raise InvalidValueError(f"the dense matrices are batches of {counts}; they must agree")
    if counts:
        return counts[0]
    return sparse.batch_count if sparse.ndim == 3 else None


class Plan:
    """A prepared operation: checks and packing are done, executing it is cheap.

    Executing does not change a plan. Several threads may execute one at a time; give each its own
    handle, or none (every thread then has one of its own).
    """

    __slots__ = ("__weakref__", "_native_plan", "_place", "_shape")
    _type: ClassVar[Any]
    _operand: ClassVar[str] = "A"  # what its sparse operand is called
    _native_plan: Any
    _place: Place
    _shape: tuple[int, ...]

    def _create(self, problem: Problem, handle: Handle | None) -> None:
        self._shape = problem.sparse.shape
        call = problem.sparse._call(handle, self._operand)
        self._place = call.place
        self._native_plan = self._type(
            call.native(), problem.descriptor, problem.entries, problem.implementation
        )

    def _call_of(self, handle: Handle | None) -> Call:
        """A call of this plan, whose arrays are to lie on the plan's device."""
        return Call(handle, self._place, "the plan", self._operand)

    @classmethod
    def is_supported(
        cls, *args: Any, handle: Handle | None = None, **kwargs: Any
    ) -> tuple[bool, str]:
        """Whether a plan with these arguments, those of the class, can be made.

        Returns
        -------
        (bool, str)
            The answer, and the reason if it is False.

        Raises
        ------
        InvalidValueError
            If the arguments break a rule rather than ask for what does not exist.
        """
        check = type(cls.__name__, (_CheckOnly, cls), {"__slots__": ()})
        try:
            check(*args, handle=handle, **kwargs)
        except NotSupportedError as error:
            return False, str(error)
        return True, ""

    def _open(self) -> Any:
        if self._native_plan is None:
            raise InvalidValueError("plan: it has been closed")
        return self._native_plan

    @property
    def info(self) -> PlanInfo:
        """What the plan runs and why."""
        name, reasons, plan_bytes, workspace_bytes = self._open().info()
        return PlanInfo(name, tuple(reasons.splitlines()), plan_bytes, workspace_bytes)

    def close(self) -> None:
        """Free the plan once no execution uses it; calling it again does nothing."""
        self._native_plan = None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native_plan is None:
            return f"{type(self).__name__}(closed)"
        name = self.info.implementation
        return f"{type(self).__name__}(shape={self._shape}, implementation={name!r})"


class _CheckOnly(Plan):
    """Put before a plan class: goes through its constructor, but only asks whether it would do."""

    __slots__ = ()

    def _create(self, problem: Problem, handle: Handle | None) -> None:
        call = problem.sparse._call(handle, self._operand)
        self._type.check_supported(
            call.native(), problem.descriptor, problem.entries, problem.implementation
        )


def implementations(kind: Any, device: str) -> list[str]:
    """Names of the implementations of an operation on a device, the reference last."""
    names: list[str] = kind.implementations(choose(device, _native.DEVICES, "device"))
    return names
