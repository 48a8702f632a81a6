"""The global array as SVG: its blocks to scale, each in the colours of the devices that hold it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import ceil
from textwrap import wrap

from spmd_grid.formatting import count_text
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.cuts import Part
from spmd_grid.viz.holdings import HeldBlock, Holders, blocks_of, n_blocks, partial_note, shown_parts
from spmd_grid.viz.svg.colours import Colours
from spmd_grid.viz.svg.page import Area, Page, text_width

__all__ = ["LEFT", "ArrayDrawing", "layout_svg"]

LEFT = 46  # space for the numbers of cells
_TOP = 20
_SIDE, _SHORTEST, _STRIP = 300.0, 140.0, 72.0  # the longer extent, the least of the shorter one, a single dimension
_MOST_PARTS, _MOST_PLANES, _MOST_CHIPS = 16, 4, 16
_SMALLEST_CHIP = 8
_HEADING = 44  # letters
_ALONE = Part((), 0, 1)  # the only part of a dimension that an array does not have


def layout_svg(layout: Layout, most_parts: int = _MOST_PARTS) -> str:
    """One array, cut into blocks that are coloured by the devices that hold them.

    Local.  Dimensions of more than ``most_parts`` show the first parts and the last one, not to scale.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> layout_svg(Layout(Sharding(Grid((2, 3)), [[0], [1]]), (4, 6))).count("<title>")
    6
    """
    page = Page()
    ArrayDrawing(page, layout, Colours([layout.grid]), most_parts=most_parts).draw(24 + LEFT, 24)
    return page.finish()


class ArrayDrawing:
    """A layout on a page.  ``pieces``: by receiving process, the boxes and their senders."""

    def __init__(
        self,
        page: Page,
        layout: Layout,
        colours: Colours,
        pieces: Mapping[int, Sequence[tuple[Box, int]]] | None = None,
        most_parts: int = _MOST_PARTS,
    ) -> None:
        self.page, self.layout, self.colours, self.pieces = page, layout, colours, pieces or {}
        self.parts = shown_parts(layout, most_parts)
        self.to_scale = not any(None in row for row in self.parts)
        self.width, self.height = _size(layout)
        self.heading = wrap(str(layout.sharding), _HEADING)[:3]
        self.crowded = self.received = False  # explained by notes below the drawing

    @property
    def breadth(self) -> float:
        """Width of the drawing with its text.  Local."""
        return max(self.width, *(text_width(line, 12) for line in (*self.heading, self._summary)))

    @property
    def _summary(self) -> str:
        layout = self.layout
        cells = "x".join(map(str, layout.global_shape)) + " cells" if layout.ndim else "a single cell"
        return f"{cells}, {count_text(n_blocks(layout), 'block')}, {count_text(layout.grid.size, 'device')}"

    def draw(self, x: float, y: float) -> float:
        """Draw it to the right of ``x``, with the numbers of its cells on the left; returns its lower end.  Local."""
        page, leading = self.page, self.parts[:-2]
        y = self._heading(x, y)
        planes = list(islice(product(*([part for part in row if part] for row in leading)), _MOST_PLANES + 1))
        for plane in planes[:_MOST_PLANES]:
            if plane:
                page.text(x, y + 14, f"[{', '.join([f'{p.start}:{p.stop}' for p in plane] + [':', ':'])}]", "ink")
                y += 18
            y = self._plane(Area(x, y + _TOP, self.width, self.height), plane)
        notes = self._notes(len(planes) > _MOST_PLANES)
        for line in [line for note in notes for line in wrap(note, _HEADING)]:
            y += 16
            page.text(x, y, line, "soft", size=11)
        return y

    def _heading(self, x: float, y: float) -> float:
        for line in self.heading:
            y += 16
            self.page.text(x, y, line, "ink title")
        self.page.text(x, y + 16, self._summary, "soft", size=11)
        return y + 22

    def _notes(self, planes_omitted: bool) -> Iterator[str]:
        if planes_omitted or not self.to_scale:
            yield "drawn in part" + ("" if self.to_scale else ", not to scale")
        if not all(self.parts):
            yield "no cells"
        if self.crowded:
            yield "shared blocks: colour of the first holder"
        if self.received:
            yield "outlined: received, colour of the sender"
        if self.layout.sharding.halo_sizes and self.to_scale:
            yield "hatched: halo, colour of its holder"
        if self.layout.sharding.partial_axes:
            yield f"+: {partial_note(self.layout)}"

    def _plane(self, area: Area, plane: Sequence[Part]) -> float:
        """Draw the last two dimensions; returns the lower end."""
        layout, shown = self.layout, self.parts[len(plane) :]
        missing: list[list[Part | None]] = [[_ALONE]] * (2 - len(shown))
        rows, columns = missing + shown
        extents = (1, 1, *layout.global_shape)[-2:]
        down, across = _Ruler(rows, extents[0], area.y, area.height), _Ruler(columns, extents[1], area.x, area.width)
        self.page.rect(area, class_="void")
        if shown:
            for position, number in self._fitting(across.marks()):
                self.page.text(position, area.y - 7, number, "soft", "middle", 10.5)
        if len(shown) > 1:
            for position, number in self._fitting(down.marks(), 13):
                self.page.text(area.x - 7, position + 4, number, "soft", "end", 10.5)
        for ruler, side in ((across, True), (down, False)):
            for start, length in ruler.gaps():
                gap = Area(start, area.y, length, area.height) if side else Area(area.x, start, area.width, length)
                self.page.label(gap, "…", "soft")
        leading: list[list[Part | None]] = [[part] for part in plane]
        blocks = [(block, _area(across, down, block.box)) for block in blocks_of(layout, leading + shown)]
        for block, own_area in blocks:
            self._block(block, own_area)
        if self.to_scale:
            for block, own_area in blocks:
                self._halo(block, own_area, _area(across, down, block.window))
            for block, _ in blocks:
                for box, sender in self._pieces_of(block) if not plane else ():
                    self._piece(_area(across, down, box), sender, str(box))
        for block, own_area in blocks:
            self._labels(block, own_area)
        return area.y + area.height + 8

    def _fitting(self, marks: Iterable[tuple[float, str]], length: float = 0) -> Iterator[tuple[float, str]]:
        """The marks that fit side by side.  ``length``: of each mark (default: the width of its text)."""
        taken = float("-inf")
        for position, number in marks:
            needed = length or text_width(number, 10.5) + 6
            if position - needed / 2 >= taken:
                yield position, number
                taken = position + needed / 2

    def _process(self, holders: Holders) -> int:
        return self.layout.grid.process(self.layout.grid.linear_index(next(holders.coords())))

    def _pieces_of(self, block: HeldBlock) -> Sequence[tuple[Box, int]]:
        return self.pieces.get(self._process(block.holders), ()) if block.holders.size == 1 else ()

    def _chips(self, block: HeldBlock, area: Area) -> list[tuple[str, int, Area]]:
        """Name, process and area of each holder of a block; the first one stands for all if they do not fit."""
        inner, grid, sign = area.inset(1.5), self.layout.grid, "+" if block.holders.is_partial else ""
        chips = _divided(inner, block.holders.size)
        if not chips:
            self.crowded = True
            return [(str(block.holders), self._process(block.holders), inner)]
        return [
            (f"{sign}({','.join(map(str, coords))})", grid.process(grid.linear_index(coords)), chip)
            for coords, chip in zip(block.holders.coords(), chips)
        ]

    def _block(self, block: HeldBlock, area: Area) -> None:
        """Draw a block: rounded for one holder; several share the rectangle, or the first one stands for all."""
        chips = self._chips(block, area)
        for name, process, chip in chips:
            rx = min(5.0, chip.width / 4, chip.height / 4) if block.holders.size == 1 else 0
            self.page.rect(chip, f"{name} holds {block.box}", fill=self.colours.fill(process), rx=rx)
        for _, _, chip in chips:
            if chip.x > chips[0][2].x:
                self.page.path(f"M{chip.x:.1f} {chip.y:.1f}v{chip.height:.1f}", class_="seam", stroke_dasharray="2 3")
            if chip.y > chips[0][2].y:
                self.page.path(f"M{chip.x:.1f} {chip.y:.1f}h{chip.width:.1f}", class_="seam", stroke_dasharray="2 3")

    def _labels(self, block: HeldBlock, area: Area) -> None:
        lines = self.to_scale and (self.layout.sharding.halo_sizes or self._pieces_of(block))
        for name, process, chip in self._chips(block, area):
            self.page.label(chip, name, "label", self.colours.fill(process) if lines else "")

    def _halo(self, block: HeldBlock, core: Area, window: Area) -> None:
        """Draw the halo around a core, hatched in the colour of the process that holds it."""
        if window == core:
            return
        process = self._process(block.holders)
        colour, tooltip = self.colours.line(process), f"{block.holders} with halo: {block.window}"
        hatch = self.page.hatch(colour, 45 if process % 2 else 135)
        self.page.path(_rectangle(window) + _rectangle(core), tooltip, fill=hatch, fill_rule="evenodd")
        self.page.path(_rectangle(window.inset(2.5)), stroke=colour, fill="none", stroke_dasharray="4 3")

    def _piece(self, area: Area, sender: int, box: str) -> None:
        """Outline a box received from another process, in the colour of that process."""
        if min(area.width, area.height) >= 8:
            self.received = True
            tooltip, colour = f"{box} from process {sender}", self.colours.line(sender)
            self.page.rect(area.inset(4), tooltip, stroke=colour, fill="none", stroke_width=1.6, rx=3)


class _Ruler:
    """Positions of the parts of one dimension on the page: to scale, or of equal length if some are omitted."""

    def __init__(self, parts: Sequence[Part | None], extent: int, origin: float, length: float) -> None:
        self.parts, self.origin, self.scale = parts, origin, length / max(extent, 1)
        self.each = length / max(len(parts), 1)
        self.to_scale = None not in parts

    def span(self, start: int, stop: int) -> tuple[float, float]:
        """Position and length of cells; those of a part, on a ruler that is not to scale."""
        if self.to_scale:
            return self.origin + start * self.scale, (stop - start) * self.scale
        (n,) = (n for n, part in enumerate(self.parts) if part and part.start == start)
        return self.origin + n * self.each, self.each

    def gaps(self) -> list[tuple[float, float]]:
        """Position and length of the gaps, where parts are omitted."""
        return [(self.origin + n * self.each, self.each) for n, part in enumerate(self.parts) if part is None]

    def marks(self) -> list[tuple[float, str]]:
        """The borders of parts: position and number."""
        marks: dict[int, float] = {}
        for part in filter(None, self.parts):
            position, length = self.span(part.start, part.stop)
            marks[part.start], marks[part.stop] = position, position + length
        return [(position, str(cell)) for cell, position in sorted(marks.items())]


def _size(layout: Layout) -> tuple[float, float]:
    """Width and height of each plane of an array."""
    if layout.ndim < 2:
        return (_SIDE if layout.ndim else _STRIP), _STRIP
    rows, columns = (max(extent, 1) for extent in layout.global_shape[-2:])
    longest = max(rows, columns)
    return max(_SIDE * columns / longest, _SHORTEST), max(_SIDE * rows / longest, _SHORTEST)


def _area(across: _Ruler, down: _Ruler, box: Box) -> Area:
    (y, height), (x, width) = (
        ruler.span(start, stop)
        for ruler, start, stop in zip((down, across), (0, 0, *box.starts)[-2:], (1, 1, *box.stops)[-2:])
    )
    return Area(x, y, width, height)


def _divided(area: Area, count: int) -> list[Area]:
    """``count`` equal parts of an area, shaped for a line of text each; none if they would be too small."""
    columns = ceil(count / min(count, max(1, int(area.height // 22))))
    rows = ceil(count / columns)
    width, height = area.width / columns, area.height / rows
    if count > 1 and (count > _MOST_CHIPS or min(width, height) < _SMALLEST_CHIP):
        return []
    return [Area(area.x + n % columns * width, area.y + n // columns * height, width, height) for n in range(count)]


def _rectangle(area: Area) -> str:
    x, y = f"{area.x:.2f}", f"{area.y:.2f}"
    return f"M{x} {y}h{area.width:.2f}v{area.height:.2f}h{-area.width:.2f}z"
