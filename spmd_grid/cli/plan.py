"""``python -m spmd_grid plan``: the plan of a resharding, and its cost, without any process."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from spmd_grid.cli.layouts import (
    add_layout_options,
    dtype_of,
    numbers,
    source_layout,
    target_layout,
)
from spmd_grid.cli.option_types import whole
from spmd_grid.cli.reporting import reported
from spmd_grid.errors import DeviceError, ShardingError
from spmd_grid.formatting import bytes_text
from spmd_grid.links.model import LinkModel
from spmd_grid.numerals import byte_count
from spmd_grid.reshard.plan import Plan, plan_reshard
from spmd_grid.viz.messages import Message, device_text, message_table, step_title, summary_text

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="plan a resharding and explain the plan",
        usage="spmd_grid plan --grid 16x16x64 --shape 65536x65536 --from '[[0],[1,2]]' --to '[[2],[0]]' [options]",
        description="Prints the steps that lead from one sharding to another, the shardings between them, the bytes"
        " that they move, their cost, and the alternatives that were not taken. Needs no processes.",
    )
    add_layout_options(parser, target_required=True)
    how = parser.add_argument_group("the plan")
    how.add_argument(
        "--strategy",
        default="auto",
        help="direct: one exchange; basis: a chain of collectives; auto: the fastest of these and others (auto)",
    )
    how.add_argument("--memory-limit", metavar="BYTES", help="memory that a process may use, at most, such as 2GiB")
    how.add_argument(
        "--node-size", type=whole(1), metavar="N", help="number of consecutive processes that share a node (1)"
    )
    how.add_argument("--device", metavar="COORDS", help="also list what this device, such as 1,0,5, receives and sends")
    how.add_argument("--process", type=whole(), metavar="N", help="the same for a process, by its number")
    how.add_argument("--limit", type=whole(0), default=40, metavar="N", help="list at most N messages (40)")
    parser.set_defaults(command=reported("plan", _plan))


def _plan(options: argparse.Namespace) -> str:
    source, target = source_layout(options), target_layout(options)
    limit = None if options.memory_limit is None else _limit(options.memory_limit)
    links = None if options.node_size is None else LinkModel(node_size=options.node_size)
    plan = plan_reshard(
        source.sharding,
        target.sharding,
        source.global_shape,
        dtype_of(options),
        options.strategy,
        memory_limit=limit,
        links=links,
    )
    process = _process(options, plan)
    return str(plan) if process is None else "\n".join([str(plan), "", *_of_process(plan, process, options.limit)])


def _limit(text: str) -> int:
    try:
        return byte_count(text)
    except ValueError as error:
        raise ShardingError(f"--memory-limit is {error}") from None


def _process(options: argparse.Namespace, plan: Plan) -> int | None:
    """The process that options ask for."""
    if options.process is not None:
        if not _roles(plan, options.process):
            raise DeviceError(f"--process is {options.process}; neither grid has a device of that number")
        return options.process
    if options.device is None:
        return None
    coords = numbers(options.device, "--device", DeviceError, "coordinates on the target's grid, such as 1,0")
    return plan.target.grid.process(plan.target.grid.linear_index(coords))


def _roles(plan: Plan, process: int) -> list[str]:
    """The devices that a process is before and after, with their cells, a line each."""
    roles = []
    for when, layout in (("before", plan.source), ("after", plan.target)):
        device = layout.grid.device_of_process(process)
        if device is not None:
            coords = layout.grid.multi_index(device)
            box = layout.local_box(coords).intersect(layout.domain_box)
            roles.append(f"  {when} {device_text(layout, process)} with {box if box.size else 'no cells'}")
    return roles


def _of_process(plan: Plan, process: int, limit: int) -> Iterator[str]:
    """The messages of one process in each step, line by line."""
    yield f"process {process}:"
    yield from _roles(plan, process)
    device = plan.target.grid.device_of_process(process)
    if device is not None:
        yield f"  needs at most {bytes_text(plan.peak_bytes(plan.target.grid.multi_index(device)))}"
    for n, (step, move) in enumerate(zip(plan.run_steps, plan.moves, strict=True), 1):
        yield step_title(n, step)
        size = move.itemsize
        source, target = (layout.grid.device_of_process(process) for layout in (move.source, move.target))
        received = [] if target is None else move.receives(move.target.grid.multi_index(target))
        sent = [] if source is None else move.sends(move.source.grid.multi_index(source))
        arrivals = [Message(piece.process, process, piece.box, piece.box.size * size) for piece in received]
        departures = [Message(process, piece.process, piece.box, piece.box.size * size) for piece in sent]
        for verb, messages in (("receives", arrivals), ("sends", departures)):
            yield f"{verb} {summary_text(messages)}{':' if messages else ''}"
            if messages:
                yield message_table(move, messages, limit)
