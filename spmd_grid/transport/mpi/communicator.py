"""The communicator over MPI's processes.

The package talks on a duplicate of the user's communicator, so its messages never meet the program's own.  Headers
travel by a persistent ``MPI_Allgather`` that is polled, since a blocking call may wait longer than the message takes.
Where a node has more ranks than cores, waiting ranks sleep between polls, so that they do not slow the one that
computes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from spmd_grid.errors import DeadlockError, MismatchError, SpmdError, TransportError
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Frames, tag_of
from spmd_grid.transport.mismatch import DIFFERENT_GROUPS, listed, mismatch
from spmd_grid.transport.mpi.buffers import all_equal, by_counts, pieces, send_straight
from spmd_grid.transport.mpi.group_creation import Gathering
from spmd_grid.transport.mpi.library import MPI, abort, library
from spmd_grid.transport.mpi.liveness.lifeline import Departure
from spmd_grid.transport.mpi.mailbox import FrameReceive, group_name
from spmd_grid.transport.mpi.watched_requests import Arrival, Creation, FrameSend, Watched, absent
from spmd_grid.transport.mpi.wire import MpiWire
from spmd_grid.transport.wire import Messages
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.settings import Settings

__all__ = ["MpiCommunicator"]

# Polls before a wait looks after other things as well (and, with more ranks than cores, sleeps).
_EAGER_POLLS = 4000
_POLITE_POLLS = 20
# A polite rank sleeps a part of what it has waited so far, so it oversleeps by no more than that part.
_NAP_PER_WAIT = 1 / 16
_LONGEST_NAP = 1e-3
# How long a process that was cut off waits for members that may be making a communicator with it.
_FINISHING_SECONDS = 1.0


class MpiCommunicator:
    """An ordered group of MPI processes (the protocol is `communicator.Communicator`)."""

    shares_objects = False
    meeting = None

    def __init__(self, world, processes: tuple[int, ...]):
        self.rank = processes.index(world.process.rank)
        self.size = len(processes)
        self.processes = processes
        self.process = world.process
        self.name = group_name(processes)
        self.comm = None  # of MPI: made when the members first meet
        self.is_open = False  # whether they have met, and found that they all think of the same order
        self.frame = bytearray(FRAME_BYTES)
        self.started = 0
        self.channels = 0
        self._world = world
        self._lifeline = world.lifeline
        self._polite = world.polite
        self._frames = bytearray(FRAME_BYTES * self.size)
        frames = memoryview(self._frames)
        self._headers = [frames[i * FRAME_BYTES : i * FRAME_BYTES + HEADER_BYTES] for i in range(self.size)]
        self._swapped = Frames(b"", self._frames, None)
        self._swap = None
        self._swap_done = None
        self.times_well = not world.polite
        self.library = MPI.Get_library_version().splitlines()[0]
        seen = world.process.arena.base_of
        self.near = [i for i, process in enumerate(processes) if i != self.rank and seen(process) is not None]
        self.shares_memory = self.size > 1 and len(self.near) == self.size - 1
        # Counted for the lifeline, which compares them between processes.
        self.entered = 0
        self.sent = [0] * self.size
        self.received = [0] * self.size

    def subgroup(self, processes: Sequence[int], meets: bool = True, grid=None) -> MpiCommunicator:
        processes = tuple(processes)
        groups = self._world.groups
        found = groups.get(processes)
        if found is None:
            found = groups[processes] = MpiCommunicator(self._world, processes)
        if meets and not found.is_open:
            recorder = self.process.recorder
            if recorder is None or not recorder.is_idle:
                found.open(grid)
            elif found.comm is None:
                recorder.run(Creation(processes, self.process.activity), None, found.open, grid)
            else:
                recorder.watch(Creation(processes, self.process.activity), found.open, grid)
        return found

    def open(self, grid=None) -> None:
        """Makes what meetings need, once all members have come with the same order.

        Collective over the set of members.  ``grid``: whose group it is, for reports.  Raises MismatchError.
        """
        if self.size > 1:
            if self._lifeline is not None:
                self._lifeline.waiting = Creation(self.processes)
            gathering, made = self._gathering(self._said(grid)), []
            try:
                self._meet_and_make(gathering, made)
            except MismatchError:
                raise
            except BaseException:
                self._finish_making(gathering, made)
                raise
            finally:
                if self._lifeline is not None:
                    self._lifeline.waiting = None
        elif self.comm is None:
            self.comm = self._world.alone
        self.is_open = True

    def _meet_and_make(self, gathering: Gathering, made: list) -> None:
        told = gathering.compare(self.processes)
        if told is not None:
            error = mismatch(told, DIFFERENT_GROUPS)
            error.is_shared = True
            raise error
        if self.comm is None:
            world = self._world.comm
            group = world.Get_group()
            members = group.Incl(self.processes)
            if not made:
                made.extend(map(world.Create_group, [members]))  # made and noted in one call of C
            self.comm = made[0]
            members.Free()
            group.Free()

    def _finish_making(self, gathering: Gathering, made: list) -> None:
        """Takes part to the end, after an exception: members that are making the communicator wait for this one in MPI,
        where nobody can reach them.  Where they are, all have come to the gathering, so it ends soon.
        """
        deadline = time.perf_counter() + _FINISHING_SECONDS

        def poll(test) -> None:
            while not test():
                if time.perf_counter() > deadline:
                    raise TransportError("not all members have come")
                time.sleep(0)

        gathering.poll_by(poll)
        with suppress(SpmdError):
            self._meet_and_make(gathering, made)

    def _said(self, grid) -> str:
        activity = self.process.activity
        doing = "a group is used for the first time" if activity is None else activity.describe()
        whose = "" if grid is None else f" on {grid!r}"
        return f"{self.process.label()}: {doing} in the group {listed(self.processes)}{whose} at {call_site()}"

    def _gathering(self, said: str) -> Gathering:
        return Gathering(self._world.comm, self.processes, said, self._poll)

    def compare(self, word: str, said: str) -> list[str] | None:
        if self.size == 1:
            return None
        self.entered += 1
        if self._lifeline is not None:
            self._lifeline.waiting = self
        told = self._gathering(said).compare(word)
        if self._lifeline is not None:
            self._lifeline.waiting = None
        self.is_open = self.comm is not None
        return told

    def watch(self, check: bool | None, timeout: float | None) -> None:
        asked = self._world.watched.asked(check, timeout)
        if (check, timeout) != (None, None) and self.size > 1:
            said = f"{self.process.label()}: init_grid(check={check}, timeout={timeout}) at {call_site()}"
            everybodys = self._gathering(said).union({self.process.rank: asked})
            asked = Settings.joined([everybodys[process] for process in self.processes])
        self._world.watch(asked)

    def release(self) -> None:
        if self._swap is not None:
            self._swap.Free()
            self._swap = None

    # -- meetings --------------------------------------------------------------------------------------------

    def swap_frames(self, exposed=None) -> Frames:
        self.entered += 1
        if self._swap is None:
            self._swap = self._make_swap()
            self._swap_done = self._swap.Test
        self._swap.Start()
        if not self._swap_done():
            lifeline = self._lifeline
            if lifeline is not None:
                lifeline.waiting = self
            self._finish(self._swap)
            if lifeline is not None:
                lifeline.waiting = None
        swapped = self._swapped
        swapped.headers = b"".join(self._headers)
        return swapped

    def _make_swap(self):
        send, receive = [self.frame, FRAME_BYTES, MPI.BYTE], [self._frames, FRAME_BYTES, MPI.BYTE]
        try:
            return self.comm.Allgather_init(send, receive)
        except NotImplementedError:  # MPI before 4.0
            return _RepeatedSwap(self.comm, send, receive)

    def share(self, value) -> list:
        raise TransportError("MPI processes share no Python objects")

    def arrive(self) -> Arrival:
        self.entered += 1
        return Arrival(self, self.comm.Ibarrier())

    def barrier(self) -> None:
        self.wait_all([self.arrive()])

    def hopeless(self, departed: dict[int, Departure]) -> int | None:
        return absent(self.processes, self.entered, departed)

    # -- messages --------------------------------------------------------------------------------------------

    def isend(self, buffer, destination: int, tag: int) -> list:
        comm = self.comm
        return [comm.Isend([piece, len(piece), MPI.BYTE], destination, tag) for piece in pieces(buffer)]

    def irecv(self, buffer, source: int, tag: int) -> list:
        comm = self.comm
        return [comm.Irecv([piece, len(piece), MPI.BYTE], source, tag) for piece in pieces(buffer)]

    def isend_message(self, frame: bytearray, bodies: Sequence, destination: int) -> list:
        self.sent[destination] += 1
        first, *rest = self._world.mailbox.send(self.name, frame, bodies, self.processes[destination])
        return [FrameSend(self, first, destination), *rest]

    def irecv_frame(self, frame: bytearray, source: int | None) -> FrameReceive:
        mailbox = self._world.mailbox
        return mailbox.ask(FrameReceive(self, mailbox, frame, source))

    def source_of(self, request: FrameReceive) -> int:
        return request.source

    def irecv_body(self, request: FrameReceive, buffer) -> list:
        return self._world.mailbox.body(request.bodies, buffer)

    def wire(self, messages: Messages, sources, readers, number: int, epoch, activity) -> MpiWire:
        comm, tag, world = self.comm, tag_of("channels", number), self._world

        def persistent(make, places_and_buffers) -> list:
            return [make([buffer, len(buffer), MPI.BYTE], place, tag) for place, buffer in places_and_buffers]

        receives = [(place, piece) for place, buffer in messages.receives for piece in pieces(buffer)]
        sends = [(place, piece) for place, buffer in messages.sends for piece in pieces(buffer)]
        # A short takes the place of a whole message, however many pieces that has.
        shorts = [
            (place, piece)
            for (place, buffer), (_, short) in zip(messages.sends, messages.shorts, strict=True)
            for piece in [short, *[short[:0]] * (len(pieces(buffer)) - 1)]
        ]
        made = zip((comm.Recv_init, comm.Send_init, comm.Send_init), (receives, sends, shorts), strict=True)
        requests = [persistent(make, group) for make, group in made]
        wire = MpiWire(self, requests, library(), _nap if self._polite else None, self._lifeline)
        wire.watch((self.processes, number), epoch, messages, sources, readers, activity)
        world.wires.add(wire)
        wire.on_close = world.forget
        wire.send_straight = lambda message: send_straight(comm, message, tag)
        return wire

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait_all(self, requests: Sequence) -> None:
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
        """For a message to this very process, which it would have to send meanwhile."""
        self._world.mailbox.withdraw(request)
        what = "a receive" if self.process.activity is None else self.process.activity.describe()
        raise DeadlockError(f"{what}: {self.process.label()} waits for a message of its own, and has sent none")

    def test_all(self, requests: Sequence) -> bool:
        return all([request.Test() for request in requests])

    def give_way(self) -> None:
        if self._polite:
            time.sleep(0)

    def _finish(self, request) -> None:
        test = request.Test
        if not self.process.pending:
            for _ in range(_POLITE_POLLS if self._polite else _EAGER_POLLS):
                if test():
                    return
        self._poll(test)

    def _poll(self, test) -> None:
        """Waits by looking again and again: a wait in MPI itself would not end where a partner was cut off."""
        began, process, lifeline = time.perf_counter(), self.process, self._lifeline
        while not test():
            process.progress()
            if lifeline is not None:
                lifeline.listen()
            if self._polite:
                _nap(time.perf_counter() - began)

    # -- collectives that move bytes -------------------------------------------------------------------------

    def broadcast(self, buffer, root: int) -> None:
        self._finish_call("bcast", [buffer, len(buffer), MPI.BYTE], root)

    def all_gather(self, send, receive, counts: Sequence[int]) -> None:
        if all_equal(counts):
            self._finish_call("allgather", [send, len(send), MPI.BYTE], [receive, counts[0], MPI.BYTE])
        else:
            self._finish_call("allgatherv", [send, len(send), MPI.BYTE], by_counts(receive, counts))

    def gather(self, send, receive, counts: Sequence[int], root: int) -> None:
        target = by_counts(receive, counts) if self.rank == root else None
        self._finish_call("gatherv", [send, len(send), MPI.BYTE], target, root)

    def scatter(self, send, receive, counts: Sequence[int], root: int) -> None:
        source = by_counts(send, counts) if self.rank == root else None
        self._finish_call("scatterv", source, [receive, len(receive), MPI.BYTE], root)

    def all_to_all(self, send, send_counts: Sequence[int], receive, receive_counts: Sequence[int]) -> None:
        # Never plain Alltoall: counts that are equal here need not be equal on other members, who would call the other.
        self._finish_call("alltoallv", by_counts(send, send_counts), by_counts(receive, receive_counts))

    def _finish_call(self, name: str, *args) -> None:
        # The nonblocking forms: started operations have to move on meanwhile, and a partner may be cut off.
        self._finish(getattr(self.comm, "I" + name)(*args))

    def abort(self, message: str) -> None:
        sys.stdout.flush()
        print(message, file=sys.stderr, flush=True)
        abort()


class _RepeatedSwap:
    """What ``Allgather_init`` gives, for libraries that lack it."""

    def __init__(self, comm, send, receive):
        self._start = lambda: comm.Iallgather(send, receive)

    def Start(self) -> None:
        self._request = self._start()

    def Test(self) -> bool:
        return self._request.Test()

    def Wait(self) -> None:
        self._request.Wait()

    def Free(self) -> None:
        self._start = None


def _nap(waited: float) -> None:
    """Sleeps for a part of the seconds waited so far, so that whoever computes may run."""
    time.sleep(min(_LONGEST_NAP, waited * _NAP_PER_WAIT))
