"""The picture of a hang, as text: of states made here."""

import sys
from types import SimpleNamespace

import spmd_grid
from spmd_grid.watch.clocks import is_debugged, is_preparing
from spmd_grid.watch.hang_report import RankState, ended_state, picture, unknown_state
from spmd_grid.watch.recorder import BEGUN, DONE, FAILED, OperationRecord


def waiting(rank, number=7, began=94.9, what="all_reduce([0])", where="app.py:90"):
    records = (
        OperationRecord(number - 1, DONE, 80.0, 90.0, "shift([0])", "app.py:70"),
        OperationRecord(number, BEGUN, began, 0, what, where),
    )
    return RankState(f"rank {rank} ({rank},)", 100.0, records, where, answers=True)


def test_every_kind_of_rank_has_its_line():
    ended = (OperationRecord(410, FAILED, 91.0, 92.8, "all_reduce([0])", "app.py:70"),)
    in_loop = (OperationRecord(3, BEGUN, 90.0, 99.9, "HaloExchange", "app.py:5"),)
    left_loop = (OperationRecord(3, BEGUN, 90.0, 95.0, "HaloExchange", "app.py:5"),)
    states = {
        5: ended_state("rank 5 (5,)"),
        0: waiting(0),
        1: waiting(1, began=98.0),
        2: RankState("rank 2 (2,)", 100.0, ended, "app.py:75", answers=True),
        3: RankState("rank 3", 100.0, ended),
        4: unknown_state(4),
        6: RankState("rank 6 (6,)", 100.0, in_loop, "app.py:5", answers=True),
        7: RankState("rank 7 (7,)", 100.0, left_loop, "app.py:6", answers=True),
    }
    silent = " (does not answer: it computes without giving Python a chance)"
    assert picture(states, 5.0).splitlines()[:9] == [
        "no progress for 5 s (SPMD_GRID_TIMEOUT or timeout=); what every rank does:",
        "  rank 0 (0,) waits in all_reduce([0]) #7 for 5.1 s at app.py:90",
        "  rank 1 (1,) is in all_reduce([0]) #7 for 2.0 s at app.py:90",
        "  rank 2 (2,) computes since all_reduce([0]) #410 failed 7.2 s ago at app.py:70, now at app.py:75",
        "  rank 3 computes since all_reduce([0]) #410 failed 7.2 s ago at app.py:70" + silent,
        "  rank 4 does not answer, nor does its node",
        "  rank 5 (5,) has ended",
        "  rank 6 (6,) waits in HaloExchange #3 for 9.9 s at app.py:5",
        "  rank 7 (7,) computes since HaloExchange #3 ended 5.0 s ago at app.py:5, now at app.py:6",
    ]


def test_those_who_differ_from_most_show_their_last_operations():
    states = {rank: waiting(rank) for rank in range(5)} | {5: waiting(5, 6, 96.0, "broadcast([0])", "app.py:33")}
    text = picture(states, 5.0)
    assert text.partition("the last operations")[2].splitlines() == [
        " of rank 5 (5,):",
        "  #5 shift([0]) at app.py:70: took 10.0 s, ended 10.0 s ago",
        "  #6 broadcast([0]) at app.py:33: begun 4.0 s ago",
    ]


def test_many_ranks_share_lines():
    states = {rank: waiting(rank, began=95.0 - rank / 100) for rank in range(64)}
    states[9] = RankState("rank 9 (9,)", 100.0, (), "app.py:2", answers=True)
    states[63] = ended_state("rank 63 (63,)")
    states[62] = ended_state("rank 62 (62,)")
    states |= {rank: RankState(f"rank {rank}", 100.0, (), is_stopped=True) for rank in (10, 11)}
    assert picture(states, 5.0).splitlines() == [
        "no progress for 5 s (SPMD_GRID_TIMEOUT or timeout=); what every rank does:",
        "  ranks 0-8, 12-61 wait in all_reduce([0]) #7 for 5.6 s at app.py:90",
        "  rank 9 (9,) computes, no operation on record, now at app.py:2",
        "  ranks 10-11 compute, no operation on record (do not answer: they are stopped)",
        "  ranks 62-63 have ended",
    ]


def test_a_tracer_is_no_debugger():
    def frame_under(tracer):
        def inner():
            return sys._getframe()

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            return inner()
        finally:
            sys.settrace(before)

    def tracer(frame, event, arg):
        return tracer

    import bdb

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            self.set_step()

    debugger = Debugger()
    debugger.reset()
    debugger.set_step()
    assert not is_debugged(frame_under(tracer))
    assert is_debugged(frame_under(debugger.trace_dispatch))
    assert not is_debugged(sys._getframe())


def test_who_prepares():
    """Compilation that this package has called for stops the clocks; what a program compiles itself does not."""

    def frame(name, ours=False, outer=None):
        code = SimpleNamespace(co_filename=spmd_grid.__file__ if ours else "/somewhere/else.py")
        return SimpleNamespace(f_globals={"__name__": name}, f_code=code, f_back=outer)

    program = frame("__main__", outer=frame("spmd_grid.transport.launch", ours=True))
    operation = frame("spmd_grid.ops.shift", ours=True, outer=program)
    assert is_preparing(frame("llvmlite.binding.ffi", outer=frame("numba.core.dispatcher", outer=operation)))
    assert is_preparing(frame("numba", outer=frame("_frozen_importlib", outer=operation)))
    assert not is_preparing(frame("numba.core.dispatcher", outer=program))
    assert not is_preparing(operation) and not is_preparing(program) and not is_preparing(None)
