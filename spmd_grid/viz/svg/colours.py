"""One colour per process: hues around the circle, equally light to the eye."""

from __future__ import annotations

from collections.abc import Iterable
from math import cos, radians, sin

from spmd_grid.grid.device_grid import Grid

__all__ = ["Colours"]


class Colours:
    """The colours of the processes that are devices of ``grids``, spread evenly in their order.

    Local.

    >>> colours = Colours([Grid((2,), ranks=(4, 7))])
    >>> colours.fill(4), colours.line(7)
    ('#ffadaa', '#00a2b0')
    """

    def __init__(self, grids: Iterable[Grid]):
        grids = list(grids)
        self._order: dict[int, int] | None = None
        self._count = max(grid.size for grid in grids)
        if any(grid.ranks for grid in grids):
            processes = sorted({process for grid in grids for process in grid.ranks or range(grid.size)})
            self._order = {process: n for n, process in enumerate(processes)}
            self._count = len(processes)

    def fill(self, process: int) -> str:
        """A light colour that carries dark text.  Local."""
        return self._colour(process, 0.83, 0.10)

    def line(self, process: int) -> str:
        """The same hue, strong enough for lines on light and on dark.  Local."""
        return self._colour(process, 0.63, 0.15)

    def _colour(self, process: int, lightness: float, chroma: float) -> str:
        number = process if self._order is None else self._order[process]
        if self._count > 8 and number % 2:  # neighbours differ in more than the hue
            lightness -= 0.06
        return _oklch(lightness, chroma, 22 + 360 * number / self._count)


def _oklch(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the Oklab space, by lightness, chroma and hue in degrees, as ``#rrggbb``."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _encoded(min(max(value, 0.0), 1.0))):02x}" for value in linear)


def _encoded(value: float) -> float:
    """Linear light as sRGB stores it."""
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
