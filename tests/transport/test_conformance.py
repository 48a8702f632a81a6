"""One suite for every transport: what the protocol promises, on simulated ranks and on MPI's processes."""

import inspect
import time

import numpy as np
import pytest

from spmd_grid.errors import TransportError
from spmd_grid.transport import communicator
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, MESSAGE_FRAME_BYTES, Communicator
from spmd_grid.transport.launch import current_world
from spmd_grid.transport.simulated.communicator import ThreadCommunicator

SIZES = [1, 2, 3, 4, 6]
BYTES = np.uint8


def pattern(n, start=0):
    """n bytes that differ from rank to rank."""
    return ((np.arange(n) * 7 + start * 31) % 251).astype(BYTES)


def public_methods(cls):
    return {name: value for name, value in vars(cls).items() if inspect.isfunction(value) and name[0] != "_"}


@pytest.mark.parametrize("n", SIZES)
def test_members_and_their_numbers(spmd, n):
    def body():
        comm = current_world()
        assert isinstance(comm, Communicator)
        assert comm.processes == tuple(range(comm.size)) and comm.process.size >= comm.size
        assert comm.process.rank == comm.rank and len(comm.frame) == FRAME_BYTES
        methods = [name for name in public_methods(Communicator)]
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
    # Beyond the protocol, MPI frees and answers its lifeline.
    assert set(public_methods(mpi.MpiCommunicator)) - promised == {"hopeless", "open", "release"}
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
@pytest.mark.parametrize("length", [0, 1, 1000, 300_000])
def test_messages_round_a_ring(spmd, n, length):
    """With one rank this is a message to oneself."""

    def body():
        comm = current_world()
        received = np.zeros(length, BYTES)
        requests = comm.irecv(received, (comm.rank - 1) % n, 7)
        requests += comm.isend(pattern(length, comm.rank), (comm.rank + 1) % n, 7)
        comm.wait_all(requests)
        assert comm.test_all(requests)
        np.testing.assert_array_equal(received, pattern(length, (comm.rank - 1) % n))
        return True

    assert all(spmd(n, body))


@pytest.mark.parametrize("early", [True, False], ids=["receives first", "sends first"])
def test_order_and_tags(spmd, early):
    """Messages of one tag keep their order; tags do not mix, whatever the order of the receives."""

    def body():
        comm = current_world()
        if comm.rank == 0:
            if early:
                comm.barrier()
            requests = []
            for i in range(20):
                requests += comm.isend(pattern(8, i), 1, i % 2)
            if not early:
                comm.barrier()
            comm.wait_all(requests)
            return True
        if not early:
            comm.barrier()
        received = np.zeros((20, 8), BYTES)
        requests = []
        for i in [*range(1, 20, 2), *range(0, 20, 2)]:  # odd tags first
            requests += comm.irecv(received[i], 0, i % 2)
        if early:
            comm.barrier()
        comm.wait_all(requests)
        return all((received[i] == pattern(8, i)).all() for i in range(20))

    assert all(spmd(2, body))


@pytest.mark.parametrize("n", SIZES)
def test_many_messages_in_flight(spmd, n):
    def body():
        comm = current_world()
        received = np.zeros((n, 200, 16), BYTES)
        requests = []
        for i in range(200):
            for peer in range(n):
                requests += comm.isend(pattern(16, comm.rank * 200 + i), peer, 3)
        for peer in range(n):
            for i in range(200):
                requests += comm.irecv(received[peer, i], peer, 3)
        comm.wait_all(requests)
        return all((received[p, i] == pattern(16, p * 200 + i)).all() for p in range(n) for i in range(200))

    assert all(spmd(n, body))


@pytest.mark.parametrize("n", SIZES)
def test_frames_from_anybody(spmd, n):
    def body():
        comm = current_world()
        if comm.rank:
            for turn in range(3):
                comm.wait_all(
                    comm.isend_message(bytearray([comm.rank, turn]) + bytearray(MESSAGE_FRAME_BYTES - 2), [], 0)
                )
            comm.barrier()
            return None
        turns = dict.fromkeys(range(1, n), 0)
        for _ in range(3 * (n - 1)):
            frame = bytearray(MESSAGE_FRAME_BYTES)
            request = comm.irecv_frame(frame, None)
            comm.wait_all([request])
            sender = comm.source_of(request)
            assert (sender, turns[sender]) == (frame[0], frame[1])  # in order by sender
            turns[sender] += 1
        comm.barrier()
        return turns

    assert spmd(n, body)[0] == dict.fromkeys(range(1, n), 3)


def test_frames_from_somebody_and_from_anybody(spmd):
    """The receive that was posted first takes the message, be it for anybody or for its sender."""

    def body():
        comm = current_world()
        if comm.rank == 0:
            frames = [bytearray(MESSAGE_FRAME_BYTES) for _ in range(3)]
            requests = [comm.irecv_frame(frame, source) for frame, source in zip(frames, [1, None, 1])]
            comm.barrier()
            comm.wait_all(requests)
            assert [comm.source_of(request) for request in requests] == [1, 1, 1]
            return [frame[0] for frame in frames]
        comm.barrier()
        requests = []
        for i in range(3):
            requests += comm.isend_message(bytearray([10 + i]) + bytearray(MESSAGE_FRAME_BYTES - 1), [], 0)
        comm.wait_all(requests)

    assert spmd(2, body)[0] == [10, 11, 12]


@pytest.mark.parametrize("n_tags", [1, 3, None])
@pytest.mark.parametrize("seed", range(3))
def test_bodies_belong_to_their_frames(spmd, monkeypatch, n_tags, seed):
    """Messages of many groups and sizes, taken group by group, where tags come again soon."""
    groups = [(0, 1), (1, 0), (0, 1, 2), (2, 1, 0)]
    lengths = [0, 1, 3000, 200_000]

    def body():
        comm = current_world()
        if n_tags is not None:
            monkeypatch.setitem(communicator.TAGS, "bodies of send and recv", range(20000, 20000 + n_tags))
        random = np.random.default_rng(seed)
        members = [comm.subgroup(group, meets=False) for group in groups if comm.rank in group]
        drawn = [(int(random.integers(4)), random.integers(3), random.choice(lengths, 2)) for _ in range(60)]
        if comm.rank == 0:
            requests = []
            for i, (group, count, sizes) in enumerate(drawn):
                bodies = [pattern(size, i + k) for k, size in enumerate(sizes[:count])]
                frame = bytearray([i]) + bytearray(MESSAGE_FRAME_BYTES - 1)
                requests += members[group].isend_message(frame, bodies, groups[group].index(1))
            comm.wait_all(requests)
        elif comm.rank == 1:
            for group in np.random.default_rng(seed + 1).permutation(4):
                for i in (i for i, (drawn_group, _, _) in enumerate(drawn) if drawn_group == group):
                    frame = bytearray(MESSAGE_FRAME_BYTES)
                    request = members[group].irecv_frame(frame, None if i % 2 else groups[group].index(0))
                    members[group].wait_all([request])
                    assert frame[0] == i
                    for k, size in enumerate(drawn[i][2][: drawn[i][1]]):
                        received = np.zeros(size, BYTES)
                        members[group].wait_all(members[group].irecv_body(request, received))
                        assert (received == pattern(size, i + k)).all()
        return True

    assert all(spmd(3, body))


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


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 1000, 1050])
def test_messages_beyond_the_largest(spmd, monkeypatch, length):
    """Large messages go in pieces and arrive as one."""

    def body():
        comm = current_world()
        if not comm.shares_objects:
            monkeypatch.setattr("spmd_grid.transport.mpi.messages.LARGEST_MESSAGE", 100)
        received = np.zeros((2, length), BYTES)
        if comm.rank == 0:
            requests = comm.isend(pattern(length), 1, 4) + comm.isend(pattern(length, 1), 1, 4)
            assert comm.shares_objects or len(requests) == 2 * max(1, -(-length // 100))
        else:
            requests = comm.irecv(received[0], 0, 4) + comm.irecv(received[1], 0, 4)
        comm.wait_all(requests)
        return comm.rank == 0 or ((received[0] == pattern(length)).all() and (received[1] == pattern(length, 1)).all())

    assert communicator.LARGEST_MESSAGE < 1 << 31
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


def test_tags_are_of_one_use_each():
    tags = [tag for tags in communicator.TAGS.values() for tag in tags]
    assert len(tags) == len(set(tags)) and min(tags) >= 0 and max(tags) <= 32767  # what MPI promises at least
    assert communicator.tag_of("channels", 8192) == communicator.tag_of("channels") == 8192
