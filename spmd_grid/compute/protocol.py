"""numpy's protocols and operators, as a base class of sharded arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import spmd_grid.compute.joining
import spmd_grid.compute.scans
import spmd_grid.functions.composites
import spmd_grid.functions.elementwise
import spmd_grid.functions.reductions
import spmd_grid.functions.shapes
import spmd_grid.functions.whole
from spmd_grid.compute import selection
from spmd_grid.compute.alike import on_equal_layouts
from spmd_grid.compute.apply import apply
from spmd_grid.compute.contract import contract
from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import DTypeError, ImplicitGatherError
from spmd_grid.functions.contractions import matmul_rule
from spmd_grid.functions.elementwise import ufunc_rule
from spmd_grid.functions.table import entry_of

__all__ = ["ComputingArray"]

# What numpy calls the reduction by a ufunc.
_REDUCTIONS: dict[np.ufunc, Callable] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_or: np.any,
    np.logical_and: np.all,
}
_CONTRACTIONS = {np.einsum, np.tensordot}


class ComputingArray(NDArrayOperatorsMixin):
    """What numpy asks of an array that computes by itself: operators, ufuncs, functions, slices and methods.

    Collective over the array's grid, every one of them; results are new arrays.  A function without a sharding rule
    raises `ImplicitGatherError`.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    # -- numpy's protocols -----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options:
            result = on_equal_layouts(ufunc, self, inputs)
            if result is not None:
                return result
        out = options.pop("out", None)
        _check_types(ufunc.__name__, inputs)
        if method == "reduce" and ufunc in _REDUCTIONS:
            options.setdefault("axis", 0)
            return _REDUCTIONS[ufunc](*inputs, **options, **({} if out is None else {"out": out[0]}))
        if method == "outer" and len(inputs) == 2 and all(map(is_sharded, inputs)):
            a, b = inputs
            return ufunc(np.expand_dims(a, tuple(range(a.ndim, a.ndim + b.ndim))), b, **options)
        if method != "__call__":
            raise _no_rule(f"{ufunc.__name__}.{method}")
        if ufunc is np.matmul:
            return contract(matmul_rule(*inputs), _out_of(out))
        if ufunc.signature is not None:
            raise _no_rule(ufunc.__name__)
        _check_loop(ufunc, inputs, options)
        reference = inputs[0] if out is not None and out[0] is inputs[0] and is_sharded(inputs[0]) else None
        return apply(ufunc_rule(ufunc, inputs, **options), out, reference)

    def __array_function__(self, function: Callable, types: Any, args: tuple, options: dict) -> Any:
        entry = entry_of(function)
        name = getattr(function, "__name__", str(function))
        if entry is None:
            raise _no_rule(name)
        if entry.kind == "composite":
            return entry.call(*args, **options)
        out = options.pop("out", None)
        try:
            application = entry.call(*args, **options)
        except NotImplementedError as error:
            raise _no_rule(str(error)) from None
        run = contract if function in _CONTRACTIONS else apply
        return run(application, _out_of(out))

    def __array__(self, dtype=None, copy=None):
        raise ImplicitGatherError(
            "a ShardedArray is not a numpy array: use .local or .core for this process's cells, or .to_global() to"
            " gather all of it (collective)"
        )

    def __bool__(self) -> bool:
        raise ImplicitGatherError(
            "the truth value of a ShardedArray is that of all its cells: use np.all or np.any, which give a bool"
        )

    def __iter__(self):
        raise ImplicitGatherError(
            "iterating over a ShardedArray would move one row at a time: use whole-array functions, .core for this"
            " process's cells, or .to_global() to gather all of it (collective)"
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    # -- selections ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return selection.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        selection.put(self, key, value)

    # -- methods as of numpy's arrays ----------------------------------------------------------------------------

    @property
    def T(self) -> Any:
        """The array with its dimensions reversed.  Collective."""
        return np.transpose(self)

    @property
    def real(self) -> Any:
        """Real parts.  Collective."""
        return np.real(self) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        """Imaginary parts.  Collective."""
        return np.imag(self)

    @property
    def size(self) -> int:
        """Number of cells of the global array."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes per cell."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the global array, every cell counted once."""
        return self.size * self.itemsize

    def transpose(self, *axes: Any) -> Any:
        """As np.transpose.  Collective."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)) else axes or None
        return np.transpose(self, order)

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        """The array with another element type; itself where it has that already and ``copy`` is False.  Collective."""
        dtype = np.dtype(dtype)
        if not np.can_cast(self.dtype, dtype, casting):
            raise DTypeError(f"astype: dtype {self.dtype} cannot be cast to {dtype} by the rule {casting!r}")
        if dtype == self.dtype and not copy:
            return self
        application = spmd_grid.functions.elementwise.elementwise("astype", lambda block: block.astype(dtype), self)
        return apply(application)

    def copy(self) -> Any:
        """A copy without halos.  Collective."""
        return np.copy(self)

    def dot(self, b: Any) -> Any:
        """As np.dot.  Collective."""
        return np.dot(self, b)

    def conj(self) -> Any:
        """Complex conjugates.  Collective."""
        return np.conjugate(self)

    def round(self, decimals: int = 0) -> Any:
        """As np.round.  Collective."""
        return np.round(self, decimals)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """As np.clip.  Collective."""
        return np.clip(self, min, max)

    def squeeze(self, axis: Any = None) -> Any:
        """As np.squeeze.  Collective."""
        return np.squeeze(self, axis)

    def reshape(self, *shape: Any) -> Any:
        """As np.reshape in row-major order.  Collective."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape)

    def ravel(self) -> Any:
        """As np.ravel in row-major order.  Collective."""
        return np.ravel(self)

    def flatten(self) -> Any:
        """As np.ravel: results have memory of their own anyway.  Collective."""
        return np.ravel(self)

    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """As np.cumsum.  Collective."""
        return np.cumsum(self, axis, dtype)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Any:
        """As np.cumprod.  Collective."""
        return np.cumprod(self, axis, dtype)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """As np.trace.  Collective."""
        return np.trace(self, offset, axis1, axis2)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """As np.swapaxes.  Collective."""
        return np.swapaxes(self, axis1, axis2)


def _method(function: Callable) -> Callable:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return function(self, *args, **options)

    method.__name__ = (
        function.__name__.removeprefix("a") if function.__name__ in ("amax", "amin") else function.__name__
    )
    method.__doc__ = f"As np.{method.__name__}.  Collective."
    return method


for _function in (np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std, np.any, np.all, np.argmax, np.argmin):
    setattr(ComputingArray, _method(_function).__name__, _method(_function))


def _out_of(out: Any) -> tuple | None:
    return None if out is None else out if isinstance(out, tuple) else (out,)


def _no_rule(name: str) -> ImplicitGatherError:
    return ImplicitGatherError(
        f"{name} has no sharding rule: to_global() gathers the array (collective), .core has this process's cells, and"
        " spmd_grid.functions.table takes rules for functions"
    )


def _check_types(name: str, inputs: tuple) -> None:
    for each in inputs:
        if is_sharded(each) or isinstance(each, np.ndarray | np.generic | bool | int | float | complex):
            continue
        raise DTypeError(
            f"{name}: an operand is {type(each).__name__}; it must be a ShardedArray, or a number or numpy array that"
            " is equal on all processes"
        )


def _check_loop(ufunc: np.ufunc, inputs: tuple, options: dict) -> None:
    """Refuses dtypes without a loop before anything moves.  Raises DTypeError."""
    dtypes = [x.dtype if hasattr(x, "dtype") else type(x) for x in inputs]
    kinds = [each if isinstance(each, np.dtype) or each is not bool else np.dtype(bool) for each in dtypes]
    asked = options.get("dtype")
    try:
        if asked is None:
            ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    except TypeError as error:
        shown = ", ".join(str(each) if isinstance(each, np.dtype) else each.__name__ for each in dtypes)
        raise DTypeError(f"{ufunc.__name__}: operands of dtypes {shown}: {error}") from None
