"""Fuzzes the reader of the dialect with random changes of programs, and with their beginnings.

    PYTHONPATH=tests python scripts/fuzz_dialect.py --cases 10000 --seed 0

Within seconds, a text must be read, printed and read again as an equal one, or be refused by an error of the dialect
with the position in the text.  What is read runs on one process, and may be refused there.  Prints how many texts of
each kind there were.  The first text that breaks the rule is printed whole, and ends the run with exit code 1.
"""

import argparse
import random
import re
import signal
import sys
import time
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

from support.dialect.compiler_texts import valid_texts
from support.dialect.mutants import mutant

from spmd_grid import dialect
from spmd_grid.dialect.execute.reading import shape_of
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.dialect.running.inputs import as_value, whole_arguments
from spmd_grid.errors import DialectError, SpmdError

PLACE = re.compile(r"\Afuzz\.mlir:(\d+):(\d+): \S")
MOST_SECONDS = 8.0
SECONDS_OF_A_RUN = 1.0
MOST_CELLS = 10_000
ROOT = Path(__file__).resolve().parents[1]


def outcome(text: str) -> str:
    """The name of the error, or "read".  Raises AssertionError, or what a defect raises, where a rule is broken."""
    began = time.process_time()
    try:
        module = dialect.parse(text, "fuzz.mlir")
    except DialectError as error:
        found = type(error).__name__
        place = PLACE.match(str(error))
        lines = text.split("\n")
        if place is None or not 1 <= int(place[1]) <= len(lines) or int(place[2]) > len(lines[int(place[1]) - 1]) + 1:
            raise AssertionError(f"an error without its place: {error}") from error
    else:
        printed = dialect.to_text(module)
        if dialect.to_text(dialect.parse(printed)) != printed:
            raise AssertionError("what is printed is read again as another module")
        found = "read"
        run(module)
    if time.process_time() - began > MOST_SECONDS:
        raise AssertionError(f"it took {time.process_time() - began:.1f} s")
    return found


def run(module: Any) -> None:
    """Run the serial meaning of every function with small arguments; only errors on purpose may come of it."""
    for op in module.ops:
        name = op.properties.get("sym_name") if op.name == "func.func" else None
        if name is None or not op.regions[0].blocks:
            continue
        signal.setitimer(signal.ITIMER_REAL, SECONDS_OF_A_RUN)
        try:
            types = [x.type for x in op.regions[0].blocks[0].args]
            if all(prod(n or 1 for n in shape_of(kind)) <= MOST_CELLS for kind in types):
                given = [as_value(x, kind) for x, kind in zip(whole_arguments((), types, None), types)]
                FunctionRunner(module).call(name.data, given)
        except (SpmdError, TooLong):
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class TooLong(Exception):
    """A run that a mutant has made long, such as a loop of many steps."""


def too_long(*_: object) -> None:
    """End the run."""
    raise TooLong


def texts(seed: int) -> list[str]:
    """The programs that mutants are made of."""
    files = [path.read_text() for path in sorted((ROOT / "tests" / "dialect" / "programs").glob("*.mlir"))]
    return [*files, *files, *valid_texts(seed)]


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, metavar="N", help="number of texts (10,000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the changes (0)")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    chance, programs = random.Random(options.seed), texts(options.seed)
    counts: Counter[str] = Counter()
    for number in range(options.cases):
        text = mutant(chance.choice(programs), chance)
        for _ in range(chance.choice([0, 0, 1, 4])):
            text = mutant(text, chance)
        try:
            counts[outcome(text)] += 1
        except Exception as error:
            print(f"case {number} of seed {options.seed}: {type(error).__name__}: {error}\n{text}")
            return 1
    print(f"{options.cases} texts: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
