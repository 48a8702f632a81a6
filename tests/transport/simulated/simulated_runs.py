"""Runs on simulated ranks that have to fail, free and seeded."""

import time

import pytest

import spmd_grid as sg

MODES = pytest.mark.parametrize("seed", [None, 5], ids=["free", "seeded"])


def world(n=None):
    return sg.init_grid((-1,) if n is None else (n,))


def elapsed(function, *args, **options):
    """Runs a call that must raise; the exception and the seconds it took."""
    started = time.perf_counter()
    with pytest.raises(BaseException) as caught:
        sg.run_spmd(function, *args, **options)
    return caught.value, time.perf_counter() - started


def computes():
    n = 0
    while True:
        n += 1
