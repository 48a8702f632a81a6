"""A good call of every operation, of which tests make bad ones, and what is caught of them."""

import numpy as np

import spmd_grid as sg

X = np.arange(6.0).reshape(2, 3)
GOOD = {  # a call of every operation on axis [0] of a grid of shape (n, 1)
    "all_gather": {"gather_axis": 0},
    "all_slice": {"slice_axis": 0},
    "all_to_all": {"split_axis": 0, "concat_axis": 1},
    "broadcast": {"root": [0]},
    "gather": {"gather_axis": 0, "root": [0]},
    "scatter": {"scatter_axis": 0, "root": [0]},
    "all_reduce": {"reduction": "sum"},
    "reduce": {"reduction": "sum", "root": [0]},
    "reduce_scatter": {"reduction": "sum", "scatter_axis": 0},
    "shift": {"shift_axis": 0, "offset": 1},
    "send": {"destination": [0]},
    "recv": {"source": [0]},
    "update_halo": {"split_axes": [[0]], "halo_sizes": [0, 1]},
}
MEETING = [op for op in GOOD if op not in ("all_slice", "send", "recv", "update_halo")]
ROOTED = ["broadcast", "gather", "scatter", "reduce"]


def call(op, grid, x=X, grid_axes=(0,), **args):
    args = {name: value for name, value in (GOOD[op] | args).items() if value is not ...}
    if op == "recv":
        return sg.recv(grid, grid_axes, **args)
    if op == "update_halo":
        return sg.update_halo(x.copy(), grid, **args)
    return getattr(sg, op)(x, grid, grid_axes, **args)


def caught(function, *args, **named):
    """The type, builtin families and message of the error that the call raises; None without one."""
    try:
        function(*args, **named)
    except sg.SpmdError as error:
        families = {family.__name__ for family in (ValueError, TypeError, RuntimeError) if isinstance(error, family)}
        return type(error).__name__, families, str(error)


BUILTIN = {"DTypeError": "TypeError", "MismatchError": "RuntimeError", "RequestError": "RuntimeError"}
