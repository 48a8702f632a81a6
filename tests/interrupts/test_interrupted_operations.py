"""An exception that comes in the middle of an operation and is caught: the processes go on rightly, or all are told.

A rank is interrupted in one round of an operation, at every event or at a sample of them, and goes on with the next
rounds.  No round may give anything but its own result.
"""

from contextlib import nullcontext

import learned_rounds
import numpy as np
import pytest
import rounds
from support.interrupting import Events, Interrupt, TimeLimit

import spmd_grid as sg

# What Python itself ignores: an exception that comes in a destructor.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

RANKS = 3
ROUNDS = range(5)
OPERATIONS = [
    rounds.small_all_reduce,
    rounds.large_all_reduce,
    rounds.plain_all_to_all,
    rounds.reduce_at_root,
    rounds.started,
    rounds.planned,
    rounds.send_and_receive,
    rounds.halo_update,
    rounds.compiled_loop,
    rounds.halo_in_parts,
    rounds.update_halo,
    rounds.overlap,
    rounds.first_resharding,
    rounds.resharding,
    rounds.partitioned_program,
    rounds.cell_sums,
    rounds.new_groups_and_plans,
]
# What only processes do: small operations and halos that are one compiled function, and relays.
OF_PROCESSES = [
    learned_rounds.learned_call,
    learned_rounds.learned_plan,
    learned_rounds.learned_start,
    learned_rounds.learned_halo,
    learned_rounds.relayed_fold,
    learned_rounds.relayed_boxes,
    learned_rounds.relayed_partial_sums,
    learned_rounds.learned_resharding,
]
# Of these every bytecode is a place, of the others every line.
BY_BYTECODE = [rounds.small_all_reduce, rounds.planned, rounds.halo_update]
# Events tried: on simulated ranks by default (with --full all), under MPI with --full, and under MPI by default.
TRIALS, TRIALS_UNDER_MPI, FEW_UNDER_MPI = 25, 60, 5
ATTEMPTS_UNDER_MPI = 5
SEED = 20  # of the order in which simulated ranks take turns


def outcomes(make, n, kind, opcodes=False, comm=None):
    """(what came of it, text) for each round on this rank; and the number of events in the one that is interrupted."""
    grid = sg.init_grid((RANKS,), comm=comm)
    events = Events(n if grid.rank == 1 else None, kind, opcodes)
    found, run = [], None
    for k in ROUNDS:
        try:
            run = run or make(grid)
            with events.watch() if k == rounds.INTERRUPTED else nullcontext():
                result, wanted = run(k)
            found.append(("right", "") if result == wanted else ("wrong", f"round {k}: {result}, not {wanted}"))
        except sg.CutOffError as error:
            found.append(("refused", str(error)))
        except (Interrupt, TimeLimit) as error:
            found.append(("interrupted", str(error)))
        except sg.TransportError as error:  # the exception came at the entry of a callback, where nobody can catch it
            found.append(("interrupted" if error.cuts_off else "wrong", str(error)))
        except sg.SpmdError as error:  # made of an exception in the operation's own preparations, and told to all
            found.append(("told" if kind.__name__ in str(error) else "wrong", str(error)))
    return found, events.count


def outcomes_on_new_communicators(make, places, kind, opcodes):
    """As `outcomes`, one after the other: what is cut off under MPI are the processes of one communicator."""
    MPI = pytest.importorskip("mpi4py.MPI")
    members = MPI.COMM_WORLD.Get_group().Incl(range(RANKS))
    found = []
    for n in places:
        comm = MPI.COMM_WORLD.Create_group(members)
        found.append(outcomes(make, n, kind, opcodes, comm))
        comm.Free()
    return found


def check(by_rank, n):
    """Nothing but right results and one error.

    Who was refused is refused from then on; so is who was interrupted, unless the operation was over.  Then the next
    one may tell all that it failed on one process.
    """
    found = [each for each, _ in by_rank]
    anybody_refused = any(came == "refused" for each in found for came, _ in each)
    assert not [text for each in found for came, text in each if came == "wrong"], (n, found)
    assert len({text for each in found for came, text in each if came == "refused"}) <= 1, (n, found)
    for each in found:
        came = [came for came, _ in each]
        if "interrupted" in came or "refused" in came:
            first = min(came.index(what) for what in ("interrupted", "refused") if what in came)
            later = {"refused"} if anybody_refused else {"right", "told"}
            assert set(came[first + 1 :]) <= later, (n, found)
    assert len({each[-1][0] == "right" for each in found}) == 1, (n, found)


@pytest.mark.one_in_by_size(3)
@pytest.mark.parametrize("kind", [Interrupt, TimeLimit])
@pytest.mark.parametrize("make", OPERATIONS, ids=lambda make: make.__name__)
def test_interrupted(spmd, request, make, kind):
    full = request.config.getoption("full")
    opcodes = kind is TimeLimit and make in BY_BYTECODE
    if request.config.getoption("with_mpi", default=False):
        check_under_mpi(spmd, make, kind, opcodes, full)
    else:
        # What is loaded at a first use is no event of the operation; with a seed, the others come in the same order.
        spmd(RANKS, outcomes, make, None, kind, opcodes, seed=SEED)
        _, events = spmd(RANKS, outcomes, make, None, kind, opcodes, seed=SEED)[1]
        places = range(events) if full else sorted({*sample(events, TRIALS), *ends(events)})
        trials = [spmd(RANKS, outcomes, make, n, kind, opcodes, seed=SEED) for n in places]
        assert check_places(places, trials), "nothing was ever cut off"


@pytest.mark.one_in_by_size(3)
@pytest.mark.parametrize("kind", [Interrupt, TimeLimit])
@pytest.mark.parametrize("make", OF_PROCESSES, ids=lambda make: make.__name__)
def test_interrupted_processes(spmd, request, make, kind):
    if not request.config.getoption("with_mpi", default=False):
        pytest.skip("simulated ranks share objects: Python makes all of their operations")
    full = request.config.getoption("full")
    check_under_mpi(spmd, make, kind, kind is TimeLimit, full)


def check_under_mpi(spmd, make, kind, opcodes, full):
    """Interrupts rank 1 at some places, until one has cut an operation off: waits have events by chance."""
    for _ in range(ATTEMPTS_UNDER_MPI):
        (_, events), *_ = spmd(RANKS, outcomes_on_new_communicators, make, [None], kind, opcodes)[1]
        places = sample(events, TRIALS_UNDER_MPI if full else FEW_UNDER_MPI)
        by_rank = spmd(RANKS, outcomes_on_new_communicators, make, places, kind, opcodes)
        if check_places(places, list(zip(*by_rank, strict=True))):
            return
    pytest.fail("nothing was ever cut off")


def check_places(places, trials):
    """Checks all outcomes; gives the places at which an operation was cut off."""
    assert len(places) > 1
    for n, by_rank in zip(places, trials, strict=True):
        check(by_rank, n)
    return [n for n, by_rank in zip(places, trials, strict=True) if by_rank[0][0][-1][0] == "refused"]


def sample(events, count):
    """About ``count`` of so many events, the first ones among them."""
    return sorted({*range(0, min(events, 12), 4), *range(12, events, max(events // count, 1))})


def ends(events):
    """More of the first and the last events, where operations begin and end."""
    return {*range(0, min(events, 20), 3), *range(max(events - 12, 0), events, 3)}


def waits_after_a_cut(on_processes):
    """Waits after a cut: for a plan's start that has ended, and for an operation that needs no other process."""
    comm = None
    if on_processes:
        MPI = pytest.importorskip("mpi4py.MPI")
        comm = MPI.COMM_WORLD.Create_group(MPI.COMM_WORLD.Get_group().Incl(range(RANKS)))
    grid = sg.init_grid((RANKS,), comm=comm)
    plan = sg.all_gather.plan(grid, (2,), "i8", [0], 0)
    for k in range(4):
        plan.start(np.full(2, k))
        plan.wait()
    ended, alone = plan.start(np.full(2, 5)), sg.all_slice.start(np.arange(6), grid, [0], 0)
    try:
        sg.all_reduce(1, grid, [0])  # nobody is cut off before all have started
        if grid.rank == 1:
            grid.process.gate.run("a program that cannot go on", raise_interrupt)
        while True:
            sg.all_reduce(1, grid, [0])
    except (Interrupt, sg.CutOffError):
        pass
    with pytest.raises(sg.CutOffError, match="a program that cannot go on was cut off by Interrupt on rank 1"):
        ended.wait()
    assert alone.wait().tolist() == [2 * grid.rank, 2 * grid.rank + 1]


def raise_interrupt():
    raise Interrupt


def test_waits_after_a_cut(spmd, request):
    """Alike, whether or not compiled code has ended the operation at its start."""
    spmd(RANKS, waits_after_a_cut, request.config.getoption("with_mpi", default=False))
