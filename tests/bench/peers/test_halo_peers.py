"""The hand-written contenders are right: else they would be no peers."""

from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_job

from spmd_grid.bench.halo.cases import fill_faces, wrong_cells

JOB = Path(__file__).with_name("peers_job.py")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_contender_gets_every_cell_right(ranks):
    """On 1 and 2 periodic ranks both neighbours are the same one, which swaps faces that are told apart by rank."""
    job = run_job("mpiexec", ranks, JOB, python=["-W", "error"])
    assert job.code == 0, job
    by_kind = {line.split(" ", 2)[0] + line.split(" ", 2)[1]: line.split(" ", 2)[2] for line in job.out.splitlines()}
    assert set(by_kind) == {"1False", "1True", "3False", "3True"}
    for kind, names in by_kind.items():
        names = names.split("; ")
        data = {name.partition(", ")[2] for name in names if name.startswith("Isend/Irecv")}
        assert {name.partition(", ")[2] for name in names if name.startswith("persistent")} == data
        assert ("direct views" in data) == kind.endswith("True")
        assert ("numpy pack" in data) == (kind != "1True") and "subarray types" in data
        assert ("one type for all fields" in data) == kind.startswith("3")
        assert "Neighbor_alltoallw" in names and "Neighbor_alltoallw_init" in names


def exchanged_by_hand(fields, dim, width, swapped=False):
    """One rank that is its own neighbour on both sides."""
    for field in fields:
        layers = np.moveaxis(field, dim, 0)
        low, high = layers[width : 2 * width].copy(), layers[-2 * width : -width].copy()
        layers[-width:], layers[:width] = (high, low) if swapped else (low, high)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 2])
def test_the_check_sees_what_is_wrong(dim, width):
    fields = [np.zeros((9, 10, 8)) for _ in range(2)]
    halo_cells = 2 * 2 * width * fields[0].size // fields[0].shape[dim]
    fill_faces(fields, dim, width, 0)
    assert wrong_cells(fields, dim, width, 0, 1) == halo_cells
    exchanged_by_hand(fields, dim, width)
    assert wrong_cells(fields, dim, width, 0, 1) == 0
    assert wrong_cells(fields, dim, width, 0, 2) == halo_cells  # another rank's values were due
    assert wrong_cells(fields, dim, width, 0, 2, periodic=False) == halo_cells // 2  # from the one above
    assert wrong_cells(fields, dim, width, 0, 1, periodic=False) == 0  # from nobody
    assert wrong_cells(fields[::-1], dim, width, 0, 1) == halo_cells
    np.moveaxis(fields[1], dim, 0)[-1].flat[3] += 1
    assert wrong_cells(fields, dim, width, 0, 1) == 1
    exchanged_by_hand(fields, dim, width, swapped=True)
    assert wrong_cells(fields, dim, width, 0, 1) == halo_cells
