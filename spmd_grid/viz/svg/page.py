"""An SVG that grows with what is drawn on it: no scripts, no references, readable on light and dark pages."""

from __future__ import annotations

import re
from math import ceil
from typing import NamedTuple
from xml.etree import ElementTree

__all__ = ["Area", "Page", "text_width"]

_MARGIN = 24
# Characters that XML does not allow, but names of axes may have.
_NO_XML = re.compile("[^\\t\\n\\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Colours of devices are attributes and carry dark text in either theme; everything else is a class.
_STYLE = """
.paper{fill:#ffffff}.ink{fill:#1f2328}.soft{fill:#59636e}.label{fill:#1f2328}
.void{fill:#eaeef2}.frame{stroke:#8c959f;fill:none}.kept{stroke:#c2c9d1;fill:none}.seam{stroke:#ffffff;fill:none}
.title{font-weight:600}.on-void{fill:#59636e}
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
@media (prefers-color-scheme:dark){
.paper{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9198a1}
.void{fill:#21262d}.frame{stroke:#656c76}.kept{stroke:#3d444d}.on-void{fill:#9198a1}}
"""


Attribute = str | float


class Area(NamedTuple):
    """A rectangle on the page."""

    x: float
    y: float
    width: float
    height: float

    def inset(self, margin: float) -> Area:
        """The area inside ``margin``, which is narrower in very small areas.  Local."""
        across, down = min(margin, self.width / 4), min(margin, self.height / 4)
        return Area(self.x + across, self.y + down, self.width - 2 * across, self.height - 2 * down)


class Page:
    """A page of shapes in the order in which they are drawn.

    Local.  Keyword arguments are attributes of the SVG element, with ``_`` for ``-``.

    >>> page = Page()
    >>> page.rect(Area(24, 24, 10, 10), "a tooltip", fill="#ff0000")
    >>> page.finish()[:60]
    '<svg xmlns="http://www.w3.org/2000/svg" role="img" width="58'
    """

    def __init__(self) -> None:
        self._root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
        ElementTree.SubElement(self._root, "style").text = _STYLE
        self._paper = ElementTree.SubElement(self._root, "rect", {"class": "paper"})
        self._right = self._bottom = 0.0
        self._hatches: set[str] = set()

    def finish(self) -> str:
        """The text of the SVG.  Local."""
        width, height = str(ceil(self._right) + _MARGIN), str(ceil(self._bottom) + _MARGIN)
        self._root.attrib |= {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
        self._paper.attrib |= {"width": width, "height": height}
        ElementTree.indent(self._root, " ")
        return ElementTree.tostring(self._root, encoding="unicode") + "\n"

    def rect(self, area: Area, tooltip: str = "", **attributes: Attribute) -> None:
        """Draw a rectangle.  Local."""
        self._reach(area.x + area.width, area.y + area.height)
        self._add("rect", tooltip, x=area.x, y=area.y, width=area.width, height=area.height, **attributes)

    def path(self, steps: str, tooltip: str = "", **attributes: Attribute) -> None:
        """Draw a path, which must lie within the other shapes.  Local."""
        self._add("path", tooltip, d=steps, **attributes)

    def text(self, x: float, y: float, text: str, looks: str, anchor: str = "start", size: float = 12) -> None:
        """Write a line of text on the base line ``y``.  Local."""
        self._reach(x + text_width(text, size) * {"start": 1, "middle": 0.5, "end": 0}[anchor], y)
        # The style sheet's size would override an attribute.
        others: dict[str, Attribute] = {} if anchor == "start" else {"text_anchor": anchor}
        others |= {} if size == 12 else {"style": f"font-size:{size:g}px"}
        self._add("text", "", x=x, y=y, class_=looks, **others).text = _NO_XML.sub("\ufffd", text)

    def label(self, area: Area, text: str, looks: str, plate: str = "") -> None:
        """Write text in the middle of ``area``, in letters that fit; none if they would be tiny.

        Local.  ``plate``: a background colour, which keeps lines out of the letters.
        """
        size = min(12.0, (area.width - 6) / text_width(text, 1), (area.height - 2) / 1.1)
        if size >= 7.5:
            size = int(size * 2) / 2
            x, y = area.x + area.width / 2, area.y + area.height / 2
            if plate:
                width, height = text_width(text, size) + 5, 1.25 * size
                self.rect(Area(x - width / 2, y - height / 2, width, height), fill=plate, rx=3)
            self.text(x, y + 0.35 * size, text, looks, "middle", size)

    def hatch(self, colour: str, slant: int) -> str:
        """The fill for a hatching in ``colour``, ``slant`` degrees from upright.  Local."""
        name = f"hatch-{colour[1:]}-{slant}"
        if name not in self._hatches:
            self._hatches.add(name)
            slanted = {"id": name, "width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
            pattern = ElementTree.SubElement(self._root, "pattern", slanted | {"patternTransform": f"rotate({slant})"})
            line = {"d": "M0 0v6", "stroke": colour, "stroke-width": "1.5", "stroke-opacity": "0.5"}
            ElementTree.SubElement(pattern, "path", line)
        return f"url(#{name})"

    def _add(self, kind: str, tooltip: str, **attributes: Attribute) -> ElementTree.Element:
        named = {name.rstrip("_").replace("_", "-"): _written(value) for name, value in attributes.items()}
        element = ElementTree.SubElement(self._root, kind, named)
        if tooltip:
            ElementTree.SubElement(element, "title").text = _NO_XML.sub("\ufffd", tooltip)
        return element

    def _reach(self, right: float, bottom: float) -> None:
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)


def text_width(text: str, size: float = 12) -> float:
    """Approximate width of a line of text in which all letters are equally wide.  Local."""
    return 0.605 * size * len(text)


def _written(value: Attribute) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
