"""The Python code on the pages runs; the README is short; links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.jobs import clean_environment, mpi_command, needs_mpiexec
from support.patience import run_in_time

ROOT = Path(__file__).resolve().parents[2]
README, GUIDE, CLUSTER = ROOT / "README.md", ROOT / "docs" / "guide.md", ROOT / "docs" / "cluster.md"
MARKDOWN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def code_of(page: Path) -> str:
    """The Python blocks of a page as one program, with line numbers of the page."""
    lines, is_code = [], False
    for line in page.read_text().splitlines():
        fence = line.startswith("```")
        lines.append(line if is_code and not fence else "")
        is_code = line == "```python" if fence else is_code
    return "\n".join(lines) + "\n"


def finished(command: list, environment: dict) -> subprocess.CompletedProcess:
    return run_in_time([str(word) for word in command], cwd=ROOT, env=clean_environment(**environment), limit=300)


def anchors(page: Path) -> set[str]:
    """The names by which links reach the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links of ``text``, which belongs to ``page``, that lead to no file or to no heading."""
    broken = []
    for link in _LINK.findall(_FENCED.sub("", text)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        is_outside = re.match(r"\w+:", link)
        if not is_outside and (not target.exists() or (anchor and anchor not in anchors(target))):
            broken.append(link)
    return broken


@pytest.mark.parametrize(
    ("page", "ranks", "compiles"),
    [
        pytest.param(README, 4, True, id="README.md"),
        pytest.param(GUIDE, 2, False, id="guide.md"),
        pytest.param(GUIDE, 2, True, id="guide.md compiled", marks=pytest.mark.full),
    ],
)
def test_code_runs_on_simulated_ranks(page, ranks, compiles, tmp_path):
    """The guide's compiled loops run as Python by default: they compile for long, and example programs have such."""
    program = tmp_path / "app.py"
    code = code_of(page)
    program.write_text(code if compiles else code.replace("@numba.njit(nogil=True)\n", "\n"))
    done = finished([sys.executable, "-m", "spmd_grid", "run", "-n", ranks, program], {})
    assert done.returncode == 0, done.stderr
    if page == README:
        assert done.stdout.count("holds (500, 500) of (1000, 999)") == 2


@needs_mpiexec
def test_the_readme_runs_under_mpi(tmp_path):
    program = tmp_path / "app.py"
    program.write_text(code_of(README))
    words, root = mpi_command()
    done = finished([*words, "-n", 4, sys.executable, program], root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("holds (500, 500) of (1000, 999)") == 2


def test_readme_is_short():
    lines = README.read_text().splitlines()
    (first,) = re.findall(r"```python\n(import.*?)```", README.read_text(), re.DOTALL)
    assert len(lines) <= 150
    assert len([line for line in first.splitlines() if line and not line.startswith("import")]) <= 10


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    assert broken_links(page, page.read_text()) == []


def test_broken_links_are_found():
    text = "[a](no_such_page.md), [b](guide.md#no-such-heading), [c](guide.md#halos), [d](https://x.org), [e](#halos)"
    assert broken_links(GUIDE, text) == ["no_such_page.md", "guide.md#no-such-heading"]


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: path.name)
def test_files_that_pages_name_exist(page):
    text = re.sub(r"```console.*?```", "", page.read_text(), flags=re.DOTALL)
    names = re.findall(r"(?<![\w/.])((?:[\w-]+/)+[\w-]+\.(?:py|md|json|svg|png))\b", text)
    folders = ROOT, ROOT / "spmd_grid", page.parent
    assert [name for name in names if not any((folder / name).exists() for folder in folders)] == []


def test_all_environment_variables_are_listed():
    package = "".join(path.read_text() for path in (ROOT / "spmd_grid").rglob("*.py"))
    listed = re.findall(r"^\| `(SPMD_GRID_\w+)` \|", CLUSTER.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(set(re.findall(r"\bSPMD_GRID_[A-Z_]*[A-Z]\b", package)))


def test_the_checks_of_doctor_are_those_it_makes():
    doctor = "".join(path.read_text() for path in (ROOT / "spmd_grid" / "cli" / "doctor").rglob("*.py"))
    table = CLUSTER.read_text().split("| check |")[1].split("\n\n")[0]
    names = [name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(names) > 15 and [name for name in names if f'"{name}"' not in doctor] == []
