"""Run the examples of docs/debugging.md again, and compare their output with the page.

    python scripts/debugging_page.py            # exits with 1 if the output of an example differs
    python scripts/debugging_page.py --write    # writes the output into the page

Every block that begins with ``$`` holds a command, which a shell runs from the root of the checkout, and its output on
both streams.  Numbers, the order of lines, the lines of a traceback and the location of a debugger may differ: of
several ranks that fail alike, any may print the report.  Output of the launcher is removed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "debugging.md"
_BLOCK = re.compile(r"```console\n\$ (?P<command>.*?)\n(?P<shown>.*?)```", re.DOTALL)
_SECONDS = 60
_LAUNCHER_VARIABLES = "PMI", "MPI", "OMPI", "PRTE", "HYDI", "HYDRA", "SPMD_GRID"

# Lines that MPI libraries and their launchers print when a job ends.
_LAUNCHERS = re.compile(r"^(Abort\(|\[mpiexec@|application called MPI_Abort|===|=   |prterun|MPI_ABORT)")


def run(command: str) -> str:
    """The output of a command, and its exit code unless it is 0."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHER_VARIABLES)}
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


def essence(text: str) -> list[str]:
    """The lines that must be equal: without numbers and their units, sorted."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("  File ", "    ", "-> "))]
    return sorted(" ".join(_NUMBER.sub("#", line).split()) for line in lines)


def rewritten(page: str, rerun: Callable[[str], str]) -> str:
    """The page, with the output of every command as ``rerun`` returns it."""

    def block(match: re.Match[str]) -> str:
        return f"```console\n$ {match['command']}\n{rerun(match['command'])}```"

    return _BLOCK.sub(block, page)


def examples(page: str) -> list[tuple[str, str]]:
    """Every command of the page, with its output on the page."""
    return [(match["command"], match["shown"]) for match in _BLOCK.finditer(page)]


def main() -> int:
    page = PAGE.read_text()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(rewritten(page, run))
        return 0
    differing = [command for command, shown in examples(page) if essence(run(command)) != essence(shown)]
    for command in differing:
        print(f"the output differs from {PAGE.name}: {command}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
