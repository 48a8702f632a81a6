"""Fourier transforms with layouts: what they move, where results lie, and dimensions that stay cut."""

import math

import numpy as np
import pytest
from support.compute.contractions import LAYOUTS, offsets, same, sharded, values
from support.compute.moving import bytes_sent

import spmd_grid as sg
from spmd_grid.compute.fourier import choose, row_plan
from spmd_grid.functions.linear.transforms import transform_of

# A transform of numbers and the same by numpy; ``fft`` is either namespace.
ROWS = {
    "fft": lambda fft, a: fft.fft(a),
    "ifft, cut off": lambda fft, a: fft.ifft(a, a.shape[0] - 3, norm="ortho"),
    "fft, filled up": lambda fft, a: fft.fft(a, n=a.shape[0] + 5, norm="forward"),
    "rfft": lambda fft, a: fft.rfft(a.real),
    "ihfft": lambda fft, a: fft.ihfft(a.real, norm="ortho"),
    "irfft, even": lambda fft, a: fft.irfft(a),
    "irfft, odd": lambda fft, a: fft.irfft(a, 2 * a.shape[0] - 1, norm="forward"),
    "hfft": lambda fft, a: fft.hfft(a, a.shape[0]),
}


@pytest.fixture
def nothing_is_small(monkeypatch):
    """No array is so small that it is made whole."""
    monkeypatch.setattr(choose, "_STAGING", 0)
    choose._choose.cache_clear()
    yield
    choose._choose.cache_clear()


@pytest.mark.parametrize("n", [12, 67, 360, 1009])  # 67 and 1009 are primes
def test_rows_that_stay_cut(spmd, nothing_is_small, n):
    def body():
        grid = sg.init_grid((3, 2))
        cuts = [sg.Sharding(grid, [[0, 1]]), sg.Sharding(grid, [[1]], halo_sizes=[1, 2]), offsets(grid, n, 3, [[0]])]
        for number, (name, transform) in enumerate(ROWS.items()):
            a = values(n, dtype=("c16", "c8", "f8")[number % 3], seed=number)
            x = sg.from_global(a, cuts[number % 3], grid)
            found = transform(np.fft, x)
            want = transform(np.fft, a)
            assert found.dtype == want.dtype and found.shape == want.shape
            error = 1e-6 if want.dtype in (np.float32, np.complex64) else 1e-14
            np.testing.assert_allclose(found.to_global(), want, rtol=0, atol=error * abs(want).max())
            assert found.sharding.axes_of(0) == x.sharding.axes_of(0), name

    spmd(6, body)


def test_a_dimension_that_nothing_else_can_be_cut_for(spmd, nothing_is_small):
    """331 x 2 on 5 ranks: columns would leave three ranks without any, and the others with half."""
    a = values(331, 2, dtype="c16")

    def body():
        grid = sg.init_grid((5,))
        found = sg.fft.fftn(sg.from_global(a, sg.Sharding(grid, [[0]]), grid))
        same(found, np.fft.fftn(a))
        assert found.sharding == sg.Sharding(grid, [[0]])

    spmd(5, body)


SEVERAL = {
    "fftn": lambda fft, a, **o: fft.fftn(a, **o),
    "ifftn, lengths": lambda fft, a, **o: fft.ifftn(a, s=(4, 3, 6), axes=(2, 0, 1), norm="ortho", **o),
    "fftn, an axis twice": lambda fft, a, **o: fft.fftn(a, axes=(1, 0, 1), **o),
    "rfftn": lambda fft, a, **o: fft.rfftn(a.real, **o),
    "irfftn": lambda fft, a, **o: fft.irfftn(a, s=(6, 5), axes=(0, 1), **o),
    "rfft2": lambda fft, a, **o: fft.rfft2(a.real, axes=(0, 2), **o),
    "irfft2": lambda fft, a, **o: fft.irfft2(a, **o),
    "fft2 of whole numbers": lambda fft, a, **o: fft.fft2(np.round(a.real).astype("i4"), **o),
}


@pytest.mark.parametrize("first", range(4))
def test_any_layout_to_any_layout(spmd, first):
    def body():
        grid = sg.init_grid((2, 3))
        targets = [
            sg.Sharding(grid, [[0], [1]]),
            sg.Sharding(grid, [[], [], [1, 0]]),
            sg.Sharding(grid, [[1], [], [0]], halo_sizes=[1, 0, 0, 1]),
            sg.Sharding(grid, [[], [1]], partial_axes=[0]),
            sg.Sharding(grid, []),
        ]
        for number, transform in list(enumerate(SEVERAL.values()))[first::4]:
            for place, name in enumerate(LAYOUTS):
                a = values(5, 4, 7, dtype=("c16", "c8")[number % 2], seed=place)
                target = targets[(place + number) % len(targets)]
                found = transform(sg.fft, sharded(a, name, grid), out_sharding=target)
                same(found, transform(np.fft, a))
                assert found.sharding == target

    spmd(6, body)


def test_halos_of_the_result_are_filled(spmd):
    a = values(6, 6)

    def body():
        grid = sg.init_grid((3,))
        target = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        found = sg.fft.fftn(sg.from_global(a, sg.Sharding(grid, [[0]]), grid), out_sharding=target)
        want = sg.from_global(np.fft.fftn(a), target, grid)
        return np.allclose(found.local, want.local)

    assert all(spmd(3, body))


# -- what moves ----------------------------------------------------------------------------------------------------


def moved(grid_shape, shape, cuts, function, dtype="c16"):
    """(bytes that each process sends, the sharding of the result)."""

    def body():
        grid = sg.init_grid(grid_shape)
        a = sg.from_global(values(*shape, dtype=dtype), sg.Sharding(grid, cuts), grid)
        results = []
        sent = bytes_sent(lambda x: results.append(function(x)), a)
        return sent, [list(results[0].sharding.axes_of(d)) for d in range(len(shape))]

    found = sg.run_spmd(body, ranks=math.prod(grid_shape))
    return [sent for sent, _ in found], found[0][1]


def test_slabs_are_transposed_once():
    """Each of 4 processes keeps a quarter of its quarter: the least that any way can move."""
    sent, cuts = moved((4,), (8, 4, 16), [[0]], sg.fft.fftn)
    assert sent == [8 * 4 * 16 * 16 // 4 * 3 // 4] * 4 and cuts[0] == []


def test_pencils_are_transposed_along_one_axis_at_a_time():
    """2 x 3 pencils of 6^3 cells: half of each, then two thirds of each, change places.

    Moving both axes at once to the third dimension would leave a device two rows of cells or none.
    """
    sent, cuts = moved((2, 3), (6, 6, 6), [[0], [1]], sg.fft.fftn)
    cells = 6**3 // 6
    assert sent == [16 * (cells // 2 + cells * 2 // 3)] * 6 or sent == [16 * cells * 5 // 6] * 6
    assert sum(map(len, cuts)) == 2


def test_a_transform_and_its_inverse_are_two_transposes():
    sent, cuts = moved((4,), (8, 8), [[0]], lambda a: sg.fft.ifftn(sg.fft.fftn(a)))
    assert sent == [2 * 8 * 8 * 16 // 4 * 3 // 4] * 4 and cuts == [[0], []]


def test_real_numbers_are_halved_before_they_move():
    sent, _ = moved((2,), (8, 6), [[0]], sg.fft.rfftn, "f8")
    assert sent == [4 * 2 * 16] * 2  # 4 rows of 2 of the 4 columns: those of the other process


def test_a_row_moves_three_times(monkeypatch):
    monkeypatch.setattr(choose, "_STAGING", 0)
    choose._choose.cache_clear()
    sent, cuts = moved((4,), (256,), [[0]], np.fft.fft)
    choose._choose.cache_clear()
    assert sent == [3 * 256 * 16 // 4 * 3 // 4] * 4 and cuts == [[0]]


def test_small_rows_are_made_whole():
    sent, cuts = moved((4,), (64,), [[0]], np.fft.fft)
    assert sum(sent) == 64 * 16 * 3 and cuts == [[]]


def test_no_process_holds_more_than_its_part():
    """Of 2^20 cells on 8 devices, along dimensions of all kinds."""
    grid = sg.Grid((8,))
    for shape, dim in (((1 << 20,), 0), (((1 << 20) - 3,), 0), ((1 << 19, 2), 0), ((1 << 10, 1 << 10), 0)):
        transform = transform_of("fft", shape, None, dim, None)
        source = sg.Sharding(grid, [[0]])
        plan = choose.choose_transform((transform,), source, shape, np.dtype("c16"), None, sg.LinkModel())
        cells = max(
            max(_most(step.target, step.shape) for step in [step])
            if isinstance(step, choose.Resharding)
            else max(_most(step.by_rows, step.matrix), _most(step.by_columns, step.matrix))
            for step in plan.steps
            if not hasattr(step, "norm")
        )
        assert cells <= 2.5 * math.prod(shape) / 8, (shape, cells)


def _most(sharding, shape):
    return max(math.prod(sharding.core_shape(shape, coords)) for coords in np.ndindex(*sharding.grid.shape))


def test_factors_leave_every_device_its_share():
    assert row_plan._factors(1 << 20, 8) == (1024, 1024)
    assert row_plan._factors(2 * 1009, 4) is None  # 2 rows for 4 devices
    assert row_plan._factors(1009, 4) is None
    for least, parts in ((2017, 4), (133, 6), (1, 3), (10**6, 7)):
        rows, columns = row_plan._factors_of_convolution(least, parts)
        assert rows % parts == columns % parts == 0 and least <= rows * columns <= 2 * least + 4 * parts**2


# -- the rest of the namespace -------------------------------------------------------------------------------------


def test_frequencies_and_shifts(spmd):
    def body():
        grid = sg.init_grid((3,))
        cut = sg.Sharding(grid, [[0]])
        for n in (1, 2, 7, 8):
            same(sg.fft.fftfreq(n, 0.3, sharding=cut, grid=grid), np.fft.fftfreq(n, 0.3))
            same(sg.fft.rfftfreq(n, d=2, sharding=cut, grid=grid), np.fft.rfftfreq(n, 2))
            a = values(n, 4, seed=n)
            x = sg.from_global(a, cut, grid)
            same(sg.fft.fftshift(x), np.fft.fftshift(a))
            same(sg.fft.ifftshift(x, axes=0), np.fft.ifftshift(a, axes=0))
        with sg.use_sharding_defaults(grid):
            same(sg.fft.fftfreq(5), np.fft.fftfreq(5))

    spmd(3, body)


def test_refusals(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        a = sg.zeros((4, 3), rows, grid)
        refused = [
            (sg.DTypeError, "fftn: a is ndarray; it must be a ShardedArray", lambda: sg.fft.fftn(np.zeros(3))),
            (sg.DTypeError, "rfft", lambda: sg.fft.rfftn(a.astype("c16"))),
            (sg.ShardingError, r"fftn: out_sharding is \[0\]", lambda: sg.fft.fftn(a, out_sharding=[0])),
            (sg.GridError, "out_sharding is on", lambda: sg.fft.fft(a, out_sharding=sg.Sharding(sg.Grid((1,)), []))),
            (sg.ShardingError, "out_sharding", lambda: sg.fft.fft(a, out_sharding=sg.Sharding(grid, [[], [], [0]]))),
            (ValueError, "norm is 'half'", lambda: sg.fft.fft(a, norm="half")),
            (sg.AxisError, "fftn", lambda: sg.fft.fftn(a, (0, 2))),
            (sg.ShapeError, "rfftn: axes is empty", lambda: sg.fft.rfftn(a, axes=())),
            (sg.ShapeError, "fftfreq: n is 0", lambda: sg.fft.fftfreq(0, sharding=rows, grid=grid)),
            (sg.GridError, "fftfreq: no grid is given", lambda: sg.fft.fftfreq(4)),
        ]
        for error, message, call in refused:
            with pytest.raises(error, match=message):
                call()

    spmd(2, body)
