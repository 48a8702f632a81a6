"""The array that a traced function sees: a shape and a dtype, and numpy's protocols that write operations down."""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from types import EllipsisType
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

import spmd_grid.compute.protocol  # noqa: F401 - its imports fill the table of rules
from spmd_grid.errors import DTypeError, ImplicitGatherError, OutputError
from spmd_grid.functions.elementwise import Cast, elementwise
from spmd_grid.functions.interface import Application
from spmd_grid.functions.methods import ArrayMethods
from spmd_grid.functions.table import Entry, entry_of, no_rule
from spmd_grid.functions.ufuncs import METHODS, REDUCTIONS, entry_of_ufunc
from spmd_grid.functions.ways import READ_ONLY, VIEWS, OneWay, Sliced, read_only, read_only_way
from spmd_grid.program.ir import Value
from spmd_grid.program.trace import structure
from spmd_grid.program.trace.eager import EAGER, NOT_EAGER, refuse_data_dependent
from spmd_grid.program.trace.keys import static_key
from spmd_grid.program.trace.lines import at_line
from spmd_grid.program.trace.tracer import Tracer, traced_site
from spmd_grid.typing import Shape

__all__ = ["TracedArray"]


class TracedArray(ArrayMethods, NDArrayOperatorsMixin):
    """Stands for a value of the program that is being traced.

    Functions of numpy on it are written down as operations.  It has no cells: what depends on them is refused.
    """

    __slots__ = ("_shown", "_source", "_value", "_way", "tracer")
    __hash__ = object.__hash__
    sharding = None  # it is known after propagation; rules tell arrays from numbers by this attribute

    def __init__(self, tracer: Tracer, value: Value):
        self.tracer = tracer
        self._value = value
        self._source: TracedArray | None = None  # of a view, with the value of it that it shows, and the way from there
        self._shown: Value | None = None
        self._way: Any = None

    @property
    def value(self) -> Value:
        """The value that it stands for; a view is read anew after its source was written."""
        source = self._source
        if source is not None and source.value is not self._shown:
            self._value, self._shown = self._way.read(source)._value, source.value
        return self._value

    @value.setter
    def value(self, value: Value) -> None:
        source = self._source
        self._value = value
        if source is not None:
            if isinstance(self._way, OneWay):
                raise OutputError(read_only("write"))
            self._source = None
            self._way.write(source, self)
            self._source, self._shown = source, source.value

    def _as_view(self, source: TracedArray, way: Any) -> TracedArray:
        if source.value is not self._value:  # else it is the array itself
            self._source, self._shown, self._way = source, source.value, way
        return self

    @property
    def shape(self) -> Shape:
        """The global shape."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.value.ndim

    def __repr__(self) -> str:
        return f"<TracedArray {self.value!r}>"

    # -- numpy's protocols -----------------------------------------------------------------------------------------

    @at_line
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if method == "__call__":
            entry = entry_of_ufunc(ufunc)
            masked = {"out": out} if out is not None and "where" in options else {}  # cells outside the mask stay
            result = self._call(ufunc, entry, entry.bind(ufunc.__name__, inputs, {**options, **masked}))
        elif method == "reduce" and ufunc in REDUCTIONS:
            options.setdefault("axis", 0)
            result = REDUCTIONS[ufunc](*inputs, **options)
        elif method == "outer" and len(inputs) == 2:
            a, b = inputs
            result = ufunc(np.expand_dims(a, tuple(range(a.ndim, a.ndim + b.ndim))), b, **options)
        elif method == "accumulate":
            result = structure.accumulate(ufunc, *inputs, **options)
        else:
            raise no_rule(f"{ufunc.__name__}.{method}")
        return result if out is None else self._into(ufunc.__name__, result, out)

    @at_line
    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        entry = entry_of(function)
        name = getattr(function, "__name__", str(function))
        refuse_data_dependent(function, args)
        if entry is None:
            raise no_rule(name)
        bound = entry.bind(name, args, options)
        out = bound.arguments.get("out")
        if entry.kind == "composite":
            bound.arguments.pop("out", None)
        result = self._call(function, entry, bound)
        return result if out is None else self._into(name, result, out if isinstance(out, tuple) else (out,))

    def _call(self, function: Callable[..., Any], entry: Entry, bound: BoundArguments) -> Any:
        try:
            if function in EAGER:
                found = EAGER[function](function, bound)
                if found is not NOT_EAGER:
                    return found
            found = structure.TRACED.get(function, entry.call)(*bound.args, **bound.kwargs)
        except NotImplementedError as error:
            raise no_rule(str(error)) from None
        if isinstance(found, Application):
            result = self.tracer.apply(found, static_key(function, bound), function)
            return result if found.way is None else result._as_view(found.operands[0], found.way)
        found = found if function.__name__ in VIEWS else _without_source(found, bound.args)
        if function.__name__ in READ_ONLY and bound.args[0].ndim > 1:
            return found._as_view(bound.args[0], read_only_way(entry, bound))
        return found

    def _into(self, name: str, result: Any, out: tuple[Any, ...]) -> Any:
        """The arrays ``out``, standing for the ``result`` from now on."""
        results = result if isinstance(result, tuple) else (result,)
        for target, found in zip(out, results):
            if not isinstance(target, TracedArray) or target.shape != found.shape:
                raise DTypeError(f"{name}: out must be an array of the traced function, of shape {found.shape}")
            if not np.can_cast(found.dtype, target.dtype, "same_kind"):
                raise DTypeError(
                    f"{name}: out has dtype {target.dtype}; the result's {found.dtype} cannot be cast to it"
                )
            target.value = found.astype(target.dtype, copy=False).value
        return out[0] if len(out) == 1 else out

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        raise self._unknown("its cells are asked for")

    def __bool__(self) -> NoReturn:
        raise self._unknown("a decision depends on its cells")

    def __int__(self) -> NoReturn:
        raise self._unknown("it is turned into a number")

    __float__ = __complex__ = __index__ = __int__

    def item(self, *args: Any) -> NoReturn:
        """Refused."""
        raise self._unknown("it is turned into a number")

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    def _unknown(self, reason: str) -> ImplicitGatherError:
        return ImplicitGatherError(
            f"trace: {self.value!r} of {self.value.site or 'the arguments'} has no cells while the function is traced,"
            f" and {reason} at {traced_site()}: use np.where for a choice by cells, plain numbers for loops and shapes"
        )

    # -- selections and methods ------------------------------------------------------------------------------------

    @at_line
    def __getitem__(self, key: Any) -> Any:
        found = structure.get(self, key)
        is_slice = all(each is None or isinstance(each, int | slice | EllipsisType) for each in _parts(key))
        return found._as_view(self, Sliced(key)) if is_slice else found

    @at_line
    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, TracedArray) and value._source is self and value._shown is self.value:
            if isinstance(value._way, Sliced) and value._way.has_key(key):
                return  # after ``a[key] += b``, which has written it
        self.value = structure.put(self, key, value).value

    @at_line
    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
        """The array with another element type; itself where it has that already and ``copy`` is False."""
        dtype = np.dtype(dtype)
        if not np.can_cast(self.dtype, dtype, casting):
            raise DTypeError(f"astype: dtype {self.dtype} cannot be cast to {dtype} by the rule {casting!r}")
        if dtype == self.dtype and not copy:
            return self
        return self.tracer.apply(elementwise("astype", Cast(dtype), self), ("astype", dtype))


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _without_source(result: Any, args: tuple[Any, ...]) -> Any:
    """The result of a function that gives new arrays."""
    for each in result if isinstance(result, tuple | list) else (result,):
        if isinstance(each, TracedArray) and all(each is not x for x in args):
            each._source = None
    return result


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return function(self, *args, **options)

    method.__name__ = name
    method.__doc__ = f"As np.{name}."
    return method


for _name, _function in METHODS.items():
    setattr(TracedArray, _name, _method(_name, _function))
