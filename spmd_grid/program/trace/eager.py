"""Functions whose devices agree on more than a rule can say: sorts, searches, picks by lists.

At run time they are computed as ShardedArrays compute them.  While tracing, shapes and dtypes of results are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import BoundArguments
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import ImplicitGatherError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import PARALLEL, WHOLE, IndexingMap, Interface, Iterator, shape_of
from spmd_grid.functions.linear.transforms import transform_of
from spmd_grid.functions.table import is_array
from spmd_grid.program.lowerings.eager import Eager
from spmd_grid.program.trace.keys import static_key
from spmd_grid.typing import Shape

__all__ = [
    "DATA_DEPENDENT",
    "EAGER",
    "NOT_EAGER",
    "EagerResult",
    "eagerly",
    "pick",
    "pick_by_arrays",
    "put_by_list",
    "refuse_data_dependent",
]

NOT_EAGER = object()  # what a function of `EAGER` gives for calls that a rule or a composite describes

DATA_DEPENDENT: dict[Callable[..., Any], str] = {
    **dict.fromkeys((np.nonzero, np.argwhere, np.flatnonzero), "use np.where(mask, a, other), or sums over the mask"),
    **dict.fromkeys((np.compress, np.extract), "use np.where(mask, a, other), or a plain list of bools for compress"),
    **dict.fromkeys((np.unique, np.unique_all, np.unique_counts, np.unique_inverse), "use np.sort"),
    **dict.fromkeys((np.unique_values, np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d), "use np.sort, np.isin"),
    np.bincount: "use np.histogram with edges",
}


def refuse_data_dependent(function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Refuse functions whose result has as many cells as are found.  Raises ImplicitGatherError."""
    if function is np.compress and args and not is_array(args[0]):
        return
    advice = DATA_DEPENDENT.get(function)
    if advice is not None:
        raise ImplicitGatherError(
            f"{function.__name__}: the shape of its result depends on cells, which a traced function does not have:"
            f" {advice}, or call it on what the program returns"
        )


class EagerResult(NamedTuple):
    """One result: its shape and dtype, and per dimension that of the first operand that is cut alike, if any."""

    shape: Shape
    dtype: np.dtype
    alike: tuple[int | None, ...] = ()


def eagerly(
    name: str,
    function: Callable[..., Any],
    first: Any,
    others: Sequence[Any],
    parts: Sequence[EagerResult],
    positions: int = 0,
    whole: Sequence[Any] = (),
) -> Any:
    """The results of ``function(first, *others)``, called with ShardedArrays at run time.

    The devices may hold any blocks of the operands, but those of ``whole`` as they are.  ``positions``: the number of
    positions in the order that are asked for.
    """
    operands = [first, *others]
    iterators: list[Iterator] = []
    maps: list[IndexingMap] = []
    for x in operands:
        begin = len(iterators)
        iterators += [Iterator(n, WHOLE if any(x is each for each in whole) else PARALLEL) for n in shape_of(x)]
        maps.append(tuple(range(begin, len(iterators))))
    results: list[IndexingMap] = []
    for part in parts:
        found = []
        for n, same in zip(part.shape, part.alike or (None,) * len(part.shape), strict=True):
            found.append(len(iterators) if same is None else maps[0][same])
            if same is None:
                iterators.append(Iterator(n, WHOLE))
        results.append(tuple(found))
    interface = Interface(tuple(iterators), tuple(maps), tuple(results))
    made = [(part.shape, part.dtype) for part in parts]
    tracer = next(x for x in operands if is_array(x)).tracer
    return tracer.structural(
        name, operands, made, interface, Eager(function, getattr(function, "key", None), positions)
    )


# Arguments that every process needs whole: edges, and tables that are searched.
_TABLES: dict[Callable[..., Any], tuple[str, ...]] = {
    np.histogram: ("bins",),
    np.histogram_bin_edges: ("bins",),
    np.digitize: ("bins",),
    np.searchsorted: ("a", "sorter"),
    np.interp: ("xp", "fp"),
}


class _Bound:
    """A function with all its arguments, of which some are operands that come at run time."""

    def __init__(self, function: Callable[..., Any], bound: BoundArguments, names: Sequence[str]):
        self._function, self._bound, self._names = function, bound, tuple(names)
        key = static_key(function, bound)
        self.called = function if key is not None else None
        self.key = None if key is None else (key, self._names)

    def __call__(self, *operands: Any) -> Any:
        arguments = {**self._bound.arguments, **dict(zip(self._names, operands, strict=True))}
        bound = BoundArguments(self._bound.signature, arguments)
        return self._function(*bound.args, **bound.kwargs)


def _called(
    function: Callable[..., Any], bound: BoundArguments, first: str, parts: Sequence[EagerResult], positions: int = 0
) -> Any:
    """The call at run time, of which all arrays of the program are operands."""
    names = [first, *[name for name, x in bound.arguments.items() if is_array(x) and name != first]]
    operands = [bound.arguments[name] for name in names]
    whole = [bound.arguments[name] for name in _TABLES.get(function, ()) if name in bound.arguments and name != first]
    call = _Bound(function, bound, names)
    return eagerly(function.__name__, call, operands[0], operands[1:], parts, positions, whole)


def _same_dims(x: Any) -> tuple[int, ...]:
    return tuple(range(len(x.shape)))


# -- the order of cells --------------------------------------------------------------------------------------------


def _order(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """sort and argsort of rows of cells; else the dimension is made whole, by a rule."""
    a, axis = bound.arguments["a"], bound.arguments.get("axis", -1)
    if axis is None:
        bound.arguments |= {"a": np.ravel(a), "axis": 0}
        return function(*bound.args, **bound.kwargs)
    if a.ndim != 1:
        return NOT_EAGER
    one_axis(function.__name__, axis, 1)
    dtype = a.dtype if function is np.sort else np.dtype(np.intp)
    return _called(function, bound, "a", [EagerResult(a.shape, dtype, (0,))])


def _position_in_order(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """median, quantile and percentile of all cells."""
    a, axis = bound.arguments["a"], bound.arguments.get("axis")
    if axis is not None and a.ndim != 1:
        return NOT_EAGER
    trial = BoundArguments(bound.signature, {**bound.arguments, "a": np.ones(1, a.dtype)})
    found = np.asarray(function(*trial.args, **trial.kwargs))
    shape = found.shape[:-1] + (1,) * a.ndim if bound.arguments.get("keepdims") else found.shape
    return _called(function, bound, "a", [EagerResult(shape, found.dtype)], 2 * int(found.size))


def _histogram(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """Counts in bins whose edges may be found at run time."""
    a, bins, weights = (
        bound.arguments.get(name, default) for name, default in (("a", 0), ("bins", 10), ("weights", 0))
    )
    if isinstance(bins, str) or not is_array(a):
        raise ImplicitGatherError(f"{function.__name__}: bins is {bins!r}; it must be a number of bins, or edges")
    given = np.ones(2, bins.dtype if is_array(bins) else np.asarray(bins).dtype) if np.ndim(bins) else 1
    n = np.shape(bins)[0] - 1 if np.ndim(bins) else int(bins)
    cells = np.ones(1, np.uint8 if a.dtype == bool else a.dtype)
    edges = np.histogram_bin_edges(cells, given)
    of_edges = EagerResult((n + 1,), edges.dtype)
    if function is np.histogram_bin_edges:
        return _called(function, bound, "a", [of_edges])
    weighed = np.ones(1, weights.dtype) if hasattr(weights, "dtype") else None
    counts = np.histogram(cells, given, density=bool(bound.arguments.get("density")), weights=weighed)[0]
    return _called(function, bound, "a", [EagerResult((n,), counts.dtype), of_edges])


# -- cells by lists of others --------------------------------------------------------------------------------------


def _in_list(cells: str, dtype: Callable[[BoundArguments], Any]) -> Callable[..., Any]:
    """A function of each cell of the argument ``cells`` by other arguments, if one of these is an array too."""

    def traced(function: Callable[..., Any], bound: BoundArguments) -> Any:
        x = bound.arguments[cells]
        if not any(is_array(other) for name, other in bound.arguments.items() if name != cells):
            return NOT_EAGER
        if is_array(x):
            return _called(function, bound, cells, [EagerResult(x.shape, np.dtype(dtype(bound)), _same_dims(x))])
        bound.arguments[cells] = np.asarray(x)
        first = next(name for name, other in bound.arguments.items() if is_array(other))
        return _called(function, bound, first, [EagerResult(np.shape(x), np.dtype(dtype(bound)))])

    return traced


def _dtype_of_interp(bound: BoundArguments) -> Any:
    return complex if np.dtype(getattr(bound.arguments["fp"], "dtype", float)).kind == "c" else float


def _take_along(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """take_along_axis, whose indices are checked at run time."""
    arr, indices, axis = (bound.arguments.get(name, -1) for name in ("arr", "indices", "axis"))
    if axis is None:
        return NOT_EAGER
    d = one_axis("take_along_axis", axis, len(arr.shape))
    if not is_array(arr):
        raise NotImplementedError("take_along_axis from a plain array")
    shape = np.broadcast_shapes(*[tuple([1 if i == d else n for i, n in enumerate(x.shape)]) for x in (arr, indices)])
    shape = tuple([indices.shape[d] if i == d else n for i, n in enumerate(shape)])
    alike = tuple([None if i == d or n != arr.shape[i] else i for i, n in enumerate(shape)])
    return _called(function, bound, "arr", [EagerResult(shape, arr.dtype, alike)])


def _put_along(function: Callable[..., Any], bound: BoundArguments) -> None:
    """put_along_axis: the array stands for the result from now on."""
    arr = bound.arguments["arr"]

    indices, values, axis = (bound.arguments[name] for name in ("indices", "values", "axis"))

    def written(a: Any, at: Any, new: Any) -> Any:
        a = np.copy(a)
        np.put_along_axis(a, at, new, axis)
        return a

    written.told = "put_along_axis", {"axis": axis}  # type: ignore[attr-defined]
    values = values if is_array(values) else np.asarray(values, arr.dtype)
    operands = [indices if is_array(indices) else np.asarray(indices), values]
    found = eagerly("put_along_axis", written, arr, operands, [EagerResult(arr.shape, arr.dtype, _same_dims(arr))])
    arr.value = found.value


def _repeat(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """repeat by a list of numbers; each process repeats its own cells."""
    a, repeats, axis = bound.arguments["a"], bound.arguments["repeats"], bound.arguments.get("axis")
    if is_array(repeats) or np.size(repeats) == 1:
        return NOT_EAGER
    if axis is None:
        return np.repeat(np.ravel(a), repeats, 0)
    d, times = one_axis("repeat", axis, a.ndim), np.asarray(repeats)
    if times.dtype.kind not in "iu" or times.shape != (a.shape[d],) or (times.size and times.min() < 0):
        raise ShapeError(
            f"repeat: repeats is {repeats!r}; it must be a number from 0, or one for each of {a.shape[d]} cells"
        )
    shape = tuple([int(times.sum()) if i == d else n for i, n in enumerate(a.shape)])
    return _called(function, bound, "a", [EagerResult(shape, a.dtype, _same_dims(a))])


def _transform_of_row(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """A Fourier transform of a row, which may stay cut; else the dimension is made whole, by a rule."""
    a = bound.arguments["a"]
    if a.ndim != 1 or bound.arguments.get("out_sharding") is not None:
        return NOT_EAGER
    options = bound.arguments
    transform = transform_of(function.__name__, a.shape, options.get("n"), options.get("axis", -1), options.get("norm"))
    return _called(
        function, bound, "a", [EagerResult(transform.shape_after(a.shape), transform.dtype_after(a.dtype), (0,))]
    )


EAGER: dict[Callable[..., Any], Callable[[Callable[..., Any], BoundArguments], Any]] = {
    **dict.fromkeys((np.sort, np.argsort), _order),
    **dict.fromkeys((np.median, np.quantile, np.percentile), _position_in_order),
    **dict.fromkeys((np.histogram, np.histogram_bin_edges), _histogram),
    np.digitize: _in_list("x", lambda bound: np.intp),
    np.searchsorted: _in_list("v", lambda bound: np.intp),
    np.interp: _in_list("x", _dtype_of_interp),
    np.isin: _in_list("element", lambda bound: bool),
    np.take_along_axis: _take_along,
    np.put_along_axis: _put_along,
    np.repeat: _repeat,
    **dict.fromkeys((np.fft.fft, np.fft.ifft, np.fft.rfft), _transform_of_row),
    **dict.fromkeys((np.fft.irfft, np.fft.hfft, np.fft.ihfft), _transform_of_row),
}


# -- lists of numbers ----------------------------------------------------------------------------------------------


class _At:
    """A function of arrays and one index, with a key."""

    def __init__(self, name: str, function: Callable[..., Any], key: Any, numbers: ArrayLike):
        self._function, self._index = function, key
        self.told = name, {"key": key if isinstance(key, tuple) else (key,)}
        self.key = name, repr(key), np.asarray(numbers).tobytes()

    def __call__(self, *arrays: Any) -> Any:
        return self._function(*arrays, self._index)


def pick(a: Any, axis: int, numbers: np.ndarray) -> Any:
    """The cells of ``numbers`` along dimension ``axis``."""
    key = (*[slice(None)] * axis, numbers)
    shape = tuple([len(numbers) if d == axis else n for d, n in enumerate(a.shape)])
    part = EagerResult(shape, a.dtype, _same_dims(a))
    return eagerly("take", _At("pick", lambda array, index: array[index], key, numbers), a, [], [part])


def pick_by_arrays(a: Any, keys: Sequence[Any]) -> Any:
    """``a[keys]`` of integers and arrays of the program, one for every dimension."""
    arrays = [each for each in keys if is_array(each)]
    positions = [None if is_array(each) else each for each in keys]

    def picked(array: Any, *numbers: Any) -> Any:
        given = iter(numbers)
        return array[tuple([next(given) if each is None else each for each in positions])]

    picked.told = "pick", {"key": ["array" if each is None else each for each in positions]}  # type: ignore[attr-defined]
    part = EagerResult(np.broadcast_shapes(*[each.shape for each in arrays]), a.dtype)
    return eagerly("take", picked, a, arrays, [part])


def put_by_list(a: Any, key: Any, value: Any, numbers: np.ndarray) -> Any:
    """The array after ``a[key] = value``, where the key has a list of ``numbers``."""

    def written(array: Any, new: Any, index: Any) -> Any:
        array = np.copy(array)
        array[index] = new
        return array

    value = value if is_array(value) or isinstance(value, int | float | complex | np.generic) else np.asarray(value)
    parts = [EagerResult(a.shape, a.dtype, _same_dims(a))]
    return eagerly("setitem", _At("write", written, key, numbers), a, [value], parts)
