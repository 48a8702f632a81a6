"""Exchanges as SVG: the arrays before and after, and between them the messages of the processes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import sqrt

from spmd_grid.formatting import bytes_text
from spmd_grid.grid.box import Box
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.viz.messages import Message, box_text, device_text, listed_messages, n_processes
from spmd_grid.viz.svg.array import LEFT, ArrayDrawing
from spmd_grid.viz.svg.colours import Colours
from spmd_grid.viz.svg.page import Area, Page, text_width

__all__ = ["exchanges_svg"]

_EDGE, _GAP, _HEIGHT = 24, 36.0, 300.0
_BYTES, _CHIP, _FLOW = 64.0, 58.0, 150.0  # widths: the numbers of bytes, the devices, the arrows between them
_HEAD = 9.0  # of an arrow
_MOST_ARROWS, _MOST_MATRIX = 16, 64  # processes


def exchanges_svg(exchanges: Sequence[Redistribution], titles: Sequence[str]) -> str:
    """The arrays before and after each exchange, one exchange below the other, and the messages between them.

    Local.  Messages are arrows among up to 16 processes, a matrix of senders and receivers among up to 64, and numbers
    beyond.
    """
    page, y = Page(), float(_EDGE)
    colours = Colours(layout.grid for exchange in exchanges for layout in (exchange.source, exchange.target))
    drawings = [_ExchangeDrawing(page, exchange, colours) for exchange in exchanges]
    left = max(drawing.before.breadth for drawing in drawings)
    middle = max(drawing.breadth for drawing in drawings)
    for drawing, title in zip(drawings, titles, strict=True):
        page.text(_EDGE, y + 13, title, "ink title", size=14)
        y = drawing.draw(_EDGE + LEFT, y + 22, left, middle) + _GAP
    return page.finish()


class _ExchangeDrawing:
    """One exchange on a page."""

    def __init__(self, page: Page, exchange: Redistribution, colours: Colours) -> None:
        self.page, self.exchange, self.colours = page, exchange, colours
        self.size = n_processes(exchange)
        self.messages, self.summary = listed_messages(exchange)
        self.before = ArrayDrawing(page, exchange.source, colours)
        self.after = ArrayDrawing(page, exchange.target, colours, self._pieces())
        self.pairs: dict[tuple[int, int], list[Message]] = defaultdict(list)
        for message in self.messages:
            self.pairs[message.sender, message.receiver].append(message)
        self.lines: list[str] = []  # instead of arrows
        if not self.messages:
            self.lines = [self.summary]
        elif self.size > _MOST_MATRIX:
            self.lines = [*self.summary.replace(" among", ", among").split(", ")[:2], "not drawn"]

    @property
    def breadth(self) -> float:
        """Width of the drawing of the messages.  Local."""
        if self.lines:
            return max(text_width(line) for line in self.lines)
        return 2 * (_BYTES + _CHIP) + _FLOW if self.size <= _MOST_ARROWS else _HEIGHT

    def draw(self, x: float, y: float, left: float, middle: float) -> float:
        """Draw it, with widths for the array before and for the messages; returns the lower end.  Local."""
        ends = [self.before.draw(x, y), self.after.draw(x + left + _GAP + middle + _GAP + LEFT, y)]
        x, y = x + left + _GAP, y + 58
        centre = x + middle / 2
        if self.lines:
            for n, line in enumerate(self.lines):
                self.page.text(centre, y + 40 + 17 * n, line, "soft", "middle")
            return max(ends)
        x += (middle - self.breadth) / 2
        y = self._arrows(x, y) if self.size <= _MOST_ARROWS else self._matrix(x, y)
        self.page.text(centre, y + 18, self.summary, "soft", "middle", 11)
        return max(*ends, y + 18)

    @cached_property
    def _most(self) -> int:
        return max(sum(message.bytes for message in sent) for sent in self.pairs.values())

    def _share(self, sent: Sequence[Message]) -> float:
        """Square root of a pair's bytes relative to the largest pair, so that small ones remain visible."""
        return sqrt(sum(message.bytes for message in sent) / self._most) if self._most else 1.0

    def _pieces(self) -> dict[int, list[tuple[Box, int]]]:
        """The boxes and their senders by receiver; none for partial values, whose boxes have one more dimension."""
        pieces: dict[int, list[tuple[Box, int]]] = defaultdict(list)
        hidden = self.exchange.hidden is not None
        for message in self.messages if self.size <= _MOST_ARROWS and not hidden else ():
            pieces[message.receiver].append((message.box, message.sender))
        return pieces

    # -- arrows --------------------------------------------------------------------------------------------------

    def _arrows(self, x: float, y: float) -> float:
        """Draw senders on the left, receivers on the right, and arrows whose width shows the bytes."""
        sides = self.exchange.source, self.exchange.target
        most = max(layout.grid.size for layout in sides)
        pitch = min(max(_HEIGHT / most, 22.0), 46.0)
        height = pitch * most
        xs = x + _BYTES, x + _BYTES + _CHIP + _FLOW
        ends: list[dict[int, float]] = []  # by side, the middle of each process's row
        for layout, left, count in zip(sides, xs, (self._bytes(0), self._bytes(1))):
            first = y + (height - pitch * layout.grid.size) / 2
            ends.append({layout.grid.process(n): first + (n + 0.5) * pitch for n in range(layout.grid.size)})
            for process, middle in ends[-1].items():
                chip = Area(left, middle - pitch / 2 + 3, _CHIP, pitch - 6)
                text, moved = device_text(layout, process), bytes_text(count[process])
                verb = "sends" if left == xs[0] else "receives"
                self.page.rect(chip, f"{text} {verb} {moved}", fill=self.colours.fill(process), rx=4)
                self.page.label(chip, text, "label")
                far, anchor = (left - 6, "end") if left == xs[0] else (left + _CHIP + 6, "start")
                self.page.text(far, middle + 4, moved, "soft", anchor, 10.5)
        self._kept_lines(xs[0] + _CHIP, xs[1], ends)
        self._message_lines(xs[0] + _CHIP, xs[1], ends, pitch)
        return y + height

    def _bytes(self, side: int) -> Counter[int]:
        """Bytes by sender (side 0) or by receiver (side 1)."""
        count: Counter[int] = Counter()
        for message in self.messages:
            count[(message.sender, message.receiver)[side]] += message.bytes
        return count

    def _kept_lines(self, left: float, right: float, ends: Sequence[dict[int, float]]) -> None:
        grid = self.exchange.target.grid
        for process in ends[0].keys() & ends[1].keys():
            coords = grid.coords_of_process(process)
            if coords is not None and self.exchange.kept_box(coords) is not None:
                curve = _curve(left + 3, ends[0][process], right - 3, ends[1][process])
                self.page.path(curve, f"{process} keeps", class_="kept", stroke_dasharray="3 4")
                if "kept" not in self.summary:
                    self.summary += "; dashed: kept"

    def _message_lines(self, left: float, right: float, ends: Sequence[dict[int, float]], pitch: float) -> None:
        ports = [_ports(self.pairs, side, ends[side], pitch - 12) for side in (0, 1)]
        widest = min(4.5, 0.6 * min(apart for side in ports for _, apart in side.values()))
        for (sender, receiver), sent in self.pairs.items():
            (start, _), (end, apart) = ports[0][sender, receiver], ports[1][sender, receiver]
            wide = widest * (0.3 + 0.7 * self._share(sent))
            colour, tooltip = self.colours.line(sender), self._tooltip(sent)
            curve = _curve(left + 2, start, right - _HEAD, end)
            self.page.path(curve, tooltip, stroke=colour, fill="none", stroke_width=wide, stroke_opacity=0.85)
            half = min(2.2 + wide, 0.5 * apart + 0.5)
            self.page.path(f"M{right - 1:.1f} {end:.1f}l{-_HEAD} {-half:.1f}v{2 * half:.1f}z", fill=colour)

    def _tooltip(self, sent: Sequence[Message]) -> str:
        exchange = self.exchange
        ends = device_text(exchange.source, sent[0].sender), device_text(exchange.target, sent[0].receiver)
        boxes = "; ".join(f"{box_text(exchange, message.box)}, {bytes_text(message.bytes)}" for message in sent)
        return f"{ends[0]} to {ends[1]}: {boxes}"

    # -- matrix --------------------------------------------------------------------------------------------------

    def _matrix(self, x: float, y: float) -> float:
        """Draw senders down, receivers across, and a cell for each pair, stronger for more bytes."""
        source, target = self.exchange.source, self.exchange.target
        cell = _HEIGHT / max(source.grid.size, target.grid.size)
        rows = {source.grid.process(n): n for n in range(source.grid.size)}
        columns = {target.grid.process(n): n for n in range(target.grid.size)}
        self.page.text(x, y - 4, "senders down, receivers across", "soft", size=11)
        area = Area(x, y + 6, cell * len(columns), cell * len(rows))
        self.page.rect(area, class_="void")
        for (sender, receiver), sent in self.pairs.items():
            square = Area(area.x + columns[receiver] * cell, area.y + rows[sender] * cell, cell, cell).inset(0.4)
            strength = 0.35 + 0.65 * self._share(sent)
            self.page.rect(square, self._tooltip(sent), fill=self.colours.line(sender), fill_opacity=strength)
        return area.y + area.height


def _ports(
    pairs: Iterable[tuple[int, int]], side: int, middles: dict[int, float], length: float
) -> dict[tuple[int, int], tuple[float, float]]:
    """Heights at which arrows touch a process's chip, in the order of their other ends, and the distance of arrows."""
    partners: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: pair[1 - side]):
        partners[pair[side]].append(pair)
    ports: dict[tuple[int, int], tuple[float, float]] = {}
    for process, own in partners.items():
        apart = min(length / max(len(own) - 1, 1), 9.0)
        for n, pair in enumerate(own):
            ports[pair] = middles[process] + (n - (len(own) - 1) / 2) * apart, apart
    return ports


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    bend = (to_x - x) * 0.5
    return f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
