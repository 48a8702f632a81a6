"""Started operations: every operation, several at once, waited for in any order and amid blocking ones."""

import numpy as np
import pytest

import spmd_grid as sg

SIZES = [(6, 2), (300, 121)]  # within a frame, and above 64 KiB


def start_and_call(grid, x):
    """Every operation on axis [0]: (start, the same call that blocks)."""
    table = {
        "all_gather": (x, grid, [0], 0),
        "all_reduce": (x, grid, [0], "max"),
        "all_slice": (x, grid, [0], 1),
        "all_to_all": (x, grid, [0], 0, 1),
        "broadcast": (x, grid, [0], [1]),
        "gather": (x, grid, [0], 1, [1]),
        "reduce": (x, grid, [0], "sum", [1]),
        "reduce_scatter": (x, grid, [0], "sum", 0),
        "scatter": (x, grid, [0], 0, [1]),
        "shift": (x, grid, [0], 0, 1),
    }
    return [(getattr(sg, name), args) for name, args in table.items()]


def equal(a, b):
    return a is b if a is None or b is None else a.dtype == b.dtype and np.array_equal(a, b)


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("order", ["same", "reversed", "by rank"])
def test_all_in_flight_at_once(spmd, path, shape, order):
    """Every operation started before any is waited for; ranks wait in different orders."""

    def body():
        grid = sg.init_grid((3,))
        x = np.arange(np.prod(shape)).reshape(shape) * (grid.rank + 1)
        calls = start_and_call(grid, x) * 2
        requests = [op.start(*args) for op, args in calls]
        places = list(range(len(calls)))
        if order == "reversed" or (order == "by rank" and grid.rank == 1):
            places.reverse()
        if order == "by rank" and grid.rank == 2:
            places = places[::2] + places[1::2]
        results = {place: requests[place].wait() for place in places}
        return [equal(results[place], op(*args)) for place, (op, args) in enumerate(calls)]

    assert spmd(3, body) == [[True] * 20] * 3


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_amid_blocking_operations(spmd, path, shape):
    """One rank waits first, another does something that blocks first, on the same group and on other axes.

    What blocks moves the started operations on, so neither order stops the other.
    """

    def body():
        grid = sg.init_grid((2, 2))
        x = np.full(shape, grid.rank)
        request = sg.all_reduce.start(x, grid, [0, 1], "sum")
        other = sg.all_gather.start(x, grid, [1], 0)
        if grid.coords[1] == 0:
            total, gathered = request.wait(), sg.all_gather(x, grid, [0], 0)
            both = other.wait()
        else:
            gathered, both = sg.all_gather(x, grid, [0], 0), other.wait()
            total = request.wait()
        return set(total.ravel().tolist()), set(gathered.ravel().tolist()), set(both.ravel().tolist())

    assert spmd(4, body) == [({6}, {0, 2}, {0, 1}), ({6}, {1, 3}, {0, 1}), ({6}, {0, 2}, {2, 3}), ({6}, {1, 3}, {2, 3})]


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_a_blocking_one_between_start_and_wait_of_one_rank(spmd, path, shape):
    """Rank 0 waits, then blocks; rank 1 blocks, then waits."""

    def body():
        grid = sg.init_grid((2,))
        request = sg.shift.start(np.full(shape, grid.rank), grid, [0], 0, 1, rotate=True)
        if grid.rank == 0:
            sg.send(np.array([7]), grid, [0], [1])
            moved = request.wait()
        else:
            moved = request.wait()
            sg.recv(grid, [0], [0])
        return int(moved.flat[0]), int(sg.all_reduce(1, grid, [0]))

    assert spmd(2, body) == [(1, 2), (0, 2)]


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_into_out(spmd, path, shape):
    def body():
        grid = sg.init_grid((2,))
        fine = []
        for op, args in start_and_call(grid, np.full(shape, grid.rank + 1)):
            wanted = op(*args)
            if wanted is None:
                fine.append(op.start(*args).wait() is None)
            else:
                out = np.zeros_like(wanted)
                fine.append(op.start(*args, out=out).wait() is out and np.array_equal(out, wanted))
        return fine

    assert spmd(2, body) == [[True] * 10] * 2


def test_update_halo(spmd, path):
    """Two fields at once, waited for in different orders; each array comes back itself."""

    def body():
        grid = sg.init_grid((2, 2))
        fields = [np.pad(np.full((2, 2), value + grid.rank), 1) for value in (10, 20)]
        wanted = [sg.update_halo(field.copy(), grid, [[0], [1]], [1, 1, 1, 1]) for field in fields]
        requests = [sg.update_halo.start(field, grid, [[0], [1]], [1, 1, 1, 1]) for field in fields]
        places = [0, 1] if grid.rank % 2 else [1, 0]
        same_object = all(requests[place].wait() is fields[place] for place in places)
        return same_object and all(map(np.array_equal, fields, wanted))

    assert spmd(4, body) == [True] * 4


def test_waiting_twice_is_refused(spmd, path):
    def body():
        grid = sg.init_grid((2,))
        messages = []
        for op, args in [*start_and_call(grid, np.ones((2, 2))), (sg.send, (np.ones(2), grid, [0], [grid.rank]))]:
            request = op.start(*args)
            request.wait()
            try:
                request.wait()
            except sg.RequestError as error:
                messages.append(str(error))
        return len(messages), set(messages), sg.recv(grid, [0]).tolist()

    for n, messages, received in spmd(2, body):
        assert n == 11 and len(messages) == 1 and "waited for once" in messages.pop() and received == [1, 1]


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_done_becomes_true_without_waiting(spmd, path, shape):
    """Asking makes progress; once done, it stays so and wait() gives the result."""

    def body():
        grid = sg.init_grid((2,))
        request = sg.all_reduce.start(np.full(shape, grid.rank), grid, [0])
        while not request.done:
            pass
        return request.done, int(request.wait().flat[0]), request.done

    assert spmd(2, body) == [(True, 1, True)] * 2


def test_a_receive_is_not_done_before_the_message_is_sent(spmd):
    def body():
        grid = sg.init_grid((2,))
        if grid.rank == 1:
            request = sg.recv.start(grid, [0], [0])
            before = request.done
            sg.all_reduce(0, grid, [0])
            return before, request.wait().tolist()
        sg.all_reduce(0, grid, [0])
        sg.send(np.array([3]), grid, [0], [1])

    assert spmd(2, body) == [None, (False, [3])]


def test_x_may_be_touched_after_wait(spmd, path):
    """wait() returns when nobody reads x any more."""

    def body():
        grid = sg.init_grid((3,))
        fine = []
        for _ in range(20):
            x = np.full(20_000, grid.rank)
            requests = [sg.all_gather.start(x, grid, [0], 0), sg.broadcast.start(x, grid, [0], [2])]
            gathered, root = [request.wait() for request in requests]
            x[...] = -1
            fine.append(np.array_equal(gathered, np.repeat(np.arange(3), 20_000)) and set(root.tolist()) == {2})
        return all(fine)

    assert spmd(3, body) == [True] * 3


def test_refusals_come_when_it_is_started(spmd, path):
    """An array that does not fit is refused on all, at once or in wait(); what is in flight goes on."""

    def body():
        grid = sg.init_grid((2,))
        good = sg.all_gather.start(np.full(9000, grid.rank), grid, [0], 0)
        try:
            sg.all_reduce.start(np.ones(3 + grid.rank), grid, [0]).wait()
            message = None
        except sg.ShapeError as error:
            message = str(error)
        return message, good.wait().sum()

    results = spmd(2, body)
    assert results[0] == results[1] == (results[0][0], 9000) and "rank 1 (1,) has (4,)" in results[0][0]
