"""The options of `scripts/cluster`."""

from __future__ import annotations

import argparse
import os
import re
import signal
from dataclasses import dataclass, field

__all__ = ["Options", "read_options"]

_MOST_NODES = 64
_ACTIONS = ("link-down", "link-up", "kill-node", "power-off", "freeze", "thaw", "on")  # on a node

_DESCRIPTION = """\
Runs MPI programs on several hosts that are made of namespaces inside this machine (Linux; root, or user namespaces).

  run    COMMAND under mpiexec, on the ranks of all nodes:  scripts/cluster run -n 4 --nodes 2 -- python app.py
  exec   COMMAND on node0, where a plain mpiexec reaches all nodes:  scripts/cluster exec -- python -m spmd_grid doctor
  check  whether this machine permits it

Each node has a network, host name, processes, /proc, /dev/shm, System V memory, folder for temporary files and clocks
since boot of its own, and its share of the cores.  Other files are those of this machine.  The nodes are node0, node1,
... at 10.99.0.1, 10.99.0.2, ...; nothing leads out of their network.  When this command ends, nothing is left."""

_EPILOG = """\
--at WHEN ACTION    WHEN: seconds since the start; or a text of the output; or TEXT+SECONDS after it first appears.
                    ACTION: 'link-down N', 'link-up N' (the cable of node N), 'kill-node N' (its processes die, its
                    connections are closed), 'power-off N' (link down, then killed), 'freeze N', 'thaw N' (stop all
                    its processes, let them go on), 'on N COMMAND' (a shell command there), 'signal NAME' (to COMMAND)

The exit code is the command's; 124: it reached --limit; 2: it could not be started."""


@dataclass
class Options:
    """The options of a command.  ``ranks``: by node."""

    action: str
    command: list[str]
    ranks: list[int]
    latency: float  # seconds
    rate: float  # bytes per second; 0: no limit
    is_cyclic: bool
    mpi: str | None
    shares_cores: bool
    private: list[str]
    setup: list[tuple[int, str]]
    events: list[tuple[str, str]]
    limit: float
    settle: float
    shows_times: bool
    shows_leftovers: bool
    cores: list[int] = field(default_factory=list)  # of this machine, that may be used

    @property
    def nodes(self) -> range:
        return range(len(self.ranks))


def read_options(words: list[str]) -> Options:
    """Ends the program with a message if ``words`` make no sense."""
    at = words.index("--") if "--" in words else len(words)
    parser = _parser()
    given = parser.parse_args(words[:at])
    command = words[at + 1 :]
    if given.action == "check":
        command = ["true"]
    elif not command:
        parser.error("a command must follow '--'")
    if given.ranks_per_node:
        ranks = given.ranks_per_node
        if given.nodes not in (None, len(ranks)):
            parser.error(f"--ranks-per-node is for {len(ranks)} nodes, --nodes is {given.nodes}")
        if given.n not in (None, sum(ranks)):
            parser.error(f"--ranks-per-node is for {sum(ranks)} ranks, -n is {given.n}")
    else:
        nodes = 2 if given.nodes is None else given.nodes
        n = 2 * nodes if given.n is None else given.n
        if nodes < 1:
            parser.error(f"--nodes is {nodes}; it must be 1 to {_MOST_NODES}")
        if n < nodes:
            parser.error(f"-n is {n}; it must be at least the number of nodes, {nodes}")
        ranks = [n * (i + 1) // nodes - n * i // nodes for i in range(nodes)][::-1]
    if not 1 <= len(ranks) <= _MOST_NODES or min(ranks) < 1:
        parser.error(f"there must be 1 to {_MOST_NODES} nodes with a rank or more each")
    if given.map == "cyclic" and len(set(ranks)) > 1:
        parser.error("--map cyclic wants the same number of ranks on every node")
    setup = [(_node(parser, "--setup", node, ranks), command) for node, command in given.setup]
    for _, action in given.at:
        _check_action(parser, action, ranks)
    for folder in given.private:
        if not os.path.isdir(folder):
            parser.error(f"--private is {folder!r}; there is no such folder")
    return Options(
        given.action, command, ranks, given.latency, given.rate, given.map == "cyclic", given.mpi, not given.all_cores,
        given.private, setup, given.at, given.limit, given.settle, given.times, given.leftovers,
    )  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "scripts/cluster",
        usage="scripts/cluster {run,exec,check} [options] -- COMMAND ...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["run", "exec", "check"], help=argparse.SUPPRESS)
    parser.add_argument("-n", type=int, help="ranks of all nodes together (two per node)")
    parser.add_argument("--nodes", type=int, help="nodes (2)")
    parser.add_argument("--ranks-per-node", type=_counts, metavar="N,N", help="ranks of each node, such as 3,1")
    parser.add_argument("--map", choices=["block", "cyclic"], default="block",
                        help="neighbouring ranks share a node (block), or are on different ones")  # fmt: skip
    parser.add_argument("--mpi", choices=["mpich", "openmpi"], help="the library (that of the mpiexec in PATH)")
    parser.add_argument("--latency", type=_seconds, default=0.0, metavar="TIME", help="between nodes, such as 100us")
    parser.add_argument("--rate", type=_rate, default=0.0, metavar="RATE", help="of each node's cable, such as 1gbit")
    parser.add_argument("--all-cores", action="store_true", help="each node may use all cores, in place of its share")
    parser.add_argument("--private", action="append", default=[], metavar="DIR", help="a folder that each node has"
                        " empty and for itself, such as /tmp")  # fmt: skip
    parser.add_argument("--setup", nargs=2, action="append", default=[], metavar=("N", "COMMAND"),
                        help="a shell command, on node N before the start")  # fmt: skip
    parser.add_argument("--at", nargs=2, action="append", default=[], metavar=("WHEN", "ACTION"), help="see below")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="then all is ended (600)")
    parser.add_argument("--settle", type=float, default=3.0, metavar="SECONDS", help="time for --leftovers to go (3)")
    parser.add_argument("--times", action="store_true", help="begin each line with the seconds since the start")
    parser.add_argument("--leftovers", action="store_true", help="at the end list what is left on each node")
    return parser


def _node(parser: argparse.ArgumentParser, option: str, text: str, ranks: list[int]) -> int:
    if not text.isdigit() or int(text) >= len(ranks):
        parser.error(f"{option} is for node {text!r}; there are nodes 0 to {len(ranks) - 1}")
    return int(text)


def _check_action(parser: argparse.ArgumentParser, action: str, ranks: list[int]) -> None:
    """An action with a typing error must not be found when it is due, hours later."""
    verb, what, rest = [*action.split(maxsplit=2), "", "", ""][:3]
    if verb == "signal" and hasattr(signal, f"SIG{what.removeprefix('SIG')}") and not rest:
        return
    if verb not in _ACTIONS or (verb == "on") != bool(rest):
        parser.error(f"--at: {action!r} is no action; see --help")
    _node(parser, f"--at: {action!r}", what, ranks)


def _counts(text: str) -> list[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 3,1")
    return [int(word) for word in text.split(",")]


def _seconds(text: str) -> float:
    return _quantity(text, r"us|ms|s", {"us": 1e-6, "ms": 1e-3, "s": 1.0})


def _rate(text: str) -> float:
    return _quantity(text, r"kbit|mbit|gbit", {"kbit": 1e3 / 8, "mbit": 1e6 / 8, "gbit": 1e9 / 8})


def _quantity(text: str, units: str, factors: dict[str, float]) -> float:
    found = re.fullmatch(rf"(\d+\.?\d*)({units})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number with one of the units {units.replace('|', ', ')}")
    return float(found[1]) * factors[found[2]]
