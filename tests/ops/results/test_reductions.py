"""Reductions: every kind and element type against folding with numpy's ufunc in group order, bit for bit."""

import functools
import math

import numpy as np
import pytest
from support.ops.ops_oracle import KINDS, NUMERIC, expected, fold, same

import spmd_grid as sg

# Elements per device: inside a frame; collected whole; cut into slices by numpy and by compiled kernels (no size is
# divisible by a group of 2 or 3).
SIZES = [1, 7, 101, 4001, 33331]
CALLS = {
    "all_reduce": lambda x, grid, axes, how, **more: sg.all_reduce(x, grid, axes, how, **more),
    "reduce": lambda x, grid, axes, how, **more: sg.reduce(x, grid, axes, how, [0] * len(axes), **more),
    "reduce_scatter": lambda x, grid, axes, how, **more: sg.reduce_scatter(x, grid, axes, how, 0, **more),
}
EXTRA = {"all_reduce": {}, "reduce": {"root": [0]}, "reduce_scatter": {"scatter_axis": 0}}


KINDS_AND_DTYPES = [
    pytest.param(kind, dtype, id=f"{kind}-{dtype}")
    for kind in KINDS
    for dtype in NUMERIC
    if (dtype.kind in "biu" or not kind.startswith("bitwise")) and (dtype.kind, kind) != ("c", "product")
]


def values(dtype, n, device):
    """Numbers that overflow integers, and among floats NaN, infinities and zeros of both signs."""
    random = np.random.default_rng([device, n])
    if dtype.kind == "b":
        return random.random(n) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, n, dtype, endpoint=True)
    x = random.standard_normal(n).astype(dtype)
    if dtype.kind == "c":
        x.imag = values(x.real.dtype, n, device + 100)
        return x
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny]
    places = random.integers(0, n, n // 2)
    x[places] = random.choice(np.array(special, dtype), len(places))
    return x


def run(spmd, grid_shape, op, how, arrays, axes=(0,), **more):
    def body():
        grid = sg.init_grid(grid_shape)
        return [CALLS[op](x[grid.rank], grid, list(axes), how, **more) for x in arrays]

    return spmd(math.prod(grid_shape), body)


def check(results, op, how, arrays, grid_shape, axes=(0,), **more):
    wanted = [expected(op, list(x), grid_shape, list(axes), reduction=how, **EXTRA[op], **more) for x in arrays]
    for number, by_device in enumerate(wanted):
        for device, result in enumerate(by_device):
            assert same(results[device][number], result), (op, how, number, device, results[device][number], result)


def bits(x):
    return None if x is None else x.tobytes()


@pytest.mark.one_in(9)
@pytest.mark.parametrize("kind, dtype", KINDS_AND_DTYPES)
def test_every_kind_and_dtype(spmd, path, kind, dtype):
    """As the ufunc folds them in group order; the same bits on every rank and from every reducing operation.

    (numpy's complex product is the next test's.)
    """
    arrays = [[values(dtype, n, device) for device in range(3)] for n in SIZES]
    by_op = {op: run(spmd, (3,), op, kind, arrays) for op in CALLS}
    for op, results in by_op.items():
        check(results, op, kind, arrays, (3,))
    for number in range(len(SIZES)):
        everybody = [results[number] for results in by_op["all_reduce"]]
        if dtype != np.longdouble:  # whose padding is arbitrary
            assert len(set(map(bits, everybody))) == 1
            assert bits(by_op["reduce"][0][number]) == bits(everybody[0])
            assert b"".join(bits(part[number]) for part in by_op["reduce_scatter"]) == bits(everybody[0])


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_product(spmd, path, dtype):
    """numpy itself gives other last bits for one element than for many (fused multiply-add): equal but for rounding."""
    arrays = [[np.exp(1j * np.random.default_rng([d, n]).random(n)).astype(dtype) for d in range(3)] for n in SIZES]
    results = run(spmd, (3,), "all_reduce", "product", arrays)
    for number, x in enumerate(arrays):
        assert len({bits(by_number[number]) for by_number in results}) == 1
        assert np.allclose(results[0][number], fold(x, "product"), rtol=0, atol=8 * np.finfo(dtype).eps)
        assert results[0][number].dtype == dtype


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (1,), ()], ids=str)
def test_group_order_decides_the_bits(spmd, path, axes):
    """Sums of floats differ by order; the order is the group's, on 6 devices."""
    arrays = [[values(np.dtype("f4"), n, device) for device in range(6)] for n in (3, 50, 20011)]
    for op in CALLS:
        more = {} if op != "reduce" else {"root": [0] * len(axes)}
        results = run(spmd, (2, 3), op, "sum", arrays, axes)
        for number, x in enumerate(arrays):
            extra = EXTRA[op] | more
            wanted = expected(op, x, (2, 3), list(axes), reduction="sum", **extra)
            assert all(same(results[device][number], wanted[device]) for device in range(6)), (op, number)


@pytest.mark.parametrize(
    "kind, dtype, to",
    [
        ("sum", "int8", "int16"),
        ("sum", "int8", "float32"),
        ("sum", "float32", "float64"),
        ("max", "float32", "float64"),
        ("sum", "bool", "int64"),
        ("product", "int32", "complex128"),
        ("sum", "float64", "float32"),
        ("sum", "float64", "int32"),
        ("average", "int8", "float32"),
        ("average", "uint64", "complex64"),
        ("bitwise_or", "uint8", "int32"),
        ("sum", ">f4", "<f8"),
    ],
)
def test_values_are_converted_before_they_are_reduced(spmd, path, kind, dtype, to):
    arrays = []
    for n in (3, 70, 9001):
        by_device = [np.random.default_rng([d, n]).integers(0, 127, n).astype(dtype) for d in range(3)]
        arrays.append(by_device)
    for op in CALLS:
        check(run(spmd, (3,), op, kind, arrays, dtype=to), op, kind, arrays, (3,), dtype=to)
        assert run(spmd, (3,), op, kind, arrays, dtype=to)[0][0].dtype == to


@pytest.mark.parametrize(
    "kind, dtype, inputs, result, result_dtype",
    [
        ("sum", "int32", [2**30, 2**30], -(2**31), "int32"),  # wraps
        ("sum", "uint64", [2**64 - 1, 2], 1, "uint64"),
        ("sum", "bool", [True, True], True, "bool"),  # logical or
        ("product", "bool", [True, False], False, "bool"),
        ("max", "bool", [True, False], True, "bool"),
        ("average", "int32", [1, 2], 1.5, "float64"),
        ("average", "bool", [True, False], 0.5, "float64"),
        ("average", "float32", [1, 2], 1.5, "float32"),
        ("average", "uint64", [2**63, 2**63], 2.0**63, "float64"),
        ("max", "complex128", [1 + 5j, 2 - 7j], 2 - 7j, "complex128"),  # by real part, then imaginary
        ("max", "complex64", [1 + 5j, 1 + 6j], 1 + 6j, "complex64"),
        ("min", "complex128", [1 + 5j, 1 - 6j], 1 - 6j, "complex128"),
        ("bitwise_xor", "uint8", [0b1100, 0b1010], 0b0110, "uint8"),
        ("bitwise_and", "bool", [True, False], False, "bool"),
        ("sum", "float16", [60000, 60000], np.inf, "float16"),
    ],
)
def test_meaning_by_example(spmd, path, kind, dtype, inputs, result, result_dtype):
    def body():
        grid = sg.init_grid((2,))
        return sg.all_reduce(np.array(inputs[grid.rank], dtype), grid, [0], kind)

    for found in spmd(2, body):
        assert found.dtype == result_dtype and found.shape == () and found == result


def test_nan_wins_wherever_it_is(spmd, path):
    """max and min give NaN on every rank, whichever rank holds it; MPI's own operators do not."""

    def body(kind, n):
        grid = sg.init_grid((3,))
        x = np.full(n, float(grid.rank))
        x[grid.rank] = np.nan
        return sg.all_reduce(x, grid, [0], kind)

    for kind in ("max", "min", "sum", "product", "average"):
        for n in (4, 50_000):
            results = spmd(3, body, kind, n)
            assert all(np.isnan(result).nonzero()[0].tolist() == [0, 1, 2] for result in results)


def matrix_product(a, b):
    return a @ b


@pytest.mark.parametrize("x, to", [([np.nan, 1.0], "i4"), ([1e300, 1.0], "f4"), ([1e6, -1e6], "f2")], ids=repr)
def test_a_conversion_that_numpy_warns_of(spmd, path, x, to):
    """On one rank only, with warnings made errors as in this suite: nobody is stranded."""

    def body():
        grid = sg.init_grid((2,))
        return sg.all_reduce(x if grid.rank else [0.0, 1.0], grid, [0], "sum", dtype=to)

    with np.errstate(all="ignore"):
        wanted = np.array([0.0, 1.0]).astype(to) + np.array(x).astype(to)
    assert all(same(found, wanted) for found in spmd(2, body))


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (1,)], ids=str)
def test_a_callable_that_does_not_commute(spmd, path, op, axes):
    """2x2 matrix products, and stacks of them, in group order."""
    arrays = [
        [np.random.default_rng([d, n]).integers(-3, 4, (n, 2, 2) if n else (2, 2)) for d in range(6)]
        for n in (0, 40, 3001)
    ]
    results = run(spmd, (2, 3), op, matrix_product, arrays, axes)
    extra = EXTRA[op] | ({"root": [0] * len(axes)} if op == "reduce" else {})
    for number, x in enumerate(arrays):
        wanted = expected(op, x, (2, 3), list(axes), reduction=matrix_product, **extra)
        assert all(same(results[device][number], wanted[device]) for device in range(6))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float64"])
@pytest.mark.parametrize("combine", [np.logical_or, np.fmax, lambda a, b: b], ids=["logical_or", "fmax", "last"])
def test_callables(spmd, path, combine, dtype):
    """ufuncs and functions; what they give is put back into the dtype of x."""
    arrays = [[np.arange(n).astype(dtype) * device for device in range(3)] for n in (5, 3000)]
    for op in CALLS:
        check(run(spmd, (3,), op, combine, arrays), op, combine, arrays, (3,))


def wrong_shape(a, b):
    return np.concatenate([a, b])


def wrong_dtype(a, b):
    return a + b * 0.5


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("combine", [wrong_shape, wrong_dtype], ids=lambda combine: combine.__name__)
def test_a_callable_that_changes_shape_or_dtype_is_refused_by_all(spmd, path, op, combine):
    def body():
        grid = sg.init_grid((3,))
        try:
            CALLS[op](np.arange(4), grid, [0], combine)
        except sg.ReductionError as error:
            return str(error), int(sg.all_reduce(1, grid, [0]))

    results = spmd(3, body)
    assert len(set(results)) == 1 and results[0][1] == 3
    assert results[0][0].startswith(f"{op}: the callable {combine.__name__}") and "must keep both" in results[0][0]


def test_a_callable_may_keep_and_change_its_arguments(spmd, path):
    """They are its own: neither x nor anybody else's is among them."""
    kept = []

    def greedy(a, b):
        a += b
        b[...] = -1
        kept.append(a)
        return a

    def body():
        grid = sg.init_grid((3,))
        x = np.full(50, grid.rank)
        total = sg.all_reduce(x, grid, [0], greedy)
        return x.tolist() == [grid.rank] * 50 and total.tolist() == [3] * 50

    assert spmd(3, body) == [True] * 3


def test_results_do_not_depend_on_who_waits_or_on_strides(spmd, path):
    """Transposed, strided and reversed inputs reduce to the same bits."""
    x = [np.random.default_rng(d).standard_normal((90, 121)) for d in range(3)]
    forms = [lambda a: a, lambda a: a.T.copy().T, lambda a: np.repeat(a, 2, 1)[:, ::2], lambda a: a[::-1].copy()[::-1]]

    def body():
        grid = sg.init_grid((3,))
        return [sg.all_reduce(form(x[grid.rank]), grid, [0]) for form in forms]

    for results in spmd(3, body):
        assert all(same(result, fold(x, "sum")) for result in results)


def test_fold_oracle_is_numpy_s_own_reduction():
    x = [values(np.dtype("i4"), 9, d) for d in range(4)]
    assert same(fold(x, "sum"), np.add.reduce(x, dtype="i4"))
    assert same(fold(x, "max"), np.max(x, axis=0)) and same(fold(x, "average"), np.mean(x, axis=0))
    assert same(fold(x, np.logical_or), functools.reduce(np.logical_or, x).astype("i4"))
