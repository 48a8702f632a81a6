"""Compare the speed of two revisions of this repository: run both revisions' benchmarks by turns on this machine.

    python scripts/compare_revisions.py BASE [REVISION] [--benchmarks ops halo reshard] [--turns 3] [--rounds 15]

Each turn measures BASE and REVISION (default: the working tree) one after the other, in an order that alternates.  One
of our variants in a row looks slower if the fastest of the new revision's turns took longer than the slowest of the
base's.  Its row is then measured again by twice as many turns, and the variant is slower if it looks slower again.  By
chance alone that happens to about one in 18,000 variants.  The machine must be otherwise idle; compare a revision with
itself to see whether it is.  The exit code is 1 if any variant is slower.
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
from typing import NamedTuple

OURS = "spmd_grid"  # the names of our variants begin with this
OPTIONS = {"ops": [], "halo": [], "reshard": ["--peers", "none"]}  # of each benchmark
ROOT = Path(__file__).resolve().parents[1]


class Key(NamedTuple):
    """A variant in a row."""

    row: str
    variant: str


Times = dict[Key, list[float]]  # microseconds per call, one number for each turn


class Revision(NamedTuple):
    """A revision, by its name, and the folder of its files."""

    name: str
    folder: Path


def check_out(revision: str, folder: Path) -> Revision:
    """Write the files of a git revision to a new ``folder``."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE)
    if archive.returncode:
        sys.exit(f"compare_revisions: {revision!r} is not a revision of {ROOT}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return Revision(revision, folder)


def measure(revision: Revision, benchmark: str, rows: str, options: argparse.Namespace) -> dict[Key, float]:
    """Run one benchmark of a revision once; microseconds per call of our variants."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "spmd_grid", "bench", benchmark, "--json", str(output), "--rows", rows]
        command += ["--rounds", str(options.rounds), "--ranks", str(options.ranks), *OPTIONS[benchmark]]
        environment = dict(os.environ, PYTHONPATH=str(revision.folder))
        done = subprocess.run(
            command, cwd=revision.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            sys.exit(f"compare_revisions: bench {benchmark} of {revision.name} failed:\n{done.stdout}")
        found = json.loads(output.read_text())["rows"]
    return {
        Key(row["row"], variant): figure["us"]
        for row in found
        for variant, figure in row["contenders"].items()
        if variant.startswith(OURS)
    }


def measure_by_turns(
    revisions: list[Revision], benchmark: str, rows: str, turns: int, options: argparse.Namespace
) -> list[Times]:
    """Measure all ``revisions`` ``turns`` times, in an order that alternates."""
    taken: list[Times] = [defaultdict(list) for _ in revisions]
    for turn in range(turns):
        print(f"{benchmark}, rows {rows!r}: turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
        for index in range(len(revisions)) if turn % 2 == 0 else reversed(range(len(revisions))):
            for key, us in measure(revisions[index], benchmark, rows, options).items():
                taken[index][key].append(us)
    return taken


def slower(base: Times, new: Times) -> set[Key]:
    """The variants whose fastest new turn took longer than their slowest turn of the base."""
    return {key for key in base.keys() & new.keys() if min(new[key]) > max(base[key])}


def compare(revisions: list[Revision], benchmark: str, options: argparse.Namespace) -> set[Key]:
    """Measure one benchmark, measure again the rows that look slower, and print the outcome."""
    base, new = measure_by_turns(revisions, benchmark, options.rows, options.turns, options)
    both = base.keys() & new.keys()
    if not both:
        sys.exit(f"compare_revisions: the revisions have no variant of bench {benchmark} in common")
    suspects = slower(base, new)
    confirmed: set[Key] = set()
    for row in sorted({key.row for key in suspects}):
        pattern = row.replace("[", "?")  # other rows may contain this name; their times are not used
        again = measure_by_turns(revisions, benchmark, pattern, 2 * options.turns, options)
        found = {key for key in slower(*again) & suspects if key.row == row}
        for key in found:
            base[key] += again[0][key]
            new[key] += again[1][key]
        confirmed |= found
    print(_summary(benchmark, base, new, len(suspects), len(confirmed)))
    for key in sorted(confirmed):
        before, after = statistics.median(base[key]), statistics.median(new[key])
        print(f"  {key.row}: {key.variant}: {before:,.2f} -> {after:,.2f} us")
    sys.stdout.flush()
    return confirmed


def _summary(benchmark: str, base: Times, new: Times, n_suspects: int, n_confirmed: int) -> str:
    both, either = base.keys() & new.keys(), base.keys() | new.keys()
    medians = [(statistics.median(base[key]), statistics.median(new[key])) for key in both]
    ratios = [after / before for before, after in medians if before > 0]  # less than the noise of what is subtracted
    median = f"{statistics.median(ratios):.3f}" if ratios else "unknown"
    only_one = f" ({len(either) - len(both)} others in one revision only)" * (len(either) > len(both))
    return (
        f"{benchmark}: {len(both)} variants in {len({key.row for key in both})} rows{only_one}; new over base: median"
        f" {median}; {n_suspects} looked slower, {n_confirmed} are"
    )


def at_least_one(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="git revision to compare with")
    parser.add_argument("revision", nargs="?", help="git revision to judge (default: the working tree)")
    parser.add_argument("--benchmarks", nargs="+", choices=OPTIONS, default=list(OPTIONS), help="(all)")
    parser.add_argument("--rows", default="*", metavar="PATTERN", help="only rows whose name contains this")
    parser.add_argument("--turns", type=at_least_one, default=3, metavar="N", help="measurements of each revision (3)")
    parser.add_argument("--rounds", type=at_least_one, default=15, metavar="N", help="rounds of a measurement (15)")
    parser.add_argument("--ranks", type=at_least_one, default=2, metavar="N", help="MPI processes (2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = check_out(options.base, folder / "base")
        new = check_out(options.revision, folder / "new") if options.revision else Revision("the working tree", ROOT)
        found = [compare([base, new], benchmark, options) for benchmark in options.benchmarks]
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
