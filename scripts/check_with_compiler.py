"""Tries LLVM's own compiler on texts of the dialect: it must take what we print, and we must read what it prints.

    pip install --no-deps --target compiler pennylane-catalyst==0.15.0      # 88 MB; its catalyst is an mlir-opt
    SPMD_GRID_MLIR_OPT=compiler/bin/catalyst PYTHONPATH=tests python scripts/check_with_compiler.py

Without SPMD_GRID_MLIR_OPT it takes ``mlir-opt`` of the PATH, or the ``catalyst`` of this environment.  It first undoes
what was renamed after the compiler's version (`support/dialect/compiler`).  Prints how many texts of each kind there
were and why some were refused; the exit code is 1 if any was.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter, defaultdict

from support.dialect.compiler import Compiler, faults, installed_compiler
from support.dialect.compiler_texts import SUITES, random_texts, valid_texts
from support.dialect.mutants import mutant
from support.dialect.upstream import compared_reshardings

from spmd_grid import dialect
from spmd_grid.errors import DialectError


def check_texts(compiler: Compiler, number: int, seed: int) -> int:
    """Print a line for each suite; returns the number of faults."""
    suites = {**SUITES, "random": lambda: random_texts(number, seed)}
    total = 0
    for name, texts_of in suites.items():
        began, texts = time.perf_counter(), texts_of()
        found = faults(compiler, texts)
        seconds = time.perf_counter() - began
        print(f"{name:20} {len(texts):5} texts, {len(texts) - len(found):5} taken and read again, {seconds:6.1f} s")
        for text, reason in found.items():
            print(f"    {text}: {reason}")
        total += len(found)
    return total


def verdicts(compiler: Compiler, number: int, seed: int) -> None:
    """Print how often we and the compiler agree about random changes of programs, and the messages where not."""
    chance, programs = random.Random(seed), valid_texts(seed)
    counts: Counter[str] = Counter()
    differences: dict[str, Counter[str]] = defaultdict(Counter)
    for _ in range(number):
        text = mutant(chance.choice(programs), chance)
        theirs, ours = compiler.answer(text).error, ""
        try:
            dialect.parse(text, "mutant.mlir")
        except DialectError as error:
            ours = str(error).splitlines()[0]
        kind = {
            (False, False): "both take it",
            (True, True): "both refuse it",
            (True, False): "only we take it",
            (False, True): "only the compiler takes it",
        }[bool(theirs), bool(ours)]
        counts[kind] += 1
        if bool(theirs) != bool(ours):
            differences[kind][re.sub(r"[\d%@'\"\[\]]\S*", "_", (theirs or ours).split(": ", 1)[-1])] += 1
    print(f"{number} mutants: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    for kind, messages in differences.items():
        print(f"  {kind}; the other says")
        for message, n in messages.most_common():
            print(f"    {n:4} {message}")


def main() -> int:
    """Run the checks that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--random", type=int, default=20, metavar="N", help="N random programs and modules, in all stages (20)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random texts (0)")
    parser.add_argument(
        "--reshardings", action="store_true", help="also compare our model of the resharding pass with the pass itself"
    )
    parser.add_argument(
        "--mutants", type=int, default=0, metavar="N", help="also compare verdicts on N changed texts (0)"
    )
    options = parser.parse_args()
    compiler = installed_compiler()
    if compiler is None:
        parser.error("there is no compiler; see the head of this script")
    print(f"{compiler.version}, with the words of {'LLVM 22' if compiler.is_older else 'LLVM 23'}")
    found = check_texts(compiler, options.random, options.seed)
    if options.reshardings:
        found += compared_reshardings(compiler)
    if options.mutants:
        verdicts(compiler, options.mutants, options.seed)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
