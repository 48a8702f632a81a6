"""The communicator over MPI's processes.

All messages use duplicates of the user's communicator, so they never match the program's own.  Frames travel by a
persistent ``MPI_Allgather`` that is polled, since a blocking call may wait longer than the message takes.  On a node
with more ranks than cores, waiting ranks sleep between polls, so that they do not slow the one that computes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from spmd_grid.errors import DeadlockError, TransportError
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Frames, tag_of
from spmd_grid.transport.lost_messages import Sent
from spmd_grid.transport.mismatch import listed
from spmd_grid.transport.mpi.buffers import all_equal, by_counts, pieces, send_straight
from spmd_grid.transport.mpi.frame_swap import FrameSwap, frame_swap
from spmd_grid.transport.mpi.group import Group
from spmd_grid.transport.mpi.group_creation import Gathering, open_group
from spmd_grid.transport.mpi.library import MPI, abort, library
from spmd_grid.transport.mpi.mailbox import FrameReceive
from spmd_grid.transport.mpi.watched_requests import Arrival, Creation, FrameSend, MeetingWait, Testable, Watched
from spmd_grid.transport.mpi.wire import MpiWire
from spmd_grid.transport.mpi.world import World
from spmd_grid.transport.wire import Messages
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.settings import Settings
from spmd_grid.watch.traffic import Activity

__all__ = ["MpiCommunicator"]

# Polls before a wait also makes other progress (and, with more ranks than cores, sleeps).
_EAGER_POLLS, _POLITE_POLLS = 4000, 20
# Between naps, in waits for another node: a message of MiBs needs its receiver many times.  If that took as long as a
# nap, others of its core have had it, such as the network, and it needs no nap.
_YIELDS = 4
# A tag of no message: MPI libraries look for one thoroughly, and make progress meanwhile.
_NEVER_SENT = tag_of("none")
# A polite rank sleeps for a part of its waiting time so far, so it oversleeps by at most that part.  Large messages
# take many turns of both ends, each of which may sleep: only long waits, for processes that compute, have long naps.
_NAP_PER_WAIT, _LONGEST_NAP = 1 / 16, 1e-4
_NAP_PER_LONG_WAIT, _LONGEST_OF_ALL = 1 / 512, 1e-3


class MpiCommunicator(Group):
    """An ordered group of MPI processes (the protocol is `communicator.Communicator`)."""

    shares_objects = False
    meeting: Any = None

    def __init__(self, world: World, processes: tuple[int, ...], known: dict[tuple[int, ...], MpiCommunicator]):
        super().__init__(processes, world.process.rank)
        self.process = world.process
        self.frame = bytearray(FRAME_BYTES)
        self.started = 0
        self.channels = 0
        self.world = world
        self._known = known  # the communicators of this process and world, by their processes
        self._lifeline = world.lifeline
        self._polite = world.polite
        self._frames = bytearray(FRAME_BYTES * self.size)
        frames = memoryview(self._frames)
        self._headers = [frames[i * FRAME_BYTES : i * FRAME_BYTES + HEADER_BYTES] for i in range(self.size)]
        self._swapped = Frames(b"", self._frames, None)
        self._swap: FrameSwap | None = None
        self._swap_done: Callable[[], bool]
        self.times_well = not world.polite
        self.library = MPI.Get_library_version().splitlines()[0]
        base_of = world.process.arena.base_of
        self.near: Sequence[int] = [
            i for i, process in enumerate(processes) if i != self.rank and base_of(process) is not None
        ]
        self.shares_memory = self.size > 1 and len(self.near) == self.size - 1
        known[processes] = self

    def subgroup(self, processes: Sequence[int], meets: bool = True, grid: object = None) -> MpiCommunicator:
        processes = tuple(processes)
        found = self._known.get(processes)
        if found is None:
            found = MpiCommunicator(self.world, processes, self._known)
        if meets and not found.is_open:
            recorder = self.process.recorder
            if recorder is None or not recorder.is_idle:
                found.open(grid)
            elif found.comm is None:
                recorder.run(Creation(processes, self.process.activity), None, found.open, grid)
            else:
                recorder.watch(Creation(processes, self.process.activity), found.open, grid)
        return found

    def open(self, grid: object = None) -> None:
        """Makes the communicator that meetings need, once all members have come with the same order.

        Collective over the set of members.  Reports name the ``grid``.  Raises MismatchError.
        """
        if self.size > 1:
            self.is_opening = True
            if self._lifeline is not None:
                self._lifeline.waiting = Creation(self.processes)
            try:
                open_group(self, self.world.comm, self._gathering(self._first_use(grid)))
            finally:
                self.is_opening = False
                if self._lifeline is not None:
                    self._lifeline.waiting = None
        elif self.comm is None:
            self.comm = self.world.alone
        self.is_open = True

    def _first_use(self, grid: object) -> str:
        """A description of the first use of the group, for error messages."""
        activity = self.process.activity
        doing = "a group is used for the first time" if activity is None else activity.describe()
        whose = "" if grid is None else f" on {grid!r}"
        return f"{self.process.label()}: {doing} in the group {listed(self.processes)}{whose} at {call_site()}"

    def _gathering(self, text: str) -> Gathering:
        return Gathering(self.world.comm, self.processes, text, self._poll)

    def compare(self, value: str, text: str) -> list[str] | None:
        if self.size == 1:
            return None
        self.entered += 1
        if self._lifeline is not None:
            self._lifeline.waiting = MeetingWait(self)
        texts = self._gathering(text).compare(value)
        if self._lifeline is not None:
            self._lifeline.waiting = None
        self.is_open = self.comm is not None
        return texts

    def watch(self, check: bool | None, timeout: float | None) -> None:
        asked = self.world.watched.asked(check, timeout)
        if (check, timeout) != (None, None) and self.size > 1:
            text = f"{self.process.label()}: init_grid(check={check}, timeout={timeout}) at {call_site()}"
            found = self._gathering(text).union({self.process.rank: asked})
            asked = Settings.joined([found[process] for process in self.processes])
        self.world.watch(asked)

    def release(self) -> None:
        if self._swap is not None:
            self._swap.Free()
            self._swap = None

    # -- meetings --------------------------------------------------------------------------------------------

    def swap_frames(self, exposed: Any = None) -> Frames:
        self.entered += 1
        if self._swap is None:
            self._swap = frame_swap(self.comm, self.frame, self._frames, self.shares_memory)
            self._swap_done = self._swap.Test
        self._swap.Start()
        self._finish_meeting(self._swap, self._swap_done)
        swapped = self._swapped
        swapped.headers = b"".join(self._headers)
        return swapped

    def _finish_meeting(self, request: Testable, test: Callable[[], bool]) -> None:
        """Waits until a meeting has been completed; reports say that this process is in it."""
        if not test():
            lifeline = self._lifeline
            if lifeline is not None:
                lifeline.waiting = MeetingWait(self)
            self._finish(request)
            if lifeline is not None:
                lifeline.waiting = None

    def share(self, value: Any) -> NoReturn:
        raise TransportError("MPI processes share no Python objects")

    def arrive(self) -> Arrival:
        self.entered += 1
        return Arrival(self, self.comm.Ibarrier())

    def barrier(self) -> None:
        self.wait_all([self.arrive()])

    # -- messages --------------------------------------------------------------------------------------------

    def isend(self, buffer: np.ndarray, destination: int, tag: int) -> list[MPI.Request]:
        return [self.comm.Isend([piece, len(piece), MPI.BYTE], destination, tag) for piece in pieces(buffer)]

    def irecv(self, buffer: np.ndarray, source: int, tag: int) -> list[MPI.Request]:
        return [self.comm.Irecv([piece, len(piece), MPI.BYTE], source, tag) for piece in pieces(buffer)]

    def isend_message(
        self, frame: bytearray, bodies: Sequence[np.ndarray], destination: int, sent: Sent | None = None
    ) -> list[Testable]:
        self.note_sent(destination, sent)
        first, *rest = self.world.mailbox.send(self.name, frame, bodies, self.processes[destination])
        return [FrameSend(self, first, destination), *rest]

    def irecv_frame(self, frame: bytearray, source: int | None) -> FrameReceive:
        return self.world.mailbox.request(FrameReceive(self, self.world.mailbox, frame, source))

    def source_of(self, request: FrameReceive) -> int:
        return request.sender

    def irecv_body(self, request: FrameReceive, buffer: np.ndarray) -> list[Testable]:
        return self.world.mailbox.body(request.bodies, buffer)

    def wire(
        self,
        messages: Messages,
        sources: Sequence[int],
        readers: Sequence[int],
        number: int,
        epoch: Callable[[], int],
        activity: Activity | None,
    ) -> MpiWire:
        comm, tag, world = self.comm, tag_of("channels", number), self.world
        receives = [(member, piece) for member, buffer in messages.receives for piece in pieces(buffer)]
        sends = [(member, piece) for member, buffer in messages.sends for piece in pieces(buffer)]
        # A short message replaces a whole one, whatever its number of pieces.
        shorts = [
            (member, piece)
            for (member, buffer), (_, short) in zip(messages.sends, messages.shorts, strict=True)
            for piece in [short, *[short[:0]] * (len(pieces(buffer)) - 1)]
        ]
        made = ((comm.Recv_init, receives), (comm.Send_init, sends), (comm.Send_init, shorts))
        requests = [
            [make([buffer, len(buffer), MPI.BYTE], member, tag) for member, buffer in buffers] for make, buffers in made
        ]
        wire = MpiWire(
            self,
            requests,
            library(),
            _nap if self._polite else None,
            self._lifeline,
            lambda message: send_straight(comm, message, tag),
            world.forget,
            self._stir,
            self._duplicate,
        )
        wire.watch((self.processes, number), epoch, messages, sources, readers, activity)
        world.wires.add(wire)
        return wire

    def _stir(self) -> None:
        """Lets MPI move messages on their way to other nodes, while this process waits in its node's memory."""
        if not self.shares_memory:
            self.comm.Iprobe(tag=_NEVER_SENT)

    def _duplicate(self) -> MPI.Intracomm:
        """Another communicator of the group.  Collective."""
        made, request = self.comm.Idup()
        self._finish(request)
        return made

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait_all(self, requests: Sequence[Testable]) -> None:
        lifeline = self._lifeline
        if requests and isinstance(requests[0], Watched):
            if isinstance(requests[0], FrameReceive) and requests[0].is_own():
                self._refuse_to_wait(requests[0])
            if lifeline is not None:
                lifeline.waiting = requests[0]
        for request in requests:
            self._finish(request)
        if lifeline is not None:
            lifeline.waiting = None

    def _refuse_to_wait(self, request: FrameReceive) -> None:
        """Raises DeadlockError: only this process could send the message, and it waits."""
        self.world.mailbox.withdraw(request)
        what = "a receive" if self.process.activity is None else self.process.activity.describe()
        raise DeadlockError(f"{what}: {self.process.label()} waits for a message of its own, and has sent none")

    def test_all(self, requests: Sequence[Testable]) -> bool:
        return all([request.Test() for request in requests])

    def give_way(self) -> None:
        if self._polite:
            os.sched_yield()

    def _finish(self, request: Testable) -> None:
        test = request.Test
        if not self.process.pending:
            for _ in range(_POLITE_POLLS if self._polite else _EAGER_POLLS):
                if test():
                    return
        self._poll(test)

    def _poll(self, test: Callable[[], bool]) -> None:
        """Waits by polling: a wait in MPI itself would not end if a partner was cut off."""
        began, process, lifeline = time.perf_counter(), self.process, self._lifeline
        while not test():
            process.progress()
            if lifeline is not None:
                lifeline.listen()
            if self._polite:
                now, gave_way = time.perf_counter(), 0.0
                if not self.shares_memory:
                    for _ in range(_YIELDS):
                        os.sched_yield()  # `time.sleep(0)` sleeps
                        if test():
                            return
                    gave_way = time.perf_counter() - now
                _nap(now - began, gave_way)

    # -- collectives that move bytes -------------------------------------------------------------------------

    def broadcast(self, buffer: np.ndarray, root: int) -> None:
        self._finish_call("bcast", [buffer, len(buffer), MPI.BYTE], root)

    def all_gather(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int]) -> None:
        if all_equal(counts):
            self._finish_call("allgather", [send, len(send), MPI.BYTE], [receive, counts[0], MPI.BYTE])
        else:
            self._finish_call("allgatherv", [send, len(send), MPI.BYTE], by_counts(receive, counts))

    def gather(self, send: np.ndarray, receive: np.ndarray | None, counts: Sequence[int], root: int) -> None:
        target = by_counts(receive, counts) if self.rank == root else None
        self._finish_call("gatherv", [send, len(send), MPI.BYTE], target, root)

    def scatter(self, send: np.ndarray | None, receive: np.ndarray, counts: Sequence[int], root: int) -> None:
        source = by_counts(send, counts) if self.rank == root else None
        self._finish_call("scatterv", source, [receive, len(receive), MPI.BYTE], root)

    def all_to_all(
        self, send: np.ndarray, send_counts: Sequence[int], receive: np.ndarray, receive_counts: Sequence[int]
    ) -> None:
        # Never plain Alltoall: counts that are equal here may differ on other members, which would call Alltoallv.
        self._finish_call("alltoallv", by_counts(send, send_counts), by_counts(receive, receive_counts))

    def _finish_call(self, name: str, *args: object) -> None:
        # The nonblocking forms: started operations must go on meanwhile, and a partner may be cut off.
        self._finish(getattr(self.comm, "I" + name)(*args))

    def abort(self, message: str) -> None:
        sys.stdout.flush()
        print(message, file=sys.stderr, flush=True)
        abort()


def _nap(waited: float, gave_way: float) -> None:
    """Sleeps for a part of the seconds waited so far, so that processes that compute can run.

    Not where the process ``gave_way`` to others for as many seconds just now, and they took the core.
    """
    nap = min(_LONGEST_OF_ALL, max(min(_LONGEST_NAP, waited * _NAP_PER_WAIT), waited * _NAP_PER_LONG_WAIT))
    if not gave_way or gave_way < nap:
        time.sleep(nap)
