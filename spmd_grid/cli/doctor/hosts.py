"""The checks of a job on several hosts: where its ranks are, what each host gives them, and the links between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from spmd_grid.cli.doctor.verdict import OK, SLOW, Check
from spmd_grid.formatting import bytes_text, count_text, seconds_text, spans

__all__ = ["SAYS_HOW", "of_hosts", "transport_in"]

_MOST_NAMES = 4

# Asks UCX, MPICH and Open MPI to say how they send.
SAYS_HOW = {
    "UCX_LOG_LEVEL": "info",
    "MPIR_CVAR_DEBUG_SUMMARY": "1",
    "OMPI_MCA_btl_base_verbose": "9",
    "OMPI_MCA_pml_base_verbose": "10",
}
_ANSWERS = {
    "UCX": re.compile(r"inter-node cfg#\d+ tag\(([^)]+)\)"),
    "OFI": re.compile(r"libfabric provider: (.+)"),
    "Open MPI": re.compile(r"Using (?!self\b|sm\b|vader\b)(\w+) btl for send"),
}


def of_hosts(found: dict[str, Any], transport: str) -> Iterator[Check]:
    """The checks of what ranks have ``found`` on several hosts; ``transport``: of messages between them.  Local."""
    hosts = found["hosts"]
    yield _of_spread(hosts)
    alike: dict[str, list[dict[str, Any]]] = {}
    for host in hosts:
        facts = [len(host["ranks"]), host["cores"], host["shared"], host["problems"]]
        alike.setdefault(repr(facts), []).append(host)
    for each in alike.values():
        yield _of_equal_hosts(each)
    yield _of_transport(transport, sorted({name for host in hosts for name in host["networks"]}))
    yield from _of_links(found["links"], max(len(host["ranks"]) for host in hosts))


def transport_in(text: str) -> str:
    """The transport between hosts that a library names in the answer to `SAYS_HOW`; empty if it names none.  Local.

    >>> transport_in("ucp_context_0 inter-node cfg#1 tag(tcp/eth0) rma_am(tcp/eth0)")
    'UCX: tcp/eth0'
    >>> transport_in("mca: bml: Using self btl for send to a\\nmca: bml: Using tcp btl for send to b")
    'Open MPI: tcp'
    """
    for library, pattern in _ANSWERS.items():
        answers = sorted(set(pattern.findall(text)))
        if answers:
            return f"{library}: {', '.join(answers)}"
    return ""


def _of_spread(hosts: Sequence[dict[str, Any]]) -> Check:
    """The check of which ranks share a host."""
    shown = [f"{host['name']} (rank{'s' * (len(host['ranks']) > 1)} {spans(host['ranks'])})" for host in hosts]
    value = f"{len(hosts)}: {_listed(shown)}"
    counts = [len(host["ranks"]) for host in hosts]
    most = max(counts)
    if any(host["ranks"][-1] - host["ranks"][0] >= len(host["ranks"]) for host in hosts):
        return Check(
            SLOW, "hosts", value,
            "Neighbouring ranks are on different hosts, so that devices next to each other on the last grid axis are"
            " too, and nearly all messages cross the network. Let the launcher fill one host after the other:"
            f" 'host:{most}' in the host file or -ppn {most} (MPICH), --map-by slot (Open MPI), --distribution=block"
            ' (Slurm). Or let grids number their devices by hosts: init_grid(..., order="auto").',
        )  # fmt: skip
    if most - min(counts) > 1:
        return Check(
            SLOW, "hosts", value,
            f"One host has {count_text(most, 'rank')}, another {min(counts)}: blocks of arrays are equal, so the"
            " fullest host sets the pace. Start the same number of ranks on each.",
        )  # fmt: skip
    return Check(OK, "hosts", value)


def _of_equal_hosts(hosts: Sequence[dict[str, Any]]) -> Check:
    """The check of hosts with equal facts."""
    first = hosts[0]
    n, problems = len(first["ranks"]), first["problems"]
    value = f"{count_text(n, 'rank')}{' each' * (len(hosts) > 1)}, {count_text(first['cores'], 'core')}"
    advice = " ".join(problem["advice"] for problem in problems if problem["advice"])
    if n > 1 and first["shared"]:
        value += f", arrays up to {bytes_text(first['shared'])} a rank are read in place"
    elif n > 1:
        value += ", ranks do not see each other's memory"
        advice = advice or (
            "All data is sent in messages: unset SPMD_GRID_ARENA if it is 0, and let the ranks of a host share a"
            " process namespace: in containers, start one per host rather than one per rank."
        )
    told = [f"{problem['name']}: {problem['value']}" for problem in problems]
    return Check(SLOW if advice else OK, _listed([host["name"] for host in hosts]), "; ".join([value, *told]), advice)


def _of_transport(transport: str, networks: Sequence[str]) -> Check:
    is_slow = bool(networks and re.search(r"\b(tcp|sockets)\b", transport))
    return Check(
        SLOW if is_slow else OK, "network transport", transport or "the MPI library does not name it",
        f"The hosts have a faster network ({', '.join(networks)}): use the MPI library of the cluster, built for it."
        if is_slow else "",
    )  # fmt: skip


def _of_links(links: dict[str, float | None], most: int) -> Iterator[Check]:
    """The links of the measured model; whether they are slow is said of the pings."""

    def told(kind: str) -> str:
        latency, bandwidth = links[f"{kind}_latency"], links[f"{kind}_bandwidth"]
        return f"{seconds_text(latency or 0.0)}, {(bandwidth or 0.0) / 1e9:.3g} GB/s"

    if most > 1:
        yield Check(OK, "links within hosts", told("node"))
    cable = links["cable_bandwidth"]
    together = f" by one rank, {cable / 1e9:.3g} GB/s by all of a host" if cable and most > 1 else ""
    yield Check(OK, "links between hosts", told("network") + together)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
