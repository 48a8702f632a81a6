"""Threads of one process that call operations at the same time, each case on a grid of its own."""

import threading
import time

import numpy as np
from ways_in import WaysIn

import spmd_grid as sg
from spmd_grid.halo.exchange import plan_of

_LONGEST = 200.0  # seconds: whoever waits longer hangs


class Thread(threading.Thread):
    """A thread that keeps what its function gave or raised."""

    def __init__(self, function, *args, name="worker"):
        super().__init__(name=name, daemon=True)
        self.function, self.args = function, args
        self.result = None
        self.start()

    def run(self):
        self.result = outcome(self.function, *self.args)

    def ended(self):
        self.join(_LONGEST)
        assert not self.is_alive(), "a thread hangs"
        return self.result


def outcome(function, *args):
    """The result, or the error."""
    try:
        return function(*args)
    except Exception as error:
        return error


def until(condition):
    """Waits until ``condition()``."""
    deadline = time.monotonic() + _LONGEST
    while not condition():
        assert time.monotonic() < deadline, "nobody was told"
        time.sleep(0.001)


def meet_in_the_gate(grid, loop, everybody, first, second):
    """On rank 0 a thread is in ``first``, which waits for the others, when another begins ``second``.  What they got.

    ``everybody``: waits for all ranks, by other means than those that are tried.
    """
    kit, gate = WaysIn(grid, loop), grid.process.gate
    everybody()
    if grid.rank == 0:
        thread = Thread(kit.ways[first], 3.0)
        looks = iter(range(10))  # it is in its last part, which waits, when nothing changes any more
        until(lambda: not gate.is_quiet and next(looks, None) is None)
        found = [outcome(kit.ways[second], 5.0), thread.ended()]
    else:
        until(lambda: gate.text)
        found = [outcome(kit.ways[first], 3.0)]
    found.append(outcome(kit.ways["all_reduce"], 7.0))
    return [f"{type(each).__name__}: {each}" for each in found]


def check_refusals(told, first, second):
    """``told``: what `meet_in_the_gate` gave on each rank.  One error, the same everywhere, that says what happened."""
    texts = {text for rank in told for text in rank}
    assert len(texts) == 1, f"{first} and {second}: {texts}"
    (text,) = texts
    assert text.startswith("CutOffError: "), f"{first} and {second}: {text}"
    assert "while another operation of this process was under way in thread" in text, text


def crowd(grid, loop, everybody, names, rounds=30):
    """On every rank a thread per name calls it again and again, and looks whether it gets its own.  Their errors."""
    kits = [WaysIn(grid, loop) for _ in names]  # plans of their own: exchanges do not tell threads apart

    def call(i, name):
        for _ in range(rounds):
            assert kits[i].ways[name](2.0 + i), f"{name} got what is not its own, beside {names}"

    everybody()
    threads = [Thread(call, i, name, name=f"worker {i}") for i, name in enumerate(names)]
    return [thread.ended() for thread in threads]


def check_crowd(told, names):
    """``told``: what `crowd` gave on each rank.  Threads of different names do not meet, or one of them is refused."""
    for error in [error for errors in told for error in errors]:
        assert error is None or isinstance(error, sg.CutOffError | sg.MismatchError), f"{names}: {error!r}"


def take_turns(grid, loop, everybody):
    """Each way in by a thread of its own, one after the other, and by the thread that made the grid in between."""
    kit = WaysIn(grid, loop)
    for name, way in kit.ways.items():
        result = Thread(way, 3.0).ended()
        assert not isinstance(result, Exception) and result, f"{name}: {result!r}"
        assert way(5.0), name


def in_another_order(grid, loop, everybody, name):
    """Two threads take turns, on rank 1 in another order than on the others.  What they got."""
    kit = WaysIn(grid, loop)
    turns = [("first", 3.0), ("second", 5.0)]
    everybody()
    return [
        Thread(kit.ways[name], value, name=thread).ended()
        for thread, value in (reversed(turns) if grid.rank == 1 else turns)
    ]


def check_order(told, name):
    """``told``: what `in_another_order` gave on each rank.  No thread meets another one."""
    for result in [result for results in told for result in results]:
        assert isinstance(result, sg.MismatchError), f"{name}: {result!r}"


def loops_of_one_plan(grid, loop, everybody):
    """Two threads in compiled loops of the same plan, on rank 0 at the same time.  What they got, on each rank."""
    kit, u, v = WaysIn(grid, loop), np.full(6, 1.0), np.full(6, 2.0)
    plan, gate = kit.loops_halo, grid.process.gate
    assert Thread(loop, plan, u, 1).ended() is None  # whose plan it is until its end
    everybody()
    if grid.rank == 0:
        thread = Thread(loop, plan, u, 1)
        until(lambda: plan_of(plan).channel.phase != 0)
        found = [outcome(loop, plan, v, 1), thread.ended()]
        assert v.tolist() == [2.0] * 6
    else:
        until(lambda: gate.text)
        found = [outcome(loop, plan, u, 1)]
    return [f"{type(each).__name__}: {each}" for each in found]


def check_loops(told):
    """As `check_refusals`, of `loops_of_one_plan`."""
    texts = {text for rank in told for text in rank}
    assert len(texts) == 1, texts
    assert "CutOffError" in min(texts) and "while another thread of this process updates by the same plan" in min(texts)


FIRST = ["all_reduce", "all_reduce in the arena", "started", "plan.run of 30,000", "halo.update", "halo.start"]
FIRST += ["reshard", "run_plan", "send and recv", "to_global", "array.update_halo", "map_overlap", "sum of cells"]
CROWDS = [
    ["all_reduce", "all_reduce"],
    ["all_reduce of 30,000", "all_reduce of 30,000"],
    ["all_reduce in the arena", "plan.run of 30,000"],
    ["started", "plan.start"],
    ["halo.update", "halo.update"],
    ["halo.update", "all_gather"],
    ["compiled loop", "compiled loop"],
    ["compiled loop", "all_reduce of 30,000"],
    ["compiled loop", "halo.update"],
    ["compiled loop", "send and recv"],
    ["run_plan", "reshard"],
    ["send and recv", "all_gather"],
    ["to_global", "array.update_halo"],
]


# Without a meeting: `zeros` is local, and a loop meets nobody but those in the same plan.
LOCAL = {"zeros", "compiled loop"}


def pairs(ways):
    """Pairs of operations of which one comes upon the other: each is once the first or the second."""
    return [(first, "all_reduce") for first in FIRST] + [("all_reduce", name) for name in ways if name not in LOCAL]
