"""``python -m spmd_grid show``: what it prints, writes and refuses."""

import io
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.patience import run_in_time

from spmd_grid.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def show(capsys, *words, shape="4x6", grid="2x3"):
    assert main(["show", "--grid", grid, "--shape", shape, *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_before_and_after(capsys):
    assert show(capsys, "--from", "[[0],[1]]", "--to", "[[],[1]]") == (
        "[[0],[1]] on 2x3, global shape (4, 6)\n"
        "\n"
        "    tensor axis 1\n"
        "    ----------->\n"
        "       0:2     2:4     4:6\n"
        "    +-------+-------+-------+  tensor axis 0 |\n"
        "0:2 | (0,0) | (0,1) | (0,2) |                |\n"
        "    +-------+-------+-------+                |\n"
        "2:4 | (1,0) | (1,1) | (1,2) |                |\n"
        "    +-------+-------+-------+                ↓\n"
        "\n"
        "1. exchange: 6 messages, 192 B:\n"
        "from   to     cells       bytes\n"
        "(1,0)  (0,0)  [2:4, 0:2]     32\n"
        "(1,1)  (0,1)  [2:4, 2:4]     32\n"
        "(1,2)  (0,2)  [2:4, 4:6]     32\n"
        "(0,0)  (1,0)  [0:2, 0:2]     32\n"
        "(0,1)  (1,1)  [0:2, 2:4]     32\n"
        "(0,2)  (1,2)  [0:2, 4:6]     32\n"
        "\n"
        "[[],[1]] on 2x3, global shape (4, 6)\n"
        "\n"
        "    tensor axis 1\n"
        "    ----------->\n"
        "       0:2     2:4     4:6\n"
        "    +-------+-------+-------+  tensor axis 0 |\n"
        "0:4 | (0,0) | (0,1) | (0,2) |                |\n"
        "    | (1,0) | (1,1) | (1,2) |                |\n"
        "    +-------+-------+-------+                ↓\n"
    )


def test_one_layout_and_its_values(capsys):
    text = show(capsys, "--sharding", "[[], [y]]", "--axis-names", "x,y", "--values", shape="2,3")
    assert text.splitlines()[0] == "[[],[y]] on 2x3 (x, y), global shape (2, 3)"
    assert text.splitlines()[2:6] == [
        "grid axis y",
        "----------->",
        "+----+----+----+  grid axis x |",
        "| 11 | 12 | 13 |              |",
    ]
    for axis in ("x", "0"):
        turned = show(
            capsys, "--sharding", "[[],[y]]", "--axis-names", "x,y", "--values", "--across", axis, shape="2x3"
        )
        assert turned.splitlines()[2:6] == [
            "grid axis x",
            "----------->",
            "+----+----+  grid axis y |",
            "| 11 | 11 |              |",
        ]


def test_every_option_of_a_sharding(capsys):
    text = show(
        capsys, "--from", "[[0]]", "--halo", "1,0", "--partial", "1", "--partial-kind", "max", "--blocks", "ceil"
    )
    assert text.startswith("[[0]] on 2x3, halo [(1, 0)], partial max over [1], global shape (4, 6)\n")
    assert "0:2 (0:2) | (0,+) |" in text and "2:4 (1:4) | (1,+) |" in text
    text = show(capsys, "--from", "[[0],[1]]", "--offsets", "[[0,1,4],[0,0,5,6]]")
    assert "offsets [[0, 1, 4],[0, 0, 5, 6]]" in text and "Without cells: 2 of 6 devices, (*,0)." in text
    text = show(
        capsys,
        *(
            "--from",
            "[[0,1]]",
            "--from-ranks",
            "0-2,7,8,9",
            "--to",
            "[[],[0]]",
            "--to-grid",
            "2",
            "--to-ranks",
            "[9,0]",
        ),
        *("--to-halo", "[[1,1]]", "--to-blocks", "balanced", "--dtype", "int8"),
    )
    assert "[[],[0]] on 2, balanced blocks, halo [(1, 1)], global shape (4, 6)" in text
    assert "(1,0) = 7  (0) = 9  [2:3, 0:4]      4\n" in text


def test_the_grid_of_the_target(capsys):
    """Other names or other processes alone leave the grid's shape; another shape has none of the old names."""

    def after(*words):
        return show(capsys, "--from", "[[x],[y]]", "--axis-names", "x,y", *words).partition("\n1. ")[2]

    assert "\n[[x],[y]] on 2x3 (x, y), global" in after("--to", "[[0],[1]]", "--to-ranks", "1-6")
    assert "\n[[b],[a]] on 2x3 (a, b), global" in after("--to", "[[b],[a]]", "--to-axis-names", "a,b")
    assert "\n[[1],[0]] on 3x2, global" in after("--to", "[[1],[0]]", "--to-grid", "3x2")


def test_chains_show_what_lies_between(capsys):
    text = show(capsys, "--from", "[[0],[1]]", "--to", "[[1],[0]]", "--strategy", "basis")
    steps = [line for line in text.splitlines() if line[1:3] == ". "]
    assert [step.split(":")[0] for step in steps] == [
        "1. all_gather over [1], on 1 (as single messages)",
        "2. all_to_all over [0], split 1, concat 0",
        "3. all_slice over [1], on 0",
    ]
    assert "[[0]] on 2x3," in text and "[[],[0]] on 2x3," in text and "no messages" in steps[2]


def test_nothing_to_do(capsys):
    assert "nothing to do: no messages" in show(capsys, "--from", "[[0],[1]]", "--to", "[[0],[1]]")


def test_svg(capsys, tmp_path):
    path = tmp_path / "drawing.svg"
    assert show(capsys, "--from", "[[0],[1]]", "--to", "[[1],[0]]", "--svg", str(path)) == f"wrote {path}\n"
    texts = [element.text for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "1. exchange" and "6 messages, 144 B; dashed: kept" in texts
    show(capsys, "--from", "[[0],[1]]", "--svg", str(path))
    assert len(list(ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}title"))) == 6


def test_no_more_messages_than_asked_for(capsys):
    text = show(capsys, "--from", "[[0],[1]]", "--to", "[]", "--limit", "2")
    assert text.count("\n(") == 2 and "\n...\n" in text


def test_a_million_devices(capsys):
    text = show(capsys, "--from", "[[0],[1]]", "--to", "[[1],[0]]", "--limit", "3", grid="1024x1024", shape="4096x4096")
    assert text.count("Drawn in part: 1,048,576 blocks on 1,048,576 devices.") == 2 and len(text) < 10_000


REFUSED = {
    "--grid is '2y3'; it must be sizes such as 2x3": {"grid": "2y3"},
    "grid shape is (); it must list at least one size": {"grid": ""},
    "grid shape is (0, 3); it must list at least one size": {"grid": "0x3"},
    "--shape is '4x'; it must be extents such as 4x6": {"shape": "4x"},
    "global_shape is (4, -6); it must list extents": {"shape": "4,-6"},
    "splits dimension 1, but global_shape (4,) has 1 dimensions": {"shape": "4"},
    "--sharding is '[[0'; it must list numbers or names in brackets, such as [[0],[1]]": {"axes": "[[0"},
    "--sharding is '0'; it must list numbers": {"axes": "0"},
    "--sharding is '[[0.5]]'; it must list numbers": {"axes": "[[0.5]]"},
    "--sharding is '[[True]]'; it must list numbers": {"axes": "[[True]]"},
    "--sharding is '[print(1)]'; it must list numbers": {"axes": "[print(1)]"},
    "...'; it must list numbers": {"axes": "[" * 3000},
    "the grid 2x3 has no axis 'x': its axes have no names": {"axes": "[[x]]"},
    "split_axes[0] is [-1]; axes of the grid 2x3 go from 0 to 1": {"axes": "[[-1]]"},
    "split_axes[0] is [2]; axes of the grid 2x3 go from 0 to 1": {"axes": "[[2]]"},
    "use grid axis 0 twice": {"axes": "[[0],[0]]"},
    "axis_names is ['x']; it must list 2 names": {"options": ["--axis-names", "x"]},
    "--ranks is '0-x'; it must list processes, such as 0-3,8,9": {"options": ["--ranks", "0-x"]},
    "--ranks is '0-99999999999'; it must list": {"options": ["--ranks", "0-99999999999"]},
    "ranks lists 3 processes; a grid of 2x3 needs 6": {"options": ["--ranks", "0-2"]},
    "blocks is 'cyclic'; it must be one of 'ceil', 'balanced'": {"options": ["--blocks", "cyclic"]},
    "--halo is 'a b'; it must list numbers or names in brackets, such as 1,1": {"options": ["--halo", "a b"]},
    "halo_sizes has 1 entries; it must have 4": {"options": ["--halo", "1"]},
    "--to-offsets is '[0'; it must list numbers": {"options": ["--to", "[[0]]", "--to-offsets", "[0"]},
    "sharded_dims_offsets of dimension 0 end at 5": {"options": ["--offsets", "[0,2,5,0,2,4,6]"]},
    "partial_kind is 'average', which has no identity": {"options": ["--partial-kind", "average"]},
    "--dtype is 'float23'; it must be a dtype of numpy": {"options": ["--to", "[]", "--dtype", "float23"]},
    "dtype object holds Python objects": {"options": ["--to", "[]", "--dtype", "object"]},
    "strategy is 'luck'; it must be one of auto, basis, direct": {"options": ["--to", "[]", "--strategy", "luck"]},
    "--across is [2]; axes of the grid 2x3 go from 0 to 1": {"options": ["--values", "--across", "2"]},
    "the grid 2x3 has no axis 'z'": {"options": ["--values", "--across", "z"]},
    "contents of 480 devices; they are drawn for up to 64": {"grid": "20x24", "options": ["--values"]},
    "cannot write '/no/such/folder/a.svg': No such file": {"options": ["--svg", "/no/such/folder/a.svg"]},
    "cannot write '/': Is a directory": {"options": ["--svg", "/"]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message, capsys):
    case = REFUSED[message]
    words = ["--grid", case.get("grid", "2x3"), "--shape", case.get("shape", "4x6")]
    assert main(["show", *words, "--from", case.get("axes", "[[0],[1]]"), *case.get("options", [])]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("spmd_grid show: ") and len(err.splitlines()) == 1
    assert message in err


@pytest.mark.parametrize("words", [[], ["--grid", "2"], ["--limit", "-1"], ["--grid", "2", "--shape", "3", "--wide"]])
def test_usage(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(["show", *words])
    assert left.value.code == 2 and "usage: spmd_grid show --grid 2x3" in capsys.readouterr().err


def test_output_that_cannot_have_arrows(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert main(["show", "--grid", "2", "--shape", "2x2", "--from", "[[0]]"]) == 0
    assert narrow.buffer.getvalue().decode("ascii").endswith("v\n")


def test_a_reader_that_has_seen_enough():
    """A pipe whose reader is gone, as of ``| head -1``: no traceback, no complaint at exit."""
    reader, writer = os.pipe()
    os.close(reader)
    words = ["show", "--grid", "2x3", "--shape", "4x6", "--from", "[[0],[1]]"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "spmd_grid", *words]
    done = run_in_time(command, stdout=writer, text=False, env=environment, limit=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
