"""A resharding as all processes specify it alike, and the agreement that they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spmd_grid.errors import DTypeError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.reshard.executor.arguments import ArrayTypes, DTypes
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.transport.communicator import Communicator

__all__ = ["ReshardOperation", "ReshardSpecification"]


@dataclass(frozen=True)
class ReshardSpecification:
    """A resharding before the arrays are known.

    ``signature``: a line that is equal only for equal specifications.  ``plan_for``: gives the plan, once the dtypes
    are known, on the processes of a communicator.  ``types`` of the arrays, and ``plan``: where it was made before.
    ``has_choice``: whether any way of moving the cells will do.
    """

    source: Layout
    target: Layout
    signature: str
    plan_for: Callable[[DTypes, Communicator], PlanValue] = field(compare=False)
    types: ArrayTypes | None = field(default=None, compare=False)
    plan: PlanValue | None = field(default=None, compare=False)
    has_choice: bool = field(default=False, compare=False)

    @classmethod
    def of_plan(cls, plan: PlanValue, is_bound: bool = False) -> ReshardSpecification:
        """The specification of a plan that was made before the arrays are known.

        ``is_bound``: whether all runs are those of a bound plan.
        """
        types = ArrayTypes(plan.several, plan.dtypes)
        signature = f"{plan.signature}, bound" if is_bound else plan.signature
        return cls(plan.source, plan.target, signature, lambda dtypes, comm: plan, types, plan)


class ReshardOperation(CollectiveOperation):
    """The agreement with which a resharding opens: the same request, or plan, and arrays of the same types.

    ``name``: the operation that programs call.
    """

    def __init__(self, name: str):
        self.name = name

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], specified: ReshardSpecification) -> dict[str, str]:
        return {"plan": specified.signature}

    def resolve(self, call: CollectiveCall, facts: Sequence[Facts]) -> ArrayTypes:
        """The types that all members state; a member without arrays learns them here."""
        known = [(member, ArrayTypes.of_facts(fact)) for member, fact in enumerate(facts) if fact.out_shape is not None]
        if not known:
            raise DTypeError(f"{self.name}: no process has an array, so the dtype is unknown")
        first, types = known[0]
        for member, other in known:
            if other != types:
                raise DTypeError(
                    f"{self.name}: dtypes differ: {call.label(first)} has {types}, {call.label(member)} has {other};"
                    " they must be equal"
                )
        return types
