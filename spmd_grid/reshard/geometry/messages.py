"""Direct plans: who sends which box to whom, listed by each process for itself, in closed form.

Cores of the source are boxes, local arrays of the target are boxes, and a pair of devices shares the one box in which
they meet.  A receiver searches the source's cuts for the parts that meet its own box; a sender searches the target's.
Either costs what it finds.  A partial value is an array with one more, *hidden*, dimension: its contributions, cut by
the partial axes.  So partial sums are boxes too, and what arrives is folded along the hidden dimension.

**Copies.**  Where the source replicates, one copy has to serve, and both sides have to know which.  Axes along which
the source holds copies are *tied*, the others *loose*.  On one grid the device at r gets the block at i (coordinates
on loose axes) from the copy whose tied coordinates are r's, moved on by the sum of r - i over the loose axes:

- a block that r holds itself has i = r there, so it comes from r;
- receivers that share their tied coordinates ask different copies.

Axes along which the target holds copies as well are not moved on: there, every copy serves its like.  Tied axes within
a node are moved on by all loose axes, those from node to node only by loose axes from node to node: a block that has a
copy on the receiver's node comes from there.  Between different grids, coordinates say nothing; receivers are numbered,
and number n is served by copy n modulo the number of copies, unless it holds the block.

Tied axes that split the target make the work of copies uneven.  Blocks that are large enough are therefore cut among
these copies: each serves a *share* of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from spmd_grid.errors import ReductionError, ShapeError
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.cuts import Cut, cuts_of
from spmd_grid.typing import MultiIndex

__all__ = ["Piece", "Redistribution"]

# A block is cut among its copies where every share has at least this many bytes.
_SHARE_BYTES = 1 << 16
# So many lists of at most so many pieces are kept.
_MOST_LISTS, _MOST_LISTED = 64, 256


class Piece(NamedTuple):
    """``box``, in global coordinates, to or from the process numbered ``process``."""

    process: int
    box: Box


class _Rule(NamedTuple):
    """A copy's number = (weights . receiver's coordinates - sum of the block's digits on ``loose``) modulo ``count``.

    ``tied``: the source's axes that number the copies; ``sizes`` and ``strides`` theirs.  ``weights``: by axis of the
    target's grid.  ``shared``: whether the tied axes are the receiver's too, and count with their strides.
    """

    tied: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    count: int
    loose: tuple[int, ...]
    weights: dict[int, int]
    shared: bool


class _Level(NamedTuple):
    """One step of a sender's search: the coordinate of its receivers on ``axis``.

    ``dim``, ``depth``: the cut that the axis takes part in, and where; -1 where it cuts nothing.  ``solved``: the
    rules that leave no choice here, and whether by a digit of the copy's number.
    """

    axis: int
    size: int
    dim: int
    depth: int
    solved: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Redistribution:
    """What moves between the layouts ``source`` and ``target`` of one global shape; either may be partial.

    Local; plain geometry, which needs no processes.  Boxes are in global coordinates; where ``hidden`` is not None,
    they have one more dimension in front: the contributions to a partial value.  ``node_size``: how many consecutive
    processes share a node.  Raises ShapeError for global shapes that differ, ReductionError for partial values of
    different kinds.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((2, 3))
    >>> moved = Redistribution(Layout(Sharding(grid, [[0], [1]]), (6, 6)), Layout(Sharding(grid, [[1], [0]]), (6, 6)))
    >>> [(piece.process, str(piece.box)) for piece in moved.receives((1, 0))]
    [(1, '[0:2, 3:4]'), (2, '[0:2, 4:6]')]
    """

    source: Layout
    target: Layout
    itemsize: int = 8
    node_size: int = 1

    def __post_init__(self):
        source, target = self.source, self.target
        if source.global_shape != target.global_shape:
            raise ShapeError(
                f"resharding from global shape {source.global_shape} to {target.global_shape}; they must be equal"
            )
        kinds = [side.sharding.partial_kind for side in (source, target) if side.sharding.partial_axes]
        if len(set(kinds)) > 1:
            raise ReductionError(f"one exchange from partial {kinds[0]} to partial {kinds[1]}; they must be equal")

    # -- boxes ---------------------------------------------------------------------------------------------------

    @cached_property
    def hidden(self) -> int | None:
        """The number of contributions to each value; None where neither side is partial."""
        source = self.source.sharding.partial_axes
        if not source and not self.target.sharding.partial_axes:
            return None
        return prod(self.source.grid.shape[axis] for axis in source)

    @cached_property
    def hidden_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The axes that cut the contributions, on either side: those that both share first, so that these stay put."""
        source, target = self.source.sharding.partial_axes, self.target.sharding.partial_axes
        shared = [axis for axis in source if axis in target and self.on_one_grid]
        return tuple((*shared, *[axis for axis in side if axis not in shared]) for side in (source, target))

    def source_box(self, coords: MultiIndex) -> Box:
        """What the device at ``coords`` of the source's grid holds: its core."""
        return _box([cut.interval([coords[axis] for axis in cut.axes]) for cut in self.source_cuts])

    def target_box(self, coords: MultiIndex) -> Box:
        """What the device at ``coords`` of the target's grid wants: its local array, as far as in the domain."""
        return _box([cut.window([coords[axis] for axis in cut.axes]) for cut in self.target_cuts])

    def kept_box(self, coords: MultiIndex) -> Box | None:
        """What the device at ``coords`` of the target's grid has itself; None where it has nothing of what it wants."""
        own = self.own_source(coords)
        if own is None:
            return None
        kept = self.source_box(own).intersect(self.target_box(coords))
        return None if kept.is_empty else kept

    def own_source(self, coords: MultiIndex) -> MultiIndex | None:
        """The source coordinates of the process at ``coords`` of the target's grid, if it has any."""
        if self.on_one_grid:
            return coords
        device = self.source.grid.device_of_process(self.target.grid.process(self.target.grid.linear_index(coords)))
        return None if device is None else self.source.grid.multi_index(device)

    @cached_property
    def on_one_grid(self) -> bool:
        """Whether a process has the same coordinates on both sides."""
        return self.source.grid.is_like(self.target.grid)

    @cached_property
    def source_cuts(self) -> tuple[Cut, ...]:
        """The dimensions as the source's cores cut them, the hidden one in front."""
        return cuts_of(self.source, self.hidden, self.hidden_axes[0])

    @cached_property
    def target_cuts(self) -> tuple[Cut, ...]:
        """The dimensions as the target's local arrays cut them, halos included."""
        return cuts_of(self.target, self.hidden, self.hidden_axes[1], halos=True)

    # -- copies --------------------------------------------------------------------------------------------------

    @cached_property
    def _loose(self) -> tuple[int, ...]:
        """The source's axes that say which block a device holds."""
        return tuple(sorted(axis for cut in self.source_cuts for axis in cut.axes))

    @cached_property
    def share_axes(self) -> tuple[int, ...]:
        """The tied axes among whose copies blocks are cut."""
        grid = self.source.grid
        tied = [axis for axis in range(grid.ndim) if axis not in self._loose and grid.shape[axis] > 1]
        if tied and self.on_one_grid:
            splits = {axis for cut in self.target_cuts for axis in cut.axes}
            tied = [axis for axis in tied if axis in splits and (self.node_size == 1 or self._within_node(axis))]
        if not tied or self._share_dim is None:
            return ()
        extents = [_extent(cut.interval((0,) * len(cut.axes))) for cut in self.source_cuts]
        most = min(extents[self._share_dim], prod(extents) * self.itemsize // _SHARE_BYTES)
        share_axes, shares = [], 1
        for axis in tied:
            if shares * grid.shape[axis] <= most:
                share_axes.append(axis)
                shares *= grid.shape[axis]
        return tuple(share_axes)

    @cached_property
    def _share_dim(self) -> int | None:
        """The dimension along which blocks are cut into shares, if there is one.

        All shares of a block should be wanted alike.  So it is one that no loose axis cuts for the target, if possible
        one in which receivers want all of the block, and of these the longest.  Explicit offsets allow no more axes.
        """
        loose = set(self._loose) if self.on_one_grid else set()
        best = None
        for dim, (held, wanted) in enumerate(zip(self.source_cuts, self.target_cuts)):
            if held.offsets is not None or (dim == 0 and self.hidden is not None):
                continue
            block, window = (
                _extent(interval)
                for interval in (held.interval((0,) * len(held.axes)), wanted.window((0,) * len(wanted.axes)))
            )
            rank = loose.isdisjoint(wanted.axes), window >= block, min(block, window)
            if rank[2] and (best is None or rank > best[0]):
                best = rank, dim
        return None if best is None else best[1]

    @cached_property
    def served_cuts(self) -> tuple[Cut, ...]:
        """The source's cuts, blocks cut into shares."""
        cuts = list(self.source_cuts)
        if self.share_axes:
            cut = cuts[self._share_dim]
            axes = (*cut.axes, *self.share_axes)
            cuts[self._share_dim] = Cut(cut.extent, axes, [self.source.grid.shape[a] for a in axes], cut.blocks)
        return tuple(cuts)

    def _within_node(self, axis: int) -> bool:
        grid = self.source.grid
        span = grid.strides[axis] * grid.shape[axis]
        return grid.ranks is None and self.node_size % span == 0

    @cached_property
    def rules(self) -> tuple[_Rule, ...]:
        """What decides which copy serves; without rules there is only one."""
        grid, served = self.source.grid, {axis for cut in self.served_cuts for axis in cut.axes}
        tied = [axis for axis in range(grid.ndim) if axis not in served and grid.shape[axis] > 1]
        if not tied:
            return ()
        if not self.on_one_grid:
            return (_rule(grid, tied, self._loose, self._numbering(), shared=False),)
        splits = {axis for cut in self.target_cuts for axis in cut.axes}
        alike = [axis for axis in tied if axis not in splits]
        near = [axis for axis in tied if axis in splits and self._within_node(axis)]
        far = [axis for axis in tied if axis in splits and axis not in near]
        beyond = tuple([axis for axis in self._loose if not self._within_node(axis)])
        groups = (alike, ()), (near, self._loose), (far, beyond)
        return tuple(
            _rule(grid, group, loose, dict.fromkeys(loose, 1) | dict(zip(group, _strides(grid, group))), shared=True)
            for group, loose in groups
            if group
        )

    def _numbering(self) -> dict[int, int]:
        """Weights that number the target's devices so that those which want of one block have numbers in a row."""
        grid = self.target.grid
        splits = {axis for cut in self.target_cuts for axis in cut.axes}
        free = [axis for axis in range(grid.ndim) if axis not in splits]
        weights, step = dict(zip(free, _strides(grid, free))), prod(grid.shape[axis] for axis in free)
        for cut, served in zip(self.target_cuts, self.served_cuts):
            weights |= {axis: step * rest for axis, rest in zip(cut.axes, cut.rests)}
            step *= -(-prod(cut.sizes) // prod(served.sizes))  # so many parts meet one block
        return weights

    # -- lists of pieces -----------------------------------------------------------------------------------------

    def _listed(self, side: Callable[[MultiIndex], Iterator[Piece]], coords: MultiIndex) -> list[Piece]:
        """What ``side`` lists for ``coords``; short lists are kept, as a plan is checked, counted and then bound."""
        key, known = (side.__name__, coords), self._lists
        found = known.get(key)
        if found is None:
            found = tuple(side(coords))
            if len(found) > _MOST_LISTED:
                return list(found)
            if len(known) >= _MOST_LISTS:
                known.clear()
            known[key] = found
        return list(found)

    @cached_property
    def _lists(self) -> dict[tuple[str, MultiIndex], tuple[Piece, ...]]:
        return {}

    # -- a receiver's side ---------------------------------------------------------------------------------------

    def receives(self, coords: MultiIndex) -> list[Piece]:
        """What the device at ``coords`` of the target's grid gets from other processes, in the order of the blocks.

        Local.
        """
        return self._listed(self._receives, tuple(coords))

    def _receives(self, coords: MultiIndex) -> Iterator[Piece]:
        wanted, own = self.target_box(coords), self.own_source(coords)
        if wanted.is_empty or (own is not None and self.source_box(own).contains(wanted)):
            return
        grid, rules, loose = self.source.grid, self.rules, set(self._loose)
        strides, ranks = grid.strides, grid.ranks
        numbers = [sum(weight * coords[axis] for axis, weight in rule.weights.items()) for rule in rules]
        hits = []
        for cut, low, high in zip(self.served_cuts, wanted.starts, wanted.stops):
            hits.append(
                [
                    (
                        part.start,
                        part.stop,
                        sum(digit * strides[axis] for axis, digit in zip(cut.axes, part.digits)),
                        [sum(d for axis, d in zip(cut.axes, part.digits) if axis in rule.loose) for rule in rules],
                        own is not None and all(d == own[a] for a, d in zip(cut.axes, part.digits) if a in loose),
                    )
                    for part in cut.meeting(low, high)
                ]
            )
        for combination in product(*hits):
            starts, stops, devices, sums, owned = zip(*combination) if combination else ((),) * 5
            if own is not None and all(owned):
                continue
            device = sum(devices)
            for r, rule in enumerate(rules):
                number = (numbers[r] - sum([each[r] for each in sums])) % rule.count
                for axis, stride, size in zip(rule.tied, rule.strides, rule.sizes):
                    device += number // stride % size * strides[axis]
            yield Piece(device if ranks is None else ranks[device], Box(starts, stops))

    # -- a sender's side -----------------------------------------------------------------------------------------

    def sends(self, coords: MultiIndex) -> list[Piece]:
        """What the device at ``coords`` of the source's grid sends to other processes.  Local."""
        return self._listed(self._sends, tuple(coords))

    @cached_property
    def _levels(self) -> tuple[_Level, ...]:
        """The order in which a sender looks for receivers: free axes, then cuts, those with few hits first.

        A rule leaves no choice once it has one unknown left, or only tied ones, which are its digits; the largest free
        axis comes late enough for that.
        """
        grid, cuts = self.target.grid, self.target_cuts

        def hits(dim: int) -> float:
            return prod(cuts[dim].sizes) / prod(self.served_cuts[dim].sizes)

        places = {axis: (dim, depth) for dim, cut in enumerate(cuts) for depth, axis in enumerate(cut.axes)}
        free = [axis for axis in range(grid.ndim) if axis not in places]
        tied = {axis for rule in self.rules if rule.shared for axis in rule.tied}
        order = [axis for axis in free if self.on_one_grid and axis not in tied]
        if order and self.rules:
            order.remove(max(order, key=grid.shape.__getitem__))
        order += [axis for dim in sorted(range(len(cuts)), key=hits) for axis in cuts[dim].axes]
        order += [axis for axis in free if axis not in order]
        levels = []
        for n, axis in enumerate(order):
            solved = []
            for r, rule in enumerate(self.rules):
                unknown = {each for each in order[n:] if each in rule.weights}
                if axis in unknown and (len(unknown) == 1 or (rule.shared and unknown <= set(rule.tied))):
                    solved.append((r, rule.shared and axis in rule.tied))
            levels.append(_Level(axis, grid.shape[axis], *places.get(axis, (-1, -1)), tuple(solved)))
        return tuple(levels)

    def _sends(self, coords: MultiIndex) -> Iterator[Piece]:
        served = _box([cut.interval([coords[axis] for axis in cut.axes]) for cut in self.served_cuts])
        if served.is_empty:
            return
        grid, cuts, levels, rules = self.target.grid, self.target_cuts, self._levels, self.rules
        lows, highs, ndim = served.starts, served.stops, len(cuts)
        strides, ranks = grid.strides, grid.ranks
        left = [
            (
                sum(coords[axis] * stride for axis, stride in zip(rule.tied, rule.strides))
                + sum(coords[axis] for axis in rule.loose)
            )
            % rule.count
            for rule in rules
        ]
        loose = self._loose if self.on_one_grid else None
        own_block = [coords[axis] for axis in self._loose]
        digits = [0] * grid.ndim
        prefixes = [(0, 0, cut.extent) for cut in cuts]  # first position, start, stop: what lies below each prefix
        last_loose = max((n for n, level in enumerate(levels) if level.axis in (loose or ())), default=-1)

        def below(n: int) -> Iterator[Piece]:
            if loose is not None and n == last_loose + 1 and [digits[axis] for axis in loose] == own_block:
                return  # they hold this block themselves
            if n == len(levels):
                if any(left[r] % rule.count for r, rule in enumerate(rules)):
                    return
                device = sum([digit * stride for digit, stride in zip(digits, strides)])
                process = device if ranks is None else ranks[device]
                if loose is None and self._holds(process, own_block):
                    return
                starts, stops = [], []
                for d in range(ndim):
                    _, start, stop = prefixes[d]
                    cut = cuts[d]
                    start, stop = max(start - cut.low, lows[d]), min(stop + cut.high, highs[d])
                    if start >= stop:
                        return
                    starts.append(start)
                    stops.append(stop)
                yield Piece(process, Box(tuple(starts), tuple(stops)))
                return
            axis, size, d, depth, solved = levels[n]
            if d < 0:
                choices = range(size)
            else:
                cut, prefix = cuts[d], prefixes[d]
                choices = cut.children(depth, *prefix, lows[d], highs[d])
            for r, is_digit in solved:
                choices = _solve(rules[r], axis, left[r], is_digit, choices)
            for digit in choices:
                digits[axis] = digit
                for r, rule in enumerate(rules):
                    left[r] -= rule.weights.get(axis, 0) * digit
                if d >= 0:
                    start, stop = cut.child(depth, *prefix, digit)
                    prefixes[d] = prefix[0] + digit * cut.rests[depth], start, stop
                yield from below(n + 1)
                for r, rule in enumerate(rules):
                    left[r] += rule.weights.get(axis, 0) * digit
            if d >= 0:
                prefixes[d] = prefix

        yield from below(0)

    def _holds(self, process: int, block: Sequence[int]) -> bool:
        """Whether a process holds the source's block with these digits on the loose axes."""
        device = self.source.grid.device_of_process(process)
        if device is None:
            return False
        coords = self.source.grid.multi_index(device)
        return [coords[axis] for axis in self._loose] == block


def _rule(grid: Grid, tied: Sequence[int], loose: Sequence[int], weights: dict[int, int], shared: bool) -> _Rule:
    sizes = tuple([grid.shape[axis] for axis in tied])
    return _Rule(tuple(tied), sizes, _strides(grid, tied), prod(sizes), tuple(loose), weights, shared)


def _strides(grid: Grid, axes: Sequence[int]) -> tuple[int, ...]:
    """The weights of coordinates in the row-major number over ``axes``."""
    sizes = [grid.shape[axis] for axis in axes]
    return tuple(prod(sizes[k + 1 :]) for k in range(len(sizes)))


def _solve(rule: _Rule, axis: int, left: int, is_digit: bool, choices: range) -> range:
    """Those of ``choices`` for which weight x choice = ``left`` modulo the rule's count, the rest being known."""
    if is_digit:
        k = rule.tied.index(axis)
        digit = left % rule.count // rule.strides[k] % rule.sizes[k]
        return range(digit, digit + 1) if digit in choices else range(0)
    weight, count = rule.weights[axis], rule.count
    common = gcd(weight, count)
    if left % common:
        return range(0)
    step = count // common
    first = left // common * pow(weight // common, -1, step) % step if step > 1 else 0
    start = choices.start + (first - choices.start) % step
    return range(start, choices.stop, step)


def _extent(interval: tuple[int, int]) -> int:
    return interval[1] - interval[0]


def _box(intervals: Sequence[tuple[int, int]]) -> Box:
    return Box(tuple([start for start, _ in intervals]), tuple([stop for _, stop in intervals]))
