"""Random calls of the public surface, made from the signatures of its functions."""

import inspect
import operator
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

import spmd_grid as sg
import spmd_grid.fft
from spmd_grid.array_api import creation
from spmd_grid.functions import table
from spmd_grid.functions.ufuncs import METHODS
from support.properties.argument_values import array, index, value_of, wild
from support.properties.argument_world import World

# What is no function, starts a program of its own, waits for a partner, or is made by others.
_LEFT_OUT = {
    "OPEN", "Request", "Saving", "ShardedArray", "ProcessGrid", "run_spmd", "is_simulated", "send", "recv", "manual",
    "autoshard", "sharding_group", "constrain",
}  # fmt: skip
_MOVES = [
    "all_gather", "gather", "all_slice", "all_to_all", "broadcast", "scatter", "all_reduce", "reduce", "reduce_scatter",
    "shift",
]  # fmt: skip
_ARRAY_METHODS = [
    "astype", "clip", "conj", "coordinates", "copy", "cumprod", "cumsum", "dot", "fill", "flatten", "global_indices",
    "local_index", "owner_of", "ravel", "reshape", "reshard", "round", "sort", "squeeze", "swapaxes", "to_device",
    "to_global", "trace", "transpose", "update_halo",
]  # fmt: skip
_GRID_METHODS = ["grid_shape", "neighbors_linear_indices", "process_multi_index"]
_SHARDING_METHODS = ["check_global_shape", "core_shape", "core_slices", "local_shape", "shard_shape", "shard_slices"]
_RANDOM_METHODS = ["integers", "normal", "permutation", "random", "standard_normal", "uniform", "exponential"]
_CREATION = ["arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros", "meshgrid", "full_like", "tril"]
_OPERATORS = [
    "add", "sub", "mul", "truediv", "matmul", "pow", "mod", "floordiv", "and_", "or_", "lshift", "lt", "eq", "iadd",
    "imul", "ipow", "neg", "invert", "divmod",
]  # fmt: skip
# Names of parameters, by function, that take something else than elsewhere.
_OTHER = {
    **{(f"{name}{kind}", "x"): "x_local" for name in [*_MOVES, "update_halo"] for kind in ("", ".start")},
    ("from_global", "array"): "x_local",
    ("from_function", "f"): "f",
    ("map_overlap", "u"): "field",
    ("fields", "fields"): "field",
    ("save_vtk", "arrays"): "named",
    ("save_hdf5", "arrays"): "named",
    ("init_grid", "shape"): "grid_shape",
    ("einsum", "operands"): "a",
    ("save_zarr", "arrays"): "a",
    ("plan_reshard", "source"): "sharding",
    ("reshard", "from_sharding"): "sharding",
    ("reshard", "to_sharding"): "sharding",
}

Bind = Callable[[Random, World], Any]


class Entry(NamedTuple):
    """A function: its name, how it is found in a world, and its parameters; None for one that draws its own."""

    name: str
    find: Bind
    parameters: tuple[inspect.Parameter, ...] | None


class Case(NamedTuple):
    """A call: the function's name, text with the arguments, the function that makes it, and its ``out``."""

    name: str
    text: str
    run: Callable[[], Any]
    out: Any


def entries() -> list[Entry]:
    """All functions that are called, public names first."""
    found: list[Entry] = []

    def add(name: str, find: Bind, function: Any, skip: int = 0) -> None:
        parameters = tuple(inspect.signature(function).parameters.values())[skip:]
        found.append(Entry(name, find, parameters))

    def constant(value: Any) -> Bind:
        return lambda r, w: value

    def method(part: str, name: str) -> Bind:
        return lambda r, w: getattr(getattr(w, part), name)

    for name in sg.__all__:
        thing = getattr(sg, name)
        if name not in _LEFT_OUT and not (isinstance(thing, type) and issubclass(thing, BaseException)):
            add(name, constant(thing), thing)
    for name in _MOVES:
        add(f"{name}.start", constant(getattr(sg, name).start), getattr(sg, name).start)
    for name in _ARRAY_METHODS:
        find = lambda r, w, name=name: getattr(w.arrays[r.choice(sorted(w.arrays))], name)  # noqa: E731
        add(f"array.{name}", find, getattr(sg.ShardedArray, name), 1)
    for name in sorted(METHODS):
        find = lambda r, w, name=name: getattr(w.arrays[r.choice(sorted(w.arrays))], name)  # noqa: E731
        add(f"array.{name}", find, table.entry_of(METHODS[name]).call, 1)
    for name in _GRID_METHODS:
        add(f"grid.{name}", method("grid", name), getattr(sg.ProcessGrid, name), 1)
    for name in _SHARDING_METHODS:
        find = lambda r, w, name=name: getattr(r.choice(w.shardings), name)  # noqa: E731
        add(f"sharding.{name}", find, getattr(sg.Sharding, name), 1)
    for name in _RANDOM_METHODS:
        if hasattr(sg.random.Generator, name):
            add(f"random.{name}", method("random", name), getattr(sg.random.Generator, name), 1)
    add("plan.run", method("plan", "run"), sg.Plan.run, 1)
    found += [Entry(f"halo.{name}", method("exchange", name), None) for name in ("update", "accumulate")]
    for name in sg.fft.__all__:
        add(f"fft.{name}", constant(getattr(sg.fft, name)), getattr(sg.fft, name))
    for name in _CREATION:
        add(f"array_api.{name}", constant(getattr(creation, name)), getattr(creation, name))
    for function, entry in sorted(table._TABLE.items(), key=lambda item: str(item[0])):
        if (getattr(function, "__module__", None) or "numpy").startswith("numpy"):
            add(f"np.{function.__name__}", constant(function), entry.call)
    found += [Entry(f"np.{x}", constant(getattr(np, x)), None) for x in _ufuncs()]
    found += [Entry(x, constant(divmod if x == "divmod" else getattr(operator, x)), None) for x in _OPERATORS]
    found += [Entry(x, constant(getattr(operator, x)), None) for x in ("getitem", "setitem")] * 6
    return found


def _ufuncs() -> list[str]:
    return sorted(name for name in dir(np) if isinstance(getattr(np, name), np.ufunc))


def draw_case(entry: Entry, r: Random, w: World, odd: Random | None = None) -> Case:
    """A call of ``entry``; the arguments come from ``r``, one of them from ``odd`` if that is given."""
    odds, is_one_wrong = r.choice([(0.0, False), (0.0, True), (0.0, True), (0.15, False), (0.5, False)])
    function = entry.find(r, w)
    args: list[Any] = []
    options: dict[str, Any] = {}
    if entry.parameters is None:
        args, options = _own_arguments(entry.name, function, r, w, odds)
    else:
        _arguments(entry, r, w, odds, args, options)
    if is_one_wrong and (args or options):
        args, options = _with_another(args, options, r)
    if entry.name.startswith("np.") and not any(map(_has_sharded, (*args, *options.values()))):
        args[:1] = [w.arrays[r.choice(sorted(w.arrays))]]  # else it is numpy's alone
    if odd is not None and (args or options):
        others, other_options = _with_another(args, options, odd)
        if not entry.name.startswith("np.") or any(map(_has_sharded, (*others, *other_options.values()))):
            args, options = others, other_options
    shown = [_shown(x) for x in args] + [f"{name}={_shown(x)}" for name, x in options.items()]
    text = f"{entry.name}({', '.join(shown)})"
    return Case(entry.name, text, lambda: _finished(function(*args, **options)), options.get("out"))


def _with_another(args: list[Any], options: dict[str, Any], r: Random) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, of which one is anything."""
    position = r.randrange(len(args) + len(options))
    others: dict[Any, Any] = {**dict(enumerate(args)), **options}
    others[list(others)[position]] = wild(r)
    return [others[i] for i in range(len(args))], {name: others[name] for name in options}


def _arguments(entry: Entry, r: Random, w: World, odds: float, args: list[Any], options: dict[str, Any]) -> None:
    short = entry.name.rpartition(".")[2]
    for p in entry.parameters or ():
        name = _OTHER.get((entry.name, p.name), p.name)
        if p.kind is p.VAR_POSITIONAL:
            args += [value_of(_OTHER.get((entry.name, p.name), name), r, w, odds) for _ in range(r.randint(0, 2))]
        elif p.kind is p.VAR_KEYWORD or (p.name in ("timeout", "comm") and odds < 0.5):
            continue
        elif p.default is p.empty and p.kind is not p.KEYWORD_ONLY:
            if short == "full" and p.name == "fill_value":
                name = "fill_value"
            args.append(value_of(name, r, w, odds))
        elif p.default is p.empty or r.random() < 0.4:
            options[p.name] = value_of(name, r, w, odds)


def _own_arguments(name: str, function: Any, r: Random, w: World, odds: float) -> tuple[list[Any], dict[str, Any]]:
    def operand() -> Any:
        return wild(r) if r.random() < odds else array(r, w)

    a = w.arrays[r.choice(sorted(w.arrays))]
    if name.startswith("halo."):
        return [value_of("field", r, w, odds) for _ in range(r.choice([1, 1, 1, 0, 2]))], {}
    if name in ("getitem", "setitem"):
        key = wild(r) if r.random() < odds else index(r, w)
        if name == "getitem":
            return [a, key], {}
        ones = np.full((1,) * r.randint(0, 4), 2.0)
        return [a, key, r.choice([operand(), ones, r.randint(0, 3), np.arange(r.randint(0, 7))])], {}
    if isinstance(function, np.ufunc):
        inputs = [operand() for _ in range(function.nin)]
        inputs[r.randrange(len(inputs))] = a
        options = {}
        for each in ("where", "dtype", "casting", "out"):
            if r.random() < 0.12:
                options[each] = value_of(each, r, w, odds)
        return inputs, options
    both = [a, operand()]
    r.shuffle(both)
    return ([a] if name in ("neg", "invert") else both), {}


def _has_sharded(x: Any, depth: int = 0) -> bool:
    is_list = isinstance(x, list | tuple) and depth < 3
    return isinstance(x, sg.ShardedArray) or (is_list and any(_has_sharded(each, depth + 1) for each in x))


def _finished(found: Any) -> Any:
    """Wait for an operation that has been started, and enter and leave a context."""
    if isinstance(found, sg.Request | sg.Saving):
        return found.wait()
    if isinstance(found, sg.HaloExchange):
        found.close()
    elif hasattr(found, "__enter__") and not isinstance(found, np.ndarray | memoryview):
        with found:
            pass
    return found


def _shown(x: Any, depth: int = 0) -> str:
    if isinstance(x, sg.ShardedArray):
        return f"<{x.dtype} {x.shape} {x.sharding}>"
    if isinstance(x, np.ndarray):
        return f"{type(x).__name__}({x.tolist() if x.size < 8 else '...'}, {x.dtype}, {x.shape})"
    if isinstance(x, list | tuple) and depth < 4:
        inner = ", ".join([_shown(each, depth + 1) for each in x])
        return f"[{inner}]" if isinstance(x, list) else f"({inner},)"
    return "..." if isinstance(x, list | tuple | dict) and depth else repr(x)[:120]
