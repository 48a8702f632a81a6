"""Resharding cases of other projects, each under its own block rule: what is received is the lower bound, exactly."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from support.reshard.reshard_oracle import check_moves, check_partial_moves, cuts, lacks, size

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.direct import direct_steps
from spmd_grid.reshard.planner.steps import EXCHANGE
from spmd_grid.reshard.verify.steps import check_plan_steps

CASES = {case["id"]: case for case in json.loads((Path(__file__).parent / "peer_cases.json").read_text())["cases"]}
COPIES = [name for name, case in CASES.items() if case["bound"] and case["bound"]["kind"] == "copy"]
SUMS = [name for name, case in CASES.items() if case["bound"] and case["bound"]["kind"] == "reduce"]


def starts_by(rule, extent, sizes) -> list:
    """The start of every part, and the end: how other projects cut."""
    parts = math.prod(sizes)
    if rule == "flat_ceil_div":  # MLIR and Shardy: over the product of the axes at once
        chunk = math.ceil(extent / parts)
        return [min(part * chunk, extent) for part in range(parts + 1)]
    if rule == "floor_bounds":  # PencilArrays
        return [extent * part // parts for part in range(parts + 1)]
    blocks = {"nested_ceil_div": "ceil", "balanced": "balanced"}[rule]  # DTensor; Heat and mpi4py-fft
    return [0, *(stop for _, stop in cuts(extent, sizes, blocks))]


def layout_of(case, end) -> Layout:
    """One side of a case; its blocks as explicit offsets where they are not ours."""
    spec, shape = case[end], case["tensor_shape"]
    grid = Grid(spec["grid"] or [1], ranks=spec.get("ranks"))  # a single device has no axes there
    offsets, ours = [], True
    for dim, axes in enumerate(spec["split_axes"]):
        if axes:
            sizes = [grid.shape[axis] for axis in axes]
            given = spec.get("offsets", {}).get(str(dim))
            offsets.append(given or starts_by(case["split_rule"], shape[dim], sizes))
            ours &= offsets[-1] == starts_by("nested_ceil_div", shape[dim], sizes)
    partial = {"partial_axes": spec.get("partial_axes", ()), "partial_kind": spec.get("partial_kind", "sum")}
    return Layout(Sharding(grid, spec["split_axes"], sharded_dims_offsets=None if ours else offsets, **partial), shape)


def ends_of(name):
    return layout_of(CASES[name], "from"), layout_of(CASES[name], "to")


def received_by(moved) -> list:
    grid = moved.target.grid
    return [sum(piece.box.size for piece in moved.receives(grid.multi_index(device))) for device in range(grid.size)]


@pytest.mark.parametrize("name", COPIES)
def test_direct_plans_receive_the_lower_bound(name):
    source, target = ends_of(name)
    bound = CASES[name]["bound"]
    moved = Redistribution(source, target)
    received = received_by(moved)
    assert (sum(received), max(received)) == (bound["min_recv_total"], bound["min_recv_max_rank"])
    steps = direct_steps(source, target)
    assert [step.kind for step in steps] == [EXCHANGE] * (source != target)
    check_plan_steps(steps, source, target, None if target.grid.size <= 32 else 7)
    if moved.hidden is None:
        assert received == lacks(source, target)
    if math.prod(source.global_shape) <= 10_000:
        moves = (check_moves if moved.hidden is None else check_partial_moves)(moved)
        assert sum(moves.values()) == bound["min_recv_total"]


def test_other_chains_receive_more():
    """The collection's lower estimate of what the projects' own chains receive, against the bound that is met here."""
    ratios = [
        CASES[name]["peer_recv_total"] / CASES[name]["bound"]["min_recv_total"]
        for name in COPIES
        if CASES[name].get("peer_recv_total") and name.startswith("shardy/")
    ]
    assert min(ratios) == 1 and max(ratios) == pytest.approx(3.08, abs=0.01)
    total, bound = (CASES["dtensor/min_cost_000_to_111_dijkstra"][key] for key in ("peer_recv_total", "bound"))
    assert total == 8 * bound["min_recv_total"]


@pytest.mark.parametrize("name", SUMS)
def test_sums_take_the_least_number_of_words(name):
    """Each cell is combined by one of its holders to be, then copied to the others."""
    source, target = ends_of(name)
    steps = direct_steps(source, target)
    check_plan_steps(steps, source, target)
    words = [sum(received_by(Redistribution(step.source, step.target))) for step in steps]
    assert sum(words) == CASES[name]["bound"]["min_words_moved_total"]
    for step in steps:
        moved = Redistribution(step.source, step.target)
        (check_moves if moved.hidden is None else check_partial_moves)(moved)


def test_from_a_value_to_a_partial_one_nothing_moves():
    """A peer refuses: one copy keeps the value, the other is the identity."""
    source, target = ends_of("dtensor/to_partial_S0_R_to_S0_P")
    moved = Redistribution(source, target)
    assert received_by(moved) == [0, 0, 0, 0]
    check_partial_moves(moved)
    check_plan_steps(direct_steps(source, target), source, target)


@pytest.mark.parametrize("name", ["pencilarrays/x_to_y", "notes/swap_dims_uneven", "heat/redistribute_1d_P4"])
def test_rules_that_are_not_ours_are_expressed_by_offsets(name):
    for layout, end in zip(ends_of(name), ("from", "to")):
        spec, shape = CASES[name][end], CASES[name]["tensor_shape"]
        for dim, axes in enumerate(spec["split_axes"]):
            if axes:
                sizes = [spec["grid"][axis] for axis in axes]
                starts = spec.get("offsets", {}).get(str(dim)) or starts_by(
                    CASES[name]["split_rule"], shape[dim], sizes
                )
                for device in range(layout.grid.size):
                    coords = layout.grid.multi_index(device)
                    place = 0
                    for axis in axes:
                        place = place * layout.grid.shape[axis] + coords[axis]
                    box = layout.core_box(coords)
                    assert (box.starts[dim], box.stops[dim]) == (starts[place], starts[place + 1])
        assert all(a <= b for a, b in pairwise(starts)) and size([(0, extent) for extent in shape])
