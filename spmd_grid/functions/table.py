"""The table of rules: for each array function, how a call of it is cut into blocks, or which other functions it is.

A rule takes the arguments of the call and gives an `Application`.  It looks at shapes, dtypes and plain arguments only,
since what it gives is kept for later calls on arrays of the same layouts and dtypes.  A function that is made of others
needs no rule: it is written once, in numpy's calls, and registered as a composite.

A user's own function is registered in a few lines, and called by `call`:

>>> import numpy as np, spmd_grid as sg
>>> from spmd_grid.functions.elementwise import elementwise
>>> def softplus(x, beta=1.0):
...     return np.log1p(np.exp(beta * x)) / beta
>>> @rule(softplus)
... def softplus_rule(x, beta=1.0):
...     return elementwise("softplus", lambda block: softplus(block, beta), x)
>>> def body():
...     grid = sg.init_grid((2,))
...     a = sg.from_function(lambda i: i - 1.0, (3,), sg.Sharding(grid, [[0]]), grid)
...     return call(softplus, a, beta=2.0).to_global().round(3).tolist()
>>> sg.run_spmd(body, ranks=2)[0]
[0.063, 0.347, 1.063]
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from inspect import BoundArguments, Parameter, Signature, signature
from typing import Any, NamedTuple, TypeVar

from spmd_grid.errors import ImplicitGatherError
from spmd_grid.plain_arrays import check_plain

__all__ = [
    "Entry",
    "Function",
    "Operand",
    "as_bool",
    "call",
    "certainly",
    "composite",
    "entry_of",
    "is_array",
    "no_rule",
    "registered",
    "rule",
]

# An array or a number in a rule or a composite: numpy's own annotations know no arrays but numpy's.
Operand = Any

Function = Callable[..., Any]
Registered = TypeVar("Registered", bound=Function)


class Entry(NamedTuple):
    """The table's line for a function: its ``kind``, "rule" or "composite", and what to call."""

    kind: str
    call: Function
    signature: Signature

    def bind(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> BoundArguments:
        """The arguments of a call by name.

        Raises ImplicitGatherError for those that the rule does not know, DTypeError for masked arrays and their like.
        """
        try:
            bound = self.signature.bind(*args, **options)
        except TypeError as error:
            known = ", ".join(self.signature.parameters)
            raise ImplicitGatherError(
                f"{name} of ShardedArrays: {error}; the arguments that it takes are {known}: to_global() gathers the"
                " array (collective)"
            ) from None
        for parameter, value in bound.arguments.items():
            if self.signature.parameters[parameter].kind is Parameter.VAR_POSITIONAL:
                for operand in value:
                    check_plain(name, "an operand", operand, computes=True)
            else:
                check_plain(name, parameter, value, computes=True)
        return bound


_TABLE: dict[Function, Entry] = {}


def rule(*functions: Function) -> Callable[[Registered], Registered]:
    """Decorate the rule of ``functions``: called with their arguments, it gives an `Application`.

    For arguments of which the function is made of others, it gives the result itself, as a composite does.

    A parameter ``out`` is for its dtype only; where the result goes is not the rule's concern.  A rule of no function
    is registered under itself: a composite calls it by `call`.
    """
    return _registering("rule", functions)


def composite(*functions: Function) -> Callable[[Registered], Registered]:
    """Decorate a definition of ``functions`` by other array functions."""
    return _registering("composite", functions)


def _registering(kind: str, functions: tuple[Function, ...]) -> Callable[[Registered], Registered]:
    def register(call: Registered) -> Registered:
        _TABLE.update(dict.fromkeys(functions or (call,), Entry(kind, call, signature(call))))
        return call

    return register


def call(function: Function, *args: Any, **options: Any) -> Any:
    """``function(*args, **options)`` by the table where an argument is a sharded array.  Collective over its grid."""
    for x in (*args, *options.values()):
        if is_array(x):
            return x.__array_function__(function, (type(x),), args, options)
    return function(*args, **options)


def registered() -> Collection[Function]:
    """All functions of the table.  Local."""
    return _TABLE.keys()


def is_array(x: object) -> bool:
    """Whether ``x`` computes by the table: a sharded array, or one of a function that is being traced."""
    return hasattr(x, "__array_function__") and hasattr(x, "sharding")


def as_bool(found: Any) -> Any:
    """``found`` as Python's bool; as it is where it has no cells yet, in a function that is being traced."""
    return found if is_array(found) else bool(found)


def certainly(found: Any) -> bool:
    """Whether ``found`` holds; not in a function that is being traced, whose cells are not known yet."""
    return not is_array(found) and bool(found)


def entry_of(function: Function) -> Entry | None:
    """The entry of a function, or None where the table has none."""
    return _TABLE.get(function)


def no_rule(name: str) -> ImplicitGatherError:
    """The error of a function, or of a use of it, that the table does not have."""
    return ImplicitGatherError(
        f"{name} has no sharding rule: to_global() gathers the array (collective), .core has this process's cells, and"
        " spmd_grid.functions.table takes rules for functions"
    )
