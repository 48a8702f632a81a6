"""One suite for every transport: collectives of bytes."""

import numpy as np
import pytest
from byte_patterns import BYTES, SIZES, pattern

from spmd_grid.errors import TransportError
from spmd_grid.transport.launch import current_world


@pytest.mark.parametrize("n", SIZES)
def test_broadcast(spmd, n):
    def body():
        comm = current_world()
        for root in range(n):
            for length in (0, 1, 5000):
                buffer = pattern(length, root) if comm.rank == root else np.zeros(length, BYTES)
                comm.broadcast(buffer, root)
                np.testing.assert_array_equal(buffer, pattern(length, root))
        return True

    assert all(spmd(n, body))


COUNTS = {
    "even": lambda n: [8] * n,
    "uneven": lambda n: [3 * i + 1 for i in range(n)],
    "some empty": lambda n: [5 * (i % 2) for i in range(n)],
    "all empty": lambda n: [0] * n,
    "last only": lambda n: [0] * (n - 1) + [70_000],
}


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("n", SIZES)
def test_gathers_and_scatter(spmd, n, counts):
    counts = COUNTS[counts](n)
    whole = np.concatenate([pattern(count, i) for i, count in enumerate(counts)])

    def body():
        comm = current_world()
        mine = pattern(counts[comm.rank], comm.rank)
        received = np.zeros(len(whole), BYTES)
        comm.all_gather(mine, received, counts)
        np.testing.assert_array_equal(received, whole)
        for root in {0, n - 1}:
            is_root = comm.rank == root
            received = np.zeros(len(whole), BYTES) if is_root else None
            comm.gather(mine, received, counts, root)
            if is_root:
                np.testing.assert_array_equal(received, whole)
            part = np.zeros(len(mine), BYTES)
            comm.scatter(whole.copy() if is_root else None, part, counts, root)
            np.testing.assert_array_equal(part, mine)
        return True

    assert all(spmd(n, body))


@pytest.mark.parametrize("kind", ["even", "uneven", "empty"])
@pytest.mark.parametrize("n", SIZES)
def test_all_to_all(spmd, n, kind):
    size = {"even": lambda i, j: 6, "uneven": lambda i, j: (3 * i + 5 * j) % 7, "empty": lambda i, j: 0}[kind]

    def body():
        comm = current_world()
        me = comm.rank
        sent = [pattern(size(me, j), 10 * me + j) for j in range(n)]
        wanted = np.concatenate([pattern(size(i, me), 10 * i + me) for i in range(n)])
        received = np.zeros(len(wanted), BYTES)
        comm.all_to_all(
            np.concatenate(sent), [size(me, j) for j in range(n)], received, [size(i, me) for i in range(n)]
        )
        np.testing.assert_array_equal(received, wanted)
        return True

    assert all(spmd(n, body))


@pytest.mark.parametrize("n", SIZES)
def test_buffers_may_be_reused_at_once(spmd, n):
    """A blocking collective has let go of its buffers when it returns."""

    def body():
        comm = current_world()
        me = comm.rank
        buffer, received = np.empty(50, BYTES), np.empty(50 * n, BYTES)
        for turn in range(50):
            buffer[:] = (me + turn) % 256
            comm.all_gather(buffer, received, [50] * n)
            buffer[:] = 255
            assert (received.reshape(n, 50) == [[(i + turn) % 256] for i in range(n)]).all()
            buffer[:] = turn
            comm.broadcast(buffer, turn % n)
            assert (buffer == turn).all()
        return True

    assert all(spmd(n, body))


SIMULATED_FAULTS = {
    "short message": lambda comm: _to_one(comm, 3, 4),
    "long message": lambda comm: _to_one(comm, 5, 4),
    "broadcast": lambda comm: comm.broadcast(np.zeros(3 + comm.rank, BYTES), 0),
    "broadcast of one byte": lambda comm: comm.broadcast(np.zeros(1 + comm.rank, BYTES), 0),
    "all_gather": lambda comm: comm.all_gather(np.zeros(4, BYTES), np.zeros(8, BYTES), [4, 3]),
    "scatter": lambda comm: comm.scatter(np.zeros(8, BYTES), np.zeros(3, BYTES), [4, 4], 0),
    "all_to_all": lambda comm: comm.all_to_all(np.zeros(4, BYTES), [2, 2], np.zeros(5, BYTES), [2, 3]),
}


def _to_one(comm, sent, wanted):
    if comm.rank == 0:
        comm.wait_all(comm.isend(np.zeros(sent, BYTES), 1, 1))
    else:
        comm.wait_all(comm.irecv(np.zeros(wanted, BYTES), 0, 1))


@pytest.mark.parametrize("fault", SIMULATED_FAULTS)
def test_unequal_buffers_are_refused_by_simulated_ranks(fault):
    from spmd_grid import run_spmd

    with pytest.raises(TransportError, match="a message of . bytes meets a buffer of . bytes"):
        run_spmd(lambda: SIMULATED_FAULTS[fault](current_world()), ranks=2)
