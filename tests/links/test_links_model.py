"""The map of processes to nodes in a model: any map is one of the two forms, and what stays within nodes follows."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spmd_grid as sg
from spmd_grid.links import model as model_module
from spmd_grid.links import nodes as nodes_module
from spmd_grid.links.model import LinkModel


@st.composite
def placed_grids(draw):
    """A grid, its processes, and the node of each process."""
    shape = draw(st.sampled_from([(4,), (2, 3), (3, 2), (2, 2, 2), (1, 4), (6, 2)]))
    size = int(np.prod(shape))
    ranks = draw(st.none() | st.permutations(range(size)))
    nodes = draw(
        st.lists(st.integers(0, 3), min_size=size, max_size=size)
        | st.integers(1, 6).map(lambda m: [p // m for p in range(size)])
    )
    return sg.Grid(shape, ranks=ranks), nodes


@given(placed_grids())
def test_axes_within_nodes(placed):
    grid, nodes = placed
    model = LinkModel(nodes=nodes)
    assert [model.node_of(p) == model.node_of(0) for p in range(grid.size)] == [node == nodes[0] for node in nodes]
    at = np.asarray(nodes)[np.asarray(grid.ranks or range(grid.size))].reshape(grid.shape)
    for axis in range(grid.ndim):
        stays = bool((at == at.take([0], axis)).all())
        assert stays or not model.is_within_nodes(grid, axis)
        if model.nodes is not None or grid.ranks is not None:
            assert model.is_within_nodes(grid, axis) == stays
    assert model.is_one_node(grid) == (len(set(nodes)) == 1)
    assert model.shares_nodes == (len(set(nodes)) < grid.size)


def test_models_with_other_maps_differ():
    assert LinkModel(nodes=[0, 1, 0, 1]) != LinkModel(nodes=[0, 1, 1, 0]) != LinkModel(node_size=2)
    assert LinkModel(nodes=[3, 3, 1]) == LinkModel(node_size=2)


def test_grids_that_the_map_does_not_cover():
    model = LinkModel(nodes=[0, 1, 0])
    with pytest.raises(sg.ShardingError, match="nodes lists 3 processes; the grid .* has process 3"):
        model.is_within_nodes(sg.Grid((4,)), 0)
    with pytest.raises(sg.ShardingError, match="has process 5"):
        sg.plan_reshard(
            sg.Sharding(sg.Grid((2,), ranks=[0, 5]), [[0]]),
            sg.Sharding(sg.Grid((2,), ranks=[0, 5]), []),
            (4,),
            "f8",
            links=model,
        )


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"nodes": []}, "nodes is \\[\\]; it must list"),
        ({"nodes": "01"}, "nodes is '01'; it must list"),
        ({"nodes": [0, 1.5]}, "it must list the number of every process's node"),
        ({"nodes": [0, 1], "node_size": 2}, "node_size is 2 and nodes is given"),
        ({"cable_bandwidth": 0}, "cable_bandwidth is 0"),
        ({"bus_bandwidth": -1}, "bus_bandwidth is -1"),
        ({"message_seconds": -1}, "message_seconds is -1"),
        ({"step_seconds": -1}, "step_seconds is -1"),
        ({"call_seconds": None}, "call_seconds is None"),
        ({"copies": [(4, 2.0), (4, 1.0)]}, "copies is .*; it must list \\(bytes, bytes per second\\)"),
        ({"copies": 5e9}, "copies is 5000000000.0; it must list"),
        ({"alone_copies": [(4, 0)]}, "alone_copies is .*, all more than 0"),
        ({"run_copies": 1}, "run_copies is 1; it must list"),
        ({"alone_run_copies": [()]}, "alone_run_copies is .*; it must list"),
        ({"own_cores": 1}, "own_cores is 1; it must be True or False"),
        ({"taper": 0.5}, "taper is 0.5; it must be a number of cables"),
    ],
    ids=str,
)
def test_refusals(wrong, words):
    with pytest.raises(sg.ShardingError, match=words):
        LinkModel(**wrong)


@pytest.mark.parametrize("module", [model_module, nodes_module])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
