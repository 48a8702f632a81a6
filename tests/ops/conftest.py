"""Runs the tests that take ``path`` once over every way that bytes can go."""

import pytest

import spmd_grid as sg


def pytest_generate_tests(metafunc):
    # "auto" is the direct path where ranks share memory, and the inline path where they do not.
    if "path" in metafunc.fixturenames:
        with_mpi = metafunc.config.getoption("with_mpi", default=False)
        metafunc.parametrize("path", ["auto", "inline", "message"], indirect=True)


@pytest.fixture
def path(request):
    with sg.forced_path(request.param):
        yield request.param
