"""Prices of programs on machines that are not here: closed forms, shared links, and files of steps."""

import json
import time

import pytest

import spmd_grid as sg
from spmd_grid.cli.main import main
from spmd_grid.grid.layout import Layout
from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.links.model import LinkModel
from spmd_grid.pricing.halos import halo_bytes, halo_seconds
from spmd_grid.pricing.price import machine_links, price
from spmd_grid.pricing.steps import OperationStep, ReshardStep, read_steps

INFINITE = 1e30  # bytes per second
# Nothing takes time but bytes on cables: prices are bytes over bandwidths.
CABLES = {
    "node_latency": 0,
    "network_latency": 0,
    "message_seconds": 0,
    "node_bandwidth": INFINITE,
    "memory_bandwidth": INFINITE,
    "network_bandwidth": INFINITE,
    "cable_bandwidth": 1e9,
}


def pattern(grid, shape, split, halo, **options):
    return HaloPattern(Layout(sg.Sharding(sg.Grid(grid), split, halo_sizes=halo), shape), **options)


@pytest.mark.parametrize(
    "grid, shape, split, halo, options, node_size, cells, messages",
    [
        # A line of nodes: each has one cell on either side.
        ((12,), (120,), [[0]], [1, 1], {}, 4, 2, 1),
        ((8,), (80,), [[0]], [1, 1], {}, 4, 1, 1),
        ((8,), (80,), [[0]], [3, 2], {}, 4, 3, 1),
        # Periodic lines: the ends meet; two nodes of one process have each other on both sides.
        ((8,), (80,), [[0]], [1, 1], {"periodic": True}, 4, 2, 1),
        ((2,), (20,), [[0]], [1, 1], {"periodic": True}, 1, 2, 1),
        # Rows of 8 devices with 10 x 7 cells: two sides of 56 cells, and 14 corners at each.
        ((4, 8), (40, 56), [[0], [1]], [1, 1, 1, 1], {}, 8, 2 * 56 + 2 * 14, 6),
        ((4, 8), (40, 56), [[0], [1]], [1, 1, 1, 1], {"corners": False}, 8, 2 * 56, 2),
        # Nodes have the columns 0-3 or 4-7 of a row: one more side of 10 cells, with its corners above and below.
        ((4, 8), (40, 56), [[0], [1]], [1, 1, 1, 1], {}, 4, 2 * 28 + 2 * 7 + 10, 7),
        # Only half of the axes split: every group has the whole traffic, and a node all members of one coordinate.
        ((3, 4), (30,), [[0]], [1, 1], {}, 4, 4 * 2, 2),
    ],
    ids=str,
)
def test_halos(grid, shape, split, halo, options, node_size, cells, messages):
    links = LinkModel(**CABLES, node_size=node_size)
    found = halo_bytes(pattern(grid, shape, split, halo, **options), 8, links)
    assert (found.far_of_node, found.messages) == (8 * cells, messages)
    assert halo_seconds(pattern(grid, shape, split, halo, **options), 8, links) == pytest.approx(8e-9 * cells)
    three = halo_seconds(pattern(grid, shape, split, halo, **options), 8, links, fields=3)
    assert three == pytest.approx(24e-9 * cells)


def test_halos_on_one_node_and_on_none():
    one = LinkModel(node_size=8, node_latency=1e-6, node_bandwidth=1e9, bus_bandwidth=2e9, call_seconds=5e-6)
    line = pattern((8,), (80,), [[0]], [1, 1])
    assert halo_seconds(line, 8, one) == pytest.approx(1e-6 + 16 / (2e9 / 8))
    assert halo_seconds(pattern((1,), (80,), [[0]], [1, 1]), 8, one) == 0


def test_few_nodes_stand_for_all():
    """A node in the middle of a large grid is as busy as in a small one."""
    links = LinkModel(**CABLES, node_size=8)
    small = halo_bytes(pattern((4, 8), (40, 56), [[0], [1]], [1, 1, 1, 1]), 8, links)
    large = halo_bytes(pattern((512, 8), (5120, 56), [[0], [1]], [1, 1, 1, 1]), 8, links)
    assert small == large


@pytest.mark.parametrize(
    "name, axes, crossing",
    [
        # On 2 x 4 nodes of 4: groups over axis 0 share a cable by fours, that over both axes has it alone.
        ("all_reduce", (0,), 4 * 2 * 0.5),
        # The sums of the two nodes cross at once.
        ("all_reduce", (0, 1), 1),
        ("reduce_scatter", (0, 1), 0.5),
        ("reduce_scatter", (0,), 4 * 0.5),
        ("all_gather", (0,), 4 * 2 * 0.5),
        ("all_to_all", (0, 1), 4 * 0.5),
        ("broadcast", (0,), 4),
        ("all_reduce", (1,), 0),
    ],
)
def test_operations_share_cables(name, axes, crossing):
    links = LinkModel(**CABLES, node_size=4)
    step = OperationStep(name, 10**6, axes)
    (found,) = price([step], sg.Grid((2, 4)), links)
    assert found.seconds == pytest.approx(crossing * 1e6 / 1e9)
    assert found.alone == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("ranks, node_size", [(8, 4), (8, 2), (64, 16), (4096, 128)])
def test_a_transposition_shares_cables(ranks, node_size):
    links, grid, side = LinkModel(**CABLES, node_size=node_size), sg.Grid((ranks,)), ranks * 32
    plan = sg.plan_reshard(
        sg.Sharding(grid, [[0], []]), sg.Sharding(grid, [[], [0]]), (side, side), "f8", "direct", links=links
    )
    (found,) = price([ReshardStep(plan)], grid, links)
    assert found.seconds == pytest.approx(node_size * (ranks - node_size) * 32**2 * 8 / 1e9)
    assert found.alone == pytest.approx(0, abs=1e-9)


def test_machines():
    measured = LinkModel(nodes=(0, 1, 0, 1), cable_bandwidth=1e9, network_latency=7e-6)
    links = machine_links(measured, 4096, 128, sg.Grid((64, 64, 128)), taper=2)
    assert (links.node_size, links.nodes, links.network_latency, links.cable) == (128, None, 7e-6, 5e8)
    with pytest.raises(sg.ShardingError, match="has 520 devices; 4 nodes of 128 have 512 processes"):
        machine_links(measured, 4, 128, sg.Grid((520,)))


# -- files and the command ---------------------------------------------------------------------------------------------

STEPS = [
    {"step": "halo", "shape": [8192] * 3, "sharding": [[0], [1], [2]], "halo": [1] * 6, "times": 100},
    {"step": "all_reduce", "bytes": 8, "axes": [0, 1, 2], "times": 100},
    {"step": "all_gather", "bytes": "1MiB", "axes": ["z"]},
    {"step": "reshard", "shape": [65536] * 2, "from": [["x"], [1, 2]], "to": [[2], [0]], "dtype": "float32"},
]


def priced(capsys, tmp_path, *words, steps=STEPS, code=0, grid="64x64x128"):
    (tmp_path / "steps.json").write_text(steps if isinstance(steps, str) else json.dumps(steps))
    words = ["plan", "--grid", grid, "--axis-names", "x,y,z", "--steps", str(tmp_path / "steps.json"), *words]
    assert main(words) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_half_a_million_processes(capsys, tmp_path):
    LinkModel(node_size=2, cable_bandwidth=12.5e9, call_seconds=5e-6).save(tmp_path / "links.json")
    machine = ["--links", str(tmp_path / "links.json"), "--nodes", "4096", "--ranks-per-node", "128"]
    began = time.process_time()
    plain = priced(capsys, tmp_path, *machine).splitlines()
    assert time.process_time() - began < 20, "it does not enumerate devices"
    assert plain[0] == "grid 64x64x128: 524,288 processes on 4,096 nodes of 128"
    assert [line.split()[0] for line in plain[2:]] == ["halo", "all_reduce", "all_gather", "reshard", "in", "unshared:"]
    ordered = priced(capsys, tmp_path, *machine, "--order", "auto", steps=STEPS[:1]).splitlines()
    halos = [float(lines[2].split("100  ")[1].split()[0]) for lines in (plain, ordered)]
    # Rows of 128 devices have four sides of 128 x 64 cells each; boxes of 4 x 4 x 8 have 2 x (4 x 8 + 4 x 8) + 2 x 16.
    assert halos[0] > 1.6 * halos[1]
    # Boxes cut off few pairs of neighbours along each axis; rows all pairs along x and y, and none along z.
    assert not any("neighbours" in line for line in plain)
    assert ordered[-3:] == [
        "neighbours on one node: x: 393,216 of 516,096 pairs; y: 393,216 of 516,096 pairs; z: 458,752 of 520,192 pairs",
        "halo step with faces of 64 KiB: 920 us, 10 MiB leave the busiest node",
        "  with processes in the order of their numbers: 2.77 ms, 32 MiB leave the busiest node",
    ]


@pytest.mark.parametrize(
    "grid, per_node, words",
    [
        ("2x2x2", "8", "processes stay in the order of their numbers: all share one node"),
        ("2x2x2", "1", "processes stay in the order of their numbers: each has a node of its own"),
        ("2x2x2", "4", "no division of the grid among the nodes that was compared takes less time"),
        ("128x1x1", "16", "no division into boxes that was compared takes less time"),
    ],
)
def test_why_processes_stay_in_the_order_of_their_numbers(capsys, tmp_path, grid, per_node, words):
    text = priced(capsys, tmp_path, "--ranks-per-node", per_node, "--order", "auto", steps=STEPS[1:2], grid=grid)
    last = text.splitlines()[-1]
    assert last.endswith(words) and "stay in the order of their numbers" in last
    assert ("halo step with faces of 64 KiB" in text) == (per_node not in ("1", "8"))


def test_small_machines(capsys, tmp_path):
    text = priced(capsys, tmp_path, steps=[{"step": "all_reduce", "bytes": 8, "axes": [0]}], grid="2x2x1")
    assert "4 processes on 4 nodes of 1\n" in text
    LinkModel(nodes=(0, 1, 1, 0)).save(tmp_path / "links.json")
    text = priced(capsys, tmp_path, "--links", str(tmp_path / "links.json"), steps=STEPS[1:2], grid="2x2x1")
    assert "4 processes on 2 nodes\n" in text


@pytest.mark.parametrize(
    "steps, words",
    [
        ("[", "is no JSON"),
        ({}, "must hold a list of steps"),
        ([], "must hold a list of steps"),
        ([3], 'step 1 of .*: "step" is None'),
        ([STEPS[1], {"step": "al_reduce"}], "step 2 of .*'al_reduce'; it must be one of halo, all_gather"),
        ([{**STEPS[1], "bytes": -1}], '"bytes" is -1; it must be a number of bytes'),
        ([{**STEPS[1], "bytes": "much"}], '"bytes" is .much.'),
        ([{**STEPS[1], "axes": [7]}], "axes is .7."),
        ([{**STEPS[1], "axes": 0}], '"axes" is 0; it must be a list of grid axes'),
        ([{**STEPS[1], "times": 0}], '"times" is 0; it must be a whole number, at least 1'),
        ([{**STEPS[1], "halo": [1]}], "a step of all_reduce has no entry 'halo'"),
        ([{"step": "halo", "shape": [4]}], 'there is no "halo"'),
        ([{**STEPS[0], "periodic": 1}], '"periodic" is 1; it must be true or false'),
        ([{**STEPS[0], "dtype": "float33"}], '"dtype" is no dtype of numpy'),
        ([{**STEPS[0], "shape": [8192]}], "step 1 of"),
        ([{**STEPS[3], "strategy": "fast"}], "strategy is 'fast'"),
        ([{**STEPS[3], "from": [0, 1]}], '"from" is .0, 1.; it must be a list of lists of grid axes'),
    ],
    ids=str,
)
def test_refused_steps(tmp_path, steps, words):
    path = tmp_path / "steps.json"
    path.write_text(steps if isinstance(steps, str) else json.dumps(steps))
    with pytest.raises(sg.SpmdError, match=words):
        read_steps(path, sg.Grid((64, 64, 128), ("x", "y", "z")), LinkModel())


def test_a_file_of_steps_that_is_not_there(tmp_path):
    with pytest.raises(sg.StorageError, match="nowhere cannot be read"):
        read_steps(tmp_path / "nowhere", sg.Grid((2,)), LinkModel())


@pytest.mark.parametrize(
    "words, refusal",
    [
        (["--nodes", "4"], "--nodes needs --ranks-per-node"),
        (["--node-size", "4", "--ranks-per-node", "4"], "say the same"),
        (["--nodes", "4", "--ranks-per-node", "4"], "has 524288 devices; 4 nodes of 4 have 16 processes"),
        (["--to", "[[0]]"], "--to describes a resharding"),
        (["--links", "nowhere.json"], "nowhere.json cannot be read"),
    ],
    ids=str,
)
def test_refused_options(capsys, tmp_path, words, refusal):
    assert refusal in priced(capsys, tmp_path, *words, code=2)


def test_reshardings_on_other_machines(capsys, tmp_path):
    words = ["plan", "--grid", "2x4", "--shape", "64x64", "--from", "[[0],[1]]", "--to", "[[1],[0]]"]
    LinkModel(cable_bandwidth=1e9).save(tmp_path / "links.json")
    grid = sg.Grid((2, 4), ranks=(0, 1, 4, 5, 2, 3, 6, 7))
    source, target = (sg.Sharding(grid, split) for split in ([[0], [1]], [[1], [0]]))
    for more, bound in (([], sg.Grid((2, 4))), (["--order", "auto"], grid)):
        assert main([*words, "--links", str(tmp_path / "links.json"), "--ranks-per-node", "4", *more]) == 0
        source, target = (sg.Sharding(bound, split) for split in ([[0], [1]], [[1], [0]]))
        links = LinkModel(cable_bandwidth=1e9, node_size=4)
        assert capsys.readouterr().out == f"{sg.plan_reshard(source, target, (64, 64), 'f8', links=links)}\n"
    with pytest.raises(SystemExit):
        main(["plan", "--grid", "2x4", "--to", "[[0]]"])
    assert "arguments are required: --shape, --from, or --steps" in capsys.readouterr().err
