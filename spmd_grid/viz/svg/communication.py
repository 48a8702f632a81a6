"""The communication matrix as SVG: the bytes that each rank sent to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil, log

from spmd_grid.formatting import bytes_text
from spmd_grid.viz.svg.page import Area, Page, text_width

__all__ = ["communication_svg"]

_EDGE, _SIZE = 24.0, 560.0
_BAR, _STEP = 14.0, 84.0  # of the scale
_STEPS = ("#c6def5", "#a5caef", "#80b3e6", "#5b9bdc", "#3d86d0")


def communication_svg(matrix: Mapping[tuple[int, int], int], labels: Mapping[int, str]) -> str:
    """A cell per pair of ranks, senders down and receivers across, darker for more bytes, on a logarithmic scale.

    Local.  ``labels``: the names of all ranks.  The bytes are in the tooltips, and in the cells if they fit.
    """
    page, ranks = Page(), sorted(labels)
    sums = sum(matrix.values())
    page.text(_EDGE, _EDGE + 13, f"{bytes_text(sums)} among {len(ranks)} ranks", "ink title", size=14)
    page.text(_EDGE, _EDGE + 32, "senders down, receivers across", "soft", size=11)
    cell = min(max(_SIZE / len(ranks), 2.0), 84.0)
    every = ceil(14 / cell)  # rows from one name to the next
    names = [labels[rank] if every == 1 else str(rank) for rank in ranks]
    left = _EDGE + max(map(text_width, names)) + 10
    area = Area(left, _EDGE + 66, cell * len(ranks), cell * len(ranks))
    page.rect(area, class_="void")
    wide = ceil((text_width(str(ranks[-1])) + 4) / cell)
    for n, name in enumerate(names):
        if n % every == 0:
            page.text(left - 8, area.y + (n + 0.5) * cell + 4, name, "soft", "end")
        if n % wide == 0:
            page.text(left + (n + 0.5) * cell, area.y - 8, str(ranks[n]), "soft", "middle")
    indices = {rank: n for n, rank in enumerate(ranks)}
    known = {pair: n_bytes for pair, n_bytes in matrix.items() if n_bytes > 0}
    scale = _Scale(known.values())
    for (sender, receiver), n_bytes in sorted(known.items()):
        square = Area(area.x + indices[receiver] * cell, area.y + indices[sender] * cell, cell, cell).inset(0.6)
        page.rect(square, f"{labels[sender]} to {labels[receiver]}: {bytes_text(n_bytes)}", fill=scale.colour(n_bytes))
        page.label(square, bytes_text(n_bytes), "label")
    if known:
        scale.draw(page, left, area.y + area.height + 22)
    return page.finish()


class _Scale:
    """Colours from the fewest bytes to the most, each for an equal ratio of bytes."""

    def __init__(self, values: Collection[int]) -> None:
        self._least, self._most = min(values, default=1), max(values, default=1)

    def colour(self, n_bytes: int) -> str:
        if self._least == self._most:
            return _STEPS[len(_STEPS) // 2]
        share = log(n_bytes / self._least) / log(self._most / self._least)
        return _STEPS[min(int(share * len(_STEPS)), len(_STEPS) - 1)]

    def draw(self, page: Page, x: float, y: float) -> None:
        """Draw the colours, and the bytes at which they begin and end."""
        if self._least == self._most:
            page.rect(Area(x, y, 40, _BAR), fill=self.colour(self._most))
            page.text(x + 48, y + 11, bytes_text(self._most), "soft", size=11)
            return
        ratio = self._most / self._least
        for n, colour in enumerate(_STEPS):
            first = round(self._least * ratio ** (n / len(_STEPS)))
            page.rect(Area(x + n * _STEP, y, _STEP, _BAR), fill=colour)
            page.text(x + n * _STEP, y + 28, bytes_text(first), "soft", size=11)
        page.text(x + len(_STEPS) * _STEP, y + 28, bytes_text(self._most), "soft", size=11)
