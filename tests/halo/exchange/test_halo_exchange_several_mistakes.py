"""Ranks that make different mistakes in one call: all that refusals connect raise the error of the lowest of them."""

import numpy as np
import pytest
from support.compiled import updates_holding
from support.halo.small_plans import check_it_works, make

import spmd_grid as sg

# By turns: no two culprits of a case make the same mistake.
MISTAKES = {
    "ShapeError": lambda: np.zeros((3, 4)),
    "DTypeError": lambda: np.zeros((4, 3), "f4"),
    "OutputError": lambda: None,
}


def loop(halo, x):
    updates_holding(halo, np.zeros(4) if x is None else x, 1)  # compiled code knows arrays by their type


FORMS = {
    "update": lambda halo, x: halo.update(x),
    "start": lambda halo, x: [halo.start(x), halo.wait()],
    "accumulate": lambda halo, x: halo.accumulate(x),
    "loop": loop,
}


def connected(n, culprits):
    """The sets of ranks of a line that pairs with a culprit connect."""
    parts, last = [], None
    for rank in range(n):
        if not any(abs(rank - culprit) <= 1 for culprit in culprits):
            last = None
            continue
        if last is None or not {rank - 1, rank} & set(culprits):
            parts.append([])
        parts[-1].append(last := rank)
    return parts


def check_refusals(in_any_order, path, n, culprits, forms):
    def body():
        grid = sg.init_grid((n,))
        found = []
        with make(grid, shape=(2 * n, 3), path=path) as halo:
            for form in forms:
                x = np.full((4, 3), grid.rank + 1.0)
                if grid.rank in culprits:
                    x = list(MISTAKES.values())[culprits.index(grid.rank) % len(MISTAKES)]()
                before = None if x is None else x.copy()
                try:
                    FORMS[form](halo, x)
                    found.append(None)
                except sg.SpmdError as error:
                    assert x is None or np.array_equal(x, before)
                    found.append((type(error).__name__, str(error)))
                check_it_works(grid, halo, again=2)
        return found

    for form, found in zip(forms, zip(*in_any_order(n, body), strict=True), strict=True):
        parts = connected(n, culprits)
        assert [rank for rank in range(n) if found[rank]] == [rank for part in parts for rank in part], (form, found)
        for part in parts:
            assert len({found[rank] for rank in part}) == 1, (form, found)
            lowest = min(set(part) & set(culprits))
            name, text = found[part[0]]
            assert f" (on rank {lowest} ({lowest},))" in text, (form, found)
            if form != "loop":
                assert name == list(MISTAKES)[culprits.index(lowest) % len(MISTAKES)], (form, found)


def test_which_ranks_are_connected():
    assert connected(6, [0, 2]) == [[0, 1, 2, 3]] and connected(6, [0, 3]) == [[0, 1], [2, 3, 4]]
    assert connected(6, [5, 1]) == [[0, 1, 2], [4, 5]] and connected(4, [0, 3]) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("n", "culprits"),
    [
        (3, (0, 1)),
        (3, (2, 1, 0)),
        (4, (0, 1, 2)),
        (4, (2, 0)),
        (4, (0, 3)),
        (6, (5, 3, 1)),
        (6, (5, 1)),
        (6, (4, 2, 3)),
    ],
    ids=str,
)
def test_several_mistakes(in_any_order, path, n, culprits):
    check_refusals(in_any_order, path, n, culprits, list(FORMS))


def test_partners_of_culprits_hear_of_others_while_they_wait_elsewhere(in_any_order, path):
    """A rank between two culprits passes on what it knows in any wait: the culprits do not wait for its ``wait``."""

    def body():
        grid = sg.init_grid((4,))
        with make(grid, path=path) as halo:
            u = np.zeros((4, 3))
            try:
                halo.start({0: u.astype("f4"), 2: np.zeros((3, 3))}.get(grid.rank, u))
                is_started = True
            except sg.SpmdError as error:
                is_started, text = False, str(error)
            assert sg.all_reduce(1, grid, [0], "sum") == 4
            if is_started:
                with pytest.raises(sg.DTypeError) as caught:
                    halo.wait()
                text = str(caught.value)
            check_it_works(grid, halo)
        return is_started, text

    found = in_any_order(4, body)
    assert [is_started for is_started, _ in found] == [False, True, False, True]
    assert len({text for _, text in found}) == 1 and "on rank 0 " in found[0][1]


@pytest.mark.parametrize("n", [3, 4, 6])
def test_several_mistakes_in_a_plan(in_any_order, n):
    """All specify the plan together, so all raise one error, whoever their neighbours are."""

    def body():
        grid = sg.init_grid((n,))
        wrong = [{"shape": (8, -1)}, {"dtype": "nonsense"}, {}, {"n_fields": 0}, {"boundary": "nonsense"}, {"path": 3}]
        with pytest.raises(sg.SpmdError) as caught:
            make(grid, **wrong[grid.rank])
        with make(grid, shape=(2 * n, 3)) as halo:
            check_it_works(grid, halo)
        return type(caught.value).__name__, str(caught.value)

    assert len(set(in_any_order(n, body))) == 1
