"""Annotations laid on values: what each fixes, and the refusal of two that cannot both hold."""

from __future__ import annotations

from collections.abc import Mapping

from spmd_grid.errors import ShardingError
from spmd_grid.program.ir import Annotation, Value
from spmd_grid.program.propagate.cuts import WHOLE_CUT, Cut, cut_of
from spmd_grid.program.propagate.solution import Dimension, Reason, Solution

__all__ = ["Laid"]


class Laid:
    """The annotations on a solution.  ``closed``: dimensions whose cuts do not change.

    ``members``: for values of sharding groups all values of the group; what annotates one of them annotates all.
    """

    def __init__(self, solution: Solution, members: Mapping[Value, tuple[Value, ...]]):
        self._solution = solution
        self._members = members
        self.closed: set[Dimension] = set()
        self._required: dict[Dimension, Cut] = {}
        self._barred: dict[Value, frozenset[int]] = {}

    def taken(self, at: Dimension) -> set[int]:
        """The axes that a dimension must not take: those of others, partial ones, and explicitly replicated ones."""
        value, solution = at.value, self._solution
        others = [solution.cuts.get(Dimension(value, d), WHOLE_CUT) for d in range(value.ndim) if d != at.dim]
        return {axis for cut in others for axis in cut.axes} | self._barred.get(value, frozenset())

    def lay(self, annotation: Annotation) -> None:
        """Fix what the annotation says.  Raises ShardingError where it contradicts another requirement.

        A requirement replaces what reached its value from others; a hint gives way to what is known.
        """
        for value in self._members.get(annotation.value, (annotation.value,)):
            if annotation.required:
                self._require(value, annotation)
            else:
                self._suggest(value, annotation)

    def _require(self, value: Value, annotation: Annotation) -> None:
        solution, sharding = self._solution, annotation.sharding
        other = solution.annotations.setdefault(value, annotation)
        barred = self._barred.get(value, frozenset()) | {*annotation.replicated_axes, *sharding.partial_axes}
        dims = [Dimension(value, d) for d in range(value.ndim)]
        required = [self._both_cuts(at, cut_of(sharding, at.dim), at.dim in sharding.open_dims) for at in dims]
        used = [*barred, *[axis for cut in required if cut is not None for axis in cut.axes]]
        fixed, wanted = [
            (each.partial_axes, each.partial_kind, [each.halo_of(at.dim) for at in dims])
            for each in (other.sharding, sharding)
        ]
        if None in required or len(used) > len(set(used)) or fixed != wanted:
            raise ShardingError(_conflict(value, annotation, other))
        self._barred[value] = barred
        for at, cut in zip(dims, required):
            assert cut is not None  # refused above
            known = solution.cuts.get(at, WHOLE_CUT)
            self._required[at] = cut
            if at.dim not in sharding.open_dims:
                self.closed.add(at)
            elif known.extends(cut) and set(used).isdisjoint(known.axes[len(cut.axes) :]):
                used += known.axes[len(cut.axes) :]
                continue
            self._set(at, cut, annotation)

    def _both_cuts(self, at: Dimension, cut: Cut, is_open: bool) -> Cut | None:
        """The cut by which ``cut`` and what is required so far hold; None where there is none."""
        known = self._required.get(at)
        if known is None or known == cut or (at not in self.closed and cut.extends(known)):
            return cut
        return known if is_open and (not cut.axes or known.extends(cut)) else None

    def _set(self, at: Dimension, cut: Cut, annotation: Annotation) -> None:
        solution = self._solution
        known = solution.cuts.pop(at, WHOLE_CUT)
        before = solution.reasons.pop(at, None) if cut != known else None
        if cut.axes:
            solution.cuts[at] = cut
            solution.reasons.setdefault(at, Reason(annotation))
        hint = None if before is None else before.annotation
        if hint is not None and not hint.required and hint is not annotation:
            solution.dropped.append((hint, self._by_path(hint, at)))

    def _suggest(self, value: Value, annotation: Annotation) -> None:
        """Lay on what fits of a hint."""
        solution = self._solution
        for dim in range(value.ndim):
            at, cut = Dimension(value, dim), cut_of(annotation.sharding, dim)
            known = solution.cuts.get(at, WHOLE_CUT)
            if known == cut or known.extends(cut) or not cut.axes:
                continue
            free = cut.prefix(self.taken(at))
            if at not in self.closed and free.axes and (not known.axes or free.extends(known)):
                self._set(at, free, annotation)
            if solution.cuts.get(at, WHOLE_CUT) != cut:
                solution.dropped.append((annotation, self._by_path(annotation, at)))

    def _by_path(self, annotation: Annotation, at: Dimension) -> str:
        path, known = self._solution.path(at), self._solution.cuts.get(at, WHOLE_CUT)
        start = path[-1][1].annotation if path else None
        through = " <- ".join(
            f"%{step.value.name} ({reason.operation.name} at {reason.operation.site})"
            if reason.operation
            else f"%{step.value.name}"
            for step, reason in path
        )
        origin = "" if start is None else f" from {_where(start)}: {through}"
        wanted = list(cut_of(annotation.sharding, at.dim).axes)
        return (
            f"partition: the hint for dimension {at.dim} of %{at.value.name} as {wanted} by {_where(annotation)} does"
            f" not hold; it is {list(known.axes)}{origin}"
        )


def _conflict(value: Value, annotation: Annotation, other: Annotation) -> str:
    """The text of both sides of two requirements that cannot both hold."""
    names = [each.value.name for each in (other, annotation)]
    group = f", and %{names[0]} and %{names[1]} are in one sharding group" if names[0] != names[1] else ""
    barred = [
        f" with replicated_axes {list(each.replicated_axes)}" if each.replicated_axes else ""
        for each in (other, annotation)
    ]
    return (
        f"partition: %{names[0]} is required as {other.sharding}{barred[0]} by {_where(other)}, and %{names[1]} as"
        f" {annotation.sharding}{barred[1]} by {_where(annotation)}{group}; both cannot hold: drop one, or reshard by"
        " sg.constrain(..., for_users=True)"
    )


def _where(annotation: Annotation) -> str:
    return f"{annotation.origin} at {annotation.site}" if annotation.site else annotation.origin
