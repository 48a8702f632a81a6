"""Input of which a part would be lost or ignored is refused, with the same error on every rank, and nothing is sent."""

import numpy as np
import pytest

import spmd_grid as sg

MASKED = np.ma.masked_array([0.0, 1, 777, 3, 4], [0, 0, 1, 0, 0])
PLACES = {
    "operator": lambda a, g, m: a + m,
    "operator from the right": lambda a, g, m: a.__radd__(m),
    "operator in place": lambda a, g, m: a.__iadd__(m),
    "comparison": lambda a, g, m: a == m,
    "ufunc": lambda a, g, m: np.maximum(a, m),
    "where of a ufunc": lambda a, g, m: np.add(a, 1, where=m > 1, out=a.copy()),
    "reduction": lambda a, g, m: np.sum(a, where=m > 1),
    "contraction": lambda a, g, m: np.dot(a, m),
    "in a list": lambda a, g, m: np.concatenate([a[0], m]),
    "in a choice": lambda a, g, m: np.where(a > 1, m, a),
    "composite": lambda a, g, m: np.clip(a, m, 9),
    "composite, called before": lambda a, g, m: (np.clip(a, m.data, 9), np.clip(a, m, 9)),
    "option": lambda a, g, m: np.average(a, axis=1, weights=m),
    "bins": lambda a, g, m: np.histogram(a, bins=m),
    "initial": lambda a, g, m: np.sum(a, axis=0, initial=m),
    "numbers of repeats": lambda a, g, m: np.repeat(a, m.astype(int), axis=1),
    "einsum": lambda a, g, m: sg.einsum("ij,j->i", a, m),
    "value": lambda a, g, m: a.__setitem__(..., m),
    "value in a list": lambda a, g, m: a.__setitem__(np.s_[:1], [m]),
    "fill": lambda a, g, m: a.fill(m[2]),
    "index": lambda a, g, m: a[m.astype(int) % 5],
    "index of a write": lambda a, g, m: a.__setitem__(m.astype(int) % 5, 1),
    "mask": lambda a, g, m: a[:, m > 1],
    "from_global": lambda a, g, m: sg.from_global(m, sg.Sharding(g, [[0]]), g),
    "from_global of a list": lambda a, g, m: sg.from_global([m, m], sg.Sharding(g, [[0]]), g),
    "from_function": lambda a, g, m: sg.from_function(lambda i: np.ma.masked_equal(i, 1), (5,), a.sharding, g),
    "full": lambda a, g, m: sg.full((5,), a.sharding, g, fill_value=m[2]),
    "asarray": lambda a, g, m: sg.array_api.asarray(m, sharding=sg.Sharding(g, [[0]]), grid=g),
    "collective": lambda a, g, m: sg.all_reduce(m, g),
    "started collective": lambda a, g, m: sg.all_gather.start(m, g, [0], 0).wait(),
    "coordinates": lambda a, g, m: a.coordinates(spacing=m[1:3]),
}


def refused(spmd, call, ranks=3, check=None):
    """The one error that all ranks raise; the array stays as it is, and a collective works afterwards."""

    def body():
        grid = sg.init_grid((ranks,))
        a = sg.from_function(lambda i, j: 5.0 * i + j, (7, 5), sg.Sharding(grid, [[0]]), grid)
        before = a.core.copy()
        with pytest.raises(sg.SpmdError) as caught:
            call(a, grid)
        assert sg.all_reduce(1, grid) == ranks
        assert np.array_equal(a.core, before)
        return type(caught.value), str(caught.value)

    found = spmd(ranks, body)
    assert len(set(found)) == 1, found
    return found[0]


@pytest.mark.parametrize("place", PLACES)
def test_masked_arrays(spmd, place):
    kind, text = refused(spmd, lambda a, grid: PLACES[place](a, grid, MASKED))
    assert kind is sg.DTypeError and "is a masked array, whose mask would be lost; pass its .filled(...)" in text


def test_masked_arrays_on_the_left_and_as_out(spmd):
    assert refused(spmd, lambda a, grid: MASKED + a)[0] is sg.ImplicitGatherError
    assert refused(spmd, lambda a, grid: sg.all_reduce(np.ones(5), grid, out=MASKED.copy()))[0] is sg.OutputError
    kind, _ = refused(spmd, lambda a, grid: sg.update_halo(MASKED.copy(), grid, [[0]], [1, 1]))
    assert kind is sg.OutputError


def test_matrices_and_objects(spmd):
    matrix = np.ones((5, 7)).view(np.matrix)
    for call in (lambda a, grid: a * matrix.T, lambda a, grid: matrix * a):
        kind, text = refused(spmd, call)
        assert kind is sg.DTypeError and "np.matrix" in text
    kind, text = refused(spmd, lambda a, grid: a + np.array([None] * 5))
    assert kind is sg.DTypeError and "dtype object" in text


class Metres:
    """A quantity with a unit, which answers numpy's protocols itself."""

    def __init__(self, cells):
        self.cells = cells

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.cells)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return "m", ufunc(*[x.cells if isinstance(x, Metres) else x for x in inputs])

    def __array_function__(self, function, types, args, options):
        return "m", function.__name__


def test_classes_that_answer_numpys_protocols_decide(spmd):
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: 1.0 * i, (5,), sg.Sharding(grid, [[0]]), grid)
        x = Metres(np.full(5, 2.0))
        for found in (a + x, np.add(a, x), np.add(x, a)):
            assert found[0] == "m" and found[1].to_global().tolist() == [2, 3, 4, 5, 6]
        assert np.concatenate([a, x]) == ("m", "concatenate")
        assert np.where(a > 1, x, a) == ("m", "where")

    spmd(3, body)


ITSELF: list = [1]
ITSELF.append(ITSELF)
OPTIONS = {
    "reproducible is an array": lambda a, g, path: sg.sum(a, reproducible=np.ones(3)),
    "reproducible is huge": lambda a, g, path: sg.norm(a, reproducible=10**30),
    "reproducible is a float": lambda a, g, path: sg.dot(a, a, reproducible=1.0),
    "stage_bytes of save_npy": lambda a, g, path: sg.save_npy(path, a, stage_bytes=[True]),
    "stage_bytes of load_npy": lambda a, g, path: sg.load_npy(path, a.sharding, g, stage_bytes=[True]),
    "stage_bytes of save_vtk": lambda a, g, path: sg.save_vtk(path, a, stage_bytes=True),
    "stage_bytes of save": lambda a, g, path: sg.save(path, {"a": a}, stage_bytes=[True]),
    "attributes of save": lambda a, g, path: sg.save(path, {"a": a}, attributes=[1]),
    "names of load": lambda a, g, path: sg.load(path, {}, g, names="a"),
    "path is a tuple": lambda a, g, path: sg.load_npy((path, path), a.sharding, g),
    "path is a function": lambda a, g, path: sg.load_npy(len, a.sharding, g),
    "seed holds itself": lambda a, g, path: sg.random.Generator(ITSELF),
    "seed is None": lambda a, g, path: sg.random.Generator(None),
    "dtype holds itself": lambda a, g, path: sg.zeros((3,), a.sharding, g, ITSELF),
    "dtypes of a plan hold themselves": lambda a, g, path: sg.plan_reshard(a.sharding, a.sharding, (7, 5), ITSELF),
    "dtype of astype holds itself": lambda a, g, path: a.astype(ITSELF),
    "shape holds itself": lambda a, g, path: sg.zeros(ITSELF, a.sharding, g),
    "axes hold themselves": lambda a, g, path: sg.all_reduce(1, g, ITSELF),
    "x holds itself": lambda a, g, path: sg.all_reduce(ITSELF, g),
    "an operand holds itself": lambda a, g, path: a + ITSELF,
    "axis holds itself": lambda a, g, path: np.sum(a, axis=ITSELF),
    "an index holds itself": lambda a, g, path: a[ITSELF],
    "a value holds itself": lambda a, g, path: a.__setitem__(0, ITSELF),
    "a list where an array belongs": lambda a, g, path: np.take_along_axis(a, [], axis=0),
    "a number where an array belongs": lambda a, g, path: np.vstack([1j, a]),
    "initial has cells": lambda a, g, path: np.min(a, axis=0, initial=[1.0, 2.0]),
    "initial is an array of objects": lambda a, g, path: a.sum(axis=0, initial=np.array([None, 1])),
    "initial has a cell for each result": lambda a, g, path: np.sum(a, axis=0, initial=np.arange(5.0)),
    "rotate has no truth": lambda a, g, path: sg.shift.start(np.ones(3), g, [0], 0, 1, rotate=np.ma.ones(3)),
    "rotate is a list": lambda a, g, path: sg.shift(np.ones(3), g, [0], 0, 1, rotate=[0, 1]),
    "grid of save": lambda a, g, path: sg.save(path, {"a": a}, grid=-1.0),
    "repeats beyond all addresses": lambda a, g, path: np.repeat(a, 2**62),
    "tiles beyond all addresses": lambda a, g, path: np.tile(a, (2**62, 1)),
    "grid of staged_bytes": lambda a, g, path: sg.staged_bytes({"a": np.ones(3)}, grid=0),
    "extents of bools": lambda a, g, path: sg.all_gather(np.ones(1), g, [0], 0, extents=[True] * 3),
    "lengths for more dimensions": lambda a, g, path: np.fft.fftn(a, s=[3, 3, 3]),
    "no distance of frequencies": lambda a, g, path: sg.fft.fftfreq(4, 0.0, sharding=a.sharding, grid=g),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_say_something_else(case, tmp_path):
    def spmd(ranks, body):
        return sg.run_spmd(body, ranks=ranks, check=False)

    refused(spmd, lambda a, grid: OPTIONS[case](a, grid, tmp_path / "file.pvti"))
    assert not list(tmp_path.iterdir())


def test_attributes_of_files(tmp_path):
    pytest.importorskip("h5py")
    pytest.importorskip("zarr")
    for save in (sg.save_hdf5, sg.save_zarr):
        kind, text = refused(
            lambda ranks, body: sg.run_spmd(body, ranks=ranks, check=False),
            lambda a, grid, save=save: save(tmp_path / "file", {"a": a}, attributes=[1]),
        )
        assert kind is sg.StorageError and "attributes is [1]; it must be a dict" in text
    assert not list(tmp_path.iterdir())
