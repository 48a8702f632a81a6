"""Results that processes tell one another: they come back as they were, and other bytes are refused."""

import json
import pickle

import numpy as np
import pytest

pytest.importorskip("xdsl")

import spmd_grid as sg
from spmd_grid.dialect.execute.values import Undefined
from spmd_grid.dialect.running.telling import results_of, told

GRID = sg.Grid((2, 3), ("x", "y"))
ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.arange(6, dtype=">i2")[::-2],
    np.zeros((0, 3), "c8"),
    np.array(1.5),
    np.broadcast_to(np.float32(2), (3, 2)),
    np.array([(1, 2.5)], np.dtype([("a", "i4"), ("b", "f8")], align=True)),
    np.array(["é", "ab"]),
    np.array(["2020-01-01"], "M8[D]"),
    np.zeros(3, "S0"),
    np.array([True, False]),
]
NUMBERS = [1, True, -(1 << 70), 1.5, float("inf"), None, "é", 1 - 2j, np.int8(3), np.float64(2), np.bool_(True)]
OTHERS = [
    Undefined("off the root"),
    sg.Sharding(GRID, [[0], [1]], halo_sizes=[1, 0, 2, 1]),
    sg.Sharding(GRID, [["y"]], partial_axes=["x"], partial_kind="max"),
    sg.Sharding(sg.Grid((2,), ranks=(1, 0)), [[0]], sharded_dims_offsets=[[0, 3, 5]]),
    sg.Sharding(sg.Grid((300,)), [[0]], sharded_dims_offsets=[[*range(0, 602, 2)]]),
]


def test_they_come_back_as_they_were():
    results = [*ARRAYS, *NUMBERS, *OTHERS, *ARRAYS]
    found = results_of(told(results), 0)
    assert len(found) == len(results)
    for x, due in zip(found, results):
        assert type(x) is type(due)
        if isinstance(due, np.ndarray | np.generic):
            assert x.dtype == due.dtype and x.shape == due.shape and x.tobytes() == due.tobytes()
        else:
            assert x == due
    assert results_of(told([]), 0) == []


def test_short_floats_come_back_as_they_were():
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    (x, one) = results_of(told([np.arange(3).astype(dtype), dtype.type(2)]), 0)
    assert x.dtype == dtype and x.tolist() == [0, 1, 2] and type(one) is dtype.type and one == 2


class Runs:
    """Prints where it is unpickled."""

    def __reduce__(self):
        return print, ("it ran",)


@pytest.mark.parametrize("x", [Runs(), np.array([Runs()]), [1, 2]], ids=["an object", "an array of objects", "a list"])
def test_what_cannot_be_told_is_refused_by_those_who_read_it(x, capfd):
    with pytest.raises(sg.TransportError, match="process 3 has sent results that cannot be read: a .* cannot be told"):
        results_of(told([1, x]), 3)
    assert not capfd.readouterr().out


def with_head(*head, data=b""):
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


REFUSED = {
    "a pickle": pickle.dumps(Runs()),
    "nothing": b"",
    "a head that ends too early": with_head(["number", 1])[:-4],
    "a kind that is none": with_head(["eval", "1"]),
    "a kind that is no text": with_head([["number"], 1]),
    "an array without its bytes": with_head(["array", "<f8", [1 << 40], True]),
    "a negative extent": with_head(["array", "<f8", [-1, -1], True], data=b"x" * 8),
    "an extent that is no number": with_head(["array", "<f8", ["1"], True], data=b"x" * 8),
    "objects": with_head(["array", "|O", [1], True], data=b"x" * 8),
    "a list for a number": with_head(["number", [1]]),
    "a sharding that is none": with_head(["sharding", [[2], None, None], [[7]], {}]),
    "a sharding of unknown words": with_head(["sharding", [[2], None, None], [[0]], {"grid": 1}]),
    "deep lists": (100_000).to_bytes(8, "little") + b"[" * 100_000,
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_bytes_are_refused(case, capfd):
    with pytest.raises(sg.TransportError, match="process 3 has sent results that cannot be read"):
        results_of(REFUSED[case], 3)
    assert not capfd.readouterr().out
