"""The basis of reshardings: the named steps that make sense on the way from a layout to another.

    all_slice        free axes, appended to a dimension's list
    reduce_scatter   partial axes, likewise
    all_to_all       the last axes of one dimension, appended to another's list
    swap             axes to other positions, or free ones in place of others: boxes within their groups
    all_gather       the last axes of a dimension, removed
    all_reduce       partial axes, reduced
    mark_partial     free axes, become partial: coordinate 0 keeps the value, the others get the identity
    exchange         all the rest: offsets, halos, other block rules, other grids

Each detector below looks at a `Waypoint` and yields the steps it finds, in a fixed order; the waypoint knows to which
layout each of them leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile

from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.planner.steps import Step
from spmd_grid.reshard.planner.waypoint import Axes, Waypoint

__all__ = ["DETECTORS", "successors"]


def slices_home(way: Waypoint) -> Iterator[Step]:
    """Append free and owed axes that come next in a dimension's list."""
    for dim in way.dims:
        yield from way.append(dim, way.next(dim))


def slices_along(way: Waypoint) -> Iterator[Step]:
    """Append free and owed axes after others that move next: they move along, and fewer bytes have to move."""
    for split, concat, n in _ready(way):
        yield from way.append(concat, way.next(split)[n:])


def moves_home(way: Waypoint) -> Iterator[Step]:
    """Move the last axes of one dimension to another, whose list has to go on with them.

    Axes that would take three moves in their order take one in another order, and a swap.
    """
    for split, concat, n in _ready(way):
        positions = [way.want[split].index(axis) for axis in _last(way, concat, split)]
        runs = 1 + sum(1 for before, after in zip(positions, positions[1:]) if after < before)
        yield way.all_to_all(split, concat, n if runs < 3 else len(positions))


def slices_ahead(way: Waypoint) -> Iterator[Step]:
    """Append free and owed axes of a dimension that has to be swapped, once it has its other axes."""
    for dim in way.dims:
        rest, missing = way.rest[dim], [axis for axis in way.missing[dim] if axis not in way.rest[dim]]
        replaced = sum(map(way.is_homeless, rest))  # the swap puts the same number of axes in place of these
        is_swapped = len(way.leavers(dim)) < len(rest) or replaced == len(rest)
        if rest and is_swapped and all(axis in way.free or axis in way.owed for axis in missing):
            yield from way.append(dim, missing[replaced:])


def moves_ahead(way: Waypoint) -> Iterator[Step]:
    """Move the last axes of one dimension to another, which has to be swapped and keeps all its axes."""
    for split in way.dims:
        for concat in way.dims:
            last = _last(way, concat, split)
            if last and not way.leavers(split) and (way.rest[split] or way.next(split)[0] in last):
                yield way.all_to_all(split, concat, len(last))


def swaps(way: Waypoint) -> Iterator[Step]:
    """Swap axes to the front that belong there, or free ones in place of homeless ones, in all dimensions at once."""
    lists = {}
    for dim in way.dims:
        front, rest = [], list(way.rest[dim])
        homeless = [axis for axis in rest if way.is_homeless(axis)]
        for axis in way.missing[dim]:
            if axis not in rest:
                if axis not in way.free or not homeless:
                    break
                rest.remove(homeless.pop())
            front.append(axis)
        if front and (way.leavers(dim) or len(front) == len(way.missing[dim])):
            back = [axis for axis in rest if axis not in front]
            lists[dim] = (*way.placed[dim], *front, *_lined_up(way, dim, back))
    if lists:
        yield way.swap(lists)


def all_reduces(way: Waypoint) -> Iterator[Step]:
    """Reduce along all owed axes at once."""
    if way.owed:
        yield way.all_reduce(way.owed)


def releases(way: Waypoint) -> Iterator[Step]:
    """Remove axes that are in the way; first those after which others can move.

    Homeless axes are gathered before axes that belong elsewhere; among the latter, the right ones may be swapped to the
    end of their list instead.
    """
    homeless, swapped, gathered = [], [], []
    for dim in way.dims:
        n = sum(1 for _ in takewhile(way.is_homeless, reversed(way.rest[dim])))
        if n:
            homeless.append(way.all_gather(dim, n))
    for dim in reversed(way.dims):
        rest, leavers = way.rest[dim], way.leavers(dim)
        if all(map(way.is_homeless, leavers)):
            continue
        lined_up = _lined_up(way, dim, rest)
        if lined_up != rest:
            swapped.append(way.swap({dim: (*way.placed[dim], *lined_up)}))
        least = len(rest) - max(map(rest.index, leavers))  # without a leaver among them, nothing is gained
        gathered += [way.all_gather(dim, n) for n in range(least, len(rest) + 1)]
    onward = []
    for step in (*homeless, *swapped, *gathered):
        if _goes_on(Waypoint(step.target, way.target)):
            onward.append(step)
            yield step
    yield from (step for step in (*homeless, *gathered) if step not in onward)


def marks(way: Waypoint) -> Iterator[Step]:
    """Make axes partial that have to be, once all of them are free and nothing else has to be reduced."""
    if way.unmarked and not way.owed and way.free.issuperset(way.unmarked):
        yield way.mark_partial(way.unmarked)


_ONWARD = slices_home, slices_along, moves_home, slices_ahead, moves_ahead, swaps
# In the order in which a chain asks them.
DETECTORS = *_ONWARD, all_reduces, releases, marks


def _ready(way: Waypoint) -> Iterator[tuple[int, int, int]]:
    """``(split, concat, n)``: dimension ``split`` has to go on with the last n axes of ``concat``, n being the most."""
    for concat in way.dims:
        for split in way.dims:
            rest, wanted = way.rest[concat], way.next(split)
            for n in range(min(len(rest), len(wanted)), 0, -1):
                if rest[-n:] == wanted[:n]:
                    yield split, concat, n
                    break


def _last(way: Waypoint, concat: int, split: int) -> Axes:
    """The last axes of one dimension that belong to another, in any order."""
    axes = tuple(takewhile(lambda axis: way.home.get(axis) == split, reversed(way.rest[concat])))
    return axes[::-1] if split != concat else ()


def _lined_up(way: Waypoint, dim: int, axes: Sequence[int]) -> Axes:
    """Axes of a dimension's rest in the order in which they stay: those that can move to their dimension now, last."""

    def turn(axis: int) -> tuple[int, int, int]:
        home = way.home.get(axis)
        if home is None or home == dim:
            return int(home is None), 0, 0
        return 2 + (axis in way.next(home)), home, way.want[home].index(axis)

    return tuple(sorted(axes, key=turn))


def _goes_on(way: Waypoint) -> bool:
    """Whether any axis can move to its dimension or its position."""
    return any(True for detector in _ONWARD for _ in detector(way))


# -- for a search ------------------------------------------------------------------------------------------------------


def successors(layout: Layout, target: Layout) -> list[Step]:
    """The single steps from ``layout`` that make sense on the way to ``target``, each once, in a fixed order.

    Plans only.  Not many more than the number of grid axes times that of tensor dimensions; no step removes an axis
    that is placed.  The last is the exchange that does everything, where there is one.  Empty where nothing has to be
    done.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> rows, columns = (Layout(Sharding(Grid((2, 3)), split), (6, 6)) for split in ([[0], [1]], [[1], [0]]))
    >>> for step in successors(rows, columns): print(step)
    all_gather over [1], on 1: [[0],[1]] on 2x3 -> [[0]] on 2x3
    all_gather over [0], on 0: [[0],[1]] on 2x3 -> [[],[1]] on 2x3
    swap over [0, 1]: [[0],[1]] on 2x3 -> [[1],[0]] on 2x3
    all_to_all over [0], split 1, concat 0: [[0],[1]] on 2x3 -> [[],[1, 0]] on 2x3
    all_to_all over [1], split 0, concat 1: [[0],[1]] on 2x3 -> [[0, 1]] on 2x3
    exchange: [[0],[1]] on 2x3 -> [[1],[0]] on 2x3
    """
    way = Waypoint(layout, target)
    if way.has_nothing_to_do:
        return []
    here, there = layout.sharding, target.sharding
    steps: list[Step] = []
    if not way.is_on_one_grid:
        steps += [way.all_reduce(here.partial_axes)] if here.partial_axes else []
    elif way.blocks is None:
        steps.append(way.exchange_for_policy())
    else:
        steps += chain.from_iterable(detector(way) for detector in (*DETECTORS, _whole_swaps, _single_moves))
    if here.partial_kind == there.partial_kind or not (here.partial_axes and there.partial_axes):
        steps.append(way.exchange())
    return list(dict.fromkeys(steps))


def _whole_swaps(way: Waypoint) -> Iterator[Step]:
    """One swap, between dimensions too, after which every list begins with the axes that it has to begin with."""
    used = [axis for dim in way.dims for axis in way.rest[dim]]
    homeless = [axis for axis in used if way.is_homeless(axis)]
    lists: dict[int, list[int]] = {dim: [] for dim in way.dims}
    for dim in way.dims:
        for axis in way.missing[dim][: len(way.rest[dim])]:
            if axis in way.free and homeless:
                used[used.index(homeless.pop())] = axis
            if axis not in used:
                break
            used.remove(axis)
            lists[dim].append(axis)
    for stays in (True, False):  # the other axes stay where they are if they can
        for dim in way.dims:
            left = [axis for axis in used if axis in way.rest[dim] or not stays]
            for axis in left[: len(way.rest[dim]) - len(lists[dim])]:
                used.remove(axis)
                lists[dim].append(axis)
    swapped = {dim: (*way.placed[dim], *axes) for dim, axes in lists.items()}
    if any(swapped[dim] != way.have[dim] for dim in way.dims):
        yield way.swap(swapped)


def _single_moves(way: Waypoint) -> Iterator[Step]:
    """Single steps: every free or owed axis, and the last axes of every dimension, to the end of any dimension."""
    for dim in way.dims:
        for axis in (*sorted(way.free), *way.owed):
            if not way.is_homeless(axis):
                yield from way.append(dim, (axis,))
        for n in range(1, len(way.rest[dim]) + 1):
            yield way.all_gather(dim, n)
            for split in way.dims:
                if split != dim:
                    yield way.all_to_all(split, dim, n)
