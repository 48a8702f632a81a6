"""Simulated ranks: what they may import, and that modules arrive complete."""

import sys
import time

import pytest
from simulated_runs import world

import spmd_grid as sg
from spmd_grid.errors import SimulationError


def test_mpi4py_is_refused_by_ranks_only(tmp_path):
    def statement():
        import mpi4py  # noqa: F401

    def function():
        import importlib

        importlib.import_module("mpi4py.util.pkl5")

    for body in (statement, function):
        with pytest.raises(SimulationError, match="imports mpi4py, but simulated ranks are threads"):
            sg.run_spmd(body, ranks=2)
    mpi4py = pytest.importorskip("mpi4py")  # and so it is loaded already
    with pytest.raises(SimulationError, match="imports mpi4py, but simulated ranks are threads"):
        sg.run_spmd(statement, ranks=2)
    statement()
    assert mpi4py


def test_programs_that_can_do_without_mpi4py_go_on():
    def body():
        try:
            from mpi4py import MPI  # noqa: F401
        except ImportError:
            return "without"

    assert sg.run_spmd(body, ranks=2) == ["without"] * 2


def test_no_grid_while_a_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "makes_a_grid.py").write_text("import spmd_grid as sg\ngrid = sg.init_grid((-1,))\n")
    monkeypatch.syspath_prepend(tmp_path)

    def body():
        import makes_a_grid  # noqa: F401

    with pytest.raises(SimulationError, match="init_grid while a module is being imported"):
        sg.run_spmd(body, ranks=2)
    assert "makes_a_grid" not in sys.modules


def test_modules_that_import_one_another_arrive_complete(tmp_path, monkeypatch):
    """Python would hand out ``circle.inner.types`` half made, when two threads enter the circle at two points."""
    (tmp_path / "circle" / "inner").mkdir(parents=True)
    (tmp_path / "circle" / "__init__.py").write_text(
        "import time; time.sleep(0.3)\nfrom circle.inner import types\nlast = 1\n"
    )
    (tmp_path / "circle" / "inner" / "__init__.py").write_text("from circle.inner import types\n")
    (tmp_path / "circle" / "inner" / "types.py").write_text("import circle, time; time.sleep(0.1)\nlast = 2\n")
    monkeypatch.syspath_prepend(tmp_path)

    def body():
        import importlib

        rank = world().rank
        time.sleep(0.06 * rank)
        if rank % 2 == 0:
            import circle

            return circle.last, circle.inner.types.last
        types = importlib.import_module("circle.inner.types")
        return sys.modules["circle"].last, types.last

    try:
        assert sg.run_spmd(body, ranks=8) == [(1, 2)] * 8
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "circle"]:
            del sys.modules[name]
