"""The table of environment variables on the page about clusters is of those that the package reads."""

import ast
import re
from pathlib import Path

import spmd_grid

PACKAGE = Path(spmd_grid.__file__).parent
PAGE = PACKAGE.parent / "docs" / "cluster.md"
OURS = re.compile(r"(SPMD_GRID|NUMBA|XDG)_[A-Z_]+")


def test_the_page_has_a_row_for_each_variable_that_is_read():
    texts = (
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    read = {text for text in texts if OURS.fullmatch(text)}
    section = PAGE.read_text().partition("## Environment variables")[2]
    told = re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE)
    assert sorted(read) == sorted(told)
    assert "SPMD_GRID_TIMEOUT" in read and "NUMBA_CACHE_DIR" in read
