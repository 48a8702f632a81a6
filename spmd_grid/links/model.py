"""The model of the links between processes: what a message costs within a node, between nodes, and in a crowd.

A message keeps its sender and its receiver busy for some time, whatever its size, travels for the latency, and passes a
link at its bandwidth (the LogGP model: Alexandrov, Ionescu, Schauser and Scheiman, "LogGP: Incorporating long messages
into the LogP model", 1995).  Messages to several processes travel at the same time: a round of them waits for the
latency once.  Two links are shared: the *cable* of a node by all its processes that send to other nodes, and its memory
*bus* by all that copy:

    node 0   p0 ==.            p0, p1: up to `network_bandwidth` each way, together up to `cable_bandwidth`
             p1 ==+== cable ==~~ network ~~== cable ==+== p2    node 1
             bus               copies: up to `node_bandwidth`, of all together up to `bus_bandwidth`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from spmd_grid.errors import ShardingError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.files import read_record, write_record
from spmd_grid.links.nodes import axis_stays_within_nodes, is_one_node, numbered

__all__ = ["Link", "LinkModel", "Machine"]


_Axes: TypeAlias = Sequence[tuple[int, float, float]] | Mapping[int, tuple[float, float]]
_Copies: TypeAlias = Sequence[tuple[float, float]]

_BANDWIDTH = "bytes per second, more than 0"
_RULES = {
    "node_latency": "seconds, from 0",
    "step_seconds": "seconds, from 0",
    "node_bandwidth": _BANDWIDTH,
    "network_latency": "seconds, from 0",
    "network_bandwidth": _BANDWIDTH,
    "memory_bandwidth": _BANDWIDTH,
    "message_seconds": "seconds, from 0",
    "call_seconds": "seconds, from 0",
    "wake_seconds": "seconds, from 0",
    "cable_bandwidth": _BANDWIDTH,
    "bus_bandwidth": _BANDWIDTH,
    "one_way": "times as fast as bytes that go both ways, at least 1",
    "process_one_way": "times as fast as bytes that go both ways, at least 1",
    "taper": "cables whose bytes share the bandwidth of one in the network's core, at least 1",
}
_OPTIONAL = "cable_bandwidth", "bus_bandwidth", "step_seconds"


class Link(NamedTuple):
    """The pace of one process's messages: seconds, bytes per second, and whether they stay within a node."""

    latency: float
    bandwidth: float
    in_node: bool


class Machine(NamedTuple):
    """The machine that a model was measured on: one host's name per node, its kind of processor, the MPI library."""

    hosts: tuple[str, ...]
    processor: str
    library: str


class _Measures(Protocol):
    def measured_links(self, path: str | PathLike[str] | None) -> LinkModel: ...


@dataclass(frozen=True)
class LinkModel:
    """The speed of the links between processes: seconds per message, and bytes per second to or from one process.

    Local; a value.  ``node_...`` holds within a node, ``network_...`` between nodes, ``memory_bandwidth`` for copies in
    a process's own memory.  ``copies`` lists (bytes, bytes per second): how fast copies are in runs that touch this
    number of bytes, which caches hold; ``alone_copies`` the same of a process that waits for no other one (empty: the
    same).
    ``run_copies``, ``alone_run_copies``: the same where they go run by run, of 4 KiB each (empty: the same).
    ``message_seconds`` is the time that a message keeps its process busy, ``call_seconds`` that of an operation's
    Python code, ``wake_seconds`` what a process that waited for another node takes to go on.  ``cable_bandwidth``
    bounds what all processes of a node send to other nodes together while they receive as much; ``bus_bandwidth`` what
    they copy from one another; None: no process slows another down.  ``one_way``, ``process_one_way``: by what factor
    the bytes of a node, and of one process, are faster that all go one way, where processors are the limit.
    ``taper``: where the core of the network is narrower than all cables together, by what factor.  ``own_cores``:
    whether each process has a core of its own; then small messages do not wait for one another.

    ``node_size`` consecutive processes share a node; else ``nodes`` lists the node of every process.  ``axes``
    overrides (latency, bandwidth) by number of a grid axis.  The slowest axis that a step crosses determines its pace.
    ``machine``: where the model was measured; models that differ in it alone are equal.

    The defaults are typical of servers with a network of 100 Gbit/s, and put each process on a node of its own.  They
    serve to compare ways, not to predict times; `measure` makes a model that predicts.  Raises ShardingError.

    >>> LinkModel(node_size=4, axes={1: (1e-6, 5e9), 0: (1e-6, 2e9)}).axes
    ((0, 1e-06, 2000000000.0), (1, 1e-06, 5000000000.0))
    >>> LinkModel(nodes=[7, 7, 5, 5]) == LinkModel(node_size=2), LinkModel(nodes=[0, 1, 0, 1]).nodes
    (True, (0, 1, 0, 1))
    """

    node_latency: float = 0.5e-6
    step_seconds: float | None = None
    node_bandwidth: float = 5e9
    network_latency: float = 2e-6
    network_bandwidth: float = 12.5e9
    memory_bandwidth: float = 10e9
    copies: _Copies = ()
    alone_copies: _Copies = ()
    run_copies: _Copies = ()
    alone_run_copies: _Copies = ()
    node_size: int = 1
    axes: _Axes = ()
    message_seconds: float = 0.5e-6
    call_seconds: float = 0.0
    wake_seconds: float = 0.0
    cable_bandwidth: float | None = None
    bus_bandwidth: float | None = None
    one_way: float = 1.0
    process_one_way: float = 1.0
    taper: float = 1.0
    own_cores: bool = False
    nodes: tuple[int, ...] | None = None
    machine: Machine | None = field(default=None, compare=False, repr=False)

    if TYPE_CHECKING:  # what callers may pass; the fields hold tuples

        def __init__(
            self,
            node_latency: float = ...,
            step_seconds: float | None = ...,
            node_bandwidth: float = ...,
            network_latency: float = ...,
            network_bandwidth: float = ...,
            memory_bandwidth: float = ...,
            copies: _Copies = ...,
            alone_copies: _Copies = ...,
            run_copies: _Copies = ...,
            alone_run_copies: _Copies = ...,
            node_size: int = ...,
            axes: _Axes = ...,
            message_seconds: float = ...,
            call_seconds: float = ...,
            wake_seconds: float = ...,
            cable_bandwidth: float | None = ...,
            bus_bandwidth: float | None = ...,
            one_way: float = ...,
            process_one_way: float = ...,
            taper: float = ...,
            own_cores: bool = ...,
            nodes: Sequence[int] | None = ...,
            machine: Machine | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, rule in _RULES.items():
            value, least = getattr(self, name), 1 if name in ("taper", "one_way", "process_one_way") else 0
            if value is None and name in _OPTIONAL:
                continue
            if not _is_number(value) or value < least or (value == 0 and "bandwidth" in name):
                raise ShardingError(f"links: {name} is {value!r}; it must be a number of {rule}")
        if not isinstance(self.own_cores, bool):
            raise ShardingError(f"links: own_cores is {self.own_cores!r}; it must be True or False")
        if (as_ints((self.node_size,)) or (0,))[0] < 1:
            raise ShardingError(f"links: node_size is {self.node_size!r}; it must be a number of processes, at least 1")
        object.__setattr__(self, "axes", _check_axes(self.axes))
        for name in ("copies", "alone_copies", "run_copies", "alone_run_copies"):
            object.__setattr__(self, name, _check_copies(name, getattr(self, name)))
        if self.nodes is not None:
            self._set_nodes(as_ints(self.nodes))

    def _set_nodes(self, nodes: tuple[int, ...] | None) -> None:
        """Keeps the node of every process; ``node_size`` says it where as many consecutive processes share each."""
        if not nodes:
            raise ShardingError(f"links: nodes is {self.nodes!r}; it must list the number of every process's node")
        if self.node_size != 1:
            raise ShardingError(f"links: node_size is {self.node_size!r} and nodes is given; only one may be")
        found, size = numbered(nodes)
        object.__setattr__(self, "nodes", None if size else found)
        object.__setattr__(self, "node_size", size or 1)

    # -- measured models -------------------------------------------------------------------------------------------

    @classmethod
    def measure(cls, grid: _Measures, path: str | PathLike[str] | None = None) -> LinkModel:
        """The model of the links between the processes of ``grid``, measured in 3 to 6 seconds.

        Collective over the grid; the same model on every process.  It measures what one process and what all processes
        of a node achieve: latency and bandwidth within nodes and between them, copies in memory, messages in a row.
        ``path``: a file from which the model is read if it exists, and to which it is written if not, both by the
        grid's first process.  Raises, the same on every process, ShardingError where the file holds the model of a
        machine with other hosts, another MPI library or other processes on its nodes, StorageError where it cannot be
        read or written, and MismatchError where processes name different files.

        >>> import spmd_grid as sg
        >>> found = sg.run_spmd(lambda: LinkModel.measure(sg.init_grid((3,))), ranks=3)
        >>> found[0] == found[2], found[0].node_size
        (True, 3)
        """
        measured_links = getattr(grid, "measured_links", None)
        if measured_links is None:
            raise ShardingError(f"LinkModel.measure: grid is {grid!r}; it must be a grid bound to processes")
        return measured_links(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LinkModel:
        """The model in a file that `save` or `measure` has written.

        Local.  Raises StorageError where the file cannot be read, ShardingError where it holds no model.
        """
        return cls.from_record(read_record(path), path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, as JSON.

        Local: one process should call it.  The file is replaced at once or not at all.  Raises StorageError.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     LinkModel(node_size=8).save(f"{folder}/links.json")
        ...     LinkModel.load(f"{folder}/links.json").node_size
        8
        """
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        machine = None if self.machine is None else self.machine._asdict()
        write_record(path, {"machine": machine, "model": values})

    @classmethod
    def from_record(cls, record: Mapping[str, object], path: str | PathLike[str]) -> LinkModel:
        """The model in a record, read from ``path``.  Local.  Raises ShardingError."""
        values, machine = record.get("model"), record.get("machine")
        names = [each.name for each in fields(cls) if each.compare]
        if not isinstance(values, dict) or sorted(values) != sorted(names):
            raise ShardingError(f"links: {Path(path)} has no model with the entries {', '.join(names)}")
        try:
            where = None
            if isinstance(machine, dict):
                where = Machine(tuple(map(str, machine["hosts"])), str(machine["processor"]), str(machine["library"]))
            if values["nodes"] is not None:
                values = values | {"node_size": 1}
            return cls(**values, machine=where)
        except (ShardingError, KeyError, TypeError) as error:
            raise ShardingError(f"links: {Path(path)} holds no model: {error}") from None

    # -- the links of a step ---------------------------------------------------------------------------------------

    def between(self, grid: Grid, axes: Iterable[int]) -> Link:
        """The slowest link along ``axes``, for one process.  Local."""
        overrides = cast("tuple[tuple[int, float, float], ...]", self.axes)  # as `_check_axes` makes them
        special = {axis: Link(latency, bandwidth, in_node=False) for axis, latency, bandwidth in overrides}
        links = [special.get(axis) or self.link(self.is_within_nodes(grid, axis)) for axis in axes]
        return Link(
            max((link.latency for link in links), default=0.0),
            min((link.bandwidth for link in links), default=inf),
            all(link.in_node for link in links),
        )

    def link(self, in_node: bool) -> Link:
        """The link within a node, or that between nodes, for one process.  Local."""
        if in_node:
            return Link(self.node_latency, self.node_bandwidth, True)
        return Link(self.network_latency, self.network_bandwidth, False)

    def is_within_nodes(self, grid: Grid, axis: int) -> bool:
        """Whether processes that differ on ``axis`` alone share a node.  Local."""
        self.check_covers(grid)
        return axis_stays_within_nodes(grid, axis, self.node_size, self.nodes)

    def is_one_node(self, *grids: Grid) -> bool:
        """Whether all processes of ``grids`` share one node.  Local."""
        for grid in grids:
            self.check_covers(grid)
        return is_one_node(grids, self.node_size, self.nodes)

    def node_of(self, process: int) -> int:
        """The node of a process.  Local."""
        return process // self.node_size if self.nodes is None else self.nodes[process]

    @cached_property
    def shares_nodes(self) -> bool:
        """Whether any two processes share a node."""
        return self.node_size > 1 or self.nodes is not None

    @property
    def step(self) -> float:
        """Seconds of each further wait for the others of a node; of a meeting, where the model does not say it."""
        return self.node_latency if self.step_seconds is None else self.step_seconds

    @property
    def cable(self) -> float:
        """Bytes per second that all processes of a node send to other nodes together; infinite where not bounded."""
        return inf if self.cable_bandwidth is None else self.cable_bandwidth / self.taper

    @property
    def bus(self) -> float:
        """Bytes per second that all processes of a node copy from one another together; infinite where not bounded."""
        return self.bus_bandwidth or inf

    def check_covers(self, grid: Grid) -> None:
        """Refuse a grid with processes of which ``nodes`` says nothing.  Local.  Raises ShardingError."""
        if self.nodes is not None:
            last = max(grid.ranks) if grid.ranks else grid.size - 1
            if last >= len(self.nodes):
                raise ShardingError(
                    f"links: nodes lists {len(self.nodes)} processes; the grid {grid} has process {last}"
                )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _check_axes(axes: _Axes) -> tuple[tuple[int, float, float], ...]:
    """The ``axes`` of a link model as sorted (axis, latency, bandwidth)."""
    rule = "it must map numbers of grid axes to (seconds from 0, bytes per second more than 0)"
    try:
        rows = [(axis, *link) for axis, link in axes.items()] if isinstance(axes, Mapping) else list(map(tuple, axes))
        checked = sorted((axis, float(latency), float(bandwidth)) for axis, latency, bandwidth in rows)
    except (TypeError, ValueError):
        raise ShardingError(f"links: axes is {axes!r}; {rule}") from None
    numbers = as_ints([axis for axis, _, _ in checked])
    if numbers is None or len(set(numbers)) < len(numbers) or min(numbers, default=0) < 0:
        raise ShardingError(f"links: axes is {axes!r}; {rule}")
    if not all(latency >= 0 and bandwidth > 0 for _, latency, bandwidth in checked):
        raise ShardingError(f"links: axes is {axes!r}; {rule}")
    return tuple([(number, latency, bandwidth) for number, (_, latency, bandwidth) in zip(numbers, checked)])


def _check_copies(name: str, copies: _Copies) -> tuple[tuple[float, float], ...]:
    """The paces of copies by the bytes that runs touch, as tuples.  Raises ShardingError."""
    try:
        checked = tuple([(touched, bandwidth) for touched, bandwidth in copies])
    except (TypeError, ValueError):
        checked = ((0, 0),)
    numbers = all(_is_number(value) and value > 0 for pair in checked for value in pair)
    if not numbers or any(one[0] >= other[0] for one, other in zip(checked, checked[1:])):
        rule = "it must list (bytes, bytes per second), all more than 0, in the order of the bytes"
        raise ShardingError(f"links: {name} is {copies!r}; {rule}")
    return checked
