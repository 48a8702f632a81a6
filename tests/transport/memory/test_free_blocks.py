"""FreeBlocks: blocks never overlap, are aligned, and all come back together."""

from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.transport.free_blocks import FreeBlocks


def test_first_fit_with_alignment():
    free = FreeBlocks(100)
    assert free.take(3, 1) == (0, 0)
    assert free.take(10, 16) == (16, 0)
    assert free.take(5, 1) == (3, 0)  # the gap before the aligned block
    assert free.take(75, 1) is None
    assert free.take(74, 1) == (26, 0)
    assert free.blocks == [[8, 8, 16]] and free.take(9, 1) is None


def test_free_neighbours_become_one():
    for order in ([0, 10, 20], [20, 10, 0], [0, 20, 10], [10, 20, 0]):
        free = FreeBlocks(30)
        for _ in order:
            free.take(10, 1)
        assert free.blocks == [] and free.take(1, 1) is None
        for start in order:
            free.put(start, start + 10)
        assert free.blocks == [[0, 30, 30]]


def test_what_is_fresh_stays_fresh():
    free = FreeBlocks(100)
    free.take(10, 1)
    assert free.put(0, 10) == [0, 10, 100] and free.n_dirty() == 10
    assert free.take(25, 1) == (0, 10)
    assert free.put(0, 25) == [0, 25, 100]
    assert free.take(30, 1) == (0, 25) and free.take(30, 32) == (32, 0)
    assert free.put(0, 30) == [0, 30, 32] and free.blocks == [[0, 30, 32], [62, 62, 100]]


def test_nothing_at_all():
    free = FreeBlocks(0)
    assert free.blocks == [] and free.take(1, 1) is None and free.n_dirty() == 0


SIZE = 256
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 100), st.sampled_from([1, 2, 8, 64])),
        st.tuples(st.just("put"), st.integers(0, 50), st.none()),
    ),
    max_size=60,
)


@given(STEPS)
def test_against_cells(steps):
    """Beside a list of all cells, each taken or free, used before or not."""
    free, taken, used, blocks = FreeBlocks(SIZE), [False] * SIZE, [False] * SIZE, []
    for what, n, alignment in steps:
        if what == "take":
            found = free.take(n, alignment)
            fits = [at for at in range(0, SIZE - n + 1, alignment) if not any(taken[at : at + n])]
            assert found is None if not fits else found[0] == fits[0]
            if found is not None:
                start, n_dirty = found
                assert not any(used[start + n_dirty : start + n])
                cells = slice(start, start + n)
                taken[cells], used[cells] = [True] * n, [True] * n
                blocks.append((start, start + n))
        elif blocks:
            start, stop = blocks.pop(n % len(blocks))
            free.put(start, stop)
            taken[start:stop] = [False] * (stop - start)
        _check(free, taken, used)
    for start, stop in blocks:
        free.put(start, stop)
    [[start, dirty, stop]] = free.blocks
    assert (start, stop) == (0, SIZE) and not any(used[dirty:])


def _check(free, taken, used):
    is_free = [False] * SIZE
    for start, dirty, stop in free.blocks:
        assert start < stop and start <= dirty <= stop and not any(used[dirty:stop])
        is_free[start:stop] = [True] * (stop - start)
    assert is_free == [not cell for cell in taken]
    for (_, _, stop), (start, _, _) in zip(free.blocks, free.blocks[1:]):
        assert stop < start  # neighbours have become one


def test_used_cells_that_are_free():
    free = FreeBlocks(1000)
    starts = [free.take(50, 1)[0] for _ in range(8)]
    assert free.n_dirty() == 0
    for start in starts[::2]:
        free.put(start, start + 50)
    assert free.n_dirty() == 200
    free.take(20, 1)
    assert free.n_dirty() == 180
