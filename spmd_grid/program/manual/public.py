"""manual: a part of a program that is written for single blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import AxisError, DTypeError, GridError, ShapeError, ShardingError
from spmd_grid.functions.interface import WHOLE, Interface
from spmd_grid.functions.interface import Iterator as Steps
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_slice import all_slice
from spmd_grid.program.ir import Annotation, ArraySpec
from spmd_grid.program.manual.abstract import AbstractGrid, BodyTracer, evaluate
from spmd_grid.program.manual.lowering import Body, Manual, current_body, run_body
from spmd_grid.program.manual.terms import Side, Terms, terms_of
from spmd_grid.program.partition.steps import Exchange
from spmd_grid.program.trace.lines import name_line
from spmd_grid.program.trace.public import constrain
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
) -> Callable[..., Any]:
    """The function of arrays whose blocks along ``manual_axes`` ``body`` computes, by local code.

    ``body`` gets one block per array, whole along the other, free axes, and returns the blocks of the results; both
    must not be written to.  It may use the engine's operations along the manual axes; the grid comes to a parameter
    ``grid``, or from outside.  Free axes never cut what the body gets: its code is run as it is, and what it computes
    along a dimension is known to it alone.

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
    specs = _listed_specs(out_specs, len(terms.outs))

    def computed(*xs: Any) -> Any:
        if len(xs) != len(terms.ins):
            raise ShapeError(f"manual: {len(xs)} arrays are given; there are {len(terms.ins)} in_shardings")
        traced = [x for x in xs if isinstance(x, TracedArray)]
        if traced:
            try:
                tracer = current_tracer("manual")
                if isinstance(tracer, BodyTracer):
                    return _in_traced_body(terms, xs, tracer)
                return _traced(terms, xs, tracer, specs, receives)
            except Exception as error:
                name_line(error, traced)
                raise
        outer = current_body()
        if outer is not None:
            return _one_or_all(terms, _in_body(terms, xs, outer))
        return _one_or_all(terms, _at_once(terms, xs))

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


def _traced(terms: Terms, xs: Sequence[Any], tracer: Tracer, specs: list[ArraySpec] | None, receives: int) -> Any:
    """The results as an operation of the program."""
    blocks, operands = [], []
    for x, side in zip(xs, terms.ins):
        x = x if isinstance(x, TracedArray) else tracer.constant(np.asarray(x))
        blocks.append((side.local_shape(x.shape), x.dtype))
        operands.append(constrain(x, side.sharding, for_users=True, replicated_axes=side.replicated_axes))
    exchanges: list[Exchange]
    if specs is None:
        made, exchanges = evaluate(terms, blocks, terms.manual_axes)
        parts = [(side.global_shape(shape), dtype) for side, (shape, dtype) in zip(terms.outs, made)]
    else:
        parts = [(each.shape, each.dtype) for each in specs]
        for side, (shape, _) in zip(terms.outs, parts):
            side.block_shape(shape)
        exchanges = [("manual", terms.manual_axes, receives)] if receives else []
    iterators: list[Steps] = []
    maps = []
    for shape in [*[x.shape for x in operands], *[shape for shape, _ in parts]]:
        maps.append(tuple(range(len(iterators), len(iterators) + len(shape))))
        iterators += [Steps(n, WHOLE) for n in shape]
    interface = Interface(tuple(iterators), tuple(maps[: len(xs)]), tuple(maps[len(xs) :]))
    found = tracer.structural("manual", operands, parts, interface, Manual(terms, tuple(exchanges)))
    results = found if isinstance(found, tuple) else (found,)
    for x, side in zip(results, terms.outs):
        annotation = Annotation(
            x.value, side.sharding, True, 0, side.replicated_axes, traced_site(), f"{side.name} of manual"
        )
        tracer.annotations.append(annotation)
    return _one_or_all(terms, results)


def _in_traced_body(terms: Terms, xs: Sequence[Any], tracer: BodyTracer) -> Any:
    """The results inside of another body that is being followed: blocks of the outer, global for the inner."""
    _check_nesting(terms, tracer.grid, tracer.manual_axes)
    blocks = [(side.block_shape(x.shape), x.dtype) for x, side in zip(xs, terms.ins)]
    made, exchanges = evaluate(terms, blocks, tuple(sorted({*tracer.manual_axes, *terms.manual_axes})))
    tracer.exchanges += exchanges
    results = []
    for side, (shape, dtype) in zip(terms.outs, made):
        inner = BodyTracer(tracer.grid, terms.manual_axes)
        x = _gathered(side, inner.wrapped(shape, dtype), AbstractGrid(inner))
        tracer.exchanges += inner.exchanges
        results.append(tracer.wrapped(x.shape, x.dtype))
    return _one_or_all(terms, results)


# -- on blocks and on sharded arrays -------------------------------------------------------------------------------


def _check_nesting(terms: Terms, grid: Any, outer: tuple[int, ...]) -> None:
    """Refuse nested manual computations without manual axes of their own, or with halos."""
    if terms.grid != grid:
        raise GridError(f"manual: {terms.name} is on {terms.grid}, inside of a body on {grid}; both must be one grid")
    for side in terms.ins:
        if side.along.halo_sizes:
            raise ShardingError(f"manual: {side.name} of {terms.name} has halos, which blocks of another body do not")
    shared = [axis for axis in terms.manual_axes if axis in outer]
    used = {
        axis
        for side in (*terms.ins, *terms.outs)
        for axis in (*side.sharding.partial_axes, *[axis for cut in side.sharding.split_axes for axis in cut])
    }
    shared += [axis for axis in outer if axis in used and axis not in shared]
    if shared:
        raise AxisError(
            f"manual: {terms.name} uses axes {sorted(shared)}, which are manual in the body around it, of axes"
            f" {list(outer)}; nested computations have manual axes of their own"
        )


def _in_body(terms: Terms, xs: Sequence[Any], outer: Body) -> list[Any]:
    """The results inside of another body that is running.  Collective over the inner manual axes."""
    _check_nesting(terms, outer.grid.grid, outer.axes)
    blocks = []
    for x, side in zip(xs, terms.ins):
        block = np.asarray(x)
        side.block_shape(block.shape)
        for d, axes in enumerate(side.along.split_axes):
            block = all_slice(block, outer.grid, axes, d) if axes else block
        blocks.append(block)
    found = run_body(terms, blocks, outer.grid)
    return [_gathered(side, block, outer.grid) for side, block in zip(terms.outs, found)]


def _gathered(side: Side, block: Any, grid: Any) -> Any:
    """The array whose blocks along manual axes are these: minor axes are gathered first."""
    partial_axes = side.along.partial_axes
    if partial_axes:
        block = all_reduce(block, grid, partial_axes, side.along.partial_kind)
    for d, axes in enumerate(side.along.split_axes):
        block = all_gather(block, grid, axes, d) if axes else block
    return block


def _at_once(terms: Terms, xs: Sequence[Any]) -> list[Any]:
    """The results on ShardedArrays.  Collective over the grid."""
    for number, x in enumerate(xs):
        if not is_sharded(x):
            raise DTypeError(
                f"manual: array {number} is {type(x).__name__}; it must be a ShardedArray, or an array of a traced"
                " function or of a body"
            )
        if x.grid.grid != terms.grid:
            raise GridError(f"manual: array {number} is on {x.grid.grid}; the shardings are on {terms.grid}")
    grid = xs[0].grid
    for x, side in zip(xs, terms.ins):
        side.block_shape(x.shape)
    blocks = [(x if x.sharding == side.along else x.reshard(side.along)).local for x, side in zip(xs, terms.ins)]
    made = []
    for block, side in zip(run_body(terms, blocks, grid), terms.outs, strict=True):
        layout = Layout(side.along, side.global_shape(block.shape))
        copy = np.array(block, order="C")  # the body may return its own block, or a part of it
        made.append(ShardedArray(copy, layout, grid))
    closed = [replace(side.sharding, open_dims=()) for side in terms.outs]
    return [x if x.sharding == wanted else x.reshard(wanted) for x, wanted in zip(made, closed)]
