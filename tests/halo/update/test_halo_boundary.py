"""The rules for cells outside the domain: how they may be spelt, what is refused, and what numpy.pad makes of them."""

import doctest
from itertools import product

import numpy as np
import pytest

from spmd_grid.errors import ShapeError, ShardingError
from spmd_grid.halo.geometry import boundary
from spmd_grid.halo.geometry.boundary import as_boundary, as_periodic, is_constant, is_function, is_map, mapped


def test_examples():
    result = doctest.testmod(boundary)
    assert result.attempted and not result.failed


def twice(x):
    return 2 * x


def shown(value):
    """A name for a test that is the same in every process."""
    return str(value).replace(str(twice), "twice")


SPELLINGS = [
    # boundary, ndim, rules
    ("leave", 0, ()),
    ("leave", 2, (("leave", "leave"),) * 2),
    ("mirror", 1, (("reflect", "reflect"),)),
    (np.str_("symmetric"), 1, (("symmetric", "symmetric"),)),
    (0.5, 3, ((0.5, 0.5),) * 3),
    (twice, 1, ((twice, twice),)),
    (["edge", 1j], 2, (("edge", "edge"), (1j, 1j))),
    (("edge", ("leave", "mirror")), 2, (("edge", "edge"), ("leave", "reflect"))),
    ([[True, np.float32(2)]], 1, ((True, np.float32(2)),)),
    (np.array([1.5, 2.5]), 2, ((1.5, 1.5), (2.5, 2.5))),
    (np.array([[1, 2], [3, 4]]).tolist(), 2, ((1, 2), (3, 4))),
    ([], 0, ()),
    ([(twice, float("-inf"))], 1, ((twice, float("-inf")),)),
]


@pytest.mark.parametrize(["given", "ndim", "rules"], SPELLINGS, ids=shown)
def test_spellings(given, ndim, rules):
    found = as_boundary(given, ndim)
    assert found == rules
    assert as_boundary(found, ndim) == found
    assert all(type(rule) is not np.str_ for sides in found for rule in sides)


def test_numbers_keep_their_type():
    ((low, high),) = as_boundary([(np.float32(0.1), True)], 1)
    assert type(low) is np.float32 and high is True


REFUSED = [
    # boundary, ndim, words
    ("wrap", 2, ["boundary is 'wrap'", "'leave'", "'edge'", "'reflect'", "'mirror'", "'symmetric'", "number"]),
    ("Edge", 0, ["boundary is 'Edge'"]),
    (None, 1, ["boundary is None", "function"]),
    (["edge"], 2, ["boundary is ['edge']", "2 entries"]),
    (("edge", "leave"), 1, ["1 entries"]),
    ([("edge", "leave", 0)], 1, ["(low, high) pair", "('edge', 'leave', 0)"]),
    ([[]], 1, ["pair"]),
    (["edge", ("edge", "nearest")], 2, ["'nearest' is no rule", "a rule is one of"]),
    ([("edge", ["edge", "edge"])], 1, ["['edge', 'edge'] is no rule"]),
    (np.array(1.0), 1, ["array(1.)"]),
    (np.eye(2), 2, ["array"]),
    (b"edge", 1, ["b'edge'"]),
    (np.bytes_(b"edge"), 1, ["edge"]),
    ({"edge"}, 1, ["{'edge'}"]),
    ({0: "edge"}, 1, ["{0: 'edge'}"]),
]


@pytest.mark.parametrize(["given", "ndim", "words"], REFUSED, ids=str)
def test_refusals(given, ndim, words):
    with pytest.raises(ShardingError) as caught:
        as_boundary(given, ndim)
    assert all(word in str(caught.value) for word in words), caught.value


def test_every_rule_but_leave_is_of_one_kind():
    for rule in ["leave", "edge", "reflect", "symmetric", 0, True, 1j, np.float32(1), np.bool_(False), twice, np.sin]:
        kinds = [is_map(rule), is_constant(rule), is_function(rule)]
        assert sum(kinds) == (not isinstance(rule, str) or rule != "leave"), rule


@pytest.mark.parametrize(
    ["given", "ndim", "flags"],
    [
        (True, 0, ()),
        (True, 2, (True, True)),
        (np.bool_(False), 1, (False,)),
        ([True, False], 2, (True, False)),
        (np.array([False, True]), 2, (False, True)),
        ((), 0, ()),
    ],
    ids=str,
)
def test_periodic(given, ndim, flags):
    found = as_periodic(given, ndim)
    assert found == flags == as_periodic(found, ndim) == as_periodic(given, ndim, at_least=True)
    assert all(type(flag) is bool for flag in found)


@pytest.mark.parametrize(
    "given", [1, None, "yes", [True], [True, False, True], [1, 0], [True, None], np.eye(2, dtype=bool), {True, False}]
)
def test_periodic_refusals(given):
    with pytest.raises(ShapeError, match="(?s)periodic is .*one bool, or one per tensor dimension, which are 2"):
        as_periodic(given, 2)


def test_periodic_of_at_least_so_many_dimensions():
    assert as_periodic([True, False, True], 2, at_least=True) == (True, False, True)
    for given in ([True], [True, False, 1], 1):
        with pytest.raises(ShapeError, match="at least 2"):
            as_periodic(given, 2, at_least=True)


@pytest.mark.parametrize("extent", range(1, 7))
@pytest.mark.parametrize("rule", ["edge", "reflect", "symmetric", "wrap"])
def test_maps_are_those_of_numpy_pad(rule, extent):
    width = 15
    padded = np.pad(np.arange(extent), width, mode=rule)
    ends = [(begin, end) for begin, end in product(range(-width, 1), repeat=2) if begin < end]
    ends += [(extent + begin + width, extent + end + width) for begin, end in ends]
    for begin, end in ends:
        wanted = padded[begin + width : end + width]
        source, step, count = mapped(rule, begin, end, extent)
        assert 1 <= count <= len(wanted)
        assert (source + step * np.arange(count) == wanted[:count]).all()
        if count < len(wanted) and (rule, extent) != ("wrap", 1):
            assert wanted[count] != source + step * count, "it could have gone on"
