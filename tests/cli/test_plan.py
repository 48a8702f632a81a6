"""``python -m spmd_grid plan``: what it prints and refuses, and that a million devices cost nothing."""

import json
import os
import resource
import sys
from pathlib import Path

import pytest
from support.patience import run_in_time

import spmd_grid as sg
from spmd_grid.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def plan(capsys, *words, grid="2x3", shape="6x6"):
    assert main(["plan", "--grid", grid, "--shape", shape, *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_it_prints_the_plan(capsys):
    grid = sg.Grid((2, 3))
    swapped = [sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1], [0]])]
    words = ["--from", "[[0],[1]]", "--to", "[[1],[0]]"]
    assert plan(capsys, *words) == f"{sg.plan_reshard(*swapped, (6, 6), 'float64')}\n"
    for strategy in ("basis", "direct"):
        text = plan(capsys, *words, "--strategy", strategy, "--dtype", "int16")
        assert text == f"{sg.plan_reshard(*swapped, (6, 6), 'int16', strategy)}\n"
    limited = sg.plan_reshard(*swapped, (6, 6), "float64", memory_limit=2000000, links=sg.LinkModel(node_size=2))
    assert plan(capsys, *words, "--memory-limit", "2MB", "--node-size", "2") == f"{limited}\n"


def test_every_option_of_both_sides(capsys):
    source = sg.Sharding(sg.Grid((2, 3), ("x", "y")), [["x"]], partial_axes=["y"])
    target = sg.Sharding(sg.Grid((2,), ranks=(3, 7)), [[], [0]], halo_sizes=[1, 0], sharded_dims_offsets=[0, 2, 6])
    words = ["--from", "[[x]]", "--axis-names", "x,y", "--partial", "y", "--to", "[[],[0]]", "--to-grid", "2"]
    text = plan(capsys, *words, "--to-ranks", "3,7", "--to-halo", "1,0", "--to-offsets", "0,2,6")
    assert text == f"{sg.plan_reshard(source, target, (6, 6), 'float64')}\n"


def test_one_device(capsys):
    words = ["--from", "[[0],[1]]", "--to", "[[1],[0]]", "--strategy", "direct", "--dtype", "int8"]
    for option in (["--device", "1,0"], ["--process", "3"]):
        lines = plan(capsys, *words, *option).splitlines()
        at = lines.index("process 3:")
        assert lines[at - 1] == ""
        assert lines[at + 1 :] == [
            "  before (1,0) with [3:6, 0:2]",
            "  after (1,0) with [0:2, 3:6]",
            "  needs at most 30 B",
            "1. exchange",
            "receives 2 messages, 6 B:",
            "from   to     cells       bytes",
            "(0,1)  (1,0)  [0:2, 3:4]      2",
            "(0,2)  (1,0)  [0:2, 4:6]      4",
            "sends 2 messages, 6 B:",
            "from   to     cells       bytes",
            "(1,0)  (0,1)  [3:4, 0:2]      2",
            "(1,0)  (0,2)  [4:6, 0:2]      4",
        ]
    text = plan(capsys, *words, "--device", "(1, 0)", "--limit", "1")
    assert text.endswith("bytes\n(1,0)  (0,1)  [3:4, 0:2]      2\n...\n")


def test_one_process_of_two_grids(capsys):
    words = ["--from", "[[0]]", "--to", "[[0]]", "--to-grid", "3", "--to-ranks", "5-7", "--strategy", "direct"]
    text = plan(capsys, *words, "--process", "1", grid="2", shape="6")
    assert text.endswith(
        "process 1:\n  before (1) with [3:6]\n1. exchange\nreceives no messages\nsends 2 messages, 24 B:\n"
        "from  to       cells  bytes\n"
        "(1)   (1) = 6  [3:4]      8\n"
        "(1)   (2) = 7  [4:6]     16\n"
    )
    text = plan(capsys, *words, "--device", "2", grid="2", shape="6")
    assert "process 7:\n  after (2) = 7 with [4:6]\n  needs" in text and text.endswith("sends no messages\n")


def test_chains_step_by_step(capsys):
    text = plan(capsys, "--from", "[[0],[1]]", "--to", "[[1],[0]]", "--strategy", "basis", "--device", "0,0")
    steps = [line for line in text.partition("process 0:")[2].splitlines() if line[1:3] == ". "]
    assert steps == [
        "1. all_gather over [1], on 1 (as single messages)",
        "2. all_to_all over [0], split 1, concat 0",
        "3. all_slice over [1], on 0",
    ]


SIZES = {"0": 0, "1500": 1500, "2 KiB": 2048, "2kib": 2048, "1.5MB": 1_500_000, "2GiB": 2 << 30, "1e3": 1000, "7b": 7}


@pytest.mark.parametrize("text", SIZES)
def test_numbers_of_bytes(text, capsys):
    main(["plan", "--grid", "2", "--shape", "9", "--from", "[[0]]", "--to", "[]", "--memory-limit", text])
    out, err = capsys.readouterr()
    grid = sg.Grid((2,))
    try:
        expected = sg.plan_reshard(
            sg.Sharding(grid, [[0]]), sg.Sharding(grid, []), (9,), "float64", memory_limit=SIZES[text]
        )
        assert out == f"{expected}\n"
    except sg.ShardingError as error:
        assert err == f"spmd_grid plan: {error}\n"


REFUSED = {
    "--to is '[[0],[1'; it must list numbers or names in brackets": {"to": "[[0],[1"},
    "the grid 2x3 has no axis 'z'": {"to": "[[z]]"},
    "--to-grid is 'two'; it must be sizes such as 2x3": {"options": ["--to-grid", "two"]},
    "--memory-limit is '2 GiBi'; it must be bytes, such as 2GiB or 500MB": {"options": ["--memory-limit", "2 GiBi"]},
    "--memory-limit is 'inf'; it must be bytes": {"options": ["--memory-limit", "inf"]},
    "--memory-limit is ''; it must be bytes": {"options": ["--memory-limit", ""]},
    "memory_limit is -5; it must be a whole number of bytes": {"options": ["--memory-limit=-5"]},
    "memory_limit is 7 bytes": {"options": ["--memory-limit", "7"]},
    "strategy is 'luck'; it must be one of": {"options": ["--strategy", "luck"]},
    "--dtype is 'i7'; it must be a dtype of numpy": {"options": ["--dtype", "i7"]},
    "--device is '1;0'; it must be coordinates on the target's grid, such as 1,0": {"options": ["--device", "1;0"]},
    "coords is (2, 0); a device of the grid 2x3 has 2 integer coordinates": {"options": ["--device", "2,0"]},
    "coords is (); a device of the grid 2x3": {"options": ["--device", ""]},
    "--process is 6; neither grid has a device of that number": {"options": ["--process", "6"]},
    "--process is -1; neither grid": {"options": ["--process", "-1"]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message, capsys):
    case = REFUSED[message]
    words = ["--grid", "2x3", "--shape", "4x6", "--from", "[[0],[1]]", "--to", case.get("to", "[[1],[0]]")]
    assert main(["plan", *words, *case.get("options", [])]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("spmd_grid plan: ") and len(err.splitlines()) == 1
    assert message in err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--grid", "2", "--shape", "3", "--from", "[[0]]"],  # where to?
        ["--grid", "2", "--shape", "3", "--from", "[[0]]", "--to", "[]", "--node-size", "0"],
        ["--grid", "2", "--shape", "3", "--from", "[[0]]", "--to", "[]", "--limit", "few"],
    ],
)
def test_usage(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(["plan", *words])
    assert left.value.code == 2 and "usage: spmd_grid plan --grid 16x16x64" in capsys.readouterr().err


def python(*words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run_in_time([sys.executable, *words], env=environment, limit=60, check=True).stdout


def test_plan_and_show_load_neither_mpi_nor_numba():
    words = ["--grid", "4x4", "--shape", "64x64", "--from", "[[0],[1]]", "--to", "[[1],[0]]"]
    program = (
        "import sys, json\nfrom spmd_grid.cli.main import main\n"
        f"assert main(['plan', *{words}]) == main(['show', *{words}]) == 0\n"
        "print(json.dumps(list(sys.modules)))\n"
    )
    loaded = json.loads(python("-c", program).splitlines()[-1])
    assert "spmd_grid.reshard.plan" in loaded
    assert {"mpi4py", "numba", "llvmlite", "matplotlib", "spmd_grid.transport.mpi"}.isdisjoint(loaded)


def test_a_million_devices_in_under_a_second():
    """From the start of the interpreter to its end, on the processor: other work on the machine does not count."""
    words = ["--grid", "64x128x128", "--shape", "65536x65536", "--from", "[[0],[1,2]]", "--to", "[[2],[0]]"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = python("-m", "spmd_grid", "plan", *words, "--device", "1,2,3")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "[[0],[1, 2]] on 64x128x128" in text and "process 16643:" in text
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
