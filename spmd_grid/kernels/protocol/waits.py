"""Waits of the compiled protocols: for words that other processes store, and for messages.

A wait polls, then gives way to other threads, then lets the interpreter run (``ON_WAIT``), which may give it up.  If
several processes share a core, it sleeps before that, and the process that stores the word wakes it (``sleeping.py``):
giving way is not enough, since the system lets a process that gives way go on at once if the next one has had more of
the core.  A process that carries messages between nodes (``carrying.py``) does so while it waits.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import (
    call,
    complete_messages,
    give_way,
    load,
    load_acquire,
    pause,
    start_messages,
    store,
    this_thread,
)
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.carrying import carry
from spmd_grid.kernels.protocol.sleeping import sleep_until
from spmd_grid.kernels.python_calls import append, clear_list

__all__ = ["announce", "look_around", "start_all", "test_all", "wait_a_while", "wait_for", "wait_for_messages"]


@inner
def look_around(state: int, address: int, value: int, member: int) -> bool:
    """Let the interpreter do other work in a long wait; False if the wait is given up.

    The callback's result does not say so: it is undefined if a signal handler raises before the callback's first step.
    """
    latch = load(state, at.LATCH)
    if latch:  # other threads run in the callback
        clear_list(load(latch, at.LATCH_TOKENS))
        store(latch, at.LATCH_THREAD, this_thread())
    store(load(state, at.WENT_ON), 0, 0)
    call(load(state, at.ON_WAIT), address, value, member)
    if latch:
        store(latch, at.LATCH_THREAD, 0)
        append(load(latch, at.LATCH_TOKENS), load(latch, at.LATCH_TOKEN))
    return load(load(state, at.WENT_ON), 0) == 1


@inner
def _sleep(state: int, carrier: int, address: int, value: int) -> None:
    """Sleep for some time, until the word at ``address`` changes, unless it is at least ``value``.

    One that carries sleeps until the others of its node have come, and then polls for messages: nothing else needs its
    core, since the others sleep.  Where messages come late, it sleeps between polls.
    """
    if carrier:
        while not carry(state, carrier) and not load(carrier, at.AWAITED):
            if load(carrier, at.SPUN) >= load(carrier, at.SPINS):
                break
            store(carrier, at.SPUN, load(carrier, at.SPUN) + 1)
        if load(carrier, at.AWAITED):
            address, value = load(carrier, at.AWAITED), load(state, at.EPOCH)
    sleep_until(address, value, load(state, at.SLEEPS))


@inner
def _wait_a_while(state: int, address: int, value: int, yields: int) -> bool:
    """Wait some time for the word at ``address`` to be at least ``value``; whether it is."""
    carrier = load(state, at.CARRIER)
    for _ in range(load(state, at.POLLS)):
        if load_acquire(address) >= value:
            return True
        if carrier:
            carry(state, carrier)
        pause()
    for _ in range(yields):
        if load_acquire(address) >= value:
            return True
        if carrier:
            carry(state, carrier)
        give_way()
    if load(state, at.SLEEPS):
        for _ in range(at.MOST_SLEEPS):
            if load_acquire(address) >= value:
                return True
            _sleep(state, carrier, address, value)
    return load_acquire(address) >= value


@inner
def wait_a_while(state: int, address: int, value: int) -> bool:
    """Wait some time for the word at ``address`` to be at least ``value``; whether it is."""
    return _wait_a_while(state, address, value, load(state, at.YIELDS))


@inner
def wait_for(state: int, address: int, value: int, member: int) -> int:
    """Wait until the word at ``address`` is at least ``value``; FINE, or ENDED if the wait was given up."""
    yields = load(state, at.YIELDS)
    while not _wait_a_while(state, address, value, yields):
        yields = load(state, at.YIELDS_AGAIN)
        if load(state, at.CARRIER) and load(load(state, at.CARRIER), at.FAILED):
            return at.ENDED
        if not look_around(state, address, value, member):
            return at.ENDED
    return at.FINE


@inner
def _went_on(state: int) -> bool:
    """Whether the last callback ran to its end; always true of functions of MPI."""
    return not load(state, at.CALLS_BACK) or load(load(state, at.WENT_ON), 0) == 1


@inner
def start_all(state: int, requests: int, count: int) -> bool:
    """Start persistent requests; whether all have been started."""
    store(load(state, at.WENT_ON), 0, 0)
    return start_messages(load(state, at.START_MESSAGES), count, requests) == 0 and _went_on(state)


@inner
def test_all(state: int, requests: int, count: int) -> int:
    """Test requests: 1 if all are complete, 0 if not, negative on failure."""
    flag = load(state, at.FLAG)
    store(load(state, at.WENT_ON), 0, 0)
    if complete_messages(load(state, at.TEST_MESSAGES), count, requests, flag, load(state, at.STATUSES)) != 0:
        return -1
    return load(flag, 0) if _went_on(state) else -1


@inner
def wait_for_messages(state: int, requests: int, count: int, outgoing: int) -> int:
    """Wait until all requests are complete; FINE, or ENDED on failure and if the wait was given up."""
    while True:
        for _ in range(load(state, at.POLLS)):
            done = test_all(state, requests, count)
            if done != 0:
                return at.FINE if done > 0 else at.ENDED
        for _ in range(load(state, at.YIELDS)):
            done = test_all(state, requests, count)
            if done != 0:
                return at.FINE if done > 0 else at.ENDED
            give_way()
        if not look_around(state, 0, requests, outgoing):
            return at.ENDED


@inner
def announce(state: int) -> bool:
    """Wake the processes that may wait for what was posted, if they sleep; False if a signal interrupted it."""
    if load(state, at.ON_POST):
        store(load(state, at.WENT_ON), 0, 0)
        call(load(state, at.ON_POST), 0, 0, 0)
        return load(load(state, at.WENT_ON), 0) == 1
    return True
