"""The error families of spmd_grid.

Every error raised on purpose derives from :class:`SpmdError`.  Errors about arguments derive from ``ValueError``
or ``TypeError`` as well, so that code which catches the builtin keeps working.  A message names the operation,
the value found, the value required and the rule.

There are two kinds of refusal.  What all processes know by SPMD (axes, roots, reductions) is checked before anything
is sent, and every process raises.  What one process alone knows (its array's shape, its ``out``) is sent with the
operation's header, and every other member raises the same error.
"""

from __future__ import annotations

import numpy as np

from spmd_grid.formatting import printable

__all__ = [
    "ArgumentError",
    "AxisError",
    "CellIndexError",
    "CutOffError",
    "DamagedError",
    "DeadlockError",
    "DeviceError",
    "DialectError",
    "DialectSyntaxError",
    "DialectVerifyError",
    "DTypeError",
    "GridError",
    "HangError",
    "ImplicitGatherError",
    "MismatchError",
    "OutputError",
    "PlanError",
    "RankEndedError",
    "ReductionError",
    "RequestError",
    "ShapeError",
    "ShardingError",
    "SimulationError",
    "SpmdError",
    "StorageError",
    "TransportError",
]


class SpmdError(Exception):
    """Base of every error that spmd_grid raises on purpose; catch it to catch them all."""

    is_shared = False  # whether all members of the group raise the same error
    cuts_off = False  # whether an operation ended early because of it, while other members may still wait

    def __str__(self) -> str:
        """The message, without what a terminal obeys: it may quote a file."""
        return printable(Exception.__str__(self), keep="\n\t")


class GridError(SpmdError, ValueError):
    """A grid is malformed, does not fit the processes, or is used by a process that is not in it.

    Compare ``grid.shape`` with the number of processes the launcher started.
    """


class AxisError(SpmdError, np.exceptions.AxisError):
    """A grid axis or a tensor axis is unknown, negative, duplicated or out of range.

    Axes count from 0; negative axes are refused, since they are as often a mistake as intended.  It is an error of
    numpy's as well, and so a ``ValueError`` and an ``IndexError``.
    """


class DeviceError(SpmdError, ValueError):
    """A root, source or destination is not a device of the group.

    A device is given by one coordinate per entry of ``grid_axes``, in that order.
    """


class ShardingError(SpmdError, ValueError):
    """A sharding contradicts itself, its grid, or the array it is applied to."""


class ArgumentError(SpmdError, ValueError):
    """An argument has a value that the function does not take, such as a quantile of 2."""


class CellIndexError(SpmdError, IndexError):
    """An index is outside the array, or has more entries than the array has dimensions."""


class ShapeError(SpmdError, ValueError):
    """An array's shape does not fit the operation or the shapes on the other devices of the group."""


class DTypeError(SpmdError, TypeError):
    """An element type cannot be moved, reduced or converted as asked, or differs between devices."""


class ReductionError(SpmdError, ValueError):
    """A reduction is unknown, or does not apply to the element type at hand."""


class OutputError(SpmdError, ValueError):
    """``out=`` cannot take the result: wrong shape or dtype, read-only, or overlapping the input."""


class ImplicitGatherError(SpmdError, TypeError):
    """A sharded array was used as a numpy array, or by a function without a rule: that would gather it implicitly.

    Call ``to_global`` to gather it openly, or a function that the message names.
    """


class DialectError(SpmdError, ValueError):
    """A text of the dialect cannot be read, or run; the message begins with the file, the line and the column."""


class DialectSyntaxError(DialectError):
    """A text is no program of the dialect: a mistyped word, a bracket that is not closed, an unknown operation."""


class DialectVerifyError(DialectError):
    """An operation of a text contradicts its grid, its types or its sharding; the message names the rule."""


class RequestError(SpmdError, RuntimeError):
    """A started operation is used against its rules, for instance waited for twice."""


class MismatchError(SpmdError, RuntimeError):
    """Processes of one group are in different operations, or pass different arguments to the same operation.

    Or they wait for one another in operations of different groups; then, under MPI, every later operation raises this
    error, on all processes.  The message has a line per process.  Look for a branch that the program takes on some
    processes only.
    """


class CutOffError(SpmdError, RuntimeError):
    """An operation was left in the middle, or one was begun while another was under way in the same process.

    The message names the operation, the call site, and the cause.  Every later operation on the same processes raises
    this error, on all of them, since they may be in different operations.  Save what you need from ``local`` and
    ``core``, and end the program, or make a grid on a new communicator: ``init_grid(..., comm=MPI.COMM_WORLD.Dup())``.
    """


class StorageError(SpmdError, OSError):
    """A system call on a file or folder failed, on any process, or the path cannot be used as asked.

    The message names the operation, the system call, the path and the system's reason.  Nothing was published: what was
    saved before is still there.
    """


class DamagedError(SpmdError, ValueError):
    """A file or checkpoint does not hold what it should: it is incomplete, altered, or of an unknown format.

    The message names the file and what is wrong with it.  Load an earlier checkpoint: ``latest`` finds the newest
    that is whole.
    """


class PlanError(SpmdError, RuntimeError):
    """A plan was found wrong before it ran: a defect of this package; no data has moved.  Please report it."""


class TransportError(SpmdError, RuntimeError):
    """Processes cannot be reached: MPI is missing, or the wrong launcher started N programs of one process."""


class SimulationError(SpmdError, ImportError):
    """A program does something that simulated ranks do not support; the message says what and why."""


class DeadlockError(SpmdError, RuntimeError):
    """Every simulated rank waits and none can go on; the message says where each rank waits, and for which ranks.

    Under MPI: processes wait for messages of one another, or one for a message that only itself could send.  Every
    later operation raises this error then, on all processes.
    """


class HangError(SpmdError, RuntimeError):
    """An operation of a simulated rank waits for longer than ``SPMD_GRID_TIMEOUT`` or ``timeout=`` allows.

    The message says what every rank is doing.  Under MPI the same text is printed, and the job ends.
    """


class RankEndedError(SpmdError, RuntimeError):
    """A rank returned or called ``sys.exit`` while others wait for it, or exited with a non-zero code.

    Or all have ended, and it has not received a message that was sent to it.  ``rank`` is the rank that ended and
    ``code`` the exit code of the job.
    """

    def __init__(self, message: str, rank: int, code: int = 1) -> None:
        super().__init__(message)
        self.rank = rank
        self.code = code


# The errors that a process may name to another one, which makes them of their text: a name is looked up here alone.
NAMED_ERRORS: dict[str, type[SpmdError]] = {name: globals()[name] for name in __all__ if name != "RankEndedError"}
