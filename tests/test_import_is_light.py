"""Importing the package, asking for help and planning load neither MPI nor numba, and take no time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE_FOLDER = str(Path(__file__).resolve().parents[1])


def python(*words):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE_FOLDER, os.environ.get("PYTHONPATH", "")])}
    env.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


LIGHT = {
    "import": "import spmd_grid",
    "every public name": "import spmd_grid as sg; [getattr(sg, name) for name in sg.__all__]",
    "geometry": (
        "import spmd_grid as sg\n"
        "grid = sg.Grid((1024, 1024), ranks=None)\n"
        "s = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 2, 2])\n"
        "s.shard_shape((5000, 7000), (3, 4)), s.shard_slices((5000, 7000), (1023, 0)), hash(s)"
    ),
    "a grid on simulated ranks": (
        "import spmd_grid as sg\nsg.run_spmd(lambda: sg.all_reduce(1, sg.init_grid((-1,)), [0], 'sum'), ranks=2)"
    ),
    "the command line": "import spmd_grid.cli.main",
}


@pytest.mark.parametrize("case", LIGHT)
def test_loads_neither_mpi_nor_numba(case):
    loaded = json.loads(python("-c", LIGHT[case] + "\nimport sys, json; print(json.dumps(list(sys.modules)))"))
    assert "spmd_grid.errors" in loaded
    heavy = {"mpi4py", "numba", "llvmlite", "matplotlib", "pytest", "spmd_grid.transport.mpi"}
    assert heavy.isdisjoint(loaded)


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_help_loads_neither(words):
    program = (
        "import sys\n"
        f"sys.argv = ['spmd_grid', *{words}]\n"
        "from spmd_grid.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as exit_:\n    assert not exit_.code\n"
        "assert {'mpi4py', 'numba'}.isdisjoint(sys.modules)\n"
    )
    assert "usage" in python("-c", program)


def test_the_check_can_fail():
    pytest.importorskip("numba")
    program = "import spmd_grid.kernels as k, sys; before = 'numba' in sys.modules; k.copy_boxes"
    assert python("-c", program + "; print(before, 'numba' in sys.modules)") == "False True\n"
