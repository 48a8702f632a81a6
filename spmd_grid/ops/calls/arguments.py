"""Checks of arguments: those equal on all processes, before anything is sent, and this process's own arrays."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, TypeAlias

import numpy as np

from spmd_grid.errors import AxisError, DTypeError, GridError, OutputError, ShapeError, SpmdError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.groups import in_group_index
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.plain_arrays import check_plain
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.transport.gate import Gate
from spmd_grid.typing import GridAxes

__all__ = [
    "ReductionLike",
    "as_array",
    "as_dtype",
    "as_dtypes",
    "as_extents",
    "as_grid_axes",
    "as_scalar",
    "as_scatter_axis",
    "as_tensor_axis",
    "check_flag",
    "check_grid",
    "check_movable",
    "check_output",
    "gate_of",
    "hashable",
    "root_index",
]

# The name of a reduction, or an associative function of two arrays.
ReductionLike: TypeAlias = str | ReductionKind | Callable[[np.ndarray, np.ndarray], np.ndarray]

# Errors that numpy may raise for a wrong description of a dtype.  No others are caught: an exception that comes from
# outside (such as that of a time limit) must not be taken for a wrong argument, since every process must raise alike.
_NUMPY_ERRORS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, SyntaxError, RuntimeError)


def hashable(value: Any) -> Any:
    """Convert lists to tuples, so that the arguments of a call can be looked up; a list that holds itself stays one."""
    if type(value) is list and list in map(type, value):
        try:
            return tuple(map(_hashable, value))
        except RecursionError:
            return value
    return _hashable(value)


def _hashable(value: Any) -> Any:
    if type(value) is list:
        return tuple(value) if list not in map(type, value) else tuple(map(_hashable, value))
    return tuple(value.tolist()) if type(value) is np.ndarray and value.ndim == 1 else value


def as_grid_axes(op: str, grid: ProcessGrid, grid_axes: GridAxes | None) -> tuple[int, ...]:
    """The numbers of ``grid_axes``; None means all axes of the grid, in order."""
    return tuple(range(grid.ndim)) if grid_axes is None else grid.grid.axes(grid_axes, f"{op}: grid_axes")


def as_tensor_axis(op: str, what: str, axis: Any) -> int:
    """Convert a tensor axis to a non-negative int."""
    try:
        number = None if isinstance(axis, (bool, np.bool_)) else index(axis)
    except TypeError:
        number = None
    if number is None or number < 0:
        raise AxisError(f"{op}: {what}={axis!r}; a tensor axis is a whole number counted from 0, negative ones refused")
    return number


def as_scatter_axis(op: str, scatter_axis: Any, scatter_dim: Any) -> int:
    """The tensor axis, given under one of its two names."""
    if (scatter_axis is None) == (scatter_dim is None):
        raise AxisError(
            f"{op}: scatter_axis={scatter_axis!r} and scatter_dim={scatter_dim!r}; exactly one of the two names of"
            " the tensor axis must be given"
        )
    if scatter_axis is None:
        return as_tensor_axis(op, "scatter_dim", scatter_dim)
    return as_tensor_axis(op, "scatter_axis", scatter_axis)


def check_flag(op: str, what: str, value: object) -> None:
    """Refuse what is neither True nor False.  Local.  Raises `DTypeError`."""
    if not isinstance(value, bool | np.bool_):
        raise DTypeError(f"{op}: {what} is {value!r}; it must be True or False")


def check_grid(op: str, grid: object) -> None:
    """Refuse a grid that is not bound to processes, or not to this one."""
    if not isinstance(grid, ProcessGrid):
        raise GridError(f"{op}: grid is {grid!r}; it must be a grid bound to processes, as init_grid makes them")
    grid.check_use(op)


def gate_of(op: str, grid: ProcessGrid) -> Gate:
    """The gate that operations on ``grid`` pass; refuse a grid that is not bound to processes."""
    try:
        return grid.process.gate
    except AttributeError:
        check_grid(op, grid)
        raise


def as_extents(op: str, extents: Any, size: int) -> tuple[int, ...] | None:
    """Convert extents in group order, one per member, to ints."""
    if extents is None:
        return None
    numbers = as_ints(extents)
    if numbers is None or len(numbers) != size or min(numbers) < 0:
        raise ShapeError(
            f"{op}: extents={extents!r}; it must list the extent of each of the {size} members, in group order"
        )
    return numbers


def as_dtype(op: str, dtype: np.typing.DTypeLike | None) -> np.dtype | None:
    """Convert a description of a dtype to a dtype; None stays None."""
    try:
        return None if dtype is None else np.dtype(dtype)
    except _NUMPY_ERRORS as error:
        raise DTypeError(f"{op}: dtype={dtype!r}; {error}") from None


def as_dtypes(op: str, dtype: Any) -> tuple[bool, tuple[np.dtype, ...]]:
    """Whether ``dtype`` is a list of several, and all of them, None as float64; a list of tuples is one of fields."""
    several = isinstance(dtype, list | tuple) and not any(isinstance(entry, tuple) for entry in dtype)
    entries = dtype if several else [dtype]
    dtypes = tuple([np.dtype(np.float64) if entry is None else np.dtype(as_dtype(op, entry)) for entry in entries])
    for each in dtypes:
        check_movable(op, each)
    return several, dtypes


def check_movable(op: str, dtype: np.dtype) -> None:
    """Refuse a dtype whose elements are pointers."""
    if dtype.hasobject:
        raise DTypeError(f"{op}: dtype {dtype} holds Python objects; only fixed-size dtypes can be moved")


def as_scalar(op: str, what: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Convert ``value`` to a 0-d array of ``dtype``, which must be able to hold it."""
    value = value.item() if isinstance(value, np.generic) else value
    check_plain(op, what, value)
    try:
        if isinstance(value, complex) and dtype.kind != "c":
            raise TypeError("it is complex")
        if isinstance(value, float) and dtype.kind in "iumM" and value != int(value):
            raise TypeError("it is no whole number")
        with np.errstate(invalid="raise", over="raise"):
            return np.full((), value, dtype)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise DTypeError(f"{op}: {what}={value!r} does not make a value of dtype {dtype}: {error}") from None


def root_index(op: str, grid: ProcessGrid, axes: tuple[int, ...], device: Any, what: str = "root") -> int:
    """The member that a device is, given by its coordinates along ``axes``."""
    return in_group_index(grid.grid, axes, device, f"{op}: {what}")


def as_array(op: str, x: Any, what: str = "x") -> np.ndarray:
    """Convert ``x`` to an array that can be sent as bytes.  Local; the caller shares the error with the group."""
    if type(x) is not np.ndarray:
        check_plain(op, what, x)
        if x is None:
            raise DTypeError(f"{op}: {what} is None; this process must pass an array")
        try:
            x = np.asarray(x)
        except SpmdError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise DTypeError(f"{op}: {what} is a {type(x).__name__} that cannot become an array: {why}") from None
    check_movable(op, x.dtype)
    return x


def check_output(op: str, out: object, x: np.ndarray | None) -> None:
    """Refuse ``out`` unless it is a writeable array apart from ``x``.  Local; the caller shares the error."""
    if not isinstance(out, np.ndarray) or isinstance(out, (np.ma.MaskedArray, np.matrix)):
        raise OutputError(f"{op}: out is {type(out).__name__}; it must be a numpy array")
    if not out.flags.writeable:
        raise OutputError(f"{op}: out is read-only; it must be writeable")
    if x is not None and np.may_share_memory(x, out) and _overlap(x, out):
        raise OutputError(f"{op}: out overlaps x in memory; results never alias the input")


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # the stubs know only 0 and -1
    except np.exceptions.TooHardError:
        return True
