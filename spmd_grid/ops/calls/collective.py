"""The course that every collective operation takes, so that each operation states only its rule.

1. `Operation.prepare` checks the arguments that all processes know alike and finds the group (a `CollectiveCall`, kept by the
   grid for the next time);
2. each member describes its own arrays in a header (`CollectiveCall.agree`), or the error that keeps it from taking part;
3. with everybody's facts known, `Operation.resolve` states the result shapes and the boxes to move, or refuses, alike
   on all members; the headers of the whole group are the key under which this is kept;
4. the boxes move (`exchange`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import get_ident
from types import SimpleNamespace

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.facts import encode_error, learn_facts
from spmd_grid.exchange.agreement.header import ERROR, PLAIN, Facts, encode, encode_facts, fingerprint
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.paths import DIRECT, INLINE, MIXED, checked_path, chosen_path, path_for
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.groups import group_members, in_group_device
from spmd_grid.ops.calls.arguments import as_array, check_grid, check_output, gate_of
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.transport.communicator import HEADER_BYTES, Frames
from spmd_grid.watch.call_site import call_site

__all__ = ["CollectiveCall", "Operation", "keep_call"]

# How many calls a grid keeps prepared.
_MOST_CALLS = 512


class CollectiveCall:
    """An operation with checked arguments on one group: everything that does not depend on the arrays."""

    __slots__ = (
        "_fingerprint",
        "_lets_read",
        "_openings",
        "_text",
        "args",
        "axes",
        "comm",
        "gives_result",
        "grid",
        "meeting",
        "op",
        "path",
        "sizes",
        "takes_array",
    )

    def __init__(
        self, op: Operation, grid, axes: tuple[int, ...], args: dict, kind: str, path: str, thread_name: str = ""
    ):
        self.op = op
        self.grid = grid
        self.axes = axes
        self.sizes = grid.grid.grid_shape(axes) if axes else ()
        shown = ", ".join(f"{name}={self._shown(name, value)}" for name, value in args.items() if value is not None)
        name = f"{op.name}.{kind}" if kind else op.name
        thread = f" in thread {thread_name}" if thread_name else ""
        self._text = f"{name}(grid_axes={list(axes)}{', ' if shown else ''}{shown}){thread}"
        self.comm = grid.group(axes, activity=self)
        self.args = SimpleNamespace(**args)
        self.path = path_for(self.comm, path)
        self.meeting: Meeting | None = None
        if self.path is MIXED and kind.endswith("start"):  # started operations go by messages
            self.path = INLINE
        self._lets_read = self.path in (DIRECT, MIXED) and not kind.endswith("start") and kind != "plan"
        self.takes_array = op.takes_array(self)
        self.gives_result = op.gives_result(self)
        self._openings: dict = {}
        self._fingerprint = fingerprint(f"{self._text} on {grid.grid!r} by {self.path}")

    def describe(self) -> str:
        """The call in words, for reports."""
        return self._text

    def _shown(self, name: str, value) -> str:
        if isinstance(value, ReductionKind):
            return repr(value.shown)
        if name == "root":
            return repr(list(in_group_device(self.grid.grid, self.axes, value)))
        return repr(list(value)) if type(value) is tuple else str(value)

    def label(self, member: int) -> str:
        """``rank 3 (1, 0)``: a member in the words of the user."""
        device = group_members(self.grid.grid, self.grid.coords, self.axes)[member]
        return f"rank {self.grid.grid.process(device)} {self.grid.grid.multi_index(device)}"

    def opening_for(self, x, out) -> tuple[Opening, np.ndarray | None]:
        """The opening that describes this member's arrays, and its array as it takes part.

        Local.  Does not raise for what the others must learn of: then the opening says so.
        """
        if not self.takes_array:
            x = None
        if not self.gives_result:
            out = None
        key = _key_of(x, out)
        found = self._openings.get(key)
        if found is not None and self._as_kept(x, out):
            return found, x
        try:
            given = as_array(self.op.name, x) if self.takes_array else None
            taken = None if given is None else self.op.convert(self, given)
            facts = Facts(None, None) if taken is None else Facts(taken.shape, taken.dtype)
            if out is not None:
                check_output(self.op.name, out, given)
                facts = Facts(facts.shape, facts.dtype, out.shape, out.dtype)
        except SpmdError as error:
            if self.comm.size == 1:
                raise
            return self.refusal(self.blame(error)), None
        opening = self.opening(facts)
        if key is not None and taken is x:
            keep(self._openings, key, opening)
        return opening, taken

    def _as_kept(self, x: np.ndarray | None, out: np.ndarray | None) -> bool:
        """Whether arrays whose shapes and dtypes have been seen before can take part as they are."""
        if x is not None:
            if self.op.wants_contiguous and not (x.flags.c_contiguous and x.flags.aligned):
                return False
            if out is not None and (x.base is not None or out.base is not None) and np.may_share_memory(x, out):
                return False  # arrays that own their memory overlap only where they are one
        return out is None or (out is not x and out.flags.writeable)

    def opening(self, facts: Facts) -> Opening:
        """The opening that states ``facts``."""
        found = self._openings.get(facts)
        if found is None:
            found = Opening(PLAIN, self._fingerprint, encode_facts(facts), facts)
            keep(self._openings, facts, found)
        return found

    def blame(self, error: SpmdError) -> SpmdError:
        """An error of this member alone, naming it."""
        return type(error)(f"{error} (on {self.label(self.comm.rank)})")

    def refusal(self, error: SpmdError) -> Opening:
        """The opening of a member that cannot take part; every member will raise ``error``."""
        return Opening(ERROR, self._fingerprint, encode_error(error), None)

    def agree(self, opening: Opening, x: np.ndarray | None):
        """Swaps headers; what the whole group has agreed to do, and the frames it came in.  Collective."""
        comm, meeting = self.comm, self.meeting
        if meeting is None:
            meeting = self.meeting = meeting_of(comm)
        comm.process.activity = self
        if opening.inline_stop and x is not None and self.path in (INLINE, MIXED):
            comm.frame[: opening.inline_stop] = opening.header + x.tobytes()
        else:
            comm.frame[:HEADER_BYTES] = opening.header
        frames = meeting.swap(x if self._lets_read else None)
        agreed = opening.agreed.get(frames.headers)
        if agreed is None:
            agreed = self._resolve(opening, frames)
        return agreed, frames

    def agree_by_itself(self, opening: Opening, x: np.ndarray | None):
        """As `agree`, where that is all of the operation and nobody has recorded it.  Collective."""
        recorder = self.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(self, None, self.agree, opening, x)
        return self.agree(opening, x)

    def _said(self) -> tuple[str, ...]:
        """Who is in which call, on which grid and path, and where, for the table of a mismatch."""
        who = f"{self.label(self.comm.rank)}: {self._text}"
        return who, f" on {self.grid.grid!r}", f" by the path {self.path!r}", f" at {call_site()}"

    def _resolve(self, opening: Opening, frames: Frames):
        try:
            facts = learn_facts(self.comm, frames, opening.body, self._said)
            agreed = self.op.resolve(self, facts)
        except SpmdError as error:
            error.is_shared = True
            raise
        kinds = frames.headers[::HEADER_BYTES]  # the first byte of each header
        if kinds.count(PLAIN) == self.comm.size:  # headers that announce more do not name all facts by themselves
            keep(opening.agreed, frames.headers, agreed)
        return agreed


class Opening:
    """A header ready to be posted, and what was agreed the last times it met certain others."""

    __slots__ = ("agreed", "body", "header", "inline_stop")

    def __init__(self, kind: int, call: bytes, body: bytes, facts: Facts | None):
        self.header, self.body = encode(kind, call, body)
        carries = facts is not None and facts.shape is not None and facts.fits_inline
        self.inline_stop = HEADER_BYTES + facts.nbytes if carries else 0
        self.agreed: dict = {}


class Operation(ABC):
    """A collective operation; an instance is called like a function.

    Subclasses give ``name``, ``prepare`` (arguments known to all), ``takes_array`` and ``resolve``.
    """

    name: str
    wants_contiguous = False  # whether ``convert`` makes arrays C-contiguous and aligned

    @abstractmethod
    def prepare(self, grid, axes: tuple[int, ...], *args) -> dict:
        """Checks the arguments that all processes know alike; the normalised ones by name."""

    def group_axes(self, grid, axes: tuple[int, ...], *args) -> tuple[int, ...]:
        """The axes over which this operation's groups extend: ``grid_axes``, or a part of them that suffices."""
        return axes

    @abstractmethod
    def resolve(self, call: CollectiveCall, facts: list[Facts]):
        """What this member does, given everybody's facts: an object with ``run`` and ``steps``; or refuses."""

    def takes_array(self, call: CollectiveCall) -> bool:
        """Whether this member's array matters (off the root it may not)."""
        return True

    def gives_result(self, call: CollectiveCall) -> bool:
        """Whether this member gets a result; one that does not may pass any ``out``."""
        return True

    def convert(self, call: CollectiveCall, x: np.ndarray) -> np.ndarray:
        """The array that takes part, made from the one that was passed."""
        return x

    def _operate(self, x, grid, grid_axes, args: tuple, out=None):
        try:
            gate, token = grid.process.gate, None
            token = gate.idle.pop()
            if get_ident() == gate.owner and grid.process.recorder is None:  # as `_go` has it, without its price
                call = self.find_call(grid, grid_axes, args)
                opening, x = call.opening_for(x, out)
                agreed, frames = call.agree(opening, x)
                result = agreed.run(x, out, frames)
            else:
                result = self.run_in_gate(x, grid, grid_axes, args, out)
            gate.idle.append(token)
            return result
        except BaseException as error:
            gate_of(self.name, grid).fail(self.name, locals().get("token"), error)
            raise

    def run_in_gate(self, x, grid, grid_axes, args: tuple, out=None):
        """The operation as a part of another one, which has gone through the gate."""
        return self._go(self.find_call(grid, grid_axes, args, thread_name=grid.process.gate.thread_name()), x, out)

    def _go(self, call: CollectiveCall, x, out):
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self._go, call, x, out)
        opening, x = call.opening_for(x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        return agreed.run(x, out, frames)

    def _begin(self, x, grid, grid_axes, args: tuple, out=None) -> Request:
        return gate_of(self.name, grid).run(f"{self.name}.start", self._start, x, grid, grid_axes, args, out)

    def _start(self, x, grid, grid_axes, args: tuple, out=None) -> Request:
        """As `run_in_gate`, of the start."""
        call = self.find_call(grid, grid_axes, args, "start", thread_name=grid.process.gate.thread_name())
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self._start, x, grid, grid_axes, args, out)
        opening, x = call.opening_for(x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        return Request(call.comm, agreed.steps(x, out, frames), call)

    def _plan(self, grid, shape, dtype, grid_axes, args: tuple, path: str | None, name=None) -> OperationPlan:
        path = chosen_path() if path is None else checked_path(path, f"{self.name}.plan: path")
        arguments = self, grid, shape, dtype, grid_axes, args, path, name
        return gate_of(self.name, grid).run(f"{self.name}.plan", OperationPlan, *arguments)

    def find_call(
        self, grid, grid_axes, args: tuple, kind: str = "", path: str | None = None, thread_name: str = ""
    ) -> CollectiveCall:
        """The prepared call; arguments that all processes know alike are refused here, before anything is sent.

        A blocking call, a started one (``kind``) and a plan are different operations: they do not meet.  Nor do calls
        of threads with another ``thread_name``.
        """
        path = path or chosen_path()
        try:
            axes = tuple(grid_axes) if type(grid_axes) is list else grid_axes
            # The types as well, since 1, 1.0 and True are equal, and not all of them are axes.
            key = self.name, axes, args, tuple(map(type, args)), kind, path, thread_name
            return grid.calls[key]
        except (KeyError, TypeError, AttributeError):
            pass
        check_grid(self.name, grid)
        axes = self.group_axes(grid, grid.grid.axes(grid_axes, f"{self.name}: grid_axes"), *args)
        call = CollectiveCall(self, grid, axes, self.prepare(grid, axes, *args), kind, path, thread_name)
        keep_call(grid, key, call)
        return call


def keep_call(grid, key: tuple, call) -> None:
    """Keeps on ``grid`` what has been prepared for the arguments in ``key``, if they can be looked up."""
    try:
        keep(grid.calls, key, call, _MOST_CALLS)
    except TypeError:  # an unhashable callable, say
        pass


def _key_of(x, out) -> tuple | None:
    """What a kept opening depends on; None for things that are not plain arrays and have to be looked at anew."""
    if type(x) is np.ndarray:
        if out is None:
            return x.shape, x.dtype
        return (x.shape, x.dtype, out.shape, out.dtype) if type(out) is np.ndarray else None
    if x is None and type(out) is np.ndarray:
        return None, None, out.shape, out.dtype
    return (None, None) if x is None and out is None else None
