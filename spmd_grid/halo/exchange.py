"""HaloExchange: a halo plan as programs use it; each of its operations goes through the gate of the process."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import Any

from spmd_grid.grid.bound import BoundToProcesses
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.geometry.boundary import BoundaryLike, PeriodicLike
from spmd_grid.halo.loop_entry import HaloLoopEntry
from spmd_grid.halo.plan.describe import describe
from spmd_grid.halo.plan.field_checks import Field
from spmd_grid.halo.plan.halo_plan import HaloPlan
from spmd_grid.halo.plan.specification import HaloSpecification, group_axes
from spmd_grid.halo.plan.watched import make_plan
from spmd_grid.halo.updates import updates_of
from spmd_grid.typing import MultiIndex

__all__ = ["HaloExchange", "plan_of"]


class HaloExchange(BoundToProcesses):
    """Refreshes the halos of local arrays of one layout, several fields in one message per neighbour.

    Collective over the axes that split, where the plan is compared between processes; errors as below.

    ``sharding`` carries the halo sizes, ``global_shape`` the extents.  ``dtype``: one for all ``n_fields``, or a list
    with one per field.  ``periodic``: one bool, or one per tensor dimension.  ``corners``: False leaves out the cells
    that lie in the halo of several dimensions.  ``boundary``: what cells outside the domain get in dimensions that
    are not periodic: ``"leave"``, ``"edge"``, ``"reflect"`` or ``"mirror"``, ``"symmetric"`` (as in numpy.pad), a
    number, or a function ``f(local, outside)`` that sets ``local[outside]``, called when all other cells are set;
    one for all sides, or a list with an entry per tensor dimension: one, or a (low, high) pair.

    ``path``: ``"direct"``, memory that the processes of a node share (``"read"`` out of the neighbour's array, or
    ``"staged"`` by the neighbour), or ``"message"`` (``"packed"``, or ``"straight"`` from the arrays by MPI's
    datatypes).  By default the path of `forced_path` or ``SPMD_GRID_PATH``, else memory where it is shared.  What the
    path leaves open is tried out when the plan is made, if every process has a core; `describe` shows the result.
    ``name``: the name of the plan in reports.

    Cells outside the domain stay untouched unless ``boundary`` says otherwise.  Blocks may be uneven, empty, or
    thinner than a halo.  Raises `MismatchError` where processes make different plans, `ShardingError`, `ShapeError`,
    `DTypeError`, `GridError`.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    ...     u = sg.from_function(lambda i: 10.0 + i, (7,), s, grid)
    ...     u.core[:] += 10
    ...     halo = sg.HaloExchange(grid, s, (7,), "float64", boundary="edge")
    ...     halo.update(u)
    ...     return u.local.tolist()
    >>> for local in sg.run_spmd(body, ranks=3): print(local)
    [20.0, 20.0, 21.0, 22.0, 23.0]
    [22.0, 23.0, 24.0, 25.0, 26.0]
    [25.0, 26.0, 26.0]
    """

    instead = "make another one from its arguments"

    def __init__(
        self,
        grid: ProcessGrid,
        sharding: Sharding,
        global_shape: Sequence[int],
        dtype: Any,
        periodic: PeriodicLike = False,
        corners: bool = True,
        n_fields: int = 1,
        *,
        boundary: BoundaryLike = "leave",
        path: str | None = None,
        name: str | None = None,
    ) -> None:
        axes = group_axes(grid, sharding)
        asked = HaloSpecification(sharding, global_shape, dtype, periodic, corners, n_fields, boundary, path)
        self._gate, self.name = grid.process.gate, name
        self._gate.run("HaloExchange", self._make, grid, axes, asked)

    def _make(self, grid: ProcessGrid, axes: tuple[int, ...], asked: HaloSpecification) -> None:
        self._plan = plan = make_plan(grid, axes, asked, self.name)
        self._run_update = updates_of(plan)
        if type(self).update is HaloExchange.update:
            self.__dict__["update"] = self._run_update  # instead of the method, which takes a call more
        self._state = plan.state  # what compiled code gets of this object
        self._loops = HaloLoopEntry(plan)
        self.pattern, self.layout, self.dtypes, self.trial = plan.pattern, plan.layout, plan.dtypes, plan.trial

    def update(self, *fields: Field, only_dirty: bool = False) -> None:
        """Refreshes the halos of ``fields``: ``n_fields`` of them, each a `ShardedArray` or a local array.

        Collective over the axes that split.  Returns when the arrays may be written again.  The halos of sharded arrays
        are then fresh for shifted slices, if corners are filled and ``only_dirty`` is not set.

        ``only_dirty``: leaves out fields that neighbours have received in an earlier update with ``only_dirty`` of
        this plan, and acknowledged, since the last call of `ShardedArray.mark_dirty`.  They acknowledge an update when
        they begin the next one, so the second update after a change is the last that sends it.  The program must not
        have written the halo meanwhile.

        Callable in numba's compiled code, on C-contiguous local arrays, unless ``boundary`` has functions; there its
        errors cannot be caught, only passed on to the caller of the compiled function.

        Raises `ShapeError`, `DTypeError` and `OutputError` where a field is invalid, the same on this process and on
        all that wait for it.  Where these have an invalid field too, or wait for another one, all raise the error of
        the lowest rank, without its name if all have made the same mistake.  `RequestError` while an update is under
        way or after ``close``.
        """
        self._run_update(*fields, only_dirty=only_dirty)

    @property
    def _numba_type_(self) -> Any:
        # numba asks once; a program that gives no plan to compiled code does not load it.
        return import_module("spmd_grid.halo.jit").type_of(type(self))

    def start(self, *fields: Field) -> None:
        """Begins an update, which ``wait()`` ends; until then the fields must not be written.

        Collective as `update`, and raises as it does.  Several exchanges may be under way, one of each plan.
        """
        self._gate.run("HaloExchange.start", self._plan.start, fields)

    def wait(self) -> None:
        """Ends the update that ``start`` began.  Collective as `update`; raises as it does."""
        self._gate.run("HaloExchange.wait", self._plan.end_update)

    def poke(self) -> bool:
        """Advances an update that is under way; whether ``wait()`` would return at once.  Local.

        Call it between pieces of work: messages advance only during calls like this one.
        """
        return self._gate.run("HaloExchange.poke", self._plan.poke)

    def accumulate(self, *fields: Field) -> None:
        """Adds all halo cells to the cells they are copies of, and sets them to 0: the adjoint of `update`.

        Collective over the axes that split.  Cells that ``boundary`` rules copied are added to their
        sources; cells outside the domain that no rule copies stay untouched.  Cells of several devices are added in
        the order of the group's members, so all runs give the same bits.  Raises as `update`, and `DTypeError` for
        dtypes that cannot be added.
        """
        self._gate.run("HaloExchange.accumulate", self._plan.accumulate, fields)

    def describe(self) -> str:
        """Text about this process's part of the plan: neighbours, boxes, bytes, and how they travel.  Local."""
        return describe(self._plan)

    @property
    def coords(self) -> MultiIndex:
        """Coordinates of this process's device."""
        return self._plan.channels.coords

    def label(self, member: int) -> str:
        """A member of the group as users know it: ``rank 3 (1, 0)``.  Local."""
        return self._plan.channels.label(member)

    def close(self) -> None:
        """Frees the memory of the plan.  Local; may be called again.  Refused while an update is under way."""
        self._plan.close()
        self._state = 0  # by which compiled code sees that it has been closed

    def __enter__(self) -> HaloExchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._plan.flight is None or kind is None:
            self.close()


def plan_of(halo: HaloExchange) -> HaloPlan:
    """The plan of ``halo``, for operations that have gone through the gate.  Local."""
    return halo._plan
