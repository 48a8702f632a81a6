"""The examples of Shardy's guide to its annotations, run and compared with numpy; and priorities."""

import numpy as np
import pytest
from support.program.running import gathered

import spmd_grid as sg

GRID = sg.Grid((2, 2), axis_names=["x", "y"])
X = np.arange(64.0).reshape(8, 8) % 7
SPEC = sg.ArraySpec((8, 8))


def by(*cuts, **options):
    return sg.Sharding(GRID, list(cuts), **options)


def partitioned(fn, *given, outs=None, n=1):
    program = sg.trace(fn, *[SPEC] * n)
    return sg.partition(program, GRID, list(given) or None, outs, optimise=False)


def agrees(spmd, part, fn, *arrays):
    """Whether the program gives what the function gives of numpy arrays."""

    def body():
        grid = sg.init_grid((2, 2), axis_names=["x", "y"])
        shards = [sg.from_global(a, sharding, grid) for a, sharding in zip(arrays, part.in_shardings)]
        found = part.run(grid, *shards)
        for one, other in zip(*[each if isinstance(each, tuple) else (each,) for each in (found, fn(*arrays))]):
            np.testing.assert_allclose(gathered(one), other)

    spmd(4, body)


def test_input_and_output_shardings(spmd):
    """One input has a sharding, the other none; the output has another one."""

    def main(a, b):
        return a @ b

    part = partitioned(main, by(["x"]), None, outs=[by([], ["y"])], n=2)
    assert part.in_shardings[0] == by(["x"])
    assert part.out_shardings == (by([], ["y"]),)
    agrees(spmd, part, main, X, X.T)


def test_a_constraint_without_uses_is_for_the_value(spmd):
    def main(a):
        b = a + 1
        sg.constrain(b, by(["x"], [sg.OPEN]))
        return b * 2

    part = partitioned(main)
    assert part.sharding_of("b") == part.sharding_of(0) == by(["x"])
    agrees(spmd, part, main, X)


def test_a_constraint_with_uses_is_for_them_alone(spmd):
    def main(a):
        b = sg.constrain(a + 1, by(["x"]))
        c = sg.constrain(b, by([], ["y"]), for_users=True)
        return c * 2, b * 3

    part = partitioned(main)
    twice, thrice = part.program.results
    assert part.sharding_of("b") == by(["x"]) and part.sharding_of("c") == by([], ["y"])
    assert (part.sharding_of(twice), part.sharding_of(thrice)) == (by([], ["y"]), by(["x"]))
    agrees(spmd, part, main, X)


@pytest.mark.parametrize("last", [[], ["y"]])
def test_open_dimensions_take_more_axes_and_closed_ones_none(last):
    """The argument is cut along both dimensions; the second of the constraint is open or closed."""
    for mark, wanted in (([sg.OPEN], last), ([], [])):
        part = partitioned(lambda a, mark=mark: sg.constrain(a + 1, by(["x"], mark)), by(["x"], last))
        assert part.sharding_of(part.program.results[0]) == by(["x"], wanted)


def test_an_open_dimension_with_axes_takes_them_first():
    part = partitioned(lambda a: sg.constrain(a + 1, by(["x", sg.OPEN])), by(["x", "y"]))
    assert part.sharding_of(part.program.results[0]) == by(["x", "y"])
    part = partitioned(lambda a: sg.constrain(a + 1, by(["x", sg.OPEN])), by(["y", "x"]))
    assert part.sharding_of(part.program.results[0]) == by(["x"])


@pytest.mark.parametrize("first", [0, 1])
def test_the_lower_priority_number_wins(spmd, first):
    """Two hints for the operands of a sum, both of which reach the result: the one that is laid first stays."""

    def main(a, b):
        a = sg.constrain(a, by(["x"], []), required=False, priority=first)
        b = sg.constrain(b, by([], ["x"]), required=False, priority=1 - first)
        return a + b

    part = partitioned(main, n=2)
    assert part.sharding_of(part.program.results[0]) == (by(["x"]), by([], ["x"]))[first]
    agrees(spmd, part, main, X, X.T)


def test_a_group_has_one_sharding(spmd):
    """Without a path of operations between them, the two sums are sharded alike."""

    def main(a, b):
        c = a + 1
        d = b * 2
        sg.sharding_group(c, "sums")
        sg.sharding_group(d, "sums")
        return c, d

    part = partitioned(main, by(["y"], ["x"]), None, n=2)
    assert part.sharding_of("c") == part.sharding_of("d") == part.sharding_of(1) == by(["y"], ["x"])
    agrees(spmd, part, main, X, X.T)


def test_a_hint_gives_way_to_a_later_requirement_and_is_remembered():
    def main(a):
        b = sg.constrain(a + 1, by([], ["x"]), required=False)
        return sg.constrain(b, by(["x"]))

    part = partitioned(main)
    assert part.sharding_of("b") == by(["x"])
    ((hint, reason),) = part.solution.dropped
    assert not hint.required and "dimension 1 of %b" in reason
