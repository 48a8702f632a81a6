"""Join several runs of one benchmark: each row once for near processors and once for far ones.

    python scripts/near_and_far.py docs/bench_ops.json run1.json run2.json run3.json

Processors are far if they share no cache, which changes from minute to minute on virtual machines; rows of a benchmark
that does not tell, such as that between nodes, count as near.  For each row, near and far, one run is kept whole: that
with the median ratio of the best by hand to ours, of an even number the lower one of the two in the middle.  Runs that
other work disturbed count only if there are no others.  A run may hold some of the rows; the ``runs`` of the result are
the most that any row had.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spmd_grid.exchange.transfer.distance import SLOW_WORD

_SETTING = "ranks", "library", "processor", "cores", "numpy", "mpi4py"  # alike in all runs

Run = Mapping[str, Any]


def joined(runs: Sequence[Run]) -> dict[str, Any]:
    """The run that holds a row for each name and distance.  Raises ValueError for runs of different settings."""
    first = runs[0]
    for run in runs[1:]:
        for name in _SETTING:
            if run.get(name) != first.get(name):
                raise ValueError(f"{name} is {first.get(name)!r} in one run and {run.get(name)!r} in another")
    rows: dict[tuple[str, bool], list[Run]] = {}
    for run in runs:
        for row in run["rows"]:
            rows.setdefault((row["row"], is_far(row)), []).append(row)
    names = dict.fromkeys(name for name, _ in rows)
    kept = [_median(rows[name, far]) for name in names for far in (False, True) if (name, far) in rows]
    most = max(map(len, rows.values()), default=0)
    return {**{name: value for name, value in first.items() if name != "summary"}, "runs": most, "rows": kept}


def is_far(row: Run) -> bool:
    """Whether the processors shared no cache."""
    return (row.get("hop_ns") or 0) > 1e9 * SLOW_WORD


def _median(rows: Sequence[Run]) -> Run:
    quiet = [row for row in rows if not row.get("disturbed")] or rows
    return sorted(quiet, key=lambda row: row["best_peer_over_ours"])[(len(quiet) - 1) // 2]


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    target, *sources = map(Path, sys.argv[1:])
    found = joined([json.loads(source.read_text()) for source in sources])
    target.write_text(json.dumps(found, indent=1) + "\n")
    far = sum(map(is_far, found["rows"]))
    near, runs = len(found["rows"]) - far, found["runs"]
    print(f"{target}: {near} rows of near processors, {far} of far ones, of at most {runs} runs each")


if __name__ == "__main__":
    main()
