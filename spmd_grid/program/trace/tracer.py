"""A tracer: the program that is being written down while the user's function runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ImplicitGatherError
from spmd_grid.functions.elementwise import elementwise
from spmd_grid.functions.interface import Application, Interface, Iterator
from spmd_grid.functions.trials import trial_dtypes
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Annotation, CallSite, Constant, Lowering, Operand, Operation, Value

__all__ = ["Tracer", "traced_site", "current_tracer", "is_users", "tracing"]

_ROOTS = tuple([f"{Path(path).parent}{os.sep}" for path in (sys.modules["spmd_grid"].__file__, np.__file__) if path])
_GENERATED = ("<__array_function__", "<frozen", "<string>", "<program ")
_CURRENT: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs code that is neither numpy's nor the engine's."""
    return not frame.f_code.co_filename.startswith(_ROOTS + _GENERATED)


def traced_site() -> CallSite | None:
    """The innermost line that is neither numpy's nor the engine's."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame):
            return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]  # the last has none
    return None


def tracing() -> Tracer | None:
    """The tracer of the function that is being traced; None outside of one."""
    return _CURRENT.get()


def current_tracer(op: str) -> Tracer:
    """The tracer of the function that is being traced.  Raises ImplicitGatherError outside of one."""
    tracer = _CURRENT.get()
    if tracer is None:
        raise ImplicitGatherError(f"{op}: no function is being traced; it must be called inside one, by sg.trace")
    return tracer


class Tracer:
    """Collects the operations and annotations of one program.  ``wrap`` makes the array that stands for a value."""

    def __init__(self, wrap: Callable[[Tracer, Value], Any]):
        self._wrap = wrap
        self.operations: list[Operation] = []
        self.annotations: list[Annotation] = []
        self.groups: dict[Any, list[Value]] = {}
        self.depth = 0  # of calls of functions inside functions that are made of others
        self._names: set[str] = set()
        self._constants: list[tuple[np.ndarray, np.ndarray]] = []

    def __enter__(self) -> Tracer:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _CURRENT.reset(self._token)

    def new_value(self, shape: Sequence[int], dtype: np.dtype, name: str | None = None) -> Value:
        """A value with a name of its own."""
        if name is None or name in self._names:
            number = len(self._names) if name is None else 1
            base = "" if name is None else f"{name}_"
            while f"{base}{number}" in self._names:
                number += 1
            name = f"{base}{number}"
        self._names.add(name)
        return Value(name, tuple(shape), np.dtype(dtype), traced_site())

    def wrapped(self, shape: Sequence[int], dtype: np.dtype) -> Any:
        """An array that stands for a new value."""
        return self._wrap(self, self.new_value(shape, dtype))

    def check_annotation(self, op: str, sharding: Sharding | None) -> None:
        """Refuse annotations that the function cannot have; a sharding group has no ``sharding``.  Local."""

    def standing_for(self, value: Value) -> Any:
        """An array that stands for a value of the program."""
        return self._wrap(self, value)

    def constant(self, x: Any) -> Any:
        """The array that stands for a plain one, which is the same on all devices."""
        return self.apply(elementwise("constant", np.copy, np.asarray(x)))

    def argument(self, shape: Sequence[int], dtype: np.dtype, name: str) -> Any:
        """The array that stands for an argument."""
        return self._wrap(self, Value(self.new_value(shape, dtype, name).name, tuple(shape), np.dtype(dtype)))

    def operand(self, op: str, x: Any) -> Operand:
        """An operand of an operation: the value of a traced array, else a constant.  Raises DTypeError."""
        value = getattr(x, "value", None)
        if isinstance(value, Value):
            if x.tracer is not self:
                raise DTypeError(f"{op}: an operand, {value!r}, belongs to another traced function")
            return value
        if hasattr(x, "layout"):
            raise DTypeError(
                f"{op}: an operand is a ShardedArray; inside a traced function it must be an argument of it"
            )
        if not isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
            raise DTypeError(
                f"{op}: an operand is {type(x).__name__}; it must be an array of the traced function, or a number or"
                " numpy array that is equal on all processes"
            )
        return Constant(self._kept(x) if isinstance(x, np.ndarray) else x)

    def _kept(self, x: np.ndarray) -> np.ndarray:
        """A copy of a plain array, which the function may write to later; one for uses with the same cells."""
        for given, copy in self._constants:
            if given is x and bool(np.all(copy == x)):
                return copy
        copy = x.copy()
        copy.flags.writeable = False
        self._constants.append((x, copy))
        return copy

    def apply(self, application: Application, key: Any = None, function: Callable[..., Any] | None = None) -> Any:
        """The results of a call by its rule; what is finished after combining becomes an operation of its own."""
        name, interface = application.name, application.interface
        operands = tuple([self.operand(name, x) for x in application.operands])
        dtypes = trial_dtypes(application)
        shapes = [interface.result_shape(number) for number in range(len(interface.results))]
        finish = application.finish
        combined = dtypes if finish is None else trial_dtypes(_unfinished(application))
        results = [self.new_value(shape, dtype) for shape, dtype in zip(shapes, combined)]
        self.operations.append(
            Operation(
                name,
                operands,
                tuple(results),
                interface,
                application.local,
                traced_site(),
                application.kind,
                application.located,
                key,
                function,
            )
        )
        if finish is not None:
            results = [self._finished(name, each, finish, dtype, key) for each, dtype in zip(results, dtypes)]
        wrapped = tuple([self._wrap(self, each) for each in results])
        return wrapped[0] if len(wrapped) == 1 else wrapped

    def _finished(self, name: str, x: Value, finish: Callable[..., Any], dtype: np.dtype, key: Any) -> Value:
        dims = tuple(range(x.ndim))
        interface = Interface(tuple(map(Iterator, x.shape)), (dims,), (dims,))
        result = self.new_value(x.shape, dtype)
        key = None if key is None else ("finish", key)
        self.operations.append(Operation(f"{name}_finish", (x,), (result,), interface, finish, traced_site(), key=key))
        return result

    def structural(
        self,
        name: str,
        operands: Sequence[Any],
        parts: Sequence[tuple[Sequence[int], np.dtype]],
        interface: Interface,
        lowering: Lowering,
    ) -> Any:
        """The results, of these shapes and dtypes, of an operation with a ``lowering`` of its own."""
        results = tuple([self.new_value(shape, dtype) for shape, dtype in parts])
        self.operations.append(
            Operation(
                name,
                tuple([self.operand(name, x) for x in operands]),
                results,
                interface,
                None,
                traced_site(),
                key=(name, lowering),
                lowering=lowering,
            )
        )
        wrapped = tuple([self._wrap(self, each) for each in results])
        return wrapped[0] if len(wrapped) == 1 else wrapped


def _unfinished(application: Application) -> Application:
    return Application(
        application.name,
        application.operands,
        application.interface,
        application.local,
        application.kind,
        located=application.located,
    )
