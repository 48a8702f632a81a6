"""Lets small operations between nodes go the way that they go where every rank has a core of its own."""

from spmd_grid.ops.movement import movement
from spmd_grid.ops.reduction import spanning
from spmd_grid.reshard.executor import ahead


def send_directly():
    """From now on plans that are made, on all processes alike, send small arrays from each member to others."""
    for module in (movement, spanning, ahead):
        module.goes_direct = lambda comm: True
