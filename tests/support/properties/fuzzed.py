"""Arguments that may be right or anything, and the outcomes of calls that take them."""

import math
import re

import numpy as np
from hypothesis import strategies as st

import spmd_grid as sg


class Odd:
    """Nothing that anybody knows; shown alike in all processes."""

    def __repr__(self):
        return "Odd()"

    def __eq__(self, other):
        return isinstance(other, Odd)

    __hash__ = None  # nor can it be looked up


# More than there can be of anything.  (2**31 cells would be given, by machines that have the memory.)
HUGE = [2**63 - 1, 2**63, -(2**63) - 1, 10**30]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from(HUGE),
    st.sampled_from([0.0, 1.0, 2.5, -1.0, math.nan, math.inf, 1j]),
    st.sampled_from(["", "x", "y", "z", "0", "sum", "ceil", "offsets", "edge", "float64", "\ud800", "a\0b"]),
    st.sampled_from(
        [b"x", np.int64(1), np.int8(-1), np.uint64(2**64 - 1), np.float32(1), np.bool_(True), np.str_("x")]
    ),
    st.sampled_from([Odd(), ..., slice(0, 2), int, np.float64, len]),
)
WILD = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(st.integers(-2, 5), max_size=4).map(np.array),
        st.lists(st.integers(0, 3), max_size=3).map(set),
        st.dictionaries(st.integers(0, 3), inner, max_size=2),
        st.just(np.zeros((2, 0))),
        st.just(np.array(1)),
    ),
    max_leaves=6,
)


def often(right, wild=WILD):
    """A strategy that draws ``right`` three times in four."""
    return st.one_of(right, right, right, wild)


def outcome(make):
    """The result, or the text of a refusal; anything else is raised."""
    try:
        return make(), None
    except sg.SpmdError as error:
        text = f"{type(error).__name__}: {error}"
        assert len(str(error)) > 10, text
        return None, text


def on_all(spmd, ranks, make):
    """The outcomes by rank; None where all have refused, with the same words, save for whom they name: groups that do
    not know of each other name members of their own."""

    def body():
        return outcome(make)

    found = spmd(ranks, body)
    assert len({text and re.sub(r"rank \d+ \([\d, ]*\)", "rank", text) for _, text in found}) == 1, found
    return [value for value, _ in found] if found[0][1] is None else None


INTS = st.lists(st.integers(1, 3), min_size=1, max_size=3)
NAMES = st.sampled_from([None, ("x",), ("x", "y"), ["x", "y", "z"]])


@st.composite
def sharding_arguments(draw, grid_shape=(2, 3)):
    """Arguments of a sharding, of which some may be anything."""
    axes = range(len(grid_shape))
    split = st.lists(st.lists(st.sampled_from([*axes, "x"]), max_size=2), max_size=3)
    options = {
        "blocks": often(st.sampled_from(["ceil", "balanced"])),
        "halo_sizes": often(st.lists(st.integers(0, 3), max_size=4) | st.none()),
        "sharded_dims_offsets": often(st.lists(st.integers(0, 7), max_size=8).map(sorted) | st.none()),
        "partial_axes": often(st.lists(st.sampled_from(axes), max_size=1)),
        "partial_kind": often(st.sampled_from(["sum", "max"])),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=3))
    return draw(often(split)), {name: draw(options[name]) for name in chosen}
