"""Fixtures of the halo tests."""

import pytest


def pytest_generate_tests(metafunc):
    # The ways of a plan, for tests that do not say which: simulated ranks have but one way of messages.
    marks = metafunc.definition.iter_markers("parametrize")
    if "path" in metafunc.fixturenames and not any("path" in mark.args[0] for mark in marks):
        with_mpi = metafunc.config.getoption("with_mpi", default=False)
        messages = ["packed", "straight"] if with_mpi else ["message"]
        metafunc.parametrize("path", [None, "read", "staged", *messages])


@pytest.fixture
def in_any_order(request, spmd):
    """As ``spmd``, but on simulated ranks once as they come and once for each of some seeds; the last results."""
    seeds = [None, 1, 2, 3, 4, 5] if request.config.getoption("full") else [None, 1, 2, 3]
    if request.config.getoption("with_mpi", default=False):
        seeds = [None]

    def run(ranks, body, *args):
        for seed in seeds:
            results = spmd(ranks, body, *args, seed=seed)
        return results

    return run
