"""``python -m spmd_grid bench``: what it starts, what it refuses, and one row of it in full."""

import json
import os
import sys
from pathlib import Path

import pytest
from support.jobs import needs_mpiexec
from support.patience import run_in_time

from spmd_grid.bench.common import launch
from spmd_grid.bench.start import cases as start_cases
from spmd_grid.cli.bench import command as bench
from spmd_grid.cli.main import main
from spmd_grid.formatting import seconds_text

ROOT = Path(__file__).resolve().parents[2]


def python(*words, limit=60):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run_in_time([sys.executable, *words], env=env, limit=limit)


# -- refusals --------------------------------------------------------------------------------------------------


def refused(capsys, *words, kind="halo"):
    assert main(["bench", kind, *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("spmd_grid bench: ") and len(err.splitlines()) == 1
    return err


def refused_late(capsys, *words, kind):
    """As ``refused``, after it has begun to print."""
    assert main(["bench", kind, *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("spmd_grid bench: ") and len(err.splitlines()) == 1
    return err


def test_no_such_row(capsys):
    assert "no row's name contains '5-d'; they are like '2-d 64^2 rows" in refused(capsys, "--rows", "5-d")
    assert "they are like 'all_gather axis 0, 8 B'" in refused(capsys, "--rows", "5-d", kind="ops")
    known = "they are like '2-d 64^2 rows to columns'"
    assert known in refused(capsys, "--rows", "5-d", kind="reshard")
    assert "they are like 'swap, 2x2x2'" in refused(capsys, "--rows", "5-d", kind="plan")
    assert "they are like 'import numpy'" in refused(capsys, "--rows", "5-d", kind="start")


@pytest.mark.parametrize("kind", ["halo", "ops", "reshard", "plan", "watch", "start"])
def test_a_file_that_cannot_be_written(kind, capsys, tmp_path):
    assert "cannot write" in refused(capsys, "--json", str(tmp_path / "missing" / "figures.json"), kind=kind)
    assert "cannot write" in refused(capsys, "--markdown", str(tmp_path), kind=kind)


@pytest.mark.parametrize("kind", ["ops", "reshard"])
def test_a_plot_that_cannot_be_drawn(kind, capsys, monkeypatch, tmp_path):
    assert "must end in one of .svg, .png" in refused(capsys, "--plot", str(tmp_path / "plot.txt"), kind=kind)
    assert "cannot write" in refused(capsys, "--plot", str(tmp_path / "missing" / "plot.svg"), kind=kind)
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    assert "--plot needs matplotlib; 'pip install" in refused(capsys, "--plot", str(tmp_path / "plot.svg"), kind=kind)


@pytest.mark.parametrize("kind", ["ops", "reshard"])
def test_no_figures_to_tell(kind, capsys, tmp_path):
    figures = tmp_path / "figures.json"
    assert "has no figures of bench" in refused(capsys, "--from", str(figures), kind=kind)
    for text in ("no JSON", "[]", "{}", '{"rows": [{"row": "another"}]}'):
        figures.write_text(text)
        assert "has no figures of bench" in refused(capsys, "--from", str(figures), kind=kind)
    figures.write_text('{"rows": []}')
    assert "has no row whose name contains ''" in refused(capsys, "--from", str(figures), kind=kind)


@pytest.mark.parametrize("kind", ["halo", "ops", "reshard", "watch"])
def test_no_launcher(kind, capsys, monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda *_, **__: None)
    assert f"there is no mpiexec beside {sys.executable} or in PATH; 'pip install" in refused(capsys, kind=kind)


def test_no_mpi(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(launch, "launch_command", lambda ranks: (["false"], {}))
    monkeypatch.setattr(launch, "_LOAD_MPI", "raise RuntimeError('cannot load MPI library')")
    assert "MPI cannot be loaded (RuntimeError: cannot load MPI library); install one" in refused(capsys)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("walk",),
        ("halo", "-n", "0"),
        ("halo", "--rounds", "few"),
        ("halo", "-x"),
        ("reshard", "-n", "0"),
        ("reshard", "--overlap"),
        ("reshard", "--peers", "heat,fire"),
        ("ops", "--peers", "heat"),
        ("ops", "-n", "0"),
        ("watch", "-n", "0"),
        ("plan", "-n", "2"),
        ("plan", "--rounds", "0"),
        ("start", "-n", "2"),
    ],
)
def test_usage(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(["bench", *words])
    assert left.value.code == 2 and "usage" in capsys.readouterr().err


def test_help_loads_neither_mpi_nor_numba():
    program = (
        "import sys\nfrom spmd_grid.cli.main import main\n"
        "for kind in ('halo', 'ops', 'reshard', 'plan', 'kernels', 'start'):\n"
        "    try:\n        main(['bench', kind, '--help'])\n    except SystemExit as exit_:\n"
        "        assert not exit_.code, kind\n"
        "    assert {'mpi4py', 'numba'}.isdisjoint(sys.modules), kind\n"
    )
    done = python("-c", program)
    assert done.returncode == 0 and done.stdout.count("--rows PATTERN") >= 6, done.stdout + done.stderr


# -- what is started -------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    calls = []
    monkeypatch.setattr(bench, "on_ranks", lambda ranks, words: calls.append((ranks, words)) or 0)
    monkeypatch.setattr(bench, "inside_a_job", lambda: False)
    return calls


def test_options_reach_the_ranks(started, tmp_path):
    assert main(["bench", "halo"]) == 0
    path = str(tmp_path / "figures.json")
    main(
        ["bench", "halo", "-n", "3", "--quick", "--rows", "2-d 64^2 rows", "--rounds", "7", "--json", path, "--overlap"]
    )
    words = ["--quick", "--overlap", "--rows=2-d 64^2 rows", "--rounds=7", f"--json={path}"]
    assert started == [(2, ["bench", "halo", "--here"]), (3, ["bench", "halo", "--here", *words])]
    started.clear()
    main(["bench", "reshard", "--quick", "-n", "4", "--rows", "0 to 2", "--markdown", path])
    assert started == [(4, ["bench", "reshard", "--here", "--quick", "--rows=0 to 2", f"--markdown={path}"])]
    started.clear()
    pytest.importorskip("matplotlib")
    plot = str(tmp_path / "plot.svg")
    main(["bench", "reshard", "--plot", plot, "--peers", "heat,JAX"])
    main(["bench", "ops", "--rounds", "3", "--plot", plot])
    assert started == [
        (2, ["bench", "reshard", "--here", f"--plot={plot}", "--peers=heat,JAX"]),
        (2, ["bench", "ops", "--here", "--rounds=3", f"--plot={plot}"]),
    ]


def test_the_exit_code_of_the_job(monkeypatch):
    monkeypatch.setattr(bench, "inside_a_job", lambda: False)
    monkeypatch.setattr(bench, "on_ranks", lambda ranks, words: 7)
    assert main(["bench", "halo"]) == 7


@pytest.mark.parametrize(
    ("environment", "inside"),
    [
        ({}, False),
        ({"PMI_SIZE": "2"}, True),
        ({"PMI_SIZE": "1"}, False),
        ({"OMPI_COMM_WORLD_SIZE": "16"}, True),
        ({"SLURM_STEP_NUM_TASKS": "1", "HOME": "/"}, False),
        ({"SLURM_STEP_NUM_TASKS": "1", "PMI_SIZE": "4"}, True),
        ({"PMI_SIZE": "two"}, False),
    ],
)
def test_inside_a_job(environment, inside):
    assert launch.inside_a_job(environment) is inside


def fake_launcher(folder, says):
    folder.mkdir()
    launcher = folder / "mpiexec"
    launcher.write_text(f"#!/bin/sh\necho '{says}'\n")
    launcher.chmod(0o755)
    return str(launcher)


def test_the_launcher_beside_python_comes_first(tmp_path, monkeypatch):
    mine = fake_launcher(tmp_path / "mine", "HYDRA build details:")
    other = fake_launcher(tmp_path / "other", "mpiexec (OpenRTE) 4.1.4")
    monkeypatch.setenv("PATH", str(tmp_path / "other"), prepend=os.pathsep)
    assert launch.launch_command(2, str(tmp_path / "mine" / "python")) == ([mine, "-n", "2"], {})
    command, more = launch.launch_command(4, str(tmp_path / "none" / "python"))
    assert command == [other, "--oversubscribe", "-n", "4"]
    assert bool(more) == (os.geteuid() == 0) and set(more.values()) <= {"1"}


# -- in full ---------------------------------------------------------------------------------------------------


@needs_mpiexec
def test_one_row(tmp_path):
    figures, table = tmp_path / "figures.json", tmp_path / "table.md"
    pattern = "2-d 64^2 rows, 1 field, width 1, face 512 B, not periodic"
    words = ["--rows", pattern, "--rounds", "2", "--json", figures, "--markdown", table]
    done = python("-W", "error", "-m", "spmd_grid", "bench", "halo", *words)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 ranks, ") and sum(line.startswith(pattern) for line in lines) == 1
    assert any(line.startswith("Slower than the best hand-written variant in ") for line in lines)
    assert not any(line.startswith("Overlap") for line in lines)
    written = json.loads(figures.read_text())
    (row,) = written["rows"]
    ours = {"spmd_grid", "spmd_grid in-loop", "spmd_grid message path", "spmd_grid message path in-loop"}
    assert ours | {"in place"} < set(row["contenders"]) and len(row["contenders"]) == 11
    assert row["rounds"] == 2 and all(figure["raw"] > 0 for figure in row["contenders"].values())
    assert f"| {row['row']} |" in table.read_text()


@needs_mpiexec
def test_one_resharding(tmp_path):
    figures, table = tmp_path / "figures.json", tmp_path / "table.md"
    words = ["--quick", "--rows", "64^2 rows to", "--rounds", "2", "--json", figures, "--markdown", table]
    words += ["--peers", "none"]
    done = python("-W", "error", "-m", "spmd_grid", "bench", "reshard", *words)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 ranks, ") and sum(line.startswith("2-d 64^2 rows to columns") for line in lines) == 1
    assert any(line.startswith("Slower than the best hand-written variant in ") for line in lines)
    assert any("message path not slower than Alltoallw" in line for line in lines)
    (row,) = json.loads(figures.read_text())["rows"]
    ours = {"spmd_grid", "spmd_grid, new result", "spmd_grid, numpy arrays", "spmd_grid message path"}
    assert ours < set(row["contenders"]) and len(row["contenders"]) >= 8
    assert row["rounds"] == 2 and all(figure["raw"] > 0 for figure in row["contenders"].values())
    assert f"| {row['row']} |" in table.read_text()


@needs_mpiexec
def test_one_operation(tmp_path):
    figures, table, plot = (tmp_path / f"figures.{suffix}" for suffix in ("json", "md", "svg"))
    words = ["--rows", "shift, 1 KiB", "--rounds", "2", "--json", figures]
    done = python("-W", "error", "-m", "spmd_grid", "bench", "ops", *words)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 ranks, ") and sum(line.startswith("shift, 1 KiB ") for line in lines) == 1
    (row,) = json.loads(figures.read_text())["rows"]
    ours = {"spmd_grid", "spmd_grid, new result", "spmd_grid, numpy arrays"}
    by_hand = {"Sendrecv", "Isend/Irecv", "Send_init/Recv_init", "numpy.copyto"}
    assert ours | by_hand <= set(row["contenders"])
    assert row["rounds"] == 2 and all(figure["raw"] > 0 for figure in row["contenders"].values())
    pytest.importorskip("matplotlib")
    again = python("-m", "spmd_grid", "bench", "ops", "--from", figures, "--markdown", table, "--plot", plot)
    assert again.returncode == 0 and again.stdout.splitlines()[-1] == lines[-1], again.stderr
    assert f"| {row['row']} |" in table.read_text() and plot.read_text().startswith("<?xml")


def test_planning(capsys, tmp_path):
    figures, table = tmp_path / "figures.json", tmp_path / "table.md"
    words = ["--rows", "swap*2x2", "--rounds", "1", "--json", str(figures), "--markdown", str(table)]
    assert main(["bench", "plan", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("one process on ") and sum(line.startswith("swap, ") for line in lines) == 1
    assert any("100 us for swap, reorder and move" in line for line in lines)
    (row,) = json.loads(figures.read_text())["rows"]
    assert (row["row"], row["devices"], row["partners"]) == ("swap, 2x2x2", 8, 1)
    assert min(row[name] for name in ("us", "low", "high", "shardings_us", "auto_us", "totals_us")) > 0
    assert "| swap, 2x2x2 | 8 |" in table.read_text()


def test_starting(capsys, tmp_path):
    figures, table = tmp_path / "figures.json", tmp_path / "table.md"
    words = ["--quick", "--rounds", "1", "--json", str(figures), "--markdown", str(table)]
    assert main(["bench", "start", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("one process on ") and "medians over 1 interleaved rounds" in lines[0]
    rows = json.loads(figures.read_text())["rows"]
    assert [row["row"] for row in rows[:2]] == ["import numpy", "import spmd_grid, after numpy"] and len(rows) == 4
    assert all(0 < row["low"] == row["ms"] == row["high"] for row in rows)
    assert all(f"| {row['row']} | {seconds_text(1e-3 * row['ms'])} |" in table.read_text() for row in rows)
    verdicts = [line for line in lines if "150 ms to import" in line or "300 ms for a first operation" in line]
    assert len(verdicts) == 2 and all(line.startswith(("met ", "missed ")) for line in verdicts)


def test_what_is_timed_in_fresh_processes_runs():
    """All in one process, which is fresh for the first only: four of them run as they should in ``test_starting``."""
    programs = [case.program for case in start_cases.all_cases()]
    done = python("-W", "error", "-c", f"for text in {programs}:\n    exec(text, {{}})")
    assert done.returncode == 0, done.stderr
    assert [float(line) > 0 for line in done.stdout.splitlines()] == [True] * len(programs)


def test_a_fresh_process_that_fails(capsys, monkeypatch):
    monkeypatch.setattr(start_cases, "quick_cases", lambda: [start_cases.StartCase("wrong", "", "1 / 0")])
    assert "wrong: ZeroDivisionError: division by zero" in refused_late(capsys, "--quick", kind="start")


@pytest.mark.full
@needs_mpiexec
def test_overlap():
    done = python("-W", "error", "-m", "spmd_grid", "bench", "halo", "--overlap", "--rounds", "1")
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    assert "us per update" not in done.stdout
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[-4:]] == [
        "spmd_grid",
        "spmd_grid message path",
        "mpi4py",
        "mpi4py, Testall between tiles",
    ]
    for line in lines[-4:]:
        *times, hidden, _ = line.rsplit(maxsplit=6)[1:]
        exchange, compute, both, visible = map(float, times)
        assert visible == pytest.approx(both - compute, abs=0.02)
        # What rounding to 0.01 may change, which is much where little is exchanged beside other work.
        rounding = 100 * 0.01 * (1 + abs(visible) / exchange) / exchange
        assert float(hidden) == pytest.approx(100 * (1 - visible / exchange), abs=1 + rounding)


@pytest.mark.full
@needs_mpiexec
def test_soak():
    command, more = launch.launch_command(2)
    done = run_in_time(
        [*command, sys.executable, ROOT / "scripts" / "soak_halo.py", "--updates", "1000"],
        env={**os.environ, **more, "PYTHONPATH": str(ROOT)},
        limit=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all updates arrived, memory is steady" in done.stdout and "1000 updates" in done.stdout


def test_soak_sees_a_lost_update():
    program = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nimport numpy as np, soak_halo\n"
        "class Halo:\n"
        "    steps = 0\n"
        "    def update(self, u):\n"
        "        self.steps += 1\n"
        "        if self.steps not in (6, 7):\n"
        "            u[0], u[-1] = u[-2], u[1]\n"
        "u = np.zeros((8, 5))\n"
        "print(soak_halo.run_steps(Halo(), u, (u.reshape(1, 8, 5),), 1, 0, 9, 1, 1, 0, 0, 0))\n"
    )
    done = python("-c", program, ROOT / "scripts")
    assert done.returncode == 0 and done.stdout == "(20, 5)\n", done.stdout + done.stderr
