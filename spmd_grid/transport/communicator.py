"""The protocol that every transport offers, and over which all of spmd_grid moves bytes.

A communicator is an ordered group of processes.  It knows nothing of grids, arrays or dtypes: buffers are flat,
contiguous bytes.  `MpiCommunicator` and `ThreadCommunicator` honour every method; `tests/transport` holds the suite
that both pass.

Every collective operation of the package opens with ``swap_frames``: each member posts a frame of ``FRAME_BYTES``,
whose first ``HEADER_BYTES`` describe its call and whose rest may carry a small array.  One round trip thus agrees on
the call, carries errors that one process alone can know, and, for small arrays, moves the data too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from spmd_grid.transport.arena import Arena
from spmd_grid.transport.gate import Gate
from spmd_grid.transport.lost_messages import Sent
from spmd_grid.transport.wire import Messages, Wire
from spmd_grid.watch.recorder import Recorder
from spmd_grid.watch.traffic import Activity

__all__ = [
    "FRAME_BYTES",
    "HEADER_BYTES",
    "INLINE_BYTES",
    "LARGEST_MESSAGE",
    "MESSAGE_FRAME_BYTES",
    "MOST_BODIES",
    "SIGNATURE_BYTES",
    "TAGS",
    "Activity",
    "Communicator",
    "Frames",
    "Process",
    "StartedOperation",
    "tag_of",
]

HEADER_BYTES = 128
INLINE_BYTES = 128
FRAME_BYTES = HEADER_BYTES + INLINE_BYTES
# A frame from one member to another has space for its sender's call as well.
SIGNATURE_BYTES = 256
MESSAGE_FRAME_BYTES = FRAME_BYTES + SIGNATURE_BYTES
MOST_BODIES = 2

# The tags of messages within one group, by use; a use with several tags takes them by turns.  MPI guarantees tags up to
# 32767.
TAGS = {
    "blocking movements": range(1),
    "frames of send and recv": range(1, 2),
    "records of channels": range(2, 3),
    "started movements": range(16, 8016),
    "channels": range(8192, 16384),
    "bodies of send and recv": range(16384, 24384),
    "refusals of channels": range(24384, 28480),
    "meetings": range(30000, 30001),
    "none": range(30001, 30002),
    "frames of meetings": range(30002, 30003),
    "lines of meetings": range(30003, 30004),
}


def tag_of(use: str, turn: int = 0) -> int:
    """The tag for the ``turn``-th message or channel of this use.  Local."""
    tags = TAGS[use]
    return tags[turn % len(tags)]


# Messages are cut into pieces of at most this many bytes: some MPI libraries count in 32-bit integers.
LARGEST_MESSAGE = 1 << 30


class StartedOperation(Protocol):
    """An operation that goes on while its process waits for something else."""

    @property
    def requests(self) -> Sequence[Any]:
        """The requests that it waits for."""

    @property
    def process(self) -> Process:
        """The process, of one world, that has started it."""

    def advance(self) -> None:
        """Goes on as far as possible without waiting."""


class Process:
    """The calling process as all its communicators see it: its number, and what it is doing.

    ``pending`` lists the started operations; while this process waits for anything, ``progress`` advances all of them.
    ``tokens``: those of its `gate`, where several worlds share them.
    """

    __slots__ = (
        "_advancing",
        "activity",
        "arena",
        "coords",
        "cores",
        "endings",
        "gate",
        "host",
        "kept",
        "messages",
        "nodes",
        "pending",
        "rank",
        "recorder",
        "retired",
        "scratch",
        "size",
        "watched",
    )

    def __init__(
        self, rank: int, size: int, pending: list[StartedOperation] | None = None, tokens: list[bool] | None = None
    ):
        self.gate = Gate(self.label, tokens)  # every operation passes it
        self.rank = rank
        self.size = size
        self.activity: Activity | None = None
        self.pending: list[StartedOperation] = [] if pending is None else pending
        self._advancing = [True]  # empty while a thread advances them
        self.coords: tuple[int, ...] | None = None
        self.host = ""  # its name, where there are several
        self.recorder: Recorder | None = None  # of its operations, while anything is watched
        self.watched = np.zeros(1, np.int64)  # 1 while it has a recorder, for compiled code
        self.messages = 0  # point-to-point messages sent so far
        self.retired: list[Any] = []  # channels that are no longer used and not yet closed
        self.kept: dict[Hashable, Any] = {}  # what operations keep for the rest of the program, by purpose
        self.endings: list[Callable[[], None]] = []  # calls that its program's end makes; local, and none raises
        self.scratch: np.ndarray | None = None  # memory that operations use by turns
        self.arena = Arena()  # memory that other processes can address, where there is any
        self.nodes: tuple[int, ...] = tuple(range(size))  # by process, the first process of its node
        self.cores = 0  # its share of the cores that it may use; 0 if that is not known

    def progress(self) -> None:
        """Advances every started operation as far as it goes without waiting.  Raises CutOffError."""
        self.gate.check()
        if not self.pending or not self._advancing:
            return
        turn = self._advancing.pop()  # one thread at a time, also where a compiled loop waits in another thread
        try:
            for pending in tuple(self.pending):
                pending.advance()
        finally:
            self._advancing.append(turn)

    def end(self) -> None:
        """Calls all that is to be done at the end of its program.  Local."""
        while self.endings:
            self.endings.pop()()

    def label(self) -> str:
        """``rank 3``, with its grid coordinates once it has made a grid, and its host if there are several."""
        coords = "" if self.coords is None else f" {self.coords}"
        return f"rank {self.rank}{coords}{f' on {self.host}' if self.host else ''}"


class Frames:
    """The frames of all members after a swap.

    ``headers``: the members' headers one after the other (hashable bytes).  ``data``: all frames, member after
    member, valid until the next swap on the same communicator.  ``exposed``: the objects that the members exposed,
    None where objects are not shared.  ``locations``: the locations of the members' arrays, where memory is shared.
    ``lent``: whether any array must not change until its readers have finished; ``lends``: whether this member's own
    is one of them.
    """

    __slots__ = ("data", "exposed", "headers", "lends", "lent", "locations")

    def __init__(self, headers: bytes, data: bytes | bytearray | memoryview, exposed: list[Any] | None):
        self.headers = headers
        self.data = data
        self.exposed = exposed
        self.locations: bytes | None = None
        self.lent: bool | int = exposed is not None
        self.lends: bool | int = 0


@runtime_checkable
class Communicator(Protocol):
    """An ordered group of processes; ``rank`` is this process's number in it.

    Buffers are flat uint8 arrays.  Counts and displacements are in bytes.  Messages between one pair of processes with
    one tag do not overtake each other.  Requests are opaque; ``wait_all`` and ``test_all`` complete them.  Sender and
    receiver know the size of a message beforehand; where the sizes differ, simulated ranks raise `TransportError`, and
    MPI's behaviour is undefined.
    """

    rank: int
    size: int
    processes: tuple[int, ...]
    process: Process
    shares_memory: bool  # whether all members can read one another's memory
    near: Sequence[int]  # the other members whose memory this process can read
    shares_objects: bool  # whether they are threads of one process
    times_well: bool  # whether measured times are meaningful: every process has a core to itself
    library: str  # the library that carries messages, with its version
    meeting: Any  # the group's meeting, kept here by `exchange.agreement.meeting`
    frame: bytearray
    started: int  # number of operations that this process has started here; equal on all members
    channels: int  # number of channels that this process has made here; equal on neighbours

    def subgroup(self, processes: Sequence[int], meets: bool = True, grid: object = None) -> Communicator:
        """The communicator of these processes (numbers in the world), in this order; reports name its ``grid``.

        Collective over them; Local with ``meets=False``, for groups that only carry messages between two members.
        Under MPI, raises MismatchError if processes that first meet in a group have different orders of it.
        """

    def compare(self, value: str, text: str) -> list[str] | None:
        """The texts of all members if their values differ; None if all values are equal.

        Collective over all processes; a method of their communicator only.
        """

    def watch(self, check: bool | None, timeout: float | None) -> None:
        """Sets what is watched in the whole program from now on; None keeps a setting.

        Collective over all processes; a method of their communicator only.  Raises TransportError.
        """

    def swap_frames(self, exposed: Any = None) -> Frames:
        """Posts ``self.frame`` and, where objects are shared, ``exposed``; the frames of all members.  Collective."""

    def share(self, value: Any) -> list[Any]:
        """The values of all members by reference; only where ``shares_objects``.  Collective."""

    def arrive(self) -> Any:
        """Reports this process at a meeting point without waiting; ``wait_all([request])`` waits for the others."""

    def isend(self, buffer: np.ndarray, destination: int, tag: int) -> list[Any]:
        """Starts sending; a list of requests (large messages go in pieces)."""

    def irecv(self, buffer: np.ndarray, source: int, tag: int) -> list[Any]:
        """Starts receiving exactly ``len(buffer)`` bytes; a list of requests."""

    def isend_message(
        self, frame: bytearray, bodies: Sequence[np.ndarray], destination: int, sent: Sent | None = None
    ) -> list[Any]:
        """Starts sending a frame of MESSAGE_FRAME_BYTES and the buffers that it announces, at most MOST_BODIES.

        Needs no meeting of the group.  Messages of one member are received in the order in which they were sent.  One
        that no member has received at the end of the program is an error, which tells what the call was (``sent``).
        """

    def irecv_frame(self, frame: bytearray, source: int | None) -> Any:
        """Starts receiving a message's frame, from any member if ``source`` is None; ``source_of`` names the sender."""

    def source_of(self, request: Any) -> int:
        """The sender of the completed frame."""

    def irecv_body(self, request: Any, buffer: np.ndarray) -> list[Any]:
        """Starts receiving the next of the buffers that came with the completed frame; all must be received."""

    def wait_all(self, requests: Sequence[Any]) -> None:
        """Waits for all requests, and advances the started operations meanwhile."""

    def test_all(self, requests: Sequence[Any]) -> bool:
        """Whether all requests are complete; makes progress."""

    def wire(
        self,
        messages: Messages,
        sources: Sequence[int],
        readers: Sequence[int],
        number: int,
        epoch: Callable[[], int],
        activity: Activity | None,
    ) -> Wire:
        """The wire of an exchange with these ``messages``; its ``number`` is unique in the group.

        It polls words that other members write: ``sources`` post lines, ``readers`` acknowledge that they have read.
        ``epoch()`` is the number of exchanges that have begun.
        """

    def give_way(self) -> None:
        """Lets other processes run; called between polls of a process that polls without waiting."""

    def barrier(self) -> None:
        """Waits until every member has arrived.  Collective."""

    def broadcast(self, buffer: np.ndarray, root: int) -> None:
        """Copies root's bytes into the buffers of all members.  Collective, as the four below."""

    def all_gather(self, send: np.ndarray, receive: np.ndarray, counts: Sequence[int]) -> None:
        """Copies the ``send`` of all members, in member order, into every ``receive``."""

    def gather(self, send: np.ndarray, receive: np.ndarray | None, counts: Sequence[int], root: int) -> None:
        """Copies the ``send`` of all members, in member order, into root's ``receive``."""

    def scatter(self, send: np.ndarray | None, receive: np.ndarray, counts: Sequence[int], root: int) -> None:
        """Cuts root's ``send`` by ``counts``, and copies one part into each ``receive``."""

    def all_to_all(
        self, send: np.ndarray, send_counts: Sequence[int], receive: np.ndarray, receive_counts: Sequence[int]
    ) -> None:
        """Copies part i of ``send`` to member i, and part j of ``receive`` from member j."""

    def abort(self, message: str) -> None:
        """Ends the job on all processes after printing ``message``."""
