"""Table and verdicts of the network benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from spmd_grid.bench.common.rows import OURS, CaseOnLinks
from spmd_grid.bench.common.table import Column, Table
from spmd_grid.bench.network.cases import NetworkCase
from spmd_grid.bench.network.halos import FUSED
from spmd_grid.formatting import bytes_text, seconds_text

__all__ = ["NetworkRow", "calmer", "summary", "table"]


@dataclass
class NetworkRow:
    """Median seconds per call by contender, and bytes that all nodes send per call: of the fastest of each side.

    ``fewest``: the fewest bytes that can cross, without the headers of packets.
    """

    case: CaseOnLinks[NetworkCase]
    seconds: dict[str, float]
    network: dict[str, float | None]
    fewest: int
    rounds: int

    @classmethod
    def from_dict(cls, figures: Mapping[str, Any]) -> NetworkRow:
        """The row whose `to_dict` gave ``figures``, read back from JSON."""
        case = NetworkCase(figures["kind"], figures["what"], figures["n_bytes"])
        rest = (figures[name] for name in ("seconds", "network", "fewest", "rounds"))
        return cls(CaseOnLinks(figures["links"], case), *rest)

    def to_dict(self) -> dict[str, Any]:
        """All fields, and what follows from them, for JSON."""
        case = self.case.case
        return {
            "row": self.case.name,
            "links": self.case.links,
            "kind": case.kind,
            "what": case.what,
            "n_bytes": case.n_bytes,
            "seconds": self.seconds,
            "network": self.network,
            "fewest": self.fewest,
            "rounds": self.rounds,
            "best_peer": self.by_hand,
            "best_peer_over_ours": self.over_best,
        }

    @property
    def ours(self) -> str:
        """Our faster variant: a call, or a plan."""
        return min((name for name in self.seconds if name.startswith(OURS)), key=self.seconds.__getitem__)

    @property
    def by_hand(self) -> str:
        """The fastest variant by hand."""
        return min((name for name in self.seconds if not name.startswith(OURS)), key=self.seconds.__getitem__)

    @property
    def over_best(self) -> float:
        """The time of the best variant by hand divided by ours."""
        return self.seconds[self.by_hand] / self.seconds[self.ours]


def calmer(before: NetworkRow, row: NetworkRow) -> NetworkRow:
    """Of two measurements of a row, that with the lower geometric mean of all contenders; the second if these differ.

    Others that use the machine make all of them slower, whoever is ahead.  A sum would be the time of the slowest one.
    """
    alike = before.seconds.keys() == row.seconds.keys()
    return before if alike and _mean(before) < _mean(row) else row


def _mean(row: NetworkRow) -> float:
    return geometric_mean(row.seconds.values())


def table() -> Table[NetworkRow]:
    def network(row: NetworkRow, name: str) -> str:
        sent = row.network.get(name)
        return "-" if sent is None else bytes_text(round(sent))

    return Table(
        "per call",
        58,
        [
            Column("ours", 9, lambda row: seconds_text(row.seconds[row.ours])),
            Column("by hand", 9, lambda row: seconds_text(row.seconds[row.by_hand])),
            Column("ratio", 7, lambda row: f"{row.over_best:.2f}"),
            Column("fewest", 10, lambda row: bytes_text(row.fewest)),
            Column("sent, ours", 12, lambda row: network(row, row.ours)),
            Column("by hand", 10, lambda row: network(row, row.by_hand)),
        ],
        [Column("which by hand", 0, lambda row: row.by_hand)],
    )


def summary(rows: Sequence[NetworkRow]) -> list[str]:
    """The verdicts for each of the links, a line each."""
    lines = []
    for links in dict.fromkeys(row.case.links for row in rows):
        of_these = [row for row in rows if row.case.links == links]
        name = f"{links}: " if links else ""
        worst, best = (pick(of_these, key=lambda row: row.over_best) for pick in (min, max))
        good, well = (sum(row.over_best >= limit for row in of_these) for limit in (1.0, 1.5))
        lines.append(
            f"{name}as fast as the best by hand or faster in {good} of {len(of_these)} rows, 1.5x as fast in {well};"
            f" {worst.over_best:.2f}x ({worst.case.case.name}) to {best.over_best:.2f}x ({best.case.case.name})"
        )
        for row in of_these:
            if FUSED in row.seconds:
                other = min(seconds for each, seconds in row.seconds.items() if each != FUSED)
                lines.append(
                    f"{name}{row.case.case.name}: {FUSED} takes {seconds_text(row.seconds[FUSED])}, a message to each"
                    f" neighbour {seconds_text(other)}"
                )
    return lines
