"""The communication matrix as SVG: the bytes that each rank sent to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil, log

from spmd_grid.formatting import bytes_text
from spmd_grid.viz.svg.page import Area, Page, text_width

__all__ = ["communication_svg"]

_MARGIN, _MATRIX_SIZE, _LARGEST_CELL = 24.0, 560.0, 84.0
_SWATCH_WIDTH, _SWATCH_HEIGHT = 84.0, 14.0  # the scale has a swatch for each colour
_COLOURS = ("#c6def5", "#a5caef", "#80b3e6", "#5b9bdc", "#3d86d0")


def communication_svg(matrix: Mapping[tuple[int, int], int], labels: Mapping[int, str]) -> str:
    """Draw a cell for each pair of ranks, darker for more bytes on a logarithmic scale: a row per sender.

    Local.  ``labels``: the names of all ranks.  The bytes are in the tooltips, and in the cells if they fit.
    """
    page, ranks = Page(), sorted(labels)
    total = sum(matrix.values())
    page.text(_MARGIN, _MARGIN + 13, f"{bytes_text(total)} among {len(ranks)} ranks", "ink title", size=14)
    page.text(_MARGIN, _MARGIN + 32, "senders down, receivers across", "soft", size=11)
    cell = min(max(_MATRIX_SIZE / len(ranks), 2.0), _LARGEST_CELL)
    area = _draw_axes(page, ranks, labels, cell)
    sent = {pair: n_bytes for pair, n_bytes in matrix.items() if n_bytes > 0}
    scale = _Scale(sent.values())
    indices = {rank: n for n, rank in enumerate(ranks)}
    for (sender, receiver), n_bytes in sorted(sent.items()):
        square = Area(area.x + indices[receiver] * cell, area.y + indices[sender] * cell, cell, cell).inset(0.6)
        page.rect(square, f"{labels[sender]} to {labels[receiver]}: {bytes_text(n_bytes)}", fill=scale.colour(n_bytes))
        page.label(square, bytes_text(n_bytes), "label")
    if sent:
        scale.draw(page, area.x, area.y + area.height + 22)
    return page.finish()


def _draw_axes(page: Page, ranks: Sequence[int], labels: Mapping[int, str], cell: float) -> Area:
    """Draw the empty matrix, with names of rows and numbers of columns where they fit.  Returns the matrix's area."""
    rows_per_name = ceil(14 / cell)
    columns_per_number = ceil((text_width(str(ranks[-1])) + 4) / cell)
    names = [labels[rank] if rows_per_name == 1 else str(rank) for rank in ranks]
    area = Area(_MARGIN + max(map(text_width, names)) + 10, _MARGIN + 66, cell * len(ranks), cell * len(ranks))
    page.rect(area, class_="void")
    for n, (rank, name) in enumerate(zip(ranks, names, strict=True)):
        if n % rows_per_name == 0:
            page.text(area.x - 8, area.y + (n + 0.5) * cell + 4, name, "soft", "end")
        if n % columns_per_number == 0:
            page.text(area.x + (n + 0.5) * cell, area.y - 8, str(rank), "soft", "middle")
    return area


class _Scale:
    """Colours for numbers of bytes, from the smallest to the largest: each colour covers the same ratio."""

    def __init__(self, values: Collection[int]) -> None:
        self._least, self._most = min(values, default=1), max(values, default=1)

    def colour(self, n_bytes: int) -> str:
        if self._least == self._most:
            return _COLOURS[len(_COLOURS) // 2]
        share = log(n_bytes / self._least) / log(self._most / self._least)
        return _COLOURS[min(int(share * len(_COLOURS)), len(_COLOURS) - 1)]

    def draw(self, page: Page, x: float, y: float) -> None:
        """Draw a swatch of each colour, with the bytes at which it begins, and at the end the most bytes."""
        if self._least == self._most:
            page.rect(Area(x, y, 40, _SWATCH_HEIGHT), fill=self.colour(self._most))
            page.text(x + 48, y + 11, bytes_text(self._most), "soft", size=11)
            return
        ratio = self._most / self._least
        for n, colour in enumerate(_COLOURS):
            fewest = round(self._least * ratio ** (n / len(_COLOURS)))
            page.rect(Area(x + n * _SWATCH_WIDTH, y, _SWATCH_WIDTH, _SWATCH_HEIGHT), fill=colour)
            page.text(x + n * _SWATCH_WIDTH, y + 28, bytes_text(fewest), "soft", size=11)
        page.text(x + len(_COLOURS) * _SWATCH_WIDTH, y + 28, bytes_text(self._most), "soft", size=11)
