"""Plans of operations: as the operations, again and again, and what they refuse."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.transport.communicator import INLINE_BYTES

N = 3


def plans(grid, shape, path, dtype="f8"):
    """(plan, the same call) of every operation."""
    me = grid.rank
    root = [N - 1]
    made = {
        "all_gather": ((0,), {}),
        "all_reduce": (("max",), {}),
        "all_slice": ((0,), {}),
        "all_to_all": ((0, 1), {}),
        "broadcast": ((root,), {}),
        "gather": ((1, root), {}),
        "reduce": (("sum", root), {}),
        "reduce_scatter": (("sum", 1), {}),
        "scatter": ((0, root), {}),
        "shift": ((0, 1), {"fill": 7.0}),
    }
    for name, (args, options) in made.items():
        op = getattr(sg, name)
        has_array = name not in ("broadcast", "scatter") or me == N - 1
        described = (shape, dtype) if has_array else (None, None)
        yield (
            op.plan(grid, *described, [0], *args, **options),
            lambda x, op=op, args=args, options=options: op(x, grid, [0], *args, **options),
        )


def as_calls(shape, path):
    grid = sg.init_grid((N,))
    rng = np.random.default_rng(grid.rank)
    for plan, call in plans(grid, shape, path):
        with plan:
            for _ in range(3):
                x = rng.standard_normal(shape)
                expected = call(x)
                given = None if plan.shape is None else x
                results = [plan.run(given)]
                results.append(plan.run(given, np.empty_like(expected)) if expected is not None else plan.run(given))
                plan.start(given)
                results.append(plan.wait())
                for result in results:
                    assert (result is None) == (expected is None)
                    assert expected is None or np.array_equal(result, expected), plan.describe()
            assert plan.staging_bytes <= 2 << 20
            assert type(plan.describe()) is str


@pytest.mark.parametrize("way", [None, "inline", "message"])
@pytest.mark.parametrize("shape", [(4, 3), (90, 100), (300, 400)], ids=str)
def test_plans_do_what_calls_do(spmd, shape, way):
    spmd(N, as_calls, shape, way)


def refusals():
    grid = sg.init_grid((2,))
    me, said = grid.rank, []

    def refused(kind, function):
        with pytest.raises(kind) as caught:
            function()
        said.append(str(caught.value))

    refused(sg.ShapeError, lambda: sg.all_reduce.plan(grid, (3 + me,), "f8", [0]))
    refused(sg.DTypeError, lambda: sg.all_reduce.plan(grid, (3,), ["f8", "f4"][me], [0]))
    refused(sg.DTypeError, lambda: sg.all_reduce.plan(grid, (3,), object, [0]))
    refused(sg.ShapeError, lambda: sg.all_reduce.plan(grid, (-3,), "f8", [0]))
    refused(sg.DTypeError, lambda: sg.all_reduce.plan(grid, (3,), "f8" if me else "no such", [0]))
    with pytest.raises(sg.TransportError, match="path is 'fast'; it must be one of auto"):
        sg.all_reduce.plan(grid, (3,), "f8", [0], path="fast")
    refused(sg.MismatchError, lambda: sg.all_reduce.plan(grid, (3,), "f8", [0], ["max", "min"][me]))
    plan = sg.all_reduce.plan(grid, (3,), "f8", [0])
    refused(sg.ShapeError, lambda: plan.run(np.ones(3 + me)))
    refused(sg.DTypeError, lambda: plan.run(None if me else np.ones(3)))
    refused(sg.DTypeError, lambda: plan.run(np.ones(3, ["f8", "f4"][me])))
    refused(sg.OutputError, lambda: plan.run(np.ones(3), out=np.ones(3 + me)))
    refused(sg.MismatchError, lambda: plan.run(np.ones(3)) if me else sg.all_reduce(np.ones(3), grid, [0]))
    other = sg.all_reduce.plan(grid, (3,), "f8", [0], "max")
    refused(sg.MismatchError, lambda: (plan if me else other).run(np.ones(3)))
    with pytest.raises(sg.RequestError, match="has not been started"):
        plan.wait()
    plan.start(np.ones(3))
    assert plan.wait().tolist() == [2, 2, 2]
    if me == 0:
        plan.close()
    refused(sg.RequestError, lambda: plan.run(np.ones(3)))
    return said


def test_refusals_are_alike(spmd):
    first, second = spmd(2, refusals)[:2]
    assert first == second
    assert first[6] == "all_reduce: x has shape (4,); the plan is for (3,) (on rank 1 (1,))"
    assert first[7] == "all_reduce: x is None; this process must pass an array (on rank 1 (1,))"


def point_to_point():
    grid = sg.init_grid((2,))
    if grid.rank == 0:
        with sg.send.plan(grid, (2, 3), "i4", [0], [1]) as plan:
            plan.run(np.arange(6, dtype="i4").reshape(2, 3))
            plan.start(np.ones((2, 3), "i4"))
            plan.wait()
            with pytest.raises(sg.ShapeError, match=r"x has shape \(3,\); the plan is for \(2, 3\)"):
                plan.run(np.ones(3, "i4"))
        return None
    with sg.recv.plan(grid, (2, 3), "i4", [0], [0]) as plan:
        first = plan.run()
        plan.start()
        return first.tolist(), plan.wait().sum()


def test_send_and_receive(spmd):
    assert spmd(2, point_to_point)[1] == ([[0, 1, 2], [3, 4, 5]], 6)


def test_described():
    def body():
        grid = sg.init_grid((2,))
        return sg.all_gather.plan(grid, (4, 5), "f8", [0], 0).describe()

    lines = sg.run_spmd(body, ranks=2)[0].splitlines()
    assert lines[:2] == [
        "all_gather.plan.run(grid_axes=[0], gather_axis=0) on float64 of shape (4, 5), 2 members",
        "  sends 160 bytes to the other members and receives 160",
    ]
    assert lines[2].startswith("  direct: ")
    with sg.forced_path("message"):
        assert sg.run_spmd(body, ranks=2)[0].splitlines()[2].startswith("  by messages") and INLINE_BYTES == 128
