"""Operations prepared for arrays of one shape and dtype, for hot loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from threading import get_ident
from typing import Any, NamedTuple, Protocol

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import DIRECT, MIXED
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.opening import Opening, Turns
from spmd_grid.ops.calls.plan_ahead import CallAhead, PlanAhead, ahead_run_of
from spmd_grid.ops.calls.plan_arrays import check_array, checked_kind
from spmd_grid.ops.loops.entry import CompiledPart, LoopActivity, last_run
from spmd_grid.ops.loops.plan import StartablePlan
from spmd_grid.ops.loops.quick_call import QuickCall
from spmd_grid.transport.communicator import INLINE_BYTES, Frames
from spmd_grid.typing import GridAxes, Shape
from spmd_grid.watch.call_site import call_site

__all__ = ["OperationPlan"]


_TURNS = 2  # runs of a plan on arrays of one kind that Python makes, before compiled ones


class PlannedCall(CallAhead, Protocol):
    """The part of a `CollectiveCall` that plans use."""

    takes_array: bool

    def opening(self, facts: Facts) -> Opening:
        """Make or look up the opening that states ``facts``."""

    def refusal(self, error: SpmdError) -> Opening:
        """Make the opening of a member that cannot take part."""

    def agree(self, opening: Opening, x: np.ndarray | None) -> tuple[Any, Frames]:
        """Exchange headers.  Collective."""

    def agree_by_itself(self, opening: Opening, x: np.ndarray | None) -> tuple[Any, Frames]:
        """Exchange headers, and record it.  Collective."""


class PlannedOperation(Protocol):
    """The part of an `Operation` that plans use."""

    name: str

    def find_call(
        self, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, kind: str, path: str | None, thread_name: str
    ) -> PlannedCall:
        """Look up or prepare the call."""

    def convert(self, call: Any, x: np.ndarray) -> np.ndarray:
        """Convert the array that was passed into the one that takes part."""


class OperationPlan(StartablePlan):
    """An operation with all its arguments, for arrays of ``shape`` and ``dtype``; made by ``sg.<operation>.plan``.

    Collective over the operation's group when made, when run and when started; the rest is Local.  Members compare
    operation, arguments, shapes and dtypes when it is made, and check at each run that they run the same plan; or some
    runs later in groups that span nodes, where runs of most plans do not meet: `describe` says whether they do.
    ``shape`` and ``dtype`` are None on a device whose array the operation ignores.  ``path`` forces a path, as
    `forced_path` does; ``name`` is the plan's name in reports.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     with sg.all_reduce.plan(grid, (3,), "f8", [0], "max") as plan:
    ...         return plan.run(grid.rank * np.ones(3)).tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    _quick: QuickCall | None = None  # its runs as one compiled function
    _quick_start: QuickCall | None = None  # and its starts, which end with the result

    def __init__(
        self,
        op: PlannedOperation,
        grid: ProcessGrid,
        shape: Sequence[int] | None,
        dtype: np.typing.DTypeLike | None,
        grid_axes: GridAxes | None,
        args: tuple,
        path: str,
        name: str | None,
    ):
        self._op, self._process, self._gate = op, grid.process, grid.process.gate
        self._made_for = grid, tuple(grid_axes) if isinstance(grid_axes, Iterator) else grid_axes, args, path
        made, self._call = self._call_of_thread("plan"), self._find_call("plan.run")
        self._name, self.name, self._made_at = op.name, name, call_site()
        self._turns, self._start_turns = Turns(), Turns()
        self.shape: Shape | None = None
        self.dtype: np.dtype | None = None
        try:
            if made.takes_array:
                self.shape, self.dtype = checked_kind(op.name, shape, dtype)
                opening = made.opening(Facts(self.shape, op.convert(made, np.empty(0, self.dtype)).dtype))
            else:
                opening = made.opening(Facts(None, None))
        except SpmdError as error:
            if made.comm.size == 1:
                raise
            opening = made.refusal(made.blame(error))
        self._agreed, _ = made.agree_by_itself(opening, None)
        self._call.meeting = meeting_of(self._call.comm)
        self._ahead: PlanAhead | None = None
        run_name = f"{op.name}.plan.run"
        run = ahead_run_of(self._name, self._gate, self._call, self._agreed, self._activity, run_name)
        if run is not None:
            convert = partial(op.convert, self._call)
            self._ahead = PlanAhead(run, self._call, self._agreed, self.shape, self.dtype, convert)
        if QuickCall.is_possible(self._call) and type(self).run is OperationPlan.run:
            self._quick = QuickCall(
                run_name, self._gate, self._call, self.run, allocate=grid.allocate, turns=self._turns
            )
            self.__dict__["run"] = self._quick.run  # instead of the method

    def _activity(self) -> LoopActivity:
        """Runs in compiled code, for reports."""
        return LoopActivity(_NamedCall(self._call, self.name).describe(), self._made_at)

    def run(self, x: np.typing.ArrayLike | None = None, out: np.ndarray | None = None) -> np.ndarray | None:
        """Run the operation on ``x``, which has the plan's shape and dtype; return a new array or ``out``.  Collective.

        Raises as the operation does, and `ShapeError` or `DTypeError` if x is not what the plan is for, the same
        on every device of the group.  Without a meeting, this device alone raises it, and all others a `CutOffError`.
        """
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            if self._ahead is not None:
                result = self._run(self._call_of_thread("plan.run"), x, out)
                if self._quick is not None and not self._is_closed:
                    self._ahead.learn(self._quick, out, result)
            elif get_ident() == gate.owner and self._process.recorder is None:  # `_run` inlined, for speed
                opening, x = self._opening_for(self._call, x, out)
                agreed, frames = self._call.agree(opening, x)
                result = agreed.run(x, out, frames)
                if self._turns.count(opening) == _TURNS and self._quick is not None and not self._is_closed:
                    self._quick.learn(opening, agreed, frames.headers, x, out, result)
            else:
                result = self._run(self._call_of_thread("plan.run"), x, out)
            gate.idle.append(token)
            return result
        except BaseException as error:
            self._gate.fail(f"{self._name}.plan.run", locals().get("token"), error)
            raise

    def _run(self, call: PlannedCall, x: Any, out: np.ndarray | None) -> np.ndarray | None:
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_NamedCall(call, self.name), x, self._run, call, x, out)
        if self._ahead is not None:
            self._process.activity = call
            return self._ahead.run(call, x, out, self._check_open)
        opening, x = self._opening_for(call, x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        return agreed.run(x, out, frames)

    def compiled_part(self) -> CompiledPart:
        """Return the part that compiled code may run by itself.  Local."""
        if self._ahead is not None:
            return self._ahead.compiled_part()
        name, find = f"{self._name}.plan.run", partial(last_run, self._call)
        return CompiledPart(name, self._gate, self._call, self._activity(), find)

    def refuse(self, error: SpmdError) -> None:
        """Raise ``error`` on every device of the group, in place of a run that this process cannot take part in.

        Collective: the others call `run`.
        """
        if self._ahead is not None:
            error.cuts_off = True
        self._gate.run(f"{self._name}.plan.run", self._refuse, self._call_of_thread("plan.run"), error)

    def _refuse(self, call: PlannedCall, error: SpmdError) -> None:
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            recorder.run(_NamedCall(call, self.name), None, self._refuse, call, error)
            return
        if self._ahead is not None:
            raise error
        call.agree(call.refusal(call.blame(error)), None)

    def _call_of_thread(self, kind: str) -> PlannedCall:
        """The call of this plan as the calling thread makes it."""
        return self._find_call(kind, self._gate.thread_name())

    def _find_call(self, kind: str, thread_name: str = "") -> PlannedCall:
        grid, axes, args, path = self._made_for
        return self._op.find_call(grid, axes, args, kind, path, thread_name)

    def start(self, x: np.typing.ArrayLike | None = None, out: np.ndarray | None = None) -> Request:
        """Start the operation; ``wait()``, of the request or of the plan, returns its result.  Collective."""
        self._check_idle()
        started = self._start_by_python(x, out) if self._quick_start is None else self._quick_start.run(x, out)
        self._request = started if type(started) is Request else Request.completed(started, self._call.comm)
        return self._request

    def _start_by_python(self, x: Any = None, out: np.ndarray | None = None) -> Request:
        return self._gate.run(f"{self._name}.plan.start", self._start, self._call_of_thread("plan.start"), x, out)

    def _start(self, call: PlannedCall, x: Any, out: np.ndarray | None) -> Request:
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_NamedCall(call, self.name), x, self._start, call, x, out)
        opening, x = self._opening_for(call, x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        request = self._request_of(call, agreed, x, out, frames)
        if recorder is None and self._start_turns.count(opening) == _TURNS and request.has_result:
            if QuickCall.is_possible(call) and not self._is_closed:
                if self._quick_start is None:
                    finish, name, turns = partial(self._request_of, call), f"{self._name}.plan.start", self._start_turns
                    self._quick_start = QuickCall(name, self._gate, call, self._start_by_python, finish, turns=turns)
                self._quick_start.learn(opening, agreed, frames.headers, x, out, request.result)
        return request

    def _request_of(self, call: PlannedCall, agreed: Any, x: Any, out: np.ndarray | None, frames: Frames) -> Request:
        """The request of a started run that members have agreed on."""
        return Request(call.comm, agreed.steps(x, out, frames), _NamedCall(call, self.name))

    def _opening_for(self, call: PlannedCall, x: Any, out: Any) -> tuple[Opening, np.ndarray | None]:
        """Make the opening for ``x``, which must be what the plan is for; also return ``x``, converted if necessary."""
        if type(x) is np.ndarray and x.shape == self.shape and x.dtype == self.dtype and not self._is_closed:
            return call.opening_for(x, out)
        try:
            self._check_open()
            if call.takes_array:
                check_array(self._name, x, self.shape, self.dtype)
        except SpmdError as error:
            if call.comm.size == 1:
                raise
            return call.refusal(call.blame(error)), None
        return call.opening_for(x, out)

    @property
    def staging_bytes(self) -> int:
        """Upper bound on the bytes of staging memory that a run holds on the direct path."""
        return self._agreed.staging_bytes

    def describe(self) -> str:
        """Describe the operation, and the path that its bytes take."""
        call, agreed = self._call, self._agreed
        arrays = "no array" if self.shape is None else f"{self.dtype} of shape {self.shape}"
        lines = [f"{call.describe()} on {arrays}, {call.comm.size} members", f"  {agreed.describe()}"]
        if self._ahead is not None:
            lines.append(f"  {self._ahead.describe()}")
        elif call.path in (DIRECT, MIXED):
            lines.append(f"  {meeting_of(call.comm).describe()}")
            lines.append(f"  beside x and the result: at most {self.staging_bytes} bytes")
        else:
            lines.append(f"  by messages; arrays of up to {INLINE_BYTES} bytes with the header")
        return "\n".join(lines)

    def close(self) -> None:
        """End the use of the plan by this process; may be called again."""
        super().close()
        for quick in (self._quick, self._quick_start):
            if quick is not None:
                quick.forget()

    def __repr__(self) -> str:
        return f"<plan of {self._call.describe()}, x: {self.dtype} {self.shape}>"


class _NamedCall(NamedTuple):
    """A call of a plan that may have a name, for reports."""

    call: PlannedCall
    name: str | None

    def describe(self) -> str:
        """Describe the call, with the plan's name."""
        return self.call.describe() + (f" {self.name!r}" if self.name else "")
