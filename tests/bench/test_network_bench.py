"""``bench network``: the fewest bytes that can cross, its table, and a row on processes of one node."""

import json
import os
import sys

import numpy as np
import pytest
from support.jobs import needs_mpiexec
from support.patience import run_in_time

from spmd_grid.bench.common.launch import python_path
from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.network.cases import HALO, OPERATION, RESHARDING, NetworkCase, all_cases, fewest_bytes, layouts
from spmd_grid.bench.network.halos import FUSED
from spmd_grid.bench.network.report import NetworkRow, calmer, summary, table
from spmd_grid.grid.device_grid import Grid

GRID = Grid((2, 2))


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_nothing_has_to_cross_on_one_node(case):
    assert fewest_bytes(case, [0] * 4, GRID) == 0
    assert fewest_bytes(case, [0, 0, 1, 1], GRID) > 0 or "of a row" in case.name


@pytest.mark.parametrize("case", [case for case in all_cases() if case.kind == RESHARDING], ids=lambda case: case.name)
@pytest.mark.parametrize("node_of", [(0, 0, 1, 1), (0, 1, 0, 1), (0, 0, 0, 1)])
def test_the_fewest_bytes_of_reshardings(case, node_of):
    before, after = layouts(case, GRID)
    cells = 0
    for node in set(node_of):
        held, needed = np.zeros(before.global_shape, bool), np.zeros(before.global_shape, bool)
        for rank in range(4):
            if node_of[rank] == node:
                held[before.core_box(GRID.multi_index(rank)).slices()] = True
                needed[after.core_box(GRID.multi_index(rank)).slices()] = True
        cells += np.count_nonzero(needed & ~held)
    assert fewest_bytes(case, node_of, GRID) == 8 * cells


def test_the_fewest_bytes_of_operations():
    found = {
        name: fewest_bytes(NetworkCase(OPERATION, name, 1024), [0, 0, 0, 1], GRID)
        for name in ("broadcast", "all_gather axis 0", "all_to_all 0 to 1", "gather", "shift", "all_reduce")
    }
    assert list(found.values()) == [1024, 4096, 6 * 256, 1024, 2048, 2048]
    assert fewest_bytes(NetworkCase(HALO, "2-d", 100), [0, 0, 1, 1], GRID) == 400
    assert fewest_bytes(NetworkCase(HALO, "2-d", 100), [0, 0, 0, 1], GRID) == 400


def test_rows_are_read_again():
    case = CaseOnLinks("slow", NetworkCase(HALO, "2-d", 128))
    row = NetworkRow(case, {"spmd_grid": 2e-3, "Allgather": 3e-3, FUSED: 5e-3}, {"spmd_grid": 512.0}, 512, 7)
    again = NetworkRow.from_dict(json.loads(json.dumps(row.to_dict())))
    assert again == row and again.over_best == pytest.approx(1.5) and again.by_hand == "Allgather"
    assert "slow: halo 2-d, 128 B" in table().line(again) and "1.50" in table().line(again)
    first, fused = summary([again])
    assert first.startswith("slow: as fast as the best by hand or faster in 1 of 1 rows, 1.5x as fast in 1")
    assert f"{FUSED} takes 5.00 ms" in fused


def test_the_calmer_of_two_measurements_is_that_of_the_shorter_times_of_all():
    case = CaseOnLinks("slow", NetworkCase(HALO, "2-d", 128))

    def measured(**seconds):
        return NetworkRow(case, seconds, {}, 512, 7)

    calm, busy, others = measured(ours=2.0, by_hand=1.5), measured(ours=2.1, by_hand=4.0), measured(ours=9.0)
    assert calmer(calm, busy) is calm and calmer(busy, calm) is calm  # whoever is ahead
    assert calmer(calm, others) is others
    slow_first, slow_last = measured(ours=2.0, by_hand=9.9), measured(ours=1.0, by_hand=11.0)
    assert calmer(slow_first, slow_last) is slow_last  # though both together took longer


@needs_mpiexec
@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ("resharding rows to all, 8", RESHARDING),
        pytest.param("all_reduce, 1 KiB", OPERATION, marks=pytest.mark.full),
        pytest.param("halo 2-d, 128", HALO, marks=pytest.mark.full),
    ],
)
def test_a_row(tmp_path, rows, kind):
    words = [
        "-m",
        "spmd_grid",
        "bench",
        "network",
        "-n2",
        "--rounds=1",
        f"--rows={rows}",
        f"--json={tmp_path}/figures.json",
    ]
    job = run_in_time([sys.executable, *words], env={**os.environ, "PYTHONPATH": python_path()}, limit=60)
    assert job.returncode == 0, job
    rows = [NetworkRow.from_dict(each) for each in json.loads((tmp_path / "figures.json").read_text())["rows"]]
    assert [row.case.case.kind for row in rows] == [kind]
    assert all(row.fewest == 0 and row.over_best > 0 for row in rows)
