"""Operations made ready for arrays of one shape and dtype: what a hot loop runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError, RequestError, ShapeError, SpmdError
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import DIRECT, MIXED
from spmd_grid.exchange.requests import Request
from spmd_grid.transport.communicator import INLINE_BYTES
from spmd_grid.typing import Shape

__all__ = ["CallPlan", "OperationPlan"]


class OperationPlan:
    """An operation with all its arguments, for arrays of ``shape`` and ``dtype``; made by ``sg.<operation>.plan``.

    Collective over the operation's group when made, when run and when started; the rest is Local.  Members compare
    operation, arguments, shapes and dtypes when it is made, and that they run the same plan each time they run it.
    ``shape`` and ``dtype`` are None on a device whose array the operation ignores.  ``path`` forces a way, as
    `forced_path` does; ``name`` is how reports call the plan.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     with sg.all_reduce.plan(grid, (3,), "f8", [0], "max") as plan:
    ...         return plan.run(grid.rank * np.ones(3)).tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    def __init__(
        self, op, grid, shape: Sequence[int] | None, dtype, grid_axes, args: tuple, path: str, name: str | None
    ):
        self._op, self._process, self._gate = op, grid.process, grid.process.gate
        self._made_for = grid, tuple(grid_axes) if isinstance(grid_axes, Iterator) else grid_axes, args, path
        made, self._call = self._in_voice("plan"), self._find("plan.run")
        self._name, self.name = op.name, name
        self._request: Request | None = None
        self._is_closed = False
        self.shape: Shape | None = None
        self.dtype: np.dtype | None = None
        try:
            if made.takes_array:
                self.shape, self.dtype = _checked(op.name, shape, dtype)
                opening = made.opening(Facts(self.shape, op.convert(made, np.empty(0, self.dtype)).dtype))
            else:
                opening = made.opening(Facts(None, None))
        except SpmdError as error:
            if made.comm.size == 1:
                raise
            opening = made.refusal(made.blame(error))
        self._agreed, _ = made.agree_by_itself(opening, None)

    def run(self, x=None, out=None) -> np.ndarray | None:
        """The operation on ``x``, which has the plan's shape and dtype; a new array, or ``out``.  Collective.

        Raises as the operation does, and `ShapeError` or `DTypeError` where x is not what the plan is for, the same
        on every device of the group.
        """
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            if get_ident() == gate.owner and self._process.recorder is None:  # as `_run` has it, without its price
                opening, x = self._bring(self._call, x, out)
                agreed, frames = self._call.agree(opening, x)
                result = agreed.run(x, out, frames)
            else:
                result = self._run(self._in_voice("plan.run"), x, out)
            gate.idle.append(token)
            return result
        except BaseException as error:
            self._gate.fail(f"{self._name}.plan.run", locals().get("token"), error)
            raise

    def _run(self, call, x, out) -> np.ndarray | None:
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_Named(call, self.name), x, self._run, call, x, out)
        opening, x = self._bring(call, x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        return agreed.run(x, out, frames)

    def _in_voice(self, kind: str):
        """The call of this plan as the calling thread makes it."""
        return self._find(kind, self._gate.thread_name())

    def _find(self, kind: str, thread_name: str = ""):
        grid, axes, args, path = self._made_for
        return self._op.find_call(grid, axes, args, kind, path, thread_name)

    def start(self, x=None, out=None) -> Request:
        """Begins the operation; ``wait()``, of the request or of the plan, gives its result.  Collective."""
        if self._request is not None and not self._request.done:
            raise RequestError(f"{self._name}: start() of a plan that is under way; wait() for it first")
        return self._gate.run(f"{self._name}.plan.start", self._start, self._in_voice("plan.start"), x, out)

    def _start(self, call, x, out) -> Request:
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(_Named(call, self.name), x, self._start, call, x, out)
        opening, x = self._bring(call, x, out)
        agreed, frames = call.agree(opening, x)
        if recorder is not None:
            recorder.moved(agreed)
        self._request = Request(call.comm, agreed.steps(x, out, frames), call)
        return self._request

    def wait(self) -> np.ndarray | None:
        """The result of what ``start`` began.  Collective, as the operation is."""
        if self._request is None:
            raise RequestError(f"{self._name}: wait() of a plan that has not been started")
        request, self._request = self._request, None
        return request.wait()

    def _bring(self, call, x, out):
        if type(x) is np.ndarray and x.shape == self.shape and x.dtype == self.dtype and not self._is_closed:
            return call.opening_for(x, out)
        try:
            if self._is_closed:
                raise RequestError(f"{self._name}: the plan has been closed")
            if call.takes_array:
                _check_array(self._name, x, self.shape, self.dtype)
        except SpmdError as error:
            if call.comm.size == 1:
                raise
            return call.refusal(call.blame(error)), None
        return call.opening_for(x, out)

    @property
    def staging_bytes(self) -> int:
        """The most bytes beside x and the result that a run holds on the direct path."""
        return self._agreed.staging_bytes

    def describe(self) -> str:
        """What the plan does, and how the bytes go, in words."""
        call, agreed = self._call, self._agreed
        arrays = "no array" if self.shape is None else f"{self.dtype} of shape {self.shape}"
        lines = [f"{call.describe()} on {arrays}, {call.comm.size} members", f"  {agreed.describe()}"]
        if call.path in (DIRECT, MIXED):
            lines.append(f"  {meeting_of(call.comm).describe()}")
            lines.append(f"  beside x and the result: at most {self.staging_bytes} bytes")
        else:
            lines.append(f"  by messages; arrays of up to {INLINE_BYTES} bytes with the header")
        return "\n".join(lines)

    def close(self) -> None:
        """Ends its use by this process; may be called again."""
        self._is_closed = True

    def __enter__(self) -> OperationPlan:
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<plan of {self._call.describe()}, x: {self.dtype} {self.shape}>"


class _Named(NamedTuple):
    """A call of a plan with a name, in words."""

    call: Any
    name: str | None

    def describe(self) -> str:
        return self.call.describe() + (f" {self.name!r}" if self.name else "")


class CallPlan:
    """As `OperationPlan`, of an operation without a group to agree with: it is called with what it was made for.

    ``call(x, out)`` and ``begin(x, out)`` are the operation and its start.  ``takes``: whether it takes an array.
    """

    def __init__(self, name: str, text: str, shape, dtype, call: Callable, begin: Callable, takes: bool = True):
        self._name, self._text, self._takes = name, text, takes
        self.shape, self.dtype = _checked(name, shape, dtype)
        self._functions = call, begin
        self._request: Request | None = None
        self._is_closed = False

    def run(self, x=None, out=None):
        """The operation, as its own call."""
        self._check(x)
        return self._functions[0](x, out)

    def start(self, x=None, out=None) -> Request:
        """Begins the operation, as its own start."""
        if self._request is not None and not self._request.done:
            raise RequestError(f"{self._name}: start() of a plan that is under way; wait() for it first")
        self._check(x)
        self._request = self._functions[1](x, out)
        return self._request

    wait = OperationPlan.wait

    def _check(self, x) -> None:
        if self._is_closed:
            raise RequestError(f"{self._name}: the plan has been closed")
        if self._takes:
            _check_array(self._name, x, self.shape, self.dtype)

    @property
    def staging_bytes(self) -> int:
        return 0

    def describe(self) -> str:
        """What the plan does, in words."""
        return f"{self._text} on {self.dtype} of shape {self.shape}"

    close, __enter__, __exit__ = OperationPlan.close, OperationPlan.__enter__, OperationPlan.__exit__


def _check_array(op: str, x, shape: Shape, dtype: np.dtype) -> None:
    given = np.asarray(x)
    if given.shape != shape:
        raise ShapeError(f"{op}: x has shape {given.shape}; the plan is for {shape}")
    if given.dtype != dtype:
        raise DTypeError(f"{op}: x has dtype {given.dtype}; the plan is for {dtype}")


def _checked(op: str, shape, dtype) -> tuple[Shape, np.dtype]:
    """What x must be."""
    try:
        template = np.empty(0, dtype)
        extents = np.broadcast_to(np.empty(()), shape).shape
    except TypeError as error:
        raise DTypeError(f"{op}.plan: shape={shape!r}, dtype={dtype!r}; {error}") from None
    except ValueError as error:
        raise ShapeError(f"{op}.plan: shape={shape!r}; it must list extents from 0: {error}") from None
    if dtype is None or template.dtype.hasobject:
        raise DTypeError(f"{op}.plan: dtype={dtype!r}; it must be a fixed-size dtype")
    return extents, template.dtype
