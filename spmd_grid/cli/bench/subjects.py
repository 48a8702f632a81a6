"""The benchmarks of ``python -m spmd_grid bench``: their texts, and the options that each takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spmd_grid.bench.common.rows import ARRAY_LIBRARIES, PROGRAM_LIBRARIES, RESHARD_LIBRARIES, STORAGE_LIBRARIES

__all__ = ["BENCHMARKS", "Benchmark"]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: ``spmd_grid.bench.KIND`` with its modules ``cases`` and ``measure``.

    ``row`` is an example of ``--rows``, ``quick`` says what ``--quick`` measures, ``rounds`` how often without and with
    it.  ``on_ranks``: it runs on MPI processes.  ``keeps_figures``: it draws, and reads again what ``--json`` wrote.
    ``libraries``: those that can be measured beside ours.
    """

    kind: str
    title: str
    description: str
    row: str
    quick: str
    rounds: tuple[int, int] = (61, 9)
    on_ranks: bool = True
    keeps_figures: bool = False
    libraries: Sequence[str] = ()


BENCHMARKS = (
    Benchmark(
        "ops",
        "collective operations against hand-written ones",
        "Measures the time per call of ten collective operations on 8 B to 64 MiB of doubles per rank: of plain"
        " calls and of plans, from arrays that other processes can read and from plain numpy arrays. Compares them"
        " with hand-written mpi4py: buffer collectives with numpy packing, subarray types, persistent requests. All"
        " take turns in one run; the array is rewritten before every call.",
        row="'all_gather*1 MiB'",
        quick="small arrays, few rounds",
        keeps_figures=True,
    ),
    Benchmark(
        "halo",
        "HaloExchange against hand-written halo exchanges",
        "Measures the time per update of a HaloExchange, on periodic fields of doubles cut along the first or the"
        " last dimension. Compares it with hand-written mpi4py: Isend/Irecv, persistent requests and"
        " Neighbor_alltoallw, with views, subarray types and packing. All take turns in one run; all faces are"
        " rewritten before every update. Then it measures the part of a large exchange that hides behind computing.",
        row="'2-d 64^2 rows*1 field'",
        quick="a few rows, few rounds, no overlap",
    ),
    Benchmark(
        "reshard",
        "run_plan against hand-written reshardings and other libraries",
        "Measures the time per resharding of doubles by run_plan, on arrays of 2 and 3 dimensions whose cut moves"
        " from one dimension to another. Compares it with hand-written mpi4py (Alltoallw and Isend/Irecv with"
        " subarray types, Alltoallv with numpy packing, and their persistent forms) and with mpi4py-fft, heat and"
        " torch's DTensor, if they are installed. All take turns in one run; the source is rewritten before every"
        " call. JAX, if installed, is measured row by row in a separate process.",
        row="'2-d 512^2 rows to columns'",
        quick="a few rows, few rounds",
        keeps_figures=True,
        libraries=RESHARD_LIBRARIES,
    ),
    Benchmark(
        "arrays",
        "numpy on sharded arrays against numpy on blocks, code by hand, and other libraries",
        "Measures the time of numpy expressions on sharded arrays of doubles: operators, functions, slices, sums,"
        " products, sorting. Compares it with numpy on the blocks alone, with code by hand (numpy on blocks with our"
        " operations), and with heat, torch's DTensor and dask.array, if they are installed. All take turns in one"
        " run, except dask, which is measured row by row in a separate process.",
        row="'a + b'",
        quick="the smallest blocks, few rounds",
        keeps_figures=True,
        libraries=ARRAY_LIBRARIES,
    ),
    Benchmark(
        "shapes",
        "operations on arrays of all shapes, from one row to one column, first and later runs",
        "Measures the time of the first run and of later runs of slices, joins, reshardings, halos and collective"
        " operations on as many doubles in each shape, from 1 x 10^6 to 10^6 x 1. Compares them with a copy of a"
        " block, and with numpy on a block. Says whether all rows keep to a limit.",
        row="'roll'",
        quick="slices and rolls of few cells, few rounds",
        rounds=(9, 3),
    ),
    Benchmark(
        "programs",
        "traced programs against the same by hand, and other libraries; and the time of planning",
        "Measures the time per run of five traced programs: a perceptron, attention, conjugate gradients, k-means"
        " and a pencil FFT. Compares it with code by hand (numpy on blocks with our operations) and with torch's"
        " DTensor and JAX, if they are installed. Measures also 50 operations on small arrays, traced and by hand,"
        " and the time in which a program of 50 operations is planned. All take turns in one run, except JAX, which"
        " is measured row by row in a separate process.",
        row="'mlp'",
        quick="the small programs, few rounds",
        keeps_figures=True,
        libraries=PROGRAM_LIBRARIES,
    ),
    Benchmark(
        "storage",
        "saving and loading against one process with plain system calls, and other libraries",
        "Measures the time to save an array of doubles as a checkpoint or as .npy on all ranks, and to load it."
        " Compares it with one process that writes and reads the same bytes by os.pwrite and os.preadv, and with"
        " numpy.save of the gathered array, h5py with one writer, zarr, and torch's DCP, if they are installed. All"
        " take turns in one run on one disk; everything saved is brought to the disk within the time, and nothing"
        " loaded is in memory before. Rows of 'save beside' show the time that saving adds to a program that"
        " computes for about 0.1 s meanwhile.",
        row="'save*columns'",
        quick="16 MiB, few rounds",
        rounds=(7, 3),
        keeps_figures=True,
        libraries=STORAGE_LIBRARIES,
    ),
    Benchmark(
        "plan",
        "the time in which one process plans, on grids of 8 to 1,048,576 devices",
        "Measures the time in which one process plans: it makes both layouts and lists what it sends and receives,"
        " on grids of 8 to 1,048,576 devices. The process has the same number of partners on all grids, and on the"
        " largest also very many. Measures also plan_reshard and totals(). Needs no other processes.",
        row="'swap'",
        quick="only the smallest and the largest grids, few rounds",
        on_ranks=False,
    ),
    Benchmark(
        "watch",
        "the time that recording, checking and the gate add to an operation",
        "Measures the time per operation on small arrays, plain, recorded (as with a timeout) and checked (as with"
        " check=True), which take turns in one run; and the time in which an operation finds out that it is neither"
        " recorded nor checked. Then it measures operations of one process with and without the gate that lets one"
        " operation in at a time.",
        row="'all_reduce'",
        quick="a few rows, few rounds",
    ),
    Benchmark(
        "links",
        "the model of the links against the clock: operations and reshardings between nodes",
        "Measures a model of the links between all ranks. Compares the times that it predicts for every collective and"
        " for 60 random reshardings with the times that they take, and the way that it chooses with the other ways."
        " Made for ranks on several nodes.",
        row="'all_reduce'",
        quick="a few rows, few rounds",
        rounds=(7, 5),
    ),
    Benchmark(
        "network",
        "operations, reshardings and halos between nodes against MPI's own, and the bytes that cross",
        "Measures the time per call of collective operations, reshardings and halo exchanges between all ranks, and"
        " the bytes that the interfaces of all nodes send meanwhile. Compares them with the same by hand with"
        " mpi4py, and with the fewest bytes that can cross. All take turns in one run. Made for ranks on several"
        " nodes.",
        row="'all_gather'",
        quick="a row of each kind, few rounds",
        rounds=(15, 5),
    ),
    Benchmark(
        "kernels",
        "the compiled kernels against numpy, in one process",
        "Measures the time in which the compiled kernels copy and combine arrays and draw random numbers, and"
        " compares it with numpy's. Needs no other processes.",
        row="'copy'",
        quick="a few rows, few rounds",
        on_ranks=False,
    ),
    Benchmark(
        "start",
        "the time of importing the package, and of a first operation, in a fresh process",
        "Measures the time in which a fresh process imports the package, beyond numpy, and runs its first"
        " operation, beyond importing numba. Each runs in separate processes, which take turns.",
        row="'first'",
        quick="the imports and one operation, few rounds",
        rounds=(15, 3),
        on_ranks=False,
    ),
)
