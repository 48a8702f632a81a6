"""The functions of users: trace a function, and annotate its values from inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ShapeError, ShardingError
from spmd_grid.functions.interface import Interface, Iterator
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Annotation, ArraySpec, Operand, Operation, Program
from spmd_grid.program.trace.lines import named_lines
from spmd_grid.program.trace.naming import name_by_variables
from spmd_grid.program.trace.traced_array import TracedArray
from spmd_grid.program.trace.tracer import Tracer, current_tracer, traced_site, tracing

__all__ = ["constrain", "seen_as", "sharding_group", "trace"]


def trace(fn: Callable[..., Any], *specs: Any) -> Program:
    """The program of ``fn``, a function over numpy's calls.

    Plans only.  ``fn`` is called once, with arrays that have a shape and a dtype and no cells.  ``specs``: one
    `ArraySpec` per argument, or anything with a shape and a dtype.  The function returns an array, or a tuple or list
    of them, and numbers.  Other arguments are bound before, as by functools.partial.

    As for ShardedArrays, slices and transposes are copies: ``v = a[1:]; v += 1`` leaves ``a`` as it is, which numpy's
    views do not.  ``a[...] = b``, ``a += b`` and ``out=a`` give ``a`` new cells from there on; the arrays with which
    the program runs are never written to.  Plain arrays count with the cells that they have while the function uses
    them.  Decisions that depend on cells, and results whose shape does, are refused with the line of the function.

    Raises ImplicitGatherError, ShapeError and DTypeError.

    >>> import numpy as np, spmd_grid as sg
    >>> def layer(x, w):
    ...     return np.maximum(x @ w, 0)
    >>> program = sg.trace(layer, sg.ArraySpec((4, 8), "float32"), sg.ArraySpec((8, 2), "float32"))
    >>> [operation.name for operation in program.operations]
    ['matmul', 'maximum']
    """
    if not callable(fn):
        raise DTypeError(f"trace: fn is {fn!r}; it must be a function over numpy's calls")
    with Tracer(TracedArray) as tracer:
        arguments = [
            tracer.argument(spec.shape, spec.dtype, spec.name or name)
            for spec, name in zip(_specs(specs), _parameters(fn, specs))
        ]
        values = tuple([each.value for each in arguments])
        with named_lines():
            returned = fn(*arguments)
        returns_one = not isinstance(returned, tuple | list)
        results = tuple([_result(tracer, fn, each) for each in ((returned,) if returns_one else returned)])
    name_by_variables(tracer.operations, [each.name for each in values])
    return Program(
        _name_of(fn),
        values,
        tuple(tracer.operations),
        results,
        tuple(tracer.annotations),
        {number: tuple(group) for number, group in tracer.groups.items()},
        returns_one,
    )


def _name_of(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", type(fn).__name__)
    return "program" if name == "<lambda>" else name


def _specs(specs: Iterable[Any]) -> list[ArraySpec]:
    found = []
    for number, spec in enumerate(specs):
        if isinstance(spec, ArraySpec):
            found.append(spec)
        elif hasattr(spec, "shape") and hasattr(spec, "dtype"):
            found.append(ArraySpec(spec.shape, spec.dtype))
        else:
            raise DTypeError(f"trace: spec {number} is {spec!r}; it must be an ArraySpec, or have a shape and a dtype")
    return found


def _parameters(fn: Callable[..., Any], specs: Sequence[Any]) -> list[str]:
    """The names of the parameters that the specs are for.  Raises ShapeError where the function does not take them."""
    n = len(specs)
    try:
        found = signature(fn)
    except (TypeError, ValueError):  # some compiled functions do not say
        return [f"arg{i}" for i in range(n)]
    try:
        found.bind(*specs)
    except TypeError as error:
        raise ShapeError(
            f"trace: {n} specs are given for {_name_of(fn)}{found}: {error}; there must be one for each array, and"
            " other arguments must be bound before, as by functools.partial"
        ) from None
    in_order = [each for each in found.parameters.values() if each.kind != each.KEYWORD_ONLY]
    names = [each.name for each in in_order if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return [*names[:n], *[f"arg{i}" for i in range(len(names), n)]]


def _result(tracer: Tracer, fn: Callable[..., Any], found: Any) -> Operand:
    """A value that the function returned, as a result of the program."""
    if isinstance(found, np.ndarray) and found.ndim:
        found = tracer.constant(found)
    if not isinstance(found, TracedArray | np.ndarray | np.generic | bool | int | float | complex):
        raise DTypeError(
            f"trace: {_name_of(fn)} returns {type(found).__name__}; it must return an array, or a tuple or list of"
            " arrays and numbers"
        )
    return tracer.operand("trace", found)


def constrain(
    x: Any,
    sharding: Sharding,
    required: bool = True,
    for_users: bool = False,
    *,
    priority: int = 0,
    replicated_axes: Iterable[int | str] = (),
) -> Any:
    """Annotate ``x``, an array of the function that is being traced, with a sharding; returns the array.

    Plans only.  By default the annotation is for the value itself (the RFC's ``as_result``); with ``for_users`` for the
    array that is returned, so that other users of ``x`` may see it in another sharding.  ``required``: the sharding
    holds, or the program is refused; otherwise it is a hint.  Dimensions whose list ends with `OPEN` may get more axes.
    Annotations of a lower ``priority`` number propagate first.  ``replicated_axes``: axes that must not cut ``x``.

    In the body of a manual computation it may name axes that are free there, and cuts blocks further.  Outside of a
    traced function a ShardedArray is resharded to the sharding where that is another, and a numpy array
    is returned as it is: so the function runs unchanged on both.

    Raises ShardingError and AxisError.
    """
    if not isinstance(sharding, Sharding):
        raise ShardingError(f"constrain: sharding is {sharding!r}; it must be a Sharding")
    x = _of_program("constrain", x, sharding)
    if not isinstance(x, TracedArray):
        return _constrain_now(x, sharding)
    barred = sharding.grid.axes(tuple(replicated_axes), "replicated_axes")
    _check(x, sharding, barred)
    if for_users:
        x = seen_as(x)
    x.tracer.annotations.append(Annotation(x.value, sharding, bool(required), int(priority), barred, traced_site()))
    return x


def seen_as(x: TracedArray) -> Any:
    """One use of ``x``, as a value of its own: other uses may have another sharding."""
    dims = tuple(range(x.ndim))
    interface = Interface(tuple(map(Iterator, x.shape)), (dims,), (dims,))
    result = x.tracer.new_value(x.shape, x.dtype)
    x.tracer.operations.append(
        Operation("constrain", (x.value,), (result,), interface, _same, traced_site(), key="constrain")
    )
    return x.tracer.standing_for(result)


def _of_program(op: str, x: Any, sharding: Sharding | None) -> Any:
    """``x``; a plain array in a traced function becomes a value of the program, so that it can be annotated."""
    tracer = tracing()
    if tracer is not None:
        tracer.check_annotation(op, sharding)
    is_plain = isinstance(x, np.ndarray) and x.ndim > 0
    return tracer.constant(x) if tracer is not None and is_plain else x


def _same(block: np.ndarray) -> np.ndarray:
    return block


def _check(x: TracedArray, sharding: Sharding, barred: tuple[int, ...]) -> None:
    """Refuse a sharding that does not fit the value.  Raises ShardingError."""
    last = max(len(sharding.split_axes), *[dim + 1 for dim in sharding.open_dims], 0)
    if last > x.ndim:
        raise ShardingError(
            f"constrain: sharding {sharding} has {last} dimensions, %{x.value.name} has {x.ndim} (at {traced_site()})"
        )
    for dim in range(x.ndim):
        offsets = sharding.offsets_of(dim)
        if offsets is not None and offsets[-1] != x.shape[dim]:
            raise ShardingError(
                f"constrain: sharded_dims_offsets of dimension {dim} end at {offsets[-1]}; %{x.value.name} has extent"
                f" {x.shape[dim]} (at {traced_site()})"
            )
    used = {axis for axes in sharding.split_axes for axis in axes} | set(sharding.partial_axes)
    if used & set(barred):
        raise ShardingError(
            f"constrain: replicated_axes of %{x.value.name} is {list(barred)}, and sharding {sharding} uses"
            f" {sorted(used & set(barred))} (at {traced_site()})"
        )


def _constrain_now(x: Any, sharding: Sharding) -> Any:
    if hasattr(x, "layout") and not sharding.open_dims and x.sharding != sharding:
        return x.reshard(sharding)
    return x


def sharding_group(x: Any, id: int | str) -> Any:
    """Put ``x`` into the group ``id``: all arrays of a group, which have one shape, get one sharding; returns ``x``.

    Plans only; outside of a traced function it does nothing.  Raises ShapeError.
    """
    x = _of_program("sharding_group", x, None)
    if isinstance(x, TracedArray):
        members = current_tracer("sharding_group").groups.setdefault(id, [])
        if members and members[0].shape != x.shape:
            raise ShapeError(
                f"sharding_group: %{x.value.name} has shape {x.shape} (at {traced_site()}), and %{members[0].name} of"
                f" group {id!r} has {members[0].shape} (of {members[0].site or 'the arguments'})"
            )
        if x.value not in members:
            members.append(x.value)
    return x
