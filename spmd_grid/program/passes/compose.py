"""Moves composed: each sharding of an array is reached from that one which costs the least.

A move changes the sharding of an array and never its cells, so it may start from any sharding in which devices hold
the array.  Thus two moves in a row become one (all_slice after all_reduce is a reduce_scatter, two all_reduces are one
along the axes of both), and a sharding that devices still hold is used again:

    partial -> [] -> [[0]]          becomes     partial -> [[0]]
    [[0]] -> [] -> [[0]]            becomes     [[0]]
    [[0]] -> [],  [[0]] -> [[1]]    becomes     [[0]] -> [] -> [[1]]    where [] is needed anyway: a slice

``all_gather(all_slice(x))`` becomes x only if both are shardings of one array, which devices then hold alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from spmd_grid.program.partition.builder import is_at_rest
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move
from spmd_grid.program.passes.rewriting import Links, computes_of, in_order, moves_of, price, substituted

__all__ = ["composed", "composed_in_any_order"]

# Up to this number of shardings of one array all trees of moves are tried; beyond, the nearest comes next.
_MOST_TRIED = 4

Tree = dict[int, LocalValue]  # by the identity of a move's target, the source
Cost = tuple[int, int, float]  # bytes, collectives, seconds


def composed(schedule: Schedule) -> Schedule:
    """The schedule with the cheapest moves that combine partial sums along the same axes in the same order."""
    return _Composer(schedule, keeps_order=True).run()


def composed_in_any_order(schedule: Schedule) -> Schedule:
    """The schedule with the cheapest moves; partial sums may be combined along several axes at once."""
    return _Composer(schedule, keeps_order=False).run()


class _Composer:
    def __init__(self, schedule: Schedule, keeps_order: bool):
        self._schedule = schedule
        self._keeps_order = keeps_order
        self._links = Links(schedule)
        self._moves: dict[int, Move] = {id(move.target): move for move in moves_of(schedule)}
        self._costs: dict[tuple[int, int], Cost] = {}
        self._alike: dict[int, LocalOperand] = {}

    def run(self) -> Schedule:
        families: dict[int, list[LocalValue]] = {}
        for move in self._moves.values():
            root = self._links.root(move.target)
            families.setdefault(id(root), [root]).append(move.target)
        for family in families.values():
            self._compose(family)
        moves = [move for move in self._moves.values() if id(move.target) not in self._alike]
        steps = [*substituted(computes_of(self._schedule), self._alike)]
        results = tuple([self._alike.get(id(each), each) for each in self._schedule.results])
        schedule = replace(self._schedule, results=results)
        return in_order(schedule, [step for step in steps if isinstance(step, Compute)], moves)

    def _compose(self, family: list[LocalValue]) -> None:
        """Replace the moves of one array by the cheapest ones."""
        root, *targets = family
        needed = [x for x in targets if self._is_needed(x)]
        between = [x for x in targets if not self._is_needed(x)]
        now = {id(x): self._moves[id(x)].source for x in targets}
        known = {id(x): x for x in family}
        best = min(
            [self._pruned(now, needed)] + [self._grown(root, [*needed, *more]) for more in _few(between)],
            key=lambda tree: self._cost_of(tree, known, now, needed),
        )
        for target in targets:
            source = best.get(id(target))
            move = self._moves[id(target)]
            if source is None:
                del self._moves[id(target)]
            elif is_at_rest(source, target.sharding):
                self._alike[id(target)] = self._alike.get(id(source), source)
            elif source is not move.source:
                self._moves[id(target)] = replace(move, source=source)
        for target in targets:  # sources that were found to be others
            move = self._moves.get(id(target))  # type: ignore[assignment]
            if move is not None and id(move.source) in self._alike:
                source = self._final(move.source)
                self._moves[id(target)] = replace(move, source=source)

    def _final(self, x: LocalValue) -> LocalValue:
        while id(x) in self._alike:
            found = self._alike[id(x)]
            assert isinstance(found, LocalValue)
            x = found
        return x

    def _is_needed(self, x: LocalValue) -> bool:
        return id(x) in self._links.returned or any(isinstance(each, Compute) for each in self._links.users(x))

    def _pruned(self, tree: Tree, needed: Sequence[LocalValue]) -> Tree:
        """The moves of ``tree`` that lead to a needed sharding."""
        found: Tree = {}
        for x in needed:
            while id(x) in tree and id(x) not in found:
                found[id(x)] = tree[id(x)]
                x = tree[id(x)]
        return found

    def _grown(self, root: LocalValue, targets: list[LocalValue]) -> Tree:
        """The cheapest tree from the root to all targets."""
        if len(targets) > _MOST_TRIED:
            return self._grown_greedily(root, targets)
        trees = [self._in_turn(root, order) for order in permutations(targets)]
        return min(trees, key=lambda tree: self._sum(tree, {id(x): x for x in targets}))

    def _in_turn(self, root: LocalValue, order: Sequence[LocalValue]) -> Tree:
        held, tree = [root], {}
        for x in order:
            tree[id(x)] = min(held, key=lambda source: self._cost(source, x))
            held.append(x)
        return tree

    def _grown_greedily(self, root: LocalValue, targets: list[LocalValue]) -> Tree:
        held, left, tree = [root], list(targets), {}
        while left:
            source, x = min(((a, b) for b in left for a in held), key=lambda pair: self._cost(*pair))
            tree[id(x)] = source
            held.append(x)
            left = [each for each in left if each is not x]
        return tree

    def _cost_of(
        self, tree: Tree, known: dict[int, LocalValue], now: Tree, needed: Sequence[LocalValue]
    ) -> tuple[bool, Cost]:
        """The cost of a tree; whether it changes the order of sums counts first."""
        changes = self._keeps_order and any(self._sums(tree, x) != self._sums(now, x) for x in needed)
        return changes, self._sum(tree, known)

    def _sum(self, tree: Tree, known: dict[int, LocalValue]) -> Cost:
        costs = [self._cost(source, known[x]) for x, source in tree.items()]
        received, collectives, seconds = zip(*costs) if costs else ((), (), ())
        return sum(received), sum(collectives), sum(seconds)

    def _cost(self, source: LocalValue, target: LocalValue) -> Cost:
        key = id(source), id(target)
        if key not in self._costs:
            if is_at_rest(source, target.sharding):
                self._costs[key] = 0, 0, 0.0
            else:
                received, seconds = price(source, target)
                self._costs[key] = received, int(received > 0), seconds
        return self._costs[key]

    def _sums(self, tree: Tree, x: LocalValue) -> list[frozenset[int]]:
        """The axes along which contributions are added on the way to ``x``, move by move."""
        found = []
        while id(x) in tree:
            source = tree[id(x)]
            axes = _combined(source, x)
            if axes:
                found.append(axes)
            x = source
        return found


def _combined(source: LocalValue, target: LocalValue) -> frozenset[int]:
    """The axes along which a move combines contributions whose order changes the result."""
    if source.dtype.kind not in "fc" or source.sharding.partial_kind not in ("sum", "product"):
        return frozenset()
    kept = target.sharding.partial_axes if target.sharding.partial_kind == source.sharding.partial_kind else ()
    return frozenset([axis for axis in source.sharding.partial_axes if axis not in kept and _size(source, axis) > 1])


def _size(x: LocalValue, axis: int) -> int:
    return x.sharding.grid.shape[axis]


def _few(values: Sequence[LocalValue]) -> list[list[LocalValue]]:
    """None of the values, each of them alone, and all."""
    found = [[], *[[x] for x in values]]
    return found if len(values) < 2 else [*found, list(values)]
