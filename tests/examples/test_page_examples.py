"""The pages of docs/ show what their examples print, and quote programs as they are."""

import importlib.util
from pathlib import Path

import pytest
from support.jobs import needs_mpich

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("page_examples", ROOT / "scripts" / "page_examples.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)

TUTORIAL = ROOT / "docs" / "tutorial.md"
STEPS = sorted((ROOT / "mpirun_examples" / "tutorial").glob("step_*.py"))
UNDER_MPI = [found for found in page.examples(TUTORIAL.read_text()) if found[0].startswith("mpiexec")]
needs_this_launcher = needs_mpich("others end jobs with messages that the pages do not show")
COMMANDS = [
    pytest.param(path, command, shown, id=command, marks=needs_this_launcher if "mpiexec" in command else ())
    for path in page.PAGES
    for command, shown in page.examples(path.read_text())
]


@pytest.mark.parametrize(("path", "command", "shown"), COMMANDS)
def test_prints_what_the_page_shows(path, command, shown):
    is_timed = path in page.TIMED_PAGES
    assert page.essence(page.run(command), is_timed) == page.essence(shown, is_timed)


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.name)
def test_quoted_programs_are_the_real_ones(path):
    for name, shown in page.programs(path.read_text()):
        assert shown == page.program_text(name), name


def test_the_tutorial_shows_every_step():
    shown = [name for name, _ in page.programs(TUTORIAL.read_text())]
    assert shown == [str(step.relative_to(ROOT)) for step in STEPS] and len(shown) == 10
    assert all(10 <= len(step.read_text().splitlines()) <= 45 for step in STEPS)


@pytest.mark.parametrize(("command", "shown"), UNDER_MPI)
def test_steps_under_mpi_print_the_same_on_simulated_ranks(command, shown):
    simulated = command.replace("mpiexec -n 4 python", "python -m spmd_grid run -n 4")
    assert simulated != command
    assert page.essence(page.run(simulated), is_timed=False) == page.essence(shown, is_timed=False)


def test_numbers_and_order_do_not_count_on_timed_pages():
    assert page.essence("a 1.5 s\nb 2") == page.essence("b 77\n\na 0.25 s")
    assert page.essence("a   1.5 s, 3") == page.essence("a 20 ms,  4")
    assert page.essence("a 1.5 s") != page.essence("b 1.5 s")


def test_any_circle_of_waiting_ranks_may_be_told():
    shown = "a, waits for rank 1\nb, waits for rank 0"
    assert page.essence("b, waits for rank 3\na, waits for rank 0\na, waits for rank 1") == page.essence(shown)
    assert page.essence("a, waits for rank 1") != page.essence(shown) != page.essence(f"{shown}\nb")


def test_numbers_count_on_other_pages():
    assert page.essence("a 1\nb", is_timed=False) == page.essence("b\na 1\n", is_timed=False)
    assert page.essence("a 1", is_timed=False) != page.essence("a 2", is_timed=False)


def test_a_page_is_rewritten_block_by_block():
    text = "x\n```console\n$ echo 1\nold\n```\ny\n```\nz\n```\n"
    assert page.rewritten(text, lambda command: f"ran {command}\n") == text.replace("old", "ran echo 1")
    assert page.rewritten(text, lambda command: "old\n", is_timed=False) == text
    assert page.examples(text) == [("echo 1", "old\n")]
    assert page.run("echo hello; echo no >&2; exit 3") == "hello\nno\n[exit 3]\n"


def test_a_changed_program_is_found_and_replaced():
    name = "mpirun_examples/tutorial/step_02_grid.py"
    text = f"```python\n# {name}\nimport numpy\n```\n"
    assert page.programs(text) == [(name, "import numpy\n")] != [(name, page.program_text(name))]
    assert page.programs(page.rewritten(text, page.run)) == [(name, page.program_text(name))]
    assert page.program_text(name).startswith("import spmd_grid as sg\n")
