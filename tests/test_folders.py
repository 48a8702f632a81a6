"""Files are short, folders hold few of them, and packages that list their contents list all of them."""

import ast
import re
from pathlib import Path

import spmd_grid

PACKAGE = Path(spmd_grid.__file__).parent
ROOT = PACKAGE.parent
MOST_LINES, MOST_FILES = 350, 15
_ENTRY = re.compile(r"([a-z]\w*)( +)\S")  # a name, spaces, and what it is


def python_files(folder: str) -> list[Path]:
    return [path for path in (ROOT / folder).rglob("*.py") if not any(part.startswith(".") for part in path.parts)]


def contents(package: Path) -> set[str]:
    """The modules and packages in a folder."""
    return {path.stem for path in package.glob("*.py")} - {"__init__"} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }


def listed(docstring: str) -> set[str]:
    """The names that the table of a docstring lists; none if it has no table."""
    for paragraph in docstring.split("\n\n")[1:]:
        lines = [line for line in paragraph.splitlines() if line[:1] != " "]  # not those that an entry goes on in
        entries = [match for line in lines if (match := _ENTRY.match(line))]
        if (
            len(lines) > 1
            and len(entries) == len(lines)
            and 2 * sum(len(entry[2]) > 1 for entry in entries) >= len(lines)
        ):
            return {entry[1] for entry in entries}
    return set()


def test_files_are_short():
    lengths = {path: len(path.read_text().splitlines()) for path in python_files("spmd_grid")}
    assert {path.relative_to(ROOT): n for path, n in lengths.items() if n > MOST_LINES} == {}


def test_folders_hold_few_files():
    counts: dict[str, int] = {}
    for path in python_files("spmd_grid") + python_files("tests"):
        folder = path.parent.relative_to(ROOT).as_posix()
        counts[folder] = counts.get(folder, 0) + 1
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_tables_of_contents_are_complete():
    wrong, n_tables = {}, 0
    for path in PACKAGE.rglob("__init__.py"):
        names = listed(ast.get_docstring(ast.parse(path.read_text())) or "")
        n_tables += bool(names)
        if names and names != contents(path.parent):
            wrong[path.parent.relative_to(PACKAGE)] = names ^ contents(path.parent)
    assert (wrong, n_tables > 20) == ({}, True)


def test_the_table_is_found():
    assert listed("A.\n\nboxes     boxes of cells\nlong_name that of a file") == {"boxes", "long_name"}
    assert listed("A.\n\nThis is only\na text.") == set()
