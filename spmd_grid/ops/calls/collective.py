"""The stages common to all collective operations; each operation adds only its own rule.

1. `CollectiveOperation.prepare` checks the arguments that are equal on all processes and finds the group.  The result
   is a `CollectiveCall`, which the grid keeps for the next time.
2. Each member sends a header that describes its own arrays, or the error that keeps it from taking part
   (`CollectiveCall.agree`).
3. With the facts of all members, `CollectiveOperation.resolve` computes the result shapes and the boxes to move, or
   raises the same error on all members.  Its result is kept under the headers of the whole group.
4. The boxes move: the ``run`` of that result (`Movement`, `Reduction`), or its ``steps`` in a started operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import partial
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.header import ERROR, PLAIN, Facts, encode_facts, fingerprint
from spmd_grid.exchange.agreement.learn_facts import encode_error, learn_facts
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.paths import DIRECT, INLINE, MIXED, checked_path, chosen_path, path_for
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.abstract import answer_of
from spmd_grid.ops.calls.arguments import as_array, as_grid_axes, check_grid, check_output, gate_of, hashable
from spmd_grid.ops.calls.bounded_cache import keep, keep_call
from spmd_grid.ops.calls.call_text import text_of_call, text_of_member
from spmd_grid.ops.calls.known_calls import find_quick_run
from spmd_grid.ops.calls.opening import Opening, Turns, can_be_used, opening_key
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.loops.quick_call import QuickCall
from spmd_grid.transport.communicator import HEADER_BYTES, Frames
from spmd_grid.typing import GridAxes
from spmd_grid.watch.call_site import call_site

__all__ = ["CollectiveCall", "CollectiveOperation"]

# Openings that a call keeps, and operations on arrays of one kind that Python makes before compiled ones.
_MOST_OPENINGS, _TURNS = 256, 8


class CollectiveCall:
    """An operation with checked arguments on one group: all that does not depend on the arrays.

    ``lets_read``: whether others may read this member's array; started operations send messages, unless all are posted.
    ``told``: what reports add to the text of the call; it is not compared.
    """

    __slots__ = (
        "_openings",
        "_text",
        "args",
        "axes",
        "comm",
        "fingerprint",
        "gives_result",
        "grid",
        "lets_read",
        "meeting",
        "op",
        "path",
        "quick",
        "sizes",
        *("takes_array", "told", "turns"),
    )

    def __init__(
        self,
        op: CollectiveOperation,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        args: dict[str, Any],
        kind: str,
        path: str,
        thread_name: str = "",
    ):
        self.op, self.grid, self.axes, self.sizes = op, grid, axes, grid.grid.grid_shape(axes) if axes else ()
        self._text = text_of_call(f"{op.name}.{kind}" if kind else op.name, grid.grid, axes, args, thread_name)
        self.turns, self.told = Turns(), ""
        self.comm = grid.group(axes, activity=self)
        self.args = SimpleNamespace(**args)
        self.path = path_for(self.comm, path)
        self.meeting: Meeting = None  # type: ignore[assignment]  # `agree` sets it before anything reads it
        self.quick: QuickCall | None = None  # the whole operation, where it has compiled runs
        if self.path is MIXED and kind.endswith("start"):  # started operations send messages
            self.path = INLINE
        self.lets_read = self.path in (DIRECT, MIXED) and not kind.endswith("start") and kind != "plan"
        self.takes_array, self.gives_result = op.takes_array(self), op.gives_result(self)
        self._openings: dict[Hashable, Opening] = {}
        self.fingerprint = fingerprint(f"{self._text} on {grid.grid!r} by {self.path}")

    def describe(self) -> str:
        """Describe the call for reports."""
        return f"{self._text}{self.told}"

    def label(self, member: int) -> str:
        """Name a member as the user knows it: ``rank 3 (1, 0)``."""
        return text_of_member(self.grid, self.axes, member)

    def opening_for(self, x: Any, out: Any) -> tuple[Opening, np.ndarray | None]:
        """Make the opening that describes this member's arrays, and return its array, converted if necessary.  Local.

        An error that the other members must learn of is not raised here: it becomes the opening.
        """
        if not self.takes_array:
            x = None
        if not self.gives_result:
            out = None
        key = opening_key(x, out)
        found = self._openings.get(key)
        if found is not None and can_be_used(x, out, self.op.needs_contiguous):
            return found, x
        try:
            given = as_array(self.op.name, x) if self.takes_array else None
            taken = None if given is None else self.op.convert(self, given)
            facts = Facts(None, None) if taken is None else Facts(taken.shape, taken.dtype)
            if out is not None:
                check_output(self.op.name, out, given)
                facts = Facts(facts.shape, facts.dtype, out.shape, out.dtype)
            opening = self.opening(facts)
        except SpmdError as error:
            if self.comm.size == 1:
                raise
            return self.refusal(self.blame(error)), None
        if key is not None and taken is x:
            keep(self._openings, key, opening, _MOST_OPENINGS)
        return opening, taken

    def opening(self, facts: Facts) -> Opening:
        """Make or look up the opening that states ``facts``."""
        found = self._openings.get(facts)
        if found is None:
            found = Opening(PLAIN, self.fingerprint, encode_facts(facts), facts)
            keep(self._openings, facts, found, _MOST_OPENINGS)
        return found

    def blame(self, error: SpmdError) -> SpmdError:
        """The error with this member's name added; for errors that this member alone has."""
        return type(error)(f"{error} (on {self.label(self.comm.rank)})")

    def refusal(self, error: Exception, where: str = "") -> Opening:
        """Make the opening of a member that cannot take part; all raise ``error``, its text followed by ``where``."""
        return Opening(ERROR, self.fingerprint, encode_error(error, where), None)

    def agree(self, opening: Opening, x: np.ndarray | None) -> tuple[Any, Frames]:
        """Exchange headers; return what `CollectiveOperation.resolve` made of them, and the frames.  Collective."""
        comm, meeting = self.comm, self.meeting
        if meeting is None:
            meeting = self.meeting = meeting_of(comm)
        if self.grid.settle is not None and len(self.axes) == self.grid.ndim:
            self.grid.settle()
        comm.process.activity = self
        if opening.inline_stop and x is not None and self.path in (INLINE, MIXED):
            comm.frame[: opening.inline_stop] = opening.header + x.tobytes()
        else:
            comm.frame[:HEADER_BYTES] = opening.header
        is_posted = self.lets_read or (x is not None and x.nbytes <= meeting.posted_bytes)
        frames = meeting.swap(x if is_posted else None)
        agreed = opening.agreed.get(frames.headers)
        if agreed is None:
            agreed = self.resolve(opening, frames)
        return agreed, frames

    def agree_by_itself(self, opening: Opening, x: np.ndarray | None) -> tuple[Any, Frames]:
        """Exchange headers as `agree` does, and record it: for operations that consist of nothing else.  Collective."""
        recorder = self.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(self, None, self.agree, opening, x)
        return self.agree(opening, x)

    def _mismatch_row(self) -> tuple[str, ...]:
        """This member, its call, grid, path and call site: a row of the table in a mismatch error."""
        call = f"{self.label(self.comm.rank)}: {self.describe()}"
        return call, f" on {self.grid.grid!r}", f" by the path {self.path!r}", f" at {call_site()}"

    def resolve(self, opening: Opening, frames: Frames) -> Any:
        """Return what `CollectiveOperation.resolve` makes of the frames of a meeting, and keep it.  Collective."""
        try:
            facts = learn_facts(self.comm, frames, opening.body, self._mismatch_row)
            agreed = self.op.resolve(self, facts)
        except SpmdError as error:
            error.is_shared = True
            self.grid.forget_functions()
            raise
        kinds = frames.headers[::HEADER_BYTES]  # the first byte of each header
        if kinds.count(PLAIN) == self.comm.size:  # headers that announce a second part do not contain all facts
            keep(opening.agreed, frames.headers, agreed)
        return agreed


class CollectiveOperation(ABC):
    """A collective operation; an instance is called like a function.

    Subclasses define ``name``, ``prepare`` (checks of arguments) and ``resolve``, and override what differs.
    """

    name: str
    needs_contiguous = False  # whether ``convert`` makes arrays C-contiguous and aligned

    @abstractmethod
    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], *args: Any, **options: Any) -> dict[str, Any]:
        """Check the arguments that are equal on all processes; return the normalised ones by name."""

    def group_axes(self, grid: ProcessGrid, axes: tuple[int, ...], *args: Any, **options: Any) -> tuple[int, ...]:
        """The axes over which this operation's groups extend: ``grid_axes``, or those of them that matter."""
        return axes

    @abstractmethod
    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Any:
        """Plan this member's work from the facts of all members: an object with ``run`` and ``steps``.

        Raises the same error on all members where their arrays do not fit.
        """

    def takes_array(self, call: CollectiveCall) -> bool:
        """Whether this member's array matters (off the root it may not)."""
        return True

    def gives_result(self, call: CollectiveCall) -> bool:
        """Whether this member gets a result; without one, ``out`` is ignored."""
        return True

    def convert(self, call: CollectiveCall, x: np.ndarray) -> np.ndarray:
        """Convert the array that was passed into the one that takes part."""
        return x

    def _operate(
        self, x: Any, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, out: np.ndarray | None = None
    ) -> Any:
        """Run the operation; its own signature says whether it may return None.  Known calls do not come here."""
        given, args = args, tuple(map(hashable, args))
        run = find_quick_run(self, grid, grid_axes, args, given)
        return self._operate_by_python(grid, grid_axes, args, x, out) if run is None else run(x, out)

    def _operate_by_python(
        self, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, x: Any, out: np.ndarray | None = None
    ) -> Any:
        """Run the operation, step by step."""
        try:
            gate, token = grid.process.gate, None
            token = gate.idle.pop()
            if get_ident() == gate.owner and grid.process.recorder is None:  # `_run` inlined, for speed
                call = self.find_call(grid, grid_axes, args)
                opening, x = call.opening_for(x, out)
                agreed, frames = call.agree(opening, x)
                result = agreed.run(x, out, frames)
                if call.turns.count(opening) == _TURNS and QuickCall.is_possible(call):
                    if call.quick is None:
                        slow = partial(self._operate_by_python, grid, grid_axes, args)
                        call.quick = QuickCall(self.name, gate, call, slow, allocate=grid.allocate, turns=call.turns)
                    call.quick.learn(opening, agreed, frames.headers, x, out, result)
            else:
                result = self.run_in_gate(x, grid, grid_axes, args, out)
            gate.idle.append(token)
            return result
        except BaseException as error:
            answer = answer_of(x, grid)
            if answer is None:
                gate_of(self.name, grid).fail(self.name, locals().get("token"), error)
                raise
            if locals().get("token"):
                gate.idle.append(True)
        return answer(self.name, x, grid_axes, args, out)  # a function is being traced: nothing is sent

    def run_in_gate(
        self, x: Any, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, out: np.ndarray | None = None
    ) -> Any:
        """Run the operation as a part of another one, which has passed the gate."""
        return self._run(self.find_call(grid, grid_axes, args, thread_name=grid.process.gate.thread_name()), x, out)

    def _run(self, call: CollectiveCall, x: Any, out: np.ndarray | None) -> Any:
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self._run, call, x, out)
        opening, x = call.opening_for(x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        return agreed.run(x, out, frames)

    def _begin(
        self, x: Any, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, out: np.ndarray | None = None
    ) -> Request:
        """Start the operation."""
        return gate_of(self.name, grid).run(f"{self.name}.start", self.start_in_gate, x, grid, grid_axes, args, out)

    def start_in_gate(
        self, x: Any, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, out: np.ndarray | None = None
    ) -> Request:
        """Start the operation as a part of another one, which has passed the gate."""
        call = self.find_call(grid, grid_axes, args, "start", thread_name=grid.process.gate.thread_name())
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self.start_in_gate, x, grid, grid_axes, args, out)
        opening, x = call.opening_for(x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        return Request(call.comm, agreed.steps(x, out, frames), call)

    def _plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int] | None,
        dtype: np.typing.DTypeLike | None,
        grid_axes: GridAxes | None,
        args: tuple,
        path: str | None,
        name: str | None = None,
    ) -> OperationPlan:
        path = chosen_path() if path is None else checked_path(path, f"{self.name}.plan: path")
        arguments = self, grid, shape, dtype, grid_axes, args, path, name
        return gate_of(self.name, grid).run(f"{self.name}.plan", OperationPlan, *arguments)

    def find_call(
        self,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        args: tuple,
        kind: str = "",
        path: str | None = None,
        thread_name: str = "",
    ) -> CollectiveCall:
        """Look up or prepare the call; ``grid_axes`` None: all axes of the grid, in order.

        Arguments that are equal on all processes are checked here, before anything is sent.  A blocking call, a started
        one (``kind``) and a plan are different operations, which do not match each other; nor do calls of threads with
        different names.
        """
        path = path or chosen_path()
        try:
            axes = tuple(grid_axes) if type(grid_axes) is list else grid_axes
            # With the types, since 1, 1.0 and True are equal, but not all of them are valid axes.
            key = self.name, axes, args, tuple(map(type, args)), kind, path, thread_name
            return grid.calls[key]
        except (KeyError, TypeError, AttributeError):
            pass
        check_grid(self.name, grid)
        axes = self.group_axes(grid, as_grid_axes(self.name, grid, grid_axes), *args)
        call = CollectiveCall(self, grid, axes, self.prepare(grid, axes, *args), kind, path, thread_name)
        keep_call(grid, key, call)
        return call
