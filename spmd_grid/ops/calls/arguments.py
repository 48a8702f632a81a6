"""Arguments that all processes know alike, checked before anything is sent; and arrays, checked where they are."""

from __future__ import annotations

from operator import index

import numpy as np

from spmd_grid.errors import AxisError, DTypeError, GridError, OutputError, ShapeError, SpmdError
from spmd_grid.grid.groups import in_group_index
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.transport.gate import Gate

__all__ = [
    "as_array",
    "as_dtype",
    "as_extents",
    "as_scalar",
    "as_scatter_axis",
    "as_tensor_axis",
    "check_grid",
    "check_output",
    "gate_of",
    "hashable",
    "root_index",
]


# What numpy may raise where it reads lists, dicts and strings as descriptions of dtypes.  No more: every process must
# raise alike, so what comes from outside (a time limit's exception) must not be taken for a wrong argument.
_NUMPYS_ERRORS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, SyntaxError, RuntimeError)


def hashable(value):
    """Lists as tuples, so that the arguments of a call can be looked up."""
    if type(value) is list:
        return tuple(value) if list not in map(type, value) else tuple(map(hashable, value))
    return tuple(value.tolist()) if type(value) is np.ndarray and value.ndim == 1 else value


def as_tensor_axis(op: str, what: str, axis) -> int:
    """A tensor axis as a non-negative int."""
    try:
        number = None if isinstance(axis, (bool, np.bool_)) else index(axis)
    except TypeError:
        number = None
    if number is None or number < 0:
        raise AxisError(f"{op}: {what}={axis!r}; a tensor axis is a whole number counted from 0, negative ones refused")
    return number


def as_scatter_axis(op: str, scatter_axis, scatter_dim) -> int:
    """The tensor axis under either of its two names."""
    if (scatter_axis is None) == (scatter_dim is None):
        raise AxisError(
            f"{op}: scatter_axis={scatter_axis!r} and scatter_dim={scatter_dim!r}; exactly one of the two names of"
            " the tensor axis must be given"
        )
    if scatter_axis is None:
        return as_tensor_axis(op, "scatter_dim", scatter_dim)
    return as_tensor_axis(op, "scatter_axis", scatter_axis)


def check_grid(op: str, grid) -> None:
    """The grid must be bound to processes, this one among them."""
    if not isinstance(grid, ProcessGrid):
        raise GridError(f"{op}: grid is {grid!r}; it must be a grid bound to processes, as init_grid makes them")
    grid.check_use(op)


def gate_of(op: str, grid) -> Gate:
    """The gate through which operations on ``grid`` go; it must be bound to processes."""
    try:
        return grid.process.gate
    except AttributeError:
        check_grid(op, grid)
        raise


def as_extents(op: str, extents, size: int) -> tuple[int, ...] | None:
    """Extents by group order, one per member."""
    if extents is None:
        return None
    try:
        numbers = tuple(index(extent) for extent in extents)
    except TypeError:
        numbers = (-1,)
    if len(numbers) != size or min(numbers) < 0:
        raise ShapeError(
            f"{op}: extents={extents!r}; it must list the extent of each of the {size} members, in group order"
        )
    return numbers


def as_dtype(op: str, dtype) -> np.dtype | None:
    """A dtype as numpy understands it."""
    try:
        return None if dtype is None else np.dtype(dtype)
    except _NUMPYS_ERRORS as error:
        raise DTypeError(f"{op}: dtype={dtype!r}; {error}") from None


def as_scalar(op: str, what: str, value, dtype: np.dtype) -> np.ndarray:
    """``value`` as a 0-d array of ``dtype``, which must be able to hold it."""
    value = value.item() if isinstance(value, np.generic) else value
    try:
        if isinstance(value, complex) and dtype.kind != "c":
            raise TypeError("it is complex")
        if isinstance(value, float) and dtype.kind in "iumM" and value != int(value):
            raise TypeError("it is no whole number")
        with np.errstate(invalid="raise", over="raise"):
            return np.full((), value, dtype)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise DTypeError(f"{op}: {what}={value!r} does not make a value of dtype {dtype}: {error}") from None


def root_index(op: str, grid, axes: tuple[int, ...], device, what: str = "root") -> int:
    """The place in the group of an in-group device."""
    return in_group_index(grid, axes, device, f"{op}: {what}")


def as_array(op: str, x) -> np.ndarray:
    """What the caller passed as an array that can be moved as bytes.  Local; the caller agrees on the error."""
    if type(x) is not np.ndarray:
        if isinstance(x, np.ma.MaskedArray):
            raise DTypeError(f"{op}: x is a masked array, whose mask would be lost; pass x.data and x.mask")
        if x is None:
            raise DTypeError(f"{op}: x is None; this process must pass an array")
        try:
            x = np.asarray(x)
        except SpmdError:
            raise
        except Exception as error:
            raise DTypeError(f"{op}: x is a {type(x).__name__} that cannot become an array: {error}") from None
    if x.dtype.hasobject:
        raise DTypeError(f"{op}: dtype {x.dtype} holds Python objects; only fixed-size dtypes can be moved")
    return x


def check_output(op: str, out, x: np.ndarray | None) -> None:
    """``out`` must be a writeable array that does not overlap ``x``.  Local; the caller agrees on the error."""
    if not isinstance(out, np.ndarray) or isinstance(out, (np.ma.MaskedArray, np.matrix)):
        raise OutputError(f"{op}: out is {type(out).__name__}; it must be a numpy array")
    if not out.flags.writeable:
        raise OutputError(f"{op}: out is read-only; it must be writeable")
    if x is not None and np.may_share_memory(x, out) and _overlap(x, out):
        raise OutputError(f"{op}: out overlaps x in memory; results never alias the input")


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True
