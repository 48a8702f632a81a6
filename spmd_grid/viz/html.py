"""A sharded array as HTML, for notebooks: a line of text, and the picture of who holds what."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from spmd_grid.grid.layout import Layout
from spmd_grid.viz.svg.array import layout_svg

__all__ = ["array_html"]

_MOST_PARTS = 8  # of a dimension: so that the picture of the largest grid takes less than 100 KiB


def array_html(layout: Layout, text: str) -> str:
    """``text``, and the blocks of an array of ``layout`` with the devices that hold them.  Local.

    The picture is an image of its own, so its styles do not reach the page around it.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> array_html(Layout(Sharding(Grid((2,)), [[0]]), (4,)), "a < b")[:28]
    '<div><code>a &lt; b</code><b'
    """
    picture, shown = b64encode(layout_svg(layout, _MOST_PARTS).encode()).decode(), escape(text)
    return f'<div><code>{shown}</code><br><img alt="{shown}" src="data:image/svg+xml;base64,{picture}"></div>'
