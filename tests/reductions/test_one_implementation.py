"""numpy's reductions and those of this package are one: equal bits, on every process, for every spread."""

import numpy as np
import pytest
from reductions_oracle import LAYOUTS, SHAPE, same_bits, spread

import spmd_grid as sg

PAIRS = {"sum": (sg.sum, np.sum), "max": (sg.max, np.max), "min": (sg.min, np.min)}
DTYPES = ["?", "i1", "u4", "f2", "f4", "f8", "F", "D"]


def numbers(dtype):
    x = np.random.default_rng(2).standard_normal(SHAPE) * 50
    return x.astype(dtype) + (x.T.reshape(SHAPE) * 1j).astype(dtype) if dtype in "FD" else abs(x).astype(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_bits(spmd, layout):
    ranks, shape, split_axes, options = LAYOUTS[layout]

    def body():
        grid, found = sg.init_grid(shape), []
        for dtype in DTYPES:
            a = spread(numbers(dtype), grid, split_axes, options)
            for ours, numpys in PAIRS.values():
                one = ours(a)
                method = getattr(a, numpys.__name__)
                others = [numpys(a), method(), numpys(a, axis=(0, 1)), numpys(a, keepdims=True).core[0, 0]]
                assert all(same_bits(one, other) for other in others), (dtype, numpys.__name__, one, others)
                found.append(one.tobytes())
            found += [np.prod(a).tobytes(), np.mean(a).tobytes(), np.argmax(a), np.count_nonzero(a), np.all(a)]
        return found

    results = spmd(ranks, body)
    assert all(found == results[0] for found in results)


def test_copies_with_other_strides_get_equal_bits(spmd):
    """Each copy counts its part: sums by columns and by rows would differ in the last bits."""
    x = np.random.default_rng(5).standard_normal((64, 50)) * np.exp(np.arange(50.0))

    def body():
        grid = sg.init_grid((3,))
        held = x if grid.rank != 1 else np.asfortranarray(x)
        a = sg.ShardedArray.from_local(held.copy("K"), sg.Sharding(grid, []), grid, x.shape)
        return [each.tobytes() for each in (np.sum(a), np.mean(a), np.var(a), np.vdot(a, a), np.prod(a), sg.sum(a))]

    assert len({tuple(bits) for bits in spmd(3, body)}) == 1


def test_short_floats_are_added_in_longer_ones(spmd):
    def body():
        grid = sg.init_grid((2,))
        halves = sg.full((5000,), sg.Sharding(grid, [[0]]), grid, "f2", fill_value=0.1)
        tall = sg.full((4000, 3), sg.Sharding(grid, [[0]]), grid, "f2", fill_value=0.1)
        return np.sum(halves), np.sum(tall, axis=0).core

    tenth = float(np.float16(0.1))
    for total, columns in spmd(2, body):
        assert total.dtype == columns.dtype == np.float16
        assert total == np.float16(5000 * tenth) and np.all(columns == np.float16(4000 * tenth))


PARTIAL = {
    "sum": lambda a: np.sum(a),
    "sum along a dimension": lambda a: np.sum(a, axis=0),
    "sum along the other, kept": lambda a: np.sum(a, axis=1, keepdims=True),
    "sum in another dtype": lambda a: np.sum(a, axis=1, dtype="f4"),
    "sum of some": lambda a: np.sum(a, where=np.arange(4) > 1, initial=3),
    "mean": lambda a: np.mean(a, axis=1),
    "var": lambda a: np.var(a, axis=0),
    "max": lambda a: np.max(a),
    "min along a dimension": lambda a: np.min(a, axis=1),
    "count_nonzero": lambda a: np.count_nonzero(a, axis=0),
    "any": lambda a: np.any(a, axis=1),
    "argmax": lambda a: np.argmax(a, axis=0),
    "prod": lambda a: np.prod(a, axis=0),
}


@pytest.mark.parametrize("function", PARTIAL)
def test_partial_values_and_halos(spmd, function):
    x = np.round(np.random.default_rng(1).standard_normal((7, 4)) * 4)

    def body():
        grid = sg.init_grid((2, 3))
        found = []
        for d, dtype in enumerate(("f8", "i1", "?")):
            for k, kind in enumerate(("sum", "max", "product")):  # each with each dtype, and with each spread
                axes, partial = (([[1]], [0]), ([[], [0]], [1]), ([[]], [0, 1]))[(d + k) % 3]
                halos = [1, 1] * sum(map(bool, axes))
                s = sg.Sharding(grid, axes, halo_sizes=halos, partial_axes=partial, partial_kind=kind)
                a = sg.ShardedArray.from_global(x.astype(dtype), s, grid)
                result = PARTIAL[function](a)
                found.append(result.to_global() if isinstance(result, sg.ShardedArray) else result)
        return found

    for found in spmd(6, body):
        for number, each in enumerate(found):
            want = PARTIAL[function](x.astype(("f8", "i1", "?")[number // 3]))
            assert each.dtype == np.asarray(want).dtype
            np.testing.assert_allclose(each, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", ["U2", "S3", "f4,f4"])
def test_equal_refusals(spmd, name, dtype):
    def body():
        a = sg.zeros((3,), sg.Sharding(grid := sg.init_grid((2,)), [[0]]), grid, dtype)
        texts = []
        for function in PAIRS[name]:
            with pytest.raises(sg.DTypeError) as caught:
                function(a)
            texts.append(str(caught.value))
        return texts

    (one, other), again = spmd(2, body)
    assert one == other and [one, other] == again


def test_what_numpy_would_raise_on_one_process(spmd):
    """Along a dimension too: a warning that is an error on one process would leave the others waiting."""

    def body():
        grid = sg.init_grid((3,))
        x = np.array([[1e308, 1e308, 0]] * 2 + [[1.0] * 3] * 4).T.copy()
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[], [0]]), grid)
        with np.errstate(all="raise"):
            return np.sum(a, axis=1).core.tolist(), np.prod(a, axis=1, dtype="f4").core.tolist()

    for sums, products in spmd(3, body):
        assert sums == [np.inf, np.inf, 4] and products == [np.inf, np.inf, 0]
