"""The dialect's cases of canonicalisation, simplification, partitioning and propagation, as programs.

Where the engine does otherwise, on purpose:

slice_then_ag                       the dialect drops both; we do only where both are shardings of one array, since a
                                    slice of unequal copies, gathered, is another array
ag_slice_kept_other_tensor_dim,     unchanged in the dialect; here one move, which takes no cell that is not needed
  ag_slice_kept_other_grid_axes,
  allreduce_slice_kept_other_grid
allreduce_slice_type_promotion      values are converted before they are combined, so the conversion is in the sum
empty_axes_identity_...             the operations give new arrays, since results never alias operands; programs have
                                    no step there
grid_shape_fold_partial             grids have no dynamic extents
arg_not_annotated, ...              what is not annotated is propagated to
prop_broadcast_dim_cannot_shard     a dimension of extent 1 is made whole where it is repeated
unregistered_op_needs_replication   refused while the function is traced, with its name
"""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.program.partition.steps import LocalValue, Move

GRID_42, GRID_22, GRID_24 = sg.Grid((4, 2)), sg.Grid((2, 2)), sg.Grid((2, 4))


def between(grid, shape, *shardings, **options):
    """The communications of an array that is brought into one sharding after the other."""

    def chain(a):
        for each in shardings[1:]:
            a = sg.constrain(a, each, for_users=True)
        return a

    part = sg.partition(sg.trace(chain, sg.ArraySpec(shape)), grid, shardings[0], shardings[-1], **options)
    return moved(part)


def moved(part):
    """Every communication, also of those that run as one."""
    steps = [each for step in part.schedule.steps if isinstance(step, Move) for each in step.plan.steps]
    return [(each.kind, each.grid_axes) for each in steps if each.kind not in ("all_slice", "mark_partial")]


def cut(grid, axes=(), **options):
    return sg.Sharding(grid, list(axes), **options)


# -- canonicalize ----------------------------------------------------------------------------------------------------


def test_halos_of_no_cells_are_none():
    grid = sg.Grid((4,))
    assert cut(grid, [[0]], halo_sizes=[0, 0]) == cut(grid, [[0]])


def test_operations_over_no_axes_are_identities_in_programs():
    grid = sg.Grid((2, 1))
    part = sg.partition(
        sg.trace(lambda a: a, sg.ArraySpec((4, 8))), grid, cut(grid, [[0]]), cut(grid, [[0, 1]]), optimise=False
    )
    assert part.schedule.steps == ()


def test_operations_over_no_axes(spmd):
    x = np.arange(6.0).reshape(2, 3)

    def body():
        grid = sg.init_grid((3,))
        found = [
            sg.all_gather(x, grid, [], 0),
            sg.broadcast(x, grid, [], []),
            sg.scatter(x, grid, [], 0, []),
            sg.all_reduce(x, grid, []),
        ]
        assert not any(np.shares_memory(each, x) for each in found)
        promoted = sg.all_reduce(x.astype("f4"), grid, [], dtype="f8")
        return [np.array_equal(each, x) for each in [*found, promoted]], promoted.dtype == "f8"

    assert spmd(3, body) == [([True] * 5, True)] * 3


def test_shape_of_a_grid_along_axes():
    assert sg.Grid((4, 3, 2)).grid_shape([2, 1]) == (2, 3)


# -- simplify --------------------------------------------------------------------------------------------------------

WHOLE_22, WHOLE_42 = cut(GRID_22), cut(GRID_42)
PARTIAL = {kind: cut(GRID_42, partial_axes=[0], partial_kind=kind) for kind in ("sum", "max")}
SIMPLIFIED = {
    "ag_then_slice": ((4, 8), [cut(GRID_22, [[], [1]]), WHOLE_22, cut(GRID_22, [[], [1]])], []),
    "slice_then_ag": ((4, 4), [WHOLE_22, cut(GRID_22, [[], [1]]), WHOLE_22], []),
    "slice_then_ag of contributions": (
        (4, 4),
        [cut(GRID_22, partial_axes=[1]), cut(GRID_22, [[], [1]]), WHOLE_22],
        [("all_reduce", (1,))],
    ),
    "ag_slice_kept_other_tensor_dim": (
        (4, 8),
        [cut(GRID_22, [[], [1]]), WHOLE_22, cut(GRID_22, [[1]])],
        [("all_to_all", (1,))],
    ),
    "ag_slice_kept_other_grid_axes": ((4, 8), [cut(GRID_22, [[], [1]]), WHOLE_22, cut(GRID_22, [[], [0]])], None),
    "allreduce_slice_sum": ((4, 8), [PARTIAL["sum"], WHOLE_42, cut(GRID_42, [[0]])], [("reduce_scatter", (0,))]),
    "allreduce_slice_max": ((4, 8), [PARTIAL["max"], WHOLE_42, cut(GRID_42, [[0]])], [("reduce_scatter", (0,))]),
    "allreduce_slice_dim1": (
        (4, 8),
        [cut(GRID_42, partial_axes=[1]), WHOLE_42, cut(GRID_42, [[], [1]])],
        [("reduce_scatter", (1,))],
    ),
    "allreduce_slice_kept_other_grid": (
        (4, 8),
        [PARTIAL["sum"], WHOLE_42, cut(GRID_42, [[], [1]])],
        None,
    ),
}


@pytest.mark.parametrize("case", SIMPLIFIED)
def test_simplified(case):
    shape, shardings, expected = SIMPLIFIED[case]
    grid = shardings[0].grid
    found = between(grid, shape, *shardings)
    assert len(found) <= len(between(grid, shape, *shardings, optimise=False))
    assert found == expected if expected is not None else len(found) == 1


TERMS = {
    "allreduce_add_merge": (lambda x, y: x.sum(axis=0) + y.sum(axis=0), 1),
    "allreduce_min_merge": (lambda x, y: np.minimum(x.min(axis=0), y.min(axis=0)), 1),
    "allreduce_merge_kept_kinds_max_and_sum_under_addf": (lambda x, y: x.max(axis=0) + y.sum(axis=0), 2),
}


@pytest.mark.parametrize("case", TERMS)
def test_merged(case):
    function, n = TERMS[case]
    program = sg.trace(function, *[sg.ArraySpec((4, 8))] * 2)
    part = sg.partition(program, GRID_42, cut(GRID_42, [[0]]))
    assert [kind for kind, _ in moved(part)] == ["all_reduce"] * n


def test_all_reduces_that_are_used_twice_are_not_merged():
    def function(x, y):
        first = x.sum(axis=0)
        return first + y.sum(axis=0), first

    part = sg.partition(sg.trace(function, *[sg.ArraySpec((4, 8))] * 2), GRID_42, cut(GRID_42, [[0]]))
    assert [kind for kind, _ in moved(part)] == ["all_reduce"] * 2


def test_all_reduces_over_different_axes_are_not_merged():
    program = sg.trace(lambda x, y: x.sum(axis=0) + y.sum(axis=0), *[sg.ArraySpec((4, 8))] * 2)
    part = sg.partition(program, GRID_42, [cut(GRID_42, [[0]]), cut(GRID_42, [[1]])])
    assert [each.grid_axes for each in part.collectives()] == [(0,), (1,)]


def test_sums_are_converted_before_they_are_scattered():
    def function(x):
        return sg.constrain(x.sum(axis=0, dtype="f8"), cut(GRID_42, [[0]]), for_users=True, priority=1)

    part = sg.partition(sg.trace(function, sg.ArraySpec((4, 8), "f4")), GRID_42, cut(GRID_42, [[0]]))
    assert part.collectives() == [("reduce_scatter", (0,), 3 * 2 * 8)]


# -- partition_op ----------------------------------------------------------------------------------------------------


def local_shapes(part, coords):
    """By name of a value the shapes of the blocks that hold it."""
    values = [x for step in part.schedule.steps for x in (*step.inputs, *step.results)]
    return {x.value.name: x.layout.local_shape(coords) for x in [*part.schedule.arguments, *values]}


def test_elementwise_local():
    grid = sg.Grid((2,))
    part = sg.partition(sg.trace(np.abs, sg.ArraySpec((2,))), grid, cut(grid, [[0]]))
    assert part.collectives() == []
    assert set(local_shapes(part, (0,)).values()) == {(1,)}


def test_elementwise_with_reshard():
    grid = sg.Grid((2,))

    def function(a):
        cells = sg.constrain(a, cut(grid, [[0]]), for_users=True)
        return np.abs(cells)

    program = sg.trace(function, sg.ArraySpec((2,)))
    part = sg.partition(program, grid, cut(grid), cut(grid), optimise=False)
    kinds = [each.kind for step in part.schedule.steps if isinstance(step, Move) for each in step.plan.steps]
    assert kinds == ["all_slice", "all_gather"]


def test_reduction_of_a_dimension_that_is_whole():
    grid = sg.Grid((2,))
    part = sg.partition(sg.trace(lambda a: a.sum(axis=1), sg.ArraySpec((6, 6), name="a")), grid, cut(grid, [[0]]))
    assert part.collectives() == []
    (result,) = part.schedule.results
    assert isinstance(result, LocalValue)
    assert (local_shapes(part, (1,))["a"], result.layout.local_shape((1,))) == ((3, 6), (3,))


def test_matmul_with_columns_resharded():
    grid = sg.Grid((4,))

    def function(a, b):
        return a @ sg.constrain(b, cut(grid, [[], [0]]), for_users=True)

    program = sg.trace(function, sg.ArraySpec((4, 6)), sg.ArraySpec((6, 8)))
    part = sg.partition(program, grid, cut(grid), cut(grid), optimise=False)
    moves = [step.plan.steps for step in part.schedule.steps if isinstance(step, Move)]
    assert [[(each.kind, each.grid_axes) for each in steps] for steps in moves] == [
        [("all_slice", (0,))],
        [("all_gather", (0,))],
    ]
    assert part.collectives() == [("all_gather", (0,), 4 * 6 * 8)]


def test_mlp_weight_stationary():
    grid = sg.Grid((4,))

    def function(x, w1, w2):
        h = 1 / (1 + np.exp(-(x @ w1)))
        return h @ w2

    program = sg.trace(
        function, sg.ArraySpec((512, 2048), "f4"), sg.ArraySpec((2048, 1024), "f4"), sg.ArraySpec((1024, 2048), "f4")
    )
    given = [cut(grid, [[], [0]]), cut(grid, [[], [0]]), cut(grid, [[0]])]
    part = sg.partition(program.mutate(program.operations[0], [[], [0], []]), grid, given, cut(grid))
    received = 512 * 2048 * 4 // 4 * 3
    assert part.collectives() == [("all_gather", (0,), received), ("all_reduce", (0,), 2 * received)]
    shapes = [each.layout.local_shape((1,)) for each in part.schedule.arguments]
    assert shapes == [(512, 512), (2048, 256), (256, 2048)]


def test_constants_are_cut():
    part = sg.partition(
        sg.trace(lambda a: a + np.ones((1024, 1024)), sg.ArraySpec((1024, 1024))),
        sg.Grid((4, 4)),
        cut(sg.Grid((4, 4)), [[0]]),
    )
    (result,) = part.schedule.results
    assert isinstance(result, LocalValue)
    assert part.collectives() == []
    assert result.layout.local_shape((0, 0)) == (256, 1024)


def test_functions_without_a_rule_are_refused():
    with pytest.raises(sg.ImplicitGatherError, match="roots"):
        sg.trace(np.roots, sg.ArraySpec((4,)))


# -- partition_error: what is not annotated --------------------------------------------------------------------------


def test_what_is_not_annotated_is_propagated_to():
    grid = sg.Grid((2,))

    def function(a, b):
        return sg.constrain(a + b, cut(grid, [[0]]), for_users=True)

    part = sg.partition(sg.trace(function, sg.ArraySpec((4,)), sg.ArraySpec((4,))), grid)
    assert [each.split_axes for each in (*part.in_shardings, *part.out_shardings)] == [((0,),)] * 3


# -- propagation -----------------------------------------------------------------------------------------------------


def chain(a):
    return np.negative(np.exp(np.abs(a)))


@pytest.mark.parametrize("place", ["argument", "result", "between"])
def test_elementwise_any_annotation(place):
    given = cut(GRID_24, [[0], [1]])

    def function(a):
        return np.negative(np.exp(sg.constrain(np.abs(a), given)) if place == "between" else np.exp(np.abs(a)))

    program = sg.trace(function, sg.ArraySpec((8, 16)))
    part = sg.partition(program, GRID_24, given if place == "argument" else None, given if place == "result" else None)
    assert {part.sharding_of(value.name) for value in program.values} == {given}


def product(a, b):
    c = a @ b
    return c


PRODUCTS = {
    "matmul_result_01": ({"c": [[0], [1]]}, {"a": [[0], [1]], "b": [[0]]}),
    "matmul_result_mn": ({"c": [[], [0], [1]]}, {"a": [[], [0]], "b": [[], [], [1]]}),
    "matmul_lhs_mk": ({"a": [[], [0], [1]]}, {"b": [[], [1]], "c": [[], [0]]}),
    "matmul_both_k": ({"a": [[], [1], [0]], "b": [[], [0]]}, {"c": [[], [1]]}),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_batch_matmul(case):
    given, inferred = PRODUCTS[case]
    given = {name: cut(GRID_24, axes) for name, axes in given.items()}
    program = sg.trace(product, sg.ArraySpec((2, 16, 8)), sg.ArraySpec((2, 8, 32)))
    (result,) = program.results
    part = sg.partition(program, GRID_24, [given.get("a"), given.get("b")], [given.get("c")])
    names = {"a": "a", "b": "b", "c": result.name}
    assert {name: part.sharding_of(names[name]) for name in inferred} == {
        name: cut(GRID_24, axes) for name, axes in inferred.items()
    }


def test_chain_whose_end_is_whole():
    part = sg.partition(sg.trace(chain, sg.ArraySpec((8, 16))), GRID_24, None, cut(GRID_24))
    assert {part.sharding_of(value.name) for value in part.program.values} == {cut(GRID_24)}


def test_mlp_1d():
    """Both products have annotated operands along their last dimension: k of the first, n of the second."""
    grid = sg.Grid((2, 3, 4))
    last = cut(grid, [[], [], [0, 1, 2]])

    def function(x, w1, w2):
        first = x @ w1
        h = 1 / (1 + np.exp(-first))
        return first, h, h @ w2

    specs = sg.ArraySpec((2, 24, 48)), sg.ArraySpec((2, 48, 24)), sg.ArraySpec((2, 24, 48))
    program = sg.trace(function, *specs)
    part = sg.partition(program, grid, [last, None, last])
    first, h, y = (part.sharding_of(each.name) for each in program.results)
    assert part.sharding_of("w1") == cut(grid, [[], [0, 1, 2]])
    assert (first, h, y) == (cut(grid), cut(grid), last)


def test_control_flow_by_cells_is_refused():
    """A function of more than one block does not arise: decisions on cells are refused with their line."""
    with pytest.raises(sg.ImplicitGatherError, match=r"test_cases_of_programs\.py:\d+"):
        sg.trace(lambda a: a if a[0] > 0 else -a, sg.ArraySpec((4,)))


def test_a_dimension_that_is_repeated_is_made_whole():
    grid = sg.Grid((2,))
    program = sg.trace(product, sg.ArraySpec((1, 4, 8)), sg.ArraySpec((2, 8, 16)))
    part = sg.partition(program, grid, [cut(grid, [[0]]), None])
    assert part.sharding_of("a") == cut(grid, [[0]])
    assert len(part.collectives()) == 1
