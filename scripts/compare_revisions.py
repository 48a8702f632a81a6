"""Compare the speed of two revisions of this repository: run both revisions' benchmarks by turns on this machine.

    python scripts/compare_revisions.py BASE [REVISION] [--benchmarks ops halo reshard] [--turns 3] [--rounds 15]

Each turn measures BASE and REVISION (default: the working tree) one after the other, in an order that alternates.  A
variant of ours in a row is called slower when the fastest of the new revision's turns took longer than the slowest of
the base's.  Rows with such a variant are measured again, by as many turns; slower is what was slower both times.
The machine must be otherwise idle.  Exit code 1 when anything is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

OURS = "spmd_grid"  # the names of our variants begin so
ROOT = Path(__file__).resolve().parents[1]

Runs = dict[tuple[str, str], list[float]]  # (row, variant): microseconds per call, one for each turn


def check_out(revision: str, folder: Path) -> Path:
    """Write the files of ``revision`` below ``folder``."""
    tree = folder / revision.replace("/", "_")
    tree.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return tree


def measure(tree: Path, benchmark: str, rows: str, rounds: int, folder: Path) -> Runs:
    """Run one benchmark of the package in ``tree`` once."""
    output = folder / "rows.json"
    command = [sys.executable, "-m", "spmd_grid", "bench", benchmark, "--json", str(output), "--rows", rows]
    environment = dict(os.environ, PYTHONPATH=str(tree))
    subprocess.run(
        [*command, "--rounds", str(rounds)], cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    found: Runs = {}
    for row in json.loads(output.read_text())["rows"]:
        for variant, figure in row["contenders"].items():
            if variant.startswith(OURS):
                found[row["row"], variant] = [figure["us"]]
    return found


def measure_by_turns(trees: list[Path], benchmark: str, rows: str, options: argparse.Namespace) -> list[Runs]:
    """Measure all ``trees`` ``options.turns`` times, in an order that alternates."""
    taken: list[Runs] = [defaultdict(list) for _ in trees]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            for index in range(len(trees)) if turn % 2 == 0 else reversed(range(len(trees))):
                for key, values in measure(trees[index], benchmark, rows, options.rounds, Path(folder)).items():
                    taken[index][key] += values
    return taken


def slower(base: Runs, new: Runs) -> set[tuple[str, str]]:
    """Variants whose fastest new turn took longer than their slowest turn of the base."""
    return {key for key in base.keys() & new.keys() if min(new[key]) > max(base[key])}


def compare(trees: list[Path], benchmark: str, options: argparse.Namespace) -> set[tuple[str, str]]:
    """Measure one benchmark, measure again what looked slower, and print the outcome."""
    base, new = measure_by_turns(trees, benchmark, options.rows, options)
    ratios = [statistics.median(new[key]) / statistics.median(base[key]) for key in base.keys() & new.keys()]
    found = slower(base, new)
    confirmed = set()
    for row in sorted({row for row, _ in found}):
        base_again, new_again = measure_by_turns(trees, benchmark, row.replace("[", "?"), options)
        confirmed |= {key for key in slower(base_again, new_again) & found if key[0] == row}
        for key in base_again.keys() & base.keys():
            base[key] += base_again[key]
            new[key] += new_again[key]
    print(
        f"{benchmark}: {len(ratios)} variants in {len({row for row, _ in base})} rows; new over base: median"
        f" {statistics.median(ratios):.3f}; {len(found)} looked slower, {len(confirmed)} are"
    )
    for key in sorted(confirmed):
        before, after = statistics.median(base[key]), statistics.median(new[key])
        print(f"  {key[0]}: {key[1]}: {before:,.2f} -> {after:,.2f} us ({after / before:.2f})")
    sys.stdout.flush()
    return confirmed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="git revision to compare with")
    parser.add_argument("revision", nargs="?", help="git revision to judge (default: the working tree)")
    parser.add_argument("--benchmarks", nargs="+", default=["ops", "halo", "reshard"], metavar="NAME")
    parser.add_argument("--rows", default="*", metavar="PATTERN", help="only rows whose name contains this")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="measurements of each revision (3)")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="rounds of each measurement (15)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        revised = check_out(options.revision, Path(folder)) if options.revision else ROOT
        trees = [check_out(options.base, Path(folder)), revised]
        found = [compare(trees, benchmark, options) for benchmark in options.benchmarks]
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
