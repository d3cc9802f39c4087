# SPDX-License-Identifier: Apache-2.0
"""SR-BCRS from and to dense matrices and masks, and between its own variants."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from magicube import _convert, _native
from magicube._arrays import AnyArray, Library, Stored, choose
from magicube._call import Call
from magicube._device import Handle
from magicube._device_array import DeviceArray
from magicube._dtypes import DTYPES, DType, resolve_dtype
from magicube._int4 import Int4Array
from magicube._matrix import empty_matrix, matrix, null_matrix, result_of
from magicube._sr_bcrs import SrBcrsArrays
from magicube.errors import InvalidValueError, NotSupportedError

Self = TypeVar("Self", bound="SrBcrsDense")


class SrBcrsDense(SrBcrsArrays):
    """The dense conversions of :class:`magicube.SrBcrs`."""

    __slots__ = ()

    @classmethod
    def from_dense(
        cls: type[Self],
        w: Any,
        *,
        vector_length: int = 8,
        stride: int | None = None,
        mask: Any = None,
        dtype: object = None,
        index_dtype: object = "int64",
        handle: Handle | None = None,
    ) -> Self:
        """Convert a dense matrix, or a batch of them.

        Parameters
        ----------
        w : array or Int4Array
            Shape (M, K), or (batch, M, K), which gives a batch of different patterns. In host
            memory, or in that of a GPU: the matrix then lies there too. Only the number of slots
            is read back.
        vector_length : {1, 2, 4, 8, 16, 32, 64}
            V, the number of rows that a vector spans.
        stride : {1, 8, 16, 32}, optional
            S; by default 32 for 4- and 8-bit values, 16 for others, 1 for V = 1 (int4: 32).
        mask : array of bool or uint8, optional
            Shape of ``w``: an element exists where it is not 0, whatever its value. Without it a
            vector exists, as a whole, if one of its elements is not 0.
        dtype : optional
            Floating type to round to (to nearest even); "int12" for int16 data in that range.
        index_dtype : {"int64", "int32"}
            Type of row_begin and row_end.

        Raises
        ------
        InvalidValueError
            If a shape, type or parameter breaks a rule; the text names it.
        """
        wanted = None if dtype is None else resolve_dtype(dtype)
        call = Call(handle)
        if not isinstance(w, Int4Array):
            array, _ = call.array(w, "w")
            as_read, read_as = _convert.readable(array, wanted)
            on_host = isinstance(as_read, np.ndarray)
            dense = matrix(as_read if on_host else w, "w", dtype=read_as, call=call)
        else:
            dense = matrix(w, "w", call=call)
        marks = None if mask is None else matrix(mask, "mask", mask=True, call=call)
        if marks is not None and marks.shape != dense.shape:
            raise InvalidValueError(
                f"mask has shape {marks.shape} and w {dense.shape}; they must agree"
            )
        target = dense.dtype if wanted is None else wanted
        layout = _convert.make_layout(dense.shape, vector_length, stride, target, index_dtype)
        parts = _convert.from_dense(call, dense, marks, layout, True)
        return cls._from_parts(layout, parts, target)

    @classmethod
    def from_mask(
        cls: type[Self],
        mask: Any,
        *,
        vector_length: int = 8,
        stride: int | None = None,
        dtype: object = "fp16",
        index_dtype: object = "int64",
        handle: Handle | None = None,
    ) -> Self:
        """Make a pattern without values from a mask, such as :func:`sddmm` takes.

        Parameters
        ----------
        mask : array of bool or uint8
            Shape (M, K), or (batch, M, K): an element exists where it is not 0.
        vector_length, stride, index_dtype
            As in :meth:`from_dense`.
        dtype
            Type of the values that are to come; only the default stride follows from it.

        Raises
        ------
        InvalidValueError
            If a shape, type or parameter breaks a rule.
        """
        call = Call(handle)
        marks = matrix(mask, "mask", mask=True, call=call)
        target = resolve_dtype(dtype)
        layout = _convert.make_layout(marks.shape, vector_length, stride, target, index_dtype)
        dense = null_matrix(marks.rows, marks.cols, marks.batch, target)
        parts = _convert.from_dense(call, dense, marks, layout, False)
        return cls._from_parts(layout, parts, target)

    def convert(
        self: Self,
        *,
        vector_length: int | None = None,
        stride: int | None = None,
        dtype: object = None,
        index_dtype: object = None,
        handle: Handle | None = None,
    ) -> Self:
        """The same matrix with another vector length, stride, value type or index type.

        Parameters
        ----------
        vector_length, stride, dtype, index_dtype
            As in :meth:`from_dense`; what is left out stays, except that the stride becomes the
            default of another vector length or type.

        Raises
        ------
        InvalidValueError
            If the value types are neither the same nor both floating.
        """
        call = self._call(handle)
        length = self.vector_length if vector_length is None else vector_length
        target = self._dtype if dtype is None else resolve_dtype(dtype)
        if stride is None and length == self.vector_length and target == self._dtype:
            stride = self.stride
        layout = _convert.make_layout(
            self.shape, length, stride, target or DTYPES["fp16"],
            self.row_begin.dtype.name if index_dtype is None else index_dtype,
        )
        source = self._descriptor(dtype=None if self.values is not None else layout.dtype)
        with_values = self.values is not None
        parts = _convert.from_sparse(call, source, layout, with_values)
        return self._from_parts(layout, parts, layout.dtype)

    def astype(self: Self, dtype: object, *, handle: Handle | None = None) -> Self:
        """The same pattern with values of another type.

        Parameters
        ----------
        dtype
            A floating type if the values are floating (rounded to nearest even); of integers,
            "int16" and "int12" for each other (the values must fit).

        Raises
        ------
        InvalidValueError
            If this is a pattern alone, or a value does not fit int12.
        NotSupportedError
            For any other pair of types: :func:`quantize` and :func:`dequantize` do those.
        """
        target = resolve_dtype(dtype)
        source = self._dtype
        if self.values is None or source is None:
            raise InvalidValueError("the matrix is a pattern alone; it has no values to convert")
        if target == source:
            return self
        if target.storage == source.storage and target.bits == source.bits == 16:
            if target.name == "int12" and self.values.size:
                values = _on_host(self.values)
                low, high = int(values.min()), int(values.max())
                if low < -2048 or high > 2047:
                    raise InvalidValueError(
                        f"values lie in [{low}, {high}]; int12 holds -2048 to 2047"
                    )
            return self.with_values(self.values, target)
        if not (target.floating and source.floating):
            raise NotSupportedError(
                f"{source.name} values cannot become {target.name}; quantize and dequantize "
                "convert between real and integer matrices"
            )
        if self._batch != "values":
            return self.convert(stride=self.stride, dtype=target, handle=handle)
        self._require_host("astype of a batch with one pattern")
        singles = [
            self._item(i).astype(target, handle=handle) for i in range(self.batch_count)
        ]
        if not singles:
            return self.with_values(np.empty((0, self.values.shape[1]), target.storage))
        stacked: AnyArray = np.stack([np.asarray(single.values) for single in singles])
        return singles[0].with_values(stacked, target)

    def _item(self: Self, index: int) -> Self:
        """One matrix of a batch with one pattern."""
        assert self.values is not None
        return self._replace(self.shape[1:], np.asarray(self.values)[index], self._dtype)

    def _dense(
        self,
        dtype: DType,
        order: str,
        handle: Handle | None,
        library: Library | None = None,
        as_mask: bool = False,
    ) -> Any:
        """A dense matrix of a library, by default NumPy or, on a GPU, this package."""
        choose(order, _native.ORDERS, "order")
        call = self._call(handle, ordered=library is None)
        made_by = call.own_library() if library is None else library
        result, out = empty_matrix(made_by, self.shape, dtype, order)
        # A library with a current stream decides on the call's stream.
        call.array(result.packed if isinstance(result, Int4Array) else result, "out", True)
        if library is not None:
            self._order(call)
        run = _native.sparse_to_mask if as_mask else _native.sparse_to_dense
        run(call.native(), self._descriptor(), out.descriptor())
        return result_of(made_by, result)

    def to_dense(self, *, order: str = "C", handle: Handle | None = None) -> Any:
        """The dense matrix; absent elements are 0.

        Returns
        -------
        numpy.ndarray, DeviceArray or Int4Array
            Of this shape and type, rows (order "C") or columns ("F") contiguous; on the matrix's
            device.

        Raises
        ------
        InvalidValueError
            If this is a pattern alone: :meth:`to_mask` shows that.
        """
        return self._dense(self._values_dtype("to_mask()"), order, handle)

    def _values_dtype(self, instead: str) -> DType:
        if self._dtype is None or self.values is None:
            raise InvalidValueError(f"the matrix is a pattern alone; {instead} shows it")
        return self._dtype

    def to_mask(self, *, order: str = "C", handle: Handle | None = None) -> Any:
        """A uint8 array of this shape and device: 1 where an element exists, 0 elsewhere."""
        return self._dense(DTYPES["uint8"], order, handle, as_mask=True)


def _on_host(values: Stored) -> AnyArray:
    return values.numpy() if isinstance(values, DeviceArray) else values
