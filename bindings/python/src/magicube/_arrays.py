# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: any array as a view without a copy, results in the same library."""

from __future__ import annotations

import math
import operator
import sys
from dataclasses import dataclass
from typing import Any, Callable, Union

import numpy as np

from magicube import _native
from magicube._device_array import LEGACY_STREAM, DeviceArray, dense_strides, dlpack_dtype, upload
from magicube._dtypes import DTYPES, DType, dtype_of_array, resolve_dtype
from magicube._place import CPU, Place
from magicube.errors import InvalidValueError, MisalignedError, NotSupportedError

AnyArray = np.ndarray[Any, Any]
Stored = Union[AnyArray, DeviceArray]
"""A view of an array in host memory or in that of a GPU."""

_DLPACK_HOST = (1, 3)  # host memory, and host memory that CUDA has pinned
_DLPACK_CUDA = (2, 13)


def as_int(value: object, argument: str, bits: int = 64) -> int:
    """``value`` as an integer that fits the C type of the argument."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{argument} is {value!r}; it must be an integer") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise InvalidValueError(f"{argument} is {number}; it must fit a {bits}-bit integer")
    return number


def as_float(value: object, argument: str) -> float:
    """``value`` as a number that fp32 can hold."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{argument} is {value!r}; it must be a number") from None
    with np.errstate(over="ignore"):
        if math.isfinite(number) and not np.isfinite(np.float32(number)):
            raise InvalidValueError(f"{argument} is {number}; it must lie in the range of fp32")
    return number


def choose(value: object, table: dict[str, int], argument: str) -> int:
    """The C number that ``value`` names in one of the tables of ``_native``."""
    if isinstance(value, str) and value in table:
        return table[value]
    raise InvalidValueError(f"{argument} is {value!r}; it must be one of {', '.join(table)}")


# ---- results -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Library:
    """Makes arrays of the library that the caller's arrays came from."""

    name: str
    namespace: Any = None
    ordinal: int | None = None
    """The CUDA device of its arrays, None for host memory."""
    own_stream: int = 0
    """Of arrays whose library has no current stream: the one that orders them."""

    def empty(
        self, shape: tuple[int, ...], dtype: DType, order: str = "C", zero: bool = False
    ) -> tuple[Any, Stored]:
        """An array, and a view of it for the library to write through.

        ``shape`` counts items of ``dtype.storage``; the last two axes are in ``order``.
        """
        stored = shape if order == "C" else (*shape[:-2], shape[-1], shape[-2])
        array: Any
        if self.name == "torch":
            array = self._torch_empty(stored, dtype, zero)
        elif self.name == "cupy":
            array = self._cupy_empty(stored, dtype, zero)
        elif self.ordinal is not None and zero:
            array = upload(np.zeros(stored, dtype.storage), self.ordinal)
        elif self.ordinal is not None:
            array = DeviceArray.empty(stored, dtype.storage, self.ordinal)
            array._stream = self.own_stream
        else:
            array = (np.zeros if zero else np.empty)(stored, dtype.storage)
        if order == "F":
            array = array.swapaxes(-1, -2)
        return array, array_of(array, "out")[0]

    def contiguous(self, argument: str, order: str = "C") -> str:
        """The expression that makes an operand contiguous, for messages."""
        if self.name == "torch":
            return f"{argument}.contiguous()" if order == "C" else f"{argument}.mT.contiguous().mT"
        package = "cupy" if self.name == "cupy" else "numpy"
        function = "ascontiguousarray" if order == "C" else "asfortranarray"
        return f"{package}.{function}({argument})"

    def _torch_empty(self, shape: tuple[int, ...], dtype: DType, zero: bool) -> Any:
        torch = sys.modules["torch"]
        name = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn"}.get(dtype.name, dtype.storage.name)
        device = "cpu" if self.ordinal is None else f"cuda:{self.ordinal}"
        make = torch.zeros if zero else torch.empty
        return make(shape, dtype=getattr(torch, name), device=device)

    def _cupy_empty(self, shape: tuple[int, ...], dtype: DType, zero: bool) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(self.ordinal):
            try:
                return (cupy.zeros if zero else cupy.empty)(shape, dtype.storage)
            except (TypeError, ValueError) as error:
                raise NotSupportedError(
                    f"this CuPy has no arrays of {dtype.name}; pass out, or another out_dtype"
                ) from error

    def full(self, value: float) -> Stored:
        """One fp32 number where the library's arrays lie, as an array of shape (1,)."""
        if self.name == "torch":
            torch = sys.modules["torch"]
            device = f"cuda:{self.ordinal}"
            return array_of(torch.full((1,), value, dtype=torch.float32, device=device), "x")[0]
        if self.name == "cupy":
            cupy = sys.modules["cupy"]
            with cupy.cuda.Device(self.ordinal):
                return array_of(cupy.full((1,), value, np.float32), "x")[0]
        number = np.array([value], np.float32)
        return number if self.ordinal is None else upload(number, self.ordinal)

    def current_stream(self) -> int:
        """The CUDA stream that the library submits work to now."""
        if self.name == "torch":
            return int(sys.modules["torch"].cuda.current_stream(self.ordinal).cuda_stream)
        if self.name == "cupy":
            cuda = sys.modules["cupy"].cuda
            with cuda.Device(self.ordinal):
                return int(cuda.get_current_stream().ptr)
        return self.own_stream

    @property
    def knows_its_stream(self) -> bool:
        """Whether the library has a current stream that it tells."""
        return self.name in ("torch", "cupy")

    def scratch(self, count: int) -> Any:
        """Scratch memory of the library's stream-ordered allocator, None if it offers none.

        torch's is safe to give back during a capture: a graph keeps its pool. CuPy's is not.
        """
        if self.name != "torch" or self.ordinal is None:
            return None
        torch = sys.modules["torch"]
        return torch.empty(count, dtype=torch.uint8, device=f"cuda:{self.ordinal}")

    def give(self, result: Any) -> Any:
        """The finished result as the caller's library holds it."""
        if self.namespace is None or result.dtype.kind not in "iuf":
            return result  # NumPy exports no bf16 and e4m3 through DLPack
        return self.namespace.from_dlpack(result)


NUMPY = Library("numpy")


def _library_of(x: Any, ordinal: int | None = None) -> Library:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return Library("torch", ordinal=ordinal)
    if ordinal is not None:
        cupy = sys.modules.get("cupy")
        known = cupy is not None and isinstance(x, cupy.ndarray)
        return Library("cupy" if known else "magicube", ordinal=ordinal)
    find: Callable[[], Any] | None = getattr(x, "__array_namespace__", None)
    if find is not None:
        return Library("array namespace", find())
    return NUMPY


# ---- arguments -----------------------------------------------------------------------------------


def host_array(x: Any, argument: str) -> tuple[AnyArray, Library]:
    """A NumPy view of an array in host memory, without a copy, and the library that it is from.

    Raises
    ------
    TypeError
        If ``x`` is no array.
    NotSupportedError
        If it lies in the memory of a GPU.
    """

    def meet(place: Place) -> None:
        if place.on_cuda:
            raise NotSupportedError(
                f"{argument} lies in CUDA memory, where this version has no such operation: pass "
                f"a copy in host memory, {_copy_to_host(x, argument)}; a magicube.SrBcrs is moved "
                "to the GPU by its method cuda()"
            )

    array, library = array_of(x, argument, Use(meet=meet))
    assert isinstance(array, np.ndarray)
    return array, library


def _copy_to_host(x: Any, argument: str) -> str:
    library = type(x).__module__.partition(".")[0]
    method = {"torch": "cpu", "cupy": "get"}.get(library, "numpy")
    return f"{argument}.{method}()"


@dataclass(frozen=True)
class Use:
    """What an array is looked at for."""

    stream: int | None = None
    """The CUDA stream that it will be used on; by default its library's current one. The producer
    is told of it, so that it can let that stream wait for its own."""
    lead: Library | None = None
    """The library whose current stream that is."""
    ordinal: int = 0
    """The device of a CUDA array that does not tell it."""
    meet: Callable[[Place], None] = lambda place: None
    """Called with the array's place before anything is asked of it; may raise."""


_ANY_USE = Use()


def array_of(x: Any, argument: str, use: Use = _ANY_USE) -> tuple[Stored, Library]:
    """A view of an array in host or CUDA memory, without a copy, and the library that it is from.

    Raises
    ------
    TypeError
        If ``x`` is no array.
    NotSupportedError
        If it lies elsewhere.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{argument} is a masked array, whose mask would be ignored; "
            "pass x.filled(0) or x.data"
        )
    if isinstance(x, np.ndarray):
        use.meet(CPU)
        return x, NUMPY
    if isinstance(x, DeviceArray):
        use.meet(Place("cuda", x.ordinal))
        if use.stream is not None:
            x._wait(use.stream)
        pending = x.pending_stream() or 0
        return x, x._library or Library("magicube", ordinal=x.ordinal, own_stream=pending)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, argument, use)
    if hasattr(x, "__cuda_array_interface__"):
        return _from_cuda_interface(x, argument, use)
    if hasattr(x, "__array_interface__"):
        use.meet(CPU)
        return np.asarray(x), NUMPY
    raise TypeError(
        f"{argument} is of type {type(x).__name__}; it must be a NumPy array or an object with "
        f"__dlpack__, __cuda_array_interface__ or __array_interface__: pass "
        f"numpy.asarray({argument})"
    )


def _capsule(x: Any, **options: Any) -> Any:
    try:
        return x.__dlpack__(max_version=(1, 0), **options)
    except TypeError:  # a producer from before DLPack 1.0
        return x.__dlpack__(**options)


def _cuda_capsule(x: Any, library: Library, use: Use) -> Any:
    stream = _consumer_stream(library, use)
    if library.name != "torch":
        return _capsule(x, stream=stream)
    cuda = sys.modules["torch"].cuda
    if cuda.current_device() == library.ordinal:
        return _capsule(x, stream=stream)
    with cuda.device(library.ordinal):  # torch exports what lies on its current device alone
        return _capsule(x, stream=stream)


def _from_dlpack(x: Any, argument: str, use: Use) -> tuple[Stored, Library]:
    device, ordinal = (int(number) for number in x.__dlpack_device__())
    on_cuda = device in _DLPACK_CUDA
    if not on_cuda and device not in _DLPACK_HOST:
        raise NotSupportedError(
            f"{argument} lies on a device of DLPack type {device}; it must lie in host memory or "
            "in that of a CUDA device"
        )
    use.meet(Place("cuda", ordinal) if on_cuda else CPU)
    library = _library_of(x, ordinal if on_cuda else None)
    try:
        capsule = _cuda_capsule(x, library, use) if on_cuda else _capsule(x)
        tensor = _native.DlpackTensor(capsule)
        dtype = dlpack_dtype(*tensor.type)
        if dtype is None:
            raise BufferError(f"its element type (DLPack code, bits, lanes) is {tensor.type}")
        if on_cuda:
            return _device_view(tensor, dtype, library, use.stream), library
        array: AnyArray = _native.dlpack_array(tensor, dtype)
    except (BufferError, RuntimeError) as error:
        raise InvalidValueError(f"{argument} cannot be read through DLPack: {error}") from error
    if tensor.read_only:
        array.flags.writeable = False
    return array, library


def _consumer_stream(library: Library, use: Use) -> int:
    """What to tell a producer; -1 where its own current stream will be used anyway."""
    if library.knows_its_stream:
        if use.stream is None or library == use.lead or use.stream == library.current_stream():
            return -1
    return use.stream or LEGACY_STREAM


def _device_view(
    tensor: _native.DlpackTensor, dtype: np.dtype[Any], library: Library, stream: int | None
) -> DeviceArray:
    shape = tensor.shape
    strides = tensor.strides
    return DeviceArray(
        tensor.address,
        shape,
        dense_strides(shape, dtype)
        if strides is None
        else tuple(step * dtype.itemsize for step in strides),
        dtype,
        tensor.device[1],
        tensor,
        read_only=tensor.read_only,
        stream=stream or 0,
        library=library if library.knows_its_stream else None,
    )


def _from_cuda_interface(
    x: Any, argument: str, use: Use
) -> tuple[Stored, Library]:
    use.meet(Place("cuda", use.ordinal))
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError(f"{argument} has a mask, which would be ignored")
    dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V":  # NumPy spells neither bfloat16 nor 8-bit floats out
        dtype = np.dtype(getattr(x, "dtype", dtype))
    shape = tuple(int(size) for size in interface["shape"])
    strides = interface.get("strides")
    pending = interface.get("stream")
    if pending == 0:
        raise InvalidValueError(
            f"{argument} names stream 0 in its __cuda_array_interface__, which its version 3 "
            "forbids as ambiguous"
        )
    pointer, read_only = interface["data"]
    view = DeviceArray(
        int(pointer or 0),
        shape,
        dense_strides(shape, dtype) if strides is None else tuple(int(step) for step in strides),
        dtype,
        use.ordinal,
        x,
        read_only=bool(read_only),
        stream=0 if pending == LEGACY_STREAM else pending,
    )
    return array_of(view, argument, use)


def place_of(array: Stored) -> Place:
    """Where an array lies."""
    return Place("cuda", array.ordinal) if isinstance(array, DeviceArray) else CPU


def contiguous(array: Stored) -> bool:
    """Whether the items lie row by row without gaps."""
    return array.contiguous if isinstance(array, DeviceArray) else array.flags.c_contiguous


def address(array: Stored) -> int:
    """Address of an array's first item; some address also for an empty one."""
    if isinstance(array, DeviceArray):
        return array.ptr
    return int(array.__array_interface__["data"][0])


def check_aligned(array: Stored, argument: str) -> None:
    """Raise unless every item lies at a multiple of its size."""
    if array.size and address(array) % array.dtype.itemsize:
        raise MisalignedError(
            f"{argument} starts at an address that is no multiple of its "
            f"{array.dtype.itemsize}-byte items; pass a copy: x.copy()"
        )


def checked_dtype(array: Stored, wanted: object, argument: str) -> DType:
    """The element type of an array, which ``wanted`` (None: any) may narrow to int12."""
    found = dtype_of_array(array.dtype)
    if wanted is not None:
        dtype = resolve_dtype(wanted, f"the type of {argument}")
        if dtype.bits != 4 and dtype.storage == array.dtype:
            return dtype
        fix = (
            "pass a magicube.Int4Array, for example magicube.pack_int4(x)"
            if dtype.bits == 4
            else f"convert it, for example with x.astype({dtype.storage.name!r})"
        )
        raise InvalidValueError(f"{argument} has items of {array.dtype}, not {dtype.name}: {fix}")
    if found is None:
        raise InvalidValueError(
            f"{argument} has items of {array.dtype}; they must be one of "
            f"{', '.join(DTYPES)}: convert it, for example with x.astype('float32')"
        )
    return found


def check_writable(array: Stored, argument: str, writable: bool) -> None:
    """Raise if the library is to write to an array that is read-only."""
    fixed = array.read_only if isinstance(array, DeviceArray) else not array.flags.writeable
    if writable and fixed:
        raise InvalidValueError(f"{argument} is read-only; the result is written to it")
