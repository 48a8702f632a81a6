"""Processes that wait for one another in different groups: each gets an error that names them, and no other does."""

import random
from collections import Counter, deque

import pytest
from support.jobs import of_mpi, run_job

# -- the search by itself -----------------------------------------------------------------------------------------


@pytest.fixture
def search_module(monkeypatch):
    """The module of the search, where other tests' threads do not count as threads of the program."""
    module = of_mpi("liveness.standstill")
    monkeypatch.setattr(module, "_others_may_operate", lambda: False)
    return module


class Rank:
    """A process that meets in one group after the other, in the order of its program."""

    def __init__(self, module, rank, program, links, found):
        self.rank, self.program, self.entered = rank, deque(program), Counter()
        self.waiting = None
        self.standstill = module.Standstill(
            rank,
            lambda message, other: links[rank, other].append(of_mpi("liveness.messages").bytes_of(message)),
            lambda departure: departure.entered.update(self.entered),
            lambda: self.waiting,
            lambda: f"rank {rank}",
            found.append,
        )

    def step(self, ranks):
        """Begins the next meeting, or leaves the present one if all have come."""
        if self.waiting is None and self.program:
            group = self.program.popleft()
            self.entered[group] += 1
            self.waiting = Meeting(group, self.entered[group])
        elif self.waiting is not None and self.waiting.is_over(ranks):
            self.waiting = None


class Meeting:
    for_message = False

    def __init__(self, group, number):
        self.group, self.number = group, number

    def is_over(self, ranks):
        return all(ranks[member].entered[self.group] >= self.number for member in self.group)

    def ended_partner(self, departed):
        return of_mpi("liveness.departure").absent_member(self.group, self.number, departed)

    def awaited(self):
        return self.group


@pytest.mark.parametrize("seed", range(60))
def test_an_error_comes_if_and_only_if_processes_wait_in_a_circle(search_module, seed, monkeypatch):
    """Random programs in random order; messages arrive late, but those between two processes in their order."""
    module, choose = search_module, random.Random(seed)
    for name in ("_ASKED_AFTER", "_ASKED_AGAIN", "_SETTLED"):
        monkeypatch.setattr(module, name, -1.0)  # the least patience: even so nothing wrong may be said
    size = choose.randint(2, 6)
    groups = [tuple(sorted(choose.sample(range(size), choose.randint(2, size)))) for _ in range(4)]
    calls = [choose.choice(groups) for _ in range(30)]
    programs = [[group for group in calls if rank in group] for rank in range(size)]
    if seed % 3:  # one process has it otherwise
        odd = choose.choice([program for program in programs if program])
        i = choose.randrange(len(odd))
        odd[i:] = odd[i:][::-1]
    links, found = {(a, b): deque() for a in range(size) for b in range(size)}, []
    ranks = [Rank(module, rank, program, links, found) for rank, program in enumerate(programs)]
    for _ in range(6000):
        rank = choose.choice(ranks)
        rank.step(ranks)
        if choose.random() < 0.5:
            rank.standstill.look()
        for _ in range(6):  # each look may send several
            on_their_way = [item for item in links.items() if item[1]]
            if on_their_way:
                (source, target), messages = choose.choice(on_their_way)
                message = of_mpi("liveness.messages").message_of(messages.popleft(), source, size)
                ranks[target].standstill.receive(source, message)
        if found:
            break
    waits = [rank.waiting for rank in ranks if rank.waiting is not None and not rank.waiting.is_over(ranks)]
    if found:  # those of the chain wait, each for the next, which will never come
        members = [link.rank for link in found[0]]
        for member, awaited in zip(members, members[1:] + members[:1], strict=True):
            wait = ranks[member].waiting
            assert wait is not None and awaited in wait.group
            assert ranks[awaited].entered[wait.group] < wait.number
        assert members[0] == min(members)
    else:
        assert not waits or any(rank.waiting is None and not rank.program for rank in ranks)  # one has ended
        if seed % 3 == 0:
            assert not waits


def test_many_partners_are_asked_by_turns(search_module):
    asked = []
    waiting = Meeting(tuple(range(100)), 1)
    search = search_module.Standstill(
        5, lambda message, other: asked.append(other), lambda stock: None, lambda: waiting, str, asked.append
    )
    search.look()
    for _ in range(4):
        search._ask()
    assert set(asked) == set(range(100)) - {5} and len(asked) <= 4 * 32


# -- whole jobs -------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import spmd_grid as sg
from mpi4py import MPI

way, odd = sys.argv[1], int(sys.argv[2])
grid = sg.init_grid((2, 2), timeout=100)
before, after = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[0], []])
plan = sg.plan_reshard(before, after, (8, 8), "float64")
halo = sg.HaloExchange(grid, sg.Sharding(grid, [[0], []], halo_sizes=[1, 1]), (8, 8), "f8", periodic=True)
bound = plan.bind(grid)
OPERATIONS = {
    "run_plan": lambda: sg.run_plan(plan, np.ones((4, 4)), grid),
    "bound plan": lambda: bound.run(np.ones((4, 4))),
    "all_reduce": lambda: sg.all_reduce(np.ones(1), grid, [0, 1], "sum"),
    "large all_reduce": lambda: sg.all_reduce(np.ones(1 << 16), grid, [0, 1], "sum"),
    "column": lambda: sg.all_gather(np.ones(1), grid, [0], 0),
    "row": lambda: sg.all_gather(np.ones(1), grid, [1], 0),
    "started": lambda: sg.all_gather.start(np.ones(1), grid, [0, 1], 0).wait(),
    "recv": lambda: sg.recv(grid, [0, 1], [1 - grid.coords[0], 1 - grid.coords[1]]),
    "halo": lambda: halo.update(np.ones((6, 8))),
    "reshard of a pair": lambda: sg.reshard(np.ones((4, 4)), before, after, grid, (8, 8)),
}
first, second = (OPERATIONS[name] for name in way.split(", "))
for _ in range(5):
    for name in way.split(", "):
        if name != "recv":
            OPERATIONS[name]()
MPI.COMM_WORLD.Barrier()  # an operation raises at its end if another process has found a standstill by then
try:
    for operation in (first, second) if grid.rank != odd else (second, first):
        operation()
except (sg.MismatchError, sg.DeadlockError) as error:
    try:
        OPERATIONS["all_reduce"]()
    except type(error) as again:
        assert str(again) == str(error)
        print(f"{type(error).__name__}\\n{error}\\n" if grid.rank == 0 else "alike\\n", end="", flush=True)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("standstill") / "app.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("odd", [0, 3])
@pytest.mark.parametrize(
    ("way", "nodes", "error"),
    [
        ("run_plan, all_reduce", "2", "MismatchError\nprocesses wait for one another in different groups"),
        pytest.param("run_plan, all_reduce", "1", "MismatchError\n", marks=pytest.mark.full),
        pytest.param("bound plan, large all_reduce", "2", "MismatchError\n", marks=pytest.mark.full),
        pytest.param("run_plan, started", "2", "MismatchError\n", marks=pytest.mark.full),
        pytest.param("halo, all_reduce", "2", "MismatchError\n", marks=pytest.mark.full),
        pytest.param("halo, all_reduce", "4", "MismatchError\n", marks=pytest.mark.full),
        ("recv, all_reduce", "2", "DeadlockError\nprocesses wait for one another, so that none can go on"),
    ],
)
def test_operations_of_different_groups_in_another_order(program, way, nodes, error, odd):
    """Without the search they would wait until the limit, and without a limit for ever."""
    job = run_job("mpiexec", 4, program, way, str(odd), environment={"SPMD_GRID_RANKS_PER_NODE": nodes})
    assert job.code == 0, job
    assert error in job.out and job.out.count("alike") == 3, job
    shown = [line for line in job.out.splitlines() if line.startswith("  rank ")]
    assert len(shown) >= 2 and all(", waits for rank " in line and " at app.py:" in line for line in shown), job


@pytest.mark.parametrize("odd", [0, 3])
def test_an_order_that_ends_well_is_no_error(program, odd):
    """One process alone gathers along its row before its column, and the others wait, but not for one another."""
    job = run_job("mpiexec", 4, program, "column, row", str(odd), environment={"SPMD_GRID_RANKS_PER_NODE": "2"})
    assert not job.out, job
