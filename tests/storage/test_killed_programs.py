"""Programs killed by the system at their calls: what is there is whole, and the next save removes what they left."""

import shutil
import sys

import pytest
from support.jobs import clean_environment
from support.patience import run_in_time
from support.storage import saves

import spmd_grid as sg

CASES = [(kind, 0) for kind in saves.SAVES] + [(kind, 1) for kind in saves.FILES]


@pytest.mark.parametrize(("kind", "victim"), CASES)
def test_killed_at_every_call(tmp_path, request, kind, victim):
    if kind in saves.NEEDED:
        pytest.importorskip(saves.NEEDED[kind])
    strides = {"hdf5": 7, "vtk": 9, "keep": 31, "commit file": 31}
    stride = 1 if request.config.getoption("full") else strides.get(kind, 17)
    command = [sys.executable, saves.__file__, kind, tmp_path, str(victim), str(stride)]
    ended = run_in_time([str(word) for word in command], limit=120, env=clean_environment())
    n_killed, code = map(int, ended.stdout.split())
    assert code == 0 and n_killed > 1, ended
    steps = set()
    for number in range(0, (n_killed + 1) * stride, stride):
        folder = tmp_path / str(number)
        steps.add(saves.found(kind, folder))
        if kind in saves.FILES and steps & {2} and saves.found(kind, folder) == 2:
            continue
        if kind == "vtk" and (folder / "u").exists():  # killed between its two names
            with pytest.raises(sg.StorageError, match="u' is there already.*u.pvti is not, .* may have left it"):
                saves.save(kind, folder, 3)
            shutil.rmtree(folder / "u")
        saves.save(kind, folder, 3)
        assert saves.found(kind, folder) == 3
        at = folder / "series" if (folder / "series").exists() else folder
        assert [each.name for each in at.iterdir() if each.name.startswith(".")] == []
    assert steps == ({None, 2} if kind in saves.FILES else {1, 2})
