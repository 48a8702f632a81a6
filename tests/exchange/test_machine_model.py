"""The timed model of this machine: kept on disk, agreed by a group, and never in the way."""

import os

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.node_meeting import COPIED_BYTES
from spmd_grid.exchange.transfer.machine_model import MachineModel, cached_model, keep_model


def test_kept_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = MachineModel(1e-10, 2e-6, 3e-10)
    assert cached_model("some MPI 1.0") is None
    keep_model("some MPI 1.0", model)
    assert cached_model("some MPI 1.0") == model and cached_model("some MPI 1.1") is None
    (file,) = (tmp_path / "spmd_grid").iterdir()
    whole = file.read_text()
    wrong = ["0.0", "-1.0", "1e999", "NaN", "1", "true", '"1"', "null", "[1.0]", "9" * 5000]
    texts = [whole.replace("1e-10", value) for value in wrong]
    for text in ("", "{}", "[1, 2]", "[" * 4000, "null", whole.replace("copy", "other"), *texts):
        file.write_text(text)
        assert cached_model("some MPI 1.0") is None, text
    file.write_text(whole + " " * 4096)
    assert cached_model("some MPI 1.0") is None, "it is too large"
    file.write_text(whole)
    assert cached_model("some MPI 1.0") == model


def test_another_user_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = MachineModel(1e-10, 2e-6, 3e-10)
    keep_model("some MPI 1.0", model)
    folder = tmp_path / "spmd_grid"
    (file,) = folder.iterdir()
    for path in (file, folder):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        assert cached_model("some MPI 1.0") is None, f"others may write to {path}"
        path.chmod(mode)
        assert cached_model("some MPI 1.0") == model
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert cached_model("some MPI 1.0") is None, "links are not followed"
    os.unlink(file)
    os.mkfifo(file)
    assert cached_model("some MPI 1.0") is None, "nor is a pipe waited for"


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
def test_nowhere_to_keep_it(monkeypatch, home):
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    keep_model("some MPI 1.0", MachineModel(1e-10, 2e-6, 3e-10))
    assert cached_model("some MPI 1.0") is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (MachineModel(1e-10, 1e-6, 4e-10), 1 << 19),  # messages cost more than twice the copies
        (MachineModel(1e-10, 1e-6, 1e-10), 8192),
        (MachineModel(1e-9, 1e-9, 1e-10), 4096),
    ],
)
def test_from_which_size_on_messages_win(model, expected):
    assert model.copied_bytes(4096, 1 << 19) == expected


def agreed():
    grid = sg.init_grid((-1,))
    sg.all_reduce(np.ones(3), grid, [0])
    meeting = meeting_of(grid.group((0,)))
    if not isinstance(meeting, MemoryMeeting):
        return None
    return meeting.copied_bytes, meeting.model


@pytest.mark.parametrize("n", [2, 3])
def test_agreed_by_the_group(spmd, n):
    found = spmd(n, agreed)
    assert len(set(found)) == 1
    if found[0] is not None:
        assert 4096 <= found[0][0] <= COPIED_BYTES
