"""Terrain smoothed by millions of years of soil creep: hillslope diffusion dz/dt = div(kappa grad z), sharded.

    mpiexec -n 4 python mpirun_examples/hillslope.py
    python -m spmd_grid run -n 4 mpirun_examples/hillslope.py

Runs on any number of ranks.  The terrain is a real elevation model, matplotlib's sample data; the border keeps its
elevation.  The time loop is one compiled function, halo updates included; with --loop python the same function runs
uncompiled, and with --loop overlap sg.map_overlap computes the cells that need no halo while the halo is exchanged.
With --save FOLDER it saves a checkpoint every 100 steps, and goes on from the newest one there, saved by any number of
ranks; --kill-at STEP kills a rank, to try it.  The result is compared, bit for bit, with whole-array numpy on one rank;
the exit code is 0 if they are equal.
"""

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

import spmd_grid as sg

DEM = "jacksboro_fault_dem.npz"
METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of the Earth's mean radius
SAFETY = 0.9  # of the longest stable step
WIDTH = 50  # of the progress bar
Index = tuple[int, int]


class Terrain(NamedTuple):
    """Elevation in metres (row 0 in the north), size of a cell in metres, and (west, east, south, north) in degrees."""

    elevation: np.ndarray
    dy: float
    dx: float
    extent: tuple[float, float, float, float]


def read_terrain() -> Terrain:
    """Read the elevation model."""
    from matplotlib.cbook import get_sample_data

    with get_sample_data(DEM) as data:
        south, north = sorted((float(data["ymin"]), float(data["ymax"])))  # the file has them swapped
        west, east = float(data["xmin"]), float(data["xmax"])
        dy = METRES_PER_DEGREE * float(data["dy"])
        dx = METRES_PER_DEGREE * float(data["dx"]) * math.cos(math.radians((south + north) / 2))
        return Terrain(data["elevation"].astype(np.float64), dy, dx, (west, east, south, north))


def refined(coarse: np.ndarray, factor: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Cells (i, j) of ``coarse`` interpolated bilinearly to ``factor`` times the resolution; i, j as numpy.ogrid's."""

    def neighbours(index: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
        position = np.clip((index + 0.5) / factor - 0.5, 0, extent - 1)
        low = np.minimum(position.astype(np.int64), extent - 2)
        return low, position - low

    (row, down), (column, right) = neighbours(i, coarse.shape[0]), neighbours(j, coarse.shape[1])
    upper = coarse[row, column] * (1 - right) + coarse[row, column + 1] * right
    lower = coarse[row + 1, column] * (1 - right) + coarse[row + 1, column + 1] * right
    return upper * (1 - down) + lower * down


def diffusivity(elevation: np.ndarray, kappa: float) -> np.ndarray:
    """Diffusivity: kappa up to 450 m, falling to a quarter of it at 750 m, where hard sandstone caps the ridges."""
    hardness = np.clip((elevation - 450) / 300, 0, 1)
    return kappa * (1 - 0.75 * hardness)


@numba.njit(nogil=True, cache=True)
def diffuse(
    z: np.ndarray, new: np.ndarray, starts: Index, stops: Index, kappa: np.ndarray, cy: float, cx: float
) -> None:
    """Compute one step for the cells of a local array from starts to stops."""
    left, right = starts[1], stops[1]
    for i in range(starts[0], stops[0]):
        # Rows as slices: with signed indices into the whole array LLVM does not vectorise.
        z_here, z_west, z_east = z[i, left:right], z[i, left - 1 : right - 1], z[i, left + 1 : right + 1]
        k_here, k_west, k_east = kappa[i, left:right], kappa[i, left - 1 : right - 1], kappa[i, left + 1 : right + 1]
        z_north, z_south = z[i - 1, left:right], z[i + 1, left:right]
        k_north, k_south = kappa[i - 1, left:right], kappa[i + 1, left:right]
        result = new[i, left:right]
        for j in range(result.size):
            west = (k_west[j] + k_here[j]) * (z_here[j] - z_west[j])
            east = (k_here[j] + k_east[j]) * (z_east[j] - z_here[j])
            north = (k_north[j] + k_here[j]) * (z_here[j] - z_north[j])
            south = (k_here[j] + k_south[j]) * (z_south[j] - z_here[j])
            result[j] = z_here[j] + (cy * (south - north) + cx * (east - west))


def diffuse_steps(
    halo: sg.HaloExchange,
    steps: int,
    z: np.ndarray,
    new: np.ndarray,
    starts: Index,
    stops: Index,
    kappa: np.ndarray,
    cy: float,
    cx: float,
) -> None:
    """Compute many steps, halo updates included; swaps the arrays after each.  Compiled, it runs without Python."""
    for _ in range(steps):
        halo.update(z)
        diffuse(z, new, starts, stops, kappa, cy, cx)
        z, new = new, z


LOOPS = {"compiled": numba.njit(nogil=True, cache=True)(diffuse_steps), "python": diffuse_steps, "overlap": None}


def serial_diffusion(z: np.ndarray, kappa: np.ndarray, steps: int, cy: float, cx: float) -> np.ndarray:
    """The same model on the whole array in numpy, without any of the sharded version's code."""
    z = z.copy()
    ky, kx = kappa[:-1, 1:-1] + kappa[1:, 1:-1], kappa[1:-1, :-1] + kappa[1:-1, 1:]
    for _ in range(steps):
        flux_y, flux_x = ky * np.diff(z[:, 1:-1], axis=0), kx * np.diff(z[1:-1], axis=1)
        z[1:-1, 1:-1] += cy * np.diff(flux_y, axis=0) + cx * np.diff(flux_x, axis=1)
    return z


def difference(result: np.ndarray, expected: np.ndarray) -> str | None:
    """Description of the difference between two arrays of float64; None if they are equal bit for bit."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"{result.dtype} of shape {result.shape} instead of {expected.dtype} of shape {expected.shape}"
    different = np.count_nonzero(result.view(np.uint64) != expected.view(np.uint64))
    if not different:
        return None
    return f"{different:,} of {result.size:,} cells differ, by up to {np.max(np.abs(result - expected)):.3g} m"


def near_square(n: int) -> tuple[int, int]:
    """The two factors of n nearest to each other, the smaller one first."""
    rows = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    return rows, n // rows


def draw(
    path: Path, before: np.ndarray, after: np.ndarray, terrain: Terrain, u: sg.ShardedArray, title: str, years: float
) -> None:
    """Draw the shaded relief before and after, with the border of every shard of ``u``."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LightSource, ListedColormap, Normalize
    from matplotlib.figure import Figure

    west, east, south, north = terrain.extent
    rows, columns = before.shape
    land = ListedColormap(colormaps["gist_earth"](np.linspace(0.3, 1, 256)))  # without the blues of water
    colours = ScalarMappable(Normalize(before.min(), before.max()), land)
    figure = Figure(figsize=(13, 7), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, z, when in zip(axes, (before, after), ("today", f"after {years:,.0f} years of soil creep"), strict=True):
        shade = LightSource(azdeg=315, altdeg=45).hillshade(
            z, vert_exag=3, dy=terrain.dy * terrain.elevation.shape[0] / rows,
            dx=terrain.dx * terrain.elevation.shape[1] / columns,
        )  # fmt: skip
        relief = colours.to_rgba(z)[..., :3] * (0.35 + 0.65 * shade[..., None])
        ax.imshow(relief, extent=terrain.extent, aspect=terrain.dy / terrain.dx, interpolation="antialiased")
        for device in range(u.layout.grid.size):
            box = u.layout.core_box(u.layout.grid.multi_index(device))
            (top, left), (bottom, right) = box.starts, box.stops
            x = [west + (east - west) * column / columns for column in (left, right)]
            y = [north - (north - south) * row / rows for row in (top, bottom)]
            ax.plot([x[0], x[1], x[1], x[0], x[0]], [y[0], y[0], y[1], y[1], y[0]], color="white", linewidth=1.2)
            ax.annotate(
                f"rank {device}", (x[0], y[0]), (5, -5), textcoords="offset points", va="top", color="white",
                fontsize=9, bbox={"facecolor": "black", "alpha": 0.55, "edgecolor": "none", "pad": 2},
            )  # fmt: skip
        ax.set(title=when, xlim=(west, east), ylim=(south, north), xlabel="longitude (degrees)")
    axes[0].set_ylabel("latitude (degrees)")
    figure.colorbar(colours, ax=axes, shrink=0.85, pad=0.01, label="elevation (m)")
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def whole_number(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def positive(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return float(text)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--years", type=positive, default=2e6, help="length of the run (default: 2,000,000)")
    length.add_argument("--steps", type=whole_number, help="length of the run in steps of 0.9 the longest stable one")
    parser.add_argument(
        "--refine",
        type=whole_number,
        default=3,
        help="factor of refinement of the data (default: 3)",
    )
    parser.add_argument("--kappa", type=positive, default=0.02, help="diffusivity in m2 per year (default: 0.02)")
    parser.add_argument(
        "--loop", choices=LOOPS, default="compiled",
        help="the time loop: one compiled function (the default), Python, or Python that overlaps halo and kernel",
    )  # fmt: skip
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="save checkpoints, and go on from the newest")
    parser.add_argument("--save-every", type=whole_number, default=100, metavar="STEPS", help="default: 100")
    parser.add_argument("--kill-at", type=whole_number, metavar="STEP", help="kill the last rank there, as a trial")
    parser.add_argument("--picture", type=Path, default=Path("hillslope.png"), help="default: hillslope.png")
    parser.add_argument("--no-picture", dest="picture", action="store_const", const=None, help="draw nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    grid = sg.init_grid(near_square(sg.init_grid((-1,)).size), axis_names=("y", "x"))
    every_axis = ["y", "x"]
    is_first = grid.rank == 0

    def say(text: str, end: str = "\n") -> None:
        if is_first:
            print(text, end=end, flush=True)

    terrain = read_terrain()
    shape = tuple(extent * options.refine for extent in terrain.elevation.shape)
    dy, dx = terrain.dy / options.refine, terrain.dx / options.refine
    longest = SAFETY / (2 * options.kappa * (1 / dy**2 + 1 / dx**2))
    steps = options.steps or math.ceil(options.years / longest)
    step = longest if options.steps else options.years / steps
    years = steps * step
    cy, cx = step / (2 * dy**2), step / (2 * dx**2)  # halved: the kernel adds the diffusivities of two cells

    ranks = f"{grid.size} {'simulated' if sg.is_simulated() else 'MPI'} rank{'s' if grid.size > 1 else ''}"
    cells = f"{shape[0]} x {shape[1]} cells of {dy:.1f} m x {dx:.1f} m"
    say(f"Hillslope diffusion of {DEM}: {cells}")
    say(f"  on {ranks}, a {grid.shape[0]} x {grid.shape[1]} grid; {years:,.0f} years in {steps:,} steps")

    def initial(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return refined(terrain.elevation, options.refine, i, j)

    sharding = sg.Sharding(grid, [["y"], ["x"]], blocks="balanced", halo_sizes=[1, 1, 1, 1])
    halo = sg.HaloExchange(grid, sharding, shape, "float64", corners=False)
    u, done = sg.from_function(initial, shape, sharding, grid), 0
    flow = diffusivity(u.local, options.kappa), cy, cx  # of the rock, which is that of today
    model = [options.refine, options.kappa, step]  # a checkpoint of another model must not be taken up
    if options.save and (newest := sg.latest(options.save, grid)):
        state = sg.load(newest, {"u": sharding}, grid)
        if state["model"] != model or state["step"] > steps:
            say(f"  {newest} is of another run: its refinement, diffusivity and step are {state['model']}, not {model}")
            return 2
        u, done = state["u"], state["step"]
        say(f"  goes on from {newest.name}, step {done:,}, saved by {state['ranks']} ranks")
    new = sg.zeros(shape, sharding, grid)
    new.local[...] = u.local
    # The core in local indices, without the border of the domain, which is not changed.
    starts = tuple(max(part.start, 1) - part.start + 1 for part in u.global_slices)
    stops = tuple(min(part.stop, n - 1) - part.start + 1 for part, n in zip(u.global_slices, shape, strict=True))

    def advance(u: sg.ShardedArray, new: sg.ShardedArray, n: int) -> tuple[sg.ShardedArray, sg.ShardedArray]:
        if options.loop != "overlap":
            LOOPS[options.loop](halo, n, u.local, new.local, starts, stops, *flow)
            return (new, u) if n % 2 else (u, new)
        for _ in range(n):
            sg.map_overlap(diffuse, u, 1, *flow, out=new, halo=halo, region=np.s_[1:-1, 1:-1])
            u, new = new, u
        return u, new

    path = next((line.strip() for line in halo.describe().splitlines() if "messages per update" in line), "")
    say(f"  {options.loop} loop; on rank 0, {path}")
    advance(u, new, 1)  # loads the compiled functions, or compiles them; this step is computed again below
    sg.all_reduce(0, grid, every_axis)  # so that all start their clocks together
    start = time.perf_counter()
    first, ticks = done, min(steps, WIDTH)
    marks = {steps * (tick + 1) // ticks for tick in range(ticks)}
    saves = set(range(options.save_every, steps, options.save_every)) if options.save else set()
    say("  [" + "#" * sum(mark <= done for mark in marks), end="")
    for mark in sorted(marks | saves | {min(options.kill_at or steps, steps)}):
        if mark > done:
            u, new = advance(u, new, mark - done)
            done = mark
            if mark in saves:
                sg.save(options.save, {"u": u, "step": done, "model": model, "ranks": grid.size}, keep=3)
            if mark == options.kill_at and grid.rank == grid.size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            say("#" * (mark in marks), end="")
    say("] 100 %")
    seconds = float(sg.all_reduce(time.perf_counter() - start, grid, every_axis, "max"))
    say(f"  took {seconds:.2f} s: {(steps - first) * math.prod(shape) / seconds / 1e6:,.1f} million cells per second")

    result = u.to_global(root=(0, 0))
    equal = None
    if is_first:
        before = initial(*np.ogrid[: shape[0], : shape[1]])
        start = time.perf_counter()
        expected = serial_diffusion(before, diffusivity(before, options.kappa), steps, cy, cx)
        seconds = time.perf_counter() - start
        problem = difference(result, expected)
        if problem is None:
            say(f"  equal to the serial result, bit for bit (numpy on one rank, {seconds:.1f} s)")
        else:
            say(f"  NOT equal to the serial result: {problem}")
        if options.picture:
            title = f"Jacksboro fault, Tennessee: {cells}; diffused on {ranks}"
            draw(options.picture, before, result, terrain, u, title, years)
            say(f"  picture: {options.picture.resolve()}")
        equal = problem is None
    return 0 if sg.broadcast(equal, grid, every_axis, root=(0, 0)) else 1


if __name__ == "__main__":
    sys.exit(main())
