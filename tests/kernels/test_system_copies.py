"""Tables of the system's copies: several arrays of this process, as if they were others', that move between calls."""

import os

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.transfer import memory_reads
from spmd_grid.exchange.transfer.memory_reads import MemoryReads
from spmd_grid.kernels import address_of
from spmd_grid.transport import other_memory
from spmd_grid.transport.other_memory import is_word_at

_WORD = np.array([77])

pytestmark = pytest.mark.skipif(
    not is_word_at(os.getpid(), _WORD.ctypes.data, 77), reason="the system copies from no process"
)


def every_other(n):
    """Runs of one word, of which the first of two is copied: more than the system takes in a call."""
    starts = 8 * np.arange(0, n, 2)
    return np.stack([starts, starts, np.full(len(starts), 8)], axis=1)


def copy(reads, arrays, target):
    reads.copy(np.array([address_of(array) for array in arrays], np.int64), address_of(target))


def test_arrays_that_move():
    """From two arrays into one, in several calls; then all three lie elsewhere."""
    n = 5000
    runs = every_other(n), np.array([[8, 8 * n, 800], [1608, 8 * n + 800, 80]])
    reads = MemoryReads([(1 - i, os.getpid(), each) for i, each in enumerate(runs)])
    assert reads.rows == 4
    for first in (0, 7):
        one, two, target = np.arange(first, first + n), np.arange(300) - first, np.zeros(n + 110, np.int64)
        copy(reads, (two, one), target)
        assert np.array_equal(target[:n:2], one[::2]) and not target[1:n:2].any()
        assert np.array_equal(target[n:], np.concatenate([two[1:101], two[201:211]]))


def test_long_runs_are_several_calls(monkeypatch):
    monkeypatch.setattr(other_memory, "_MOST_BYTES", 1 << 10)
    source, target = np.arange(1000.0), np.zeros(1000)
    reads = MemoryReads([(0, os.getpid(), np.array([[0, 0, 8000]]))])
    assert reads.rows == 8
    copy(reads, [source], target)
    assert np.array_equal(source, target)


def test_nothing_to_read():
    reads = MemoryReads([])
    reads.copy(np.zeros(0, np.int64), 0)
    assert reads.rows == 0


@pytest.mark.parametrize("there", [0, 1])
def test_a_call_that_fails(there):
    """The error names the process and the reason; the calls before it are made, and none after it."""
    source, target = np.arange(10), np.full(30, -1)
    run = [np.array([[0, 80 * i, 80]]) for i in range(3)]
    process = (os.getpid(), 1 << 22)[there]
    reads = MemoryReads([(i, (os.getpid(), process)[i == 1], run[i]) for i in range(3)])
    sources = np.array([address_of(source)] * 3, np.int64)
    sources[1] *= there  # nothing lies at 0
    with pytest.raises(sg.TransportError, match=rf"process {process} \((No such process|Bad address)\)") as caught:
        reads.copy(sources, address_of(target))
    assert caught.value.cuts_off
    assert np.array_equal(target, [*source, *[-1] * 20])


def test_a_call_that_is_made_again(monkeypatch):
    """A call that compiled code could not make, and Python can: all others go on."""
    source, target, made = np.arange(30), np.zeros(30, np.int64), []
    reads = MemoryReads([(i, os.getpid(), np.array([[80 * i, 80 * i, 80]])) for i in range(3)])
    read_memory = memory_reads.kernels.read_memory
    found = iter([1, None])

    def first_fails(row, rows, sources, into):
        given = next(found)
        return read_memory(row, rows if given is None else given, sources, into)

    monkeypatch.setattr(memory_reads.kernels, "read_memory", first_fails)
    again = MemoryReads.make_again
    monkeypatch.setattr(MemoryReads, "make_again", lambda self, i: (made.append(i), again(self, i)))
    here, there = reads._calls[1][1:]
    here[:, 0] += address_of(target)
    there[:, 0] += address_of(source)
    copy(reads, [source] * 3, target)
    assert made == [1] and np.array_equal(source, target)
