"""``python -m spmd_grid show``: drawings of a layout or a resharding, as text and as SVG."""

from __future__ import annotations

import argparse
from pathlib import Path

from spmd_grid.cli.layouts import add_layout_options, dtype_of, source_layout, target_layout
from spmd_grid.cli.option_types import given, whole
from spmd_grid.cli.reporting import reported
from spmd_grid.errors import OutputError, ShardingError
from spmd_grid.grid.layout import Layout
from spmd_grid.numerals import is_natural
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.plan import plan_reshard
from spmd_grid.viz.messages import messages_text, step_title
from spmd_grid.viz.svg.array import layout_svg
from spmd_grid.viz.svg.exchange import exchanges_svg
from spmd_grid.viz.text.array import array_text
from spmd_grid.viz.text.contents import contents_text

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "show",
        help="draw the blocks of a layout, or the messages of a resharding",
        usage="spmd_grid show --grid 2x3 --shape 4x6 --sharding '[[0],[1]]' [--to '[[1],[0]]'] [--svg FILE] [options]",
        description="Draws the global array cut into blocks, each with the devices that hold it; with --to, the array"
        " before and after, and the messages in between. Needs no processes.",
    )
    add_layout_options(parser, target_required=False)
    drawing = parser.add_argument_group("the drawing")
    drawing.add_argument(
        "--values", action="store_true", help="draw the grid of devices, each with its cells, numbered from 1"
    )
    drawing.add_argument(
        "--across", type=given, metavar="AXIS", help="with --values: the grid axis that runs to the right"
    )
    drawing.add_argument(
        "--strategy",
        default="direct",
        help="with --to; direct: one exchange; basis: a chain of collectives; auto: the fastest way (direct)",
    )
    drawing.add_argument("--svg", type=given, metavar="FILE", help="write an SVG to this file instead of drawing text")
    drawing.add_argument("--limit", type=whole(0), default=40, metavar="N", help="list at most N messages (40)")
    parser.set_defaults(command=reported("show", _show))


def _show(options: argparse.Namespace) -> str:
    source = source_layout(options)
    if options.to is None:
        stray = [name for name, value in vars(options).items() if name.startswith("to_") and value is not None]
        if stray:
            raise ShardingError(f"--{stray[0].replace('_', '-')} needs --to, the target sharding")
        dtype_of(options)
        return _written(options, layout_svg(source)) if options.svg else f"{source}\n\n{_drawn(options, source)}"
    target, dtype = target_layout(options), dtype_of(options)
    plan = plan_reshard(source.sharding, target.sharding, source.global_shape, dtype, options.strategy)
    titles = [step_title(n, step) for n, step in enumerate(plan.run_steps, 1)] or ["nothing to do"]
    moves = plan.moves or (Redistribution(source, target, dtype.itemsize),)
    if options.svg:
        return _written(options, exchanges_svg(moves, titles))
    parts = [str(source), _drawn(options, source)]
    for title, move in zip(titles, moves, strict=True):
        parts += [f"{title}: {messages_text(move, options.limit)}", str(move.target), _drawn(options, move.target)]
    return "\n\n".join(parts)


def _drawn(options: argparse.Namespace, layout: Layout) -> str:
    if not options.values:
        return array_text(layout)
    if options.across is None:
        return contents_text(layout)
    axis = int(options.across) if is_natural(options.across) else options.across
    return contents_text(layout, layout.grid.axes([axis], "--across")[0])


def _written(options: argparse.Namespace, svg: str) -> str:
    try:
        Path(options.svg).write_text(svg, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {options.svg!r}: {error.strerror}") from None
    return f"wrote {options.svg}"
