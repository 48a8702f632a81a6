"""What every transport offers: the small protocol over which all of spmd_grid moves bytes.

A communicator is an ordered group of processes.  It knows nothing of grids, arrays or dtypes: buffers are flat,
contiguous bytes.  `MpiCommunicator` and `ThreadCommunicator` honour every method; `tests/transport` holds the suite
that both pass.

Every collective operation of the package opens with ``swap_frames``: each member posts a frame of ``FRAME_BYTES``,
whose first ``HEADER_BYTES`` describe its call and whose rest may carry a small array.  One round trip thus agrees on
the call, carries errors that one process alone can know, and, for small arrays, moves the data too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from spmd_grid.transport.arena import Arena
from spmd_grid.transport.gate import Gate
from spmd_grid.transport.wire import Wire
from spmd_grid.watch.recorder import Recorder

__all__ = [
    "FRAME_BYTES",
    "HEADER_BYTES",
    "INLINE_BYTES",
    "MESSAGE_FRAME_BYTES",
    "MOST_BODIES",
    "SIGNATURE_BYTES",
    "TAGS",
    "Activity",
    "Communicator",
    "Frames",
    "Process",
    "tag_of",
]

HEADER_BYTES = 128
INLINE_BYTES = 128
FRAME_BYTES = HEADER_BYTES + INLINE_BYTES
# A frame from one member to another has room for its sender's call as well.
SIGNATURE_BYTES = 256
MESSAGE_FRAME_BYTES = FRAME_BYTES + SIGNATURE_BYTES
MOST_BODIES = 2

# The tags of messages within one group, by what they are for; where there are many, users take turns with them.  MPI
# promises tags up to 32767.
TAGS = {
    "blocking movements": range(1),
    "frames of send and recv": range(1, 2),
    "records of channels": range(2, 3),
    "started movements": range(16, 8016),
    "channels": range(8192, 16384),
    "bodies of send and recv": range(16384, 24384),
    "meetings": range(30000, 30001),
}


def tag_of(use: str, turn: int = 0) -> int:
    """The tag for the ``turn``-th message or channel of this use.  Local."""
    tags = TAGS[use]
    return tags[turn % len(tags)]


# Messages are cut into pieces of at most this many bytes: some MPI libraries count in 32-bit integers.
LARGEST_MESSAGE = 1 << 30


class Activity(Protocol):
    """Something that can say in words what a process is doing; reports ask it, hot calls only store it."""

    def describe(self) -> str: ...


class Process:
    """The calling process as all its communicators see it: which one it is and what it is doing.

    ``pending`` lists the started operations; while this process waits for anything, ``progress`` moves all of them.
    ``tokens``: those of its `gate`, where several worlds share them.
    """

    __slots__ = (
        "_movers",
        "activity",
        "arena",
        "coords",
        "gate",
        "kept",
        "messages",
        "pending",
        "rank",
        "recorder",
        "retired",
        "scratch",
        "size",
    )

    def __init__(self, rank: int, size: int, pending: list | None = None, tokens: list[bool] | None = None):
        self.gate = Gate(self.label, tokens)  # through which its operations go
        self.rank = rank
        self.size = size
        self.activity: Activity | None = None
        self.pending: list = [] if pending is None else pending
        self._movers = [True]
        self.coords: tuple[int, ...] | None = None
        self.recorder: Recorder | None = None  # of what it does, while anything is watched
        self.messages = 0  # point-to-point messages sent so far
        self.retired: list = []  # channels that have been given up and not yet closed
        self.kept: dict = {}  # what operations keep for the rest of the program, by what it is for
        self.scratch = None  # memory that operations use by turns
        self.arena = Arena()  # memory that other processes can address, where there is any

    def progress(self) -> None:
        """Moves every started operation as far as it goes without waiting.  Raises CutOffError."""
        self.gate.check()
        if not self.pending or not self._movers:
            return
        mover = self._movers.pop()  # one at a time, also where a compiled loop waits in another thread
        try:
            for pending in tuple(self.pending):
                pending.advance()
        finally:
            self._movers.append(mover)

    def label(self) -> str:
        """``rank 3``, with its grid coordinates once it has made a grid."""
        return f"rank {self.rank}" + ("" if self.coords is None else f" {self.coords}")


class Frames:
    """The frames of all members after a swap.

    ``headers``: the members' headers one after the other (hashable bytes); ``data``: all frames, member after
    member, valid until the next swap on the same communicator; ``exposed``: what each member exposed, where objects
    are shared, else None.  ``locations``: where the members' arrays lie, where memory is shared; ``lent``: whether any
    must hold still until its readers depart, ``lends``: whether this member's own.
    """

    __slots__ = ("data", "exposed", "headers", "lends", "lent", "locations")

    def __init__(self, headers: bytes, data, exposed: list | None):
        self.headers = headers
        self.data = data
        self.exposed = exposed
        self.locations: bytes | None = None
        self.lent = exposed is not None
        self.lends = 0


@runtime_checkable
class Communicator(Protocol):
    """An ordered group of processes; ``rank`` is this process's place in it.

    Buffers are flat uint8 arrays.  Counts and displacements are bytes.  Within one pair of processes and one tag,
    messages do not overtake each other.  Requests are opaque and completed by ``wait_all`` or ``test_all``.  Sender
    and receiver know the size of a message beforehand; where they differ, simulated ranks raise `TransportError`, and
    MPI does what it does.
    """

    rank: int
    size: int
    processes: tuple[int, ...]
    process: Process
    shares_memory: bool  # whether members can read one another's memory
    near: Sequence[int]  # the other members whose memory this process can read
    shares_objects: bool  # whether they are threads of one process
    times_well: bool  # whether times measured here mean anything: every process has a core to itself
    library: str  # what carries messages, with its version
    meeting: Any  # how they meet, kept here by `exchange.meeting`
    frame: bytearray
    started: int  # how many operations this process has started here; members count alike
    channels: int  # how many channels this process has made here; neighbours count alike

    def subgroup(self, processes: Sequence[int], meets: bool = True, grid: Any = None) -> Communicator:
        """The communicator of these processes (numbers in the world), in this order; ``grid``: for whom, for reports.

        Collective over them; Local where it need not meet, but only carry frames and their bodies between members.
        Under MPI, raises MismatchError where processes that first meet in a group think of other orders of it.
        """

    def compare(self, word: str, said: str) -> list[str] | None:
        """What all members say where they bring different words; None where all words are equal.

        Collective over all processes, of whom this is the communicator.
        """

    def watch(self, check: bool | None, timeout: float | None) -> None:
        """From now on, this is watched for the whole program; None stands for what is there.

        Collective over all processes, of whom this is the communicator.  Raises TransportError.
        """

    def swap_frames(self, exposed: Any = None) -> Frames:
        """Posts ``self.frame`` and, where objects are shared, ``exposed``; returns everybody's.  Collective."""

    def share(self, value: Any) -> list:
        """Everybody's value by reference; only where ``shares_objects``.  Collective."""

    def arrive(self) -> Any:
        """Reports this process at a meeting point without waiting; ``wait_all([request])`` waits for the others."""

    def isend(self, buffer, destination: int, tag: int) -> list:
        """Starts sending; a list of requests (large messages go in pieces)."""

    def irecv(self, buffer, source: int, tag: int) -> list:
        """Starts receiving exactly ``len(buffer)`` bytes; a list of requests."""

    def isend_message(self, frame: bytearray, bodies: Sequence, destination: int) -> list:
        """Starts sending a frame of MESSAGE_FRAME_BYTES and at most MOST_BODIES buffers that it speaks of.

        Needs no meeting of the group.  Messages of one member are received in the order in which they were sent.
        """

    def irecv_frame(self, frame: bytearray, source: int | None) -> Any:
        """Starts receiving a message's frame, from anybody if ``source`` is None; ``source_of`` names the sender."""

    def source_of(self, request: Any) -> int:
        """The sender of the completed frame."""

    def irecv_body(self, request: Any, buffer) -> list:
        """Starts receiving the next of the buffers that came with the completed frame; all have to be received."""

    def wait_all(self, requests: Sequence) -> None:
        """Waits for all requests, and moves the started operations meanwhile."""

    def test_all(self, requests: Sequence) -> bool:
        """Whether all requests are complete; makes progress."""

    def wire(self, messages, sources, readers, number: int, epoch, activity) -> Wire:
        """The wire of an exchange: its ``messages``, the members whose words it polls (``sources`` post lines,
        ``readers`` say that they have read), its ``number`` among the group's, and how many exchanges have begun."""

    def give_way(self) -> None:
        """Lets others go on: for a process that asks again and again whether something is complete."""

    def barrier(self) -> None:
        """Waits until every member has come.  Collective."""

    def broadcast(self, buffer, root: int) -> None:
        """Root's bytes into everybody's buffer.  Collective, as the four below."""

    def all_gather(self, send, receive, counts: Sequence[int]) -> None:
        """Everybody's ``send``, in member order, into ``receive``."""

    def gather(self, send, receive, counts: Sequence[int], root: int) -> None:
        """Everybody's ``send`` into root's ``receive``."""

    def scatter(self, send, receive, counts: Sequence[int], root: int) -> None:
        """Root's ``send``, cut by ``counts``, one part into each ``receive``."""

    def all_to_all(self, send, send_counts: Sequence[int], receive, receive_counts: Sequence[int]) -> None:
        """Part i of ``send`` to member i; part j of ``receive`` from member j."""

    def abort(self, message: str) -> None:
        """Ends the job on all processes after printing ``message``."""
