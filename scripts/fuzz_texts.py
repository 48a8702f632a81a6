"""Fuzzes texts of the dialect with random changes of programs, with their beginnings, and with attacks.

    PYTHONPATH=tests python scripts/fuzz_texts.py --cases 2000 --seed 0

Within seconds, a text must be read, printed and read again as an equal one, or be refused by an error of the dialect
with the position in the text.  What is read runs on one process, functions with annotations are partitioned, and what
is printed of them is read again; all may be refused there, by errors that say so.  No text may start a program, open a
file to write, unpickle anything, or leave a file in the working folder.  Prints how many texts of each kind there were.
The first text that breaks a rule is printed whole, and ends the run with exit code 1.
"""

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

from support.dialect.compiler_texts import valid_texts
from support.dialect.mutants import attacked, mutant

from spmd_grid import dialect
from spmd_grid.dialect.execute.devices import grid_shapes
from spmd_grid.dialect.execute.reading import shape_of
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.dialect.partition.annotated import is_annotated
from spmd_grid.dialect.running.inputs import as_value, whole_arguments
from spmd_grid.dialect.running.job import Job, emitted
from spmd_grid.errors import DialectError, SpmdError

PLACE = re.compile(r"\Afuzz\.mlir:(\d+):(\d+): \S")
MOST_SECONDS = 8.0
SECONDS_OF_A_RUN = 1.0
MOST_CELLS = 10_000
MOST_DEVICES = 8
REFUSALS = SpmdError, TypeError, ValueError, IndexError, NotImplementedError
FORBIDDEN = "os.system", "os.exec", "os.posix_spawn", "os.remove", "os.rename", "os.mkdir", "subprocess.Popen"
FORBIDDEN += "pickle.find_class", "socket.connect", "ctypes.dlopen", "shutil.rmtree"
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
                partition(module, op, name.data)
        except (*REFUSALS, TooLong):
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def partition(module: Any, function: Any, name: str) -> None:
    """Print the last stage of a function with annotations, and read it again."""
    sizes = [abs(prod(shape)) for shape in grid_shapes(module).values()]
    if is_annotated(function) and max(sizes, default=1) <= MOST_DEVICES:
        text = emitted(module, Job(name), "optimised", max(sizes, default=1))
        try:
            dialect.parse(text, "fuzz.mlir")
        except DialectError as error:
            raise AssertionError(f"what is emitted is not read: {error}\n{text}") from error


IS_WATCHED = [False]


def watch(event: str, given: tuple[Any, ...]) -> None:
    """Refuse what no text may do while one is tried."""
    if not IS_WATCHED[0]:
        return
    opens = event == "open" and isinstance(given[1], str) and set("wax+") & set(given[1])
    if opens or event in FORBIDDEN:
        raise Forbidden(f"{event}{given}")


class Forbidden(BaseException):
    """A text does what no text may do."""


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
    parser.add_argument("--cases", type=int, default=2000, metavar="N", help="number of texts (2000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the changes (0)")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    sys.addaudithook(watch)
    chance, programs = random.Random(options.seed), texts(options.seed)
    sys.dont_write_bytecode = True
    for text in programs[:5]:  # most modules are imported before anything is watched
        outcome(text)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(options.cases):
            text = chance.choice([attacked, mutant])(chance.choice(programs), chance)
            for _ in range(chance.choice([0, 0, 0, 1, 4])):
                text = chance.choice([attacked, mutant])(text, chance)
            try:
                IS_WATCHED[0] = True
                counts[outcome(text)] += 1
                if os.listdir(folder):
                    raise AssertionError(f"it leaves files: {os.listdir(folder)}")
            except (Exception, Forbidden) as error:
                print(f"case {number} of seed {options.seed}: {type(error).__name__}: {error}\n{text}")
                return 1
            finally:
                IS_WATCHED[0] = False
        os.chdir(ROOT)
    print(f"{options.cases} texts: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
