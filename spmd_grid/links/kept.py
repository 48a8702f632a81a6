"""Measured models kept in a file, which one process reads or writes for all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from os import PathLike
from pathlib import Path

import numpy as np

from spmd_grid.errors import MismatchError, ShardingError, StorageError
from spmd_grid.links.files import read_record
from spmd_grid.links.known import machine_of
from spmd_grid.links.measure import measure_links
from spmd_grid.links.model import LinkModel, Machine
from spmd_grid.links.nodes import numbered
from spmd_grid.transport.communicator import Communicator

__all__ = ["kept_or_measured"]

_ERRORS = {each.__name__: each for each in (ShardingError, StorageError)}


def kept_or_measured(comm: Communicator, path: str | PathLike[str] | None) -> LinkModel:
    """The model in the file at ``path``, if there is one; else one that is measured now, and kept there.

    Collective over ``comm``; the same on all members.  Raises as `LinkModel.measure` does.
    """
    _check_alike(comm, None if path is None else os.fspath(path))
    nodes = comm.process.nodes
    near = [nodes[process] for process in comm.processes]
    if path is None:
        return measure_links(comm, near, nodes)
    text = _from_first(comm, lambda: json.dumps(read_record(path)) if Path(path).exists() else "")
    machine = machine_of(comm, near)
    if text:
        model = LinkModel.from_record(json.loads(text), path)
        misfit = _misfit(model, machine, nodes)
        if misfit:
            raise ShardingError(
                f"LinkModel.measure: {Path(path)} does not fit: {misfit}; name another file, remove this one, or take"
                " it as it is by LinkModel.load"
            )
        return model
    model = measure_links(comm, near, nodes)

    def save() -> str:
        model.save(path)
        return ""

    _from_first(comm, save)
    return model


def _misfit(model: LinkModel, machine: Machine, nodes: Sequence[int]) -> str:
    """The properties of a model in a file that differ here; empty where it fits."""
    found = model.machine
    if found is None:
        return "it was not measured"
    if found.library != machine.library:
        return f"it was measured with {found.library}, and this is {machine.library}"
    if found.processor != machine.processor or len(found.hosts) != len(machine.hosts):
        kinds = [f"{len(each.hosts)} nodes with {each.processor} processors" for each in (found, machine)]
        return f"it was measured on {kinds[0]}, and this is on {kinds[1]}"
    families = [sorted({re.sub(r"\d+", "#", host) for host in each.hosts}) for each in (found, machine)]
    if families[0] != families[1]:
        return f"it was measured on {', '.join(found.hosts[:4])}, and this is {', '.join(machine.hosts[:4])}"
    known = len(nodes) if model.nodes is None else len(model.nodes)
    here = numbered(nodes)[0]
    if known != len(nodes) or numbered([model.node_of(process) for process in range(known)])[0] != here:
        there = [model.node_of(process) for process in range(known)]
        return f"its processes are on the nodes {there[:16]}, and here they are on {list(here[:16])}"
    return ""


def _check_alike(comm: Communicator, path: str | None) -> None:
    """Compare the path that all members give.  Collective.  Raises MismatchError."""
    mine = np.frombuffer(blake2b(repr(path).encode(), digest_size=8).digest(), np.uint8)
    received = np.empty(8 * comm.size, np.uint8)
    comm.all_gather(mine, received, [8] * comm.size)
    if len(set(received.view(np.int64).tolist())) > 1:
        raise MismatchError("LinkModel.measure: path differs between processes; all must name the same file, or none")


def _from_first(comm: Communicator, call: Callable[[], str]) -> str:
    """The result of ``call`` on the first member, on all of them; an error there is raised on all."""
    told = ["", ""]
    if comm.rank == 0:
        try:
            told = ["", call()]
        except tuple(_ERRORS.values()) as error:
            told = [type(error).__name__, str(error)]
    data = np.frombuffer(json.dumps(told).encode(), np.uint8).copy()
    length = np.array([len(data)])
    comm.broadcast(length.view(np.uint8), 0)
    data = data if comm.rank == 0 else np.empty(int(length[0]), np.uint8)
    comm.broadcast(data, 0)
    kind, text = json.loads(bytes(data))
    if kind:
        raise _ERRORS[kind](text)
    return text
