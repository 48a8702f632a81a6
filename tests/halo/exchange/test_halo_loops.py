"""HaloExchange in numba's compiled loops: right, on every path, and as strict as outside."""

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import settings
from support.compiled import compiled
from support.halo.exchange_oracle import Copies, sharding_of, values_at
from support.halo.halo_oracle import HaloCase
from support.halo.loops import heat, once
from support.halo.sweeps import SPLITS, case_1d, case_2d, choices_1d, choices_2d, sampled

import spmd_grid as sg


def run_steps(halo, u, new, core, inside, wanted, first, n):
    """The number of wrong cells in ``n`` updates of two arrays by turns, each with values of its own."""
    wrong = 0
    core, inside, wanted = core.reshape(-1), inside.reshape(-1), wanted.reshape(-1)
    for step in range(first, first + n):
        flat = u.reshape(-1)
        for i in range(flat.size):
            if core[i]:
                flat[i] = wanted[i] + 200 * step
        halo.update(u)
        for i in range(flat.size):
            if flat[i] != wanted[i] + (200 * step if inside[i] else 0):
                wrong += 1
        u, new = new, u
    return wrong


steps_free = compiled(nogil=True)(run_steps)
steps_holding = compiled()(run_steps)  # keeps the interpreter's lock


def check_loop(case, grid, steps=steps_free, n=5, **plan):
    local, wanted = case.before_and_after(grid.coords)
    core = local > 0
    with sg.HaloExchange(grid, sharding_of(case, grid), case.shape, case.dtype, case.periodic, **plan) as halo:
        new = grid.allocate(local.shape, local.dtype)
        new[...] = local
        assert steps(halo, local, new, core, wanted > 0, wanted, 0, n) == 0, (vars(case), grid.coords)
        assert steps(halo, new, local, core, wanted > 0, wanted, n, 1) == 0, (vars(case), grid.coords)


def check_loops(cases, path, holding=False):
    """Runs on every rank: the cases of one grid one after the other."""
    grid = sg.init_grid(cases[0].grid_shape)
    for case in cases:
        check_loop(case, grid, steps_holding if holding else steps_free, path=path)


def n_ranks(case) -> int:
    return int(np.prod(case.grid_shape))


# -- sweeps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, pytest.param(6, marks=pytest.mark.full)])
def test_lines(spmd, n, path):
    count = max(2, settings().max_examples // 12)
    spmd(n, check_loops, [case_1d(*parts) for parts in sampled(choices_1d(n), count)], path)


@pytest.mark.full
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_all_lines(spmd, n, path):
    chosen = list(product(*choices_1d(n)))
    chosen = random.Random(n).sample(chosen, min(len(chosen), 1000 if settings().max_examples == 500 else 100))
    spmd(n, check_loops, [case_1d(*parts) for parts in chosen], path)


@pytest.mark.parametrize("grid_shape", [(1, 1), (2, 2), (3, 1), (2, 3)], ids=str)
def test_planes(spmd, grid_shape, path):
    chosen = sampled(choices_2d(grid_shape, [[0], [1]]), max(2, settings().max_examples // 12))
    spmd(int(np.prod(grid_shape)), check_loops, [case_2d(*parts) for parts in chosen], path)


@pytest.mark.parametrize("split", [SPLITS[0], SPLITS[3], SPLITS[6], SPLITS[8]], ids=lambda s: f"{s[0]}-{s[1]}")
def test_splits_in_any_order(in_any_order, split, path):
    """Also with loops that hold the interpreter's lock: where they wait, other ranks must be let in."""
    case = HaloCase(*split)
    in_any_order(n_ranks(case), check_loops, [case], path)
    if len(case.shape) < 3:
        in_any_order(n_ranks(case), check_loops, [case], path, True)


@pytest.mark.parametrize("split_axes", [[[0], [1]], [[1], [0]]], ids=str)
def test_empty_local_arrays(spmd, split_axes):
    """Blocks without cells in dimensions without halos."""

    def body():
        grid = sg.init_grid((2, 2))
        for halo_sizes in ([1, 1, 0, 0], [0, 0, 1, 2]):
            sharding = sg.Sharding(grid, split_axes, halo_sizes=halo_sizes, sharded_dims_offsets=[0, 3, 3, 0, 4, 4])
            with sg.HaloExchange(grid, sharding, (3, 4), "f8", periodic=True) as halo:
                u = sg.from_function(lambda i, j: 10.0 * i + j, (3, 4), sharding, grid)
                halo.update(u)
                before = u.local.copy()
                once(halo, u.local)
                assert np.array_equal(u.local, before)
        return u.local.shape

    spmd(4, body)


# -- loops as programs write them -----------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", ["edge", "periodic", 2.5])
def test_heat(in_any_order, boundary, path):
    """A time loop with nested calls, against the whole array on one device; u and new by turns."""
    shape, n = (9, 8), 12

    def whole():
        u = np.sin(np.arange(72.0)).reshape(shape)
        for _ in range(n):
            mode = {"mode": "edge"} if boundary == "edge" else {"mode": "wrap"}
            p = np.pad(u, 1, **({"constant_values": boundary} if boundary == 2.5 else mode))
            u = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) / 4 + p[:-2, :-2] / 8
        return u

    def body():
        grid = sg.init_grid((2, 3))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 1, 1], blocks="balanced")
        plan = {"periodic": boundary == "periodic", "boundary": "leave" if boundary == "periodic" else boundary}
        with sg.HaloExchange(grid, sharding, shape, "f8", path=path, **plan) as halo:
            u = sg.from_function(lambda i, j: np.sin(8.0 * i + j), shape, sharding, grid)
            new = sg.zeros(shape, sharding, grid)
            assert heat(halo, u.local, new.local, n) == sum(1 + step % 3 for step in range(1, n, 2))
        return u.to_global()  # n is even

    for result in in_any_order(6, body):
        assert np.allclose(result, whole(), rtol=1e-13, atol=1e-14)


RECORD = np.dtype([("a", "i2"), ("b", "f8")], align=True)
MIXED = ["f4", "f8", "c16", "i8", "?", RECORD]


@compiled(nogil=True)
def six(halo, a, b, c, d, e, f, n):
    """Updates of six fields in one message, whose cores change in between."""
    for step in range(n):
        if step:
            for i in range(1, len(a) - 1):
                a[i] += 1
                b[i] += 1
                c[i] += 1j
                d[i] += 1
                e[i] = not e[i]
                f[i].a += 1
                f[i].b += 1
        halo.update(a, b, c, d, e, f)


def test_fields_of_many_dtypes(spmd, path):
    def start(dtype, i):
        if dtype is RECORD:
            return np.array([(k % 100, k / 2) for k in i], RECORD)
        return (i % 3 == 0) if dtype == "?" else i.astype(dtype)

    def later(values, dtype, n):
        if dtype is RECORD:
            return np.array([(a + n, b + n) for a, b in values.tolist()], RECORD)
        return values ^ bool(n % 2) if dtype == "?" else values + (1j if dtype == "c16" else 1) * n

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (11,), MIXED, True, n_fields=6, path=path) as halo:
            box = halo.layout.local_box(grid.coords)
            i = np.arange(box.starts[0], box.stops[0]) % 11
            fields = [start(dtype, i) for dtype in MIXED]
            for field in fields:
                field[0] = field[-1] = np.zeros((), field.dtype)
            six(halo, *fields, 6)
            for dtype, field in zip(MIXED, fields, strict=True):
                assert field.tolist() == later(start(dtype, i), dtype, 5).tolist(), dtype

    spmd(3, body)


@compiled(nogil=True)
def both(rows, columns, u, v, n):
    """Two plans by turns; each group of ranks as often as it likes."""
    for step in range(n):
        u[1, 1] = 100 * step
        rows.update(u)
        v[1, 1] = 100 * step + 1
        columns.update(v)


def test_plans_on_parts_of_the_grid(in_any_order, path):
    """One plan along each axis: ranks that differ on the other axis have nothing to do with each other."""

    def body():
        grid = sg.init_grid((2, 3))
        i, j = grid.coords
        down = sg.Sharding(grid, [[0], []], halo_sizes=[1, 1])
        across = sg.Sharding(grid, [[], [1]], halo_sizes=[1, 1])
        with (
            sg.HaloExchange(grid, down, (2, 3), "f8", path=path) as rows,
            sg.HaloExchange(grid, across, (3, 3), "f8", path=path) as columns,
        ):
            u, v = np.zeros((3, 3)), np.zeros((3, 3))
            both(rows, columns, u, v, 5)
            for step in range(4 + j):  # each column of ranks as it likes
                u[1] = 10 * grid.rank + step
                once(rows, u)
                wanted = [10 * (grid.rank + 3 * d) + step if 0 <= i + d < 2 else 0 for d in (-1, 0, 1)]
                assert u[:, 1].tolist() == wanted
            for step in range(4 + i):
                v[:, 1] = 10 * grid.rank + step
                once(columns, v)
                wanted = [10 * (grid.rank + d) + step if 0 <= j + d < 3 else 0 for d in (-1, 0, 1)]
                assert v[1].tolist() == wanted

    in_any_order(6, body)


def test_some_ranks_in_loops_others_not(in_any_order, path):
    """Some write their loop in Python, some in compiled code, with and without the interpreter's lock."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[2, 1])
        with sg.HaloExchange(grid, sharding, (10,), "i8", path=path) as halo:
            copies = Copies(halo.layout, grid.coords)
            wanted = copies.refreshed(np.full(copies.cells.shape, -1), values_at(0, halo.layout, grid.coords))
            wanted[copies.core] = values_at(0, halo.layout, grid.coords)[copies.cells[copies.core]]
            for turn in range(3):
                arrays = [np.where(copies.core, 0, np.where(copies.halo, 0, wanted)) for _ in range(2)]
                steps = [run_steps, steps_free, steps_holding][(grid.rank + turn) % 3]
                assert steps(halo, *arrays, copies.core, copies.cells >= 0, wanted, turn, 7) == 0

    in_any_order(3, body)
