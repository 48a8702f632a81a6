"""manual: a part of a program that is written for single blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ShapeError, ShardingError
from spmd_grid.functions.interface import WHOLE, Interface
from spmd_grid.functions.interface import Iterator as Steps
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Annotation, ArraySpec
from spmd_grid.program.manual.abstract import AbstractGrid, BodyTracer, Followed, follow
from spmd_grid.program.manual.at_once import at_once, check_nesting, gathered, in_body
from spmd_grid.program.manual.crossing import enter, leave
from spmd_grid.program.manual.lifting import Blocks, lift
from spmd_grid.program.manual.lowering import Manual, current_body
from spmd_grid.program.manual.terms import Side, Terms, terms_of
from spmd_grid.program.partition.steps import Exchange
from spmd_grid.program.trace.lines import name_line
from spmd_grid.program.trace.public import seen_as
from spmd_grid.program.trace.traced_array import TracedArray
from spmd_grid.program.trace.tracer import Tracer, current_tracer, traced_site
from spmd_grid.typing import GridAxes

__all__ = ["manual"]

Shardings = Sharding | Sequence[Sharding | tuple[Sharding, Iterable[int | str]]]


def manual(
    body: Callable[..., Any],
    in_shardings: Shardings,
    out_shardings: Shardings,
    manual_axes: GridAxes,
    *,
    out_specs: Sequence[Any] | Any = None,
    receives: int = 0,
    free: str = "cut",
) -> Callable[..., Any]:
    """The function of arrays whose blocks along ``manual_axes`` ``body`` computes, by local code.

    ``body`` gets one block per array, whole along the other, free axes, and returns the blocks of the results; both
    must not be written to.  It may use the engine's operations along the manual axes; the grid comes to a parameter
    ``grid``, or from outside.

    In a traced function the body's own operations become operations of the program, and free axes may cut them further,
    as propagation finds; then the body is not called again.  It runs as it is, on blocks that are whole along free
    axes, if it asks where it runs (by its coordinates, or by a ProcessGrid from outside), where devices go different
    ways, as after a gather, where it has ``out_specs``, with ``free="whole"``, and on sharded arrays.

    ``in_shardings``, ``out_shardings``: how the arrays around it are sharded; where there is one result,
    ``out_shardings`` may be a Sharding alone. Each manual axis cuts a dimension evenly, is partial, or is explicitly
    replicated: because the sharding is closed and leaves it out, or by a pair (sharding, axes). Free axes stand
    after manual ones. ``manual_axes``: in the order of the grid.

    Inside a traced function the result is an operation of the program, and the shardings are requirements.  Plans
    only: the body is called once with blocks that have no cells, by which the shapes of its results are found, and its
    communications: all collectives, started ones too, and update_halo, where the grid is a parameter.  After a gather
    or a reduce it is followed as on the root.  A body that reads cells, as one that calls compiled code, or that sends
    messages to single devices, needs ``out_specs``, the global results
    (`ArraySpec`); ``receives`` is then the number of bytes that a process receives, for reports.  Called on
    ShardedArrays, it runs at once; inside of another body, on blocks, if it has other manual axes.  Collective over
    the grid.

    Raises GridError, AxisError, ShardingError, ShapeError, DTypeError and ImplicitGatherError.

    >>> import numpy as np, spmd_grid as sg
    >>> s = sg.Sharding(sg.Grid((2,), axis_names=["x"]), [["x"]])
    >>> def neighbours(block, grid):
    ...     return block + sg.shift(block, grid, ["x"], "x", 1, rotate=True)
    >>> def step(a):
    ...     return 10 * sg.manual(neighbours, [s], s, ["x"])(a)
    >>> part = sg.partition(sg.trace(step, sg.ArraySpec((4,))), s.grid)
    >>> part.collectives()
    [Collective(name='shift', grid_axes=(0,), bytes=16)]
    >>> def run():
    ...     grid = sg.init_grid((2,), axis_names=["x"])
    ...     return part.run(grid, sg.from_global(np.arange(4.0), s, grid)).to_global().tolist()
    >>> sg.run_spmd(run, ranks=2)[0]
    [20.0, 40.0, 20.0, 40.0]
    """
    terms = terms_of(body, in_shardings, out_shardings, manual_axes)
    if free not in ("cut", "whole"):
        raise ShardingError(f"manual: free is {free!r}; it must be 'cut' or 'whole'")
    specs = _listed_specs(out_specs, len(terms.outs))

    def computed(*xs: Any) -> Any:
        if len(xs) != len(terms.ins):
            raise ShapeError(f"manual: {len(xs)} arrays are given; there are {len(terms.ins)} in_shardings")
        traced = [x for x in xs if isinstance(x, TracedArray)]
        if traced:
            try:
                tracer = current_tracer("manual")
                if isinstance(tracer, BodyTracer):
                    return _in_traced_body(terms, xs, tracer, free)
                return _traced(terms, xs, tracer, specs, receives, free)
            except Exception as error:
                name_line(error, traced)
                raise
        outer = current_body()
        if outer is not None:
            return _one_or_all(terms, in_body(terms, xs, outer))
        return _one_or_all(terms, at_once(terms, xs))

    return computed


def _one_or_all(terms: Terms, found: Sequence[Any]) -> Any:
    return found[0] if terms.returns_one else tuple(found)


def _listed_specs(specs: Any, n: int) -> list[ArraySpec] | None:
    if specs is None:
        return None
    found = list(specs) if isinstance(specs, list | tuple) else [specs]
    if len(found) != n or not all(hasattr(each, "shape") and hasattr(each, "dtype") for each in found):
        raise DTypeError(f"manual: out_specs is {specs!r}; it must have an ArraySpec for each of {n} out_shardings")
    return [ArraySpec(each.shape, each.dtype) for each in found]


# -- in a traced function ------------------------------------------------------------------------------------------


def _traced(
    terms: Terms, xs: Sequence[Any], tracer: Tracer, specs: list[ArraySpec] | None, receives: int, free: str
) -> Any:
    """The results as operations of the program: the body's own, or one for all of it."""
    operands = _annotated(terms, xs, tracer)
    body = None
    if specs is None:
        blocks = [(side.local_shape(x.shape), x.dtype) for x, side in zip(xs, terms.ins)]
        body = follow(terms, blocks, terms.manual_axes)
    has_free_axes = _has_free_axes(terms, ())
    if body is not None and free == "cut" and has_free_axes and not body.tracer.whole_because:
        results = _lifted(terms, operands, body, tracer)
    else:
        if body is not None and has_free_axes:
            _check_whole(terms, body, body.tracer.whole_because or "free='whole'")
        results = _opaque(terms, operands, tracer, body, specs, receives)
    for x, side in zip(results, terms.outs):
        tracer.annotations.append(_annotation(x, side))
    return _one_or_all(terms, results)


def _check_whole(terms: Terms, body: Followed, reason: str) -> None:
    """Refuse requirements inside of a body that runs as it is."""
    for each in body.tracer.annotations:
        if each.required and each.origin == "constrain":
            raise ShardingError(
                f"manual: {each} is required inside of {terms.name}, which runs on blocks that no free axis cuts:"
                f" {reason}"
            )


def _annotated(terms: Terms, xs: Sequence[Any], tracer: Tracer) -> list[Any]:
    """The operands: values of their own, of which each has the sharding that the computation requires."""
    found = []
    for x, side in zip(xs, terms.ins):
        x = x if isinstance(x, TracedArray) else tracer.constant(np.asarray(x))
        side.local_shape(x.shape)  # refused here where it does not fit
        found.append(seen_as(x))
        tracer.annotations.append(_annotation(found[-1], side))
    return found


def _annotation(x: TracedArray, side: Side) -> Annotation:
    site, origin = traced_site(), f"{side.name} of manual"
    return Annotation(x.value, side.sharding, True, 0, side.replicated_axes, site, origin)


def _has_free_axes(terms: Terms, outer: Sequence[int]) -> bool:
    """Whether the grid has axes of several devices that no body around the blocks uses as manual ones."""
    shape = terms.grid.shape
    return any(n > 1 for axis, n in enumerate(shape) if axis not in terms.manual_axes and axis not in outer)


def _lifted(terms: Terms, xs: Sequence[Any], body: Followed, tracer: Tracer) -> list[Any]:
    """The body's operations as those of the program, cut by free axes as any others."""
    blocks = Blocks(terms.grid, terms.manual_axes)
    known = {
        value: enter(tracer, x, side, blocks).value
        for value, x, side in zip(body.arguments, xs, terms.ins, strict=True)
    }
    lift(tracer, blocks, known, body.tracer.operations, body.tracer.annotations)
    return [leave(tracer, tracer.standing_for(known[x]), side, blocks) for x, side in zip(body.results, terms.outs)]


def _opaque(
    terms: Terms,
    xs: Sequence[Any],
    tracer: Tracer,
    body: Followed | None,
    specs: list[ArraySpec] | None,
    receives: int,
) -> list[Any]:
    """One operation that calls the body, on blocks that are whole along free axes."""
    exchanges: list[Exchange]
    if body is not None:
        exchanges = body.exchanges
        parts = [(side.global_shape(shape), dtype) for side, (shape, dtype) in zip(terms.outs, body.parts)]
    else:
        assert specs is not None  # else the body has been followed
        parts = [(each.shape, each.dtype) for each in specs]
        for side, (shape, _) in zip(terms.outs, parts):
            side.block_shape(shape)
        exchanges = [("manual", terms.manual_axes, receives)] if receives else []
    iterators: list[Steps] = []
    maps = []
    for shape in [*[x.shape for x in xs], *[shape for shape, _ in parts]]:
        maps.append(tuple(range(len(iterators), len(iterators) + len(shape))))
        iterators += [Steps(n, WHOLE) for n in shape]
    interface = Interface(tuple(iterators), tuple(maps[: len(xs)]), tuple(maps[len(xs) :]))
    found = tracer.structural("manual", xs, parts, interface, Manual(terms, tuple(exchanges)))
    return list(found) if isinstance(found, tuple) else [found]


def _in_traced_body(terms: Terms, xs: Sequence[Any], tracer: BodyTracer, free: str) -> Any:
    """The results inside of another body that is being followed: blocks of the outer, global for the inner."""
    check_nesting(terms, tracer.grid, tracer.manual_axes)
    operands = _annotated(terms, xs, tracer)
    blocks = [(side.block_shape(x.shape), x.dtype) for x, side in zip(operands, terms.ins)]
    body = follow(terms, blocks, tuple(sorted({*tracer.manual_axes, *terms.manual_axes})))
    tracer.exchanges += body.exchanges
    reason = body.tracer.whole_because
    if free == "whole" and _has_free_axes(terms, tracer.manual_axes):
        reason = reason or f"free='whole' is asked for {terms.name}"
    results = []
    for side, (shape, dtype) in zip(terms.outs, body.parts):  # the exchanges where the outer body runs as it is
        inner = BodyTracer(tracer.grid, terms.manual_axes)
        x = gathered(side, inner.wrapped(shape, dtype), AbstractGrid(inner))
        tracer.exchanges += inner.exchanges
        results.append((x.shape, x.dtype))
    if reason:
        _check_whole(terms, body, reason)
        tracer.needs_whole(reason)
        return _one_or_all(terms, [tracer.wrapped(*each) for each in results])
    found = _lifted(terms, operands, body, tracer)
    tracer.annotations += [_annotation(x, side) for x, side in zip(found, terms.outs)]
    return _one_or_all(terms, found)
