"""Whole programs on several nodes, where some groups share memory and some do not; they end with plans still open."""

import pytest
from support.jobs import check_fine

PROGRAM = """
import random, sys
import spmd_grid as sg
from support.reshard.reshard_run_oracle import check_case, random_case

grids = [sg.init_grid((2, 3)), sg.init_grid((3, 2)), sg.init_grid((6,))]
rng = random.Random(4)
for n in range({count}):
    grid = grids[n % 3]
    for strategy in ("auto", "basis", "direct"):
        check_case(random_case(rng, grid.shape), grid, strategy)
rows, whole = sg.Sharding(grids[0], [[0, 1]]), sg.Sharding(grids[0], [[1]])
big = sg.from_function(lambda i: i, (3_000_000,), rows, grids[0])  # messages of some MiB
assert (big.reshard(whole).local == big.to_global()[whole.shard_slices((3_000_000,), grids[0].coords)]).all()
print("fine")
"""


@pytest.mark.parametrize("per_node", ["4", *(pytest.param(each, marks=pytest.mark.full) for each in "12")])
def test_several_nodes(tmp_path, request, per_node):
    """Steps that some groups run by MPI's collective, and others through memory, must not get in each other's way."""
    program = PROGRAM.replace("{count}", "40" if request.config.getoption("full") else "15")
    check_fine(tmp_path, 6, program, SPMD_GRID_RANKS_PER_NODE=per_node)
