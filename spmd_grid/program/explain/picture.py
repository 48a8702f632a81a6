"""A program as HTML: a row per step, with the shardings of values, and where bytes move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import prod

from spmd_grid.formatting import bytes_text, seconds_text
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.explain.communications import communications_of_step
from spmd_grid.program.explain.cost import cost_of
from spmd_grid.program.explain.words import Explained, cuts, value_lines
from spmd_grid.program.ir import Constant
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move, Step, Wait
from spmd_grid.typing import Shape

__all__ = ["picture_of"]

_STYLE = (
    "<style>.spmd-program td{padding:2px 10px;vertical-align:middle;text-align:left;font-family:monospace;"
    "white-space:pre}.spmd-program tr.moves{background:rgba(240,140,0,.18)}</style>"
)
_SIDE = 44.0  # of the drawing of a value
_MOST_PARTS = 16  # lines between more parts would hide them
_MOST_ROWS = 500


def picture_of(part: Explained) -> str:
    """The steps in order, each with its results drawn as blocks; what moves bytes is coloured.

    Local.  Tooltips say why values are sharded as they are.  At most 500 steps are shown.
    """
    cost = cost_of(part.schedule)
    head = (
        f"{part.program.name} on {part.grid}: a process receives {bytes_text(cost.received)},"
        f" {seconds_text(cost.seconds)} by the model"
    )
    rows = [_row("argument", "", [x], "", part, "") for x in part.schedule.arguments]
    rows += [_step_row(step, part) for step in part.schedule.steps[:_MOST_ROWS]]
    left = len(part.schedule.steps) - _MOST_ROWS
    if left > 0:
        rows.append(f"<tr><td>... {left} more steps</td></tr>")
    body = "".join(rows)
    return f'{_STYLE}<div class="spmd-program"><code>{escape(head)}</code><table>{body}</table></div>'


def _step_row(step: Step, part: Explained) -> str:
    moved = list(communications_of_step(step))
    operands: Sequence[LocalOperand] = step.operands if isinstance(step, Compute) else step.inputs
    name = step.name if isinstance(step, Compute) else ", ".join(each.kind for each in moved) or "view"
    if isinstance(step, Wait):
        name, operands = "wait for", [step.move.target]
    elif isinstance(step, Move) and step.is_started:
        name = f"start {name}"
    shown = ", ".join(_operand(x) for x in operands)
    note = "; ".join(
        f"{each.kind} over {list(each.grid_axes)}: {bytes_text(each.received)}, {seconds_text(each.seconds)}"
        for each in moved
    )
    operation = getattr(step, "operation", None)
    site = operation.site.short if operation is not None and operation.site else ""
    return _row(f"{name}({shown})", site, list(step.results), note, part, "moves" if moved else "")


def _row(text: str, site: str, results: list[LocalValue], note: str, part: Explained, looks: str) -> str:
    names = ", ".join(f"%{x.value.name} {cuts(x.sharding)}" for x in results)
    drawings = "".join(_drawing(x) for x in results)
    tooltip = "\n".join(each for x in results for each in value_lines(part, x.value))
    cells = [f"<td>{escape(each)}</td>" for each in (site, text, names, note)]
    cells.insert(3, f"<td>{drawings}</td>")
    return f'<tr class="{looks}" title="{escape(tooltip)}">{"".join(cells)}</tr>'


def _operand(x: LocalOperand) -> str:
    if isinstance(x, Constant):
        return f"constant {list(x.shape)}" if x.shape else str(x.value)
    return f"%{x.value.name}"


def _drawing(x: LocalValue) -> str:
    """The blocks of the last two dimensions, as lines in a rectangle; coloured where contributions are to be combined.

    It has no styles of its own, which would reach the page around it.
    """
    width, height = _SIDE, _SIDE if len(x.shape) > 1 else _SIDE / 3
    fill = "rgba(240,140,0,.45)" if x.is_partial else "rgba(128,128,128,.15)"
    seams = "".join(_seams(x.sharding, x.shape, width, height))
    size = f"{width + 2:g} {height + 2:g}".split()
    return (
        f'<svg width="{size[0]}" height="{size[1]}" viewBox="-1 -1 {size[0]} {size[1]}"'
        f' stroke="currentColor" fill="{fill}"><rect width="{width:g}" height="{height:g}"/><path d="M0 0{seams}"/>'
        "</svg>"
    )


def _seams(sharding: Sharding, shape: Shape, width: float, height: float) -> Iterator[str]:
    """Lines between the parts of the last dimension, from left to right, and of the one before it, downwards."""
    for dim, across in ((len(shape) - 1, True), (len(shape) - 2, False)):
        n = prod(sharding.sizes_of(dim)) if dim >= 0 else 1
        for i in range(1, min(n, _MOST_PARTS)):
            at = i / min(n, _MOST_PARTS)
            if across:
                yield f"M{width * at:.1f} 0v{height:.1f}"
            else:
                yield f"M0 {height * at:.1f}h{width:.1f}"
