"""Loading of numba, late and once, also when many threads and processes ask for a kernel at once."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.patience import communicate

ROOT = Path(__file__).parents[2]

LAZY = """
import sys
import numpy as np
from spmd_grid import kernels
kernels.fold("sum", np.ones((3, 5)), np.empty(5))
kernels.build_table([kernels.box_row((5,), 8, (8,), 0, (8,), 0)])
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
first = kernels.copy_table
assert "llvmlite" in sys.modules and vars(kernels)["copy_table"] is first
"""

MANY_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import numpy as np
from spmd_grid import kernels

barrier = Barrier(8)

def work(i):
    source, target = np.arange(60.0).reshape(6, 10) + i, np.zeros((10, 6))
    stack, out = np.arange(80000.0).reshape(4, 20000) + i, np.empty(20000)
    table = kernels.build_table([kernels.box_row((10, 6), 8, source.T.strides, 0, target.strides, 0)])
    barrier.wait()
    if i % 2:
        kernels.fold("sum", stack, out)
    if sys.argv[1] == "copy":
        kernels.copy_boxes(table, kernels.address_of(source), kernels.address_of(target))
        assert (target == source.T).all()
    else:
        largest = np.empty(20000)
        kernels.fold("max", stack, largest)
        assert (largest == stack[-1]).all()
    if not i % 2:
        kernels.fold("sum", stack, out)
    assert (out == stack.sum(axis=0)).all()

with ThreadPoolExecutor(8) as pool:
    list(pool.map(work, range(8)))
"""


def start(program, *args, **environment):
    command = [sys.executable, "-W", "error", "-c", program, *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, text=True, **pipes)


def finish(process):
    _, errors = communicate(process, limit=120)
    assert process.returncode == 0, errors


def test_import_loads_no_numba():
    with start(LAZY) as process:
        finish(process)


@pytest.mark.parametrize("beside", ["another fold", pytest.param("copy", marks=pytest.mark.full)])
def test_first_use_by_threads_of_processes_with_an_empty_cache(tmp_path, beside):
    """Of folds, beside others, which compile within a second, and beside copies, which take ten."""
    with (
        start(MANY_THREADS, beside, NUMBA_CACHE_DIR=str(tmp_path)) as one,
        start(MANY_THREADS, beside, NUMBA_CACHE_DIR=str(tmp_path)) as two,
    ):
        finish(one)
        finish(two)
    assert list(tmp_path.rglob("*.code")) and not list(tmp_path.rglob("*.part"))


KEPT = """
import sys
import numpy as np
from spmd_grid import kernels
from spmd_grid.kernels.reduce.variants import fold_rows

if sys.argv[1] == "copy":
    source, target = np.arange(60.0).reshape(6, 10), np.zeros((10, 6))
    table = kernels.build_table([kernels.box_row((10, 6), 8, source.T.strides, 0, target.strides, 0)])
    kernels.copy_boxes(table, kernels.address_of(source), kernels.address_of(target))
    assert (target == source.T).all()
rows, total = np.arange(40.0).reshape(5, 8), np.zeros(8)
addresses = np.array([kernels.address_of(row) for row in rows])
fold_rows("sum", rows.dtype, addresses, 8, kernels.address_of(total), 0)
assert (total == rows.sum(0)).all()
print("numba" in sys.modules)
"""


@pytest.mark.parametrize("name", ["fold", pytest.param("copy", marks=pytest.mark.full)])  # ten times as long
def test_kept_machine_code_runs_without_numba_and_damaged_code_is_compiled(tmp_path, name):
    def compiles():
        with start(KEPT, name, NUMBA_CACHE_DIR=str(tmp_path)) as process:
            text, errors = communicate(process, limit=120)
        assert process.returncode == 0, errors
        return text == "True\n"

    assert compiles() and not compiles()
    code = min(tmp_path.rglob("copy.boxes.copy_table-*.code" if name == "copy" else "*.code"))
    whole = code.read_bytes()
    code.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    assert compiles() and not compiles()


OF_ONE_NAME = """
import sys
import numpy as np
from spmd_grid import kernels

for name in sys.argv[1].split():
    ufunc, x, out = getattr(np, name), np.arange(1.0, 6.0), np.zeros(5)
    kernels.arithmetic(ufunc, "blocks")(x, x + 1, out)
    assert (out == ufunc(x, x + 1)).all(), name
print("numba" in sys.modules)
"""


def test_kept_functions_of_several_processes_do_not_stand_for_one_another(tmp_path):
    """Each process gives the functions within its kernel the same symbols."""

    def compiles(names):
        with start(OF_ONE_NAME, names, NUMBA_CACHE_DIR=str(tmp_path)) as process:
            text, errors = communicate(process, limit=120)
        assert process.returncode == 0, errors
        return text == "True\n"

    assert compiles("add") and compiles("subtract") and not compiles("add subtract")


def test_only_whole_files_of_machine_code_are_read(tmp_path, monkeypatch):
    from spmd_grid.kernels import machine_code

    monkeypatch.setattr(machine_code, "_folders", lambda: ((tmp_path / "not yet there", 0o700),))
    kept = machine_code.MachineCode("f", ["memcpy"], b"code")
    assert machine_code.keep("of a test", kept)
    (path,) = tmp_path.rglob("*.code")
    whole = path.read_bytes()
    assert machine_code._read(path.parent, path.name) == kept
    for damaged in (b"", whole[:10], whole[:-1], whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]):
        path.write_bytes(damaged)
        assert machine_code._read(path.parent, path.name) is None, damaged
    for head in (b"{}", b'["f"]', b'[1, ["memcpy"]]', b'["f", [1]]', b'["f", "memcpy"]', b"\xff", b"[" * 100_000):
        path.write_bytes(machine_code._digest(head + b"\ncode") + head + b"\ncode")  # whole, and of another version
        assert machine_code._read(path.parent, path.name) is None, head[:20]
    path.unlink()
    path.mkdir()  # neither read nor written
    assert machine_code._read(path.parent, path.name) is None and not machine_code.keep("of a test", kept)


HALO = """
import sys
import spmd_grid as sg

def body():
    grid = sg.init_grid((2,))
    rows = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    u = sg.zeros((6,), rows, grid)
    sg.HaloExchange(grid, rows, (6,), "f8").update(u)
    return "numba" in sys.modules

print(sg.run_spmd(body, ranks=2)[0])
"""


def test_halo_plans_load_no_numba_unless_compiled_code_takes_them():
    """The first process may have to compile a kernel."""
    for _ in range(2):
        with start(HALO) as process:
            text, errors = communicate(process, limit=120)
        assert process.returncode == 0, errors
    assert text == "False\n"


def test_code_that_needs_what_a_process_lacks_is_not_linked():
    from spmd_grid.kernels import machine_code

    code = machine_code.MachineCode("f", ["no_such_function_anywhere"], b"")
    assert machine_code._link(code) == 0


def test_where_nothing_can_be_cached_kernels_compile_all_the_same():
    from spmd_grid.kernels.compiled import kernel

    namespace = {}
    exec("def twice(x):\n    x[0] *= 2\n", namespace)
    x = np.array([21])
    kernel("void(int64[::1])")(namespace["twice"])(x)
    assert x[0] == 42
