"""partition: a program on a grid, to be looked at and run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple

from spmd_grid.errors import DTypeError, GridError, ShardingError
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.formatting import told_apart
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import HasGrid, Sharding
from spmd_grid.ops.calls.bounded_cache import keep_call
from spmd_grid.program.cut_lists import with_numbers
from spmd_grid.program.explain.cost import ProgramCost, cost_of
from spmd_grid.program.explain.measured import measured_lines
from spmd_grid.program.explain.picture import picture_of
from spmd_grid.program.explain.words import explain_program, explain_value
from spmd_grid.program.ir import Annotation, Program, Value
from spmd_grid.program.partition.bound_program import BoundProgram
from spmd_grid.program.partition.materialise import Schedule, materialise
from spmd_grid.program.partition.steps import Compute, LocalValue, Move
from spmd_grid.program.passes import PASSES
from spmd_grid.program.propagate.propagation import propagate
from spmd_grid.program.propagate.solution import Solution
from spmd_grid.program.text.stages import stage_text
from spmd_grid.reshard.planner.cost import step_totals

__all__ = ["Collective", "Partition", "partition"]


class Collective(NamedTuple):
    """One communication of a program: its name, the grid axes of its groups, and the bytes that a process receives.

    ``bytes``: of the busiest process, as `Plan.totals` has it.
    """

    name: str
    grid_axes: tuple[int, ...]
    bytes: int


def partition(
    program: Program,
    grid: HasGrid,
    in_shardings: Sequence[Sharding | None] | Sharding | None = None,
    out_shardings: Sequence[Sharding | None] | Sharding | None = None,
    optimise: bool = True,
    args: str = "local",
    *,
    reproducible: bool = False,
) -> Partition:
    """Spread a traced program over a grid.

    Plans only.  ``in_shardings``, ``out_shardings``: per argument and per result a sharding, which is then a
    requirement, or None; a single one is for all of them.  What is not annotated is found by propagation.
    ``optimise``: whether passes take away and merge communication.  ``args``: "local", where `Partition.run` takes
    shards, or "global", where it takes the same whole arrays on every process and slices them.  ``reproducible``:
    passes that change the order of floating-point sums stay off.

    Raises ShardingError where two requirements cannot both hold, GridError, ShapeError.

    >>> import numpy as np, spmd_grid as sg
    >>> program = sg.trace(lambda x, w: x @ w, sg.ArraySpec((4, 8)), sg.ArraySpec((8, 6)))
    >>> grid = sg.Grid((2,))
    >>> part = sg.partition(program, grid, [sg.Sharding(grid, [[], [0]]), None])
    >>> part.sharding_of(1), part.collectives()
    (Sharding(Grid((2,)), [[0]]), [Collective(name='all_reduce', grid_axes=(0,), bytes=192)])
    """
    if not isinstance(program, Program):
        raise DTypeError(f"partition: program is {program!r}; it must be what sg.trace returns")
    if args not in ("local", "global"):
        raise ShardingError(f"partition: args is {args!r}; it must be 'local' or 'global'")
    pure = getattr(grid, "grid", None)
    if not isinstance(pure, Grid):
        raise GridError(f"partition: grid is {grid!r}; it must be a Grid or a ProcessGrid")
    given = _listed("in_shardings", in_shardings, len(program.arguments))
    requested = _listed("out_shardings", out_shardings, len(program.results))
    annotations = [
        *[
            Annotation(value, sharding, origin=f"in_shardings[{number}]")
            for number, (value, sharding) in enumerate(zip(program.arguments, given))
            if sharding is not None
        ],
        *program.annotations,
        *[
            Annotation(value, sharding, required=False, origin=f"out_shardings[{number}]")
            for number, (value, sharding) in enumerate(zip(program.results, requested))
            if sharding is not None and isinstance(value, Value)
        ],
    ]
    for each in annotations:
        if each.sharding.grid != pure:
            one, other = told_apart(each.sharding.grid, pure)
            raise GridError(f"partition: {each} is on {one}, and not on {other}")
        _check_fits(each)
    return Partition(program, pure, annotations, requested, optimise, args, reproducible)


def _listed(name: str, shardings: Any, n: int) -> list[Sharding | None]:
    found = [shardings] * n if shardings is None or isinstance(shardings, Sharding) else list(shardings)
    if len(found) != n:
        raise ShardingError(f"partition: {name} has {len(found)} entries; the program has {n}")
    for each in found:
        if each is not None and not isinstance(each, Sharding):
            raise ShardingError(f"partition: an entry of {name} is {each!r}; it must be a Sharding or None")
    return found


def _check_fits(annotation: Annotation) -> None:
    value, sharding = annotation.value, annotation.sharding
    if len(sharding.split_axes) > value.ndim or any(dim >= value.ndim for dim in sharding.open_dims):
        raise ShardingError(f"partition: {annotation} has more dimensions than the value, of shape {value.shape}")
    if not sharding.open_dims:
        sharding.check_global_shape(value.shape)
    sharding.check_dtype("partition", value.dtype)


class Partition:
    """A program on a grid.

    Made by `partition`.  ``solution``: a sharding for every value; ``materialised``, ``schedule``: the steps before and
    after the passes.
    """

    def __init__(
        self,
        program: Program,
        grid: Grid,
        annotations: Sequence[Annotation],
        out_shardings: Sequence[Sharding | None],
        optimise: bool,
        args: str,
        reproducible: bool,
    ):
        self.program = program
        self.grid = grid
        self.args = args
        self.annotations = tuple(annotations)
        mutations = {each: with_numbers(grid, cuts, each.title) for each, cuts in program.mutations.items()}
        self.solution: Solution = propagate(program, grid, annotations, mutations)
        self.materialised: Schedule = materialise(self.solution, out_shardings)
        self.stages: dict[str, Schedule] = {}
        schedule = self.materialised
        for name, improve, keeps_order in PASSES if optimise else ():
            if keeps_order or not reproducible:
                schedule = improve(schedule)
                self.stages[name] = schedule
        self.schedule: Schedule = schedule

    def __repr__(self) -> str:
        return f"<Partition of {self.program.name} on {self.grid}: {len(self.schedule.steps)} steps>"

    def sharding_of(self, which: Value | str | int) -> Sharding:
        """The sharding of an argument, by its number, or of a value, by its name.  Local.  Raises KeyError."""
        value = self.program.value(which)
        return self.solution.sharding(value)

    @cached_property
    def in_shardings(self) -> tuple[Sharding, ...]:
        """The shardings of the arguments."""
        return tuple([each.sharding for each in self.schedule.arguments])

    @cached_property
    def out_shardings(self) -> tuple[Sharding, ...]:
        """The shardings of the results; of numbers that do not depend on arguments there is none."""
        return tuple([each.sharding for each in self.schedule.results if isinstance(each, LocalValue)])

    def collectives(self) -> list[Collective]:
        """The communications in the order of the program: (name, grid_axes, bytes received per process).  Local."""
        found: list[Collective] = []
        before = 0
        for step in self.schedule.steps:
            if isinstance(step, Move):
                moved = _collectives_of(step)
                if step.together and step.together == before:  # they run as one
                    one = found.pop()
                    moved = [one._replace(bytes=one.bytes + sum(each.bytes for each in moved))]
                found += moved
                before = step.together
            elif isinstance(step, Compute) and step.exchanges:
                found += [Collective(*each) for each in step.exchanges]
        return found

    def text(self, stage: str) -> str:
        """The program in the dialect's text: MLIR with the operations of the ``shard`` dialect.

        Local.  ``stage``: "traced", with the user's annotations; "annotated", with those that propagation found;
        "materialised", with the communication between shardings, in global types; "partitioned", the same in the types
        of what a device holds, ``?`` where blocks differ; "optimised", after the passes.  With ``args="global"`` the
        arguments of the last two are whole, and sliced by the index of the process.  Raises ShardingError.
        """
        return stage_text(self, stage)

    def explain(self, value: Value | str | int | None = None, *, trace: str | Path | None = None) -> str:
        """The program as text: the reason for each sharding, and every communication.

        Local.  For each value: the line that computes it, its sharding, and the annotation that this came from, with
        the operations and lines between.  For each communication: what asks for it, its bytes, and its seconds by the
        model; a trace of a run has it under the same name.  ``value``: one value, by its name or its number as an
        argument.  ``trace``: the folder of a trace (``SPMD_GRID_TRACE``) of runs of this program; the seconds that its
        communications took are then told beside those of the model.  Raises KeyError and OutputError.
        """
        text = explain_program(self) if value is None else explain_value(self, self.program.value(value))
        return text if trace is None else "\n".join([text, "", *measured_lines(self.schedule, trace)])

    def picture(self) -> str:
        """The program as HTML: every step with its line, the blocks of its results, and the bytes that move.  Local."""
        return picture_of(self)

    _repr_html_ = picture

    def cost(self) -> ProgramCost:
        """The cost of a run, for the busiest process, by models: bytes per grid axis, seconds, peak bytes.  Local."""
        return cost_of(self.schedule)

    def run(self, grid: ProcessGrid, *arrays: Any) -> Any:
        """The results for ``arrays``: ShardedArrays in, ShardedArrays out, or local arrays in, local arrays out.

        Collective over the grid.  With ``args="global"`` every process passes the same whole arrays, and local arrays
        of the results are returned.  A result without dimensions is a number.  Raises GridError, ShapeError, DTypeError
        and ShardingError, the same on every process, before anything moves.
        """
        return self._on(grid).run(arrays)

    def _on(self, grid: ProcessGrid) -> BoundProgram:
        """The program on this process and thread; collective where it is not kept."""
        try:
            key = "program", self, chosen_path(), get_ident()
            found: BoundProgram = grid.calls[key]
            return found
        except (KeyError, AttributeError):
            pass
        name = self.program.name
        if not isinstance(grid, ProcessGrid):
            raise GridError(f"{name}: grid is {grid!r}; it must be a ProcessGrid, as init_grid makes")
        if not grid.grid.is_like(self.grid):
            raise GridError(f"{name}: grid is {grid.grid}; the program is partitioned for {self.grid}")
        if grid.coords is None:
            raise GridError(f"{name}: this process is not on the grid")
        grid.check_use(name)
        bound = BoundProgram(name, self.schedule, grid, self.args == "global", self.program.returns_one)
        keep_call(grid, key, bound)
        return bound


def _collectives_of(move: Move) -> list[Collective]:
    plan = move.plan
    if len(plan.steps) == 1:
        (step,) = plan.steps
        moved = plan.totals().most_received
        return [Collective(step.kind, step.grid_axes, moved)] if moved else []
    found = []
    for step in plan.steps:
        moved = step_totals(step, plan.itemsize, plan.links.node_size).most_received
        if moved:
            found.append(Collective(step.kind, step.grid_axes, moved))
    return found
