"""Views write to their source and show what is written to it, as numpy's: derivations x writers, both ways round."""

import random

import numpy as np
import pytest

import spmd_grid as sg

SHAPE = (6, 4)
WHOLE = np.arange(24.0).reshape(SHAPE) * 7 % 11


def written(v):
    v += 1
    return v


VIEWS = {
    "x[:]": lambda x: x[:],
    "x[...]": lambda x: x[...],
    "x[1:]": lambda x: x[1:],
    "x[:-1]": lambda x: x[:-1],
    "x[1:-1, 1:]": lambda x: x[1:-1, 1:],
    "x[::2]": lambda x: x[::2],
    "x[::-1]": lambda x: x[::-1],
    "x[-2:0:-2, ::-1]": lambda x: x[-2:0:-2, ::-1],
    "x[2]": lambda x: x[2],
    "x[:, 1]": lambda x: x[:, 1],
    "x[1:][:-1]": lambda x: x[1:][:-1],
    "x[3:][1]": lambda x: x[3:][1],
    "x[None]": lambda x: x[None],
    "x[:, None, 1:]": lambda x: x[:, None, 1:],
    "x.T": lambda x: x.T,
    "x.T[1:]": lambda x: x.T[1:],
    "x[1:].T": lambda x: x[1:].T,
    "x.T.T": lambda x: x.T.T,
    "x.swapaxes": lambda x: x.swapaxes(0, 1),
    "np.moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "np.transpose of x[:, None]": lambda x: np.transpose(x[:, None], (2, 0, 1)),
    "x.reshape(-1)": lambda x: x.reshape(-1),
    "x.reshape(3, 8)": lambda x: x.reshape(3, 8),
    "x[1:3].reshape(-1)": lambda x: x[1:3].reshape(-1),
    "x.reshape(-1)[5:]": lambda x: x.reshape(-1)[5:],
    "x.ravel()": lambda x: x.ravel(),
    "np.expand_dims": lambda x: np.expand_dims(x, 1),
    "np.squeeze": lambda x: np.squeeze(x[None]),
    "np.flip": lambda x: np.flip(x, 0),
    "np.rot90": lambda x: np.rot90(x),
    "np.split": lambda x: np.split(x, 2)[1],
    "np.array_split": lambda x: np.array_split(x, 4)[1],
    "np.atleast_3d": lambda x: np.atleast_3d(x),
    "real of a real array": lambda x: x.real,
    "astype without a copy": lambda x: x.astype(float, copy=False),
    # Copies in numpy as well.
    "reshape of a written transpose": lambda x: written(x.T).reshape(-1),
    "reshape of a written reshape": lambda x: written(x.reshape(8, 3)).reshape(4, 6),
    "x after its transpose was written": lambda x: (written(x.T), x.reshape(-1))[1],
    "x.copy()": lambda x: x.copy(),
    "x.T.reshape(-1)": lambda x: x.T.reshape(-1),
    "x[:, 1:].ravel()": lambda x: x[:, 1:].ravel(),
    "x.reshape(order='F')": lambda x: np.reshape(x, (3, 8), order="F"),
    "flatten": lambda x: x.flatten(),
    "a list": lambda x: x[[0, 3, 1]],
    "a mask": lambda x: x[x > 3],
    "np.roll by 0": lambda x: np.roll(x, 0, 0),
    "np.take": lambda x: np.take(x, [1, 2], 0),
}
WRITERS = {
    "v[...] = number": lambda v: v.__setitem__(..., 5),
    "v[0] = number": lambda v: v.__setitem__(0, 5),
    "v[1:] = v[:-1]": lambda v: v.__setitem__(np.s_[1:], v[:-1]),
    "v[mask]": lambda v: v.__setitem__(v > 4, -1),
    "v[list]": lambda v: v.__setitem__([0, -1], 3),
    "v += number": lambda v: v.__iadd__(5),
    "v *= v": lambda v: v.__imul__(v),
    "v //= number": lambda v: v.__ifloordiv__(2),
    "np.add out": lambda v: np.add(v, 1, out=v),
    "np.sqrt out": lambda v: np.sqrt(v, out=v),
    "out with a condition": lambda v: np.negative(v, out=v, where=v > 4),
    "np.copyto": lambda v: np.copyto(v, 3.0),
    "np.copyto where": lambda v: np.copyto(v, 3.0, where=v > 4),
    "sort": lambda v: v.sort(0),
    "fill": lambda v: v.fill(7),
    "np.cumsum out": lambda v: np.cumsum(v, 0, out=v),
    "np.clip out": lambda v: np.clip(v, 2, 5, out=v),
    "np.put_along_axis": lambda v: np.put_along_axis(v, np.zeros((1, *v.shape[1:]), int), 9, 0) if v.ndim > 1 else None,
    "a write through a view of it": lambda v: v[1:].__iadd__(2),
}
CASES = [(view, writer) for view in VIEWS for writer in WRITERS]


def arrays(grid, rng):
    """The array in one of the layouts that decide whether a slice moves."""
    axes = rng.choice([[[0]], [[], [0]]])
    halos = rng.choice([None, [1, 1]])
    starts = {1: None, 2: [[0, 4, SHAPE[len(axes) - 1]]], 3: [[0, 1, 3, SHAPE[len(axes) - 1]]]}[grid.size]
    options = {} if starts is None or rng.random() < 0.5 else {"sharded_dims_offsets": starts}
    return sg.from_global(WHOLE, sg.Sharding(grid, axes, halo_sizes=halos, **options), grid)


def check(view, writer, x, want):
    """The writes, to the view, to the source and to the view again, with a look at all arrays after each."""
    other, other_wanted = x[1:], want[1:]
    v, wanted = VIEWS[view](x), VIEWS[view](want)

    def look(when):
        found = {"source": (x, want), "view": (v, wanted), "other view": (other, other_wanted)}
        for name, (array, numpys) in found.items():
            np.testing.assert_allclose(array.to_global(), numpys, err_msg=f"{name} after {when}: {view}, {writer}")

    WRITERS[writer](v)
    WRITERS[writer](wanted)
    look("the view was written")
    x[:2] += 1
    want[:2] += 1
    look("the source was written")
    other *= 2
    other_wanted *= 2
    WRITERS[writer](v)
    WRITERS[writer](wanted)
    look("the other view and the view were written")
    np.testing.assert_allclose((x[1:] - x[:-1]).to_global(), want[1:] - want[:-1])


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_writes_reach_the_source_as_in_numpy(spmd, ranks):
    rng = random.Random(ranks)
    cases = [(view, rng.choice([*WRITERS])) for view in VIEWS] + [(rng.choice([*VIEWS]), writer) for writer in WRITERS]

    def body():
        grid = sg.init_grid((-1,))
        chosen = random.Random(7)
        with np.errstate(all="ignore"):
            for view, writer in cases:
                check(view, writer, arrays(grid, chosen), WHOLE.copy())

    spmd(ranks, body)


READ_ONLY = {
    "broadcast_to": lambda x: np.broadcast_to(x, (2, *SHAPE)),
    "diagonal": lambda x: x.diagonal(),
    "diag": lambda x: np.diag(x),
    "a slice of a diagonal": lambda x: x.diagonal()[1:],
    "sliding_window_view": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0),
    "imag of a real array": lambda x: np.imag(x),
    "partial sums": lambda x: partial_sums(x)[1:],
}


def partial_sums(x):
    sharding = sg.Sharding(x.grid, [], partial_axes=[0])
    return sg.from_local(np.ones(SHAPE), sharding, x.grid, SHAPE)


@pytest.mark.parametrize("view", READ_ONLY)
def test_what_cannot_reach_its_source_is_refused_by_all(spmd, view):
    def body():
        grid = sg.init_grid((-1,))
        x = arrays(grid, random.Random(3))
        v = READ_ONLY[view](x)
        for name in ("v[...] = number", "v[0] = number", "v += number", "np.add out", "np.copyto", "sort", "fill"):
            with pytest.raises(sg.OutputError, match="is a read-only view of another"):
                WRITERS[name](v)
        assert not v.core.flags.writeable
        np.testing.assert_array_equal(x.to_global(), WHOLE)
        if view == "diagonal":
            x += 1
            np.testing.assert_array_equal(v.to_global(), np.diagonal(WHOLE) + 1)

    spmd(2, body)


def test_parts_of_complex_numbers(spmd):
    def body():
        grid = sg.init_grid((-1,))
        want = np.array([1 + 2j, np.inf + 3j, complex(0, np.nan), 4, 5j])
        x = sg.from_global(want, sg.Sharding(grid, [[0]]), grid)
        for each in (x, want):
            each.imag += 1
            each.real[1:] = 7
            each.real = each.imag * 2
            each[1:].imag[...] = 3
        np.testing.assert_array_equal(x.to_global(), want)

    spmd(3, body)


def test_core_and_local_of_views(spmd):
    def body():
        grid = sg.init_grid((-1,))
        x = sg.from_global(WHOLE, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        inside = x[...]
        inside.core[...] += 1
        inside.mark_dirty()
        np.testing.assert_array_equal((x[1:] - x[:-1]).to_global(), np.diff(WHOLE, axis=0))
        np.testing.assert_array_equal(x.to_global(), WHOLE + 1)
        with pytest.raises(ValueError, match="read-only"):
            x[::-1].core[...] = 0
        turned = x.T
        turned.core[...] = 5
        turned.mark_dirty()
        x.core[...] += 1
        x.mark_dirty()
        assert (turned.to_global() == 6).all() and (x.to_global() == 6).all() and (inside.to_global() == 6).all()

    spmd(3, body)


def test_results_of_one_instruction_stay_apart_from_views_of_the_last(spmd):
    """Results that are computed again reuse memory: not that of a view's source, and no array that is a view now."""

    def body():
        grid = sg.init_grid((-1,), check=False)
        a, held = arrays(grid, random.Random(1)), []
        for k in range(12):
            found = a * 2.0 + k
            turned, part = found.T, found[1:]
            if k % 3:
                turned += 1
            if k % 2:
                part += 1
            held.append((turned, part))
        for k, (turned, part) in enumerate(held):
            want = WHOLE * 2.0 + k + bool(k % 3)
            want[1:] += k % 2
            np.testing.assert_array_equal(turned.to_global(), want.T)
            np.testing.assert_array_equal(part.to_global(), want[1:])

    spmd(2, body)
