"""Random array programs: the same steps on numpy arrays and on sharded arrays of mixed layouts."""

from typing import Any, NamedTuple

import numpy as np

import spmd_grid as sg

DTYPES = ["f8", "f8", "f4", "i8", "i4", "c16", "?"]

SHAPES = [(7,), (1,), (0,), (6, 5), (5, 1), (1, 8), (4, 3, 5), (2, 0, 3), (13, 2)]


def draw_sharding(source, grid, shape):
    """Any sharding: axes on any dimensions, blocks, offsets, halos."""
    axes = [[] for _ in shape]
    for axis in source.one_of([[0, 1], [1, 0], [0], [1], []]):
        if shape:
            axes[source.number(0, len(shape) - 1)].append(axis)
    dims = [d for d, cut in enumerate(axes) if cut]
    options = {}
    if source.chance(0.3) and dims:
        options["halo_sizes"] = [source.number(0, 2) for _ in range(2 * len(dims))]
    if source.chance(0.25) and dims:
        offsets = []
        for d in dims:
            parts = int(np.prod([grid.shape[axis] for axis in axes[d]]))
            cuts = sorted(source.number(0, shape[d]) for _ in range(parts - 1))
            offsets.append([0, *cuts, shape[d]])
        options["sharded_dims_offsets"] = offsets
    elif source.chance(0.3):
        options["blocks"] = "balanced"
    return sg.Sharding(grid, axes, **options)


def draw_slice(source, extent):
    kind = source.number(0, 5)
    if kind == 0 and extent:
        return source.number(-extent, extent - 1)
    if kind == 1:
        return slice(None)
    bounds = [None if source.chance(0.3) else source.number(-extent - 1, extent + 1) for _ in range(2)]
    return slice(*bounds, source.one_of([None, 1, 2, 3, -1, -2]))


def draw_index(source, shape):
    index = [draw_slice(source, n) for n in shape[: source.number(0, len(shape))]]
    if source.chance(0.2):
        index.insert(source.number(0, len(index)), None)
    return tuple(index)


UNARY = [np.negative, np.abs, np.square, np.conjugate, np.isfinite, np.copy, np.real]
BINARY = [np.add, np.subtract, np.multiply, np.maximum, np.equal, np.not_equal, np.logical_and]


def draw_step(source, x):
    """A function of one array, drawn for ``x``, to be called on the plain and on the sharded one."""
    ndim = x.ndim
    axis = source.number(-ndim, ndim - 1) if ndim else 0
    kind = source.number(0, 26)
    if kind <= 1:
        return source.one_of(UNARY) if x.dtype != bool else np.logical_not
    if kind <= 4:
        index = draw_index(source, x.shape)
        return lambda a: a[index]
    if kind == 5:
        order = np.random.default_rng(source.number(0, 99)).permutation(ndim).tolist()
        return lambda a: np.transpose(a, order)
    if kind == 6 and ndim:
        keepdims = source.chance(0.5)
        return lambda a: np.sum(a, axis=axis, keepdims=keepdims)
    if kind == 7 and ndim and x.size:
        return lambda a: np.max(a, axis=axis, keepdims=True)
    if kind == 8 and ndim:
        return lambda a: np.cumsum(a, axis=axis)
    if kind == 9 and ndim:
        return lambda a: np.concatenate([a, a[::-1] if ndim == 1 else a], axis)
    if kind == 10 and ndim:
        by = source.number(-5, 5)
        return lambda a: np.roll(a, by, axis)
    if kind == 11:
        new = source.number(0, ndim)
        return lambda a: np.expand_dims(a, new)
    if kind == 12 and ndim and x.size and x.dtype.kind != "c":
        return lambda a: np.argmax(a, axis=axis, keepdims=True)
    if kind == 13:
        shape = source.one_of([(-1,), (*x.shape[::-1],), (*x.shape, 1)])
        return (lambda a: np.reshape(a, shape)) if x.size else np.copy
    if kind == 14 and ndim:
        return lambda a: np.flip(a, axis)
    if kind == 16:
        return source.one_of([lambda a: np.sort(a, axis=None), np.unique])
    if kind == 17 and ndim:
        return lambda a: np.argsort(a, axis=None, stable=True)
    if kind == 18:
        return lambda a: np.unique(a, return_inverse=True)[1]
    if kind == 19 and x.size and ndim:
        mode, width = source.one_of(["edge", "wrap", "reflect", "symmetric", "constant"]), source.number(0, 4)
        return lambda a: np.pad(a, (width, 1), mode=mode)
    if kind == 20 and ndim and x.shape[axis] > 1:
        width = source.number(1, x.shape[axis])
        return lambda a: np.lib.stride_tricks.sliding_window_view(a, width, axis)
    if kind == 21 and ndim:
        return lambda a: np.maximum.accumulate(a, axis=axis)
    if kind == 22 and ndim:
        return lambda a: np.nonzero(a)[axis]
    if kind == 23 and ndim and x.shape[axis]:
        numbers = [source.number(-x.shape[axis], x.shape[axis] - 1) for _ in range(source.number(0, 6))]
        index = [slice(source.number(0, 2), None, source.one_of([1, 2, -1])) for _ in x.shape]
        index[axis] = numbers
        return source.one_of([lambda a: np.take(a, numbers, axis), lambda a: a[tuple(index)], doubled_at(tuple(index))])
    if kind == 24 and ndim and x.shape[0] >= 4:  # fewer rows than devices are refused
        return source.one_of([lambda a: a[a != 0], doubled_where(lambda a: a != 0)])
    if kind == 25:
        return doubled_at(draw_index(source, x.shape))
    if kind == 26 and ndim == 1:
        return lambda a: a[1:-1] - 2 * a[:-2] + a[2:] if x.dtype != bool else a[1:] ^ a[:-1]
    return lambda a: np.where(a != 0, a, 1)


def doubled_at(index):
    """A function that doubles the cells of ``index``, and adds what was there before."""

    def step(a):
        a = np.copy(a)
        before = a.copy()
        a[index] = a[index] * 2
        return a + before

    return step


def doubled_where(choose):
    """A function that doubles the cells that ``choose`` selects, and adds what was there before."""
    return lambda a: doubled_at(choose(a))(a)


class Step(NamedTuple):
    """A function of the values of these numbers, what numpy found, and whether its result is a value as well."""

    function: Any
    operands: tuple[int, ...]
    want: Any
    text: str
    is_kept: bool


class Program(NamedTuple):
    """A random program: the shape of its grid, arrays with their shardings, and steps."""

    grid: tuple[int, int]
    arrays: list[tuple[np.ndarray, sg.Sharding]]
    steps: list[Step]

    def __repr__(self):
        lines = [f"{x.dtype} {x.shape} {sharding}" for x, sharding in self.arrays]
        return f"on {self.grid}: " + "; ".join(lines + [each.text for each in self.steps])


def draw_program(source, ranks, most_steps=12):
    """A program of at most ``most_steps`` functions, which numpy has run."""
    shapes = [s for s in [(1, ranks), (ranks, 1), (2, ranks // 2), (3, ranks // 3)] if s[0] * s[1] == ranks]
    grid = sg.Grid(source.one_of(shapes))
    shape = source.one_of(SHAPES)
    arrays = [(source.array(shape, DTYPES), draw_sharding(source, grid, shape)) for _ in range(2)]
    values, steps = [x for x, _ in arrays], []
    for _ in range(source.number(1, most_steps)):
        i, j = (source.number(0, len(values) - 1) for _ in range(2))
        x, y = values[i], values[j]
        if source.chance(0.3) and _broadcast(x.shape, y.shape):
            function, operands = source.one_of(BINARY), (i, j)
            if function is np.subtract and x.dtype == y.dtype == bool:
                function = np.logical_xor
        else:
            function, operands = draw_step(source, x), (i,)
        with np.errstate(all="ignore"):
            want = function(*[values[k] for k in operands])
        shown = f"{getattr(function, '__name__', 'step')} of {operands}: {x.dtype} {x.shape} -> {np.shape(want)}"
        is_kept = isinstance(want, np.ndarray) and want.ndim < 5 and want.size < 5000
        steps.append(Step(function, operands, want, shown, is_kept))
        if is_kept:
            values.append(want)
    return Program(grid.shape, arrays, steps)


def _broadcast(*shapes):
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def play(program):
    """Run a program on sharded arrays, and compare every value with numpy's.  Collective.  The fault, or None."""
    grid = sg.init_grid(program.grid)
    values = [sg.from_global(x, sharding, grid) for x, sharding in program.arrays]
    for number, step in enumerate(program.steps):
        with np.errstate(all="ignore"):
            found = step.function(*[values[i] for i in step.operands])
        got, want = found.to_global() if isinstance(found, sg.ShardedArray) else found, step.want
        same = np.shape(got) == np.shape(want) and np.asarray(got).dtype == np.asarray(want).dtype
        if not same or not np.allclose(got, want, equal_nan=True):
            return f"step {number}: {step.text}\ngot {np.asarray(got).dtype} {got!r}\nwant {want.dtype} {want!r}"
        if step.is_kept:
            values.append(found)
    return None
