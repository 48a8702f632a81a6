"""The parser of every benchmark's options."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Sequence

from spmd_grid.bench.common.plot import SUFFIXES
from spmd_grid.bench.common.rows import ARRAY_LIBRARIES, PROGRAM_LIBRARIES, RESHARD_LIBRARIES, STORAGE_LIBRARIES
from spmd_grid.cli.option_types import MOST_PROCESSES, MOST_ROUNDS, given, size, whole
from spmd_grid.numerals import shown

__all__ = [
    "QUICK_ROUNDS",
    "QUICK_START_ROUNDS",
    "QUICK_STORAGE_ROUNDS",
    "ROUNDS",
    "START_ROUNDS",
    "STORAGE_ROUNDS",
    "arrays_parser",
    "halo_parser",
    "kernels_parser",
    "ops_parser",
    "plan_parser",
    "programs_parser",
    "reshard_parser",
    "start_parser",
    "storage_parser",
    "watch_parser",
]

ROUNDS, QUICK_ROUNDS = 61, 9
START_ROUNDS, QUICK_START_ROUNDS = 15, 3
STORAGE_ROUNDS, QUICK_STORAGE_ROUNDS = 7, 3


def ops_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "ops",
        help="collective operations against hand-written ones",
        description="Time per call of ten collective operations on 8 B to 64 MiB of doubles per rank: plain calls,"
        " plans, arrays that other processes can read, and plain numpy arrays; and of hand-written mpi4py: buffer"
        " collectives with numpy packing, subarray types, persistent requests. Interleaved in one run; the array is"
        " rewritten before every call.",
    )
    _add_options(parser, "'all_gather*1 MiB'", "small arrays, few rounds")
    _add_plot(parser)
    _add_ranks(parser)
    return parser


def halo_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "halo",
        help="HaloExchange against hand-written halo exchanges",
        description="Time per update of HaloExchange, and of hand-written mpi4py: Isend/Irecv, persistent requests and"
        " Neighbor_alltoallw, with views, subarray types and packing. Interleaved in one run, on periodic fields of"
        " doubles cut along the first or the last dimension; all faces are rewritten before every update. Then the part"
        " of a large exchange that hides behind computing.",
    )
    _add_options(parser, "'2-d 64^2 rows*1 field'", "a few rows, few rounds, no overlap")
    _add_ranks(parser)
    parser.add_argument(
        "--overlap", action="store_true", help="measure only the part of an exchange that hides behind computing"
    )
    return parser


def reshard_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "reshard",
        help="run_plan against hand-written reshardings and other libraries",
        description="Time per resharding of doubles by run_plan, and by hand-written mpi4py: Alltoallw and Isend/Irecv"
        " with subarray types, Alltoallv with numpy packing, and their persistent forms; also by mpi4py-fft, heat and"
        " torch's DTensor, if they are installed. Interleaved in one run, on arrays of 2 and 3 dimensions whose cut"
        " moves from one dimension to another; the source is rewritten before every call. JAX, if installed, is"
        " measured row by row in a separate process.",
    )
    _add_options(parser, "'2-d 512^2 rows to columns'", "a few rows, few rounds")
    _add_plot(parser)
    _add_ranks(parser)
    _add_peers(parser, RESHARD_LIBRARIES)
    return parser


def arrays_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "arrays",
        help="numpy on sharded arrays against numpy on blocks, code by hand, and other libraries",
        description="Time of numpy expressions on sharded arrays of doubles: operators, functions, slices, sums,"
        " products, sorting; of numpy on the blocks alone; of code by hand, numpy on blocks with our operations; and by"
        " heat, torch's DTensor and dask.array, if they are installed. Interleaved in one run; dask is measured row by"
        " row in a separate process.",
    )
    _add_options(parser, "'a + b'", "the smallest blocks, few rounds")
    _add_plot(parser)
    _add_ranks(parser)
    _add_peers(parser, ARRAY_LIBRARIES)
    return parser


def programs_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "programs",
        help="traced programs against the same by hand, and other libraries; and the time of planning",
        description="Time per run of five traced programs (a perceptron, attention, conjugate gradients, k-means and a"
        " pencil FFT), of the same by hand, numpy on blocks with our operations, and by torch's DTensor and JAX, if"
        " they are installed; of 50 operations on small arrays, traced and by hand; and the time in which a program of"
        " 50 operations is planned. Interleaved in one run; JAX is measured row by row in a separate process.",
    )
    _add_options(parser, "'mlp'", "the small programs, few rounds")
    _add_plot(parser)
    _add_ranks(parser)
    _add_peers(parser, PROGRAM_LIBRARIES)
    return parser


def storage_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "storage",
        help="saving and loading against one process with plain system calls, and other libraries",
        description="Time to save an array of doubles as a checkpoint or as .npy, and to load it, on all ranks; of one"
        " process that writes and reads the same bytes by os.pwrite and os.preadv; and of numpy.save of the gathered"
        " array, h5py with one writer, zarr, and torch's DCP, if they are installed. Interleaved in one run on one"
        " disk; everything saved is brought to the disk within the time, and nothing loaded is in memory before.",
    )
    _add_options(parser, "'save*columns'", "16 MiB, few rounds", (STORAGE_ROUNDS, QUICK_STORAGE_ROUNDS))
    parser.add_argument(
        "--size",
        type=size,
        metavar="BYTES",
        help="of the array, such as 256MiB, in place of 64 MiB and 2 GiB; loading takes up to nine times as much disk",
    )
    parser.add_argument(
        "--folder", type=given, metavar="PATH", help="the folder to write in (that for temporary files)"
    )
    _add_plot(parser)
    _add_ranks(parser)
    _add_peers(parser, STORAGE_LIBRARIES)
    return parser


def plan_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "plan",
        help="the time in which one process plans, on grids of 8 to 1,048,576 devices",
        description="Time in which one process plans: makes both layouts and lists what it sends and receives. On grids"
        " of 8 to 1,048,576 devices on which it has the same number of partners, and on the largest also with very many"
        " partners; also the time of plan_reshard and of totals(). Needs no other processes.",
    )
    _add_options(parser, "'swap'", "only the smallest and the largest grids, few rounds")
    return parser


def watch_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "watch",
        help="the time that recording, checking and the gate add to an operation",
        description="Time per operation plain, recorded (as with a timeout) and checked (as with check=True), by turns"
        " in one run, on small arrays; and the time in which an operation finds that it is neither. Then the same"
        " operations of one process with and without the gate that lets one operation in at a time.",
    )
    _add_options(parser, "'all_reduce'", "a few rows, few rounds")
    _add_ranks(parser)
    return parser


def kernels_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "kernels",
        help="the compiled kernels against numpy, in one process",
        description="Time in which the compiled kernels, and numpy, copy and combine the same arrays, and draw random"
        " numbers. Needs no other processes.",
    )
    _add_options(parser, "'copy'", "a few rows, few rounds")
    return parser


def start_parser(kinds: argparse._SubParsersAction[ArgumentParser]) -> ArgumentParser:
    parser = kinds.add_parser(
        "start",
        help="the time of importing the package, and of a first operation, in a fresh process",
        description="Time in which a fresh process imports the package, beyond numpy, and runs its first operation,"
        " beyond importing numba; each in separate processes, by turns.",
    )
    _add_options(parser, "'first'", "the imports and one operation, few rounds", (START_ROUNDS, QUICK_START_ROUNDS))
    return parser


def _add_options(
    parser: ArgumentParser, example: str, quick: str, rounds: tuple[int, int] = (ROUNDS, QUICK_ROUNDS)
) -> None:
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--rows", type=given, metavar="PATTERN", help=f"only rows whose name contains this, such as {example}"
    )
    parser.add_argument(
        "--rounds",
        type=whole(1, MOST_ROUNDS),
        metavar="N",
        help="number of rounds, in each of which all take a turn ({}; {} with --quick)".format(*rounds),
    )
    parser.add_argument("--json", type=given, metavar="PATH", help="write all figures to this file")
    parser.add_argument("--markdown", type=given, metavar="PATH", help="write the table to this file")


def _add_plot(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--plot", type=given, metavar="PATH", help=f"draw time against size to this file ({', '.join(SUFFIXES)})"
    )
    parser.add_argument(
        "--from",
        dest="figures",
        type=given,
        metavar="PATH",
        help="measure nothing; print, write and draw the rows of a file that --json wrote",
    )


def _add_ranks(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--ranks", type=whole(1, MOST_PROCESSES), default=2, metavar="N", help="MPI processes to start (2)"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # given to the processes it starts


def _add_peers(parser: ArgumentParser, libraries: Sequence[str]) -> None:
    def names(text: str) -> str:
        for name in [] if text == "none" else text.split(","):
            if name not in libraries:
                raise argparse.ArgumentTypeError(f"{shown(name)}; it must be one of {', '.join(libraries)}, or none")
        return text

    text = f"the other libraries to measure, or 'none' ({','.join(libraries)})"
    parser.add_argument("--peers", type=names, metavar="LIST", help=text)
