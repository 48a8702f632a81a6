"""``python -m spmd_grid checkpoint``: what it lists, verifies and describes, and its exit codes."""

import os
import sys

import numpy as np
import pytest
from support.jobs import clean_environment, mpi_command, needs_mpiexec
from support.patience import run_in_time

import spmd_grid as sg
from spmd_grid.cli.main import main

pytest.importorskip("xxhash")


@pytest.fixture
def series(tmp_path):
    """A folder with two checkpoints of 3 simulated ranks."""

    def body():
        grid = sg.init_grid((3,))
        u = sg.from_global(np.arange(70.0).reshape(7, 10), sg.Sharding(grid, [[0]]), grid)
        more = {"table": np.arange(3, dtype="i4"), "rng": np.random.default_rng(1), "own": sg.random.Generator(2)}
        for step in (20, 40):
            state = {"u": u, "step": step, "more": more, "note": "x" * 99, "pair": (0.5, None), "none": []}
            sg.save(tmp_path / "run", state, attributes={"by": "me"})

    sg.run_spmd(body, ranks=3)
    return tmp_path / "run"


def answer(capsys, *words):
    code = main(["checkpoint", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def test_a_series_is_listed(series, capsys):
    code, out, _ = answer(capsys, "ls", series)
    rows = [line.split() for line in out.splitlines()]
    assert code == 0 and rows[0] == ["checkpoint", "step", "arrays", "size", "manifest"]
    assert [row[:3] + row[-1:] for row in rows[1:]] == [
        ["save-000001", "20", "2", "valid"],
        ["save-000002", "40", "2", "valid"],
    ]
    (series / ".save-000003.partial").mkdir()
    assert ".save-000003.partial is being written, or was left" in answer(capsys, "ls", series)[1]
    assert answer(capsys, "ls", series / "save-000002")[1].count("\n") == 2
    (series / "save-000001" / "manifest.json").unlink()
    code, out, _ = answer(capsys, "ls", series)
    assert code == 1 and "damaged: " in out and "manifest.json does not exist" in out


def test_every_byte_is_verified(series, capsys):
    code, out, _ = answer(capsys, "verify", series)
    assert code == 0 and [line.split(":")[0] for line in out.splitlines()] == [
        "save-000001 is whole",
        "save-000002 is whole",
    ]
    damage(series / "save-000001" / "u.npy")
    code, out, _ = answer(capsys, "verify", series)
    assert code == 1 and "save-000001 is damaged:\n  verify: " in out and "save-000002 is whole: " in out
    assert answer(capsys, "verify", series / "save-000002")[0] == 0
    (series / "save-000002" / "more.table.npy").unlink()
    assert answer(capsys, "verify", series / "save-000002")[0] == 1


def test_a_state_is_described(series, capsys):
    code, out, _ = answer(capsys, "show", series)
    rows = {line.split("  ")[0]: " ".join(line.split()[1:]) for line in out.splitlines()[2:]}
    assert code == 0 and out.startswith(f"{series / 'save-000002'}: 2 arrays\n")
    assert rows["u"] == "sharded array, float64, 7x10 688 B 1" and rows["step"] == "40"
    assert rows["more/table"] == "array, int32, 3 140 B 1" and rows["none"] == "[]"
    assert rows["more/rng"] == "random generator, numpy's PCG64"
    assert rows["more/own"] == "random generator, of spmd_grid"
    assert rows["note"].endswith("xxx...") and rows["pair/0"] == "0.5" and rows["pair/1"] == "None"
    assert out.endswith("attribute by: me\n")
    damage(series / "save-000002" / "manifest.json")
    assert answer(capsys, "show", series / "save-000002")[0] == 1
    assert answer(capsys, "show", series)[1].startswith(f"{series / 'save-000001'}: ")  # the newest that can be read


def test_no_checkpoint(tmp_path, capsys):
    for action in ("ls", "verify"):
        code, out, _ = answer(capsys, action, tmp_path)
        assert code == 1 and out == f"there is no checkpoint in {tmp_path}\n"
    for action, path in (("show", tmp_path), ("ls", tmp_path / "none"), ("verify", __file__)):
        code, out, err = answer(capsys, action, path)
        assert code == 2 and out == "" and err.startswith("spmd_grid checkpoint: ") and err.count("\n") == 1


@pytest.mark.parametrize("words", [(), ("ls",), ("walk", "x"), ("verify", ""), ("show", "a", "b")])
def test_usage(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(["checkpoint", *words])
    assert left.value.code == 2 and "usage" in capsys.readouterr().err


@needs_mpiexec
def test_processes_verify_a_share_each(series):
    words, more = mpi_command()
    command = [*words, "-n", "3", sys.executable, "-m", "spmd_grid", "checkpoint", "verify", str(series)]
    environment = clean_environment(**more)
    done = run_in_time(command, env=environment, limit=60)
    assert done.returncode == 0 and done.stdout.count("is whole: ") == 2 and " read by 3 processes" in done.stdout
    damage(series / "save-000001" / "u.npy")
    done = run_in_time(command, env={**os.environ, **environment}, limit=60)
    assert done.returncode == 1 and done.stdout.count("save-000001 is damaged:") == 1, done.stdout + done.stderr
