"""The way in which pages show the figures of each benchmark: the columns of its table, and phrases by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from spmd_grid.bench.arrays import report as arrays_report
from spmd_grid.bench.arrays.cases import ArraysCase
from spmd_grid.bench.common.rows import (
    ARRAY_LIBRARIES,
    IN_PLACE,
    LIMIT,
    OURS,
    PROGRAM_LIBRARIES,
    RESHARD_LIBRARIES,
    STORAGE_LIBRARIES,
    Row,
)
from spmd_grid.bench.common.table import Column, ratio, time_of
from spmd_grid.bench.common.verdicts import slower_rows
from spmd_grid.bench.halo import report as halo_report
from spmd_grid.bench.halo.cases import HaloCase
from spmd_grid.bench.links import report as links_report
from spmd_grid.bench.links.cases import LARGE
from spmd_grid.bench.network import report as network_report
from spmd_grid.bench.network.cases import HALO, OPERATION, RESHARDING
from spmd_grid.bench.ops import report as ops_report
from spmd_grid.bench.ops.cases import OpsCase
from spmd_grid.bench.programs import report as programs_report
from spmd_grid.bench.programs.cases import OPERATIONS, PLANNING, ProgramsCase
from spmd_grid.bench.reshard import report as reshard_report
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.storage import report as storage_report
from spmd_grid.bench.storage.cases import BESIDE, StorageCase
from spmd_grid.bench.watch import modes as watch_modes
from spmd_grid.bench.watch import report as watch_report
from spmd_grid.formatting import bytes_text


class Figures(NamedTuple):
    """The way in which pages show the figures of a benchmark.

    ``row``: makes a row from its figures in JSON; ``head``: of the column of names; ``phrases``: make phrases from all
    rows, by the names that pages use for them.  ``line``: the subject of the columns, made from all rows of one name.
    """

    row: Callable[[Mapping[str, Any]], Any]
    head: str
    columns: Sequence[Column[Any]]
    phrases: Mapping[str, Callable[[Sequence[Any]], str]]
    line: Callable[[Sequence[Any]], Any] = itemgetter(0)


class NearAndFar(NamedTuple):
    """The rows of one name: on processors that share a cache, and on those that do not."""

    near: Row[Any] | None
    far: Row[Any] | None

    @classmethod
    def of(cls, rows: Sequence[Row[Any]]) -> NearAndFar:
        return cls(*(next((row for row in rows if row.far == far), None) for far in (False, True)))


def _near_and_far(columns: Sequence[Column[Any]]) -> list[Column[NearAndFar]]:
    """The columns once for near processors, then once for far ones."""

    def within(which: int, column: Column[Any]) -> Callable[[NearAndFar], str]:
        return lambda rows: "-" if rows[which] is None else column.cell(rows[which])

    moods = "near", "far"
    return [
        Column(f"{mood}: {column.head}", 0, within(i, column)) for i, mood in enumerate(moods) for column in columns
    ]


def _either(columns: Sequence[Column[Any]]) -> list[Column[NearAndFar]]:
    """The columns once, for near processors where they were."""

    def within(column: Column[Any]) -> Callable[[NearAndFar], str]:
        return lambda rows: column.cell(rows.near or rows.far)

    return [Column(column.head, 0, within(column)) for column in columns]


def _best(row: Row[Any]) -> str:
    return row.best()


def _best_of(library: str, row: Row[Any]) -> str | None:
    return row.best_of(library)


def _us(head: str, contender: str | Callable[[Row[Any]], str]) -> Column[Row[Any]]:
    """Microseconds without their unit, which the page gives once for all rows."""
    return Column(head, 0, lambda row: f"{row.us(contender if isinstance(contender, str) else contender(row)):.2f}")


def _rows_slower(rows: Sequence[Row[Any]]) -> str:
    slower = slower_rows(rows)
    worst = min(slower, key=lambda row: row.over_best, default=None)
    return f"{len(slower)} of the {len(rows)} rows" + (
        f", at worst {worst.over_best:.2f}x ({worst.case.name})" if worst else ""
    )


def _rows_far_apart(rows: Sequence[Row[Any]]) -> str:
    return f"{sum(row.far for row in rows)} of the {len(rows)} rows"


def _words(rows: Sequence[Row[Any]]) -> str:
    """Nanoseconds of a word between near and between far processors, the medians."""
    texts = []
    for mood, far in ("near", False), ("far", True):
        if found := [row.hop_ns for row in rows if row.hop_ns and row.far == far]:
            texts.append(f"{median(found):.0f} ns between {mood} ones")
    return " and ".join(texts)


def _rows_disturbed(rows: Sequence[Any]) -> str:
    return f"{sum(row.disturbed for row in rows)} of the {len(rows)} rows"


def _range(values: Sequence[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _small_calls(rows: Sequence[Row[Any]]) -> str:
    """The least and the largest ratio of the best by hand to ours, on the fewest bytes."""
    fewest = min(row.case.n_bytes for row in rows)
    return _times([row for row in rows if row.case.n_bytes == fewest])


def _over_limit(rows: Sequence[ops_report.RowFigures]) -> str:
    """Times of plans over those of copies in place, by size and distance of the processors: the median."""
    texts = []
    for n_bytes in sorted({row.case.n_bytes for row in rows}):
        found = [
            [row.plan_over_limit for row in rows if row.case.n_bytes == n_bytes and row.far == far]
            for far in (False, True)
        ]
        medians = [f"{median(over):.1f}" if over and None not in over else "-" for over in found]
        texts.append(f"{bytes_text(n_bytes)} {' and '.join(medians)}")
    return ", ".join(texts)


def _times(rows: Sequence[Row[Any]]) -> str:
    """The least and the largest ratio of the best by hand to ours."""
    return _range([row.over_best for row in rows], 1)


def _large_calls(rows: Sequence[Row[Any]]) -> str:
    """The same ratios for the rows of the most bytes."""
    most = max(row.case.n_bytes for row in rows)
    return _times([row for row in rows if row.case.n_bytes == most])


def _swaps(rows: Sequence[Mapping[str, Any]]) -> str:
    return _range([row["us"] for row in rows if row["case"]["kind"] == "swap"], 0)


def _milliseconds(rows: Sequence[Mapping[str, Any]], beginning: str) -> str:
    """Milliseconds of the rows whose name begins with ``beginning``."""
    found = [row["ms"] for row in rows if row["row"].startswith(beginning)]
    return _range(found, 0) if len(found) > 1 else f"{found[0]:.0f}"


def _added(rows: Sequence[watch_report.WatchRow], to_exchanges: bool) -> str:
    """Microseconds that checking adds to the updates of a `HaloExchange`, or to all other operations."""
    added = [row.added_us for row in rows if row.case.name.startswith("HaloExchange") == to_exchanges]
    return _range(added, 0) if len(added) > 1 else f"{added[0]:.0f}"


def _small_sum(rows: Sequence[arrays_report.RowFigures]) -> str:
    """Microseconds that a sum of the smallest blocks takes longer than numpy's."""
    smallest = min((row for row in rows if row.case.op == "a + b"), key=lambda row: row.case.n_bytes)
    return f"{smallest.added_us:.1f}"


def _limits(rows: Sequence[arrays_report.RowFigures]) -> str:
    """The rows that have limits, and those that miss them."""
    limited = [row for row in rows if row.is_met is not None]
    missed = [row.case.name for row in limited if not row.is_met]
    met = f"{len(limited) - len(missed)} of the {len(limited)} rows with a limit"
    return met + (f" (not {'; '.join(missed)})" if missed else "")


def _slower_than_libraries(rows: Sequence[arrays_report.RowFigures | programs_report.RowFigures]) -> str:
    compared = [row for row in rows if row.over_library() is not None]
    slower = [row.case.name for row in compared if (row.over_library() or 0) < 1]
    if not compared:
        return "no other library was measured"
    text = f"another library is faster in {len(slower)} of the {len(compared)} rows that one has"
    return text + (f" ({'; '.join(slower)})" if slower else "")


def _by_hand(rows: Sequence[programs_report.RowFigures]) -> str:
    """The ratios of programs by hand to traced ones, and how many keep the limit."""
    programs = [row for row in rows if row.case.is_program]
    met = sum(row.is_met for row in programs)
    return f"{_range([row.over_best for row in programs], 2)} ({met} of {len(programs)} at least 0.95)"


def _per_operation(rows: Sequence[programs_report.RowFigures]) -> str:
    """Microseconds that an operation takes longer than by hand."""
    (row,) = (row for row in rows if row.case.program == OPERATIONS)
    return f"{row.us_per_operation:+.2f}"


def _planning(rows: Sequence[programs_report.RowFigures]) -> str:
    """Milliseconds of planning, on few devices and on very many."""
    return _range([row.planning_ms for row in rows if row.case.program == PLANNING], 0)


def _beside(rows: Sequence[storage_report.RowFigures]) -> str:
    """Milliseconds that saving beside the program adds to it, and saving as .npy before it goes on."""
    (row,) = (row for row in rows if row.case.op == BESIDE)
    added = [1e-3 * row.by_contender[name].us for name in (OURS, storage_report.NPY)]
    return "{:.0f} ms to a program that computes for 0.1 s, saving before it goes on {:.0f} ms".format(*added)


# Operations in which every rank gets cells of ranks on the other host, so that none can go on before they have come.
_BOTH_WAYS = "all_gather", "all_to_all", "reduce_scatter", "all_reduce"
_FEW_BYTES, _CARRIED_BYTES = 1 << 10, 1 << 13


def _network_rows(rows: Sequence[network_report.NetworkRow], *kinds: str) -> list[network_report.NetworkRow]:
    return [row for row in rows if row.case.case.kind in kinds]


def _few(rows: Sequence[network_report.NetworkRow], both_ways: bool) -> list[network_report.NetworkRow]:
    """The operations on few bytes, of which all ranks wait for cells, or some send and go on."""
    cases = [row for row in _network_rows(rows, OPERATION) if row.case.case.n_bytes == _FEW_BYTES]
    return [row for row in cases if row.case.case.what.startswith(_BOTH_WAYS) == both_ways]


def _many(rows: Sequence[network_report.NetworkRow], sends_twice: bool) -> list[network_report.NetworkRow]:
    """The rows of many bytes that cross, of which code by hand sends some more than once, or none.

    Reductions, which may add in any order by hand, count as the latter.
    """
    large = [row for row in _network_rows(rows, OPERATION, RESHARDING) if row.fewest > 1 << 18]
    twice = [
        row
        for row in large
        if "reduce" not in row.case.case.what and (row.network[row.by_hand] or 0) > 1.4 * row.fewest
    ]
    return twice if sends_twice else [row for row in large if row not in twice]


def _network_ratios(pick: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[[Sequence[Any]], str]:
    return lambda rows: _range([row.over_best for row in pick(rows)], 2)


def _network_times(pick: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[[Sequence[Any]], str]:
    return lambda rows: f"{_range([1e6 * row.seconds[row.ours] for row in pick(rows)], 0)} us"


def _one_crossing(rows: Sequence[network_report.NetworkRow]) -> str:
    """The time of the fastest exchange by hand of faces of as many bytes."""
    (row,) = (row for row in _network_rows(rows, HALO) if row.case.case.n_bytes == _FEW_BYTES)
    return f"{1e6 * row.seconds[row.by_hand]:.0f} us"


def _goals_of(links: str, number: int, rows: Sequence[links_report.LinksRow]) -> str:
    """The number of rows of these links that meet a goal of the model, and the one that is furthest from it."""
    goal = links_report.goals()[number]
    values = [goal.value(row) or 0 for row in rows if row.case.links == links and goal.applies(row)]
    return f"{sum(value <= goal.bound for value in values)} of {len(values)}, at worst {max(values):.2f}x"


def _reshardings(links: str, rows: Sequence[links_report.LinksRow]) -> str:
    """Measured times of large reshardings over those of the model."""
    found = [
        row.measured[links_report.AUTO] / row.predicted[links_report.AUTO]
        for row in rows
        if row.case.links == links and row.case.case.size == LARGE and row.case.case.number >= 0
    ]
    return f"{len(found)}: {min(found):.2f}x to {max(found):.2f}x, median {median(found):.2f}x"


_SHAPED_LINKS = "1ms 100mbit", "100us 1gbit", "20us 10gbit"


BENCHES: dict[str, Figures] = {
    "arrays": Figures(
        partial(arrays_report.RowFigures.from_dict, ArraysCase),
        "expression, block of each rank",
        [
            time_of("ours", OURS),
            time_of("numpy", arrays_report.NUMPY),
            time_of("by hand", arrays_report.BY_HAND),
            *(time_of(name, partial(_best_of, name)) for name in ARRAY_LIBRARIES),
            Column("limit", 0, arrays_report.limit_text),
        ],
        {
            "small sum": _small_sum,
            "limits": _limits,
            "libraries": _slower_than_libraries,
            "rows disturbed": _rows_disturbed,
        },
    ),
    "halo": Figures(
        partial(halo_report.RowFigures.from_dict, HaloCase),
        "block of each rank, cut",
        _near_and_far(
            [
                _us("from Python", OURS),
                _us("in a compiled loop", halo_report.IN_LOOP),
                _us("without shared memory", halo_report.MESSAGE),
                _us("best by hand", _best),
                ratio("ratio", lambda row: row.over_best),
            ]
        ),
        {"rows slower": _rows_slower, "times": _times, "words": _words},
        NearAndFar.of,
    ),
    "reshard": Figures(
        partial(reshard_report.RowFigures.from_dict, ReshardCase),
        "array, split dimensions",
        [
            *_near_and_far(
                [
                    time_of("ours", OURS),
                    time_of("bound plan", reshard_report.BOUND),
                    time_of("from plain arrays", reshard_report.NUMPY),
                    time_of("best by hand", _best),
                    ratio("best / ours", lambda row: row.over_best),
                ]
            ),
            *_either(
                [
                    time_of("without shared memory", reshard_report.MESSAGE),
                    time_of("Alltoallw", lambda row: row.best("Alltoallw")),
                    *(time_of(name, partial(_best_of, name)) for name in RESHARD_LIBRARIES),
                    time_of("memory", LIMIT),
                ]
            ),
        ],
        {"rows slower": _rows_slower, "rows far apart": _rows_far_apart, "times": _times},
        NearAndFar.of,
    ),
    "ops": Figures(
        partial(ops_report.RowFigures.from_dict, OpsCase),
        "operation, bytes per rank",
        _near_and_far(
            [
                time_of("ours", OURS),
                time_of("plan", ops_report.PLAN),
                time_of("from plain numpy arrays", ops_report.NUMPY),
                time_of("in place", IN_PLACE),
                time_of("best by hand", _best),
                ratio("best / ours", lambda row: row.over_best),
            ]
        ),
        {
            "rows slower": _rows_slower,
            "rows far apart": _rows_far_apart,
            "small calls": _small_calls,
            "large calls": _large_calls,
            "over limit": _over_limit,
            "words": _words,
        },
        NearAndFar.of,
    ),
    "links": Figures(
        links_report.LinksRow.from_dict,
        "links, operation",
        links_report.table().columns[1:4],
        {f"goal {i} at {links}": partial(_goals_of, links, i - 1) for links in _SHAPED_LINKS for i in (1, 2, 3)}
        | {f"reshardings at {links}": partial(_reshardings, links) for links in _SHAPED_LINKS},
    ),
    "network": Figures(
        network_report.NetworkRow.from_dict,
        "row",
        [*network_report.table().columns, *network_report.table().notes],
        {
            "few both ways": _network_ratios(partial(_few, both_ways=True)),
            "few one way": _network_ratios(partial(_few, both_ways=False)),
            "few": _network_times(lambda rows: _few(rows, True) + _few(rows, False)),
            "one crossing": _one_crossing,
            "many by hand twice": _network_ratios(partial(_many, sends_twice=True)),
            "many": _network_ratios(partial(_many, sends_twice=False)),
            "halos": _network_ratios(lambda rows: _network_rows(rows, HALO)),
            "small reshardings": _network_ratios(
                lambda rows: [
                    row
                    for row in _network_rows(rows, RESHARDING)
                    if row.case.case.n_bytes == _CARRIED_BYTES and row.fewest
                ]
            ),
            "within hosts": _network_ratios(lambda rows: [row for row in rows if not row.fewest]),
            "rows": lambda rows: f"{sum(row.over_best >= 1 for row in rows)} of the {len(rows)} rows",
        },
    ),
    "programs": Figures(
        partial(programs_report.RowFigures.from_dict, ProgramsCase),
        "program, arrays",
        [
            time_of("traced", OURS),
            time_of("by hand", programs_report.BY_HAND),
            ratio("by hand / traced", lambda row: row.over_best),
            *(time_of(name, partial(_best_of, name)) for name in PROGRAM_LIBRARIES),
        ],
        {
            "by hand": _by_hand,
            "per operation": _per_operation,
            "planning": _planning,
            "libraries": _slower_than_libraries,
            "rows disturbed": _rows_disturbed,
        },
    ),
    "storage": Figures(
        partial(storage_report.RowFigures.from_dict, StorageCase),
        "operation, array of both ranks, cut",
        [
            time_of("ours", OURS),
            time_of("as .npy", storage_report.NPY),
            time_of("one process", storage_report.RAW),
            *(time_of(name, name) for name in STORAGE_LIBRARIES),
            ratio("one process / ours", lambda row: row.over_best),
            ratio("checksums", lambda row: row.checksums),
        ],
        {"beside": _beside, "rows disturbed": _rows_disturbed},
    ),
    "plan": Figures(lambda figures: figures, "", [], {"swaps": _swaps}),
    "start": Figures(
        lambda figures: figures,
        "",
        [],
        {
            "import": partial(_milliseconds, beginning="import spmd_grid"),
            "numpy": partial(_milliseconds, beginning="import numpy"),
            "numba": partial(_milliseconds, beginning="import numba"),
            "first": partial(_milliseconds, beginning="first "),
        },
    ),
    "watch": Figures(
        watch_report.WatchRow.from_dict,
        "operation",
        [
            time_of("plain", watch_modes.PLAIN),
            time_of("recorded", watch_modes.RECORDED),
            time_of("checked", watch_modes.CHECKED),
            watch_report.difference("difference"),
            watch_report.off("when off"),
        ],
        {
            "rows disturbed": _rows_disturbed,
            "exchange": partial(_added, to_exchanges=True),
            "operations": partial(_added, to_exchanges=False),
            "off": lambda rows: f"{max(row.off_ns for row in rows):.0f}",
        },
    ),
}
