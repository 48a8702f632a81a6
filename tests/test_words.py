"""Plain English: docstrings open with what a thing does or is, and certain phrases have plainer ones."""

import ast
from pathlib import Path

import pytest

import spmd_grid

PACKAGE = Path(spmd_grid.__file__).parent
ROOT = PACKAGE.parent
OUTSIDE = ["tests", "scripts", "mpirun_examples"]  # folders beside the package, whose docstrings are read too
FOLDERS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists())

# A docstring that opens with one of these leaves the reader to find the verb.
OPENINGS = {"What", "How", "Where", "Which", "Who", "When", "Why", "So", "Those", "That", "Everybody's"}
# Phrase: what to say instead.
PHRASES = {
    "so many": "a number",
    "as many as": "at most N, or N of them",
    "will not do": "is invalid",
    "in vain": "without an answer, or for ever",
    "with a word": "with a notice",
    "reckon": "compute, or plan",
    "wants and has": "each missing cell",
    "everybody": "all members, or all processes",
    "nobody": "no process, or no thread",
}
# Names that had many meanings.  The phrase "in place" has one.
NAMES = {
    "place": "position, member, address, call site, or what the function does",
    "places": "positions, members or addresses",
}


def wrong_words(text: str) -> list[str]:
    """The phrases of ``text`` that have plainer ones."""
    flat = " ".join(text.lower().split())
    return [f"{phrase!r}: say {plain}" for phrase, plain in PHRASES.items() if phrase in flat]


def wrong_docstrings(tree: ast.Module) -> list[str]:
    """The docstrings of ``tree`` that open with a word of OPENINGS."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            opening = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
            if opening and opening[0].strip("`,:;.") in OPENINGS:
                found.append(f"{getattr(node, 'name', 'module')}: {ast.get_docstring(node).splitlines()[0]}")
    return found


def wrong_names(tree: ast.Module) -> list[str]:
    """The names of ``tree`` that begin with, or are, a word of NAMES."""
    found = set()
    for node in ast.walk(tree):
        for name in (getattr(node, field, None) for field in ("id", "attr", "arg", "name")):
            words = name.strip("_").lower().split("_") if isinstance(name, str) else [""]
            if words[0] in NAMES or (words[-1] in NAMES and words[-2] != "in"):
                found.add(f"{name}: say {NAMES[words[0] if words[0] in NAMES else words[-1]]}")
    return sorted(found)


def sources(folder: str) -> list[Path]:
    return sorted(PACKAGE.glob("*.py")) if folder == "" else sorted((PACKAGE / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_docstrings_names_and_phrases(folder):
    wrong = {}
    for path in sources(folder):
        text = path.read_text()
        tree = ast.parse(text)
        wrong[path.name] = wrong_docstrings(tree) + wrong_names(tree) + wrong_words(text)
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("folder", OUTSIDE)
def test_docstrings_outside_the_package(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    wrong = {path.name: found for path in paths if (found := wrong_docstrings(ast.parse(path.read_text())))}
    assert paths and wrong == {}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")), ids=lambda path: path.name)
def test_phrases_of_pages(page):
    assert wrong_words(page.read_text()) == []


def test_the_check_can_fail():
    assert wrong_docstrings(ast.parse('def f():\n    """Which way it goes."""')) == ["f: Which way it goes."]
    assert wrong_names(ast.parse("def place_of(a, in_place):\n    a._place = 1")) == [
        f"{name}: say {NAMES['place']}" for name in ("_place", "place_of")
    ]
    assert wrong_words("At most so\nmany cells") == ["'so many': say a number"]
