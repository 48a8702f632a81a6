"""The communicator over simulated ranks, threads of one process.

A `Rendezvous` serves every collective, an inbox every message.  Collectives that move bytes share the buffers by
reference, copy, and meet again, so that no buffer is accessed after its owner has gone on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Frames, Process, tag_of
from spmd_grid.transport.lost_messages import Sent
from spmd_grid.transport.simulated.messages import Inbox, Pending, PendingReceive, PendingSend, SentMessage, copy_bytes
from spmd_grid.transport.simulated.scheduler import RankWait
from spmd_grid.transport.simulated.wire import ThreadWire
from spmd_grid.transport.simulated.world import Rendezvous, SharedGroup, ThreadWorld
from spmd_grid.transport.wire import Messages
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.recorder import Recorder
from spmd_grid.watch.traffic import Activity

__all__ = ["ThreadCommunicator", "communicator_of_all"]

_FRAME_TAG = tag_of("frames of send and recv")


class ThreadCommunicator:
    """A group of simulated ranks, as one of them sees it (the protocol is `communicator.Communicator`)."""

    shares_memory = shares_objects = True
    meeting: Any = None
    times_well = False
    library = "simulated"

    def __init__(
        self,
        world: ThreadWorld,
        group: SharedGroup,
        rank: int,
        process: Process,
        known: dict[tuple[int, ...], ThreadCommunicator],
    ):
        self.rank = rank
        self.size = len(group.processes)
        self.processes = group.processes
        self.process = process
        self.frame = bytearray(FRAME_BYTES)
        self.started = 0
        self.channels = 0
        self._world = world
        self._scheduler = world.scheduler
        self._group = group
        self._met = 0  # number of meetings that this member has entered
        self._known = known  # the communicators of this rank, by their processes
        self.near: Sequence[int] = [member for member in range(self.size) if member != rank]
        known[group.processes] = self

    def subgroup(self, processes: Sequence[int], meets: bool = True, grid: object = None) -> ThreadCommunicator:
        processes = tuple(processes)
        found = self._known.get(processes)
        if found is None:
            member = processes.index(self.process.rank)
            group = self._world.group(processes)
            found = ThreadCommunicator(self._world, group, member, self.process, self._known)
        return found

    def compare(self, value: str, text: str) -> list[str] | None:
        values, texts = zip(*self.share((value, text)), strict=True)
        return None if len(set(values)) == 1 else list(texts)

    def watch(self, check: bool | None, timeout: float | None) -> None:
        world, process = self._world, self.process
        with self._scheduler.lock:
            watched = world.watched = world.watched.asked(check, timeout)
        if not watched.records:
            process.recorder = None
        elif process.recorder is None:
            process.recorder = Recorder(check=watched.check)
        else:
            process.recorder.check = watched.check

    # -- meetings --------------------------------------------------------------------------------------------

    def swap_frames(self, exposed: Any = None) -> Frames:
        return self._meet((bytes(self.frame), exposed), _join_frames).result

    def share(self, value: Any) -> list[Any]:
        return self._meet(value).values

    def arrive(self) -> Rendezvous:
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            return self._join(None, None)

    def barrier(self) -> None:
        self._meet(None)

    def _meet(self, value: Any, combine: Callable[[list[Any]], Any] | None = None) -> Rendezvous:
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            meeting = self._join(value, combine)
        if meeting.missing:
            self._wait([meeting])
        return meeting

    def _join(self, value: Any, combine: Callable[[list[Any]], Any] | None) -> Rendezvous:
        """Enters the next meeting.  Called with the lock held."""
        number = self._met
        self._met += 1
        meeting = self._group.meetings.get(number)
        if meeting is None:
            meeting = self._group.meetings[number] = Rendezvous(self.processes)
        meeting.values[self.rank] = value
        is_last = len(meeting.missing) == 1
        if is_last and combine is not None:
            meeting.result = combine(meeting.values)
        meeting.missing.discard(self.rank)  # then the others may go on: they look without the lock
        if is_last:
            del self._group.meetings[number]
            for rank in meeting.waiting:
                self._scheduler.wake(rank)
        return meeting

    # -- messages --------------------------------------------------------------------------------------------

    def isend(self, buffer: np.ndarray, destination: int, tag: int) -> list[PendingSend]:
        return self._send(buffer, destination, tag, (), None)

    def _send(
        self, buffer: np.ndarray | bytearray, member: int, tag: int, bodies: Sequence[np.ndarray], sent: Sent | None
    ) -> list[PendingSend]:
        data, copies = np.frombuffer(buffer, np.uint8), deque(np.frombuffer(body, np.uint8).copy() for body in bodies)
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            box = self._group.boxes[member]
            receive = box.take_receive(self.rank, tag)
            if receive is None:
                box.clock += 1
                pending = None
                if tag == _FRAME_TAG and member != self.rank and self._scheduler.keeps_waiting():
                    pending = PendingSend(self._scheduler, self.processes, member)
                message = SentMessage(box.clock, data.copy(), copies, pending, sent)
                box.arrived.setdefault((self.rank, tag), deque()).append(message)
                if pending is not None:
                    return [pending]
            else:
                receive.complete(data, copies, self.rank)
                if receive.waiter is not None:
                    self._scheduler.wake(receive.waiter)
        return []

    def isend_message(
        self, frame: bytearray, bodies: Sequence[np.ndarray], destination: int, sent: Sent | None = None
    ) -> list[PendingSend]:
        return self._send(frame, destination, _FRAME_TAG, bodies, sent)

    def irecv(self, buffer: np.ndarray, source: int, tag: int) -> list[PendingReceive]:
        return [self._post(np.frombuffer(buffer, np.uint8), source, tag)]

    def irecv_frame(self, frame: bytearray, source: int | None) -> PendingReceive:
        return self._post(np.frombuffer(frame, np.uint8), source, _FRAME_TAG)

    def source_of(self, request: PendingReceive) -> int:
        return request.sender

    def irecv_body(self, request: PendingReceive, buffer: np.ndarray) -> list[PendingReceive]:
        copy_bytes(request.bodies.popleft(), buffer)
        return []

    def _post(self, target: np.ndarray, source: int | None, tag: int, at_most: bool = False) -> PendingReceive:
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            box = self._group.boxes[self.rank]
            box.clock += 1
            receive = PendingReceive(self.processes, target, source, box.clock, at_most)
            sender = self._sender_of(box, source, tag)
            if sender is None:
                box.posted.setdefault((source, tag), deque()).append(receive)
            else:
                message = box.take_message(sender, tag)
                receive.complete(message.data, message.bodies, sender)
                pending = message.pending
                if pending is not None:
                    pending.is_received = True
                    if pending.waiter is not None:
                        self._scheduler.wake(pending.waiter)
            return receive

    def _sender_of(self, box: Inbox, source: int | None, tag: int) -> int | None:
        """The sender of the message that a receive takes; from any source, of the earliest, or as the seed decides."""
        if source is not None:
            return source if (source, tag) in box.arrived else None
        senders = box.senders(tag)
        return self._scheduler.any_of(senders) if senders else None

    def wire(
        self,
        messages: Messages,
        sources: Sequence[int],
        readers: Sequence[int],
        number: int,
        epoch: Callable[[], int],
        activity: Activity | None,
    ) -> ThreadWire:
        tag = tag_of("channels", number)

        def receive(buffer: np.ndarray, member: int) -> PendingReceive:
            return self._post(buffer, member, tag, at_most=True)

        def send(buffer: np.ndarray, member: int) -> None:
            self.isend(buffer, member, tag)

        return ThreadWire(self, messages, receive, send, self._wake, sources, readers, activity)

    def _wake(self, members: Iterable[int]) -> None:
        """Lets waiting members check again whether they can go on."""
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            for member in members:
                self._scheduler.wake(self.processes[member])

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait_all(self, requests: Sequence[Rendezvous | Pending]) -> None:
        self._scheduler.switch(self.process.rank)
        if not self.test_all(requests):
            self._wait(requests)

    def test_all(self, requests: Sequence[Rendezvous | Pending]) -> bool:
        return all([request.done for request in requests])

    def give_way(self) -> None:
        self._scheduler.look(self.process.rank)
        time.sleep(0)  # without a seed the others need the interpreter

    def _wait(self, requests: Sequence[Rendezvous | Pending]) -> None:
        """Waits for all requests while started operations go on."""
        gate = self.process.gate
        while True:
            self.process.progress()
            if not self._wait_for_any([requests, *(pending.requests for pending in self.process.pending)]):
                raise gate.refusal("an operation", "while another thread of this rank waits in one")
            gate.check()
            if self.test_all(requests):
                return

    def _wait_for_any(self, groups: Sequence[Sequence[Rendezvous | Pending]]) -> bool:
        """Waits until all requests of one group are complete; reports describe the first group.

        Returns False, at once, while another thread of this rank waits.
        """
        me, site = self.process.rank, call_site()

        def register() -> None:
            for request in (request for group in groups for request in group):
                if isinstance(request, Rendezvous):
                    request.waiting.append(me)
                else:
                    request.waiter = me

        return self._scheduler.wait(
            me,
            RankWait(
                ready=lambda: any(map(self.test_all, groups)),
                describe=lambda: self._describe(site),
                awaited=lambda: self._awaited(groups[0]),
                needs_all=not any(isinstance(r, PendingReceive) and r.source is None for r in groups[0]),
            ),
            register,
        )

    def _describe(self, site: str) -> str:
        activity = self.process.activity
        return ("a collective" if activity is None else activity.describe()) + f" at {site}"

    def _awaited(self, requests: Sequence[Rendezvous | Pending]) -> list[int]:
        """The processes that could complete ``requests``, which may be of several groups."""
        awaited: dict[int, None] = {}
        for request in requests:
            if request.done:
                continue
            if isinstance(request, Rendezvous):
                members = sorted(request.missing)
            elif request.source is None:
                members = [member for member in range(self.size) if member != self.rank]
            else:
                members = [request.source]
            awaited.update(dict.fromkeys(request.processes[member] for member in members))
        return list(awaited)

    # -- collectives that move bytes -------------------------------------------------------------------------

    def broadcast(self, buffer: np.ndarray, root: int) -> None:
        buffers = self.share(buffer)
        if self.rank != root:
            copy_bytes(buffers[root], buffer)
        self.barrier()

    def all_gather(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int]) -> None:
        self._collect(self.share(send), receive, counts)
        self.barrier()

    def gather(self, send: np.ndarray, receive: np.ndarray | None, counts: Sequence[int], root: int) -> None:
        parts = self.share(send)
        if receive is not None and self.rank == root:
            self._collect(parts, receive, counts)
        self.barrier()

    def scatter(self, send: np.ndarray | None, receive: np.ndarray, counts: Sequence[int], root: int) -> None:
        whole, counts = self.share((send, counts))[root]
        start = sum(counts[: self.rank])
        copy_bytes(whole[start : start + counts[self.rank]], receive)
        self.barrier()

    def all_to_all(
        self, send: np.ndarray, send_counts: Sequence[int], receive: np.ndarray, receive_counts: Sequence[int]
    ) -> None:
        starts = [0, *accumulate(send_counts)]
        members = self.share((send, starts))
        parts = [data[at[self.rank] : at[self.rank + 1]] for data, at in members]
        self._collect(parts, receive, receive_counts)
        self.barrier()

    def _collect(self, parts: Sequence[np.ndarray], receive: np.ndarray, counts: Sequence[int]) -> None:
        start = 0
        for part, count in zip(parts, counts, strict=True):
            copy_bytes(part, receive[start : start + count])
            start += count

    def abort(self, message: str) -> NoReturn:
        raise TransportError(message)


def communicator_of_all(world: ThreadWorld, rank: int) -> ThreadCommunicator:
    """The communicator of all ranks, for the calling thread, which is ``rank``."""
    process = world.processes[rank]
    process.gate.belong_to_this_thread()
    return ThreadCommunicator(world, world.group(tuple(range(world.size))), rank, process, {})


def _join_frames(values: list[tuple[bytes, Any]]) -> Frames:
    frames = [frame for frame, _ in values]
    return Frames(b"".join(frame[:HEADER_BYTES] for frame in frames), b"".join(frames), [array for _, array in values])
