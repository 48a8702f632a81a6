"""Checks of the arrays that a halo plan is given: their number, dtypes and local shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from spmd_grid.errors import DTypeError, OutputError, ShapeError, ShardingError, SpmdError
from spmd_grid.grid.layout import Layout
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.typing import Shape

__all__ = ["Field", "FieldChecks", "LaidOut"]


class LaidOut(Protocol):
    """An array that knows its layout, as `ShardedArray` does."""

    @property
    def layout(self) -> Layout: ...

    @property
    def local(self) -> np.ndarray: ...

    def mark_dirty(self) -> None: ...

    def with_fresh_halos(self) -> LaidOut: ...

    def forget_freshness(self) -> None: ...

    def follow_exchange(self, notes: Any) -> None: ...


Field: TypeAlias = np.ndarray | LaidOut


class FieldChecks:
    """The fields that one plan accepts: arrays of ``layout``, or local arrays of ``local_shape``, one per dtype."""

    def __init__(self, layout: Layout, local_shape: Shape, dtypes: Sequence[np.dtype]):
        self._layout, self._local_shape, self._dtypes = layout, local_shape, dtypes

    def local_arrays(self, fields: Sequence[Field]) -> list[np.ndarray]:
        """The local arrays of ``fields``.

        Local; the caller passes the error on to its neighbours.  Raises ShapeError, DTypeError and OutputError.
        """
        if len(fields) != len(self._dtypes):
            raise ShapeError(f"{len(fields)} fields; the plan is for {len(self._dtypes)}")
        return [self._local_array(f, field) for f, field in enumerate(fields)]

    def _local_array(self, f: int, field: Field) -> np.ndarray:
        name = self._name_of(f)
        layout = getattr(field, "layout", None)
        if isinstance(layout, Layout):
            if layout != self._layout:
                raise ShapeError(f"{name} has layout {layout}; the plan is for {self._layout}")
            field = field.local  # type: ignore[union-attr]  # what has a layout is LaidOut
        if not isinstance(field, np.ndarray) or isinstance(field, np.ma.MaskedArray):
            raise OutputError(f"{name} is {type(field).__name__}; it must be a ShardedArray or a local numpy array")
        if field.dtype != self._dtypes[f]:
            raise DTypeError(f"{name} has dtype {field.dtype}; the plan is for {self._dtypes[f]}")
        if field.shape != self._local_shape:
            raise ShapeError(f"{name} has shape {field.shape}; the local shape is {self._local_shape}, halos included")
        if not field.flags.writeable:
            raise OutputError(f"{name} is read-only; its halo is written")
        if field.nbytes and any(stride == 0 and extent > 1 for stride, extent in zip(field.strides, field.shape)):
            raise OutputError(f"{name} has a stride of 0; each of its cells must have memory of its own")
        return field

    def error_in_loop(self, f: int, reason: int) -> SpmdError:
        """The error for field ``f`` of an update in compiled code, which refused it for ``reason``.  Local.

        With WRONG_COUNT, ``f`` is the number of fields.
        """
        name = f"{self._name_of(f)} in compiled code"
        match reason:
            case at.WRONG_COUNT:
                return ShapeError(f"{f} fields in compiled code; the plan is for {len(self._dtypes)}")
            case at.WRONG_DTYPE:
                return DTypeError(f"{name} is not of dtype {self._dtypes[f]}")
            case at.WRONG_SHAPE:
                return ShapeError(f"{name} is not of the local shape {self._local_shape}, halos included")
            case at.NOT_CONTIGUOUS:
                return OutputError(f"{name} is not C-contiguous")
            case at.READ_ONLY:
                return OutputError(f"{name} is read-only; its halo is written")
        return ShardingError("boundary has functions, which compiled code cannot call")

    def _name_of(self, f: int) -> str:
        return "the field" if len(self._dtypes) == 1 else f"field {f}"
