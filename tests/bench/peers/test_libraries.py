"""The libraries that reshardings are measured against: right where they are installed, named where they are not."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_job

from spmd_grid.bench.common.launch import set_by_launcher
from spmd_grid.bench.common.rows import RESHARD_LIBRARIES, Figure
from spmd_grid.bench.common.timing import Alone
from spmd_grid.bench.libraries import library, own_process
from spmd_grid.bench.libraries.installed import Libraries
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.libraries import RESHARD_LIBRARY_TYPES, jax, jax_process

JOB = Path(__file__).with_name("libraries_job.py")
CASE = ReshardCase((4, 4), 0, 1)


class One(Alone):
    rank, size = 0, 1

    def bcast(self, value):
        return value


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_library_gets_every_cell_right(ranks):
    job = run_job("mpiexec", ranks, JOB)
    assert job.code == 0, job
    lines = job.out.splitlines()
    for kind in RESHARD_LIBRARY_TYPES:
        if find_spec(kind.package) is None:
            words = (
                f"skipped: {kind.name}: {kind.distribution} is not installed (pip install 'spmd-grid[{kind.extra}]')"
            )
            assert words in lines
        else:
            right = [line for line in lines if f": {kind.name} " in line and line.endswith(" is right")]
            assert len({line.split(":")[0] for line in right}) >= 4, job
            assert any(line.startswith(f"installed: {kind.name} ") for line in lines)


def test_names():
    assert tuple(kind.name for kind in RESHARD_LIBRARY_TYPES) == RESHARD_LIBRARIES


class Fake(library.PeerLibrary):
    name, package, distribution = "heat", "numpy", "numpy"

    def load(self):
        raise OSError("libfake.so is missing")


def test_the_reason_why_one_is_left_out(monkeypatch):
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    found = Libraries(One(), ["heat", "JAX"], RESHARD_LIBRARY_TYPES)
    assert found.skipped == {
        "heat": "heat is not installed (pip install 'spmd-grid[bench]')",
        "JAX": "jax is not installed (pip install 'spmd-grid[bench]')",
    }
    monkeypatch.undo()
    found = Libraries(One(), ["heat"], [Fake])
    assert found.skipped == {"heat": "numpy cannot be loaded (OSError: libfake.so is missing)"}
    assert Libraries(One(), [], [Fake]).skipped == {} == found.versions


def test_one_that_another_rank_lacks(monkeypatch):
    class Two(One):
        def allgather(self, value):
            return [value, "heat is not installed there"]

    found = Libraries(Two(), ["heat"], RESHARD_LIBRARY_TYPES)
    assert list(found.skipped) == ["heat"] and not found.present


class Loaded(Fake):
    opened = 0

    def load(self):
        pass

    def own_figures(self, case, rounds, at_most_seconds):
        if case.shape[0] % 2:
            raise library.DeclinedError("it likes even numbers only")
        return {"heat way": Figure(1.0, 1.0, 1.0, 1.0, 1)}


def test_declining(monkeypatch):
    found, skipped = Libraries(One(), ["heat"], [Loaded]), {}
    assert found.versions == {"heat": np.__version__}
    assert list(found.own_figures(CASE, 1, 1.0, skipped)) == ["heat way"] and not skipped
    assert found.own_figures(ReshardCase((5, 4), 0, 1), 1, 1.0, skipped) == {}
    assert skipped == {"heat": "it likes even numbers only"}
    assert found.own_figures(CASE, 1, 1.0, skipped) == {}  # who has declined a row is not asked again
    monkeypatch.setattr(library, "free_bytes", lambda: 100)
    few = {}
    assert found.own_figures(CASE, 1, 1.0, few) == {} and few["heat"].startswith("needs 0 GiB of memory")


def test_jax_declines_what_it_cannot_cut(monkeypatch):
    monkeypatch.setattr(jax_process, "_devices", lambda: [0, 1])
    assert "2 devices do not divide 7" in jax_process.answer([4, 7], 0, 1, 1, 1.0)["declined"]


def test_a_process_that_ends(monkeypatch):
    monkeypatch.setattr(own_process, "wait_asleep", lambda comm: None)
    monkeypatch.setattr(own_process.sys, "executable", "/bin/false")
    opened = jax.Jax(One())
    with pytest.raises(RuntimeError, match="did not start"):
        opened.load()
    assert opened.process is None  # and nothing is left behind
    monkeypatch.setattr(opened, "_ask", lambda question: {})
    with pytest.raises(RuntimeError, match="its process has ended"):
        opened.own_figures(CASE, 1, 1.0)
    opened.close()


def test_what_the_process_must_not_hear():
    assert set_by_launcher("PMI_RANK") and set_by_launcher("OMPI_COMM_WORLD_SIZE") and not set_by_launcher("PATH")
