"""Check that the examples on the pages of docs/ print what the pages show, and that quoted programs are the real ones.

    python scripts/page_examples.py [PAGE ...]             # exit code 1 where a page shows something else
    python scripts/page_examples.py --write [PAGE ...]     # put the real programs and their output into the pages

PAGE is a name such as tutorial.md; without one, all pages are checked.

A ``console`` block that begins with ``$`` is a command, run from the root of the checkout by a shell, and its output,
both streams.  The order of lines does not count: several ranks print at a time.  On pages of TIMED_PAGES neither do
numbers, lines of a traceback and the line at which a debugger stops: any of several ranks that fail alike may report
it.  Lines that the MPI launcher adds are dropped.

A ``python`` block whose first line is a comment with the path of a program shows that program without its docstring.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMED_PAGES = (ROOT / "docs" / "debugging.md",)
EXACT_PAGES = tuple(
    [ROOT / "docs" / f"{name}.md" for name in ("tutorial", "concepts", "programs", "storage", "dialect")]
)
PAGES = (*TIMED_PAGES, *EXACT_PAGES)
_COMMAND = re.compile(r"```console\n\$ (?P<command>.*?)\n(?P<shown>.*?)```", re.DOTALL)
_PROGRAM = re.compile(r"```python\n# (?P<path>mpirun_examples/\S+\.py)\n(?P<shown>.*?)```", re.DOTALL)
_SECONDS = 300  # far longer than any example takes, also beside other work
_LAUNCHER_VARIABLES = "PMI", "MPI", "OMPI", "PRTE", "HYDI", "HYDRA", "SPMD_GRID"
_PIECES = "PYTHONUNBUFFERED"  # print writes a line in pieces then, and those of several processes mix

# Messages of MPI libraries and their launchers when a job ends.
_LAUNCHERS = re.compile(r"^(Abort\(|\[mpiexec@|application called MPI_Abort|===|=   |prterun|MPI_ABORT)")


# -- commands and their output -----------------------------------------------------------------------------------


def run(command: str) -> str:
    """The output of a command, and its exit code unless that is 0."""
    env = {name: value for name, value in os.environ.items() if not name.startswith((*_LAUNCHER_VARIABLES, _PIECES))}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
    env["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        command,
        shell=True,
        executable="/bin/bash",
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    kept = [line.rstrip() for line in done.stdout.splitlines() if not _LAUNCHERS.match(line)]
    text = "\n".join(kept).strip("\n").replace(f"{ROOT}/", "")
    ends = "" if done.returncode == 0 else f"\n[exit {done.returncode}]"
    return f"{text}{ends}\n".lstrip("\n")


_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?( (us|ms|s|B|KiB|MiB)\b)?")


def essence(text: str, is_timed: bool = True) -> list[str]:
    """The lines that must be equal, in no order; of timed programs without numbers and their units.

    Where several circles of ranks wait for one another, one of them is told: lines of such ranks count once.
    """
    if not is_timed:
        return sorted(line.rstrip() for line in text.splitlines() if line.strip())
    told = [line for line in text.splitlines() if line.strip() and not line.startswith(("  File ", "    ", "-> "))]
    lines = [" ".join(_NUMBER.sub("#", line).split()) for line in told]
    waiting = {line for line in lines if line.endswith(", waits for rank #")}
    return sorted([*waiting, *(line for line in lines if line not in waiting)])


def examples(page: str) -> list[tuple[str, str]]:
    """Every command of the page, with the output that the page shows."""
    return [(match["command"], match["shown"]) for match in _COMMAND.finditer(page)]


# -- programs ----------------------------------------------------------------------------------------------------


def program_text(path: str) -> str:
    """A program of the repository, without its docstring."""
    source = (ROOT / path).read_text()
    first = ast.parse(source).body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    lines = source.splitlines()[first.end_lineno if is_docstring else 0 :]
    return "\n".join(lines).strip("\n") + "\n"


def programs(page: str) -> list[tuple[str, str]]:
    """Every program of the page: its path, and the text that the page shows."""
    return [(match["path"], match["shown"]) for match in _PROGRAM.finditer(page)]


# -- the command -------------------------------------------------------------------------------------------------


def rewritten(page: str, rerun: Callable[[str], str], is_timed: bool = True) -> str:
    """The page with every program as it is, and every output as ``rerun`` returns it.

    Unless the page is timed, an output that differs in the order of its lines only stays.
    """

    def command(match: re.Match) -> str:
        output = rerun(match["command"])
        is_same = not is_timed and essence(output, is_timed) == essence(match["shown"], is_timed)
        return f"```console\n$ {match['command']}\n{match['shown'] if is_same else output}```"

    def program(match: re.Match) -> str:
        return f"```python\n# {match['path']}\n{program_text(match['path'])}```"

    return _COMMAND.sub(command, _PROGRAM.sub(program, page))


def differences(path: Path) -> list[str]:
    """The programs and commands of a page that it shows otherwise than they are."""
    page, is_timed = path.read_text(), path in TIMED_PAGES
    wrong = [name for name, shown in programs(page) if shown != program_text(name)]
    return wrong + [
        command for command, shown in examples(page) if essence(run(command), is_timed) != essence(shown, is_timed)
    ]


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "--write"]
    chosen = [page for page in PAGES if page.name in names or not names]
    if unknown := set(names) - {page.name for page in chosen}:
        print(f"no such page: {', '.join(sorted(unknown))}; there are {', '.join(page.name for page in PAGES)}")
        return 2
    if "--write" in sys.argv[1:]:
        for page in chosen:
            page.write_text(rewritten(page.read_text(), run, page in TIMED_PAGES))
        return 0
    wrong = [f"{page.name} shows something else than: {what}" for page in chosen for what in differences(page)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
