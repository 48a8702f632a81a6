"""Importing the package, asking for help and planning load neither MPI nor numba, and take no time."""

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


# One after the other in one process: what the first ones do not load, the last one may not have loaded either.
LIGHT = {
    "import": "import spmd_grid; import spmd_grid.errors",
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


HELP = """
sys.argv = ["spmd_grid", *{words}]
from spmd_grid.cli.main import main
try:
    main()
except SystemExit as exit_:
    assert not exit_.code
"""
LIGHT |= {" ".join(words): HELP.format(words=words) for words in (["--help"], ["run", "--help"])}
HEAVY = {"mpi4py", "numba", "llvmlite", "matplotlib", "pytest", "xdsl", "spmd_grid.dialect", "spmd_grid.transport.mpi"}


def test_loads_neither_mpi_nor_numba():
    program = "import sys\n" + "".join(
        f"{text}\nfound = {HEAVY} & set(sys.modules)\nassert not found, ({case!r}, found)\n"
        for case, text in LIGHT.items()
    )
    assert python("-c", program).count("usage: ") == 2


def test_the_check_can_fail():
    pytest.importorskip("numba")
    program = "import spmd_grid.kernels as k, sys; before = 'llvmlite' in sys.modules; k.copy_table"
    assert python("-c", program + "; print(before, 'llvmlite' in sys.modules)") == "False True\n"
