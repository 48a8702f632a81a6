"""The way in which pages show the figures of each benchmark: the columns of its table, and phrases by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import page_phrases as phrases
import page_phrases_network as between

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
    WAITING,
    Row,
)
from spmd_grid.bench.common.table import Column, ratio, time_of
from spmd_grid.bench.halo import report as halo_report
from spmd_grid.bench.halo.cases import HaloCase
from spmd_grid.bench.links import report as links_report
from spmd_grid.bench.network import report as network_report
from spmd_grid.bench.ops import report as ops_report
from spmd_grid.bench.ops.cases import OpsCase
from spmd_grid.bench.programs import report as programs_report
from spmd_grid.bench.programs.cases import ProgramsCase
from spmd_grid.bench.reshard import report as reshard_report
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.storage import report as storage_report
from spmd_grid.bench.storage.cases import StorageCase
from spmd_grid.bench.watch import modes as watch_modes
from spmd_grid.bench.watch import report as watch_report

_KIB = 1024


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


def _word(row: Row[Any]) -> str:
    return "-" if row.hop_ns is None else f"{1e-3 * row.hop_ns:.2f}"


def _in_place(row: Row[Any]) -> str:
    us = row.us(IN_PLACE)
    return "-" if us is None else f"{us:.2f}"


_SHAPED_LINKS = "1ms 100mbit", "100us 1gbit", "20us 10gbit"
_LINKS = Figures(
    links_report.LinksRow.from_dict,
    "links, operation",
    links_report.table().columns[1:4],
    {f"goal {i} at {links}": partial(between.goal, links, i - 1) for links in _SHAPED_LINKS for i in (1, 2, 3)}
    | {f"reshardings at {links}": partial(between.reshardings, links) for links in _SHAPED_LINKS}
    | {f"median turn at {links}": partial(between.over_fastest, links) for links in _SHAPED_LINKS},
)

_RANKS_OF_A_NODE = Figures(
    partial(ops_report.RowFigures.from_dict, OpsCase),
    "operation, bytes per rank",
    [
        time_of("ours", OURS),
        time_of("plan", ops_report.PLAN),
        time_of("from plain numpy arrays", ops_report.NUMPY),
        time_of("best by hand", _best),
        ratio("best / ours", lambda row: row.over_best),
        ratio("best / plan", lambda row: row.best_over_plan),
        time_of("in place", IN_PLACE),
        time_of("waiting", WAITING),
    ],
    {
        "rows slower": phrases.rows_slower,
        "plans": phrases.plans,
        "waits": phrases.waits,
        "rows disturbed": phrases.rows_disturbed,
    },
)

_NETWORK = Figures(
    network_report.NetworkRow.from_dict,
    "row",
    [*network_report.table().columns, *network_report.table().notes],
    {
        "few both ways": between.ratios(partial(between.few, both_ways=True)),
        "few one way": between.ratios(partial(between.few, both_ways=False)),
        "few": between.times(partial(between.few, both_ways=True)),
        "times one way": between.times(partial(between.few, both_ways=False)),
        "one crossing": between.one_crossing,
        "middle": between.ratios(between.middle),
        "many by hand twice": between.ratios(partial(between.many, sends_twice=True)),
        "many moved": between.ratios(partial(between.many_once, kind=between.OPERATION)),
        "many reduced": between.ratios(partial(between.many_once, kind=between.OPERATION, reduces=True)),
        "many resharded": between.ratios(partial(between.many_once, kind=between.RESHARDING)),
        "halos": between.ratios(between.halos),
        "small reshardings": between.ratios(between.small_reshardings),
        "within hosts": between.ratios(lambda rows: [row for row in rows if not row.fewest]),
        "rows": lambda rows: f"{sum(row.over_best >= 1 for row in rows)} of the {len(rows)} rows",
        "slower": between.slower,
    },
)

_HALO_COLUMNS: list[Column[Any]] = [
    _us("from Python", OURS),
    _us("in a compiled loop", halo_report.IN_LOOP),
    _us("without shared memory", halo_report.MESSAGE),
    _us("best by hand", _best),
    ratio("ratio", lambda row: row.over_best),
    Column("in place", 0, _in_place),
    Column("word", 0, _word),
]
_RESHARD_COLUMNS: list[Column[Any]] = [
    time_of("ours", OURS),
    time_of("bound plan", reshard_report.BOUND),
    time_of("from plain arrays", reshard_report.NUMPY),
    time_of("best by hand", _best),
    ratio("best / ours", lambda row: row.over_best),
]

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
            "small sum": phrases.small_sum,
            "limits": phrases.limits,
            "libraries": phrases.slower_than_libraries,
            "rows disturbed": phrases.rows_disturbed,
        },
    ),
    "halo": Figures(
        partial(halo_report.RowFigures.from_dict, HaloCase),
        "block of each rank, cut",
        _near_and_far(_HALO_COLUMNS),
        {
            "rows slower": phrases.rows_slower,
            "times": phrases.times,
            "words": phrases.words,
            "open lines": phrases.open_lines,
            "one neighbour": phrases.one_neighbour,
        },
        NearAndFar.of,
    ),
    "reshard": Figures(
        partial(reshard_report.RowFigures.from_dict, ReshardCase),
        "array, split dimensions",
        [
            *_near_and_far(_RESHARD_COLUMNS),
            *_either(
                [
                    time_of("without shared memory", reshard_report.MESSAGE),
                    time_of("Alltoallw", lambda row: row.best("Alltoallw")),
                    *(time_of(name, partial(_best_of, name)) for name in RESHARD_LIBRARIES),
                    time_of("memory", LIMIT),
                ]
            ),
        ],
        {
            "rows slower": phrases.rows_slower,
            "rows far apart": phrases.rows_far_apart,
            "times": phrases.times,
            "plain Alltoallw": phrases.plain_alltoallw,
            "plain slower": phrases.plain_reshardings_slower,
        },
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
            "rows slower": phrases.rows_slower,
            "rows far apart": phrases.rows_far_apart,
            "small calls": phrases.small_calls,
            "large calls": phrases.large_calls,
            "over limit": phrases.over_limit,
            "middle sums": phrases.ratios("all_reduce", 64 * _KIB, 4 * _KIB * _KIB, OURS),
            "middle scattered sums": phrases.ratios("reduce_scatter", 64 * _KIB, _KIB * _KIB, OURS),
            "middle gathers": phrases.ratios("gather", 64 * _KIB, _KIB * _KIB, OURS),
            "plain sums": phrases.ratios("all_reduce", _KIB * _KIB, 64 * _KIB * _KIB, ops_report.NUMPY),
            "plain slower": phrases.plain_slower,
            "started": partial(phrases.range_of, contender=ops_report.STARTED),
            "in loops": partial(phrases.range_of, contender=ops_report.IN_LOOP),
            "numba mpi": phrases.numba_mpi,
            "words": phrases.words,
        },
        NearAndFar.of,
    ),
    "halo_16": Figures(
        partial(halo_report.RowFigures.from_dict, HaloCase),
        "block of each rank, cut",
        _HALO_COLUMNS,
        {"rows slower": phrases.rows_slower, "rows disturbed": phrases.rows_disturbed},
    ),
    "reshard_16": Figures(
        partial(reshard_report.RowFigures.from_dict, ReshardCase),
        "array, split dimensions",
        _RESHARD_COLUMNS,
        {"rows slower": phrases.rows_slower, "rows disturbed": phrases.rows_disturbed},
    ),
    "crowded": _RANKS_OF_A_NODE,
    "ops_16": _RANKS_OF_A_NODE,
    "ops_4": _RANKS_OF_A_NODE,
    "links": _LINKS,
    "links_held_out": _LINKS,
    "links_16": _LINKS,
    "network": _NETWORK,
    "network_16": _NETWORK,
    "network_8": _NETWORK,
    "network_10gbit": _NETWORK,
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
            "by hand": phrases.by_hand,
            "per operation": phrases.per_operation,
            "planning": phrases.planning,
            "libraries": phrases.slower_than_libraries,
            "rows disturbed": phrases.rows_disturbed,
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
        {"beside": phrases.beside, "rows disturbed": phrases.rows_disturbed},
    ),
    "plan": Figures(lambda figures: figures, "", [], {"swaps": phrases.swaps}),
    "start": Figures(
        lambda figures: figures,
        "",
        [],
        {
            "import": partial(phrases.milliseconds, beginning="import spmd_grid"),
            "numpy": partial(phrases.milliseconds, beginning="import numpy"),
            "numba": partial(phrases.milliseconds, beginning="import numba"),
            "first": partial(phrases.milliseconds, beginning="first "),
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
            "rows disturbed": phrases.rows_disturbed,
            "exchange": partial(phrases.added, to_exchanges=True),
            "operations": partial(phrases.added, to_exchanges=False),
            "off": lambda rows: f"{max(row.off_ns for row in rows):.0f}",
        },
    ),
}
