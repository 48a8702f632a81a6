"""The examples in the docstrings of the pure geometry, and its promise to need neither numba nor MPI."""

import doctest
import importlib
import subprocess
import sys

import pytest

MODULES = ["box", "blocks", "device_grid", "groups", "sharding", "layout"]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"spmd_grid.grid.{module}"))
    assert result.attempted and not result.failed


def test_imports_neither_numba_nor_mpi():
    program = f"import sys, importlib\nfor m in {MODULES}: importlib.import_module('spmd_grid.grid.' + m)\n"
    program += "assert not {'numba', 'mpi4py'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
