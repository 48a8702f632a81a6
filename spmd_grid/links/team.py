"""The members that measure links together: what they learn of one another, how they time calls, and how they meet.

The median of a few batches counts, since programs meet what disturbs a machine as well; all members take that of the
slowest.  What keeps processors busy is timed in batches that are longer than the time for which a system lets one
process run: where processes share a processor, each would else be timed as if it had it alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter

import numpy as np

from spmd_grid import kernels
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.wire import Messages, Wire

__all__ = ["LINE_BYTES", "SEEN_BYTES", "Team"]

SEEN_BYTES, LINE_BYTES = 1 << 21, 64  # memory that the members of a node see of each other, behind a line of words

_BATCHES = 5
_NUMBER = -3  # of the wire, beside those of the group's meetings
# As in exchange/agreement: how often a process that shares its core gives way before it sleeps, and for how long.
_YIELDS, _SLEEP_NANOSECONDS = 40, 400_000


class _Word:
    """A word in memory that another process writes, as something to wait for."""

    def __init__(self, word: np.ndarray, turn: int):
        self._word, self._turn = word, turn

    def Test(self) -> bool:
        """Whether it has been written as often as that."""
        return bool(self._word[0] >= self._turn)


class Team:
    """One member of ``comm``, its mates on its node, and its partners on the next node and the one before.

    ``near``: by member, a number of its node.
    """

    def __init__(self, comm: Communicator, near: Sequence[int]):
        self.comm = comm
        by_node: dict[int, list[int]] = {}
        for member, node in enumerate(near):
            by_node.setdefault(node, []).append(member)
        members = list(by_node.values())
        self.n_nodes = len(members)
        self.node = own = next(i for i, found in enumerate(members) if comm.rank in found)
        self.mates = members[own]
        self.position = self.mates.index(comm.rank)
        after, before = members[(own + 1) % self.n_nodes], members[own - 1]
        # Nodes of other sizes are met as far as they go: messages number k go from place k to place k.
        self.next = after[self.position] if self.position < len(after) else None
        self.previous = before[self.position] if self.position < len(before) else None
        self.most = max(map(len, members))
        self.least = min(map(len, members))
        self._turn = 0  # of the node's meetings so far
        self._rounds: dict[Callable[[], object], int] = {}  # of a batch, by call, as `steady_paces_of` has found them
        self._memory = comm.process.arena.allocate(SEEN_BYTES + LINE_BYTES, zeroed=True)
        self.seen = self._memory_of_mates()
        self._roll: np.ndarray | None = None
        self._pause = np.array([0, _SLEEP_NANOSECONDS], np.int64)
        self._wire: Wire | None = None

    def _memory_of_mates(self) -> list[np.ndarray]:
        """The memory of all members of the node; empty where any member cannot see that of all.  Collective."""
        arena, mine = self.comm.process.arena, self._memory
        offset = -1 if mine is None else arena.offset_of(mine.ctypes.data, mine.nbytes)
        offsets = self._all([offset]).ravel()
        bases = [arena.base_of(self.comm.processes[mate]) for mate in self.mates]
        sees = self.most > 1 and offsets.min() >= 0 and None not in bases
        if not self._all([sees]).all():
            return []
        addresses = [
            base + int(offsets[mate]) for mate, base in zip(self.mates, bases, strict=True) if base is not None
        ]
        kind = ctypes.c_uint8 * (SEEN_BYTES + LINE_BYTES)
        return [np.ctypeslib.as_array(kind.from_address(address)) for address in addresses]

    @property
    def meets_in_memory(self) -> bool:
        """Whether the members of nodes meet in memory before and after their frames cross."""
        return bool(self.seen) and not self.comm.shares_objects

    def close(self) -> None:
        """Returns once no process reads memory that is given back.  Collective."""
        self.comm.barrier()
        self._rounds.clear()  # calls hold memory, and this team
        if self._wire is not None:
            self._wire.close()

    # -- what all members learn, and how they time -------------------------------------------------------------------

    def _all(self, values: Sequence[float]) -> np.ndarray:
        """The values of all members, a row each.  Collective."""
        sent = np.array(values, np.float64)
        received = np.empty(self.comm.size * sent.nbytes, np.uint8)
        self.comm.all_gather(sent.view(np.uint8), received, [sent.nbytes] * self.comm.size)
        return received.view(np.float64).reshape(self.comm.size, -1)

    def pace_of(self, call: Callable[[], object], rounds: int, batches: int = _BATCHES, counts: bool = True) -> float:
        """Seconds of a collective call when it is made again and again: the median of several batches.

        Members run ahead of one another by part of a call, so a single call says little.  ``counts``: whether this
        process's time counts, and not the others' alone.
        """
        return self.paces_of([call], [rounds], batches, counts)[0]

    def paces_of(
        self, calls: Sequence[Callable[[], object]], rounds: Sequence[int], batches: int, counts: bool = True
    ) -> list[float]:
        """The paces of several calls whose batches take turns, so that a disturbance meets all of them.

        ``rounds``: by call, how often a batch makes it.
        """
        means: list[list[float]] = [[] for _ in calls]
        for _ in range(batches):
            for call, n, found in zip(calls, rounds, means, strict=True):
                self.comm.barrier()
                call()  # after other calls, connections take a while to find their pace
                self.roll()  # members of a node may have left the barrier one after the other
                began = perf_counter()
                for _ in range(n):
                    call()
                found.append((perf_counter() - began) / n)
        medians = [sorted(found)[(batches - 1) // 2] if counts else 0.0 for found in means]
        return list(map(float, self._all(medians).max(axis=0)))

    def steady_paces_of(self, calls: Sequence[Callable[[], object]], least: float) -> list[float]:
        """As `paces_of`, in one batch of about ``least`` seconds each; of as many calls when asked again."""
        found: dict[Callable[[], object], float] = {}
        left = calls
        while left:  # the first time, members that begin later than others count for much
            rounds = [self._rounds.get(call, 2) for call in left]
            found |= dict(zip(left, self.paces_of(left, rounds, 1), strict=True))
            short = [call for call, n in zip(left, rounds, strict=True) if n * found[call] < least / 2]
            self._rounds |= dict(zip(left, rounds)) | {call: ceil(least / found[call]) for call in short}
            left = short
        return [found[call] for call in calls]

    # -- meetings of a node's members -------------------------------------------------------------------------------

    def together(self) -> None:
        """Waits for the other members of the node, in its memory, as Python code does."""
        self._turn += 1
        words = [seen[:8].view(np.int64) for seen in self.seen]
        words[self.position][0] = self._turn
        self.comm.wait_all([_Word(word, self._turn) for word in words])

    def roll(self, calls: int = 1) -> None:
        """Meetings of the members of the node in compiled code: each writes a word and waits for those of all.

        Where they do not see one another's memory, none; a barrier of simulated ranks, which take turns.
        """
        if self.comm.shares_objects:
            for _ in range(calls):
                self.comm.barrier()
        elif self.seen and kernels.call_roll(self._roll_state().ctypes.data, calls, 0) < 0 and self._wire is not None:
            self._wire.raise_error()

    def _roll_state(self) -> np.ndarray:
        """The state of these meetings, whose waits are those of operations: where processes share cores, they sleep."""
        if self._roll is None:
            state = self._roll = np.zeros(at.BLOCKS + len(self.mates), np.int64)
            state[at.MEMBERS], state[at.MEMBER] = len(self.mates), self.position
            state[at.BLOCKS :] = [seen.ctypes.data for seen in self.seen]  # words lie behind the first line
            self._wire = wire = self.comm.wire(
                Messages([], [], []), self.mates, self.mates, _NUMBER, lambda: int(state[at.CALLS]), None
            )
            state[at.ON_WAIT], state[at.WENT_ON] = wire.on_wait, kernels.address_of(wire.went_on)
            state[at.POLLS], state[at.YIELDS], state[at.YIELDS_AGAIN] = wire.polls, wire.yields, wire.yields_again
            if at.FUTEX and not self.comm.times_well:
                state[at.POLLS], state[at.YIELDS], state[at.SLEEPS] = 0, _YIELDS, kernels.address_of(self._pause)
        return self._roll
