"""Calls by their rules without any process: on blocks of one cell, which show dtypes, and on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.functions.interface import WHOLE, Application, Interface

__all__ = ["on_whole_arrays", "trial_dtypes"]


def trial_dtypes(application: Application) -> list[np.dtype]:
    """The dtypes of the results, found by the function on blocks of one cell.

    All that numpy refuses by dtypes and plain arguments it refuses here, on every process and before anything moves.
    """
    interface = application.interface
    blocks = [_trial_block(operand, i, interface) for i, operand in enumerate(application.operands)]
    if application.located:
        blocks.insert(0, (0,) * len(interface.iterators))
    with np.errstate(all="ignore"):
        try:
            found = application.local(*blocks)
        except TypeError as error:
            raise DTypeError(f"{application.name}: {error}") from None
        results = _finished(application, found)
    dtypes = [np.asarray(each).dtype for each in results]
    for each in dtypes:
        if each.hasobject and not application.may_fail:  # a function of the program may make any objects
            raise DTypeError(
                f"{application.name}: the result would have dtype {each}, of Python objects, which cannot be moved"
            )
    return dtypes


def on_whole_arrays(application: Application) -> Any:
    """The result of a call on plain arrays, each of them one block; a tuple where there are several."""
    interface = application.interface
    blocks = [
        np.pad(block, interface.halos[i]) if interface.halos else block for i, block in enumerate(application.operands)
    ]
    if application.located:
        blocks.insert(0, (0,) * len(interface.iterators))
    results = _finished(application, application.local(*blocks))
    return results if len(results) > 1 else results[0]


def _finished(application: Application, found: Any) -> tuple[Any, ...]:
    results = found if isinstance(found, tuple) else (found,)
    if application.finish is None:
        return results
    return tuple([application.finish(np.asarray(each)) for each in results])


def _trial_block(operand: Any, number: int, interface: Interface) -> Any:
    if isinstance(operand, np.ndarray):
        if not operand.ndim:
            return operand
    elif isinstance(operand, np.generic) or not hasattr(operand, "dtype"):
        return operand
    iterators = [None if i is None else interface.iterators[i] for i in interface.operands[number]]
    shape = [each.extent if each is not None and each.kind == WHOLE else 1 for each in iterators]
    if interface.halos:
        shape = [n + sum(halo) for n, halo in zip(shape, interface.halos[number])]
    return np.ones(shape, operand.dtype)
