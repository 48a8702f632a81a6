"""Kernels as addresses and functions of Python: from kept machine code, or compiled, which loads numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from spmd_grid.kernels import machine_code
from spmd_grid.kernels.builtin_functions import builtin

__all__ = ["address_at", "function_at"]


@cache
def address_at(path: str) -> int:
    """The address of a kernel: of the module and the function of this package at ``path``.  Local."""
    module, _, function = path.rpartition(".")
    address: int = machine_code.find(path) or getattr(import_module(f"{__package__}.{module}"), function).address
    return address


@cache
def function_at(path: str) -> Callable[..., Any]:
    """A kernel of integers as a function that Python calls.  Local."""
    return builtin(path.rpartition(".")[2], address_at(path))
