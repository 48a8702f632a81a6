"""The engine's operations in bodies of manual computations are followed while tracing, and their misuse is refused."""

import numpy as np
import pytest
from support.program.running import gathered

import spmd_grid as sg

GRID = sg.Grid((3, 2), axis_names=["x", "y"])
ROWS = sg.Sharding(GRID, [["x"]])
WHOLE = sg.Sharding(GRID, [])
A = np.arange(12 * 6.0).reshape(12, 6) % 11 - 4
BLOCKS = A.reshape(3, 4, 6)


def traced(body, out=ROWS, **options):
    program = sg.trace(lambda a: sg.manual(body, [ROWS], out, ["x"], **options)(a + 1), sg.ArraySpec(A.shape))
    return sg.partition(program, GRID, ROWS)


def by_root(block, grid):
    """A gather, work on the root, and a scatter of what it found."""
    whole = sg.gather(block, grid, ["x"], 0, root=[0])
    sums = None if whole is None else np.cumsum(whole, axis=0)
    return sg.scatter(sums, grid, ["x"], 0, root=[0])


def by_reduce(block, grid):
    total = sg.reduce(block, grid, ["x"], "max", root=[0])
    return sg.broadcast(block if total is None else total, grid, ["x"], root=[0]) + block


def by_started(block, grid):
    sent = sg.shift.start(block, grid, ["x"], "x", 1, rotate=True)
    total = sg.all_reduce.start(block * 2, grid, ["x"])
    return sent.wait() + total.wait()


def by_halo(block, grid):
    padded = np.pad(block, ((1, 1), (0, 0)))
    sg.update_halo(padded, grid, [["x"]], [1, 1], True)
    return padded[2:] - padded[:-2]


B = A + 1
CASES = {
    by_root: (np.cumsum(B, axis=0), [("gather", 2 * 24 * 8), ("scatter", 24 * 8)]),
    by_reduce: (
        np.tile((BLOCKS + 1).max(axis=0), (3, 1)) + B,
        [("reduce", 2 * 24 * 8 * 2 // 3), ("broadcast", 24 * 8)],
    ),
    by_started: (
        np.roll(B, 4, axis=0) + np.tile(2 * (BLOCKS + 1).sum(axis=0), (3, 1)),
        [("shift", 24 * 8), ("all_reduce", 2 * 24 * 8 * 2 // 3)],
    ),
    by_halo: (np.roll(B, -1, axis=0) - np.roll(B, 1, axis=0), [("update_halo", 2 * 6 * 8)]),
}


@pytest.mark.parametrize("body", CASES, ids=lambda body: body.__name__)
def test_they_are_followed_and_run(spmd, body):
    wanted, moved = CASES[body]
    part = traced(body)
    assert part.collectives() == [(name, (0,), received) for name, received in moved]

    def run():
        grid = sg.init_grid((3, 2), axis_names=["x", "y"])
        found = part.run(grid, sg.from_global(A, part.in_shardings[0], grid))
        np.testing.assert_allclose(gathered(found), wanted)

    spmd(6, run)


def outside_root(block, grid):
    return sg.all_reduce(np.exp(sg.gather(block, grid, ["x"], 0, root=[0])), grid, ["x"])


def on_another_root(block, grid):
    whole = sg.gather(block, grid, ["x"], 0, root=[2])
    return sg.scatter(whole if grid.coords[0] == 2 else None, grid, ["x"], 0, root=[2])


def in_its_own_block(block, grid):
    return sg.update_halo(block, grid, [["x"]], [1, 1])


REFUSED = {
    "returned": (lambda b, grid: sg.reduce(b, grid, ["x"], root=[0]) + 1, "result 0 of <lambda> is on the root"),
    "outside": (outside_root, "all_reduce: its array is on the root of a gather or a reduce alone .*broadcast or"),
    "none": (on_another_root, r"scatter gets None on the device at \(0, 0\).*give out_specs="),
    "messages": (lambda b, grid: sg.recv(grid, ["x"]), "recv is between single devices.*give out_specs="),
    "sent": (lambda b, grid: sg.send(b, grid, ["x"], [1]), "send is between single devices"),
    "written": (in_its_own_block, "update_halo: x is a block that the body is given"),
    "free axis": (
        lambda b, grid: sg.update_halo(b * 1, grid, [["y"]], [1, 1]),
        r"split_axes is \[1\], and the body is local along \[0\]",
    ),
    "free axis of a started one": (
        lambda b, grid: sg.all_reduce.start(b, grid, ["y"]).wait(),
        r"grid_axes is \[1\], and the body is local along \[0\]",
    ),
    "plans": (lambda b, grid: sg.all_reduce.plan(grid, b.shape, b.dtype, ["x"]).run(b), "needs processes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_followed_is_refused(case):
    body, text = REFUSED[case]
    with pytest.raises(sg.SpmdError, match=text):
        traced(body)
