"""Plots of time against size: a panel per family of rows, a line per contender, dashed for the limit of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spmd_grid.bench.common.rows import LIBRARIES, LIMIT, OURS, Row

__all__ = ["SUFFIXES", "draw"]

SUFFIXES = ".svg", ".png", ".pdf"
_PANEL = 4.2, 3.4  # inches
_MOST_COLUMNS = 4
_SHADES = {OURS: "Blues", **dict(zip(LIBRARIES, ("Greens", "Purples", "RdPu", "copper", "winter"), strict=True))}
_BY_HAND = "Oranges"


def draw(rows: Sequence[Row[Any]], path: str, title: str, sizes: str) -> None:
    """Draw all rows, by ``family`` and ``n_bytes`` of their cases, to the file ``path``.  Local.  Needs matplotlib."""
    from matplotlib.figure import Figure

    families: dict[str, list[Row[Any]]] = {}
    for row in sorted(rows, key=lambda row: row.case.n_bytes):
        families.setdefault(row.case.family, []).append(row)
    styles = _styles(list(dict.fromkeys(name for row in rows for name in row.by_contender)))
    columns = min(len(families), _MOST_COLUMNS)
    lines = -(-len(families) // columns)
    legend_height = 0.22 * -(-len(styles) // columns) + 0.5
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * lines + legend_height), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flat
    for panel, (family, alike) in zip(panels, families.items()):
        for name, style in styles.items():
            points = [(row.case.n_bytes, us) for row in alike if (us := row.us(name)) is not None and us > 0]
            if points:
                panel.plot(*zip(*points), label=name, **style)
        panel.set(xscale="log", yscale="log", title=family, xlabel=sizes, ylabel="microseconds")
        panel.grid(alpha=0.3)
    for panel in list(figure.axes)[len(families) :]:
        panel.remove()
    handles = {name: handle for panel in figure.axes for handle, name in zip(*panel.get_legend_handles_labels())}
    shown = [name for name in styles if name in handles]
    figure.legend([handles[name] for name in shown], shown, loc="outside lower center", ncols=columns, fontsize="small")
    figure.suptitle(title, fontsize="small", wrap=True)
    figure.savefig(path)


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The looks of each contender's line: ours are blue, hand-written ones orange."""
    import matplotlib

    styles: dict[str, dict[str, Any]] = {}
    kinds: dict[str, list[str]] = {}
    for name in names:
        if name == LIMIT:
            continue
        shades = next((_SHADES[kind] for kind in _SHADES if name.startswith(kind)), _BY_HAND)
        kinds.setdefault(shades, []).append(name)
    for shades, alike in kinds.items():
        for n, name in enumerate(alike):
            color = matplotlib.colormaps[shades](0.95 - 0.6 * n / len(alike))
            styles[name] = {"color": color, "marker": "os^vD*Px"[n % 8], "markersize": 4, "linewidth": 1}
    if OURS in styles:
        styles[OURS].update(linewidth=2.2, zorder=5)
    if LIMIT in names:
        styles[LIMIT] = {"color": "black", "linestyle": "--", "linewidth": 1}
    return styles
