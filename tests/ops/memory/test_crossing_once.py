"""Bytes between nodes against the lower bound, for each operation: each byte crosses to a node once.

One machine whose arena is divided stands for several; what goes to processes outside a node's arena is counted where it
is handed to MPI.
"""

import json

import pytest
from support.jobs import run_job

PROGRAM = """
import json, sys
import numpy as np
import spmd_grid as sg
from support.crossing import CrossedBytes

crossed = CrossedBytes()
order, per_node, width = json.loads(sys.argv[1])


def sum_of(arrays):
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


grid = sg.init_grid((-1,), ranks=order)
n, me = grid.grid.size, grid.coords[0]
rng = np.random.default_rng(5)
rows = 8 * n + 1  # uneven blocks
floats = rng.standard_normal((n, rows, width))
whole = rng.integers(-(2**62), 2**62, floats.shape)  # their sums wrap
node_of = [each // per_node for each in order]  # the members of a node first, then the nodes
sums = [sum_of(floats[[i for i, each in enumerate(node_of) if each == node]]) for node in dict.fromkeys(node_of)]
total, exact = sum_of(sums), whole.sum(axis=0)
parts, wholes = np.concatenate(list(floats)), np.concatenate(list(whole))
extent = -(-rows // n)
mine = slice(min(me * extent, rows), min((me + 1) * extent, rows))
last = n - 1
cases = {
    "broadcast": (lambda x: sg.broadcast(x if me == last else None, grid, [0], [last]), floats, lambda: floats[last]),
    "all_gather": (lambda x: sg.all_gather(x, grid, [0], 0), floats, lambda: parts),
    "all_gather, columns": (lambda x: sg.all_gather(x, grid, [0], 1), floats, lambda: np.concatenate(list(floats), 1)),
    "all_reduce": (lambda x: sg.all_reduce(x, grid), floats, lambda: total),
    "all_reduce, exact": (lambda x: sg.all_reduce(x, grid), whole, lambda: exact),
    "all_reduce, max": (lambda x: sg.all_reduce(x, grid, [0], "max"), floats, lambda: floats.max(axis=0)),
    "reduce to the last": (lambda x: sg.reduce(x, grid, [0], "sum", [last]), floats,
                           lambda: total if me == last else None),
    "reduce to the first, exact": (lambda x: sg.reduce(x, grid, [0], "sum", [0]), whole,
                                   lambda: exact if me == 0 else None),
    "reduce_scatter": (lambda x: sg.reduce_scatter(x, grid, [0], "sum", 0), floats, lambda: total[mine]),
    "reduce_scatter, exact": (lambda x: sg.reduce_scatter(x, grid, [0], "sum", 0), whole, lambda: exact[mine]),
    "all_to_all": (lambda x: sg.all_to_all(x, grid, [0], 0, 1), floats,
                   lambda: np.concatenate([part[mine] for part in floats], 1)),
    "gather": (lambda x: sg.gather(x, grid, [0], 0, [0]), floats, lambda: parts if me == 0 else None),
    "scatter": (lambda x: sg.scatter(x, grid, [0], 0, [0]), floats, lambda: floats[0][mine]),
}
found = {}
for name, (operation, given, expected) in cases.items():
    for memory in ("arena", "heap"):
        x = grid.allocate(given[me].shape, given.dtype) if memory == "arena" else np.empty_like(given[me])
        x[...] = given[me]
        before = crossed.n
        result, right = operation(x), expected()
        assert (result is None) == (right is None), (name, memory)
        assert right is None or np.array_equal(result, right), (name, memory)
        assert np.array_equal(x, given[me])
        bytes_crossed = int(sg.all_reduce(crossed.n - before, grid))  # so short that it travels with the headers
        found[f"{name}, {memory}"] = bytes_crossed / floats[0].nbytes
crossed.is_planning, kind, nothing = True, (floats[me].shape, float), (None, None)
plans = {
    "broadcast": sg.broadcast.plan(grid, *(kind if me == last else nothing), [0], [last]),
    "all_gather": sg.all_gather.plan(grid, *kind, [0], 0),
    "all_gather, columns": sg.all_gather.plan(grid, *kind, [0], 1),
    "all_reduce": sg.all_reduce.plan(grid, *kind, [0]),
    "reduce to the last": sg.reduce.plan(grid, *kind, [0], "sum", [last]),
    "reduce_scatter": sg.reduce_scatter.plan(grid, *kind, [0], "sum", 0),
    "all_to_all": sg.all_to_all.plan(grid, *kind, [0], 0, 1),
    "gather": sg.gather.plan(grid, *kind, [0], 0, [0]),
    "scatter": sg.scatter.plan(grid, *(kind if me == 0 else nothing), [0], 0, [0]),
}
crossed.is_planning, ahead = False, 0
for name, plan in plans.items():
    for _ in range(3):  # the last by compiled code
        before = crossed.n
        result, right = plan.run(floats[me] if plan.shape is not None else None), cases[name][2]()
        assert (result is None) == (right is None) and (right is None or np.array_equal(result, right)), name
        bytes_crossed = int(sg.all_reduce(crossed.n - before, grid))
    found[f"{name}, plan"] = bytes_crossed / floats[0].nbytes
    ahead += "without a meeting" in plan.describe()
if me == 0:
    print(json.dumps([found, ahead]))
"""


def lower_bounds(node_of):
    """The arrays that must cross between nodes, by operation."""
    n, nodes = len(node_of), len(set(node_of))
    rows = 8 * n + 1
    extents = [max(0, min((i + 1) * -(-rows // n), rows) - i * -(-rows // n)) / rows for i in range(n)]
    return {
        "broadcast": nodes - 1,
        "all_gather": n * (nodes - 1),
        "all_gather, columns": n * (nodes - 1),
        "all_reduce": 2 * (nodes - 1),
        "all_reduce, exact": 2 * (nodes - 1),
        "all_reduce, max": 2 * (nodes - 1),
        "reduce to the last": nodes - 1,
        "reduce to the first, exact": nodes - 1,
        "reduce_scatter": nodes - 1,
        "reduce_scatter, exact": nodes - 1,
        "all_to_all": sum(extents[j] for i in range(n) for j in range(n) if node_of[i] != node_of[j]),
        "gather": sum(node != node_of[0] for node in node_of),
        "scatter": sum(extents[j] for j in range(n) if node_of[j] != node_of[0]),
    }


def other_ways(nodes):
    """The arrays that cross where more of them take less time, by operation: in fewer crossings one after the other,
    or with fewer bytes into the busiest node.

    The sums of all nodes cross to all others; or what is folded is passed from node to node, and then to root.
    """
    return {"all_reduce": [nodes * (nodes - 1)], "reduce": [nodes] if nodes > 2 else []}


@pytest.mark.parametrize(
    ("n", "per_node", "order", "arena"),
    [
        pytest.param(4, 2, [0, 1, 2, 3], "8000000", id="2 nodes of 2, in pieces"),
        pytest.param(4, 3, [0, 1, 2, 3], "", id="nodes of 3 and 1"),
        pytest.param(4, 2, [0, 2, 1, 3], "", id="2 nodes of 2, by turns"),
        pytest.param(6, 2, [0, 1, 2, 3, 4, 5], "", id="3 nodes of 2"),
        pytest.param(6, 3, [0, 1, 2, 3, 4, 5], "", id="2 nodes of 3", marks=pytest.mark.full),
        pytest.param(6, 4, [5, 0, 1, 2, 3, 4], "", id="nodes of 2 and 4, by turns", marks=pytest.mark.full),
    ],
)
def test_bytes_between_nodes(tmp_path, n, per_node, order, arena):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {"SPMD_GRID_RANKS_PER_NODE": str(per_node)} | ({"SPMD_GRID_ARENA": arena} if arena else {})
    width = 2500 if arena else 300
    job = run_job("mpiexec", n, program, json.dumps([order, per_node, width]), environment=environment)
    assert (job.code, job.err) == (0, ""), job
    found, ahead = json.loads(job.out)
    node_of = [process // per_node for process in order]
    assert len(found) == 35 and ahead > 5, (found, ahead)
    others = other_ways(len(set(node_of)))
    for operation, bound in lower_bounds(node_of).items():
        for memory in ("arena", "heap", "plan"):
            crossed = found.get(f"{operation}, {memory}", bound)
            ways = [bound, *others.get(operation.split(",")[0].split(" ")[0], [])]
            is_one = any(way - 1e-9 <= crossed <= 1.001 * way for way in ways)
            assert is_one, (operation, memory, crossed, ways, found)


SMALL = """
import json
import numpy as np
import spmd_grid as sg
from support.crossing import CrossedBytes
from support.ops.direct_messages import send_directly

crossed = CrossedBytes()
send_directly()
grid = sg.init_grid((-1,))
n, me = grid.size, grid.rank
xs = [np.arange(12.0 * n).reshape(n, 12) + 100 * i for i in range(n)]
crossed.is_planning, kind = True, ((n, 12), float)
cases = {
    "all_gather": (sg.all_gather.plan(grid, *kind, [0], 0), np.concatenate(xs)),
    "all_to_all": (sg.all_to_all.plan(grid, *kind, [0], 0, 1), np.concatenate([x[me : me + 1] for x in xs], 1)),
    "all_reduce": (sg.all_reduce.plan(grid, *kind, [0]), sum(xs)),
    "reduce_scatter": (sg.reduce_scatter.plan(grid, *kind, [0], "sum", 0), sum(xs)[me : me + 1]),
    "reduce": (sg.reduce.plan(grid, *kind, [0], "sum", [0]), sum(xs) if me == 0 else None),
}
crossed.is_planning, found = False, {}
for name, (plan, want) in cases.items():
    for _ in range(4):  # the last by compiled code
        before = crossed.n
        assert np.array_equal(plan.run(xs[me]), want) if want is not None else plan.run(xs[me]) is None, name
        found[name] = int(sg.all_reduce(crossed.n - before, grid))
if me == 0:
    print(json.dumps(found))
"""


@pytest.mark.parametrize(("n", "per_node"), [(4, 2), (4, 3), pytest.param(6, 2, marks=pytest.mark.full)])
def test_bytes_of_small_plans_that_go_side_by_side(tmp_path, n, per_node):
    program = tmp_path / "program.py"
    program.write_text(SMALL)
    job = run_job("mpiexec", n, program, environment={"SPMD_GRID_RANKS_PER_NODE": str(per_node)})
    assert (job.code, job.err) == (0, ""), job
    sizes = [min(per_node, n - first) for first in range(0, n, per_node)]
    row = 12 * 8  # bytes, of which each member has n
    whole = n * (len(sizes) - 1) * n * row  # from each member to each other node
    blocks = sum(size * (n - size) for size in sizes) * row
    to_first = (n - sizes[0]) * n * row
    expected = {"all_gather": whole, "all_reduce": whole, "all_to_all": blocks, "reduce_scatter": blocks}
    assert json.loads(job.out) == expected | {"reduce": to_first}
