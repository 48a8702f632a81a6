"""States that could not be loaded again are refused before anything is written; padding does not count as a value."""

import numpy as np
import pytest
from support.storage.shared import common_folder

import spmd_grid as sg

PADDED = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})


def nested(depth):
    state = {"leaf": 1}
    for _ in range(depth):
        state = {"a": state}
    return state


def nested_dtype(depth):
    dtype = np.dtype("f4")
    for _ in range(depth):
        dtype = np.dtype([("a", dtype)])
    return dtype


def holds_itself():
    state = {"list": []}
    state["list"].append(state)
    return state


REFUSED = {
    "deep": (lambda: nested(64), "is nested more than 64 deep"),
    "itself": (holds_itself, "is nested more than 64 deep"),
    "a deep dtype": (lambda: {"a": np.zeros(2, nested_dtype(33))}, "dtype is nested more than 32 deep"),
    "masked": (lambda: {"a": np.ma.masked_equal([1, 2], 2)}, "state\\['a'\\] is a masked array"),
    "strings of any length": (lambda: {"a": np.array(["b"], np.dtypes.StringDType())}, "neither numpy's of a fixed"),
    "half a letter": (lambda: {"\ud800": np.zeros(2)}, "has the key"),
}


def test_states_that_are_refused(spmd):
    def body():
        grid = sg.init_grid((2,))
        with common_folder(grid) as folder:
            for case, (make, words) in REFUSED.items():
                with pytest.raises(sg.DTypeError, match=words):
                    sg.save(folder / "series", make(), grid=grid), case
            assert list(folder.iterdir()) == []

    spmd(2, body)


def test_the_deepest_that_are_loaded(spmd):
    def body():
        grid = sg.init_grid((2,))
        state = {"state": nested(62), "a": np.zeros(2, nested_dtype(32))}
        with common_folder(grid) as folder:
            sg.save(folder, state, grid=grid)
            found = sg.load(folder, {}, grid)
            assert found["state"] == state["state"] and found["a"].dtype == state["a"].dtype

    spmd(2, body)


def with_garbage(dtype, carry_none, garbage):
    """An array whose bytes that carry no value are ``garbage``."""
    array = np.zeros(2, dtype)
    array[1] = 3 if array.dtype.names is None else (3, 4)
    array.view(np.uint8).reshape(2, -1)[:, carry_none] = garbage
    return array


# By dtype: bytes that carry no value; long doubles have some where they are the extended format of x87.
PADDING = [(PADDED, slice(1, 8))] + [(np.longdouble, slice(10, 16))] * (np.finfo(np.longdouble).nmant == 63)


@pytest.mark.parametrize(("dtype", "carry_none"), PADDING)
def test_plain_arrays_and_scalars_that_differ_in_padding_are_equal(spmd, dtype, carry_none):
    def body():
        grid = sg.init_grid((2,))
        with common_folder(grid) as folder:
            for garbage in (1 + grid.rank, 7):
                a = with_garbage(dtype, carry_none, garbage)
                sg.save(folder, {"a": a, "scalar": a[1]}, grid=grid)
            found = sg.load(folder, {}, grid)
            assert found["a"].tolist() == a.tolist() and found["scalar"] == a[1]
            assert len({(each / "manifest.json").read_bytes() for each in folder.iterdir()}) == 1

    spmd(2, body)
