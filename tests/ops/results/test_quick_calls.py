"""Operations on small arrays that are compiled as a whole after some calls: as Python's own, and as strict."""

import time
from threading import Thread

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.watch.recorder import Recorder

SHAPE, RELAYED, ROUNDS = (6, 5), (6, 90), 12
LARGE = (6, 20000)  # relayed where arrays lie outside the arena
# Operations with their arguments on a line of n, and the member without whose array they do; None: all have one.
CASES = {
    "all_gather": lambda n: ((1,), None),
    "all_reduce": lambda n: (("sum",), None),
    "all_to_all": lambda n: ((0, 1), None),
    "broadcast": lambda n: (([n - 1],), n - 1),
    "gather": lambda n: ((0, [0]), None),
    "reduce": lambda n: (("max", [n - 1]), None),
    "reduce_scatter": lambda n: (("sum", 0), None),
    "scatter": lambda n: ((1, [0]), 0),
    "shift": lambda n: ((0, 1, False, 2.5), None),
}


def arrays_of(rank, shape):
    return np.random.default_rng(rank).standard_normal((ROUNDS, *shape)) * 3


def is_quick(grid):
    """Whether small operations need no Python: those in the memory of a node, and of a process that is alone."""
    comm = grid.group((0,))
    if comm.shares_objects:
        return False
    return comm.size == 1 or (isinstance(meeting_of(comm), MemoryMeeting) and chosen_path() == "auto")


def same(found, wanted):
    return found is wanted is None or (found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes())


def check_all(shape):
    """Calls, plans and starts give the bits of a plan that Python runs, with and without ``out``, each time."""
    grid = sg.init_grid((-1,))
    posts = shape is SHAPE  # arrays travel in the lines of a meeting
    n, me = grid.size, grid.rank
    for name, case in CASES.items():
        args, root = case(n)
        op, has_array = getattr(sg, name), root in (None, me)
        described = (shape, "f8") if has_array else (None, None)
        with op.plan(grid, *described, [0], *args) as plan, op.plan(grid, *described, [0], *args) as other:
            run, by_python = plan.run, type(plan).run
            for x in arrays_of(me, shape):
                x = x if has_array else None
                wanted = by_python(other, x)
                out = None if wanted is None else np.empty_like(wanted)
                found = [run(x), run(x, out=out), run(x, None), op(x, grid, [0], *args)]
                assert wanted is None or (found[1] is out and found[0] is not found[2])
                plan.start(x, out)
                found += [plan.wait(), op(x, grid, (0,), *args, out=out)]
                assert all(same(each, wanted) for each in found), (name, found, wanted)
            # Only root has an out in gathers and reduces: the others cannot foresee it.  Python fills what it shifts.
            foreseen = name not in (("gather", "reduce") if posts else ("gather", "reduce", "shift"))
            if is_quick(grid) and foreseen and (posts or n > 1):
                assert plan._quick._runs and (not posts or plan._quick_start._runs), name
                with op.plan(grid, *described, [0], *args) as again:
                    found = [again.run(x) for x in (arrays_of(me, shape) if has_array else [None] * ROUNDS)]
                    assert again._quick._runs and same(found[-1], wanted), name
                assert any(call.quick and call.quick._runs for key, call in grid.calls.items() if key[0] == name), name


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("shape", [SHAPE, RELAYED, LARGE], ids=["posted", "relayed", "large"])
def test_all_operations(spmd, n, shape, path):
    spmd(n, check_all, shape)


def test_kinds_of_arrays(spmd):
    """0-d and empty arrays, views, other memory orders, scalars and lists, by turns in one call."""

    def body():
        grid = sg.init_grid((-1,))
        for round_ in range(2 * ROUNDS):
            k = round_ + grid.rank
            total = sum(round_ + rank for rank in range(grid.size))
            kinds = [np.array(k), np.full((2, 3), k, order="F"), np.full((4, 6), k)[::2, 1::2], np.zeros((0, 3), int)]
            for x in [*kinds, np.full(3, k), np.full(3, k, ">i8"), np.full(7, k)[1:4], k, [k, k], np.int64(k)]:
                found = sg.all_reduce(x, grid, [0])
                assert found.shape == np.shape(x) and (found == total).all(), (x, found)
                out = np.empty((*np.shape(x), 2), found.dtype)[..., 0]
                assert sg.all_reduce(x, grid, [0], out=out) is out and (out == total).all()

    spmd(2, body)


@pytest.mark.parametrize("least", [3, 3000])
def test_late_members_and_other_shapes(spmd, least):
    """Python goes on where a member comes late, and where another one's array has changed."""

    def body():
        grid = sg.init_grid((-1,))
        plan = sg.all_reduce.plan(grid, (least,), "i8")
        for k in range(3 * ROUNDS):
            if k > ROUNDS and k % grid.size == grid.rank:
                time.sleep(0.003)
            assert (plan.run(np.full(least, k)) == grid.size * k).all()
            extent = least if k < ROUNDS else least + k % 5
            x = np.full(extent, k) if grid.rank == 0 else None
            assert np.array_equal(sg.broadcast(x, grid, [0], [0]), np.full(extent, k))
            if k % grid.size == grid.rank:
                time.sleep(0.003)
            plan.start(np.full(least, k))
            assert (plan.wait() == grid.size * k).all()
        plan.close()

    spmd(3, body)


@pytest.mark.parametrize("size", [3, 3000])
def test_what_is_wrong_is_refused_alike(spmd, size):
    def body():
        grid = sg.init_grid((-1,))
        x, out, texts = np.ones(size), np.empty(size), []
        frozen = np.empty(size)
        frozen.flags.writeable = False
        wrong = {
            sg.ShapeError: (np.ones(size + 1), np.empty(size + 1)),
            sg.DTypeError: (np.ones(size, "f4"), np.empty(size, "f4")),
            sg.OutputError: (x, x),
        }
        with sg.all_reduce.plan(grid, (size,), "f8") as plan:
            calls = {
                "plan": lambda x, out: plan.run(x, out),
                "call": lambda x, out: sg.all_reduce(x, grid, [0], out=out),
            }
            for culprit in range(grid.size):
                for error, bad in {**wrong, None: (x, frozen)}.items():
                    for call in calls.values():
                        for _ in range(ROUNDS):
                            call(x, out)
                        with pytest.raises(error or sg.OutputError) as caught:
                            call(*(bad if grid.rank == culprit else (x, out)))
                        texts.append(str(caught.value))
            for _ in range(ROUNDS):
                assert (plan.run(x, out) == grid.size).all()
            run = plan.run
        for closed in (run, plan.run, plan.start):
            with pytest.raises(sg.RequestError, match="has been closed"):
                closed(x, out)
        return texts

    by_rank = spmd(2, body)
    assert all(texts == by_rank[0] for texts in by_rank)


def test_arguments_of_the_function():
    def body():
        grid = sg.init_grid((1,))
        with sg.all_reduce.plan(grid, (3,), "f8") as plan:
            for _ in range(ROUNDS):
                assert plan.run(x=np.ones(3)).tolist() == plan.run(np.ones(3)).tolist() == [1.0] * 3
            for wrong in (lambda: plan.run(1, 2, 3), lambda: plan.run(np.ones(3), into=None)):
                with pytest.raises(TypeError):
                    wrong()
            assert plan.run(np.ones(3), out=np.empty(3)).tolist() == [1.0] * 3

    sg.run_spmd(body, ranks=1)


def test_other_threads(spmd):
    """Calls of other threads match one another, also where the main thread's are compiled."""

    def body():
        grid, found = sg.init_grid((-1,)), []
        with sg.all_reduce.plan(grid, (3,), "i8") as plan:

            def work(k):
                found.append((plan.run(np.full(3, k)).tolist(), sg.all_reduce(k, grid, [0]).tolist()))

            for k in range(ROUNDS):
                work(k)
            thread = Thread(target=work, args=(ROUNDS,), name="worker")
            thread.start()
            thread.join()
        assert found == [([k * grid.size] * 3, k * grid.size) for k in range(ROUNDS + 1)]

    spmd(2, body)


def test_what_is_recorded_is_seen(spmd):
    """Recording that begins after operations have been compiled misses none of them."""

    def body():
        grid = sg.init_grid((-1,))
        with sg.all_reduce.plan(grid, (3,), "f8", name="late") as plan:
            for _ in range(ROUNDS):
                plan.run(np.ones(3))
                sg.all_reduce(np.ones(3), grid, [0])
            process = grid.process
            kept, process.recorder, process.watched[0] = process.recorder, Recorder(), 1
            try:
                for _ in range(3):
                    plan.run(np.ones(3))
                    sg.all_reduce(np.ones(3), grid, [0])
                records = [record.what for record in process.recorder.last(6)]
            finally:
                process.recorder, process.watched[0] = kept, kept is not None
        assert sum("'late'" in what for what in records) == sum("'late'" not in what for what in records) == 3

    spmd(2, body)
