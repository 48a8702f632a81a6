"""send and recv: order, sources, sizes, layouts, and who learns of an error."""

import numpy as np
import pytest
from support.ops.ops_oracle import DTYPES, LAYOUTS, same, sample

import spmd_grid as sg


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.str)
def test_shape_and_dtype_travel(spmd, dtype):
    """Any dtype in any layout, from 0-d to 64 KiB and more."""
    shapes = [(), (3,), (0, 4), (5, 7), (130, 80)]

    def body():
        grid = sg.init_grid((2,))
        results = []
        for shape in shapes:
            for layout in LAYOUTS:
                if grid.rank == 0:
                    x = sample(shape, dtype, 0, layout)
                    sg.send(x, grid, [0], [1])
                    x[...] = np.zeros((), dtype)  # a send that has returned has let go of x
                else:
                    results.append(sg.recv(grid, [0], [0]))
        return results

    wanted = [sample(shape, dtype, 0) for shape in shapes for _ in LAYOUTS]
    received = spmd(2, body)[1]
    assert len(received) == len(wanted) and all(map(same, received, wanted))


def test_messages_of_one_sender_keep_their_order(spmd):
    """Small and large ones mixed, sent before anybody receives, or one by one."""
    extents = [1, 50_000, 2, 3, 70_000, 0, 4]

    def body(started):
        grid = sg.init_grid((2,))
        if grid.rank == 0:
            arrays = [np.full(n, i) for i, n in enumerate(extents)]
            if not started:
                return [sg.send(x, grid, [0], [1]) for x in arrays]
            return [request.wait() for request in [sg.send.start(x, grid, [0], [1]) for x in arrays]]
        return [(x.size, *set(x.tolist())) for x in (sg.recv(grid, [0], [0]) for _ in extents)]

    for started in (True, False):
        sent, received = spmd(2, body, started)
        assert sent == [None] * 7
        assert received == [(n, i) if n else (0,) for i, n in enumerate(extents)]


def test_receives_may_be_started_first(spmd):
    """Receives of one source complete in the order in which they were started, whatever the order of the waits."""

    def body():
        grid = sg.init_grid((2,))
        other = [1 - grid.rank]
        receives = [sg.recv.start(grid, [0], other) for _ in range(3)]
        sends = [sg.send.start(np.full(n, 10 * grid.rank + i), grid, [0], other) for i, n in enumerate((1, 9000, 2))]
        received = [request.wait() for request in reversed(receives)][::-1]
        assert [request.wait() for request in sends] == [None] * 3
        return [(x.size, int(x[0])) for x in received]

    assert spmd(2, body) == [[(1, 10), (9000, 11), (2, 12)], [(1, 0), (9000, 1), (2, 2)]]


def test_any_source(spmd):
    """Without a source every sender's messages are taken, each one once, large ones with their own bytes."""

    def body():
        grid = sg.init_grid((4,))
        if grid.rank == 2:
            return sorted((x.size, *set(x.tolist())) for x in (sg.recv(grid, [0]) for _ in range(6)))
        for n in (5, 20_000 + grid.rank):
            sg.send(np.full(n, grid.rank), grid, [0], [2])

    received = [(5, 0), (5, 1), (5, 3), (20_000, 0), (20_001, 1), (20_003, 3)]
    assert spmd(4, body) == [None, None, received, None]


def test_a_source_is_one_of_the_group_and_others_wait(spmd):
    """A receive from one source leaves the messages of the others for later receives."""

    def body():
        grid = sg.init_grid((3,))
        if grid.rank:
            return sg.send(np.array([grid.rank]), grid, [0], [0])
        return [int(sg.recv(grid, [0], source)[0]) for source in ([2], [1])]

    assert spmd(3, body) == [[2, 1], None, None]


@pytest.mark.parametrize("axes", [[0], []], ids=str)
def test_to_oneself(spmd, axes):
    """Buffered: the send returns before the receive is there, and keeps what x was."""

    def body():
        grid = sg.init_grid((2,))
        here = [grid.coords[axis] for axis in axes]
        x = np.arange(30_000) + grid.rank
        sg.send(x, grid, axes, here)
        x[...] = -1
        sg.send(np.float32(7), grid, axes, here)
        first, second = sg.recv(grid, axes, here), sg.recv(grid, axes)
        return first[0], first.size, float(second), second.dtype.str

    assert spmd(2, body) == [(rank, 30_000, 7.0, "<f4") for rank in range(2)]


def test_devices_by_axes_in_the_order_given(spmd):
    """destination and source list coordinates along grid_axes: [column, row] for axes [1, 0], or by name."""

    def body(axes):
        grid = sg.init_grid((2, 3), axis_names=("y", "x"))
        row, column = grid.coords
        sent = sg.send.start(np.array(grid.coords), grid, axes, [(column + 1) % 3, 1 - row])
        received = sg.recv(grid, axes, [(column - 1) % 3, 1 - row])
        sent.wait()
        return tuple(received.tolist()) == (1 - row, (column - 1) % 3)

    for axes in ([1, 0], ["x", "y"]):
        assert spmd(6, body, axes) == [True] * 6


def test_groups_are_apart(spmd):
    """The same call in several groups: every group has its own messages."""

    def body():
        grid = sg.init_grid((2, 2))
        if grid.coords[1] == 0:
            return sg.send(np.array([grid.coords[0]]), grid, [1], [1])
        return sg.recv(grid, [1]).tolist()

    assert spmd(4, body) == [None, [0], None, [1]]


@pytest.mark.parametrize("shape, axes", [((3,), [0]), ((2, 2), [1, 0]), ((2, 3), [1]), ((3, 2), [0]), ((6,), [0])])
@pytest.mark.parametrize("elements", [3, 40_000])
def test_only_the_two_take_part(spmd, shape, axes, elements):
    """The first of a group of processes and its last; the others do nothing, at the group's first use either."""

    def body():
        n = int(np.prod(shape))
        grid = sg.init_grid(shape, ranks=range(n)[::-1])
        first, last = (0,) * len(axes), tuple(grid.shape[axis] - 1 for axis in axes)
        place = grid.process_multi_index(axes)
        if place == first:
            sg.send(np.full(elements, 10.0 * grid.rank), grid, axes, last)
            return sg.recv(grid, axes, last)[-1]
        if place == last:
            received = sg.recv(grid, axes)
            sg.send(received + 1, grid, axes, first)
        return None

    n = int(np.prod(shape))
    firsts = [i for i, coords in enumerate(np.ndindex(shape)) if all(coords[axis] == 0 for axis in axes)]
    wanted = {n - 1 - i: 10.0 * (n - 1 - i) + 1 for i in firsts}
    assert spmd(n, body) == [wanted.get(rank) for rank in range(n)]


@pytest.mark.parametrize("elements", [1, 30_000])
def test_groups_in_another_order_than_messages(spmd, elements):
    """The same two processes in four groups: each receive gets its group's, from somebody or from anybody."""
    groups = [((2, 2), [0, 1]), ((2, 2), [1, 0]), ((2, 1, 2), [0, 2]), ((1, 4), [1])]
    sources = [(1, 1), None, (1, 1), (3,)]

    def body():
        grids = [sg.init_grid(shape) for shape, _ in groups]
        every = list(zip(grids, (axes for _, axes in groups), sources, strict=True))
        if grids[0].rank == 3:
            sends = [
                sg.send.start(np.full(elements, 10 * turn + i), grid, axes, (0,) * len(axes))
                for turn in range(2)
                for i, (grid, axes, _) in list(enumerate(every))[:2]
            ]
            return [request.wait() for request in sends]
        if grids[0].rank == 0:
            taken = [sg.recv(grid, axes, source) for grid, axes, source in every[1::-1] for _ in range(2)]
            return [sorted(set(x.tolist())) for x in taken]
        return None

    assert spmd(4, body)[0] == [[1], [11], [0], [10]]


def test_receives_of_two_groups_at_once(spmd):
    """Started for two groups, from anybody, before anything is sent."""

    def body():
        grid = sg.init_grid((2, 2))
        if grid.rank == 0:
            receives = [sg.recv.start(grid, axes) for axes in ([0, 1], [1, 0], [0, 1], [1, 0])]
            sg.all_reduce(1, grid, [0, 1], "sum")
            return [int(request.wait()[0]) for request in reversed(receives)][::-1]
        sg.all_reduce(1, grid, [0, 1], "sum")
        if grid.rank == 3:
            for value, axes in enumerate(([1, 0], [1, 0], [0, 1], [0, 1])):
                sg.send(np.array([value]), grid, axes, (0, 0))
        return None

    assert spmd(4, body)[0] == [2, 0, 3, 1]


def test_arguments_that_can_be_read_but_once(spmd):
    def body():
        grid = sg.init_grid((2,))
        other = 1 - grid.rank
        sent = sg.send.start(np.array([grid.rank]), grid, (axis for axis in [0]), map(int, [other]))
        received = sg.recv(grid, iter([0]), (place for place in [other]))
        sent.wait()
        for wrong in ([False], [0.0], ["0"]):
            assert caught(lambda wrong=wrong: sg.recv(grid, [0], wrong))[0] == "DeviceError"
        return int(received[0])

    assert spmd(2, body) == [1, 0]


def test_the_call_travels_in_checking_mode():
    """Other axes of the same group: an error of the receiver, with both calls; the message is used up.

    On simulated ranks, which check by themselves; the drills do it under MPI.
    """

    def body():
        grid = sg.init_grid((1, 2))
        if grid.rank == 0:
            for axes in ([1], [0, 1], [1]):
                sg.send(np.arange(3), grid, axes, (0,) * (len(axes) - 1) + (1,))
            error, misfit = None, None
        else:
            taken = sg.recv(grid, [1], [0])
            error = caught(lambda: sg.recv(grid, [1], [0]))
            misfit = caught(lambda: sg.recv(grid, [1], [0], out=np.zeros(4)))
            assert taken.tolist() == [0, 1, 2]
        return error, misfit

    error, misfit = sg.run_spmd(body, ranks=2)[1]
    assert error[0] == "MismatchError"
    table = error[1].splitlines()[1:]
    assert [line.split(" at ")[0] for line in table] == [
        "  rank 0 (0, 0): send(grid_axes=[0, 1], destination=[0, 1]) on int64 (3,)",
        "  rank 1 (0, 1): recv(grid_axes=[1], source=[0])",
    ]
    assert all("test_send_recv.py:" in line for line in table)
    sent_by = "sent by rank 0 (0, 0): send(grid_axes=[1], destination=[1]) on int64 (3,) at test_send_recv.py:"
    assert misfit[0] == "OutputError" and sent_by in misfit[1]


@pytest.mark.parametrize("n", [3, 30_000])
def test_into_out(spmd, n):
    """Contiguous and strided; out itself comes back."""

    def body():
        grid = sg.init_grid((2,))
        if grid.rank == 0:
            return [sg.send(np.arange(n), grid, [0], [1]) for _ in range(2)]
        fine = []
        for layout in ("C", "strided"):
            out = LAYOUTS[layout](np.zeros(n, int))
            fine.append(sg.recv(grid, [0], [0], out=out) is out and np.array_equal(out, np.arange(n)))
        return fine

    assert spmd(2, body)[1] == [True, True]


def caught(call):
    """The type and message of the error that ``call`` raises."""
    try:
        call()
    except sg.SpmdError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("out", [np.zeros(4), np.zeros(3, "f4"), np.zeros((3, 1))], ids=["shape", "dtype", "ndim"])
def test_out_that_does_not_fit(spmd, out):
    """Known to the receiver alone: it raises, the message is used up, out is as it was, the next one arrives."""

    def body():
        grid = sg.init_grid((2,))
        if grid.rank == 0:
            return [sg.send(np.full(3, value), grid, [0], [1]) for value in (1.5, 2.5)]
        mine = out.copy()
        error = caught(lambda: sg.recv(grid, [0], [0], out=mine))
        return error, mine.tolist() == out.tolist(), sg.recv(grid, [0], [0]).tolist()

    _, (error, untouched, following) = spmd(2, body)
    assert error[0] == "OutputError" and error[1].startswith("recv: out has shape") and "(3,)" in error[1]
    assert untouched and following == [2.5] * 3


@pytest.mark.parametrize(
    "x, found",
    [
        (None, "x is None"),
        (np.array([object()]), "Python objects"),
        (np.ma.masked_array([1.0], [True]), "masked array"),
    ],
    ids=["None", "object", "masked"],
)
def test_an_error_of_the_sender_reaches_the_receiver(spmd, x, found):
    """An error that the sender alone knows is raised on both, with the sender's name; the next message arrives."""

    def body():
        grid = sg.init_grid((2,))
        if grid.rank == 0:
            error = caught(lambda: sg.send(x, grid, [0], [1]))
            sg.send(np.array([5]), grid, [0], [1])
            return error
        error = caught(lambda: sg.recv(grid, [0]))
        assert sg.recv(grid, [0]).tolist() == [5]
        return error

    sender, receiver = spmd(2, body)
    assert sender == receiver and sender[0] == "DTypeError"
    assert found in sender[1] and "send" in sender[1] and "rank 0 (0,)" in sender[1]


def test_interleaved_with_collectives(spmd, path):
    """Messages and collectives of one group do not meet."""

    def body():
        grid = sg.init_grid((3,))
        right, left = [(grid.rank + 1) % 3], [(grid.rank - 1) % 3]
        sent = [sg.send.start(np.full(n, grid.rank), grid, [0], right) for n in (2, 20_000)]
        total = int(sg.all_reduce(grid.rank, grid, [0]))
        first = sg.recv(grid, [0], left)
        gathered = sg.all_gather(np.full(10_000, grid.rank), grid, [0], 0)
        second = sg.recv(grid, [0], left)
        for request in sent:
            request.wait()
        return total, first.tolist(), int(gathered[-1]), (second.size, int(second[-1]))

    assert spmd(3, body) == [(3, [left] * 2, 2, (20_000, left)) for left in (2, 0, 1)]
