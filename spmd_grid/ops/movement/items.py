"""Boxes of arrays of members that others need, as all members learn them."""

from __future__ import annotations

import json
from typing import NamedTuple

from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.box import Box

__all__ = ["Item", "decode_receives", "encode_receives"]


class Item(NamedTuple):
    """A box of the array of ``source``, for some members of one node."""

    source: int
    box: Box


def encode_receives(transfer: Transfer) -> bytes:
    """The boxes that this member receives, for the others."""
    return json.dumps(
        [(each.peer, each.source_box.starts, each.source_box.stops) for each in transfer.receives]
    ).encode()


def decode_receives(text: bytes) -> list[Item]:
    """The boxes that another member receives."""
    return [Item(peer, Box(tuple(starts), tuple(stops))) for peer, starts, stops in json.loads(text)]
