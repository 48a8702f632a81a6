"""An oracle of every operation, computed on all devices' arrays at once, and arrays to try it on.

`expected` takes the list of all devices' arrays and gives the list of their results.  It shares no code with the
package: groups come from a transposed index array, blocks from ``numpy.split``, reductions from folding with ufuncs.
"""

import functools
import itertools
import math

import numpy as np

KINDS = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "product": np.multiply,
    "average": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def expected(op, arrays, grid_shape, axes, **args):
    """The results by device (None: no result), in C order whatever the strides of the arrays."""
    if op == "shift":
        axes = [args["shift_axis"]]
    results = [None] * len(arrays)
    for devices in groups(grid_shape, axes):
        members = [arrays[device] for device in devices]
        for device, result in zip(devices, RULES[op](members, [grid_shape[axis] for axis in axes], **args)):
            results[device] = result
    return results


def groups(grid_shape, axes):
    """The devices of every group, in group order."""
    devices = np.arange(math.prod(grid_shape)).reshape(grid_shape)
    others = [axis for axis in range(len(grid_shape)) if axis not in axes]
    n = math.prod(grid_shape[axis] for axis in axes)
    return devices.transpose([*others, *axes]).reshape(-1, n).tolist()


def cut(x, axis, sizes):
    """The blocks of ``x`` by the nested ceil rule."""
    blocks = [x]
    for size in sizes:
        blocks = [part for block in blocks for part in _cut_once(block, axis, size)]
    return blocks


def _cut_once(x, axis, size):
    extent = x.shape[axis]
    chunk = -(-extent // size)
    return np.split(x, [min(part * chunk, extent) for part in range(1, size)], axis)


def fold(arrays, reduction, dtype=None):
    """The arrays combined in order, converted first."""
    average = reduction == "average"
    if dtype is None and average and arrays[0].dtype.kind in "biu":
        dtype = "float64"
    arrays = [array.astype(array.dtype if dtype is None else dtype) for array in arrays]
    with np.errstate(all="ignore"):
        total = np.asarray(functools.reduce(KINDS.get(reduction, reduction), arrays))
        if average:
            total = np.true_divide(total, len(arrays), dtype=total.dtype)
    return total.astype(arrays[0].dtype)


RULES = {}


def _rule(function):
    RULES[function.__name__] = function
    return function


def _join(arrays, axis):
    return np.concatenate(arrays, axis, dtype=arrays[0].dtype)  # by default the byte order would become native


def _place(root, sizes):
    return int(np.ravel_multi_index(root, sizes)) if sizes else 0


def _at(place, value, n):
    return [value if member == place else None for member in range(n)]


@_rule
def all_gather(group, sizes, gather_axis):
    return [_join(group, gather_axis)] * len(group)


@_rule
def gather(group, sizes, gather_axis, root):
    return _at(_place(root, sizes), _join(group, gather_axis), len(group))


@_rule
def all_slice(group, sizes, slice_axis):
    return [cut(x, slice_axis, sizes)[member] for member, x in enumerate(group)]


@_rule
def all_to_all(group, sizes, split_axis, concat_axis):
    pieces = [cut(x, split_axis, sizes) for x in group]
    return [_join(column, concat_axis) for column in zip(*pieces)]


@_rule
def broadcast(group, sizes, root):
    return [group[_place(root, sizes)]] * len(group)


@_rule
def scatter(group, sizes, scatter_axis, root):
    return cut(group[_place(root, sizes)], scatter_axis, sizes)


@_rule
def all_reduce(group, sizes, reduction, dtype=None):
    return [fold(group, reduction, dtype)] * len(group)


@_rule
def reduce(group, sizes, reduction, root, dtype=None):
    return _at(_place(root, sizes), fold(group, reduction, dtype), len(group))


@_rule
def reduce_scatter(group, sizes, reduction, scatter_axis, dtype=None):
    return cut(fold(group, reduction, dtype), scatter_axis, sizes)


@_rule
def shift(group, sizes, shift_axis, offset, rotate=False, fill=None):
    size, results = len(group), []
    for member, x in enumerate(group):
        source = (member - offset) % size if rotate else member - offset
        if 0 <= source < size:
            results.append(group[source])
        else:
            results.append(None if fill is None else np.full(x.shape, fill, x.dtype))
    return results


def same(a, b):
    """Whether two results have one shape, dtype and value; zeros by sign, NaNs as NaNs, padding ignored."""
    if a is None or b is None:
        return a is b
    if type(a) is not np.ndarray or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind == "f":
        signs = np.signbit(a) == np.signbit(b)
        return np.array_equal(a, b, equal_nan=True) and bool(np.all(signs | np.isnan(a)))
    return bool(np.all(a == b))


def all_axes(grid_shape):
    """Every subset of the grid axes in every order, the empty one included."""
    ndim = len(grid_shape)
    return [list(axes) for n in range(ndim + 1) for axes in itertools.permutations(range(ndim), n)]


PADDED = np.dtype([("a", "i1"), ("b", "f8"), ("c", "S3", (2,))], align=True)
NUMERIC = [np.dtype(name) for name in (
    "bool", "int8", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128", "longdouble", ">f8",
)]  # fmt: skip
DTYPES = [*NUMERIC, np.dtype("<M8[ns]"), np.dtype("S3"), PADDED]


def sample(shape, dtype, device, layout="C"):
    """An array of arbitrary values that differ by device, in the given layout of memory."""
    shape, dtype = tuple(shape), np.dtype(dtype)
    random = np.random.default_rng([device, *shape])
    values = np.asarray(random.integers(0, 100, shape))
    if dtype == PADDED:
        x = np.zeros(shape, dtype)
        x["a"], x["b"], x["c"] = values, values / 7, values.astype("S3")[..., None]
    elif dtype.kind == "S":
        x = values.astype("S3")
    elif dtype.kind == "M":
        x = values.astype("i8").view("<M8[ns]").reshape(shape)
    elif dtype.kind in "fc":
        x = ((values - 50) / 7).astype(dtype)
        x = x + np.asarray(1j, dtype) * x[::-1] if dtype.kind == "c" and shape else x
    else:
        x = values.astype(dtype) % 2 == 1 if dtype.kind == "b" else values.astype(dtype)
    return LAYOUTS[layout](np.asarray(x).astype(dtype, copy=False))


def _strided(x):
    wide = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    view = wide[(..., *(slice(1, 2 * n + 1, 2) for n in x.shape))]
    view[...] = x
    return view


def _backwards(x):
    return x[(..., *(slice(None, None, -1),) * x.ndim)]


LAYOUTS = {  # the same values, lying differently
    "C": lambda x: x.copy("C"),
    "fortran": lambda x: x.copy("F"),
    "transposed": lambda x: np.moveaxis(np.moveaxis(x, 0, -1).copy("C"), -1, 0) if x.ndim else x.copy(),
    "strided": _strided,
    "reversed": lambda x: _backwards(_backwards(x).copy("C")),
}
