"""Ufuncs as entries of the table, and numpy's functions that reduce by one or are methods of its arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from inspect import signature
from typing import Any

import numpy as np

from spmd_grid.functions.elementwise import ufunc_rule
from spmd_grid.functions.table import Entry, entry_of, no_rule

__all__ = ["METHODS", "REDUCTIONS", "entry_of_ufunc"]

# numpy's functions of which ``ufunc.reduce`` is one.
REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_or: np.any,
    np.logical_and: np.all,
}

# numpy's functions that are methods of its arrays too, by the methods' names, beside those of `ArrayMethods`.
METHODS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "any": np.any,
    "all": np.all,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "argsort": np.argsort,
    "searchsorted": np.searchsorted,
    "repeat": np.repeat,
    "take": np.take,
    "diagonal": np.diagonal,
    "nonzero": np.nonzero,
}


@lru_cache(512)
def entry_of_ufunc(ufunc: np.ufunc) -> Entry:
    """The rule of a ufunc as an entry of the table.  Raises ImplicitGatherError."""
    if ufunc.signature is not None:
        entry = entry_of(ufunc)
        if entry is None:
            raise no_rule(ufunc.__name__)
        return entry
    call = partial(ufunc_rule, ufunc)
    return Entry("rule", call, signature(call))
