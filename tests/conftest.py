"""How the suite runs: on simulated ranks by default, on MPI's processes with pytest-mpi's ``--with-mpi``.

Under MPI a test runs where there are as many processes as it wants, or more.  ``--passed FILE`` keeps the names of
those that have passed, so that runs on more and more processes repeat only a tenth of them; ``--full`` all.
"""

import faulthandler
import os
import signal
import sys
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from spmd_grid.transport.launch import current_world

# For ``jobs``, which starts whole programs, and for the table of the drills.
sys.path += [str(Path(__file__).resolve().parent / room) for room in ("transport", "drills")]

pytest_plugins = ["spmd_grid.testing.plugin", "drill_table"]

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("simulated", max_examples=100, **COMMON)
settings.register_profile("full", max_examples=500, **COMMON)
# Under mpiexec all processes must draw the same examples.
settings.register_profile("mpi", max_examples=30, derandomize=True, database=None, **COMMON)
settings.register_profile("mpi-full", max_examples=100, derandomize=True, database=None, **COMMON)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run exhaustive sweeps, of which the default takes a sample")
    parser.addoption(
        "--passed", type=Path, metavar="FILE", help="repeat a tenth of the tests that FILE names; add those that pass"
    )


def pytest_configure(config):
    with_mpi = config.getoption("with_mpi", default=False)
    full = config.getoption("full")
    settings.load_profile(("mpi-full" if full else "mpi") if with_mpi else ("full" if full else "simulated"))
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


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist asks for groups
def pytest_collection_modifyitems(config, items):
    if config.getoption("with_mpi", default=False):
        spread = [item for item in items if "spmd" in item.fixturenames]
        config.hook.pytest_deselected(items=[item for item in items if item not in spread])
        items[:] = spread
    passed = config.getoption("passed")
    if passed and passed.exists() and not config.getoption("full"):
        names = set(passed.read_text().splitlines())
        again = [item for item in items if item.nodeid in names and crc32(item.nodeid.encode()) % 10]
        config.hook.pytest_deselected(items=again)
        items[:] = [item for item in items if item not in set(again)]
    if not config.getoption("full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="an exhaustive sweep; runs with --full"))
    for item in items:
        if not vars(item.module).keys().isdisjoint({"subprocess", "run_job"}):
            # Where the suite is shared among several processes, only one of them at a time starts programs, which
            # have to end in time.
            item.add_marker(pytest.mark.xdist_group("programs"))


_passed: list[str] = []


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        _passed.append(report.nodeid)


def pytest_sessionfinish(session):
    file = session.config.getoption("passed")
    if file and current_world().rank == 0:
        with file.open("a") as names:
            names.writelines(f"{name}\n" for name in _passed)
