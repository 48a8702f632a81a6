"""Protocols made weaker at one place, and whether the search notices: what each order and each wait is there for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from support.protocols.weak_memory import DRAIN, RELEASE, WAIT, Machine, Step, weakened

Programs = Sequence[Sequence[Step]]

READS = "reads"  # some execution reads what it must not, or is stuck
RULES = "rules"  # only the language's rules are broken: accesses that nothing orders
NOTHING = "nothing"

_WEAKER = {RELEASE: ("weak",), WAIT: ("weak", "left out"), DRAIN: ("left out",)}


def weakenings(scenarios: Iterable[Programs]) -> dict[tuple[str, str, str], str]:
    """All ways to weaken the code at one place: (function, kind of step, how), and the line."""
    found: dict[tuple[str, str, str], str] = {}
    for programs in scenarios:
        for step in (step for program in programs for step in program if step.kind in _WEAKER):
            function = step.site.partition(":")[0]
            for how in _WEAKER[step.kind]:
                line = found.setdefault((function, step.kind, how), step.site)
                assert line == step.site, f"{function} has two steps of the kind {step.kind}: tell them apart here"
    return found


def noticed(scenarios: Iterable[Programs], weaken: Callable[[Sequence[Step]], list[Step]]) -> str:
    """The way in which the search notices a weaker protocol: READS, RULES or NOTHING."""
    weaker = [[weaken(program) for program in programs] for programs in scenarios]
    if any(Machine(programs).search().violation for programs in weaker):
        return READS
    return RULES if any(Machine(programs, races=True).search().violation for programs in weaker) else NOTHING


def without(function: str, kind: str, how: str) -> Callable[[Sequence[Step]], list[Step]]:
    """Weakens the steps of a kind in a function."""

    def weaken(program: Sequence[Step]) -> list[Step]:
        sites = {step.site for step in program if step.site.partition(":")[0] == function}
        for site in sites:
            program = weakened(program, site, kind, how)
        return program

    return weaken


def merged(name: str) -> Callable[[Sequence[Step]], list[Step]]:
    """Has what exists twice, for even and odd turns, exist once."""

    def merge(program: Sequence[Step]) -> list[Step]:
        place = re.compile(rf"^({name} \d+)\.[01]")
        return [replace(step, place=step.place and place.sub(r"\1", step.place)) for step in program]

    return merge
