"""Check that the pictures of docs/pictures are what the commands on the pages draw.

    python scripts/page_pictures.py            # exit code 1 where a picture is missing, stale or not on a page
    python scripts/page_pictures.py --write    # draw all of them again

The commands are the lines ``python -m spmd_grid show ... --svg docs/pictures/NAME.svg`` of docs/*.md.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spmd_grid.cli.main import main as spmd_grid  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
_COMMAND = re.compile(
    r"^python -m spmd_grid (?P<options>show .*) --svg docs/pictures/(?P<name>\S+\.svg)$", re.MULTILINE
)


def commands() -> dict[str, str]:
    """The options of ``spmd_grid`` that draw each picture, by its file name."""
    pages = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))]
    return {match["name"]: match["options"] for page in pages for match in _COMMAND.finditer(page)}


def drawn(options: str) -> str:
    """The picture that a command draws."""
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        file = Path(folder, "picture.svg")
        if spmd_grid([*shlex.split(options), "--svg", str(file)]):
            raise ValueError(f"the command fails: spmd_grid {options}")
        return file.read_text(encoding="utf-8")


def differences() -> list[str]:
    """The pictures that are missing, stale, or drawn by no page."""
    due = commands()
    found = {file.name: file.read_text(encoding="utf-8") for file in PICTURES.iterdir()}
    stale = [f"{name} is not what its page draws" for name, options in due.items() if found.get(name) != drawn(options)]
    return stale + [f"{name} is drawn by no page" for name in sorted(found.keys() - due.keys())]


def main() -> int:
    if "--write" in sys.argv[1:]:
        PICTURES.mkdir(exist_ok=True)
        for name, options in commands().items():
            (PICTURES / name).write_text(drawn(options), encoding="utf-8")
        return 0
    wrong = differences()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
