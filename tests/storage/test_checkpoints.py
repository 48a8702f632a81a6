"""Checkpoints: the same bytes from every number of ranks and layout, loaded into any; parts, conversions, refusals."""

import ml_dtypes
import numpy as np
import pytest
from support.same_bytes import same_bytes
from support.storage.shared import LAYOUTS, common_folder, values

import spmd_grid as sg

STRUCTURE = np.dtype([("a", "<i2"), ("b", "<f4", (2,))])
SMALL = {"block_bytes": 64, "stage_bytes": 256}
WANT = {
    "u": values((7, 9), "f8"),
    "deep/b": values((6, 4, 5), ml_dtypes.bfloat16),
    "deep/s": values((5, 3), STRUCTURE),
    "empty": values((3, 0), "i4"),
    "zero": values((), "c16"),
}
# By number of ranks: the shape of the grid, and split axes for arrays of 2 or 3 dimensions.
GRIDS = {1: ((1,), [[0]]), 2: ((2,), [[], [0]]), 3: ((3,), [[0]]), 4: ((2, 2), [[1], [0]]), 5: ((5,), [[], [0]])}
GRIDS[6] = ((2, 3), [[1], [0]])


def state_on(grid, axes, **options):
    """A state with an array of each kind, in one sharding as far as it fits."""

    def array(name):
        sharding = sg.Sharding(grid, axes if WANT[name].ndim else [], **(options if WANT[name].ndim else {}))
        return sg.from_global(WANT[name], sharding, grid)

    draws = sg.random.Generator([3, 4])
    draws.random((3,), sg.Sharding(grid, []), grid)
    return {
        "u": array("u"),
        "deep": {"b": array("deep/b"), "s": array("deep/s"), "list": [1, 2.5, (None, True, "ü", 1 - 2j, b"\0x")]},
        "empty": array("empty"),
        "zero": array("zero"),
        "plain": np.arange(50)[::-2],
        "scalars": {"f4": np.float32(0.1), "nan": float("nan"), "step": 10**30, "time": np.datetime64("2026-01-01")},
        "draws": draws,
        "numpys": [np.random.Generator(bits(7)) for bits in (np.random.PCG64, np.random.MT19937, np.random.Philox)],
        "step": 12,
    }


def check(state, want, grid):
    for name, array in WANT.items():
        found = state
        for key in name.split("/"):
            found = found[key]
        assert found.dtype == array.dtype
        assert same_bytes(found.to_global(), array), name
    np.testing.assert_array_equal(state["plain"], want["plain"])
    assert state["deep"]["list"] == want["deep"]["list"] and state["step"] == 12
    assert repr(state["scalars"]) == repr(want["scalars"])
    whole = sg.Sharding(grid, [])
    pairs = zip([state["draws"], *state["numpys"]], [want["draws"], *want["numpys"]])
    for i, (found, wanted) in enumerate(pairs):
        draws = [each.random(3) if i else each.random((3,), whole, grid).local for each in (found, wanted)]
        assert same_bytes(*draws)


def shardings_on(grid, axes, **options):
    return {
        name: sg.Sharding(grid, *([axes] if a.ndim else [[]]), **(options if a.ndim else {}))
        for name, a in WANT.items()
    }


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


PAIRS = [(saving, loading) for saving in GRIDS for loading in GRIDS]


@pytest.mark.parametrize(
    ("saving", "loading"),
    [pytest.param(*each, marks=[] if sum(each) in (4, 9) else pytest.mark.full) for each in PAIRS],
)
def test_restart_on_another_number_of_ranks(spmd, saving, loading):
    def on(n):
        shape, axes = GRIDS[n]
        return sg.init_grid(shape, ranks=range(n)), axes

    def body():
        whole = sg.init_grid((-1,))
        with common_folder(whole) as folder:
            seen = []
            for n, options in ((saving, {}), (loading, {"blocks": "balanced"})):
                grid, axes = on(n)
                if grid.coords is not None:
                    seen.append(contents(sg.save(folder / str(n), state_on(grid, axes, **options), **SMALL)))
            assert all(each == seen[0] for each in seen)
            sg.all_reduce(1, whole, None, "sum")
            grid, axes = on(loading)
            if grid.coords is not None:
                asked = shardings_on(grid, axes, halo_sizes=[1, 0] * sum(map(bool, axes)))
                state = sg.load(folder / str(saving), asked, grid, stage_bytes=256)
                check(state, state_on(grid, axes), grid)
                assert same_bytes(state["u"].local, sg.from_global(WANT["u"], asked["u"], grid).local)

    spmd(max(saving, loading), body)


def test_every_layout(spmd, each_path):
    def body():
        grid = sg.init_grid((2, 3))
        want = values((9, 7), "f4")
        with common_folder(grid) as folder:
            for axes, options in LAYOUTS.values():
                sharding = sg.Sharding(grid, axes, **options)
                a = sg.from_global(want, sharding, grid)
                sg.save(folder, {"a": a}, **SMALL)
                assert same_bytes(sg.load(folder, {"a": sharding}, grid, stage_bytes=256)["a"].local, a.local)
            assert len({path.read_bytes() for path in folder.glob("*/manifest.json")}) == 1
            assert sg.latest(folder, grid) == folder / f"save-{len(LAYOUTS):06d}" == sg.latest(folder)
            assert sg.verify(folder, grid) == sg.verify(folder) == []

    spmd(6, body)


def test_parts_slices_and_other_dtypes(spmd, each_path):
    def body():
        grid = sg.init_grid((3,))
        rows = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with common_folder(grid) as folder:
            sg.save(folder, state_on(grid, [[0]]), **SMALL)
            state = sg.load(folder, {"deep": {"b": rows}}, grid, names=["deep/b", "step"], dtypes={"deep/b": "f4"})
            assert list(state) == ["deep", "step"] and list(state["deep"]) == ["b"]
            assert same_bytes(state["deep"]["b"].to_global(), WANT["deep/b"].astype("f4"))
            slices = {"u": (slice(2, 7), slice(-5, -1)), "plain": slice(3, 9)}
            for sharding in (rows, sg.Sharding(grid, [[], [0]]), sg.Sharding(grid, [])):
                for stage in (256, 1 << 20):
                    options = {"names": ["u", "plain"], "slices": slices, "stage_bytes": stage}
                    state = sg.load(folder, {"u": sharding}, grid, **options)
                    want = sg.from_global(WANT["u"][2:7, -5:-1], sharding, grid)
                    assert same_bytes(state["u"].local, want.local)
                    np.testing.assert_array_equal(state["plain"], np.arange(50)[::-2][3:9])

    spmd(3, body)


def test_keeps_the_newest(spmd):
    def body():
        grid = sg.init_grid((2,))
        with common_folder(grid) as folder:
            for step in range(4):
                a = sg.full((5,), sg.Sharding(grid, [[0]]), grid, fill_value=step)
                path = sg.save(folder, {"a": a, "step": step}, keep=2)
            assert sorted(each.name for each in folder.iterdir()) == ["save-000003", "save-000004"]
            assert path.name == "save-000004" and sg.load(folder, {"a": a.sharding}, grid)["step"] == 3
            assert sg.load(folder / "save-000003", {"a": a.sharding}, grid)["step"] == 2

    spmd(2, body)


@pytest.mark.parametrize("stage_bytes", [256, 1 << 20])
def test_saves_while_the_program_computes(spmd, stage_bytes):
    def body():
        grid = sg.init_grid((3,))
        with common_folder(grid) as folder:
            a = sg.from_global(WANT["u"], sg.Sharding(grid, [[], [0]]), grid)
            saving = sg.save(folder, {"a": a}, wait=False, block_bytes=64, stage_bytes=stage_bytes)
            assert saving.staged_bytes <= stage_bytes // 2
            a[...] = 0  # what is saved is what the array held
            second = sg.save(folder, {"a": a}, wait=False, block_bytes=64, stage_bytes=stage_bytes)
            assert sg.latest(folder, grid) == folder / "save-000001" == saving.wait() == saving.wait()
            assert second.wait() == folder / "save-000002" and second.is_written
            for path, want in ((saving.wait(), WANT["u"]), (folder, 0 * WANT["u"])):
                assert same_bytes(sg.load(path, {"a": a.sharding}, grid)["a"].to_global(), want)

    spmd(3, body)


REFUSED = {
    "no sharding": (lambda s: {"shardings": {}}, sg.ShardingError, "'a', a sharded array of shape \\(7, 9\\)"),
    "another name": (lambda s: {"shardings": {"a": s, "b": s}}, sg.StorageError, "'b', .* it has a"),
    "a part that is not there": (lambda s: {"names": ["x"]}, sg.StorageError, "names has 'x'"),
    "too many dimensions": (
        lambda s: {"shardings": {"a": sg.Sharding(s.grid, [[], [], [0]])}},
        sg.ShardingError,
        "'a' does not fit its shape",
    ),
    "a step": (lambda s: {"slices": {"a": slice(0, 5, 2)}}, sg.ShapeError, "step of 2"),
    "too many slices": (lambda s: {"slices": {"a": [slice(1)] * 3}}, sg.ShapeError, "shape \\(7, 9\\)"),
    "another kind": (lambda s: {"dtypes": {"a": "i4"}}, sg.DTypeError, "is int32; the checkpoint holds float64"),
}


def test_what_does_not_fit_is_refused(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            sg.save(folder, {"a": sg.from_global(WANT["u"], rows, grid), "step": 1})
            for case, (options, error, words) in REFUSED.items():
                with pytest.raises(error, match=words):
                    sg.load(folder, **{"shardings": {"a": rows}, "grid": grid, **options(rows)}), case
            with pytest.raises(sg.StorageError, match="there is no checkpoint in"):
                sg.load(folder / "nothing", {}, grid)
            for state, words in (({1: 2}, "key 1"), ({"a": {"b/c": 1}}, "key 'b/c'"), ({"f": body}, "function")):
                with pytest.raises(sg.DTypeError, match=words):
                    sg.save(folder, state)
            with pytest.raises(sg.MismatchError):
                sg.save(folder, {"rank": grid.rank}, grid=grid)
            assert [path.name for path in folder.iterdir()] == ["save-000001"]

    spmd(2, body)
