"""Names of functions in texts: a closed set, made of the table of rules, and the arguments that a text may give them.

A text comes from anywhere, so a name in it is looked up here and nowhere else: no attribute of a module or of an object
is followed.  What has no rule has no name, and an argument that the rule does not take is none of the function's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from inspect import Parameter, signature
from types import MappingProxyType

import numpy as np

from spmd_grid.functions.linear.contractions import product
from spmd_grid.functions.table import Function, entry_of, registered
from spmd_grid.functions.ufuncs import entry_of_ufunc

__all__ = ["arguments_of", "function_name", "function_named", "has_name", "known_functions"]

_SPACES = ("numpy", np), ("numpy.linalg", np.linalg), ("numpy.fft", np.fft)
_NAMED = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
_OBJECTS = {"out", "out_sharding"}  # arguments that no text can hold


def function_name(function: Function) -> str:
    """The name of a function of numpy's, or of a rule of another function.

    >>> function_name(np.linalg.norm), function_name(np.abs)
    ('numpy.linalg.norm', 'numpy.absolute')
    """
    if function is product:
        return "numpy.einsum"
    name, owner = getattr(function, "__name__", str(function)), getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        return f"{function_name(owner)}.{name}"
    for prefix, module in _SPACES:
        if vars(module).get(name) is function:
            return f"{prefix}.{name}"
    return f"spmd_grid.{name}"


def function_named(name: str) -> Function | None:
    """The function of a name; None where no function with a rule has it.  Local.

    >>> function_named("numpy.linalg.norm") is np.linalg.norm, function_named("numpy.load")
    (True, None)
    """
    return known_functions().get(name)


def has_name(function: Function) -> bool:
    """Whether a text that has the name of a function means this function, and no other or none.  Local."""
    return function is product or function_named(function_name(function)) == function


def known_functions() -> Mapping[str, Function]:
    """All functions that a text may call, by their names.  Local."""
    return _known(len(registered()))


@lru_cache(1)
def _known(count: int) -> Mapping[str, Function]:
    """The names of the ``count`` functions of the table; of two with one name the engine's own has it."""
    found: dict[str, Function] = {}
    own_first = sorted(registered(), key=lambda each: not str(each.__module__).startswith("spmd_grid."))
    for function in own_first:
        name = function_name(function)
        if name.startswith("spmd_grid.") and function.__name__.isidentifier():
            found.setdefault(name, function)
    for prefix, module in _SPACES:
        found |= {f"{prefix}.{name}": each for name, each in vars(module).items() if _has_rule(each)}
    ufuncs = [(name, each) for name, each in found.items() if isinstance(each, np.ufunc) and _accumulates(each)]
    found |= {f"{name}.accumulate": each.accumulate for name, each in ufuncs}
    return MappingProxyType(found)


def _has_rule(x: object) -> bool:
    if isinstance(x, np.ufunc):
        return x.signature is None or entry_of(x) is not None
    return callable(x) and not isinstance(x, type) and entry_of(x) is not None


def _accumulates(ufunc: np.ufunc) -> bool:
    return ufunc.signature is None and (ufunc.nin, ufunc.nout) == (2, 1)


def arguments_of(function: Function) -> frozenset[str]:
    """The names of the arguments that a text may give a function: those of its rule.

    >>> sorted(arguments_of(np.cumsum))
    ['a', 'axis', 'dtype']
    """
    if isinstance(getattr(function, "__self__", None), np.ufunc):  # its accumulate
        return frozenset({"axis", "dtype"})
    entry = entry_of_ufunc(function) if isinstance(function, np.ufunc) else entry_of(function)
    if entry is None:
        return frozenset()
    given = list(entry.signature.parameters.values())
    if any(each.kind is Parameter.VAR_KEYWORD for each in given):  # the rule hands on what numpy's function takes
        given += signature(function).parameters.values()
    if function is np.einsum:
        given += signature(product).parameters.values()
    return frozenset([each.name for each in given if each.kind in _NAMED]) - _OBJECTS
