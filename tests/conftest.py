"""Options and hooks of the suite: on simulated ranks by default, on MPI's processes with pytest-mpi's ``--with-mpi``.

Under MPI a test runs where there are as many processes as it wants, or more.  ``--passed FILE`` keeps the names of
those that have passed, so that runs on more and more processes repeat only one in eighty, and of those that need more
processes.  Of a test that has passed with other parameters, one set in three runs on three processes, one in six on
four, one in twelve on six.  Of another with several parameter sets, on three or more, each value of each parameter runs
and one set in four of the rest; of one that needs four or more, one set in four.  With ``--full`` all do.
Tests that take what there is (``most_ranks``) always run.  ``--sample N`` runs one in N.
"""

import faulthandler
import gc
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from spmd_grid.transport.launch import current_world

pytest_plugins = ["spmd_grid.testing.plugin", "support.drills.drill_table"]

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
REPEATED = 80  # one in 80 tests that passed on fewer processes runs again in a larger world
VARIED_FROM = 3  # on n processes, 3 or more, one in 3 (n - 2) parameter sets of a test that passed with others
LARGE_FROM, LARGE_ONLY = 4, 4  # on 4 or more, of several parameter sets that need as many processes, one in 4 runs
FEW, COMBINED = 8, 4  # of more than 8 combinations of several parameters' values, one in 4 runs
FEW_UNDER_MPI = 3  # the same on 3 or more processes of MPI: simulated ranks have run them as well

MPI_FIXTURES = re.compile(r"\b(spmd|in_any_order)\b")  # only tests with one of these run under MPI

NEEDS = re.compile(r"needs (\d+) processes")  # why `testing.plugin` skips a test; so begin lines of --passed FILE

_passed: list[str] = []
_too_large: list[str] = []

# By default every run draws the same examples, so that a run tells of a change and not of chance.
SAME = {"derandomize": True, "database": None}
settings.register_profile("simulated", max_examples=40, **SAME, **COMMON)
settings.register_profile("seeded", max_examples=40, **COMMON)
settings.register_profile("full", max_examples=500, **COMMON)
# Under mpiexec all processes must draw the same examples.
settings.register_profile("mpi", max_examples=15, **SAME, **COMMON)
settings.register_profile("mpi-full", max_examples=100, **SAME, **COMMON)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run exhaustive sweeps, of which the default takes a sample")
    parser.addoption(
        "--passed",
        type=Path,
        metavar="FILE",
        help="repeat one in eighty of the tests that FILE names; add those that pass, and what others need",
    )
    parser.addoption("--sample", type=int, default=1, metavar="N", help="run one in N of the tests, by their names")


def pytest_configure(config):
    with_mpi = config.getoption("with_mpi", default=False)
    full = config.getoption("full")
    simulated = "simulated" if config.getoption("hypothesis_seed", default=None) is None else "seeded"
    settings.load_profile(("mpi-full" if full else "mpi") if with_mpi else ("full" if full else simulated))
    if with_mpi:
        faulthandler.enable()
    # What a shell starts in the background ignores Ctrl-C, and so would all that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session):
    if session.config.getoption("with_mpi", default=False) and current_world().rank > 0:
        # Every process reaches the same verdict; the first one says so.
        silent = open(os.devnull, "w")
        session.config.add_cleanup(silent.close)
        session.config.pluginmanager.getplugin("terminalreporter")._tw._file = silent


def pytest_ignore_collect(collection_path, config):
    # Six processes on two cores take ten seconds to collect what they then leave out.
    if config.getoption("with_mpi", default=False) and collection_path.match("test_*.py"):
        return None if MPI_FIXTURES.search(collection_path.read_text()) else True
    return None


def pytest_collection_modifyitems(config, items):
    if config.getoption("with_mpi", default=False):
        spread = [item for item in items if "spmd" in item.fixturenames]
        config.hook.pytest_deselected(items=[item for item in items if "spmd" not in item.fixturenames])
        items[:] = spread
        _thin_out(config, items)
    if not config.getoption("full"):
        _sample(config, items)  # of all, so that every number of processes takes its tests from the same sample
    if config.getoption("with_mpi", default=False):
        _leave_out_what_has_run(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    gc.disable()  # nearly all that is made then stays
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session):
    _settle()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or nextitem.path != item.path:
        _settle()


def _settle():
    """Takes what is alive from the collector, which would walk through it each time.

    Tests, reports and compiled functions are millions of objects, and a walk takes a second.
    """
    gc.collect()
    gc.freeze()


def _sample(config, items):
    """Leave out what is marked ``full``, most sets of the tests marked ``one_in(n)``, and most combinations of others.

    Of tests marked ``one_in_by_size(n)`` each number of processes takes other sets.
    Every n-th set of ``one_in`` stays: where n and the numbers of values have no common divisor, every value of every
    parameter is among them.  Of other tests with several parameters and more than a few sets, those run that bring in a
    new value of any parameter, and one in four of the rest, by a hash of their names.
    """
    size = current_world().size if config.getoption("with_mpi", default=False) else 0
    few = FEW if size < VARIED_FROM else FEW_UNDER_MPI
    sets = Counter(item.function for item in items)
    seen, values, chosen, left_out = Counter(), set(), [], []
    for item in items:
        mark, by_size = item.get_closest_marker("one_in"), item.get_closest_marker("one_in_by_size")
        number = seen[item.function]
        seen[item.function] += 1
        if item.get_closest_marker("full"):
            runs = False
        elif mark:
            runs = number % mark.args[0] == 0
        elif size and by_size:
            runs = (number - size // 2) % by_size.args[0] == 0
        elif sets[item.function] > few and len(item.callspec.params) > 1:
            new = {(item.function, *each) for each in enumerate(item.callspec.id.split("-"))} - values
            runs = bool(new) or crc32(item.nodeid.encode()) % COMBINED == 0
            values |= new
        else:
            runs = True
        (chosen if runs else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def _thin_out(config, items):
    """Keep one in N tests, by a hash of their names."""
    chosen = [crc32(item.nodeid.encode()) % config.getoption("sample") == 0 for item in items]
    config.hook.pytest_deselected(items=[item for item, stays in zip(items, chosen) if not stays])
    items[:] = [item for item, stays in zip(items, chosen) if stays]


@pytest.fixture(autouse=True)
def as_it_was(request):
    """Under MPI what a test sets for its process would hold for all tests after it."""
    if not request.config.getoption("with_mpi", default=False):
        yield
        return
    process = current_world().process
    nodes, is_recorded = process.nodes, process.recorder is not None
    yield
    process.nodes = nodes
    assert (process.recorder is not None) == is_recorded, "operations are recorded or checked from this test on"


@pytest.fixture
def instructions():
    """``instructions(function)``: how many of Python's it runs, which tells a walk over a million from none."""

    def count(function, *args):
        counted, before = 0, sys.gettrace()

        def trace(frame, event, arg):
            nonlocal counted
            frame.f_trace_opcodes = True
            counted += event == "opcode"
            return trace

        sys.settrace(trace)
        try:
            function(*args)
        finally:
            sys.settrace(before)
        return counted

    return count


# -- runs on more and more processes ---------------------------------------------------------------------------------


def _leave_out_what_has_run(config, items):
    file = config.getoption("passed")
    if file and file.exists() and not config.getoption("full"):
        size = current_world().size
        lines = file.read_text().splitlines()
        needs = {line.partition(": ")[2]: int(found[1]) for line in lines if (found := NEEDS.match(line))}
        names = set(lines)
        tests = {_test_of(name) for name in names} if size >= VARIED_FROM else set()
        seen = Counter()

        def runs(item):
            if needs.get(item.nodeid, 0) > size:
                return False
            if item.nodeid in names:
                return crc32(item.nodeid.encode()) % REPEATED == 0
            if _test_of(item.nodeid) in tests:
                return crc32(item.nodeid.encode()) % (3 * (size - 2)) == 0
            seen[item.function] += 1
            return size < LARGE_FROM or seen[item.function] % LARGE_ONLY == 1

        run = [runs(item) for item in items]
        config.hook.pytest_deselected(items=[item for item, does in zip(items, run) if not does])
        items[:] = [item for item, does in zip(items, run) if does]


def _test_of(name):
    """The name without its parameters."""
    return name.partition("[")[0]


def pytest_runtest_makereport(item, call):
    if call.when != "call" or "most_ranks" in item.fixturenames:
        return
    if call.excinfo is None:
        _passed.append(item.nodeid)
    elif call.excinfo.errisinstance(pytest.skip.Exception) and (found := NEEDS.match(str(call.excinfo.value))):
        _too_large.append(f"{found[0]}: {item.nodeid}")


def pytest_sessionfinish(session, exitstatus):
    file = session.config.getoption("passed")
    if file and session.config.getoption("with_mpi", default=False):
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and file.exists():
            session.exitstatus = pytest.ExitCode.OK  # all that was asked for has passed on fewer processes
        if current_world().rank == 0:
            with file.open("a") as names:
                names.writelines(f"{name}\n" for name in (*_passed, *_too_large))
