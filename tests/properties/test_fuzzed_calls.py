"""Fuzzed calls on all ranks: a result, or the same refusal everywhere."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.properties.fuzzed import HUGE, NAMES, SCALARS, Odd, often, on_all, outcome, sharding_arguments
from support.properties.property_oracle import Oracle, coordinates, same
from support.properties.property_strategies import shardings, with_fixtures
from support.properties.shards_oracle import with_halos

import spmd_grid as sg


@with_fixtures
@given(often(st.sampled_from([(4,), (2, -1), (2, 2), (-1,), (3,), (1, 2)])), often(NAMES), st.data())
def test_init_grid(spmd, shape, names, data):
    ranks = data.draw(often(st.none() | st.permutations(range(4)) | st.just([2, 0, 1])))

    def make():
        grid = sg.init_grid(shape, axis_names=names, ranks=ranks)
        return grid.shape, grid.coords, grid.rank

    for found in on_all(spmd, 4, make) or ():
        shape, coords, rank = found
        device = list(ranks).index(rank) if ranks is not None and rank in list(ranks) else rank
        taken = rank < math.prod(shape) if ranks is None else rank in list(ranks)
        assert coords == (coordinates(shape)[device] if taken else None)


DTYPES = st.sampled_from(["f8", "int16", np.dtype("c8"), None, bool])


@with_fixtures
@given(sharding_arguments(grid_shape=(2, 2)), st.sampled_from(["empty", "zeros", "full", "from_function"]), st.data())
def test_arrays_from_nothing(spmd, arguments, name, data):
    draw, (split, options) = data.draw, arguments
    shape = draw(often(st.sampled_from([(7, 5), (4,), (0, 3), [3, 2]])))
    dtype, value = draw(often(DTYPES)), draw(often(st.sampled_from([0, 1, 2.5, np.int8(3)])))

    def make():
        grid = sg.init_grid((2, 2), axis_names=("x", "y"))
        sharding = sg.Sharding(grid, split, **options)
        if name == "full":
            a = sg.full(shape, sharding, grid, dtype, fill_value=value)
        elif name == "from_function":
            a = sg.from_function(lambda *cells: value, shape, sharding, grid, dtype)
        else:
            a = getattr(sg, name)(shape, sharding, grid, dtype)
        return None if name == "empty" else a.to_global()

    for whole in on_all(spmd, 4, make) or ():
        if name == "zeros":
            assert same(whole, np.zeros(shape, "f8" if dtype is None else dtype))
        elif name == "full":
            assert same(whole, np.full(shape, value, "f8" if dtype is None else dtype))


@with_fixtures
@given(sharding_arguments(grid_shape=(2, 2)), st.data())
def test_arrays_from_arrays(spmd, arguments, data):
    draw, (split, options) = data.draw, arguments
    array = draw(often(st.just(np.arange(35.0).reshape(7, 5))))
    shape, given_sharding = draw(often(st.just((7, 5)))), draw(often(st.just("made")))

    def make(from_local):
        grid = sg.init_grid((2, 2), axis_names=("x", "y"))
        sharding = sg.Sharding(grid, split, **options) if isinstance(given_sharding, str) else given_sharding
        if from_local:
            return sg.ShardedArray.from_local(array, sharding, grid, shape).to_global()
        return sg.ShardedArray.from_global(array, sharding, grid).to_global()

    for whole in on_all(spmd, 4, lambda: make(False)) or ():
        assert same(whole, np.asarray(array))
    on_all(spmd, 4, lambda: make(True))


@with_fixtures
@given(st.data())
def test_halo_exchange(spmd, data):
    draw, shape = data.draw, (7, 5)
    sharding = draw(often(shardings((2, 2), shape)))
    arguments = [draw(often(st.just(shape))), draw(often(st.sampled_from(["f8", "int16", ["f8"]])))]
    options = {
        "periodic": often(st.sampled_from([True, False, [True, False]])),
        "corners": often(st.booleans()),
        "n_fields": often(st.just(1)),
        "boundary": often(st.sampled_from(["leave", "edge", ["leave", "edge"]])),
        "path": often(st.sampled_from([None, "direct", "message", "staged"])),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=3))
    options = {name: draw(options[name]) for name in chosen}
    plain = {"boundary": "leave", "corners": True} | options

    def make():
        grid = sg.init_grid((2, 2))
        with sg.HaloExchange(grid, sharding, *arguments, **options) as halo:
            if len(halo.dtypes) > 1 or halo.layout.global_shape != shape or plain["boundary"] not in ("leave", "edge"):
                return None
            a = sg.zeros(shape, sharding, grid, halo.dtypes[0])
            whole = np.arange(35).reshape(shape).astype(halo.dtypes[0])
            a.core[...] = whole[sharding.shard_slices(shape, grid.coords)]
            args = plain | {"periodic": halo.pattern.periodic}
            wanted = with_halos(a.local, whole, sharding, grid.coords, args)
            halo.update(a)
            assert same(a.local, wanted)

    on_all(spmd, 4, make)


@with_fixtures
@given(st.data())
def test_update_halo(spmd, data):
    draw = data.draw
    x = draw(often(st.just(np.arange(30.0).reshape(6, 5))))
    split, sizes = (
        draw(often(st.sampled_from([[[0], [1]], [[0]], [[], ["x"]]]))),
        draw(often(st.sampled_from([[1, 1], [1, 1, 0, 2]]))),
    )
    options = {
        "periodic": often(st.booleans()),
        "global_shape": often(st.sampled_from([(8, 6), (8, 5), None])),
        "blocks": often(st.just("ceil")),
        "sharded_dims_offsets": often(st.none()),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=2))
    options = {name: draw(options[name]) for name in chosen}

    def make():
        grid = sg.init_grid((2, 2), axis_names=("x", "y"))
        mine = x.copy() if isinstance(x, np.ndarray) else x
        result = sg.update_halo(mine, grid, split, sizes, **options)
        assert result is mine
        return result.shape

    on_all(spmd, 4, make)


OPERATIONS = {
    "all_gather": {"gather_axis": [0, 1]}, "gather": {"gather_axis": [0], "root": [[1], [0, 1]]},
    "all_slice": {"slice_axis": [1]}, "all_to_all": {"split_axis": [0], "concat_axis": [1]},
    "broadcast": {"root": [[0], [1, 1]]}, "scatter": {"scatter_axis": [0], "root": [[0]]},
    "all_reduce": {"reduction": ["sum", "max"], "dtype": [None, "f4"]}, "reduce": {"reduction": ["min"], "root": [[1]]},
    "reduce_scatter": {"reduction": ["sum"], "scatter_axis": [1]},
    "shift": {"shift_axis": [0, "y"], "offset": [1, -2], "fill": [None, 0]},
}  # fmt: skip


@with_fixtures
@given(st.sampled_from(sorted(OPERATIONS)), st.data())
def test_operations(spmd, name, data):
    draw = data.draw
    axes = draw(often(st.sampled_from([[0], [1], ["y"], [1, 0], [0, 1]])))
    args = {each: draw(often(st.sampled_from(right))) for each, right in OPERATIONS[name].items()}
    assume(not callable(args.get("reduction")))  # a function of the user's, which raises what it likes
    x = draw(often(st.just("own"), SCALARS))

    def make():
        grid = sg.init_grid((2, 2), axis_names=("x", "y"))
        mine = np.arange(12).reshape(4, 3) + grid.rank if isinstance(x, str) and x == "own" else x
        return getattr(sg, name)(mine, grid, axes, **args)

    found = on_all(spmd, 4, make)
    if found is None or not (isinstance(x, str) and x == "own"):
        return
    all_axes = (0, 1) if axes is None else axes
    numbers = [{"x": 0, "y": 1}.get(axis, axis) if isinstance(axis, str) else int(axis) for axis in all_axes]
    args = {each: _plain(value) for each, value in args.items()}
    xs = [np.arange(12).reshape(4, 3) + rank for rank in range(4)]
    with np.errstate(all="ignore"):
        wanted = getattr(Oracle((2, 2), numbers), name)(xs, **args)
    assert all(map(same, found, wanted)), (found, wanted)


def _plain(value):
    """Arguments as the oracle takes them."""
    if isinstance(value, str) and value in ("x", "y"):
        return "xy".index(value)
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value


@pytest.mark.parametrize("size", HUGE)
def test_what_no_memory_can_hold(spmd, size):
    """Extents and halos beyond all memory: refused by all, before anything is allocated."""

    def make(shape, halo_sizes, call):
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=halo_sizes)
        return lambda: call(shape, sharding, grid)

    def body():
        said = []
        for shape, halo_sizes in (((size,), [1, 1]), ((size, 0), [0, 0]), ((4,), [size, 0])):
            if min(size, *shape) < 0:
                continue
            for call in (sg.zeros, sg.empty, lambda *args: sg.HaloExchange(args[2], *args[1::-1], "f8")):
                said.append(outcome(make(shape, halo_sizes, call))[1])
        return said

    first, second = spmd(2, body)
    assert first == second and all("memory has addresses for" in text for text in first)


@pytest.mark.parametrize("grid", [None, "grid0", sg.Grid((2, 2)), Odd()])
def test_what_is_no_grid_of_processes(spmd, grid):
    """The dialect's ``process_linear_index_unknown_grid``: there a symbol that names nothing."""

    def make():
        sg.all_reduce(np.ones(2), grid, [0], "sum")

    def body():
        return outcome(make)[1]

    assert all("GridError" in text for text in spmd(2, body))
