"""Annotations laid on values: what each fixes, and the refusal of two that cannot both hold."""

from __future__ import annotations

from spmd_grid.errors import ShardingError
from spmd_grid.program.ir import Annotation
from spmd_grid.program.propagate.cuts import WHOLE_CUT, Cut, cut_of
from spmd_grid.program.propagate.solution import Dimension, Reason, Solution

__all__ = ["Laid"]


class Laid:
    """The annotations on a solution.  ``closed``: dimensions whose cuts do not change."""

    def __init__(self, solution: Solution):
        self._solution = solution
        self.closed: set[Dimension] = set()
        self._barred: dict[int, set[int]] = {}

    def taken(self, at: Dimension) -> set[int]:
        """The axes that a dimension must not take: those of others, partial ones, and explicitly replicated ones."""
        value, solution = at.value, self._solution
        others = [solution.cuts.get(Dimension(value, d), WHOLE_CUT) for d in range(value.ndim) if d != at.dim]
        return {axis for cut in others for axis in cut.axes} | self._barred.get(id(value), set())

    def lay(self, annotation: Annotation) -> None:
        """Fix what the annotation says.  Raises ShardingError where it contradicts another requirement."""
        solution, value, sharding = self._solution, annotation.value, annotation.sharding
        conflict = self._conflict(annotation)
        if conflict is not None:
            if annotation.required:
                raise ShardingError(conflict)
            solution.dropped.append((annotation, conflict))
            return
        barred = self._barred.setdefault(id(value), set())
        barred |= {*annotation.replicated_axes, *sharding.partial_axes}
        for dim in range(value.ndim):
            at, cut = Dimension(value, dim), cut_of(sharding, dim)
            known = solution.cuts.get(at)
            if dim not in sharding.open_dims and annotation.required:
                self.closed.add(at)
            if cut.axes and (known is None or cut.extends(known)):
                solution.cuts[at] = cut
                solution.reasons[at] = Reason(annotation)
        if annotation.required:
            solution.annotations.setdefault(value, annotation)

    def _conflict(self, annotation: Annotation) -> str | None:
        """Both sides of a conflict of ``annotation`` with what is known, in words."""
        solution, value, sharding = self._solution, annotation.value, annotation.sharding
        other = solution.annotations.get(value)
        if other is not None:
            before, now = other.sharding, sharding
            if (before.partial_axes, before.halo_sizes) != (now.partial_axes, now.halo_sizes):
                return self._both(annotation, other)
        for dim in range(value.ndim):
            at, cut = Dimension(value, dim), cut_of(sharding, dim)
            known = solution.cuts.get(at, WHOLE_CUT)
            is_open = dim in sharding.open_dims or not annotation.required
            if known == cut or (at not in self.closed and cut.extends(known)) or (is_open and known.extends(cut)):
                continue
            if at not in self.closed and not known.axes:
                continue
            return self._both(annotation, other) if other is not None else self._by_path(annotation, at, known)
        taken = {axis for d in range(value.ndim) for axis in solution.cuts.get(Dimension(value, d), WHOLE_CUT).axes}
        wrong = taken & {*annotation.replicated_axes, *sharding.partial_axes}
        if wrong and other is not None:
            return self._both(annotation, other)
        return None

    def _both(self, annotation: Annotation, other: Annotation) -> str:
        return (
            f"partition: %{annotation.value.name} is annotated twice, as {other.sharding} by {_where(other)} and as"
            f" {annotation.sharding} by {_where(annotation)}; both are requirements and differ: drop one, or reshard by"
            " sg.constrain(..., for_users=True)"
        )

    def _by_path(self, annotation: Annotation, at: Dimension, known: Cut) -> str:
        path = self._solution.path(at)
        start = path[-1][1].annotation if path else None
        through = " <- ".join(
            f"%{step.value.name} ({reason.operation.name} at {reason.operation.site})"
            if reason.operation
            else f"%{step.value.name}"
            for step, reason in path
        )
        origin = "" if start is None else f" from {_where(start)}"
        wanted = list(cut_of(annotation.sharding, at.dim).axes)
        return (
            f"partition: dimension {at.dim} of %{at.value.name} is annotated as {wanted} by {_where(annotation)}, and"
            f" {list(known.axes)} reached it{origin}: {through}"
        )


def _where(annotation: Annotation) -> str:
    return f"{annotation.origin} at {annotation.site}" if annotation.site else annotation.origin
