"""HaloExchange: a halo made once for one layout, then refreshed at the price of a few words and the bytes.

The pattern says which cells come from whom, the channel moves them; this file binds the one to the other, and sees to
it that arrays which will not do are refused on every process that waits for them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module

import numpy as np

from spmd_grid.errors import (
    DTypeError,
    OutputError,
    RequestError,
    ShapeError,
    ShardingError,
    SpmdError,
    TransportError,
)
from spmd_grid.exchange.channel.channel import Channel, close_retired, shortened
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.paths import INLINE, MESSAGE, PACKED, READ, STAGED, STRAIGHT
from spmd_grid.grid.cells import Cells
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.accumulate import Reverse, check_addable
from spmd_grid.halo.agreement import agree, group_axes
from spmd_grid.halo.describe import describe
from spmd_grid.halo.kept_calls import KeptCalls, key_of
from spmd_grid.halo.trial import try_ways
from spmd_grid.halo.under_way import UnderWay
from spmd_grid.halo.watched import loop_form, watched
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.arguments import as_scalar
from spmd_grid.typing import Shape

__all__ = ["HaloExchange"]


class HaloExchange:
    """Refreshes the halos of local arrays of one layout, several fields in one message per neighbour.

    Collective over the axes that split, where the plan is compared between processes; errors as below.

    ``sharding`` carries the halo sizes, ``global_shape`` the extents.  ``dtype``: one for all ``n_fields``, or a list
    with one per field.  ``periodic``: one bool, or one per tensor dimension.  ``corners``: False leaves out the cells
    that lie in the halo of several dimensions.  ``boundary``: what cells outside the domain get in dimensions that
    are not periodic: ``"leave"``, ``"edge"``, ``"reflect"`` or ``"mirror"``, ``"symmetric"`` (numpy.pad's words), a
    number, or a function ``f(local, outside)`` that sets ``local[outside]``, called when all other cells are there;
    one for all sides, or a list with an entry per tensor dimension: one, or a (low, high) pair.

    ``path``: ``"direct"``, memory that the processes of a node share (``"read"`` out of the neighbour's array, or
    ``"staged"`` by the neighbour), or ``"message"`` (``"packed"``, or ``"straight"`` from the arrays by MPI's
    datatypes).  By default what `forced_path` or ``SPMD_GRID_PATH`` say, else memory where there is any.  What is
    left open is tried out when the plan is made, if every process has a core; `describe` says what came of it.
    ``name``: how reports call the plan.

    Cells outside the domain stay untouched unless ``boundary`` says otherwise.  Blocks may be uneven, empty, or
    thinner than a halo.  Raises `MismatchError` where processes make different plans, `ShardingError`, `ShapeError`,
    `DTypeError`, `GridError`.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    ...     u = sg.from_function(lambda i: 10.0 + i, (7,), s, grid)
    ...     u.core[:] += 10
    ...     halo = sg.HaloExchange(grid, s, (7,), "float64", boundary="edge")
    ...     halo.update(u)
    ...     return u.local.tolist()
    >>> for local in sg.run_spmd(body, ranks=3): print(local)
    [20.0, 20.0, 21.0, 22.0, 23.0]
    [22.0, 23.0, 24.0, 25.0, 26.0]
    [25.0, 26.0, 26.0]
    """

    def __init__(
        self,
        grid: ProcessGrid,
        sharding: Sharding,
        global_shape: Sequence[int],
        dtype,
        periodic=False,
        corners: bool = True,
        n_fields: int = 1,
        *,
        boundary="leave",
        path: str | None = None,
        name: str | None = None,
    ):
        self._bind(grid, sharding, name)
        arguments = global_shape, dtype, periodic, corners, n_fields, boundary, path
        self._gate.run("HaloExchange", self._make, sharding, *arguments)

    @classmethod
    def _within(cls, grid: ProcessGrid, sharding: Sharding, *arguments) -> HaloExchange:
        """As the constructor, as a part of an operation that has gone through the gate."""
        self = cls.__new__(cls)
        self._bind(grid, sharding)
        self._make(sharding, *arguments)
        return self

    def _bind(self, grid: ProcessGrid, sharding: Sharding, name: str | None = None) -> None:
        self._axes = group_axes(grid, sharding)
        self._grid, self._gate, self.name = grid, grid.process.gate, name

    def _make(self, sharding, *arguments) -> None:
        grid = self._grid
        self.pattern, self.dtypes, self._path = agree(grid, self._axes, sharding, *arguments)
        self.layout = self.pattern.layout
        self._shape = self.layout.local_shape(grid.coords)
        self._comm = grid.group(self._axes)
        self._members = group_members(grid.grid, grid.coords, self._axes)
        self._activity = _Activity(self)
        self._channel = self._make_channel()
        self._edges = [(edge.function, edge.box.slices()) for edge in self.pattern.edges(grid.coords)]
        self._reverse: Reverse | None = None
        self._calls = KeptCalls()
        self._addresses = self._calls.addresses
        self._flight: UnderWay | None = None
        self._broken = self._closed = False
        self._state = self._channel.address
        self._open_to_loops()
        if grid.recorder is not None:
            self.__class__, self._method_calls = watched(HaloExchange), {}

    @cached_property
    def _words(self) -> str:
        """The layout it is of, and its name: what it is called where it is compared."""
        return f"{self.layout}{f' {self.name}' if self.name else ''}"

    # -- making it -----------------------------------------------------------------------------------------------

    def _make_channel(self) -> Channel:
        coords = self._grid.coords
        takes = [
            Taken(self.place(take.owner), Cells.of_box(take.box), take.source, self.shape_of(take.owner))
            for take in self.pattern.takes(coords)
        ]
        gives = [(self.place(give.taker), give.cells) for give in self.pattern.gives(coords)]
        fills = [
            (
                Cells.of_box(fill.box),
                [as_scalar("HaloExchange", "boundary", fill.value, dtype) for dtype in self.dtypes],
            )
            for fill in self.pattern.fills(coords)
        ]
        channel = self.channel_of(gives, takes, fills)
        self.trial: dict[str, float] = {}  # seconds per update of the ways that were tried
        if self._path in (READ, STAGED, PACKED, STRAIGHT):
            channel.choose(self._path)
        elif channel.wire.times_well and self._comm.size > 1:
            try:
                self.trial = try_ways(channel)
            except BaseException:
                channel.retire()
                raise
        return channel

    def channel_of(self, gives, takes, fills=(), lands: bool = True) -> Channel:
        """A channel of this plan's group and fields.  Collective over the neighbours."""
        in_order = sorted(range(len(takes)), key=lambda i: takes[i].place)
        return Channel(
            self._comm,
            self._shape,
            self.dtypes,
            sorted(gives, key=lambda give: give[0]),
            [takes[i] for i in in_order],
            fills,
            lands=lands,
            memory=self._path not in (MESSAGE, PACKED, STRAIGHT, INLINE),
            activity=self._activity,
        )

    def place(self, device: int) -> int:
        """The place in the group of a device of the grid.  Local."""
        return self._members.index(device)

    def shape_of(self, device: int) -> Shape:
        """The local shape of a device of the grid.  Local."""
        return self.layout.local_shape(self._grid.grid.multi_index(device))

    def _open_to_loops(self) -> None:
        """Lets compiled code take this object, and find its way back when it needs words."""
        import_module("spmd_grid.halo.jit").let_in(self, self._state)
        me = weakref.ref(self)
        self._loop_error: SpmdError | None = None
        self._channel.let_loops_in(
            lambda f, reason, _: me()._refuse_in_loop(f, reason), not self._edges, loop_form(self)
        )

    def _refuse_in_loop(self, f: int, reason: int) -> None:
        """An array that compiled code has brought will not do: the exchange that follows says so to everybody."""
        what = ("the field" if len(self.dtypes) == 1 else f"field {f}") + " in compiled code"
        kind, text = {
            at.WRONG_COUNT: (
                ShapeError,
                f"{f} fields in compiled code; the plan is for {len(self.dtypes)}",
            ),
            at.WRONG_DTYPE: (DTypeError, f"{what} is not of dtype {self.dtypes[min(f, len(self.dtypes) - 1)]}"),
            at.WRONG_SHAPE: (ShapeError, f"{what} is not of the local shape {self._shape}, halos included"),
            at.NOT_CONTIGUOUS: (OutputError, f"{what} is not C-contiguous"),
            at.READ_ONLY: (OutputError, f"{what} is read-only; its halo is written"),
            at.HAS_FUNCTIONS: (ShardingError, "boundary has functions, which compiled code cannot call"),
        }[reason]
        self._loop_error = self.blamed("HaloExchange.update", kind(text))
        self._channel.begin_refusing(self._loop_error)

    def end_loop(self, code: int) -> None:
        """Raises what ``code`` stands for, in the name of compiled code.  Local."""
        try:
            self._end_loop(code)
        except BaseException as error:
            if not isinstance(error, SpmdError) or error.cuts_off:
                self._gate.cut_off("HaloExchange.update in a compiled loop", error)
            raise

    def _end_loop(self, code: int) -> None:
        if code == at.TAKEN and self._channel.hand_over():
            return
        error, self._loop_error = self._loop_error, None
        if error is not None:
            self._channel.end_refusing()
            if code == at.REFUSED_BY:
                raise error
        self._raise("HaloExchange.update", code)

    # -- using it ------------------------------------------------------------------------------------------------

    def update(self, *fields, only_dirty: bool = False) -> None:
        """Refreshes the halos of ``fields``: as many as the plan says, each a `ShardedArray` or a local array.

        Collective over the axes that split.  Returns when the arrays may be written again.

        ``only_dirty``: leaves out what neighbours have got by an earlier update with ``only_dirty`` of this plan, and
        said so, since `ShardedArray.mark_dirty` was called last.  They say so when they come to the next update, so
        the second one after a change is the last that sends it.  Nobody else may have written the halo meanwhile.

        Callable in numba's compiled code, on C-contiguous local arrays, unless ``boundary`` has functions; there its
        errors cannot be caught, only passed on to the caller of the compiled function.

        Raises `ShapeError`, `DTypeError` and `OutputError` where a field will not do, the same on this process and on
        all that wait for it; `RequestError` while an update is under way or after ``close``.
        """
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            self._update(fields, only_dirty)
            if self._edges:
                self._call_functions(fields)
            gate.idle.append(token)
        except BaseException as error:
            self._gate.fail("HaloExchange.update", locals().get("token"), error)
            raise

    def _update(self, fields: tuple, only_dirty: bool) -> None:
        key = id(fields[0]) if len(fields) == 1 else tuple(map(id, fields))
        call = self._addresses.get(key) or self._prepare("HaloExchange.update", key, fields)
        if only_dirty:
            self._calls.leave_out_unchanged(key, fields, self._channel.confirmed)
        code = _run_course(at.UPDATE, self._state, call)
        if code or only_dirty:
            self._after("HaloExchange.update", code, key, fields, only_dirty)

    def start(self, *fields) -> None:
        """Begins an update, which ``wait()`` ends; until then nobody may write the fields.

        Collective as `update`, and raises as it does.  Several exchanges may be under way, one of each plan.
        """
        self._gate.run("HaloExchange.start", self._start, fields)

    def _start(self, fields: tuple) -> None:
        self._check_idle("HaloExchange.start")
        key = key_of(fields)
        code = _run_course(
            at.BEGIN, self._state, self._addresses.get(key) or self._prepare("HaloExchange.start", key, fields)
        )
        if code == at.ARRAY_CHANGED:
            self._calls.forget(key)
            code = _run_course(at.BEGIN, self._state, self._prepare("HaloExchange.start", key, fields))
        if code:
            self._raise("HaloExchange.start", code)
        self._flight = UnderWay(self._channel, fields, self._calls.call_of(key))
        self._comm.process.progress()

    def wait(self) -> None:
        """Ends the update that ``start`` began.  Collective as `update`; raises as it does."""
        self._gate.run("HaloExchange.wait", self._end_update)

    def _end_update(self) -> None:
        fields = self._wait()
        if self._edges:
            self._call_functions(fields)

    def _wait(self) -> tuple:
        flight = self._check_under_way("HaloExchange.wait")
        self._flight = None
        code = flight.finish()
        if code:
            self._raise("HaloExchange.wait", code)
        return flight.fields

    def poke(self) -> bool:
        """Lets an update that is under way go on; whether ``wait()`` would return at once.  Local.

        To be called between pieces of work: messages move only while somebody looks after them.
        """
        return self._gate.run("HaloExchange.poke", self._poke)

    def _poke(self) -> bool:
        flight = self._check_under_way("HaloExchange.poke")
        self._comm.process.progress()
        if not flight.done:
            self._comm.give_way()
        return flight.done

    def accumulate(self, *fields) -> None:
        """Adds all halo cells to the cells they are copies of, and sets them to 0: the adjoint of `update`.

        Collective over the axes that split.  With ``boundary`` rules that copy, the cells they lead to get theirs;
        cells outside the domain that no rule copies stay untouched.  What comes from several devices is added in the
        order of their places, so all runs give the same bits.  Raises as `update`, and `DTypeError` for what cannot
        be added.
        """
        self._gate.run("HaloExchange.accumulate", self._accumulate, fields)

    def _accumulate(self, fields: tuple) -> None:
        self._check_idle("HaloExchange.accumulate")
        if self._reverse is None:
            self._reverse = Reverse(self)
        channel = self._reverse.channel
        try:
            arrays = self._arrays(fields)
            check_addable(arrays)
            call = channel.call(arrays)
        except (SpmdError, MemoryError) as error:
            raise self._refuse("HaloExchange.accumulate", error, channel) from None
        code = self._reverse.run(arrays, call)
        if code:
            self._raise("HaloExchange.accumulate", code, channel)
        for field in fields:
            if hasattr(field, "mark_dirty"):
                field.mark_dirty()

    def describe(self) -> str:
        """The plan in words, as this process sees it: neighbours, boxes, bytes, and the way they go.  Local."""
        return describe(self)

    @property
    def coords(self):
        """Coordinates of this process's device."""
        return self._grid.coords

    def label(self, place: int) -> str:
        """``rank 3 (1, 0)``: a member of the group in the words of the user.  Local."""
        device, grid = self._members[place], self._grid.grid
        return f"rank {grid.process(device)} {grid.multi_index(device)}"

    def close(self) -> None:
        """Gives back what the plan holds.  Local; may be called again.  Refused while an update is under way."""
        if self._flight is not None:
            raise RequestError("HaloExchange.close: an update is under way; wait() ends it")
        if not self._closed:
            self._closed = True
            self._calls.clear()
            self._state = 0  # compiled code, too, sees that it has been closed
            self._retire()
            close_retired(self._comm.process)

    def _retire(self) -> None:
        self._channel.retire()
        if self._reverse is not None:
            self._reverse.channel.retire()

    def __del__(self):  # no finalizer: those keep what they are to call, which leads to the last call and its grid
        if hasattr(self, "_state"):  # it has been made
            self._retire()

    def __enter__(self) -> HaloExchange:
        return self

    def __exit__(self, *exc_info) -> None:
        if self._flight is None or exc_info[0] is None:
            self.close()

    # -- arrays --------------------------------------------------------------------------------------------------

    def _prepare(self, operation: str, key, fields) -> int:
        """The address of the call of these fields, kept for as long as they live; refuses what will not do."""
        self._check_idle(operation)
        try:
            call = self._channel.call(self._arrays(fields))
            return self._calls.keep(key, fields, call)
        except (SpmdError, MemoryError) as error:
            raise self._refuse(operation, error, self._channel) from None

    def _arrays(self, fields) -> list[np.ndarray]:
        """The local arrays of ``fields``.  Local; the caller tells the neighbours of the error."""
        if len(fields) != len(self.dtypes):
            raise ShapeError(f"{len(fields)} fields; the plan is for {len(self.dtypes)}")
        return [self._local_of(i, field) for i, field in enumerate(fields)]

    def _local_of(self, i: int, field) -> np.ndarray:
        what = "the field" if len(self.dtypes) == 1 else f"field {i}"
        layout = getattr(field, "layout", None)
        if isinstance(layout, Layout):
            if layout != self.layout:
                raise ShapeError(f"{what} has layout {layout}; the plan is for {self.layout}")
            field = field.local
        if not isinstance(field, np.ndarray) or isinstance(field, np.ma.MaskedArray):
            raise OutputError(f"{what} is {type(field).__name__}; it must be a ShardedArray or a local numpy array")
        if field.dtype != self.dtypes[i]:
            raise DTypeError(f"{what} has dtype {field.dtype}; the plan is for {self.dtypes[i]}")
        if field.shape != self._shape:
            raise ShapeError(f"{what} has shape {field.shape}; the local shape is {self._shape}, halos included")
        if not field.flags.writeable:
            raise OutputError(f"{what} is read-only; its halo is written")
        if field.nbytes and any(stride == 0 and extent > 1 for stride, extent in zip(field.strides, field.shape)):
            raise OutputError(f"{what} has a stride of 0; each of its cells must have memory of its own")
        return field

    def _refuse(self, operation: str, error: Exception, channel: Channel) -> SpmdError:
        """Takes part in an exchange by telling everybody who waits for this process why it cannot; the error."""
        error = self.blamed(operation, error)
        channel.refuse(error)
        return error

    def blamed(self, operation: str, error: Exception) -> SpmdError:
        """The error as all processes raise it: with the operation, and this process.  Local."""
        kind = type(error) if isinstance(error, SpmdError) else TransportError
        where = f" (on rank {self._grid.rank} {self._grid.coords})"
        return kind(shortened(f"{operation}: {str(error).removeprefix(f'{operation}: ')}") + where)

    def _call_functions(self, fields) -> None:
        """Lets the user's boundary functions set their cells, which no neighbour waits for.  Local."""
        for field in fields:
            local = field if isinstance(field, np.ndarray) else field.local
            for function, outside in self._edges:
                self._gate.call_user(function, local, outside)

    # -- ends ----------------------------------------------------------------------------------------------------

    def _check_idle(self, operation: str) -> None:
        """Refuses a plan that is closed, broken or at work.  Local."""
        if self._closed:
            raise RequestError(f"{operation}: the plan has been closed")
        if self._broken:
            raise TransportError(f"{operation}: an exchange of this plan has failed; make a new plan")
        if self._flight is not None:
            raise RequestError(f"{operation}: an update is under way; wait() ends it")

    def _check_under_way(self, operation: str) -> UnderWay:
        if self._flight is None:
            if self._broken:
                self._check_idle(operation)
            raise RequestError(f"{operation}: no update is under way; start() begins one")
        return self._flight

    def _after(self, operation: str, code: int, key, fields, only_dirty: bool) -> None:
        """The rest of an update that was not plain."""
        if code == at.ARRAY_CHANGED or (code == at.TAKEN and self._channel.hand_over()):
            self._calls.forget(key)  # an array is not what it was when it came last: it has to be looked at anew
            HaloExchange._update(self, fields, only_dirty)
            return
        if code:
            if only_dirty:
                self._calls.forget_sent(key)
            self._raise(operation, code)
        self._calls.note_sent(key, fields, self._channel.epoch)

    def _raise(self, operation: str, code: int, channel: Channel | None = None) -> None:
        """Raises what ``code`` stands for."""
        channel = channel or self._channel
        if code == at.REFUSED_BY:
            raise channel.refusal()
        if code == at.BARRED:
            raise self._gate.error()
        if code == at.TAKEN:
            raise self._gate.refusal(operation, "while another thread of this process updates by the same plan")
        if code == at.BUSY:
            self._check_idle(operation)
        if code == at.MOVED:
            raise RequestError(f"{operation}: an array was moved in memory, reshaped or made read-only while under way")
        self._broken = True
        channel.raise_ended()


class _Activity:
    """What this process does, in words, for reports."""

    def __init__(self, halo: HaloExchange):
        self._text = f"HaloExchange of {halo.name or halo._words}"

    def describe(self) -> str:
        return self._text


def _run_course(what: int, state: int, call: int) -> int:
    global _run_course
    from spmd_grid.kernels import run_course

    _run_course = run_course
    return run_course(what, state, call)
