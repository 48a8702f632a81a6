"""``python -m spmd_grid plan``: the plan of a resharding, or the price of a program of steps, without any process."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from spmd_grid.cli.layouts import (
    add_layout_options,
    dtype_of,
    numbers,
    source_grid,
    source_layout,
    target_layout,
)
from spmd_grid.cli.option_types import given, whole
from spmd_grid.cli.reporting import reported
from spmd_grid.errors import DeviceError, ShardingError
from spmd_grid.formatting import bytes_text
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.describe import order_text
from spmd_grid.links.model import LinkModel
from spmd_grid.links.order import ordered_ranks
from spmd_grid.numerals import byte_count
from spmd_grid.pricing.price import machine_links, price, price_text
from spmd_grid.pricing.steps import read_steps
from spmd_grid.reshard.plan import Plan, plan_reshard
from spmd_grid.viz.messages import Message, device_text, message_table, step_title, summary_text

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="plan a resharding and explain the plan, or price a program of steps",
        usage="spmd_grid plan --grid 16x16x64 --shape 65536x65536 --from '[[0],[1,2]]' --to '[[2],[0]]' [options]\n"
        "       spmd_grid plan --grid 16x16x64 --steps steps.json --links links.json --nodes 128 --ranks-per-node 128",
        description="Prints the steps that lead from one sharding to another, the shardings between them, the bytes"
        " that they move, their cost, and the alternatives that were not taken. With --steps, prints what a program of"
        " halo exchanges, operations and reshardings costs, step by step, on the machine that the options describe;"
        " links that processes share are counted. Needs no processes.",
    )
    add_layout_options(parser, target_required=True, array_required=False)
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
    machine = parser.add_argument_group("the machine")
    machine.add_argument(
        "--links", metavar="FILE", type=given, help="a model of the links, as LinkModel.measure or save has written it"
    )
    machine.add_argument("--nodes", type=whole(1), metavar="N", help="number of nodes; needs --ranks-per-node")
    machine.add_argument(
        "--ranks-per-node", type=whole(1), metavar="N", help="number of consecutive processes on each node"
    )
    machine.add_argument(
        "--order", choices=["rank", "auto"], default="rank", help="order of the processes, as of init_grid (rank)"
    )
    program = parser.add_argument_group("a program")
    program.add_argument(
        "--steps", metavar="FILE", type=given, help="steps as a JSON list, as docs/links.md describes them"
    )
    how.add_argument("--device", metavar="COORDS", help="also list what this device, such as 1,0,5, receives and sends")
    how.add_argument("--process", type=whole(), metavar="N", help="the same for a process, by its number")
    how.add_argument("--limit", type=whole(0), default=40, metavar="N", help="list at most N messages (40)")
    parser.set_defaults(command=reported("plan", _plan), refuse_usage=parser.error)


def _plan(options: argparse.Namespace) -> str:
    links = _links(options)
    if options.steps is not None:
        return _priced(options, links or LinkModel())
    missing = [flag for flag, name in (("--shape", "shape"), ("--from", "sharding"), ("--to", "to"))
               if getattr(options, name) is None]  # fmt: skip
    if missing:
        options.refuse_usage(f"the following arguments are required: {', '.join(missing)}, or --steps")
    source, target = source_layout(options), target_layout(options)
    limit = None if options.memory_limit is None else _limit(options.memory_limit)
    plan = plan_reshard(
        _ordered(source.sharding, options, links),
        _ordered(target.sharding, options, links),
        source.global_shape,
        dtype_of(options),
        options.strategy,
        memory_limit=limit,
        links=links,
    )
    process = _process(options, plan)
    return str(plan) if process is None else "\n".join([str(plan), "", *_of_process(plan, process, options.limit)])


def _links(options: argparse.Namespace) -> LinkModel | None:
    """The model of the links that options describe; None for the default."""
    links = None if options.links is None else LinkModel.load(options.links)
    if options.nodes is not None and options.ranks_per_node is None:
        raise ShardingError("--nodes needs --ranks-per-node, the number of processes on each")
    if options.node_size is not None and options.ranks_per_node is not None:
        raise ShardingError("--node-size and --ranks-per-node say the same; give one of them")
    size = options.node_size or options.ranks_per_node
    if size is None:
        return links
    grid = source_grid(options)
    return machine_links(links or LinkModel(), options.nodes or -(-grid.size // size), size, grid)


def _ordered(sharding: Sharding, options: argparse.Namespace, links: LinkModel | None) -> Sharding:
    """``sharding`` on its grid with the processes in the order that is asked for."""
    return replace(sharding, grid=_in_order(sharding.grid, options, links or LinkModel()))


def _in_order(grid: Grid, options: argparse.Namespace, links: LinkModel) -> Grid:
    ranks = ordered_ranks(grid, links) if options.order == "auto" else None
    return grid if ranks is None else Grid(grid.shape, grid.axis_names, ranks)


def _priced(options: argparse.Namespace, links: LinkModel) -> str:
    """The price of the program in a file."""
    stray = [flag for flag in ("shape", "sharding", "to", "device", "process") if getattr(options, flag) is not None]
    if stray:
        raise ShardingError(f"--{stray[0]} describes a resharding; with --steps the file describes all of them")
    grid = source_grid(options)
    links.check_covers(grid)
    grid = _in_order(grid, options, links)
    text = price_text(price(read_steps(options.steps, grid, links), grid, links), grid, links)
    return f"{text}\n{order_text(grid, links)}" if options.order == "auto" else text


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
        coords = layout.grid.coords_of_process(process)
        if coords is not None:
            box = layout.local_box(coords).intersect(layout.domain_box)
            roles.append(f"  {when} {device_text(layout, process)} with {box if box.size else 'no cells'}")
    return roles


def _of_process(plan: Plan, process: int, limit: int) -> Iterator[str]:
    """The messages of one process in each step, line by line."""
    yield f"process {process}:"
    yield from _roles(plan, process)
    coords = plan.target.grid.coords_of_process(process)
    if coords is not None:
        yield f"  needs at most {bytes_text(plan.peak_bytes(coords))}"
    for n, (step, move) in enumerate(zip(plan.run_steps, plan.moves, strict=True), 1):
        yield step_title(n, step)
        size = move.itemsize
        source, target = (layout.grid.coords_of_process(process) for layout in (move.source, move.target))
        received = [] if target is None else move.receives(target)
        sent = [] if source is None else move.sends(source)
        arrivals = [Message(piece.process, process, piece.box, piece.box.size * size) for piece in received]
        departures = [Message(process, piece.process, piece.box, piece.box.size * size) for piece in sent]
        for verb, messages in (("receives", arrivals), ("sends", departures)):
            yield f"{verb} {summary_text(messages)}{':' if messages else ''}"
            if messages:
                yield message_table(move, messages, limit)
