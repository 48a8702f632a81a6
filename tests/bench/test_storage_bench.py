"""The benchmark of storage: right contenders, honest verdicts, and a row in full."""

import json
import sys

import numpy as np
import pytest
from support.jobs import clean_environment, needs_mpiexec
from support.patience import run_in_time

import spmd_grid as sg
from spmd_grid.bench.common.rows import OURS, STORAGE_LIBRARIES, Figure
from spmd_grid.bench.storage.by_hand import drop_from_memory, files_in, fsync_all, read_raw, write_raw
from spmd_grid.bench.storage.cases import Sized, StorageCase, all_cases, cells_of, quick_cases
from spmd_grid.bench.storage.contenders import LIBRARY_WAYS
from spmd_grid.bench.storage.report import NO_CHECKSUMS, RAW, RowFigures, summary, table
from spmd_grid.grid.box import Box
from spmd_grid.numerals import byte_count

LARGE, SMALL = StorageCase("save", "rows", 1 << 31), StorageCase("load", "columns", 1 << 20)


def row(case=LARGE, ours=1e6, raw=0.95e6, plain=0.98e6, zarr=2e6, disturbed=False):
    us = {OURS: ours, RAW: raw, NO_CHECKSUMS: plain, "zarr": zarr}
    figures = {name: Figure(value, 0.9 * value, 1.1 * value, value, 1) for name, value in us.items()}
    return RowFigures(case, figures, {}, 7, disturbed=disturbed, skipped={"DCP": "torch is not installed"})


def test_the_cases():
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases) == 9
    assert [case.name for case in Sized(1 << 24).all_cases()] == [case.name for case in quick_cases()]
    assert LARGE.name == "save 2 GiB, rows" and LARGE.shape == (1 << 17, 1 << 11)
    assert LARGE.layout(sg.Grid((2,))).core_box((1,)) == Box((1 << 16, 0), (1 << 17, 1 << 11))
    assert SMALL.layout(sg.Grid((2,))).core_box((1,)) == Box((0, 1 << 10), (64, 1 << 11))
    assert tuple(way.name for way in LIBRARY_WAYS) == STORAGE_LIBRARIES


def test_cells_are_parts_of_one_array():
    whole = cells_of(Box((0, 0), (6, 2048)))
    assert np.array_equal(cells_of(Box((3, 5), (6, 9))), whole[3:, 5:9]) and len(np.unique(whole)) == whole.size


def test_plain_system_calls(tmp_path):
    path, sent = tmp_path / "folder" / "raw", np.arange(5.0).reshape(1, 5)
    path.parent.mkdir()
    write_raw(path, sent)
    received = np.zeros((1, 5))
    fsync_all(tmp_path)
    drop_from_memory(tmp_path)
    read_raw(path, received)
    assert np.array_equal(sent, received) and path.stat().st_size == 40
    assert list(files_in(tmp_path)) == [path] == list(files_in(path)) and not list(files_in(tmp_path / "none"))
    with pytest.raises(EOFError, match="ends after 40 of 48 bytes"):
        read_raw(path, np.zeros(6))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([row(raw=0.91e6)], ["met", "met", "met"]),
        ([row(raw=0.89e6)], ["missed", "met", "met"]),
        ([row(plain=0.9e6)], ["met", "missed", "met"]),
        ([row(zarr=0.9e6)], ["met", "met", "missed"]),
        ([row(SMALL, raw=0.1e6)], ["not", "not", "met"]),
    ],
)
def test_verdicts(found, words):
    lines = summary(found)
    assert lines[0] == "DCP skipped in 1 of 1 rows: torch is not installed"
    assert [line.split()[0] for line in lines[1:]] == words


def test_the_table():
    head, line = table(["zarr"]).head(), table(["zarr"]).line(row())
    for column, cell in {"MiB/s": "2,048", RAW: "950 ms", "zarr": "2.00 s", "checksums": "1.02"}.items():
        end = head.index(f"  {column}") + len(column) + 2
        assert line[:end].endswith(cell), (column, line)
    assert summary([row(disturbed=True)])[0].startswith("WARNING: other work on the machine disturbed 1 of 1")


def test_figures_are_read_again():
    written = json.loads(json.dumps(row().to_dict()))
    assert written["mib_per_second"] == 2048 and written["best_peer"] == RAW
    again = RowFigures.from_dict(StorageCase, written)
    assert again.case == LARGE and json.loads(json.dumps(again.to_dict())) == written


@pytest.mark.parametrize(("text", "number"), [("16MiB", 1 << 24), ("2 gib", 1 << 31), ("1.5kb", 1500), ("7", 7)])
def test_sizes(text, number):
    assert byte_count(text) == number


@needs_mpiexec
def test_rows_on_mpi(tmp_path):
    figures = tmp_path / "figures.json"
    words = ["--size", "1MiB", "--rows", "columns", "--rounds", "1", "--folder", tmp_path, "--json", figures]
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "spmd_grid",
        "bench",
        "storage",
        *words,
        "--peers",
        "numpy,h5py,zarr",
    ]
    done = run_in_time([str(word) for word in command], env=clean_environment(), limit=120)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    rows = json.loads(figures.read_text())["rows"]
    assert [each["row"] for each in rows] == ["save 1 MiB, columns", "load 1 MiB, columns"]
    for each in rows:
        assert {OURS, RAW, "numpy"} <= set(each["contenders"])
        assert all(figure["raw"] > 0 for figure in each["contenders"].values())
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
