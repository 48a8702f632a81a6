"""Random programs on a grid: every schedule's results, and numpy's."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import spmd_grid as sg
from spmd_grid.program.partition.steps import LocalValue, Move
from spmd_grid.program.passes import PASSES
from spmd_grid.program.passes.start_early import started_early

from ..sources import Drawn
from .annotations import draw_sharding
from .generator import draw_program

GRIDS = {1: [(1,)], 2: [(2,)], 3: [(3,)], 4: [(2, 2), (4,)], 6: [(2, 3), (3, 2)], 8: [(2, 2, 2), (4, 2)]}


@dataclass(repr=False)
class Case:
    """A program with arguments, what numpy finds, and partitions of it by name."""

    text: str
    arguments: list
    want: tuple
    partitions: dict[str, Any]
    refusal: str = ""

    def __repr__(self):
        return self.text


@st.composite
def cases(draw, ranks, every=False):
    """Cases as `make_case` has them, with one pass alone, or with ``every`` each."""
    source = Drawn(draw)
    return make_case(ranks, source, PASSES if every else [source.one_of(PASSES)])


def make_case(ranks, source, passes: Sequence[tuple[str, Callable, bool]] = ()):
    """A case that is drawn: planned once, before any process runs it.

    ``passes``: each of them is tried alone, and all up to it.
    """
    grid = sg.Grid(source.one_of(GRIDS[ranks]))
    fn, arguments, text = draw_program(source, grid, source.number(1, 30))
    want = fn(*[x.copy() for x in arguments])
    want = want if isinstance(want, tuple) else (want,)
    program = sg.trace(fn, *arguments)
    given = [draw_sharding(source, grid, x.shape, x.dtype) if source.chance(0.6) else None for x in arguments]
    requested = [
        draw_sharding(source, grid, np.shape(x), np.asarray(x).dtype) if source.chance(0.4) else None for x in want
    ]
    text = "\n".join([text, f"on {grid}", f"in {given}", f"out {requested}", *[f"{k}: {v}" for k, v in _constants(fn)]])
    case = Case(text, arguments, want, {})
    try:
        whole = sg.partition(program, grid, given, requested)
        case.partitions["materialised"] = with_schedule(whole, whole.materialised)
        for name, improve, _ in passes:
            case.partitions[name] = with_schedule(whole, improve(whole.materialised))
            case.partitions[f"up to {name}"] = with_schedule(whole, whole.stages[name])
        case.partitions["optimised"] = whole
        if source.chance(0.5):  # as if all moves were large
            case.partitions["optimised"] = with_schedule(whole, started_early(whole.schedule, -1))
    except sg.ShardingError as error:
        case.refusal = str(error)
    return case


def _constants(fn):
    return [(name, value) for name, value in fn.__globals__.items() if isinstance(value, sg.Sharding)]


def with_schedule(part, schedule):
    """The partition with another schedule of the same program."""
    other = copy.copy(part)
    other.schedule = schedule
    return other


def bytes_of(schedule):
    """The bytes that all processes receive together."""
    return sum(step.plan.totals().received for step in schedule.steps if isinstance(step, Move))


def play(case):
    """The faults of a case, on this process of the current world: per partition what differs from numpy's result."""
    faults = []
    for name, part in case.partitions.items():
        grid = sg.init_grid(part.grid.shape)
        given = [sg.from_global(x, s, grid) for x, s in zip(case.arguments, part.in_shardings)]
        found = part.run(grid, *given)
        part.run(grid, *given)  # results are the caller's: another run leaves them as they are
        found = found if isinstance(found, tuple) else (found,)
        for number, (x, want, each) in enumerate(zip(found, case.want, part.schedule.results)):
            fault = _differs(x, np.asarray(want), each)
            if fault:
                faults.append(f"{name}, result {number}: {fault}")
    return faults


def _differs(found, want, each):
    if isinstance(found, sg.ShardedArray):
        assert isinstance(each, LocalValue)
        if found.sharding != each.sharding or found.local.shape != found.layout.local_shape(found.grid.own_coords):
            return f"sharding {found.sharding}, local shape {found.local.shape}"
        found = found.to_global()
    found = np.asarray(found)
    if found.dtype != want.dtype or found.shape != want.shape:
        return f"{found.dtype}{found.shape}, numpy has {want.dtype}{want.shape}"
    rtol = 1e-9 if want.dtype.itemsize >= 8 else 1e-3
    scale = max(1.0, float(abs(want.astype("f8")).max(initial=0)))
    far = ~np.isclose(found, want, rtol=rtol, atol=rtol * scale)
    return f"{far.sum()} of {far.size} cells differ" if far.any() else ""
