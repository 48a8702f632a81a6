"""Text about a halo plan, as one process sees it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.paths import STAGED
from spmd_grid.grid.cells import Cells
from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.halo.plan.halo_plan import HaloPlan

__all__ = ["describe"]

_MOST_BOXES = 4


def describe(plan: HaloPlan) -> str:
    """Layout, fields, neighbours with boxes, bytes and path, messages per update, and the trial's times.  Local."""
    channel: Channel = plan.channel
    n_bytes = sum(dtype.itemsize for dtype in plan.dtypes)
    n_fields, dtypes = len(plan.dtypes), ", ".join(map(str, dict.fromkeys(plan.dtypes)))
    lines = [
        f"halo of {plan.layout}",
        f"  {n_fields} field{'s' * (n_fields > 1)} of {dtypes}; local shape {channel.shape}; {_wraps(plan.pattern)}",
    ]
    for member in sorted({*channel.takes, *channel.gives}):
        gives = channel.gives.get(member, [])
        takes = [take.target for take in channel.takes.get(member, [])]
        lines.append(
            f"  {plan.channels.label(member)} {channel.way_to(member)}: sends {_amount(gives, n_bytes)}, receives"
            f" {_amount(takes, n_bytes)}"
        )
    own = [take.target for take in channel.own]
    if own:
        lines.append(f"  from its own cells: {_amount(own, n_bytes)}")
    if channel.fills:
        lines.append(f"  constants: {_amount([cells for cells, _ in channel.fills], n_bytes)}")
    for edge in plan.pattern.edges(plan.channels.coords):
        name = getattr(edge.function, "__name__", type(edge.function).__name__)
        lines.append(f"  {name}() sets {edge.box}, {'high' if edge.side else 'low'} side of dimension {edge.dim}")
    lines.append(
        f"  messages per update: {len(channel.sends)}; neighbours that copy from"
        f" this process's memory: {len(channel.readers)}"
    )
    ways = [channel.mode if channel.reads else STAGED] * bool(channel.readers or channel.sources)
    ways += [channel.message_mode] * bool(channel.receives or channel.sends)
    if plan.trial:
        times = ", ".join(f"{way} {1e6 * seconds:.1f}" for way, seconds in plan.trial.items())
        lines.append(f"  {' and '.join(ways) or 'alone'}; tried when the plan was made, us per update: {times}")
    elif ways:
        lines.append(f"  {' and '.join(ways)}; not tried out")
    return "\n".join(lines)


def _wraps(pattern: HaloPattern) -> str:
    dims = [str(dim) for dim, wraps in enumerate(pattern.periodic) if wraps]
    text = f"periodic along dimension {', '.join(dims)}" if dims else "not periodic"
    return text + ("" if pattern.corners else "; without corners")


def _amount(cells: Sequence[Cells], n_bytes: int) -> str:
    """Number of bytes, and their boxes."""
    if not cells:
        return "nothing"
    boxes = [_text(each) for each in cells[:_MOST_BOXES]] + ["..."] * (len(cells) > _MOST_BOXES)
    return f"{sum(prod(each.shape) for each in cells) * n_bytes:,} B {' '.join(boxes)}"


def _text(cells: Cells) -> str:
    """``[1:3, 4:0:-1]``: the cells as an index, a single cell that is repeated as ``5 x3``."""
    parts = []
    for start, step, extent in zip(cells.starts, cells.steps, cells.shape, strict=True):
        if step == 1:
            parts.append(f"{start}:{start + extent}")
        else:
            parts.append(f"{start} x{extent}" if step == 0 else f"{start}:{start - extent}:-1")
    return f"[{', '.join(parts)}]"
