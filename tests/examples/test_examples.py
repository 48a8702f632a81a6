"""The example programs, run as a user runs them: as programs, on simulated ranks and under the MPI launcher."""

import os
import sys
from difflib import ndiff
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.jobs import clean_environment, mpi_command, needs_mpiexec
from support.patience import run_in_time

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "mpirun_examples"
OPTIONS = {
    "hillslope": ["--refine", "1", "--steps", "7", "--no-picture"],
    "ring_shift": [],
    "pencil_fft": [],
    "mlp": [],
    "dot_cg": [],
    "compiled_cg": [],
    "compiled_adaptive": [],
}
needs_terrain = pytest.mark.skipif(find_spec("matplotlib") is None, reason="the terrain is matplotlib's sample data")
# On simulated ranks by default; there tests below and those of pages have loops of hillslope, and compiled ones.
RANKS = [("ring_shift", 4), ("pencil_fft", 3), ("mlp", 4), ("dot_cg", 1)]


def _marks_of(name):
    return [needs_terrain] if name == "hillslope" else []


LOOPS = ("python", "compiled", "overlap")

# hillslope.py with a reference that is off by the last bit of one cell.
WRONG_REFERENCE = """
import sys
import numpy as np
import hillslope

right = hillslope.serial_diffusion

def wrong(*args):
    z = right(*args)
    z[100, 100] = np.nextafter(z[100, 100], np.inf)
    return z

hillslope.serial_diffusion = wrong
sys.exit(hillslope.main())
"""


def run(command, cwd, environment=None):
    """The finished process, in an environment that no launcher has touched."""
    env = clean_environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(EXAMPLES)]), **(environment or {}))
    command = [str(part) for part in command]
    return run_in_time(command, cwd=cwd, env=env, limit=300)


def simulated(ranks, program, *args, cwd):
    return run([sys.executable, "-m", "spmd_grid", "run", "-n", ranks, program, *args], cwd)


def under_mpi(ranks, program, *args, cwd):
    words, root = mpi_command()
    return run([*words, "-n", ranks, sys.executable, program, *args], cwd, root)


def check(name, done):
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = "equal to the serial result, bit for bit" if name == "hillslope" else f"{name}: "
    assert done.stdout.count(verdict) == 1, done.stdout


@pytest.fixture
def hillslope(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(EXAMPLES)
    import hillslope

    return hillslope


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        pytest.param(name, ranks, marks=_marks_of(name) + [pytest.mark.full] * ((name, ranks) not in RANKS))
        for name in OPTIONS
        for ranks in (1, 3, 4)
    ],
)
def test_on_simulated_ranks(name, ranks, tmp_path):
    done = simulated(ranks, EXAMPLES / f"{name}.py", *OPTIONS[name], cwd=tmp_path)
    check(name, done)
    assert done.stderr == ""
    if name == "hillslope":
        assert f"on {ranks} simulated rank{'s' if ranks > 1 else ''}, " in done.stdout
    assert not list(tmp_path.iterdir())


@needs_mpiexec
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "hillslope"])  # whose loops are below
def test_under_mpi(name, tmp_path):
    check(name, under_mpi(2, EXAMPLES / f"{name}.py", *OPTIONS[name], cwd=tmp_path))


def test_heat_in_slices_is_the_numpy_program_but_for_two_lines():
    numpys, ours = ((EXAMPLES / f"heat_{name}.py").read_text().splitlines() for name in ("numpy", "slices"))
    changed = [line for line in ndiff(numpys, ours) if line[0] in "+-" and line[1:].strip()]
    assert changed == [
        "+ import spmd_grid as sg",
        "- u = np.zeros(SHAPE)",
        "+ u = sg.zeros(SHAPE, sg.Sharding(grid := sg.init_grid((-1,)), [[0]]), grid)",
    ]


@pytest.mark.parametrize(
    ("launch", "ranks"),
    [
        pytest.param(simulated, 1, marks=pytest.mark.full),
        (simulated, 4),
        pytest.param(under_mpi, 3, marks=needs_mpiexec),
    ],
)
def test_heat_in_slices_prints_what_the_numpy_program_prints(launch, ranks, tmp_path):
    serial = run([sys.executable, EXAMPLES / "heat_numpy.py"], tmp_path)
    done = launch(ranks, EXAMPLES / "heat_slices.py", cwd=tmp_path)
    assert serial.returncode == done.returncode == 0, done
    assert serial.stdout.startswith("heat: mean 0.") and serial.stdout.count("\n") == 1
    # Processes that do not buffer their output write a text and the end of its line one after the other.
    line = serial.stdout.strip()
    assert done.stdout.count(line) == ranks
    assert not done.stdout.replace(line, "").strip(), done.stdout


@needs_terrain
@pytest.mark.parametrize(
    ("launch", "ranks", "loop"),
    [
        (simulated, 6, "python"),
        pytest.param(under_mpi, 2, "compiled", marks=needs_mpiexec),
        pytest.param(under_mpi, 2, "overlap", marks=needs_mpiexec),
        *[pytest.param(under_mpi, 4, loop, marks=[needs_mpiexec, pytest.mark.full]) for loop in LOOPS],
        *[pytest.param(simulated, 6, loop, marks=pytest.mark.full) for loop in ("compiled", "overlap")],
    ],
)
def test_hillslope_loops(launch, ranks, loop, tmp_path):
    args = ["--refine", "1", "--steps", "55", "--no-picture", "--loop", loop]  # slices of one step and of two
    done = launch(ranks, EXAMPLES / "hillslope.py", *args, cwd=tmp_path)
    check("hillslope", done)
    assert f"  {loop} loop; on rank 0, messages per update: " in done.stdout
    assert "  [" + 50 * "#" + "] 100 %\n" in done.stdout
    if (launch, ranks) == (under_mpi, 2):
        assert "on 2 MPI ranks, a 1 x 2 grid" in done.stdout


@needs_terrain
def test_hillslope_goes_on_from_its_own_save_only(tmp_path):
    args = ["--refine", "1", "--steps", "10", "--no-picture", "--save", "run", "--save-every", "5"]
    check("hillslope", simulated(2, EXAMPLES / "hillslope.py", *args, cwd=tmp_path))
    other = simulated(1, EXAMPLES / "hillslope.py", *args, "--kappa", "0.03", cwd=tmp_path)
    assert other.returncode == 2 and "save-000001 is of another run" in other.stdout


@pytest.mark.full  # docs/storage.md shows it too, and its commands run by default
@needs_terrain
@needs_mpiexec
def test_hillslope_killed_goes_on_with_other_ranks_to_the_same_bits(tmp_path):
    args = ["--refine", "1", "--steps", "50", "--no-picture", "--save", "run", "--save-every", "20"]
    killed = under_mpi(3, EXAMPLES / "hillslope.py", *args, "--kill-at", "45", cwd=tmp_path)
    assert killed.returncode != 0 and "equal to the serial result" not in killed.stdout
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["save-000001", "save-000002"]
    done = under_mpi(2, EXAMPLES / "hillslope.py", *args, cwd=tmp_path)
    check("hillslope", done)
    assert "goes on from save-000002, step 40, saved by 3 ranks" in done.stdout


@needs_terrain
def test_hillslope_picture(tmp_path):
    picture = tmp_path / "new folder" / "picture.png"
    args = ["--refine", "2", "--years", "1e5", "--picture", picture.relative_to(tmp_path)]
    done = simulated(6, EXAMPLES / "hillslope.py", *args, cwd=tmp_path)
    check("hillslope", done)
    assert f"picture: {picture}\n" in done.stdout
    assert "688 x 806 cells" in done.stdout and "100,000 years" in done.stdout
    from matplotlib.image import imread

    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert imread(picture).std() > 0.1


@needs_terrain
@pytest.mark.parametrize("launch", [simulated, pytest.param(under_mpi, marks=[needs_mpiexec, pytest.mark.full])])
def test_hillslope_notices_one_wrong_bit(launch, tmp_path):
    program = tmp_path / "wrong_reference.py"
    program.write_text(WRONG_REFERENCE)
    done = launch(2, program, *OPTIONS["hillslope"], cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT equal to the serial result: 1 of 138,632 cells differ, by up to" in done.stdout
    assert "Traceback" not in done.stderr


def test_difference_is_one_of_bits(hillslope):
    z = np.array([[1.0, np.nan], [0.0, -2.0]])
    assert hillslope.difference(z.copy(), z) is None
    for cell, value in [((0, 0), np.nextafter(1, 2)), ((0, 1), 0.0), ((1, 0), -0.0)]:
        other = z.copy()
        other[cell] = value
        assert hillslope.difference(other, z).startswith("1 of 4 cells differ")
    assert "shape (2, 1) instead of" in hillslope.difference(z[:, :1].copy(), z)
    assert "float32" in hillslope.difference(z.astype(np.float32), z)


def test_terrain_lies_in_tennessee(hillslope):
    terrain = hillslope.read_terrain()
    west, east, south, north = terrain.extent
    assert terrain.elevation.shape == (344, 403)
    assert west < -84.2 < east and south < 36.6 < north
    assert terrain.dy == pytest.approx((north - south) * hillslope.METRES_PER_DEGREE / 344)
    assert terrain.dx / terrain.dy == pytest.approx(np.cos(np.radians(36.59)), rel=1e-4)


def test_model_is_the_divergence_of_the_flux(hillslope):
    """With kappa = z = x + 2 y, div(kappa grad z) = |grad z|^2 = 5 everywhere; the border stays."""
    y, x = np.ogrid[0:6, 0:9:0.5]
    z = x + 2 * y
    dy, dx, step = 1.0, 0.5, 0.01
    raised = hillslope.serial_diffusion(z, z, 1, step / (2 * dy**2), step / (2 * dx**2)) - z
    expected = np.zeros(z.shape)
    expected[1:-1, 1:-1] = 5 * step
    np.testing.assert_allclose(raised, expected, atol=1e-13)


def test_refinement_keeps_linear_slopes(hillslope):
    i, j = np.ogrid[0:5, 0:7]
    coarse = 3.0 * i - j
    assert np.array_equal(hillslope.refined(coarse, 1, i, j), coarse)
    i, j = np.ogrid[0:15, 0:21]
    fine = hillslope.refined(coarse, 3, i, j)
    expected = 3 * np.clip((i + 0.5) / 3 - 0.5, 0, 4) - np.clip((j + 0.5) / 3 - 0.5, 0, 6)
    np.testing.assert_allclose(fine, expected, atol=1e-13)


def test_near_square_grids(hillslope):
    assert [hillslope.near_square(n) for n in (1, 2, 6, 7, 12, 36)] == [(1, 1), (1, 2), (2, 3), (1, 7), (3, 4), (6, 6)]
