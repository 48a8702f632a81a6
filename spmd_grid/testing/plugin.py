"""A pytest plugin: the ``spmd`` fixture runs a test body on simulated ranks, or on MPI processes.

Put ``pytest_plugins = ["spmd_grid.testing.plugin"]`` into ``conftest.py``.  Plain ``pytest`` runs bodies on simulated
ranks; ``mpiexec -n 4 python -m pytest --with-mpi`` (the option is pytest-mpi's) runs them on the first k processes.
A test that fails on one process, in the body or outside of it, fails on all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from typing import Any

import pytest

from spmd_grid.testing.ranks import is_shared, meet, prepare_to_meet, run_on_mpi, world_size
from spmd_grid.transport.launch import current_world, run_spmd

__all__ = ["spmd"]

_has_met = pytest.StashKey[bool]()  # whether the processes ran a body together in a test
_failure = pytest.StashKey[str]()  # how this process failed outside of the body
_failed_elsewhere = pytest.StashKey[bool]()
_shows_output = pytest.StashKey[bool]()  # what it has captured, if the job is ended


@pytest.fixture
def spmd(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """``spmd(k, body, *args)``: the results of ``body(*args)`` by rank, on k ranks.

    The body makes its grid with ``init_grid`` and finds k processes.  It fails on every process if it fails on one.
    Under MPI a test that needs more processes than there are is skipped.  ``seed=`` is for simulated ranks only.
    """
    if not _under_mpi(request.config):
        return lambda ranks, body, *args, seed=None: run_spmd(body, *args, ranks=ranks, seed=seed)

    prepare_to_meet()  # before any process can fail
    _show_output_of_ended_jobs(request.config)

    def run(ranks: int, body: Callable[..., Any], *args: Any, seed: int | None = None) -> list[Any]:
        if ranks > world_size():
            pytest.skip(f"needs {ranks} processes, there are {world_size()}")
        request.node.stash[_has_met] = True
        return run_on_mpi(ranks, body, *args)

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.failed or call.excinfo is None or not _under_mpi(item.config):
        return report
    if not is_shared(call.excinfo.value) and _failed_elsewhere not in item.stash:
        where = f"process {current_world().rank} of {world_size()}"
        text = f"{item.nodeid} failed on {where}:\n{report.longreprtext}"
        # Its teardown tells the others; of what fails there they hear at the end.
        (item if call.when != "teardown" else item.config).stash[_failure] = text
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """The processes tell one another whether they failed, before any of them clears away what others may read."""
    failure = item.stash.get(_failure, None)
    said = meet(failure) if _has_met in item.stash or failure else []
    yield
    others = [text for text in said if text is not None]
    if others and failure is None:
        item.stash[_failed_elsewhere] = True
        pytest.fail("\n".join(others), pytrace=False)


def pytest_unconfigure(config: pytest.Config) -> None:
    failure = config.stash.get(_failure, None)
    if failure:
        current_world().abort(failure)


def _show_output_of_ended_jobs(config: pytest.Config) -> None:
    """Let a process that ends the job in the middle of a test print what pytest has captured."""
    if config.stash.get(_shows_output, False):
        return
    from spmd_grid.transport.mpi.library import before_abort  # loads MPI

    config.stash[_shows_output] = True
    capture = config.pluginmanager.getplugin("capturemanager")

    def show() -> None:
        capture.suspend_global_capture(in_=True)
        print(*capture.read_global_capture(), sep="", file=sys.stderr, flush=True)

    if capture is not None:
        before_abort(show)


def _under_mpi(config: pytest.Config) -> bool:
    return bool(config.getoption("with_mpi", default=False))
