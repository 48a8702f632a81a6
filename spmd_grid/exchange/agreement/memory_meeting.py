"""Meetings in the memory of a node: members read one another's arrays where they lie.

Each member posts its frame and the location of its array.  A small array is posted with the frame; one that lies
outside the arena and is not large is copied into it first.  A large one outside is posted with its address: the others
may have the system copy from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import NamedTuple, cast

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.line_meeting import LineMeeting
from spmd_grid.exchange.agreement.node_meeting import read_locations
from spmd_grid.exchange.agreement.quicker_way import QuickerWay, QuickerWays
from spmd_grid.exchange.agreement.relay import COPIED_IF_RELAYED, RELAYED_FROM, RING_BYTES, RelayProgram, Rings
from spmd_grid.exchange.agreement.staging_ring import RING_HELD_BYTES
from spmd_grid.exchange.transfer.fetch import FetchProgram
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator, Frames
from spmd_grid.transport.other_memory import is_word_at

__all__ = ["MOST_COMPILED", "STAGED_BYTES", "KnownRelay", "MemoryMeeting", "MemberAddress"]

# The most bytes of copies that a process holds for a group: of large arrays, which are copied or relayed, and of small.
STAGED_BYTES = max(RING_BYTES + 8 * COPIED_IF_RELAYED, RING_HELD_BYTES)

# The distance of processors is measured again every _ASKED_EVERY meetings.
_ASKED_EVERY = 256

# A process that shares its core gives way this often before it sleeps.  To give way to the next one of its core takes
# 1.4 us, and to be woken by another core 30; but the system lets the one go on that has had less of the core so far.
_YIELDS = 40

# Bytes of the largest arrays that are always relayed between far processors, if caches hold them until they are written
# again, and of the largest that lie in a cache.
_RELAYED_IF_FAR, _LEFT_CACHES = 1 << 23, 1 << 25

# Bytes of the largest arrays that compiled runs relay, which keep the interpreter's lock while they copy.
MOST_COMPILED = 1 << 24

# Bytes of the largest arrays that the system never copies: caches hold a part of them, so owners pack them faster.
# Where words are slow, a cache of many cores, smaller ones are tried.
_PACKED, _PACKED_IF_LATE = 1 << 24, 1 << 19

_MOST_KEPT = 256  # of the numbers on which members have agreed

_LEAST_STAGED = 1 << 16  # below it, the meetings would cost more than the copies


class MemberAddress(NamedTuple):
    """The address of an array, and the system's id of its process where this one does not see it, else 0."""

    process: int
    address: int


class KnownRelay(NamedTuple):
    """The rings of a relay; whether it depends on where arrays lie, and where it does not: at which distance."""

    rings: Rings
    depends: bool
    if_far: bool
    if_near: bool


class MemoryMeeting(LineMeeting):
    """Meetings in the memory of the node, of members that all see it."""

    posted_bytes = at.LINE_ARRAY_BYTES

    def __init__(self, comm: Communicator, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm, members, block, addresses)
        self.state[at.ASKS] = _ASKED_EVERY if comm.times_well else 0
        if not comm.times_well:
            self.sleep_after(0, _YIELDS)
        self._ring: np.ndarray | None = None
        self._rings: Rings | None = None
        self._numbers = count()
        self._word = np.frombuffer(os.urandom(8), np.int64)
        self._processes: list[int] | None = None  # ids of the members' processes; none if not all can be read
        self._ways = QuickerWays()
        self._most: dict[Hashable, int] = {}

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """As of any meeting; None, on all members alike, where one of the arrays cannot be read."""
        found: list[np.ndarray | None] = []
        for member, (fact, location) in enumerate(zip(facts, read_locations(frames.locations), strict=True)):
            if fact.shape is None:
                found.append(None)
            elif not fact.nbytes:
                found.append(np.empty(*fact.array()))
            elif location[at.LOCATION_OFFSET] < 0:
                return None
            else:
                found.append(self._array_at(member, fact, location))
        return found

    def most(self, value: int) -> int:
        return self._call_roll(1, value)

    def kept_most(self, key: Hashable, value: Callable[[], int]) -> int:
        """The largest of the members' values, which all keep under ``key``.  Collective.

        All members ask with the same keys, one after the other: so a key is new on all of them or on none.
        """
        found = self._most.get(key)
        if found is None:
            if len(self._most) >= _MOST_KEPT:
                self._most.clear()
            found = self._most[key] = self.most(value())
        return found

    def known_most(self, key: Hashable) -> int | None:
        """The number that `kept_most` has found for ``key``, or None.  Local; the same on all members."""
        return self._most.get(key)

    def next_number(self) -> int:
        """The number of the next object that the members make together; the same on all.  Collective."""
        return next(self._numbers)

    # -- relays --------------------------------------------------------------------------------------------------

    def rings(self) -> Rings | None:
        """The members' rings for relays; None if some member has no space, alike on all.

        Collective when first called.
        """
        if self._rings is None:
            self._ring = self._arena.allocate(RING_BYTES)
            frames = self.swap(self._ring, in_place=True)
            offsets = [location[at.LOCATION_OFFSET] for location in read_locations(frames.locations)]
            bases = [cast(int, self._arena.base_of(process)) for process in self.comm.processes]
            found = [] if min(offsets) < 0 else [base + offset for base, offset in zip(bases, offsets, strict=True)]
            self._rings = Rings(self._address, np.array(found, np.int64), self.comm.rank)
            if self.is_far:  # as far as words show it
                self.ask_distance()
        return self._rings if len(self._rings.addresses) else None

    def _free_memory(self) -> tuple[int, int]:
        if self._rings is None or not len(self._rings.addresses):
            return 0, 0
        mine = self.comm.rank
        return int(self._rings.addresses[mine]), int(self._rings.addresses[(mine + 1) % self.comm.size])

    def better_relayed(
        self, n_bytes: int, readable: bool, most_if_near: int, key: Hashable, most_if_late: int | None = None
    ) -> bool:
        """Whether arrays, of which the largest has ``n_bytes``, are better relayed than read or sent.

        Collective; the same on all members.  ``readable``: whether all of them can be read where they lie;
        ``most_if_near``: the largest size that is better relayed between near processors; ``most_if_late``: where words
        are slow between them, by default the same.  For large arrays between far ones, or where words are slow between
        near ones, it depends on the machine: runs with the same ``key``, the same on all members, try both ways.
        """
        if n_bytes <= RELAYED_FROM:
            return False
        self.count_relay()
        most = most_if_late if self.is_late and most_if_late is not None else most_if_near
        if not readable or n_bytes <= most:
            return self.relays and self.rings() is not None
        tries = self.is_far or self.is_late
        if not tries or n_bytes > _LEFT_CACHES or self.rings() is None:  # read where they lie
            return False
        stays = n_bytes <= _RELAYED_IF_FAR
        return (self.is_far and stays) or self._ways.begin(key, self.most, stays) == 0

    def known_relay(self, n_bytes: int, most_if_near: int, most_if_late: int | None = None) -> KnownRelay | None:
        """Find how compiled runs relay arrays of ``n_bytes``; None where they do not, or none were relayed.  Local."""
        may = RELAYED_FROM < n_bytes <= max(most_if_near, MOST_COMPILED) and self.relays
        rings = self.rings() if may and self._rings is not None else None
        if rings is None:
            return None
        least = most_if_near if most_if_late is None else min(most_if_near, most_if_late)
        return KnownRelay(rings, n_bytes > least, n_bytes <= _RELAYED_IF_FAR, n_bytes <= most_if_near)

    def read_ways(self, key: Hashable) -> QuickerWay:
        """The ways of runs with this ``key``, as `better_relayed` takes them.  Local."""
        return self._ways.keep(key)

    def bases(self) -> np.ndarray:
        """The addresses of all members' segments.  Local."""
        return np.array([self._arena.base_of(process) for process in self.comm.processes])

    def note_end(self) -> None:
        self._ways.end()

    # -- arrays outside the arena, as the system copies them -----------------------------------------------------

    def may_fetch(self, n_bytes: int) -> bool:
        """Whether the system's copies may beat a relay of arrays, of which the largest has ``n_bytes``.

        Local; the same on all members.
        """
        return n_bytes > (min(_PACKED, _PACKED_IF_LATE) if self.is_late else _PACKED)

    def fetches(self) -> bool:
        """Whether all members can relay, and copy from one another's memory by the system.  Collective at first."""
        if not self.relays or self.rings() is None:
            return False
        if self._processes is None:
            mine = np.array([os.getpid(), kernels.address_of(self._word), self._word[0]])
            found = []
            for member, location in enumerate(read_locations(self.swap(mine).locations)):
                base = cast(int, self._arena.base_of(self.comm.processes[member]))
                found.append(kernels.bytes_at(base + location[at.LOCATION_OFFSET], mine.nbytes).view(np.int64).tolist())
            sees_all = all(is_word_at(*found[member]) for member in range(len(found)) if member != self.comm.rank)
            self._processes = [] if self.most(not sees_all) else [process for process, *_ in found]
        return bool(self._processes)

    def addresses(self, frames: Frames, facts: Sequence[Facts]) -> list[MemberAddress] | None:
        """The addresses of the members' arrays; None, on all members alike, unless each is known and contiguous."""
        found = []
        for member, (fact, location) in enumerate(zip(facts, read_locations(frames.locations), strict=True)):
            offset, flags, address, *_ = location
            if flags & at.OUTSIDE:
                away = self._processes is not None and member != self.comm.rank
                found.append(MemberAddress(self._processes[member] if away and self._processes else 0, address))
            elif not fact.nbytes:
                found.append(MemberAddress(0, 0))
            elif offset < 0 or flags & at.STRIDED:
                return None
            else:
                found.append(MemberAddress(0, cast(int, self._arena.base_of(self.comm.processes[member])) + offset))
        return found

    def better_fetched(self, n_bytes: int, key: Hashable) -> bool:
        """Whether runs with this ``key``, which may be relayed or have the system copy, do the second: the quicker.

        Collective; the same on all members.  ``n_bytes``: those of the largest array.
        """
        return self._ways.begin(("fetched", key), self.most, n_bytes <= _RELAYED_IF_FAR) == 1

    def fetch_ways(self, key: Hashable) -> QuickerWay:
        """The ways of runs with this ``key``, as `better_fetched` takes them.  Local."""
        return self._ways.keep(("fetched", key))

    @property
    def processes(self) -> list[int] | None:
        """The system's ids of the members' processes: an empty list if some cannot be read, None before it is known.

        Local.
        """
        return self._processes

    def fetch(self, program: FetchProgram, result: np.ndarray | None) -> None:
        """Run a fetch on which the members have agreed in the last meeting.  Collective."""
        if not program.run(result):
            self._raise_ended()

    def _location_of(self, x: np.ndarray, in_place: bool) -> tuple[int, int]:
        offset, flags = super()._location_of(x, in_place)
        if offset < 0 and self.may_fetch(x.nbytes) and x.flags.c_contiguous and self._processes != []:
            self._strides[0], self._strides[1:] = kernels.address_of(x), 0
            flags = at.STRIDED | at.OUTSIDE
        return offset, flags

    def count_relay(self) -> None:
        """Counts a relay that members consider; they measure how far apart they are now and then.  Collective."""
        state = self.state
        state[at.RELAYS] += 1
        if state[at.RELAYS] % at.RELAYS_ASK == 0 and state[at.ASKS]:
            self.ask_distance()

    def relay(self, program: RelayProgram, x: np.ndarray | None, result: np.ndarray | None) -> None:
        """Run a relay on which the members have agreed in the last meeting.  Collective."""
        if not program.run(x, result):
            self._raise_ended()

    @property
    def relays(self) -> bool:
        return self.copied_bytes >= _LEAST_STAGED

    def describe(self) -> str:
        timed = "" if self.model is None else f" (timed here: {self.model})"
        others = "pass through it" if self.relays else f"of up to {self.copied_bytes} bytes are copied into it"
        rest = "" if self.relays else "; larger ones go in messages"
        return f"direct: arrays in the node's memory are read where they lie; others {others}{timed}{rest}"

    def reads_in_place(self, x: np.ndarray) -> bool:
        in_line = x.nbytes <= at.LINE_ARRAY_BYTES
        return not in_line and self._arena.offset_of(kernels.address_of(x), x.nbytes) >= 0
