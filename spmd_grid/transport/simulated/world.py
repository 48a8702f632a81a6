"""The state that simulated ranks share."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from spmd_grid.errors import RankEndedError
from spmd_grid.transport.arena import OneProcessArena
from spmd_grid.transport.communicator import Process
from spmd_grid.transport.lost_messages import lost_text
from spmd_grid.transport.segment_sizes import ranks_per_node
from spmd_grid.transport.simulated.messages import Inbox
from spmd_grid.transport.simulated.scheduler import Scheduler
from spmd_grid.watch.recorder import Recorder
from spmd_grid.watch.settings import Settings
from spmd_grid.watch.trace.runs import RunTrace

__all__ = ["SharedGroup", "Rendezvous", "ThreadWorld"]

# How long a rank that was cut off waits until the others are out of their operations.
_QUIET_SECONDS = 2.0


class Rendezvous:
    """One meeting of a group: the values that its members bring, and the members that are still missing."""

    __slots__ = ("missing", "processes", "result", "values", "waiting")

    def __init__(self, processes: tuple[int, ...]):
        self.processes = processes
        self.values: list[Any] = [None] * len(processes)
        self.missing = set(range(len(processes)))
        self.waiting: list[int] = []  # the ranks to wake at the end
        self.result: Any = None  # made of all values by the last member

    @property
    def done(self) -> bool:
        return not self.missing


class SharedGroup:
    """The state that the members of one ordered group share."""

    __slots__ = ("boxes", "meetings", "processes")

    def __init__(self, processes: tuple[int, ...]):
        self.processes = processes
        self.meetings: dict[int, Rendezvous] = {}
        self.boxes = [Inbox() for _ in processes]


class ThreadWorld:
    """The state that the simulated ranks of one run share."""

    def __init__(self, size: int, seed: int | None, check: bool | None = None, timeout: float | None = None):
        self.size = size
        self.scheduler = Scheduler(size, seed)
        self.processes = [Process(rank, size) for rank in range(size)]
        arena = OneProcessArena()
        node_size = ranks_per_node() or size  # pretended nodes: what knows them plans for them, memory is shared
        self.watched = watched = Settings.from_environment(check=True).asked(check, timeout)
        for process in self.processes:
            process.gate.on_cut = self._cut_off
            process.arena = arena
            process.nodes = tuple([rank - rank % node_size for rank in range(size)])
            process.recorder = Recorder(check=watched.check) if watched.records else None
        self._trace = None if watched.trace is None else RunTrace(watched.trace, self.processes)
        self._groups: dict[tuple[int, ...], SharedGroup] = {}
        self._n_cut_off = 0

    def _cut_off(self, text: str) -> None:
        """Bars the gates of all ranks; returns when only ranks that are cut off as well are in an operation."""
        if self.scheduler.failure is not None:
            return  # the run is over
        self.scheduler.break_off(partial(self._bar, text))
        deadline = time.monotonic() + _QUIET_SECONDS
        with self.scheduler.lock:
            self._n_cut_off += 1  # still in their operations, but they no longer access memory of others
        while (
            sum(not process.gate.is_quiet for process in self.processes) > self._n_cut_off
            and time.monotonic() < deadline
        ):
            time.sleep(1e-4)

    def _bar(self, text: str) -> None:
        for process in self.processes:
            process.gate.bar(text)

    def lost_messages(self) -> RankEndedError | None:
        """The error of the first messages that no rank has received, after a run without errors; None without any."""
        if any(process.gate.text for process in self.processes):
            return None
        for group in self._groups.values():
            for member, box in zip(group.processes, group.boxes):
                for (source, _), messages in box.arrived.items():
                    if lost := [message.sent for message in messages if message.sent is not None]:
                        sender = f"{self.processes[group.processes[source]].label()} of {self.size}"
                        text = lost_text(sender, self.processes[member].label(), len(lost), lost)
                        return RankEndedError(text, member)
        return None

    def close(self) -> None:
        """Ends the trace, if there is one; the last act of the run."""
        if self._trace is not None:
            self._trace.close()

    def group(self, processes: tuple[int, ...]) -> SharedGroup:
        """The shared state of a group."""
        with self.scheduler.lock:
            if processes not in self._groups:
                self._groups[processes] = SharedGroup(processes)
            return self._groups[processes]
