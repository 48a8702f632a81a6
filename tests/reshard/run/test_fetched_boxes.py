"""Reshardings of large arrays outside the node's memory, which the system copies: as cells of the global array."""

import os

import numpy as np
import pytest
from support.ops.fetching import in_meeting

import spmd_grid as sg
from spmd_grid.exchange.agreement import memory_meeting
from spmd_grid.exchange.agreement.quicker_way import IN_A_ROW, QuickerWay
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.ops.movement import fetched_copies
from spmd_grid.reshard.executor.exchanges import relayed_boxes

# By case: how the source and the target are cut, the global shape and the dtype.
CASES = {
    "rows to columns": ([[0], []], [[], [0]], (50, 40000), "i4"),
    "columns to rows": ([[], [0]], [[0], []], (13, 30001), "f8"),
    "rows to all": ([[0], []], [[], []], (7, 20001), "c16"),
    "middle to first": ([[], [0], []], [[0], [], []], (9, 50, 1301), "f4"),
    "strings": ([[], [0]], [[0], []], (5, 100003), "S3"),
    "from few": ([[0], []], [[], [0]], (2, 90000), "f8"),  # of more than two processes, some have nothing
    "to few": ([[], [0]], [[0], []], (2, 90000), "f8"),  # some get nothing
    "short runs": ([[0], []], [[], [0]], (6000, 61), "f8"),
}


class Runs:
    """Runs of a plan in all forms."""

    def __init__(self, grid, case):
        *cuts, shape, dtype = CASES[case]
        self.grid, self.layouts, self.shape = grid, [sg.Sharding(grid, cut) for cut in cuts], shape
        self.plan = sg.plan_reshard(*self.layouts, shape, dtype)
        self.bound = self.plan.bind(grid)
        self.whole = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
        self.own, self.there = (each.shard_slices(shape, grid.coords) for each in self.layouts)
        self.count = 0
        # The first request of its kind goes another way; the system never copies this array.
        sg.reshard(made(grid, self.whole[self.own], "strided"), *self.layouts, grid, shape)

    def check(self, x, out, turn):
        """Run all forms from ``x`` to ``out``, and to new results."""
        grid, whole = self.grid, np.roll(self.whole, turn)
        given, wanted = whole[self.own], whole[self.there]
        x[...] = given
        for run in (
            lambda into: self.plan.run(x, grid, into),
            lambda into: self.bound.run(x, into),
            lambda into: sg.reshard(x, *self.layouts, grid, self.shape, into),
        ):
            out[...] = np.zeros((), out.dtype)
            assert run(out) is out and same_bytes(out, wanted)
            found = run(None)
            assert found is not out and same_bytes(found, wanted)
            self.count += 2
        assert same_bytes(x, given)


def same_bytes(x, y):
    """As a bool: pytest would take minutes to show how such long bytes differ."""
    return x.tobytes() == y.tobytes()


def check_case(grid, case, turns, kinds):
    runs = Runs(grid, case)
    for turn in range(turns):
        for x_is, out_is in kinds:
            x, out = (made(grid, runs.whole[cells], kind) for cells, kind in ((runs.own, x_is), (runs.there, out_is)))
            runs.check(x, out, turn)
    return runs.count


def made(grid, like, kind):
    if kind == "arena" or (kind == "one in the arena" and grid.rank == 0):
        return grid.allocate(like.shape, like.dtype)
    return np.empty((*like.shape, 2), like.dtype)[..., 0] if kind == "strided" else np.empty_like(like)


def body(monkeypatch, case, kinds, are_fetched, turns=2):
    """Check a case, of which runs are fetched: all or none."""
    monkeypatch.setattr(relayed_boxes, "MOST_RELAYED_BOX", 1 << 12)
    monkeypatch.setattr(fetched_copies, "_LEAST_RUN", 1 << 10)
    counts = []
    copies, fetches = in_meeting(lambda grid: counts.append(check_case(grid, case, turns, kinds)), monkeypatch)
    assert copies == (counts[0] if are_fetched and fetches and chosen_path() == "auto" else 0)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("case", [case for case in CASES if case != "short runs"])
def test_fetched(spmd, monkeypatch, case, n):
    """Results are plain, in the arena and strided."""
    monkeypatch.setattr(QuickerWay, "begin", lambda self, most, stays=True: 1)
    spmd(n, body, monkeypatch, case, [("plain", "plain"), ("plain", "strided"), ("plain", "arena")], True)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("case", ["rows to columns", "columns to rows"])
def test_relayed(spmd, monkeypatch, case, n):
    """Arrays that others cannot have copied, or need not."""
    monkeypatch.setattr(QuickerWay, "begin", lambda self, most, stays=True: 1)
    kinds = [("strided", "plain"), ("arena", "plain"), ("one in the arena", "plain")]
    spmd(n, body, monkeypatch, case, kinds, False)


@pytest.mark.parametrize("n", [2, 3])
def test_both_ways(spmd, monkeypatch, n):
    """By turns at first, then by the quicker way."""

    def both():
        copies, fetches = in_meeting(
            lambda grid: check_case(grid, "columns to rows", 2, [("plain", "plain")]), monkeypatch
        )
        assert copies >= IN_A_ROW if fetches and chosen_path() == "auto" else not copies

    monkeypatch.setattr(relayed_boxes, "MOST_RELAYED_BOX", 1 << 12)
    monkeypatch.setattr(fetched_copies, "_LEAST_RUN", 1 << 10)
    spmd(n, both)


@pytest.mark.parametrize("n", [2, 3])
def test_short_runs(spmd, monkeypatch, n):
    def short():
        monkeypatch.setattr(relayed_boxes, "MOST_RELAYED_BOX", 1 << 12)
        copies, _ = in_meeting(lambda grid: check_case(grid, "short runs", 1, [("plain", "plain")]), monkeypatch)
        assert not copies

    monkeypatch.setattr(QuickerWay, "begin", lambda self, most, stays=True: 1)
    spmd(n, short)


@pytest.mark.parametrize("n", [2, 3])
def test_in_place(spmd, monkeypatch, n):
    """A result that is to lie in the array itself is relayed."""

    def in_place(grid):
        ranks = [*range(1, n), 0]
        before, after = sg.Sharding(grid, [[0]]), sg.Sharding(sg.Grid((n,), ranks=ranks), [[0]])
        plan = sg.plan_reshard(before, after, (n, 20000), "f8")
        for turn in range(3):
            x = np.full((1, 20000), 10.0 * grid.rank + turn)
            assert plan.run(x, grid, x) is x and (x == 10.0 * ((grid.rank + n - 1) % n) + turn).all()

    def run():
        copies, _ = in_meeting(in_place, monkeypatch)
        assert not copies

    monkeypatch.setattr(QuickerWay, "begin", lambda self, most, stays=True: 1)
    monkeypatch.setattr(relayed_boxes, "MOST_RELAYED_BOX", 1 << 12)
    spmd(n, run)


@pytest.mark.parametrize("n", [2, 3])
def test_refused_to_one(spmd, monkeypatch, n):
    """One member that may not copy from the others' memory: all relay."""

    def refused():
        if os.environ.get("PMI_RANK", "0") == "0":
            monkeypatch.setattr(memory_meeting, "is_word_at", lambda *_: False)
        body(monkeypatch, "columns to rows", [("plain", "plain")], False, 1)

    monkeypatch.setattr(QuickerWay, "begin", lambda self, most, stays=True: 1)
    spmd(n, refused)
