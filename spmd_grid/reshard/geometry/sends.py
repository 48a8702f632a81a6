"""List the boxes that a device sends: a search for its receivers, coordinate by coordinate.

Each coordinate narrows the target's part, as far as it cuts a dimension, and the rules that say which replica serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

from spmd_grid.grid.box import Box
from spmd_grid.reshard.geometry.pieces import Piece, box_of
from spmd_grid.reshard.geometry.replicas import ReplicaRule, Replicas
from spmd_grid.typing import MultiIndex

__all__ = ["SearchLevel", "search_levels", "sent_pieces"]


class SearchLevel(NamedTuple):
    """One level of the search: the receivers' coordinate on ``axis``.

    ``dim``, ``depth``: the dimension that the axis cuts, and the axis's position among those that cut it; -1 where it
    cuts none.  ``solved``: the rules that leave no choice here, and whether by a digit of the replica's number.
    """

    axis: int
    size: int
    dim: int
    depth: int
    solved: tuple[tuple[int, bool], ...]


def search_levels(replicas: Replicas) -> tuple[SearchLevel, ...]:
    """The order of the search, for all senders: free axes, then those that cut, dimensions with few hits first.

    Local.  A rule leaves no choice once it has one unknown left, or only tied ones, which are its digits; the largest
    free axis comes late enough for that.
    """
    grid, cuts, served, rules = replicas.target, replicas.target_cuts, replicas.served_cuts, replicas.rules
    position = {axis: (dim, depth) for dim, cut in enumerate(cuts) for depth, axis in enumerate(cut.axes)}
    free = [axis for axis in range(grid.ndim) if axis not in position]
    tied = {axis for rule in rules if rule.shared for axis in rule.tied}
    order = [axis for axis in free if replicas.on_one_grid and axis not in tied]
    if order and rules:
        order.remove(max(order, key=grid.shape.__getitem__))
    by_hits = sorted(range(len(cuts)), key=lambda dim: prod(cuts[dim].sizes) / prod(served[dim].sizes))
    order += [axis for dim in by_hits for axis in cuts[dim].axes]
    order += [axis for axis in free if axis not in order]
    levels = []
    for n, axis in enumerate(order):
        solved = []
        for r, rule in enumerate(rules):
            unknown = {each for each in order[n:] if each in rule.weights}
            if axis in unknown and (len(unknown) == 1 or (rule.shared and unknown <= set(rule.tied))):
                solved.append((r, rule.shared and axis in rule.tied))
        dim, depth = position.get(axis, (-1, -1))
        levels.append(SearchLevel(axis, grid.shape[axis], dim, depth, tuple(solved)))
    return tuple(levels)


def sent_pieces(replicas: Replicas, levels: Sequence[SearchLevel], coords: MultiIndex) -> Iterator[Piece]:
    """The pieces that the device at ``coords`` of the source's grid sends to other processes.  Local."""
    served = box_of([cut.interval([coords[axis] for axis in cut.axes]) for cut in replicas.served_cuts])
    if served.is_empty:
        return iter(())
    return _ReceiverSearch(replicas, levels, coords, served).below(0)


class _ReceiverSearch:
    """The search for the receivers of ``served``, the box that the device at ``coords`` serves.

    ``digits``: the coordinates known so far.  ``prefixes``: by dimension (first position, start, stop) of the parts
    that they leave.  ``left``: by rule, what the unknown coordinates have to add up to.
    """

    def __init__(self, replicas: Replicas, levels: Sequence[SearchLevel], coords: MultiIndex, served: Box):
        self.replicas, self.levels, self.rules = replicas, levels, replicas.rules
        self.cuts, self.served = replicas.target_cuts, served
        self.left = [
            (
                sum([coords[axis] * stride for axis, stride in zip(rule.tied, rule.strides)])
                + sum([coords[axis] for axis in rule.loose])
            )
            % rule.n_replicas
            for rule in self.rules
        ]
        self.own_block = [coords[axis] for axis in replicas.loose]
        self.digits = [0] * replicas.target.ndim
        self.prefixes = [(0, 0, cut.extent) for cut in self.cuts]
        # On one grid, from this level on it is known whether the receivers hold the block themselves.
        self.block_known = -1
        if replicas.on_one_grid:
            self.block_known = 1 + max([n for n, each in enumerate(levels) if each.axis in replicas.loose], default=-1)

    def below(self, n: int) -> Iterator[Piece]:
        """The pieces of the receivers whose first ``n`` coordinates, in the order of the search, are known."""
        if n == self.block_known and [self.digits[axis] for axis in self.replicas.loose] == self.own_block:
            return
        if n == len(self.levels):
            piece = self._piece()
            if piece is not None:
                yield piece
            return
        axis, size, dim, depth, solved = self.levels[n]
        digits, left, prefixes, rules = self.digits, self.left, self.prefixes, self.rules
        choices = range(size)
        if dim >= 0:
            cut, prefix = self.cuts[dim], prefixes[dim]
            choices = cut.children(depth, *prefix, self.served.starts[dim], self.served.stops[dim])
        for r, is_digit in solved:
            choices = _solve(rules[r], axis, left[r], is_digit, choices)
        weights = [(r, rule.weights[axis]) for r, rule in enumerate(rules) if axis in rule.weights]
        for digit in choices:
            digits[axis] = digit
            for r, weight in weights:
                left[r] -= weight * digit
            if dim >= 0:
                start, stop = cut.child(depth, *prefix, digit)
                prefixes[dim] = prefix[0] + digit * cut.rests[depth], start, stop
            yield from self.below(n + 1)
            for r, weight in weights:
                left[r] += weight * digit
        if dim >= 0:
            prefixes[dim] = prefix

    def _piece(self) -> Piece | None:
        """The piece of the receiver whose coordinates are known; None where another replica serves it, or no cell."""
        if self.rules and any([self.left[r] % rule.n_replicas for r, rule in enumerate(self.rules)]):
            return None
        grid = self.replicas.target
        device = sum([digit * stride for digit, stride in zip(self.digits, grid.strides)])
        process = device if grid.ranks is None else grid.ranks[device]
        if not self.replicas.on_one_grid and self._holds_block(process):
            return None
        starts, stops = [], []
        for (_, start, stop), cut, low, high in zip(self.prefixes, self.cuts, self.served.starts, self.served.stops):
            start, stop = max(start - cut.low, low), min(stop + cut.high, high)
            if start >= stop:
                return None
            starts.append(start)
            stops.append(stop)
        return Piece(process, Box(tuple(starts), tuple(stops)))

    def _holds_block(self, process: int) -> bool:
        """Whether a process holds the sender's block itself."""
        coords = self.replicas.source.coords_of_process(process)
        return coords is not None and [coords[axis] for axis in self.replicas.loose] == self.own_block


def _solve(rule: ReplicaRule, axis: int, left: int, is_digit: bool, choices: range) -> range:
    """The ``choices`` for which weight x choice = ``left`` modulo the number of replicas."""
    if is_digit:
        k = rule.tied.index(axis)
        digit = left % rule.n_replicas // rule.strides[k] % rule.sizes[k]
        return range(digit, digit + 1) if digit in choices else range(0)
    weight, count = rule.weights[axis], rule.n_replicas
    common = gcd(weight, count)
    if left % common:
        return range(0)
    step = count // common
    first = left // common * pow(weight // common, -1, step) % step if step > 1 else 0
    start = choices.start + (first - choices.start) % step
    return range(start, choices.stop, step)
