"""The expected outcome of each drill: whether the difference is allowed, and if not, the report and its words.

All of it follows from two rules.  A difference is allowed where the definition of the operation says so; every other
one raises the same error on every rank.  An end is reported where somebody waits for the rank that ended.
"""

from __future__ import annotations

import re

import numpy as np
from support.drills.drilled import DIFFERENCES, OPERATIONS, SHAPE, Way, coords, grid_shape

SHAPES = ("another shape", "another extent")
ARRAYS = (*SHAPES, "another dtype")
ARGUMENT, ORDER = "another argument", "another order of axes"

NEVER_WAITED_FOR = ("all_slice", "recv")  # nobody waits for one that receives: a small message is on its way
ROOT_ALONE = ("broadcast", "scatter")  # off the root, x is ignored
PAIRED = ("send", "recv")  # only in checking mode the axes travel with the message, and only the receiver learns of it
TRAVELLING = ("shift", "send")  # shape and dtype travel with the message
EXTENTS_MAY_DIFFER = ("all_gather", "all_to_all", "gather")
# No axes, or no array, at the place where the fault would be.
WITHOUT_AXES = ("HaloExchange.update", "all_reduce.plan.run")


def applies(operation: str, fault: str) -> bool:
    return not ((fault == ORDER and operation in WITHOUT_AXES) or (fault in ARRAYS and operation == "recv"))


def strands(operation: str, fault: str, n: int) -> bool:
    """Whether the difference makes ranks wait for one another that no header can bring together.

    They are in different groups, or wait for a message that somebody else gets.
    """
    if fault == ORDER and n == 4:  # of 2 x 2 ranks: another order of the same processes is another group
        return not allowed(operation, fault, n) and operation not in ("update_halo", "reshard", "run_plan")
    return fault == ARGUMENT and operation in PAIRED


def allowed(operation: str, fault: str, n: int) -> bool:
    if operation == "all_slice" or (operation in ROOT_ALONE and fault in ARRAYS):
        return True
    if (operation in TRAVELLING and fault in ARRAYS) or (operation, fault) == ("shift", ORDER):
        return True
    if operation in PAIRED and fault == ORDER:
        return n < 4
    if operation == "update_halo" and fault == "another shape" and n < 4:
        return True  # rows of another number, along a line of ranks that split the rows
    return operation in EXTENTS_MAY_DIFFER and fault == "another extent"


def error_of(operation: str, fault: str) -> str:
    if fault in SHAPES or (operation == "HaloExchange.update" and fault == ARGUMENT):
        return "ShapeError"
    if fault == "another dtype" and operation != "run_plan":  # a plan is made for a dtype: it is another plan
        return "DTypeError"
    return "MismatchError"


def words_of(operation: str) -> str:
    """The name by which errors and reports call it."""
    return OPERATIONS[operation].words or operation


def check_difference(operation: str, fault: str, n: int, outcomes: list, checks: bool = True) -> None:
    """``outcomes`` by rank: ("result", array) or (name of the error, message).  ``checks``: in checking mode."""
    kinds = {kind for kind, _ in outcomes}
    if checks and allowed(operation, fault, n) and (operation in PAIRED and fault == ORDER):
        receiver = n - 1 if operation == "recv" else 0
        kind, message = outcomes[receiver]
        assert kind == "MismatchError", outcomes
        assert all(outcome == ("result", None) for outcome in outcomes[:receiver] + outcomes[receiver + 1 :]), outcomes
        lines = re.findall(r"^  rank \d .*: (send|recv)\(.* at drilled\.py:\d+$", message, re.MULTILINE)
        assert lines == ["send", "recv"], message
        return
    if allowed(operation, fault, n):
        assert kinds == {"result"}, outcomes
        for (_, found), right in zip(outcomes, results(operation, fault, n), strict=True):
            assert (found is None) == (right is None), outcomes
            if right is not None:
                np.testing.assert_array_equal(np.asarray(found), right)
        return
    if operation == "shift" and n == 4:  # lines of two ranks, which do not hear of one another
        right = results(operation, "another order of axes", n)
        assert all(np.array_equal(outcomes[rank][1], right[rank]) for rank in (0, 2)), outcomes
        outcomes = [outcomes[1], outcomes[3]]
        kinds = {kind for kind, _ in outcomes}
    assert kinds == {error_of(operation, fault)}, outcomes
    for _, message in outcomes:
        # Simulated ranks compare the grids before they use them.
        told_by = "init_grid" if (operation, fault) == ("first use of a group", ARGUMENT) else words_of(operation)
        assert told_by in message, message
        # On 2 x 2 a line of ranks need not hold the culprit.
        assert re.search(rf"rank {n - 1}\b", message) or n == 4, message
        if kinds == {"MismatchError"}:
            assert len(re.findall(r"^  rank \d\b.*drilled\.py:\d+$", message, re.MULTILINE)) > 1, message
    assert n == 4 or len({message for _, message in outcomes}) == 1, outcomes


def results(operation: str, fault: str, n: int) -> list:
    """The result due to every rank where the difference is allowed."""
    ways = [Way()] * (n - 1) + [Way(**DIFFERENCES[fault])]
    xs = [np.full(way.shape, rank + 1, way.dtype) for rank, way in enumerate(ways)]
    whole = np.concatenate(xs, axis=1) if len({x.shape[0] for x in xs}) == 1 else None
    if operation == "all_gather":
        return [whole] * n
    if operation == "gather":
        return [whole] + [None] * (n - 1)
    if operation == "all_to_all":
        return [_cut(whole, 0, (0, 1), rank, n) for rank in range(n)]
    if operation == "broadcast":
        return [xs[0]] * n
    if operation == "scatter":
        return [_cut(xs[0], 1, (0, 1), rank, n) for rank in range(n)]
    if operation == "all_slice":
        dims = [0 if way.other else 1 for way in ways]
        return [_cut(xs[rank], dims[rank], way.axes, rank, n) for rank, way in enumerate(ways)]
    if operation == "shift":
        line = [_along_first(rank, -1, n) for rank in range(n)]
        return [xs[source] for source in line]
    if operation == "send":
        return [xs[-1]] + [None] * (n - 1)
    if operation == "recv":
        return [None] * (n - 1) + [np.ones(SHAPE)]
    below, above = [xs[_along_first(rank, -1, n)] for rank in range(n)], [xs[_along_first(r, 1, n)] for r in range(n)]
    return [_with_halo(*rows) for rows in zip(below, xs, above, strict=True)]


def _cut(x, dim, axes, rank, n):
    """The rank's block by the block rule, of one axis after the other."""
    shape = grid_shape(n)
    for axis in axes:
        block = -(-x.shape[dim] // shape[axis])
        x = np.split(x, [min(i * block, x.shape[dim]) for i in range(1, shape[axis])], dim)[coords(shape, rank)[axis]]
    return x


def _along_first(rank: int, step: int, n: int) -> int:
    """The neighbour along the first grid axis, round and round."""
    rows, columns = grid_shape(n)
    row, column = divmod(rank, columns)
    return (row + step) % rows * columns + column


def _with_halo(below, own, above):
    """Of n x 1 ranks: a row from either side, then columns of one's own, round and round."""
    own = own.copy()
    own[0], own[-1] = below[-2], above[1]
    own[:, 0], own[:, -1] = own[:, -2], own[:, 1]
    return own
