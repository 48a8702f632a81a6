"""Each example of a page runs alone, in a process that has loaded numpy only: no earlier example may have loaded more.

An example stands for itself and those statements before it that bind the names it reads.
"""

import ast
import json
import sys
from pathlib import Path

import pytest
from support.jobs import clean_environment
from support.patience import run_in_time

ROOT = Path(__file__).resolve().parents[2]
README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide.md"
COMPILED = "@numba.njit(nogil=True)\n"  # such loops run as Python: compiling them takes long

# The parent forks for each program, so numpy is loaded once; a child reports the first error of its ranks.
SERVER = """
import json, os, sys, traceback
import numpy
assert not any(name.startswith("spmd_grid") for name in sys.modules)
failed = 0
for title, text in json.load(open(sys.argv[1])):
    child = os.fork()
    if not child:
        status = 1
        try:
            import spmd_grid
            spmd_grid.run_spmd(lambda: exec(compile(text, title, "exec"), {}), ranks=2)
            status = 0
        except BaseException:
            print(title, traceback.format_exc(), sep="\\n", file=sys.stderr, flush=True)
        os._exit(status)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed > 0)
"""


def blocks_of(page):
    """The Python blocks of a page: for each the line of its fence, and its statements."""
    blocks, lines = [], page.read_text().replace(COMPILED, "\n").splitlines()
    at = 0
    while at < len(lines):
        if lines[at] == "```python":
            end = lines.index("```", at)
            blocks.append((at + 1, ast.parse("\n".join(lines[at + 1 : end])).body))
            at = end
        at += 1
    return blocks


def names_in(statement):
    """The names that a statement binds at the top, and those that it reads anywhere."""
    bound, read, parameters = set(), set(), set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            parameters.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
    if isinstance(statement, ast.FunctionDef):
        bound, parameters = {statement.name}, parameters | bound
    return bound, read - parameters


def alone(earlier, block):
    """The program of ``block`` with the least of the ``earlier`` statements."""
    kept, missing = [], set()
    for statement in reversed(block):
        bound, read = names_in(statement)
        missing = (missing - bound) | read
    for statement in reversed(earlier):
        bound, read = names_in(statement)
        if bound & missing:
            kept.append(statement)
            missing = (missing - bound) | read
    return ast.unparse(ast.Module([*kept[::-1], *block], []))


def programs(page):
    earlier, found = [], []
    for line, block in blocks_of(page):
        found.append((f"{page.name}:{line}", alone(earlier, block)))
        earlier += block
    return found


def finished(chosen, folder):
    file = folder / "programs.json"
    file.write_text(json.dumps(chosen))
    command = [sys.executable, "-c", SERVER, str(file)]
    return run_in_time(command, cwd=folder, env=clean_environment(PYTHONPATH=str(ROOT)), limit=300)


@pytest.mark.parametrize("page", [GUIDE, pytest.param(README, marks=pytest.mark.full)], ids=["guide.md", "README.md"])
def test_each_example_runs_alone(page, tmp_path):
    done = finished(programs(page), tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_example_that_needs_another_one_is_found(tmp_path):
    done = finished([("needy", "import sys; assert 'spmd_grid.fft' in sys.modules"), ("fine", "1 + 1")], tmp_path)
    assert done.returncode == 1 and "needy" in done.stderr and "fine" not in done.stderr


def test_least_statements():
    earlier = ast.parse("import a\nimport b as c\nx = c.f()\ny = a.g()\nx = 2\ndef h(): return y").body
    assert alone(earlier, ast.parse("z = h()\nprint(z, x)").body).splitlines()[:3] == [
        "import a",
        "y = a.g()",
        "x = 2",
    ]
