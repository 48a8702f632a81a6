"""Phrases with figures between nodes, and of the model of the links, and the rows that they are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from page_phrases import value_range

from spmd_grid.bench.links import report as links_report
from spmd_grid.bench.links.cases import LARGE
from spmd_grid.bench.network import report as network_report
from spmd_grid.bench.network.cases import HALO, OPERATION, RESHARDING

# Operations in which every rank gets cells of ranks on the other host, so that none can go on before they have come.
_BOTH_WAYS = "all_gather", "all_to_all", "reduce_scatter", "all_reduce"
_FEW_BYTES, _CARRIED_BYTES, _MANY_BYTES = 1 << 10, 1 << 13, 1 << 19


def _of_kinds(rows: Sequence[network_report.NetworkRow], *kinds: str) -> list[network_report.NetworkRow]:
    return [row for row in rows if row.case.case.kind in kinds]


def few(rows: Sequence[network_report.NetworkRow], both_ways: bool) -> list[network_report.NetworkRow]:
    """The operations on few bytes, of which all ranks wait for cells, or some send and go on."""
    cases = [row for row in _of_kinds(rows, OPERATION) if row.case.case.n_bytes == _FEW_BYTES]
    return [row for row in cases if row.case.case.what.startswith(_BOTH_WAYS) == both_ways]


def middle(rows: Sequence[network_report.NetworkRow]) -> list[network_report.NetworkRow]:
    """The operations on arrays between those of few and of many bytes."""
    return [row for row in _of_kinds(rows, OPERATION) if _FEW_BYTES < row.case.case.n_bytes < _MANY_BYTES]


def many(rows: Sequence[network_report.NetworkRow], sends_twice: bool) -> list[network_report.NetworkRow]:
    """The rows of many bytes that cross, of which code by hand sends some more than once, or none."""
    crossing = [row for row in _of_kinds(rows, OPERATION, RESHARDING) if row.fewest]
    large = [row for row in crossing if row.case.case.n_bytes >= _MANY_BYTES]
    twice = [row for row in large if (row.network[row.by_hand] or 0) > 1.4 * row.fewest]
    return twice if sends_twice else [row for row in large if row not in twice]


def many_once(
    rows: Sequence[network_report.NetworkRow], kind: str, reduces: bool = False
) -> list[network_report.NetworkRow]:
    """The rows of many bytes of which code by hand sends none twice: reductions, other operations, or reshardings."""
    once = _of_kinds(many(rows, sends_twice=False), kind)
    return [row for row in once if ("reduce" in row.case.case.what) == reduces]


def small_reshardings(rows: Sequence[network_report.NetworkRow]) -> list[network_report.NetworkRow]:
    """The reshardings of few bytes that cross."""
    return [row for row in _of_kinds(rows, RESHARDING) if row.case.case.n_bytes == _CARRIED_BYTES and row.fewest]


def halos(rows: Sequence[network_report.NetworkRow]) -> list[network_report.NetworkRow]:
    return _of_kinds(rows, HALO)


def ratios(pick: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[[Sequence[Any]], str]:
    return lambda rows: value_range([row.over_best for row in pick(rows)], 2)


def times(pick: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[[Sequence[Any]], str]:
    return lambda rows: f"{value_range([1e6 * row.seconds[row.ours] for row in pick(rows)], 0)} us"


def slower(rows: Sequence[network_report.NetworkRow]) -> str:
    """The rows in which code by hand is faster, and the ratios."""
    found = [f"{row.case.case.name} ({row.over_best:.3f})" for row in rows if row.over_best < 1]
    return "; ".join(found) or "none"


def one_crossing(rows: Sequence[network_report.NetworkRow]) -> str:
    """The time of the fastest exchange by hand of faces of as many bytes."""
    (row,) = (row for row in _of_kinds(rows, HALO) if row.case.case.n_bytes == _FEW_BYTES)
    return f"{1e6 * row.seconds[row.by_hand]:.0f} us"


def goal(links: str, number: int, rows: Sequence[links_report.LinksRow]) -> str:
    """The number of rows of these links that meet a goal of the model, and the one that is furthest from it."""
    kept = links_report.goals()[number]
    values = [kept.value(row) or 0 for row in rows if row.case.links == links and kept.applies(row)]
    return f"{sum(value <= kept.bound for value in values)} of {len(values)}, at worst {max(values):.2f}x"


def over_fastest(links: str, rows: Sequence[links_report.LinksRow]) -> str:
    """By what part the turn in the middle takes longer than the fastest: the median row of these links."""
    return f"{100 * (median(row.over_fastest for row in rows if row.case.links == links) - 1):.0f} %"


def reshardings(links: str, rows: Sequence[links_report.LinksRow]) -> str:
    """Measured times of large reshardings over those of the model."""
    found = [
        row.measured[links_report.AUTO] / row.predicted[links_report.AUTO]
        for row in rows
        if row.case.links == links and row.case.case.size == LARGE and row.case.case.number >= 0
    ]
    return f"{len(found)}: {min(found):.2f}x to {max(found):.2f}x, median {median(found):.2f}x"
