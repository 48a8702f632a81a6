"""Arguments of public functions by the names of their parameters: what may be right, and what never is."""

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np

import spmd_grid as sg
from support.properties.argument_world import World
from support.properties.fuzzed import HUGE, Odd

Draw = Callable[[Random, World], Any]


def some_function(*args: Any) -> Any:
    """A function without a meaning, the same object on all simulated ranks."""
    return args[0] if args else 1.0


def negative(block: Any) -> Any:
    """A function of a block."""
    return -block


def kernel(*arguments: Any) -> None:
    """A kernel of map_overlap that fills its box with 1."""
    first = next(i for i, each in enumerate(arguments) if isinstance(each, tuple))
    out, starts, stops = arguments[first - 1 : first + 2]
    out[tuple(map(slice, starts, stops))] = 1


def failing_kernel(*arguments: Any) -> None:
    """A kernel of map_overlap that raises an error once it has written."""
    kernel(*arguments)
    raise KernelError("a kernel has failed")


class KernelError(ValueError):
    """The error of a kernel."""


def holds_itself(depth: int = 0) -> list[Any]:
    """A list that contains itself."""
    found: list[Any] = [1] * depth
    found.append(found)
    return found


WILD: list[Callable[[Random], Any]] = [
    lambda r: None,
    lambda r: r.choice([True, False, np.True_, np.False_]),
    lambda r: r.randint(-3, 9),
    lambda r: r.choice(HUGE),
    lambda r: r.choice([0.0, 1.0, 2.5, -1.0, math.nan, math.inf, 1e300, 1j, Decimal(1)]),
    lambda r: r.choice(["", "x", "y", "z", "0", "sum", "ceil", "edge", "float64", "\ud800", "a\0b", "C", "M8[s]"]),
    lambda r: r.choice([b"x", b"", bytearray(b"ab"), memoryview(b"abcd"), range(3), {1, 2}, {"a": 1}, {}]),
    lambda r: r.choice([np.int64(1), np.int8(-1), np.uint64(2**64 - 1), np.float32(1), np.str_("x"), np.bytes_(b"x")]),
    lambda r: r.choice([np.datetime64(1, "s"), np.timedelta64("NaT"), np.void(b"ab"), np.complex64(1j)]),
    lambda r: r.choice([Odd(), ..., slice(0, 2), int, np.float64, len, some_function, np.dtype("i4,f8"), object]),
    lambda r: np.array([r.randint(-2, 5) for _ in range(r.randint(0, 4))], r.choice([int, float, bool, "i1", "U2"])),
    lambda r: r.choice([np.zeros((2, 0)), np.array(1), np.array(None), np.array([None, 1]), np.zeros(3, "i4,f8")]),
    lambda r: np.ma.masked_array(np.arange(7.0), np.arange(7) == 2)[: r.choice([5, 7])],
    lambda r: r.choice([np.ma.masked, np.matrix([[1, 2], [3, 4]])]),
    lambda r: holds_itself(r.randint(0, 2)),
    lambda r: [wild(r) for _ in range(r.randint(0, 3))],
    lambda r: tuple([wild(r) for _ in range(r.randint(0, 3))]),
    lambda r: [[wild(r) for _ in range(r.randint(0, 2))] for _ in range(r.randint(1, 2))],
    lambda r: {"a": wild(r)},
]  # fmt: skip


def wild(r: Random) -> Any:
    """Anything."""
    return r.choice(WILD)(r)


def one_of(*values: Any) -> Draw:
    """One of ``values``."""
    return lambda r, w: r.choice(values)


def ints(low: int, high: int, least: int = 1, most: int = 2) -> Draw:
    """A list of whole numbers."""
    return lambda r, w: r.choice([list, tuple])([r.randint(low, high) for _ in range(r.randint(least, most))])


def either(*draws: Draw) -> Draw:
    """A value that one of ``draws`` gives."""
    return lambda r, w: r.choice(draws)(r, w)


def array(r: Random, w: World) -> Any:
    """An operand: mostly a sharded array."""
    if r.random() < 0.5:
        return w.arrays[r.choice(["rows", "columns", "halo", "complex", "line"])]
    if r.random() < 0.7:
        return w.arrays[r.choice(sorted(w.arrays))]
    return r.choice([2, 1.5, np.float32(3), np.arange(5.0), np.ones((7, 5)), [1, 2, 3, 4, 5], True, 1j, "ab"])


def local(r: Random, w: World) -> Any:
    """A plain array of this process."""
    shape = r.choice([(4, 3), (3,), (6, 5), (), (0, 3), (3, 3)])
    return np.arange(math.prod(shape)).reshape(shape).astype(r.choice(["f8", "i4", "?", "c8", "i1,f4"]))


def index(r: Random, w: World) -> Any:
    """An index."""
    entries: list[Any] = [
        r.randint(-7, 6), slice(r.randint(-3, 3), r.randint(0, 7)), slice(None, None, r.choice([-1, 2, -2])), ...,
        None, slice(None), [r.randint(-5, 4) for _ in range(r.randint(0, 3))], np.array([0, 2]), np.arange(7) % 2 == 0,
        np.ones((7, 5), bool), w.arrays["mask"], w.arrays["numbers"], np.int64(1),
    ]  # fmt: skip
    return r.choice(entries) if r.random() < 0.5 else tuple(r.choice(entries) for _ in range(r.randint(0, 3)))


def sharding(r: Random, w: World) -> Any:
    """A sharding of the world's grid."""
    return r.choice(w.shardings)


AXIS = either(one_of(0, 1, -1, None), ints(0, 1))
BOOL = one_of(True, False)
GRID_AXES = one_of([0], ["x"], None, [], (0,))
SHAPE = either(one_of((7, 5), (5,), [3, 2], (0, 3)), ints(0, 6, 0, 3))
DTYPE = one_of("f8", "int16", np.dtype("c8"), None, bool, "M8[s]", "i4,f4", ["f8", "i4"], "U3")

RIGHT: dict[str, Draw] = {
    **dict.fromkeys(["a", "b", "x", "y", "x1", "x2", "arr", "array", "ar1", "ar2", "u", "v", "m", "ary"], array),
    **dict.fromkeys(["condition"], array),
    **dict.fromkeys(["element", "test_elements", "elements", "values", "weights", "p", "xp", "fp", "z", "q"], array),
    **dict.fromkeys(["choices", "operands", "arrays", "tup", "seq", "xi", "condlist", "choicelist"],
                    lambda r, w: [array(r, w) for _ in range(r.randint(1, 3))]),
    **dict.fromkeys(["axis", "axes", "axis1", "axis2", "source", "destination", "axisa"], AXIS),
    **dict.fromkeys(["keepdims", "reproducible", "only_dirty", "corners", "halos", "wait", "copy"], BOOL),
    **dict.fromkeys(["fill_missing", "returned", "density", "stable"], BOOL),
    **dict.fromkeys(["global_shape", "shape", "newshape", "size", "reps", "sizes"], SHAPE),
    **dict.fromkeys(["dtype", "dtypes"], DTYPE),
    **dict.fromkeys(["sharding", "target", "source_sharding", "out_sharding"], sharding),
    **dict.fromkeys(["grid_axes", "split_axes_of", "partial_axes"], GRID_AXES),
    **dict.fromkeys(["gather_axis", "slice_axis", "scatter_axis", "scatter_dim", "split_axis", "concat_axis", "dim"],
                    one_of(0, 1)),
    **dict.fromkeys(["root", "destination_device"], one_of([0], (2,), None)),
    **dict.fromkeys(["stage_bytes", "block_bytes", "memory_limit"], one_of(1 << 20, 64, None)),
    **dict.fromkeys(["path"], lambda r, w: w.path(r)),
    **dict.fromkeys(["n", "k", "num", "N", "M", "nbins", "decimals", "offset", "shift", "keep", "n_fields", "periods"],
                    one_of(0, 1, 2, -1)),
    **dict.fromkeys(["repeats", "shifts", "s", "chunks", "extents", "depth"], either(one_of(2), ints(0, 5, 0, 3))),
    **dict.fromkeys(["origin", "spacing", "dx", "d", "start", "stop", "step", "low", "high", "loc", "scale"],
                    either(one_of(0.0, 0.5, 2), ints(0, 3, 1, 3))),
    **dict.fromkeys(["names", "dimension_names", "axis_names"], one_of(None, ["x", "y"], ["u"], ("a", "a"))),
    **dict.fromkeys(["f", "fn", "func", "func1d", "pyfunc", "reduction"],
                    one_of("sum", "max", np.add, some_function, negative)),
    **dict.fromkeys(["out"], lambda r, w: r.choice([array(r, w), local(r, w)])),
    **dict.fromkeys(["fill_value", "fill", "value", "initial", "constant_values"], one_of(0, 1.5, np.int8(3), None)),
    "grid": lambda r, w: w.grid,
    "x_local": local,
    "local": local,
    "split_axes": one_of([[0]], [[], [0]], [["x"]], [[]]),
    "halo_sizes": either(one_of([1, 1], [[1, 1]], None), ints(0, 2, 1, 4)),
    "sharded_dims_offsets": one_of(None, [[0, 2, 4, 7]], [0, 2, 4, 7]),
    "blocks": one_of("ceil", "balanced"),
    "partial_kind": one_of("sum", "max"),
    "periodic": one_of(True, False, [True, False], [True], [True, False, True], np.True_),
    "boundary": one_of("leave", "edge", ["edge", "wrap"], 1.5),
    "radius": either(one_of(1, 0, [1, 0]), ints(0, 2)),
    "region": one_of(None, slice(1, 3), (slice(0, 2), slice(1, 2))),
    "kernel": one_of(kernel, kernel, failing_kernel),
    "strategy": one_of("auto", "direct"),
    "links": lambda r, w: r.choice([None, sg.LinkModel()]),
    "subscripts": one_of("ij,j->i", "ij->ji", "ii", "ij,kj", "..."),
    "pad_width": either(one_of(1, (1, 2), [[1, 0], [0, 2]]), ints(0, 2)),
    "mode": one_of("constant", "edge", "wrap", "full", "same", "valid"),
    "bins": one_of(3, [0, 1, 2.5], np.arange(4)),
    "range": one_of(None, (0, 1), [1, 0]),
    "indices": either(one_of([0, 2], 1, np.array([1, 1])), lambda r, w: w.arrays["numbers"]),
    "obj": one_of(1, [0, 2], slice(1, 3)),
    "indices_or_sections": one_of(2, [1, 3]),
    "norm": one_of(None, "ortho", "forward"),
    "order": one_of("C", "F", "rank", "auto", "c"),
    "kind": one_of(None, "stable", "quicksort"),
    "casting": one_of("same_kind", "unsafe", "no"),
    "state": lambda r, w: r.choice([{"u": w.arrays["rows"], "n": 3}, {"p": np.arange(3)}, {"u": w.arrays["halo"]}]),
    "named": lambda r, w: r.choice([{"u": w.arrays["rows"]}, {"u": w.arrays["rows"], "v": w.arrays["halo"]}]),
    "grid_shape": one_of((3,), (-1,), [1, 3], (2,)),
    "shift_axis": one_of(0, "x"),
    "shardings": lambda r, w: r.choice([{"u": w.shardings[0]}, {}, {"v": w.shardings[1]}]),
    "attributes": one_of(None, {"unit": "m"}, {"n": 1.5}, {"v": [1, 2]}),
    "slices": one_of(None, {"u": [slice(0, 2)]}),
    "name": one_of(None, "u", "rows"),
    "index": ints(0, 5, 1, 2),
    "coords": ints(0, 2, 1, 1),
    "ranks": one_of(None, [0, 1, 2], [2, 0, 1]),
    "linear": one_of(0, 1, 2),
    "process": one_of(0, 1),
    "key": index,
    "plan": lambda r, w: w.plan,
    "check": one_of(None, True, False),
    "comm": one_of(None),
    "seed": one_of(0, 7, [1, 2]),
    "where": lambda r, w: r.choice([True, w.arrays["mask"], np.ones((7, 5), bool)]),
    "field": lambda r, w: w.arrays[r.choice(["halo", "rows"])],
}  # fmt: skip


def value_of(name: str, r: Random, w: World, odds: float) -> Any:
    """An argument for the parameter ``name``; one in ``1 / odds`` is anything."""
    draw = RIGHT.get(name)
    return wild(r) if draw is None or r.random() < odds else draw(r, w)
