"""Runs the tests that take ``path`` once over every way that bytes can go."""

import pytest

import spmd_grid as sg


def pytest_generate_tests(metafunc):
    if "path" in metafunc.fixturenames:
        metafunc.parametrize("path", ["auto", "inline", "message"], indirect=True)


@pytest.fixture
def path(request):
    with sg.forced_path(request.param):
        yield request.param
