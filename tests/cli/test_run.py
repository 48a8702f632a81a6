"""``python -m spmd_grid run``: an unmodified program on simulated ranks."""

import os
import re
import sys
from pathlib import Path

import pytest
from support.patience import at_growing_scales, run_in_time

from spmd_grid.cli.main import main

PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])


@pytest.fixture
def run(tmp_path):
    """``run(text, *args, n=, options=(), typed=)``: the finished process that ran the program ``text``."""

    def run(text, *args, n=4, options=(), name="app.py", typed=None, **more):
        program = tmp_path / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE_FOLDER, os.environ.get("PYTHONPATH", "")]), **more}
        command = [sys.executable, "-W", "error", "-m", "spmd_grid", "run", "-n", str(n), *options, program, *args]
        return run_in_time(command, input=typed, env=env, cwd=tmp_path, limit=60)

    return run


def lines(done):
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return sorted(done.stdout.splitlines())


HEAD = "import sys\nimport spmd_grid as sg\ngrid = sg.init_grid((-1,))\n"


def test_ranks_and_operations(run):
    done = run(HEAD + "print(grid.rank, sg.all_reduce(grid.rank, grid, [0], 'sum'))")
    assert lines(done) == ["0 6", "1 6", "2 6", "3 6"]


def test_arguments_and_name(run):
    done = run(
        "import sys\nif __name__ == '__main__':\n    print(sys.argv[1:], __file__ == sys.argv[0], __file__[-6:])",
        "-n",
        "7",
        "--seed",
        "x",
        "--help",
        n=1,
    )
    assert lines(done) == ["['-n', '7', '--seed', 'x', '--help'] True app.py"]


def test_every_rank_has_its_own_main(run):
    text = HEAD + (
        "import pickle, dataclasses, __main__\n"
        "mine = grid.rank\n"
        "@dataclasses.dataclass\n"
        "class Point:\n"
        "    x: 'int'\n"
        "    where: dataclasses.InitVar['int'] = 0\n"
        "def read():\n"
        "    global mine\n"
        "    mine += 10\n"
        "    return mine\n"
        "for _ in range(100):\n"
        "    sg.all_reduce(1, grid, [0], 'sum')\n"
        "    assert __main__.mine == mine == grid.rank and __main__.Point is Point\n"
        "again = pickle.loads(pickle.dumps(Point(grid.rank)))\n"
        "assert type(again) is Point and again == Point(grid.rank) and pickle.loads(pickle.dumps(read)) is read\n"
        "sg.all_reduce(1, grid, [0], 'sum')\n"
        "__main__.added = grid.rank\n"
        "sg.all_reduce(1, grid, [0], 'sum')\n"
        "assert added == grid.rank\n"
        "assert sys.modules['__main__'].__dict__ is globals() and read.__module__ == '__main__'\n"
        "print(read())\n"
    )
    assert lines(run(text)) == ["10", "11", "12", "13"]


def test_imports_come_from_the_folder_of_the_program(run, tmp_path):
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "helper_of_app.py").write_text("where = 'beside the program'\ncount = []\n")
    (tmp_path / "helper_of_app.py").write_text("where = 'in the current folder'\n")
    text = HEAD + (
        "import helper_of_app\n"
        "helper_of_app.count.append(1)\n"  # modules are shared, unlike __main__
        "sg.all_reduce(1, grid, [0], 'sum')\n"
        "print(helper_of_app.where, len(helper_of_app.count))\n"
    )
    assert lines(run(text, n=2)) == ["beside the program 2"] * 2


def test_output_comes_in_whole_lines(run):
    text = HEAD + "for i in range(300):\n    print('<', grid.rank, i, end=' ')\n    print('>')\n"
    assert lines(run(text)) == sorted(f"< {rank} {i} >" for rank in range(4) for i in range(300))
    assert run(HEAD + "print('end', end='')").stdout == "end" * 4
    shown = run(HEAD + "print('a', end='', flush=True); sys.stdout.write('b'); print(sys.stdout.isatty())", n=1)
    assert shown.stdout == "abFalse\n" and shown.returncode == 0


def test_labelled_lines(run):
    text = (
        "print('early', end=' ')\n" + HEAD + "for i in range(100):\n    print('<', i, end=' ')\n    print('>')\n"
        "print('two\\nlines', end='')\nprint('error', file=sys.stderr)\n"
    )
    done = run(text, n=3, options=["--label"])
    assert done.returncode == 0
    own = [[line for line in done.stdout.splitlines() if line.startswith(f"[{rank} ({rank},)] ")] for rank in range(3)]
    assert sum(map(len, own)) == len(done.stdout.splitlines()) == 3 * 102
    for rank, shown in enumerate(own):
        told = [line.partition("] ")[2] for line in shown]
        assert told == ["early < 0 >", *(f"< {i} >" for i in range(1, 100)), "two", "lines"]
        assert f"[{rank} ({rank},)] error\n" in done.stderr
    assert run("print('no grid')", n=1, options=["--label"]).stdout == "[0] no grid\n"


def test_a_breakpoint_in_one_rank(run):
    """The others wait where they need it; the prompt is whole, names the rank, and the program goes on."""
    text = HEAD + (
        "total = 0\n"
        "for i in range(3):\n"
        "    total += int(sg.all_reduce(grid.rank, grid, [0], 'sum'))\n"
        "    if grid.rank == 1 and i == 1:\n"
        "        breakpoint()\n"
        "    print('round', i, total)\n"
    )
    for options in ([], ["--seed", "3"]):
        done = run(text, n=3, options=options, typed="p total\nn\ntotal = 100\nc\n")
        assert done.returncode == 0 and done.stderr == ""
        prompts = [line for line in done.stdout.splitlines() if line.startswith("(Pdb rank 1 (1,)) ")]
        assert prompts[:2] == ["(Pdb rank 1 (1,)) 6", "(Pdb rank 1 (1,)) round 1 6"], done.stdout
        assert done.stdout.count("(Pdb rank 1 (1,)) ") == 4 and "-> print('round', i, total)" in done.stdout
        assert done.stdout.count("round 2 9") == 2 and done.stdout.count("round 2 103") == 1


@at_growing_scales(1, 5, 25)
def test_a_person_at_the_prompt_is_no_hang(run, scale):
    text = HEAD + "if grid.rank == 1:\n    breakpoint()\nprint(sg.all_reduce(1, grid, [0], 'sum'))"
    typed = f"p __import__('time').sleep({1.5 * scale})\nc\n"
    done = run(text, n=2, typed=typed, SPMD_GRID_TIMEOUT=f"{0.4 * scale}")
    assert done.returncode == 0 and done.stderr == "" and done.stdout.splitlines()[-1] == "2", done


def test_breakpoints_in_all_ranks(run):
    """One rank is at the prompt at a time, and what others print comes afterwards."""
    text = HEAD + "mine = 10 * grid.rank\nbreakpoint()\nprint('after', grid.rank)\n"
    done = run(text, n=3, typed="p mine\nc\n" * 3)
    assert done.returncode == 0 and sorted(re.findall(r"after \d", done.stdout)) == ["after 0", "after 1", "after 2"]
    for rank in range(3):
        assert f"(Pdb rank {rank} ({rank},)) {10 * rank}\n(Pdb rank {rank} ({rank},)) " in done.stdout


def test_a_trace(run, tmp_path):
    done = run(HEAD + "sg.all_reduce(1, grid, [0], 'sum')", options=["--trace", "out"])
    assert lines(done) == [] and {path.name for path in (tmp_path / "out").iterdir()} == {
        "trace.json",
        *(f"rank-{rank}.json" for rank in range(4)),
    }


@pytest.mark.parametrize("statement", ["import mpi4py", "from mpi4py import MPI", "import mpi4py.MPI"])
def test_mpi4py_is_refused(run, statement):
    done = run(statement, n=2)
    assert done.returncode == 1
    assert "SimulationError: this program imports mpi4py, but simulated ranks are threads" in done.stderr


def test_a_grid_made_by_an_import_is_refused(run, tmp_path):
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "grid_maker.py").write_text("import spmd_grid as sg\ngrid = sg.init_grid((-1,))\n")
    done = run("import grid_maker", n=2)
    assert done.returncode == 1
    assert "SimulationError: init_grid while a module is being imported" in done.stderr


def test_an_exception(run):
    done = run(HEAD + "def f():\n    1 / 0\nif grid.rank == 2:\n    f()\nsg.all_reduce(1, grid, [0], 'sum')")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr and "app.py" in done.stderr and "in f" in done.stderr
    assert done.stderr.rstrip().endswith("raised on simulated rank 2 (2,) of 4")
    assert "launch.py" not in done.stderr  # only the program's own calls


def test_a_syntax_error(run):
    done = run("this is no Python")
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "app.py" in done.stderr


@pytest.mark.parametrize(
    ("leave", "code", "report"),
    [
        ("sys.exit(3)", 3, "rank 1 of 4 called sys.exit(3)"),
        ("sys.exit('no input')", 1, "rank 1 of 4 called sys.exit('no input')"),
        ("sys.exit(0)", 1, "rank 1 of 4 called sys.exit(0) while rank"),
        ("sys.exit()", 1, "rank 1 of 4 called sys.exit() while rank"),
        ("pass", 1, "rank 1 of 4 returned from the program while rank"),
    ],
)
def test_early_ends(run, leave, code, report):
    done = run(HEAD + f"if grid.rank == 1:\n    {leave}\nelse:\n    sg.all_reduce(1, grid, [0], 'sum')")
    assert done.returncode == code and report in done.stderr, done.stderr


@pytest.mark.parametrize("leave", ["sys.exit(0)", "sys.exit()", "raise SystemExit", "pass"])
def test_ends_of_all_are_fine(run, leave):
    assert lines(run(HEAD + leave)) == []


def test_a_deadlock(run):
    done = run(HEAD + "sg.recv(grid, [0], [(grid.rank + 1) % 4])")
    assert done.returncode == 1 and "DeadlockError" in done.stderr
    assert "rank 2 waits in recv(grid_axes=[0], source=[3]) at app.py:4 for rank 3" in done.stderr


def test_the_seed_decides_the_order(run):
    text = HEAD + (
        "if grid.rank:\n"
        "    sg.send([grid.rank], grid, [0], [0])\n"
        "else:\n"
        "    print([int(sg.recv(grid, [0])[0]) for _ in range(grid.size - 1)])\n"
    )
    first, *others, again = (run(text, n=6, options=["--seed", str(seed)]).stdout for seed in (0, 1, 2, 3, 0))
    assert first == again and len({first, *others}) > 1


@pytest.mark.parametrize("program", ["import numba", "from numba.core import types", "import numba.typed"])
def test_ranks_that_all_import_numba_at_once(run, program):
    pytest.importorskip("numba")
    done = run(f"import sys\nsys.setswitchinterval(1e-5)\n{program}\nprint(numba.__name__ if 0 else 'fine')", n=8)
    assert lines(done) == ["fine"] * 8


def call(capsys, *words):
    """Exit code and output of the command, in this process."""
    try:
        code = main(list(words))
    except SystemExit as left:
        code = left.code
    return code or 0, *capsys.readouterr()


def test_command_line_errors(capsys):
    code, _, err = call(capsys, "run", "-n", "2", "no_such_file.py")
    assert code == 2 and "there is no file 'no_such_file.py'" in err
    for words in [(), ("run",), ("run", "x.py"), ("run", "-n", "0", "x.py"), ("run", "-n", "two", "x.py"), ("walk",)]:
        code, _, err = call(capsys, *words)
        assert code == 2 and "usage" in err, words
    for words in [("--help",), ("run", "--help")]:
        code, out, _ = call(capsys, *words)
        assert code == 0 and "simulated ranks" in out
