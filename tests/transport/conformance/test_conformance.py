"""One suite for every transport: what the protocol promises of groups, on simulated ranks and on MPI's processes."""

import inspect
import time

import numpy as np
import pytest
from byte_patterns import BYTES, SIZES, pattern

from spmd_grid.errors import TransportError
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Communicator
from spmd_grid.transport.launch import current_world
from spmd_grid.transport.simulated.communicator import ThreadCommunicator


def public_methods(cls):
    return {name: value for name, value in vars(cls).items() if inspect.isfunction(value) and name[0] != "_"}


@pytest.mark.parametrize("n", SIZES)
def test_members_and_their_numbers(spmd, n):
    def body():
        comm = current_world()
        assert isinstance(comm, Communicator)
        assert comm.processes == tuple(range(comm.size)) and comm.process.size >= comm.size
        assert comm.process.rank == comm.rank and len(comm.frame) == FRAME_BYTES
        methods = list(public_methods(Communicator))
        assert "swap_frames" in methods and len(methods) > 15
        for name in methods:
            promised = inspect.signature(getattr(Communicator, name))
            offered = inspect.signature(getattr(type(comm), name))
            assert list(promised.parameters) == list(offered.parameters), name
        return comm.rank

    assert spmd(n, body) == list(range(n))


def test_both_transports_offer_the_same():
    mpi = pytest.importorskip("spmd_grid.transport.mpi", exc_type=TransportError)
    promised = set(public_methods(Communicator))
    assert promised <= set(public_methods(ThreadCommunicator))
    # Beyond the protocol, MPI opens groups and frees what they hold.
    assert set(public_methods(mpi.MpiCommunicator)) - promised == {"open", "release"}
    assert set(public_methods(ThreadCommunicator)) == promised


@pytest.mark.parametrize("n", SIZES)
def test_swap_frames(spmd, n):
    def body():
        comm = current_world()
        seen = []
        for turn in range(5):
            comm.frame[:] = bytes([(comm.rank * 16 + turn) % 256]) * FRAME_BYTES
            frames = comm.swap_frames(f"mine {comm.rank}")
            for i in range(n):
                mark = bytes([i * 16 + turn])
                header = frames.headers[i * HEADER_BYTES : (i + 1) * HEADER_BYTES]
                frame = bytes(frames.data[i * FRAME_BYTES : (i + 1) * FRAME_BYTES])
                for part in (header, frame):  # of which byte 1 is the transport's own
                    assert part[:1] + part[2:] == mark * (len(part) - 1)
                assert (len(header), len(frame)) == (HEADER_BYTES, FRAME_BYTES)
            assert len(frames.headers) == n * HEADER_BYTES and hash(frames.headers)
            if comm.shares_objects:
                assert frames.exposed == [f"mine {i}" for i in range(n)]
            else:
                assert frames.exposed is None
            seen.append(frames.headers)
        assert len(set(seen)) == 5  # headers outlive the next swap
        return True

    assert all(spmd(n, body))


@pytest.mark.parametrize("n", SIZES)
def test_share(spmd, n):
    def body():
        comm = current_world()
        if not comm.shares_objects:
            with pytest.raises(TransportError, match="share no Python objects"):
                comm.share([1])
            return True
        mine = [comm.rank]
        shared = comm.share(mine)
        assert shared == [[i] for i in range(n)] and shared[comm.rank] is mine
        comm.barrier()
        shared[(comm.rank + 1) % n].append("hello")
        comm.barrier()
        return mine == [comm.rank, "hello"]

    assert all(spmd(n, body))


@pytest.mark.parametrize("n", SIZES)
def test_barrier_holds_everybody(spmd, n):
    def body():
        comm = current_world()
        time.sleep(0.1 if comm.rank == n - 1 else 0)
        entered = time.time()
        comm.barrier()
        return entered, time.time()

    times = spmd(n, body)
    assert min(left for _, left in times) >= max(entered for entered, _ in times) - 0.005


@pytest.mark.parametrize("n", SIZES)
def test_arrive_does_not_wait(spmd, n):
    def body():
        comm = current_world()
        if comm.rank == 0:
            meeting = comm.arrive()
            assert n == 1 or not comm.test_all([meeting])
            if n > 1:  # the others arrive only after this
                comm.wait_all(comm.isend(pattern(3), 1, 5))
        elif comm.rank == 1:
            comm.wait_all(comm.irecv(np.empty(3, BYTES), 0, 5))
            meeting = comm.arrive()
        else:
            meeting = comm.arrive()
        comm.wait_all([meeting])
        assert comm.test_all([meeting])
        comm.barrier()
        return True

    assert all(spmd(n, body))


@pytest.mark.parametrize("n", SIZES)
def test_subgroups(spmd, n):
    def body():
        comm = current_world()
        me = comm.rank
        assert comm.subgroup(range(n)) is comm
        backwards = comm.subgroup(range(n)[::-1])
        assert backwards.rank == n - 1 - me and backwards.processes == tuple(range(n))[::-1]
        assert backwards.process is comm.process
        received = np.zeros(n, BYTES)
        backwards.all_gather(np.array([me], BYTES), received, [1] * n)
        assert received.tolist() == list(range(n))[::-1]
        alone = comm.subgroup([me])
        assert (alone.rank, alone.size, alone.processes) == (0, 1, (me,))
        assert alone.swap_frames().headers == bytes(alone.frame[:HEADER_BYTES])
        # Overlapping pairs, in both orders: (0, 1), (1, 2), ...; a pair at a time, for each is collective.
        for low in range(n - 1):
            for pair in ([low, low + 1], [low + 1, low]):
                if me not in pair:
                    continue
                group = comm.subgroup(pair)
                assert group.rank == pair.index(me) and group.size == 2
                received = np.zeros(2, BYTES)
                group.all_gather(np.array([me], BYTES), received, [1, 1])
                assert received.tolist() == pair
                assert comm.subgroup(tuple(pair)) is group
                assert group.subgroup(pair) is group and group.subgroup(range(n)) is comm  # numbers are the world's
        return True

    assert all(spmd(n, body))


@pytest.mark.parametrize("n", [2, 4])
def test_subgroups_are_made_once(spmd, n):
    """Thousands of requests for a few groups: MPI would run out of communicators."""

    def body():
        comm = current_world()
        halves = [range(n // 2), range(n // 2, n)]
        mine = halves[0] if comm.rank < n // 2 else halves[1]
        made = {id(comm.subgroup(mine if i % 2 else range(n)[::-1])) for i in range(5000)}
        comm.subgroup(mine).barrier()
        return len(made)

    assert spmd(n, body) == [2] * n


def test_groups_do_not_hear_one_another(spmd):
    def body():
        comm = current_world()
        swapped = comm.subgroup([1, 0])
        other = 1 - comm.rank
        a, b = np.zeros(4, BYTES), np.zeros(4, BYTES)
        requests = swapped.irecv(b, comm.rank, 2) + comm.irecv(a, other, 2)
        requests += comm.isend(pattern(4, 1), other, 2) + swapped.isend(pattern(4, 2), comm.rank, 2)
        comm.wait_all(requests)
        return (a == pattern(4, 1)).all() and (b == pattern(4, 2)).all()

    assert all(spmd(2, body))


@pytest.mark.parametrize("n", SIZES)
def test_random_traffic(spmd, n):
    """Messages and meetings of several groups, in an order that all draw alike."""

    def body():
        comm = current_world()
        me = comm.rank
        random = np.random.default_rng(n)
        for _ in range(150):
            kind, a, b = random.integers(4), int(random.integers(n)), int(random.integers(n))
            length = int(random.choice([0, 1, 64, 5000]))
            if kind == 0:
                requests, received = [], np.zeros(length, BYTES)
                if me == b:
                    requests += comm.irecv(received, a, 11)
                if me == a:
                    requests += comm.isend(pattern(length, a), b, 11)
                comm.wait_all(requests)
                assert me != b or (received == pattern(length, a)).all()
            elif kind == 1 and a != b:
                if me in (a, b):
                    group = comm.subgroup([a, b])
                    group.frame[0] = me
                    assert [group.swap_frames().data[i * FRAME_BYTES] for i in range(2)] == [a, b]
            elif kind == 2:
                comm.barrier()
            else:
                buffer = pattern(length, a) if me == a else np.zeros(length, BYTES)
                comm.broadcast(buffer, a)
                assert (buffer == pattern(length, a)).all()
        comm.barrier()
        return True

    assert all(spmd(n, body))
