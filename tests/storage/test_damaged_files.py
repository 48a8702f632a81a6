"""Checkpoints that were damaged, or made to harm: each is refused with what is wrong, and the one before loads."""

import json
import re
import shutil

import numpy as np
import pytest
from support.same_bytes import same_bytes
from support.storage.shared import common_folder, values

import spmd_grid as sg
from spmd_grid.storage.checkpoint.manifest import _digest

SMALL = {"block_bytes": 16, "stage_bytes": 64}


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def cut(path, n):
    path.write_bytes(path.read_bytes()[:n])


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"x")


def swap(folder):
    (folder / "a.npy").rename(folder / "x")
    (folder / "b.npy").rename(folder / "a.npy")
    (folder / "x").rename(folder / "b.npy")


def link(folder):
    """The file elsewhere, and a link to it: a path that leaves the folder."""
    (folder / "a.npy").rename(folder.parent / "elsewhere.npy")
    (folder / "a.npy").symlink_to(folder.parent / "elsewhere.npy")


# By name: what is done to a folder, and words of the error; of those of a manifest there is an older one to load.
FILES = {
    "a byte": (lambda folder: flip(folder / "a.npy", -3), "a.npy is damaged between bytes 176 and 188"),
    "the first byte of the cells": (lambda folder: flip(folder / "a.npy", 128), "between bytes 128 and 140 .block 0"),
    "a byte of the header": (lambda folder: flip(folder / "a.npy", 20), "the header of .*a.npy is not the one"),
    "truncated": (lambda folder: cut(folder / "a.npy", 150), "a.npy has 150 bytes; the manifest makes it 188"),
    "empty": (lambda folder: cut(folder / "a.npy", 0), "a.npy has 0 bytes"),
    "longer": (lambda folder: lengthen(folder / "a.npy"), "a.npy has 189 bytes"),
    "missing": (lambda folder: (folder / "a.npy").unlink(), "a.npy does not exist"),
    "swapped": (swap, "a.npy is damaged"),
    "a link": (link, "open of .*a.npy failed: .*ELOOP"),
    "a folder": (lambda folder: ((folder / "a.npy").unlink(), (folder / "a.npy").mkdir()), "a.npy failed: .*EINVAL"),
}


def manifest_with(**changes):
    """A change of the manifest, whose digest is right again; of the entry of array "a", but for these names."""

    def change(folder):
        path = folder / "manifest.json"
        body = json.loads(path.read_text())
        del body["digest"]
        for name, value in changes.items():
            target = body if name in ("version", "format", "state", "arrays") else body["arrays"]["a"]
            if name == "drop":
                del target[value]
            else:
                target[name] = value
        path.write_text(json.dumps({**body, "digest": _digest(body)}))

    return change


PLAIN = {"dict": {"a": {"sharded": "a"}, "b": {"sharded": "b"}}}
MANIFESTS = {
    "missing": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json does not exist"),
    "empty": (lambda folder: cut(folder / "manifest.json", 0), "not a valid manifest"),
    "half": (lambda folder: cut(folder / "manifest.json", 700), "not a valid manifest"),
    "a letter": (lambda folder: flip(folder / "manifest.json", 300), "not a valid manifest"),
    "newer": (
        manifest_with(version=2),
        "its version is 2, .* reads version 1: it was written by a newer",
    ),
    "no version": (manifest_with(version="1"), "its version is '1'"),
    "another format": (manifest_with(format="x"), "its format is not"),
    "a path that leaves": (manifest_with(file="../a.npy"), "the file of array 'a' is '../a.npy'; it must be 'a.npy'"),
    "an absolute path": (manifest_with(file="/etc/passwd"), "is '/etc/passwd'; it must be 'a.npy'"),
    "negative": (manifest_with(shape=[5, -3]), "the shape of array 'a' is .5, -3."),
    "huge": (manifest_with(shape=[2**62, 8]), "has 2..63 bytes or more"),
    "large": (manifest_with(shape=[5, 2**40]), "its shape makes it"),
    "many dimensions": (manifest_with(shape=[1] * 70), "it must list extents"),
    "no integer": (manifest_with(shape=[5, 3.0]), "it must list extents"),
    "true": (manifest_with(shape=[True, 3]), "it must list extents"),
    "objects": (manifest_with(dtype="|O"), "holds Python objects"),
    "objects in fields": (manifest_with(dtype={"fields": [["x", "|O", 0]], "itemsize": 8}), "holds Python objects"),
    "no dtype": (manifest_with(dtype="os.system"), "does not describe a dtype"),
    "another package": (manifest_with(dtype={"extension": "__builtins__"}), "no such dtype"),
    "deep": (manifest_with(dtype=eval("[" * 50 + "]" * 50)), "does not describe a dtype"),
    "small blocks": (manifest_with(block_bytes=0), "the blocks of array 'a' have 0 bytes"),
    "other blocks": (manifest_with(block_bytes=4), "checksums; its shape makes it"),
    "no checksums": (manifest_with(block_checksums=[]), "has 0 checksums"),
    "checksums that are none": (manifest_with(block_checksums=["x"] * 5), "16 hexadecimal digits"),
    "an entry without a shape": (manifest_with(drop="shape"), "'shape' is missing"),
    "arrays that are not listed": (manifest_with(arrays={}), "not those that it lists"),
    "arrays that are none": (manifest_with(arrays=[]), "not a valid manifest"),
}
STATES = {
    "a value of unknown kind": ({"pickle": "x"}, "unknown kind 'pickle'"),
    "two kinds": ({"float": "1", "int": 2}, "not a valid manifest"),
    "no number": ({"float": "x"}, "cannot be read"),
    "a generator of the system": ({"numpy.random": {"bit_generator": "SystemRandom"}}, "not a bit generator"),
    "objects": ({"scalar": ["|O", "00"]}, "holds Python objects"),
}
for _name, (_value, _words) in STATES.items():
    _state = {"dict": {**PLAIN["dict"], "x": _value}}
    MANIFESTS[f"state: {_name}"] = (manifest_with(state=_state), _words)


def alike(grid, error, words, function):
    """Check that all ranks raise the same error."""
    with pytest.raises(error, match=words) as raised:
        function()
    text = np.frombuffer(str(raised.value).encode() + b"\n", np.uint8)
    texts = sg.all_gather(text, grid, None, 0).tobytes().decode().split("\n")[:-1]
    assert len(set(texts)) == 1 and len(texts) == grid.size, texts


def on_damaged(spmd, cases, check):
    """Calls ``check(case, grid, series, shardings, words)`` for each case: an older checkpoint and a damaged one."""

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            for step in (1, 2):
                a = sg.from_global(values((5, 3), "f4") + step, sharding, grid)
                sg.save(folder / "whole", {"a": a, "b": a * a, "step": step}, **SMALL)
            for i, (case, (damage, words)) in enumerate(cases.items()):
                series = folder / str(i)
                if grid.rank == 0:
                    shutil.copytree(folder / "whole", series)
                    damage(series / "save-000002")
                sg.all_reduce(1, grid, None, "sum")
                check(case, grid, series, {"a": sharding, "b": sharding}, words)

    spmd(2, body)


def test_damaged_files(spmd, each_path):
    def check(case, grid, series, shardings, words):
        alike(grid, sg.SpmdError, words, lambda: sg.load(series, shardings, grid, stage_bytes=64))
        assert sg.latest(series) == sg.latest(series, grid) == series / "save-000001"
        problems = sg.verify(series / "save-000002", grid)
        assert problems and any(re.search(words, line) for line in problems), problems
        state = sg.load(sg.latest(series, grid), shardings, grid)
        assert state["step"] == 1 and same_bytes(state["a"].to_global(), values((5, 3), "f4") + 1)

    on_damaged(spmd, FILES, check)


def test_damaged_and_hostile_manifests(spmd):
    def check(case, grid, series, shardings, words):
        newest = series / "save-000002"
        if case != "missing":
            alike(grid, sg.DamagedError, words, lambda: sg.load(newest, shardings, grid))
            assert any(re.search(words, line) for line in sg.verify(newest, grid))
        assert sg.load(series, shardings, grid)["step"] == 1  # a series goes on with the checkpoint before
        assert sg.latest(series, grid) == series / "save-000001"

    on_damaged(spmd, MANIFESTS, check)


def test_headers_of_npy_files_that_are_none(spmd):
    shape = (5, 3)
    whole = {"descr": "<f4", "fortran_order": False, "shape": shape}
    headers = {
        "objects": ({**whole, "descr": "|O"}, sg.DamagedError, "holds Python objects"),
        "negative": ({**whole, "shape": (-5, 3)}, sg.DamagedError, "it must be a tuple of extents"),
        "huge": ({**whole, "shape": (2**50, 3)}, sg.DamagedError, "makes it"),
        "beyond any memory": ({**whole, "shape": (2**60, 3)}, sg.DamagedError, "2..63 bytes or more"),
        "no call": ("__import__('os').getcwd()", sg.DamagedError, "not one of a .npy file"),
        "no shape": ({"descr": "<f4"}, sg.DamagedError, "it must have descr"),
        "no order": ({**whole, "fortran_order": 1}, sg.DamagedError, "fortran_order is 1"),
    }

    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        with common_folder(grid) as folder:
            path = folder / "a.npy"

            def refused(data, error, words):
                if grid.rank == 0:
                    path.write_bytes(data)
                sg.all_reduce(1, grid, None, "sum")
                alike(grid, error, words, lambda: sg.load_npy(path, rows, grid))

            for header, error, words in headers.values():
                text = str(header).encode()
                start = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text
                refused(start + values(shape, "f4").tobytes(), error, words)
            refused(b"", sg.DamagedError, "is not a .npy file")
            refused(b"\x93NUMPY\2\0\xff\xff\xff\xff", sg.DamagedError, "its header has")
            refused(b"\x93NUMPY\1\0\xff\0{", sg.DamagedError, "within its header")
            refused(start[:-2], sg.DamagedError, "within its header")
            nowhere, words = folder / "b.npy", r"^load_npy: .*b\.npy does not exist"
            alike(grid, sg.StorageError, words, lambda: sg.load_npy(nowhere, rows, grid))

    spmd(2, body)
