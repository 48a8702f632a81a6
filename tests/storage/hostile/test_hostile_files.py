"""Files made to do harm: states out of range, sizes that no memory has, escapes for the terminal, pipes, odd paths."""

import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.storage.file_mutants import digested
from support.storage.shared import common_folder

import spmd_grid as sg
from spmd_grid.array.local_arrays import allocate_local
from spmd_grid.cli.main import main as command
from spmd_grid.formatting import printable
from spmd_grid.watch.trace.reading import read_trace
from spmd_grid.watch.trace.summary import trace_summary

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "fuzz_files.py"
KINDS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
WORD = 1 << 64
# Entries of the states of numpy's bit generators, and values that are out of range; the path leads to the entry.
OUT_OF_RANGE = {
    "MT19937": [("state/pos", 625), ("state/pos", -1), ("state/key/values", [0] * 623), ("state/key/dtype", "<u8")],
    "PCG64": [("state/state", WORD**2), ("state/inc", 2), ("has_uint32", 2), ("uinteger", 1 << 32)],
    "PCG64DXSM": [("state/inc", -1), ("state/state", 0.5)],
    "Philox": [("buffer_pos", 5), ("buffer/values", [0] * 5), ("state/counter/values", [WORD] * 4), ("more", 1)],
    "SFC64": [("state/state/values", ["0"] * 4), ("bit_generator", "os"), ("bit_generator", "MT19937")],
}
OWN = [("pool_size", 10**12), ("draws", -1), ("spawn_key", [0.5]), ("entropy", "x"), ("draws", {"values": []})]


def rewrite(folder, change):
    """Change the manifest of a checkpoint, and make its digest right again."""
    path = folder / "manifest.json"
    body = json.loads(path.read_text())
    change(body)
    path.write_text(digested(body))


def set_at(tree, path, value):
    *inside, last = path.split("/")
    for name in inside:
        tree = tree[name]
    tree[last] = value


def on_copies(grid, folder, changes, check):
    """Check each changed copy of a checkpoint on all ranks."""
    for number, change in enumerate(changes):
        copy = folder.parent / f"copy{number}"
        if grid.rank == 0:
            shutil.copytree(folder, copy)
            rewrite(copy, change)
        sg.all_reduce(1, grid)
        check(copy)


def refused(grid, function, error, words):
    with pytest.raises(error, match=words):
        function()
    assert sg.all_reduce(1, grid) == grid.size  # nobody was cut off


def test_states_of_generators_out_of_range(spmd):
    cases = [("numpy", kind, path, value) for kind, each in OUT_OF_RANGE.items() for path, value in each]
    cases += [("own", "random", path, value) for path, value in OWN]

    def body():
        grid = sg.init_grid((2,))
        with common_folder(grid) as folder:
            numbers = {kind: np.random.Generator(getattr(np.random, kind)(5)) for kind in KINDS}
            whole = sg.save(folder / "series", {**numbers, "random": sg.random.Generator(7)})
            state = sg.load(whole, {}, grid)
            for kind in KINDS:
                assert state[kind].random(3).tolist() == numbers[kind].random(3).tolist()

            def changed(where, kind, path, value):
                key = "numpy.random" if where == "numpy" else "random"
                return lambda body: set_at(body["state"]["dict"][kind][key], path, value)

            def check(copy):
                refused(grid, lambda: sg.load(copy, {}, grid), sg.DamagedError, "not a valid manifest: load: ")
                assert sg.verify(copy, grid)

            on_copies(grid, whole, [changed(*case) for case in cases], check)

    spmd(2, body)


def test_sizes_that_no_memory_has(spmd):
    def huge(body):
        array = body["arrays"]["u"]
        array |= {"shape": [2**40], "bytes": 2**43 + 128, "block_bytes": 2**62}

    def many(body):
        body["state"]["dict"]["x"] = {"random": {"dtype": "|V500000000", "values": [0] * 50}}

    def nested(body):
        value = 0
        for _ in range(480):
            value = [value]
        body["state"]["dict"]["x"] = {"random": value}

    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            u = sg.from_function(lambda i: 1.0 * i, (100,), rows, grid)
            whole = sg.save(folder / "series", {"u": u})

            def check(copy):
                refused(grid, lambda: sg.load(copy, {"u": rows}, grid), sg.DamagedError, "not a valid manifest")
                assert sg.verify(copy, grid) and sg.verify(copy)

            on_copies(grid, whole, [huge, many, nested], check)

    spmd(2, body)


def test_memory_that_one_rank_lacks(spmd, monkeypatch):
    def allocate(op, layout, dtype, grid, zeroed):
        if grid.rank == 1:
            raise MemoryError("none is left")
        return allocate_local(op, layout, dtype, grid, zeroed)

    monkeypatch.setattr("spmd_grid.storage.new_local.allocate_local", allocate)

    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            u = sg.from_function(lambda i: 1.0 * i, (100,), rows, grid)
            whole = sg.save(folder / "series", {"u": u, "plain": np.ones(3)})
            file = sg.save_npy(folder / "u.npy", u)
            words = r"MemoryError: none is left \(on process 1\)"
            refused(grid, lambda: sg.load(whole, {"u": rows}, grid), sg.StorageError, words)
            refused(grid, lambda: sg.load(whole, {}, grid, names=["plain"]), sg.StorageError, words)
            refused(grid, lambda: sg.load_npy(file, rows, grid), sg.StorageError, words)

    spmd(2, body)


def test_names_are_printed_without_escapes(tmp_path, capsys):
    def body():
        grid = sg.init_grid((2,))
        sg.save(tmp_path, {"u": sg.zeros((4,), sg.Sharding(grid, [[0]]), grid), "k": 1})

    sg.run_spmd(body, ranks=2)

    def change(body):
        body["state"]["dict"]["\x1b[2J\x1b]0;owned\x07\nevil"] = "\x1b[31mred"
        body["attributes"]["\x1b[32m"] = "\u202egreen"

    rewrite(tmp_path / "save-000001", change)
    for name in ("ls", "show", "verify"):
        assert command(["checkpoint", name, str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert printable(shown, keep="\n") == shown
    assert command(["checkpoint", "show", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert r"\x1b[2J\x1b]0;owned\x07\nevil" in shown and r"\u202egreen" in shown
    assert str(sg.StorageError("no \x1b[31m \udcff\n\tfile")) == "no \\x1b[31m \\udcff\n\tfile"


def test_traces_of_any_text(tmp_path):
    event = {"name": "\x1b[31mred", "ph": "X", "ts": 1.0, "dur": 2.0, "args": {"call": "c", "where": "w\n", "sent": {}}}
    file = tmp_path / "rank-0.json"

    def write(**changes):
        file.write_text(json.dumps({**event, **changes}) + ",\n")

    write()
    shown = trace_summary(read_trace(tmp_path))
    assert printable(shown, keep="\n") == shown and r"\x1b[31mred" in shown
    for changes in ({"ts": "x"}, {"ts": float("nan")}, {"dur": None}, {"args": []}, {"args": {"call": 1, "where": ""}}):
        write(**changes)
        with pytest.raises(sg.OutputError, match="is no event of one"):
            read_trace(tmp_path)
    size = {"name": "thread_name", "ph": "M", "args": {"name": "rank 0", "size": 10**15, "machine": "", "clock": 0.0}}
    file.write_text(json.dumps(size) + "\n")
    with pytest.raises(sg.OutputError, match="is no event of one"):
        read_trace(tmp_path)


def test_pipes_are_refused(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            pipe = folder / "pipe"
            if grid.rank == 0:
                os.mkfifo(pipe)
            sg.all_reduce(1, grid)
            refused(grid, lambda: sg.load_npy(pipe, rows, grid), sg.StorageError, "not a regular file")
            refused(grid, lambda: sg.LinkModel.measure(grid, pipe), sg.StorageError, "not a regular file")
            if importlib.util.find_spec("h5py"):
                refused(grid, lambda: sg.load_hdf5(pipe, "u", rows, grid), sg.StorageError, "not a regular file")

    spmd(2, body)


def test_paths_that_are_not_utf8(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        with common_folder(grid) as above:
            folder = above / os.fsdecode(b"e-\xff")
            u = sg.from_function(lambda i: 1.0 * i, (100,), rows, grid)
            sg.save(folder / "series", {"u": u, "step": 1})
            assert sg.load(folder / "series", {"u": rows}, grid)["step"] == 1
            assert sg.latest(folder / "series", grid) == folder / "series" / "save-000001"
            assert sg.verify(folder / "series", grid) == []
            assert sg.load_npy(sg.save_npy(folder / "u.npy", u), rows, grid).shape == (100,)
            sg.LinkModel.measure(grid, folder / "links.json")
            refused(
                grid, lambda: sg.load_npy(folder / "x.npy", rows, grid), sg.StorageError, r"e-\\udcff.x.npy does not"
            )
            refused(grid, lambda: sg.load(above, {}, grid), sg.StorageError, "no checkpoint")
            if importlib.util.find_spec("h5py"):
                sg.save_hdf5(folder / "u.h5", {"u": u})
                assert sg.load_hdf5(folder / "u.h5", "u", rows, grid).shape == (100,)
            if importlib.util.find_spec("zarr"):
                sg.save_zarr(folder / "u.zarr", {"u": u})
                assert sg.load_zarr(folder / "u.zarr", rows, grid, name="u").shape == (100,)

    spmd(2, body)


@pytest.mark.parametrize("entry", ["filters", "compressor", "codecs"])
def test_codecs_that_make_objects(tmp_path, entry):
    pytest.importorskip("zarr")
    named = {"id": "pickle", "name": "numcodecs.pickle", "configuration": {}}
    old = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f8", "order": "C", "fill_value": 0.0}
    old |= {"compressor": None, "filters": None, entry: named if entry == "compressor" else [named]}
    (tmp_path / "zarr.json" if entry == "codecs" else tmp_path / ".zarray").write_text(json.dumps(old))

    def body():
        grid = sg.init_grid((2,))
        load = lambda: sg.load_zarr(tmp_path, sg.Sharding(grid, [[0]]), grid)  # noqa: E731
        refused(grid, load, sg.StorageError, "the codec '.*pickle', which is not read")

    sg.run_spmd(body, ranks=2)


def test_files_changed_at_random():
    spec = importlib.util.spec_from_file_location("fuzz_files", SCRIPT)
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    counts, failure = fuzz.run(60, seed=int(hashlib.sha256(sg.__version__.encode()).hexdigest()[:6], 16))
    assert not failure, ascii(failure)
    assert sum(counts.values()) == 60
