"""MPI as a transport; the only file that imports mpi4py.

The package talks on a duplicate of the user's communicator, so its messages never meet the program's own.  Headers
travel by a persistent ``MPI_Allgather`` that is polled, since a blocking call may wait longer than the message takes.
Where a node has more ranks than cores, waiting ranks sleep between polls, so that they do not slow the one that
computes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import time
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.transport.arena import Arena, ranks_per_node, segment_size, share_memory
from spmd_grid.transport.communicator import (
    FRAME_BYTES,
    HEADER_BYTES,
    LARGEST_MESSAGE,
    Frames,
    Process,
    tag_of,
)
from spmd_grid.transport.leftovers import unlink_mapped
from spmd_grid.transport.lifeline import Departure, Lifeline
from spmd_grid.transport.mpi_wire import MpiWire
from spmd_grid.transport.watched import Arrival, Creation, FrameReceive, FrameSend, Watched, absent
from spmd_grid.transport.wire import Messages, Straight
from spmd_grid.watch.recorder import RECORDER_BYTES, Recorder
from spmd_grid.watch.settings import Settings
from spmd_grid.watch.trace_runs import trace_process

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise TransportError(
        f"MPI cannot be loaded ({error}); install one with 'pip install \"spmd-grid[mpich]\"' or load the cluster's,"
        " or run without it: 'python -m spmd_grid run -n 4 app.py'"
    ) from error

__all__ = ["MpiCommunicator", "open_world"]

# Polls before a wait becomes blocking (or, with more ranks than cores, sleepy).
_EAGER_POLLS = 4000
_POLITE_POLLS = 20
# A polite rank sleeps a part of what it has waited so far, so it oversleeps by no more than that part.
_NAP_PER_WAIT = 1 / 16
_LONGEST_NAP = 1e-3

# Of so many closed wires it is remembered how often they were used, for those who still wait for one more time.
_MOST_CLOSED = 4096

# Launchers may drop what a process prints in the moment before it ends the job.
_LAST_WORDS_SECONDS = 0.2


_LAUNCHER_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


class _World:
    """What all communicators made from one user communicator share."""

    pending: list = []  # of this process, whatever the communicator: whoever waits moves all
    is_traced = False  # of the worlds of this process the first is

    def __init__(self, user_comm):
        self.comm = user_comm.Dup()
        self.process = Process(self.comm.rank, self.comm.size, self.pending)
        self.alone = MPI.COMM_SELF.Dup()
        self._control = None
        self.groups: dict[tuple[int, ...], MpiCommunicator] = {}
        self.wires: set[MpiWire] = set()
        self.exchanged: dict[tuple, int] = {}  # of wires that have been closed
        self.polite, self.process.arena = _survey_node(self.comm)
        self.lifeline: Lifeline | None = None
        if self.comm.size > 1:
            watch = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
            self._control = self.comm.Dup()
            self.lifeline = Lifeline(
                self.process, _Control(self._control), self._take_stock, watch, self._memory_of, *self._neighbours()
            )
        self._watches = self.lifeline is not None and watch
        self.watched = Settings()
        self._recorder: Recorder | None = None
        self._recorders: list[int] = []  # of all processes: where they lie in their segments, or -1
        self.watch(_agreed_settings(self.comm))

    def watch(self, settings: Settings) -> None:
        """Records, and looks after waits, as ``settings`` say.  Collective, with equal settings."""
        self.watched = settings
        if settings.records and self._recorder is None:
            self._recorder = self._make_recorder()
        recorder = self.process.recorder = self._recorder if settings.records else None
        if recorder is not None:
            recorder.check = settings.check
            recorder.sign(self.process.label())
            if settings.trace is not None and not _World.is_traced:
                _World.is_traced = True
                trace_process(settings.trace, self.process)
        if self.lifeline is not None:
            self.lifeline.hang.limit = settings.timeout
            if settings.timeout is not None and not self._watches and self.comm.rank == 0:
                warnings.warn(
                    "no report of hangs: this MPI library lets no second thread look (it was started without"
                    " MPI_THREAD_MULTIPLE)",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _neighbours(self) -> tuple[dict[int, int], np.ndarray | None]:
        """The process numbers of the others of this node in the system, by rank, and a word of memory that they share.

        Collective.
        """
        arena = self.process.arena
        self._line = line = arena.allocate(8, zeroed=True)
        offset = -1 if line is None else arena.offset_of(line.ctypes.data, line.nbytes)
        numbers, offsets = zip(*self.comm.allgather((os.getpid(), offset)), strict=True)
        node = [process for process in range(self.comm.size) if arena.base_of(process) is not None]
        word = None
        if node and offsets[node[0]] >= 0:
            word = np.ctypeslib.as_array((ctypes.c_int64 * 1).from_address(arena.base_of(node[0]) + offsets[node[0]]))
        return {process: numbers[process] for process in node if process != self.comm.rank}, word

    def _make_recorder(self) -> Recorder:
        arena = self.process.arena
        memory = arena.allocate(RECORDER_BYTES)
        offset = -1 if memory is None else arena.offset_of(memory.ctypes.data, memory.nbytes)
        self._recorders = self.comm.allgather(offset)
        return Recorder(memory)

    def _memory_of(self, process: int) -> np.ndarray | None:
        """The memory of the recorder of a process, where this one can read it.  Local."""
        base = self.process.arena.base_of(process)
        if base is None or not self._recorders or self._recorders[process] < 0:
            return None
        return np.ctypeslib.as_array((ctypes.c_uint8 * RECORDER_BYTES).from_address(base + self._recorders[process]))

    def _take_stock(self, departure: Departure) -> None:
        departure.exchanged.update(self.exchanged)
        for wire in self.wires:
            departure.exchanged[wire.key] = wire.epoch()
        for processes, group in self.groups.items():
            departure.entered[processes] = group.entered
            departure.sent[processes] = group.sent
            departure.received[processes] = group.received

    def forget(self, wire: MpiWire) -> None:
        """A wire has been closed; how often it was used may still tell somebody that he waits in vain."""
        self.wires.discard(wire)
        self.exchanged[wire.key] = wire.epoch()
        if len(self.exchanged) > _MOST_CLOSED:
            del self.exchanged[next(iter(self.exchanged))]

    def close(self) -> None:
        """Frees what MPI would complain about; runs once, when the program ends."""
        if self.lifeline is not None:
            self.lifeline.close()
        for wire in tuple(self.wires):
            wire.close()
        for group in self.groups.values():
            group.release()

    def free(self) -> None:
        """Gives all its communicators back; collective, when the user frees the communicator it was made from."""
        self.close()
        own = [self.alone, self.comm, *([] if self._control is None else [self._control])]
        made = [group.comm for group in self.groups.values() if group.comm not in own]
        for comm in made + own:
            comm.Free()
        self.groups.clear()


class _Control:
    """The side channel of the lifeline: small messages that arrive whatever the program does."""

    def __init__(self, comm):
        self._comm = comm
        self._sent: list = []

    def post_all(self, message: bytes) -> None:
        for other in range(self._comm.size):
            if other != self._comm.rank:
                self._sent.append(self._comm.Isend([message, len(message), MPI.BYTE], other))

    def poll(self) -> list[tuple[int, bytes]]:
        """The messages that have come since the last call, with their senders."""
        found = []
        status = MPI.Status()
        while self._comm.Iprobe(status=status):
            message = bytearray(status.Get_count(MPI.BYTE))
            source = status.Get_source()
            self._comm.Recv([message, len(message), MPI.BYTE], source)
            found.append((source, bytes(message)))
        return found

    def all_sent(self) -> bool:
        return MPI.Request.Testall(self._sent)

    def abort(self, code: int = 1) -> None:
        _abort(code)


class MpiCommunicator:
    """An ordered group of MPI processes (the protocol is `communicator.Communicator`)."""

    shares_objects = False
    meeting = None

    def __init__(self, world: _World, comm, processes: tuple[int, ...]):
        self.rank = comm.rank
        self.size = comm.size
        self.processes = processes
        self.process = world.process
        self.frame = bytearray(FRAME_BYTES)
        self.started = 0
        self.channels = 0
        self.comm = comm
        self._world = world
        self._lifeline = world.lifeline
        self._polite = world.polite
        self._frames = bytearray(FRAME_BYTES * self.size)
        frames = memoryview(self._frames)
        self._headers = [frames[i * FRAME_BYTES : i * FRAME_BYTES + HEADER_BYTES] for i in range(self.size)]
        self._swapped = Frames(b"", self._frames, None)
        self._swap = None
        self._swap_done = None
        self.headers_seen = b""
        self.times_well = not world.polite
        self.library = MPI.Get_library_version().splitlines()[0]
        seen = world.process.arena.base_of
        self.near = [i for i, process in enumerate(processes) if i != self.rank and seen(process) is not None]
        self.shares_memory = self.size > 1 and len(self.near) == self.size - 1
        # Counted for the lifeline, which compares them between processes.
        self.entered = 0
        self.sent = [0] * self.size
        self.received = [0] * self.size

    def subgroup(self, processes: Sequence[int]) -> MpiCommunicator:
        processes = tuple(processes)
        groups = self._world.groups
        found = groups.get(processes)
        if found is None:
            recorder = self.process.recorder
            if recorder is not None and recorder.is_idle:
                return recorder.run(Creation(processes, self.process.activity), None, self.subgroup, processes)
            world = self._world.comm
            if processes == tuple(range(world.size)):
                comm = world
            elif len(processes) == 1:
                comm = self._world.alone
            else:
                comm = self._create(processes)
            found = groups[processes] = MpiCommunicator(self._world, comm, processes)
        return found

    def _create(self, processes: tuple[int, ...]):
        world = self._world.comm
        group = world.Get_group()
        members = group.Incl(processes)
        if self._lifeline is not None:
            self._lifeline.waiting = Creation(processes)
        self._meet(processes)
        comm = world.Create_group(members)
        if self._lifeline is not None:
            self._lifeline.waiting = None
        members.Free()
        group.Free()
        return comm

    def _meet(self, processes: tuple[int, ...]) -> None:
        """Waits until all members have come to make the communicator, while started operations go on.

        MPI moves none of them while it makes one.  A dissemination barrier: D. Hensgen, R. Finkel and U. Manber, "Two
        algorithms for barrier synchronization" (1988).
        """
        world, size, me = self._world.comm, len(processes), processes.index(self.process.rank)
        step = 1
        while step < size:
            heard = world.Irecv([bytearray(1), 0, MPI.BYTE], processes[(me - step) % size], tag_of("meetings"))
            world.Isend([b"", 0, MPI.BYTE], processes[(me + step) % size], tag_of("meetings")).Wait()
            self._poll(heard.Test)
            step *= 2

    def watch(self, check: bool | None, timeout: float | None) -> None:
        asked = self._world.watched.asked(check, timeout)
        if (check, timeout) != (None, None) and self.size > 1:
            self._meet(self.processes)
            asked = Settings.joined(self.comm.allgather(asked))
        self._world.watch(asked)

    def release(self) -> None:
        if self._swap is not None:
            self._swap.Free()
            self._swap = None

    # -- meetings --------------------------------------------------------------------------------------------

    def mark_frame(self) -> None:
        pending = self.process.pending
        if pending or self.frame[1]:
            self.frame[1] = bool(pending)

    def swap_frames(self, exposed=None) -> Frames:
        self.entered += 1
        if self._swap is None:
            self._swap = self._make_swap()
            self._swap_done = self._swap.Test
        self.mark_frame()
        self._swap.Start()
        if not self._swap_done():
            lifeline = self._lifeline
            if lifeline is not None:
                lifeline.waiting = self
            self._finish(self._swap)
            if lifeline is not None:
                lifeline.waiting = None
        swapped = self._swapped
        swapped.headers = self.headers_seen = b"".join(self._headers)
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
        return [comm.Isend([piece, len(piece), MPI.BYTE], destination, tag) for piece in _pieces(buffer)]

    def isend_frame(self, frame: bytearray, destination: int, tag: int) -> list:
        self.sent[destination] += 1
        return [FrameSend(self, self.comm.Isend([frame, len(frame), MPI.BYTE], destination, tag), destination)]

    def irecv(self, buffer, source: int, tag: int) -> list:
        comm = self.comm
        return [comm.Irecv([piece, len(piece), MPI.BYTE], source, tag) for piece in _pieces(buffer)]

    def irecv_frame(self, frame: bytearray, source: int | None, tag: int) -> FrameReceive:
        status = MPI.Status()
        anybody = MPI.ANY_SOURCE if source is None else source
        return FrameReceive(self, self.comm.Irecv([frame, len(frame), MPI.BYTE], anybody, tag), status, source)

    def source_of(self, request: FrameReceive) -> int:
        return request.source

    def wire(self, messages: Messages, sources, readers, number: int, epoch, activity) -> MpiWire:
        comm, tag, world = self.comm, tag_of("channels", number), self._world

        def persistent(make, places_and_buffers) -> list:
            return [make([buffer, len(buffer), MPI.BYTE], place, tag) for place, buffer in places_and_buffers]

        receives = [(place, piece) for place, buffer in messages.receives for piece in _pieces(buffer)]
        sends = [(place, piece) for place, buffer in messages.sends for piece in _pieces(buffer)]
        # A short takes the place of a whole message, however many pieces that has.
        shorts = [
            (place, piece)
            for (place, buffer), (_, short) in zip(messages.sends, messages.shorts, strict=True)
            for piece in [short, *[short[:0]] * (len(_pieces(buffer)) - 1)]
        ]
        made = zip((comm.Recv_init, comm.Send_init, comm.Send_init), (receives, sends, shorts), strict=True)
        requests = [persistent(make, group) for make, group in made]
        wire = MpiWire(self, requests, _library(), _nap if self._polite else None, self._lifeline)
        wire.watch((self.processes, number), epoch, messages, sources, readers, activity)
        world.wires.add(wire)
        wire.on_close = world.forget
        wire.send_straight = lambda message: _send_straight(comm, message, tag)
        return wire

    # -- waiting ---------------------------------------------------------------------------------------------

    def wait_all(self, requests: Sequence) -> None:
        lifeline = self._lifeline
        if lifeline is not None and requests and isinstance(requests[0], Watched):
            lifeline.waiting = requests[0]
        for request in requests:
            self._finish(request)
        if lifeline is not None:
            lifeline.waiting = None

    def test_all(self, requests: Sequence) -> bool:
        return all([request.Test() for request in requests])  # noqa: C419 - every Test makes progress

    def give_way(self) -> None:
        if self._polite:
            time.sleep(0)

    def _finish(self, request) -> None:
        test = request.Test
        if self.process.pending:
            self._poll(test)
            return
        for _ in range(_POLITE_POLLS if self._polite else _EAGER_POLLS):
            if test():
                return
        if self._polite:
            self._poll(test)
        else:
            request.Wait()

    def _poll(self, test) -> None:
        began = time.perf_counter()
        while not test():
            if self.process.pending:
                self.process.progress()
            if self._polite:
                _nap(time.perf_counter() - began)

    # -- collectives that move bytes -------------------------------------------------------------------------

    def broadcast(self, buffer, root: int) -> None:
        self._finish_call("bcast", [buffer, len(buffer), MPI.BYTE], root)

    def all_gather(self, send, receive, counts: Sequence[int]) -> None:
        if _all_equal(counts):
            self._finish_call("allgather", [send, len(send), MPI.BYTE], [receive, counts[0], MPI.BYTE])
        else:
            self._finish_call("allgatherv", [send, len(send), MPI.BYTE], _by_counts(receive, counts))

    def gather(self, send, receive, counts: Sequence[int], root: int) -> None:
        target = _by_counts(receive, counts) if self.rank == root else None
        self._finish_call("gatherv", [send, len(send), MPI.BYTE], target, root)

    def scatter(self, send, receive, counts: Sequence[int], root: int) -> None:
        source = _by_counts(send, counts) if self.rank == root else None
        self._finish_call("scatterv", source, [receive, len(receive), MPI.BYTE], root)

    def all_to_all(self, send, send_counts: Sequence[int], receive, receive_counts: Sequence[int]) -> None:
        # Never plain Alltoall: counts that are equal here need not be equal on other members, who would call the other.
        self._finish_call("alltoallv", _by_counts(send, send_counts), _by_counts(receive, receive_counts))

    def _finish_call(self, name: str, *args) -> None:
        # MPI does not match nonblocking forms with blocking ones: all members take the same, and the nonblocking one
        # if any of them has started operations that have to move on meanwhile.
        if self._polite or 1 in self.headers_seen[1::HEADER_BYTES]:
            self._finish(getattr(self.comm, "I" + name)(*args))
        else:
            getattr(self.comm, name.capitalize())(*args)

    def abort(self, message: str) -> None:
        sys.stdout.flush()
        print(message, file=sys.stderr, flush=True)
        _abort()


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


def _send_straight(comm, message: Straight, tag: int):
    """A persistent send of a head and of cells wherever they lie, by a derived datatype."""
    addresses, types = [message.head.ctypes.data], [MPI.BYTE.Create_contiguous(len(message.head))]
    for address, shape, strides, itemsize in message.cells:
        run, loops = itemsize, list(zip(shape, strides, strict=True))
        while loops and loops[-1][1] == run:  # contiguous: long runs are copied faster than many items
            run *= loops.pop()[0]
        datatype = MPI.BYTE.Create_contiguous(run)
        for extent, stride in reversed(loops):
            whole = datatype.Create_hvector(extent, 1, stride)
            datatype.Free()
            datatype = whole
        addresses.append(address)
        types.append(datatype)
    whole = MPI.Datatype.Create_struct([1] * len(types), addresses, types)
    whole.Commit()
    request = comm.Send_init([MPI.BOTTOM, 1, whole], message.member, tag)
    for datatype in [*types, whole]:
        datatype.Free()  # MPI keeps them for the request
    return request


class _Library(NamedTuple):
    """What compiled code has to know of the MPI library in use."""

    functions: tuple[int, int]  # addresses of MPI_Startall and MPI_Testall
    status_bytes: int

    def handles(self, requests: Sequence) -> np.ndarray:
        """The requests' handles one after the other, as MPI takes them."""
        width = MPI._sizeof(MPI.Request)
        return np.frombuffer(
            b"".join(ctypes.string_at(MPI._addressof(request), width) for request in requests) + b"\0" * width, np.uint8
        ).copy()


@cache
def _library() -> _Library:
    symbols = ctypes.CDLL(MPI.__file__)
    found = tuple(
        ctypes.cast(getattr(symbols, name), ctypes.c_void_p).value for name in ("MPI_Startall", "MPI_Testall")
    )
    return _Library(found, MPI._sizeof(MPI.Status))


def _nap(waited: float) -> None:
    """Sleeps for a part of the seconds waited so far, so that whoever computes may run."""
    time.sleep(min(_LONGEST_NAP, waited * _NAP_PER_WAIT))


def _abort(code: int = 1) -> None:
    """Ends the job on all processes, what they have printed first."""
    time.sleep(_LAST_WORDS_SECONDS)
    MPI.COMM_WORLD.Abort(code)


def _pieces(buffer) -> list:
    if len(buffer) <= LARGEST_MESSAGE:
        return [buffer]
    return [buffer[start : start + LARGEST_MESSAGE] for start in range(0, len(buffer), LARGEST_MESSAGE)]


def _all_equal(counts: Sequence[int]) -> bool:
    return counts.count(counts[0]) == len(counts)


def _by_counts(buffer, counts: Sequence[int]) -> list:
    return [buffer, (counts, [0, *accumulate(counts)][:-1]), MPI.BYTE]


def _survey_node(comm) -> tuple[bool, Arena]:
    """Whether any node has more ranks than the union of the cores they may use, and the memory that this node's
    processes share.  Collective.

    The environment may differ between processes; what is wrong with it on one is raised on all.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    size, per_node, problem = 0, None, ""
    try:
        size, per_node = segment_size(node.size), ranks_per_node()
    except TransportError as error:
        problem = str(error)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    members = node.allgather((comm.rank, size, cores))
    if node.rank == 0:
        unlink_mapped()
    crowded = node.size > (len(set().union(*[cores for _, _, cores in members])) or os.cpu_count() or 1)
    problem, crowded, per_node = comm.allreduce((problem, crowded, per_node or 0), MPI.MAX)
    if problem:
        raise TransportError(problem)
    if per_node:
        whole, node = node, node.Split(comm.rank // per_node)
        whole.Free()
        members = [member for member in members if member[0] // per_node == comm.rank // per_node]
    arena = share_memory(node, [process for process, _, _ in members], min(size for _, size, _ in members))
    node.Free()
    return crowded, arena


def _agreed_settings(comm) -> Settings:
    """What the environments of all processes ask to be watched.  Collective."""
    settings, problem = Settings(), ""
    try:
        settings = Settings.from_environment()
    except TransportError as error:
        problem = str(error)
    everybody = comm.allgather((settings, problem))
    for _, problem in everybody:
        if problem:
            raise TransportError(problem)
    return Settings.joined([settings for settings, _ in everybody])


def _refuse_lonely_start(comm) -> None:
    for name in _LAUNCHER_SIZES:
        promised = os.environ.get(name, "")
        if comm.size == 1 and promised.isdigit() and int(promised) > 1:
            raise TransportError(
                f"the launcher started {promised} processes ({name}) but MPI sees only this one; the launcher and the"
                f" MPI library ({MPI.Get_library_version().splitlines()[0]}) do not belong together: use the mpiexec"
                " that came with the library"
            )


_worlds: list[_World] = []
_keyval = None


def open_world(user_comm=None) -> MpiCommunicator:
    """The communicator over ``user_comm`` (default: all processes), made on first use.  Collective over it."""
    global _keyval
    if user_comm is None:
        user_comm = MPI.COMM_WORLD
    if MPI.Is_finalized():
        raise TransportError("MPI has been finalized; grids must be made before that")
    if _keyval is None:
        _refuse_lonely_start(MPI.COMM_WORLD)
        _keyval = MPI.Comm.Create_keyval(delete_fn=lambda comm, keyval, world: _forget(world))
        _close_before_the_end()
    world = user_comm.Get_attr(_keyval)
    if world is None:
        world = _World(user_comm)
        _worlds.append(world)
        user_comm.Set_attr(_keyval, world)
    return _communicator_of_all(world)


def _communicator_of_all(world: _World) -> MpiCommunicator:
    everybody = tuple(range(world.comm.size))
    found = world.groups.get(everybody)
    if found is None:
        found = world.groups[everybody] = MpiCommunicator(world, world.comm, everybody)
    return found


def is_communicator(comm) -> bool:
    """Whether ``comm`` is an intracommunicator of mpi4py that this process is in."""
    return isinstance(comm, MPI.Intracomm) and comm != MPI.COMM_NULL


def _close_before_the_end() -> None:
    """Closes all worlds when the program ends, or before that if it finalizes MPI itself."""
    keyval = MPI.Comm.Create_keyval(delete_fn=lambda *_: _close_worlds())
    MPI.COMM_SELF.Set_attr(keyval, True)  # the first act of MPI_Finalize is to delete this
    atexit.register(lambda: MPI.Is_finalized() or MPI.COMM_SELF.Delete_attr(keyval))


def _forget(world: _World) -> None:
    """The user has freed the communicator of ``world``."""
    if world in _worlds:
        _worlds.remove(world)
        world.free()


def _close_worlds() -> None:
    for world in reversed(_worlds):
        world.close()
    _worlds.clear()
