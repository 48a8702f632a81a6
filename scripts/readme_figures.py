"""Check that the figures of README.md and of pages in docs are those of docs/bench_*.json.

    python scripts/readme_figures.py            # prints the differences, and exits with 1 if there are any
    python scripts/readme_figures.py --write    # writes the figures into the pages

The JSON files are written by `python -m spmd_grid bench KIND --json docs/bench_KIND.json`.  On a page, figures are
enclosed in comments: tables in ``<!-- figures: KIND -->`` and ``<!-- end -->``, phrases with figures in
``<!-- figures: KIND, PHRASE -->`` and ``<!-- end -->``.  A table shows the rows whose names are in its first column on
the page.  The comment of a phrase must not begin a line: Markdown would take the rest of the line for HTML.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from difflib import ndiff
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from page_figures import BENCHES, Figures  # noqa: E402

from spmd_grid.bench.common.table import markdown_table  # noqa: E402

PAGES = ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "debugging.md", ROOT / "docs" / "links.md"
_ENCLOSED = re.compile(
    r"(?P<begin><!-- figures: (?P<kind>\w+)(?:, (?P<phrase>[\w ]+))? -->)(?P<shown>.*?)(?P<end><!-- end -->)", re.DOTALL
)


# -- figures on a page -----------------------------------------------------------------------------------------


def enclosed(page: str) -> list[tuple[str, str]]:
    """The opening comments on a page, each with the text that it encloses."""
    return [(match["begin"], match["shown"]) for match in _ENCLOSED.finditer(page)]


def rewritten(page: str, folder: Path = ROOT / "docs") -> str:
    """The page with the figures of the files in ``folder``.  Raises LookupError for figures that they lack."""
    shown_rows = {match["kind"]: _names(match["shown"]) for match in _ENCLOSED.finditer(page) if not match["phrase"]}

    def current(match: re.Match[str]) -> str:
        kind, phrase = match["kind"], match["phrase"]
        if kind not in BENCHES:
            raise LookupError(f"there is no bench {kind}: {match['begin']}")
        found = json.loads((folder / f"bench_{kind}.json").read_text())["rows"]
        rows: dict[str, list[Any]] = {}
        for each in found:
            rows.setdefault(each["row"], []).append(BENCHES[kind].row(each))
        if phrase is None:
            figures = _table(BENCHES[kind], rows, shown_rows[kind])
        elif phrase == "rows shown":
            figures = f"{len(shown_rows.get(kind, ()))} of the {len(rows)} rows"
        elif phrase in BENCHES[kind].phrases:
            figures = BENCHES[kind].phrases[phrase]([row for named in rows.values() for row in named])
        else:
            raise LookupError(f"bench {kind} has no such phrase: {match['begin']}")
        if not figures:
            raise LookupError(f"no row of bench {kind} has the figures of {match['begin']}")
        is_same = phrase is not None and figures.split() == match["shown"].split()  # lines may break anywhere
        return match["begin"] + (match["shown"] if is_same else figures) + match["end"]

    return _ENCLOSED.sub(current, page)


def differences(page: str, folder: Path = ROOT / "docs") -> list[str]:
    """The changes that ``rewritten`` makes, a line each: text of the page (-) and of the files (+)."""
    lines = []
    for (begin, shown), (_, current) in zip(enclosed(page), enclosed(rewritten(page, folder)), strict=True):
        changed = [line for line in ndiff(shown.strip().splitlines(), current.strip().splitlines()) if line[0] in "-+"]
        lines += [begin, *changed] if changed else []
    return lines


def _names(table: str) -> list[str]:
    """The first cells of the lines below the head."""
    return [line.split("|")[1].strip() for line in table.strip().splitlines()[2:]]


def _table(bench: Figures, rows: Mapping[str, Sequence[Any]], names: Sequence[str]) -> str:
    missing = [name for name in names if name not in rows]
    if missing:
        raise LookupError(f"no row is called {missing[0]!r}")
    lines_of = {name: bench.line(rows[name]) for name in names}
    cells = [[name, *(column.cell(lines_of[name]) for column in bench.columns)] for name in names]
    lines = markdown_table([bench.head, *(column.head for column in bench.columns)], cells)
    return "\n".join(["", *lines, ""])


# -- the command -----------------------------------------------------------------------------------------------


def main() -> int:
    is_wrong = False
    for page in PAGES:
        text = page.read_text()
        if "--write" in sys.argv[1:]:
            page.write_text(rewritten(text))
        elif lines := differences(text):
            is_wrong = True
            print(f"{page.relative_to(ROOT)} differs (-) from docs/bench_*.json (+):", *lines, sep="\n")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
