"""Simulated ranks: the communicator over threads of one process.

A meeting point (`_Meeting`) serves every collective, a mailbox every message.  Collectives that move bytes share the
buffers by reference, copy, and meet again, so that a buffer is never touched after its owner has gone on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.transport.arena import OneProcessArena
from spmd_grid.transport.communicator import (
    FRAME_BYTES,
    HEADER_BYTES,
    Frames,
    Process,
    tag_of,
)
from spmd_grid.transport.simulated.scheduler import Scheduler, Wait
from spmd_grid.transport.simulated.wire import ThreadWire
from spmd_grid.transport.wire import Messages
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.recorder import Recorder
from spmd_grid.watch.settings import Settings
from spmd_grid.watch.trace.runs import RunTrace

__all__ = ["ThreadCommunicator", "ThreadWorld"]

# How long a rank that was cut off waits until the others are out of their operations.
_QUIET_SECONDS = 2.0

_FRAME_TAG = tag_of("frames of send and recv")


class ThreadWorld:
    """All that the simulated ranks of one run share; nothing of it outlives the run."""

    def __init__(self, size: int, seed: int | None, check: bool | None = None, timeout: float | None = None):
        self.size = size
        self.scheduler = Scheduler(size, seed)
        self.processes = [Process(rank, size) for rank in range(size)]
        arena = OneProcessArena()
        self.watched = watched = Settings.from_environment(check=True).asked(check, timeout)
        for process in self.processes:
            process.gate.on_cut = self._cut_off
            process.arena = arena
            process.recorder = Recorder(check=watched.check) if watched.records else None
        self._trace = None if watched.trace is None else RunTrace(watched.trace, self.processes)
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._n_cut_off = 0

    def _cut_off(self, text: str) -> None:
        """Bars the gates of all ranks; returns when no rank is in an operation but those that are cut off as well."""
        if self.scheduler.failure is not None:
            return  # the run is over
        self.scheduler.break_off(partial(self._bar, text))
        deadline = time.monotonic() + _QUIET_SECONDS
        with self.scheduler.lock:
            self._n_cut_off += 1  # those are in their operations still, and touch nothing of others any more
        while (
            sum(not process.gate.is_quiet for process in self.processes) > self._n_cut_off
            and time.monotonic() < deadline
        ):
            time.sleep(1e-4)

    def _bar(self, text: str) -> None:
        for process in self.processes:
            process.gate.bar(text)

    def close(self) -> None:
        """Ends the trace, if there is one; the last act of the run."""
        if self._trace is not None:
            self._trace.close()

    def communicator(self, rank: int) -> ThreadCommunicator:
        """The communicator of all ranks, as ``rank`` sees it."""
        process = self.processes[rank]
        process.gate.belong_here()
        return ThreadCommunicator(self, self.group(tuple(range(self.size))), rank, process, {})

    def group(self, processes: tuple[int, ...]) -> _Group:
        with self.scheduler.lock:
            if processes not in self._groups:
                self._groups[processes] = _Group(processes)
            return self._groups[processes]


class _Group:
    """What the members of one ordered group share."""

    __slots__ = ("boxes", "meetings", "processes")

    def __init__(self, processes: tuple[int, ...]):
        self.processes = processes
        self.meetings: dict[int, _Meeting] = {}
        self.boxes = [_Mailbox() for _ in processes]


class _Meeting:
    """One meeting of a group: what each member brought, and who is still missing."""

    __slots__ = ("missing", "processes", "result", "values", "waiting")

    def __init__(self, processes: tuple[int, ...]):
        self.processes = processes
        self.values: list = [None] * len(processes)
        self.missing = set(range(len(processes)))
        self.waiting: list[int] = []
        self.result = None


class _Mailbox:
    """Messages to one member: sent and not yet asked for, or asked for and not yet sent."""

    __slots__ = ("arrived", "clock", "posted")

    def __init__(self):
        self.arrived: dict[tuple[int, int], deque] = {}
        self.posted: dict[tuple[int | None, int], deque] = {}
        self.clock = 0


class _Receive:
    """A receive that somebody will complete; ``waiter`` is the rank to wake then."""

    __slots__ = ("at_most", "bodies", "done", "processes", "source", "stamp", "target", "waiter")

    def __init__(
        self, processes: tuple[int, ...], target: np.ndarray, source: int | None, stamp: int, at_most: bool = False
    ):
        self.processes = processes
        self.target = target
        self.at_most = at_most  # whether a shorter message will do
        self.source = source
        self.waiter: int | None = None
        self.done = False
        self.stamp = stamp

    def complete(self, data: np.ndarray, bodies: deque, source: int) -> None:
        _copy(data, self.target[: len(data)] if self.at_most else self.target)
        self.bodies = bodies
        self.source = source
        self.done = True


class _Unasked:
    """A message that keeps its sender waiting until ``source``, its receiver, asks for it, or has ended."""

    __slots__ = ("_scheduler", "is_taken", "processes", "source", "waiter")

    def __init__(self, scheduler: Scheduler, processes: tuple[int, ...], source: int):
        self._scheduler = scheduler
        self.processes = processes
        self.source = source
        self.waiter: int | None = None
        self.is_taken = False

    @property
    def done(self) -> bool:
        return self.is_taken or self._scheduler.has_ended(self.processes[self.source])


class ThreadCommunicator:
    """A group of simulated ranks, as one of them sees it (the protocol is `communicator.Communicator`)."""

    shares_memory = shares_objects = True
    meeting = None
    times_well = False
    library = "simulated"

    def __init__(self, world: ThreadWorld, group: _Group, rank: int, process: Process, cache: dict):
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
        self._met = 0
        self._cache = cache
        self.near = [place for place in range(self.size) if place != rank]
        cache[group.processes] = self

    def subgroup(self, processes: Sequence[int], meets: bool = True, grid=None) -> ThreadCommunicator:
        processes = tuple(processes)
        found = self._cache.get(processes)
        if found is None:
            place = processes.index(self.process.rank)
            group = self._world.group(processes)
            found = ThreadCommunicator(self._world, group, place, self.process, self._cache)
        return found

    def compare(self, word: str, said: str) -> list[str] | None:
        words, told = zip(*self.share((word, said)), strict=True)
        return None if len(set(words)) == 1 else list(told)

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

    def swap_frames(self, exposed=None) -> Frames:
        return self._meet((bytes(self.frame), exposed), _join_frames).result

    def share(self, value) -> list:
        return self._meet(value).values

    def arrive(self) -> _Meeting:
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            return self._join(None, None)

    def barrier(self) -> None:
        self._meet(None)

    def _meet(self, value, combine: Callable[[list], object] | None = None) -> _Meeting:
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            meeting = self._join(value, combine)
        if meeting.missing:
            self._wait([meeting])
        return meeting

    def _join(self, value, combine) -> _Meeting:
        number = self._met
        self._met += 1
        meeting = self._group.meetings.get(number)
        if meeting is None:
            meeting = self._group.meetings[number] = _Meeting(self.processes)
        meeting.values[self.rank] = value
        meeting.missing.discard(self.rank)
        if not meeting.missing:
            del self._group.meetings[number]
            if combine is not None:
                meeting.result = combine(meeting.values)
            for rank in meeting.waiting:
                self._scheduler.wake(rank)
        return meeting

    # -- messages --------------------------------------------------------------------------------------------

    def isend(self, buffer, destination: int, tag: int) -> list:
        return self._send(buffer, destination, tag)

    def _send(self, buffer, destination: int, tag: int, bodies: Sequence = ()) -> list:
        data, bodies = np.frombuffer(buffer, np.uint8), deque(np.frombuffer(body, np.uint8).copy() for body in bodies)
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            box = self._group.boxes[destination]
            receive = _first_posted(box, self.rank, tag)
            if receive is None:
                box.clock += 1
                unasked = None
                if tag == _FRAME_TAG and destination != self.rank and self._scheduler.keeps_waiting():
                    unasked = _Unasked(self._scheduler, self.processes, destination)
                box.arrived.setdefault((self.rank, tag), deque()).append((box.clock, data.copy(), bodies, unasked))
                if unasked is not None:
                    return [unasked]
            else:
                receive.complete(data, bodies, self.rank)
                if receive.waiter is not None:
                    self._scheduler.wake(receive.waiter)
        return []

    def isend_message(self, frame: bytearray, bodies: Sequence, destination: int) -> list:
        return self._send(frame, destination, _FRAME_TAG, bodies)

    def irecv(self, buffer, source: int, tag: int) -> list:
        return [self._post(np.frombuffer(buffer, np.uint8), source, tag)]

    def irecv_frame(self, frame: bytearray, source: int | None) -> _Receive:
        return self._post(np.frombuffer(frame, np.uint8), source, _FRAME_TAG)

    def source_of(self, request: _Receive) -> int:
        return request.source

    def irecv_body(self, request: _Receive, buffer) -> list:
        _copy(request.bodies.popleft(), buffer)
        return []

    def _post(self, target: np.ndarray, source: int | None, tag: int, at_most: bool = False) -> _Receive:
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            box = self._group.boxes[self.rank]
            box.clock += 1
            receive = _Receive(self.processes, target, source, box.clock, at_most)
            sender = self._sender_of(box, source, tag)
            if sender is None:
                box.posted.setdefault((source, tag), deque()).append(receive)
            else:
                queue = box.arrived[sender, tag]
                _, data, bodies, unasked = queue.popleft()
                receive.complete(data, bodies, sender)
                if unasked is not None:
                    unasked.is_taken = True
                    if unasked.waiter is not None:
                        self._scheduler.wake(unasked.waiter)
                if not queue:
                    del box.arrived[sender, tag]
            return receive

    def _sender_of(self, box: _Mailbox, source: int | None, tag: int) -> int | None:
        """The sender of the message that a receive takes: from anybody, the earliest, or one that the seed picks."""
        if source is not None:
            return source if (source, tag) in box.arrived else None
        senders = [sender for sender, its_tag in box.arrived if its_tag == tag]
        senders.sort(key=lambda sender: box.arrived[sender, tag][0][0])
        return self._scheduler.any_of(senders) if senders else None

    def wire(self, messages: Messages, sources, readers, number: int, epoch, activity) -> ThreadWire:
        tag = tag_of("channels", number)

        def receive(buffer: np.ndarray, member: int) -> _Receive:
            return self._post(buffer, member, tag, at_most=True)

        def send(buffer: np.ndarray, member: int) -> None:
            self.isend(buffer, member, tag)

        return ThreadWire(self, messages, receive, send, self._wake, sources, readers, activity)

    def _wake(self, members: Iterable[int]) -> None:
        """Lets waiting members look again whether what they wait for has come."""
        self._scheduler.switch(self.process.rank)
        with self._scheduler.lock:
            for member in members:
                self._scheduler.wake(self.processes[member])

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait_all(self, requests: Sequence) -> None:
        self._scheduler.switch(self.process.rank)
        if not self.test_all(requests):
            self._wait(requests)

    def test_all(self, requests: Sequence) -> bool:
        return all(map(_is_done, requests))

    def give_way(self) -> None:
        self._scheduler.look(self.process.rank)
        time.sleep(0)  # in the free mode the others need the interpreter

    def _wait(self, requests: Sequence) -> None:
        """Waits for all requests while started operations go on."""
        gate = self.process.gate
        while True:
            self.process.progress()
            if not self._wait_for_any([requests, *(pending.requests for pending in self.process.pending)]):
                raise gate.refusal("an operation", "while another thread of this rank waits in one")
            gate.check()
            if self.test_all(requests):
                return

    def _wait_for_any(self, groups: Sequence[Sequence]) -> bool:
        """Waits until all requests of one group are complete; the first group is what reports speak of.

        False, at once, while another thread of this rank waits.
        """
        me, site = self.process.rank, call_site()

        def tell() -> None:
            for request in (request for group in groups for request in group):
                if isinstance(request, _Meeting):
                    request.waiting.append(me)
                else:
                    request.waiter = me

        return self._scheduler.wait(
            me,
            Wait(
                ready=lambda: any(all(map(_is_done, group)) for group in groups),
                describe=lambda: self._describe(site),
                awaited=lambda: self._awaited(groups[0]),
                needs_all=not any(isinstance(r, _Receive) and r.source is None for r in groups[0]),
            ),
            tell,
        )

    def _describe(self, site: str) -> str:
        activity = self.process.activity
        return ("a collective" if activity is None else activity.describe()) + f" at {site}"

    def _awaited(self, requests: Sequence) -> list[int]:
        """The processes that could complete ``requests``, which may be of several groups."""
        awaited: dict[int, None] = {}
        for request in requests:
            if _is_done(request):
                continue
            if isinstance(request, _Meeting):
                places = sorted(request.missing)
            elif request.source is None:
                places = [place for place in range(self.size) if place != self.rank]
            else:
                places = [request.source]
            awaited.update(dict.fromkeys(request.processes[place] for place in places))
        return list(awaited)

    # -- collectives that move bytes -------------------------------------------------------------------------

    def broadcast(self, buffer, root: int) -> None:
        buffers = self.share(buffer)
        if self.rank != root:
            _copy(buffers[root], buffer)
        self.barrier()

    def all_gather(self, send, receive, counts: Sequence[int]) -> None:
        self._collect(self.share(send), receive, counts)
        self.barrier()

    def gather(self, send, receive, counts: Sequence[int], root: int) -> None:
        parts = self.share(send)
        if self.rank == root:
            self._collect(parts, receive, counts)
        self.barrier()

    def scatter(self, send, receive, counts: Sequence[int], root: int) -> None:
        whole, counts = self.share((send, counts))[root]
        start = sum(counts[: self.rank])
        _copy(whole[start : start + counts[self.rank]], receive)
        self.barrier()

    def all_to_all(self, send, send_counts: Sequence[int], receive, receive_counts: Sequence[int]) -> None:
        starts = [0, *accumulate(send_counts)]
        everybody = self.share((send, starts))
        parts = [data[at[self.rank] : at[self.rank + 1]] for data, at in everybody]
        self._collect(parts, receive, receive_counts)
        self.barrier()

    def _collect(self, parts: Sequence, receive, counts: Sequence[int]) -> None:
        start = 0
        for part, count in zip(parts, counts, strict=True):
            _copy(part, receive[start : start + count])
            start += count

    def abort(self, message: str) -> None:
        raise TransportError(message)


def _copy(data, target) -> None:
    if len(data) != len(target):
        raise TransportError(f"a message of {len(data)} bytes meets a buffer of {len(target)} bytes")
    target[:] = data


def _is_done(request: _Meeting | _Receive) -> bool:
    return not request.missing if isinstance(request, _Meeting) else request.done


def _join_frames(values: list) -> Frames:
    frames = [frame for frame, _ in values]
    return Frames(b"".join(frame[:HEADER_BYTES] for frame in frames), b"".join(frames), [array for _, array in values])


def _first_posted(box: _Mailbox, source: int, tag: int) -> _Receive | None:
    """Takes the earliest receive that a message from ``source`` completes."""
    keys = [key for key in ((source, tag), (None, tag)) if box.posted.get(key)]
    if not keys:
        return None
    key = min(keys, key=lambda key: box.posted[key][0].stamp)
    receive = box.posted[key].popleft()
    if not box.posted[key]:
        del box.posted[key]
    return receive
