"""numpy's protocols and operators, as a base class of sharded arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from inspect import signature
from sys import _getframe, getrefcount
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

import spmd_grid.compute.fourier.functions
import spmd_grid.compute.functions.counting
import spmd_grid.compute.functions.finding
import spmd_grid.compute.functions.inserting
import spmd_grid.compute.functions.joining
import spmd_grid.compute.functions.padding
import spmd_grid.compute.functions.writing
import spmd_grid.compute.sorting.sets
import spmd_grid.compute.sorting.sorts
import spmd_grid.functions.composed.arrangements
import spmd_grid.functions.composed.numerics
import spmd_grid.functions.composites
import spmd_grid.functions.linear.linear_algebra
import spmd_grid.functions.reductions.averages
import spmd_grid.functions.reductions.nans
import spmd_grid.functions.reductions.positions
import spmd_grid.functions.reductions.rules
import spmd_grid.functions.shapes
import spmd_grid.functions.whole
import spmd_grid.functions.windows  # noqa: F401 - these modules register their rules
from spmd_grid.compute.alike import on_equal_layouts
from spmd_grid.compute.calls import call_alone, call_composite, call_rule
from spmd_grid.compute.course.apply import apply
from spmd_grid.compute.functions import scans
from spmd_grid.compute.indexing import selection
from spmd_grid.compute.indexing.fresh import refresh_quickly
from spmd_grid.compute.memory import ALONE, Memory
from spmd_grid.compute.operators import Operators
from spmd_grid.compute.plain_operands import compared, is_checking, note_call
from spmd_grid.compute.splits import is_sharded
from spmd_grid.compute.standard import StandardArray
from spmd_grid.compute.strict import CALM, error_state, is_strict, run_strictly
from spmd_grid.compute.temporaries import NO_SITE, SHIFT, read_site, sites
from spmd_grid.compute.views import detach, is_part
from spmd_grid.errors import DTypeError, ImplicitGatherError
from spmd_grid.functions.elementwise import elementwise
from spmd_grid.functions.methods import ArrayMethods
from spmd_grid.functions.table import Entry, entry_of, no_rule
from spmd_grid.functions.ufuncs import METHODS, REDUCTIONS, entry_of_ufunc
from spmd_grid.ops.calls.arguments import as_dtype
from spmd_grid.ops.outcome import note_failure

__all__ = ["ComputingArray"]


class ComputingArray(ArrayMethods, StandardArray, Memory, Operators):
    """The part of an array that computes by itself: operators, ufuncs, functions, slices and methods as numpy's.

    All of them are collective over the array's grid; results are new arrays.  A function without a sharding rule raises
    `ImplicitGatherError`.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    # -- numpy's protocols -----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if self._grid.process.recorder is not None and is_checking(self._grid):
            call = partial(self.__array_ufunc__, ufunc, method, *inputs, **options)
            return compared(self, ufunc.__name__, inputs, options, call)
        if error_state() is not CALM and is_strict():
            call = partial(self.__array_ufunc__, ufunc, method, *inputs, **options)
            return run_strictly(self._grid, ufunc.__name__, call)
        try:
            if method == "__call__":
                if not options:
                    result = on_equal_layouts(ufunc, self, inputs)
                elif len(options) == 1 and "out" in options:
                    result = on_equal_layouts(ufunc, self, inputs, options["out"][0])
                else:
                    result = None
                if result is None and any(map(_decides_itself, map(type, inputs))):
                    return NotImplemented
                return call_rule(self, ufunc, entry_of_ufunc(ufunc), inputs, options) if result is None else result
            if method == "reduce" and ufunc in REDUCTIONS and is_sharded(inputs[0]):
                options.setdefault("axis", 0)
                if "out" in options:
                    options["out"] = options["out"][0]
                return REDUCTIONS[ufunc](*inputs, **options)
            if method == "outer" and len(inputs) == 2 and all(map(is_sharded, inputs)):
                a, b = inputs
                return ufunc(np.expand_dims(a, tuple(range(a.ndim, a.ndim + b.ndim))), b, **options)
            if method == "accumulate" and ufunc.nin == 2 and ufunc.nout == 1:
                if "out" in options:
                    options["out"] = options["out"][0]
                run = partial(scans.accumulate, ufunc)
                return call_composite(
                    f"{ufunc.__name__}.accumulate", Entry("composite", run, signature(run)), inputs, options
                )
            raise no_rule(f"{ufunc.__name__}.{method}")
        except Exception as error:
            note_failure(self._grid, ufunc.__name__, error)
            raise

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        if self._grid.process.recorder is not None and is_checking(self._grid):
            call = partial(self.__array_function__, function, types, args, options)
            return compared(self, getattr(function, "__name__", str(function)), args, options, call)
        if len(types) > 1 and any(map(_decides_itself, types)):
            return NotImplemented
        name = getattr(function, "__name__", str(function))
        if error_state() is not CALM and is_strict():
            return run_strictly(self._grid, name, partial(self.__array_function__, function, types, args, options))
        try:
            entry = entry_of(function)
            if entry is None:
                raise no_rule(name)
            if entry.kind == "composite":
                return call_composite(name, entry, args, options)
            return call_rule(self, function, entry, args, options)
        except Exception as error:
            note_failure(self._grid, name, error)
            raise

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        raise ImplicitGatherError(
            "a ShardedArray is not a numpy array: use .local or .core for this process's cells, or .to_global() to"
            " gather all of it (collective)"
        )

    def __iter__(self) -> NoReturn:
        raise ImplicitGatherError(
            "iterating over a ShardedArray would move one row at a time: use whole-array functions, .core for this"
            " process's cells, or .to_global() to gather all of it (collective)"
        )

    def __matmul__(self, other: Any) -> Any:
        # The short way to a course that is known.
        if type(other) is type(self) and other is not self and (error_state() is CALM or not is_strict()):
            key = np.matmul, (self.layout, self.dtype), (other.layout, other.dtype), ()
            found = self.grid.functions.get(key) if other.grid is self.grid else None
            if found is not None:
                return found.run((self, other), {})
        return super().__matmul__(other)

    # -- selections ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        try:
            frame = _getframe(1)
            site = sites.get(id(frame.f_code) + (frame.f_lasti << SHIFT)) or read_site(frame)
            slices = self._slices
            if slices is not None and self._grid.process.recorder is None:
                found = slices.get(site)
                if found is not None and found._key == key and found._borrows and getrefcount(found) == ALONE:
                    if found._reads_halos:
                        if self._refreshed != self._version:
                            refresh_quickly(self)
                        found._view.version = self._twin._version
                    found._mark, found.name = id(frame) + site.mark, None
                    return found
            elif self._grid.process.recorder is not None and is_checking(self._grid):
                return compared(self, "getitem", (key,), {}, partial(selection.get, self, key))
            found = selection.get(self, key)
            if site is not NO_SITE and type(found) is type(self):
                found._mark = id(frame) + site.mark
                if site.is_constant:
                    self.keep_slice(site, key, found)
            return found
        except Exception as error:
            note_failure(self._grid, "getitem", error)
            raise

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is type(self) and value._view is not None and is_part(self, key, value):
            return  # after ``a[key] += b``, which has written it
        note_call(self._grid, _getframe(1), "setitem", key, value)
        try:
            if self._grid.process.recorder is not None and is_checking(self._grid):
                compared(self, "setitem", (key, value), {}, partial(selection.put, self, key, value))
            elif error_state() is not CALM and is_strict():
                run_strictly(self._grid, "setitem", partial(selection.put, self, key, value))
            else:
                selection.put(self, key, value)
        except Exception as error:
            note_failure(self._grid, "setitem", error)
            raise

    def flatten(self) -> Any:
        """As np.ravel, but a new array.  Collective."""
        return detach(np.ravel(self))

    # -- methods as of numpy's arrays, beside those of `ArrayMethods` ----------------------------------------------

    @property
    def T(self) -> Any:
        """The array with its dimensions reversed.  Collective."""
        return call_alone(np.transpose, self)

    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
        """The array with another element type; itself where it has that already and ``copy`` is False.  Collective."""
        dtype = np.dtype(as_dtype("astype", dtype))
        if not np.can_cast(self.dtype, dtype, casting):
            raise DTypeError(f"astype: dtype {self.dtype} cannot be cast to {dtype} by the rule {casting!r}")
        if dtype == self.dtype and not copy:
            return self
        fails = self.dtype.kind in "OSUT" and dtype.kind not in "OSUT"  # text that is no number
        application = elementwise("astype", lambda block: block.astype(dtype), self, may_fail=fails)
        if error_state() is not CALM and is_strict():
            return run_strictly(self._grid, "astype", partial(apply, application))
        try:
            return apply(application)
        except Exception as error:
            note_failure(self._grid, "astype", error)
            raise


@lru_cache(256)
def _decides_itself(kind: type) -> bool:
    """Whether objects of a class answer numpy's protocols in a way of their own, as quantities with units do."""
    return not issubclass(kind, ComputingArray) and any(
        getattr(kind, name, None) not in (None, getattr(np.ndarray, name))
        for name in ("__array_ufunc__", "__array_function__")
    )


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        if args or options or (error_state() is not CALM and is_strict()):
            return function(self, *args, **options)
        return call_alone(function, self)

    method.__name__ = name
    method.__doc__ = f"As np.{name}.  Collective."
    return method


for _name, _function in METHODS.items():
    setattr(ComputingArray, _name, _method(_name, _function))
