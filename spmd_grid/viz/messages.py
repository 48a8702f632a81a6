"""The messages of one exchange between processes, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from spmd_grid.errors import DeviceError
from spmd_grid.formatting import aligned, bytes_text, count_text
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.steps import ALL_GATHER, BROADCAST, Step
from spmd_grid.reshard.volume.totals import exchange_totals

__all__ = [
    "Message",
    "box_text",
    "device_text",
    "listed_messages",
    "message_table",
    "messages_of",
    "messages_text",
    "n_processes",
    "step_title",
    "summary_text",
]

_MOST_MESSAGES, _MOST_RECEIVERS = 20_000, 4096  # that are computed


class Message(NamedTuple):
    """``box``, in the coordinates of the exchange, from process ``sender`` to process ``receiver``."""

    sender: int
    receiver: int
    box: Box
    bytes: int


def messages_of(exchange: Redistribution, receivers: Iterable[int] | None = None) -> Iterator[Message]:
    """The messages to ``receivers``, linear indices in the target's grid; None for all of them.

    Local.  Takes time for every receiver.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> rows, whole = [Layout(Sharding(Grid((2,)), axes), (4,)) for axes in ([[0]], [[]])]
    >>> for message in messages_of(Redistribution(rows, whole)):
    ...     print(message.sender, message.receiver, message.box, message.bytes)
    1 0 [2:4] 16
    0 1 [0:2] 16
    """
    grid = exchange.target.grid
    for device in range(grid.size) if receivers is None else receivers:
        receiver = grid.process(device)
        for sender, box in exchange.receives(multi_index(device, grid.shape)):
            yield Message(sender, receiver, box, box.size * exchange.itemsize)


def n_processes(exchange: Redistribution) -> int:
    """Number of processes that hold cells before or after; an upper bound if the grids overlap in part.  Local."""
    source, target = exchange.source.grid, exchange.target.grid
    return source.size if source.is_like(target) else source.size + target.size


def device_text(layout: Layout, process: int) -> str:
    """The coordinates of a process, such as ``(0,1)``; with its number if the grid has its own list of ranks.

    Local.
    """
    coords = layout.grid.coords_of_process(process)
    if coords is None:
        raise DeviceError(f"process {process} has no device on {layout.grid}")
    text = f"({','.join(map(str, coords))})"
    return text if layout.grid.ranks is None else f"{text} = {process}"


def box_text(exchange: Redistribution, box: Box) -> str:
    """The cells of a message's box, and the numbers of the partial values they belong to.  Local."""
    if exchange.hidden is None:
        return str(box)
    cells = Box(box.starts[1:], box.stops[1:])
    first, last = box.starts[0], box.stops[0] - 1
    return f"{cells} of partial {first}" if first == last else f"{cells} of partials {first}-{last}"


def messages_text(exchange: Redistribution, limit: int = 40) -> str:
    """The bytes sent between processes, and the first ``limit`` messages, a line each.

    Local.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> rows, columns = [Layout(Sharding(Grid((2,)), axes), (4, 4)) for axes in ([[0], []], [[], [0]])]
    >>> print(messages_text(Redistribution(rows, columns)))
    2 messages, 64 B:
    from  to   cells       bytes
    (1)   (0)  [2:4, 0:2]     32
    (0)   (1)  [0:2, 2:4]     32
    """
    messages, summary = listed_messages(exchange)
    return f"{summary}:\n{message_table(exchange, messages, limit)}" if messages else summary


def listed_messages(exchange: Redistribution) -> tuple[list[Message], str]:
    """The messages of an exchange, or the first ones if there are very many, and a summary.

    Local.  At most 20,000 messages, of the first 4096 receivers.
    """
    size = exchange.target.grid.size
    messages = list(islice(messages_of(exchange, range(min(size, _MOST_RECEIVERS))), _MOST_MESSAGES + 1))
    if size <= _MOST_RECEIVERS and len(messages) <= _MOST_MESSAGES:
        return messages, summary_text(messages)
    totals = exchange_totals(exchange)
    if not totals.received:
        return [], summary_text([])
    bound = "" if totals.exact else "at most "
    summary = f"{bound}{bytes_text(totals.received)} among {n_processes(exchange):,} processes, in part"
    return messages[:_MOST_MESSAGES], summary


def step_title(number: int, step: Step) -> str:
    """The title of a step above its messages, with a note if MPI may send them by a collective.  Local."""
    together = " (as single messages)" if step.kind in (ALL_GATHER, BROADCAST) else ""
    return f"{number}. {str(step).partition(':')[0]}{together}"


def summary_text(messages: Sequence[Message]) -> str:
    """``3 messages, 48 B``.  Local."""
    if not messages:
        return "no messages"
    return f"{count_text(len(messages), 'message')}, {bytes_text(sum(message.bytes for message in messages))}"


def message_table(exchange: Redistribution, messages: Sequence[Message], limit: int = 40) -> str:
    """Table of the first ``limit`` messages of an exchange.  Local."""
    table = [("from", "to", "cells", "bytes")]
    for message in messages[:limit]:
        sender, receiver = device_text(exchange.source, message.sender), device_text(exchange.target, message.receiver)
        table.append((sender, receiver, box_text(exchange, message.box), str(message.bytes)))
    return "\n".join(aligned(table, left=(0, 1, 2)) + ["..."] * (len(messages) > limit))
