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
        "Time per call of ten collective operations on 8 B to 64 MiB of doubles per rank: plain calls, plans,"
        " arrays that other processes can read, and plain numpy arrays; and of hand-written mpi4py: buffer"
        " collectives with numpy packing, subarray types, persistent requests. Interleaved in one run; the array"
        " is rewritten before every call.",
        row="'all_gather*1 MiB'",
        quick="small arrays, few rounds",
        keeps_figures=True,
    ),
    Benchmark(
        "halo",
        "HaloExchange against hand-written halo exchanges",
        "Time per update of HaloExchange, and of hand-written mpi4py: Isend/Irecv, persistent requests and"
        " Neighbor_alltoallw, with views, subarray types and packing. Interleaved in one run, on periodic fields"
        " of doubles cut along the first or the last dimension; all faces are rewritten before every update. Then"
        " the part of a large exchange that hides behind computing.",
        row="'2-d 64^2 rows*1 field'",
        quick="a few rows, few rounds, no overlap",
    ),
    Benchmark(
        "reshard",
        "run_plan against hand-written reshardings and other libraries",
        "Time per resharding of doubles by run_plan, and by hand-written mpi4py: Alltoallw and Isend/Irecv with"
        " subarray types, Alltoallv with numpy packing, and their persistent forms; also by mpi4py-fft, heat and"
        " torch's DTensor, if they are installed. Interleaved in one run, on arrays of 2 and 3 dimensions whose"
        " cut moves from one dimension to another; the source is rewritten before every call. JAX, if installed,"
        " is measured row by row in a separate process.",
        row="'2-d 512^2 rows to columns'",
        quick="a few rows, few rounds",
        keeps_figures=True,
        libraries=RESHARD_LIBRARIES,
    ),
    Benchmark(
        "arrays",
        "numpy on sharded arrays against numpy on blocks, code by hand, and other libraries",
        "Time of numpy expressions on sharded arrays of doubles: operators, functions, slices, sums, products,"
        " sorting; of numpy on the blocks alone; of code by hand, numpy on blocks with our operations; and by"
        " heat, torch's DTensor and dask.array, if they are installed. Interleaved in one run; dask is measured"
        " row by row in a separate process.",
        row="'a + b'",
        quick="the smallest blocks, few rounds",
        keeps_figures=True,
        libraries=ARRAY_LIBRARIES,
    ),
    Benchmark(
        "programs",
        "traced programs against the same by hand, and other libraries; and the time of planning",
        "Time per run of five traced programs (a perceptron, attention, conjugate gradients, k-means and a pencil"
        " FFT), of the same by hand, numpy on blocks with our operations, and by torch's DTensor and JAX, if they"
        " are installed; of 50 operations on small arrays, traced and by hand; and the time in which a program of"
        " 50 operations is planned. Interleaved in one run; JAX is measured row by row in a separate process.",
        row="'mlp'",
        quick="the small programs, few rounds",
        keeps_figures=True,
        libraries=PROGRAM_LIBRARIES,
    ),
    Benchmark(
        "storage",
        "saving and loading against one process with plain system calls, and other libraries",
        "Time to save an array of doubles as a checkpoint or as .npy, and to load it, on all ranks; of one process"
        " that writes and reads the same bytes by os.pwrite and os.preadv; and of numpy.save of the gathered"
        " array, h5py with one writer, zarr, and torch's DCP, if they are installed. Interleaved in one run on one"
        " disk; everything saved is brought to the disk within the time, and nothing loaded is in memory before."
        " Of 'save beside' rows, the time that saving adds to a program that computes for about 0.1 s meanwhile.",
        row="'save*columns'",
        quick="16 MiB, few rounds",
        rounds=(7, 3),
        keeps_figures=True,
        libraries=STORAGE_LIBRARIES,
    ),
    Benchmark(
        "plan",
        "the time in which one process plans, on grids of 8 to 1,048,576 devices",
        "Time in which one process plans: makes both layouts and lists what it sends and receives. On grids of 8"
        " to 1,048,576 devices on which it has the same number of partners, and on the largest also with very many"
        " partners; also the time of plan_reshard and of totals(). Needs no other processes.",
        row="'swap'",
        quick="only the smallest and the largest grids, few rounds",
        on_ranks=False,
    ),
    Benchmark(
        "watch",
        "the time that recording, checking and the gate add to an operation",
        "Time per operation plain, recorded (as with a timeout) and checked (as with check=True), by turns in one"
        " run, on small arrays; and the time in which an operation finds that it is neither. Then the same"
        " operations of one process with and without the gate that lets one operation in at a time.",
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
        "Time per call of collective operations, reshardings and halo exchanges between all ranks, of the same by"
        " hand with mpi4py, and the bytes that the interfaces of all nodes send meanwhile, beside the fewest that can"
        " cross. Interleaved in one run; made for ranks on several nodes.",
        row="'all_gather'",
        quick="a row of each kind, few rounds",
        rounds=(15, 5),
    ),
    Benchmark(
        "kernels",
        "the compiled kernels against numpy, in one process",
        "Time in which the compiled kernels, and numpy, copy and combine the same arrays, and draw random numbers."
        " Needs no other processes.",
        row="'copy'",
        quick="a few rows, few rounds",
        on_ranks=False,
    ),
    Benchmark(
        "start",
        "the time of importing the package, and of a first operation, in a fresh process",
        "Time in which a fresh process imports the package, beyond numpy, and runs its first operation, beyond"
        " importing numba; each in separate processes, by turns.",
        row="'first'",
        quick="the imports and one operation, few rounds",
        rounds=(15, 3),
        on_ranks=False,
    ),
)
