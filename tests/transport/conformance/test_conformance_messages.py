"""One suite for every transport: messages, frames and their bodies."""

import numpy as np
import pytest
from byte_patterns import BYTES, SIZES, pattern

from spmd_grid.transport import communicator
from spmd_grid.transport.communicator import MESSAGE_FRAME_BYTES
from spmd_grid.transport.launch import current_world


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


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 1000, 1050])
def test_messages_beyond_the_largest(spmd, monkeypatch, length):
    """Large messages go in pieces and arrive as one."""

    def body():
        comm = current_world()
        if not comm.shares_objects:
            monkeypatch.setattr("spmd_grid.transport.mpi.buffers.LARGEST_MESSAGE", 100)
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


def test_tags_are_of_one_use_each():
    tags = [tag for tags in communicator.TAGS.values() for tag in tags]
    assert len(tags) == len(set(tags)) and min(tags) >= 0 and max(tags) <= 32767  # what MPI promises at least
    assert communicator.tag_of("channels", 8192) == communicator.tag_of("channels") == 8192
