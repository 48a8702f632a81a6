"""A partitioned program on the processes of a grid: arguments checked, the schedule run, results wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.compute.blas_threads import keep_to_own_cores
from spmd_grid.compute.course.apply import owned
from spmd_grid.errors import DTypeError, GridError, ShapeError, ShardingError, SpmdError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.program.partition.bound_moves import BoundMove
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.running import BoundSchedule
from spmd_grid.program.partition.steps import Compute, LocalValue

__all__ = ["BoundProgram"]

_agreement = AgreePlan("program")


class BoundProgram:
    """Runs the program ``name`` on ``grid``.  Collective over the grid, when made and when run.

    ``takes_whole``: whether arguments are global arrays, of which each process takes its slice.  For the thread that
    made it: arrays are kept from run to run.
    """

    def __init__(self, name: str, schedule: Schedule, grid: ProcessGrid, takes_whole: bool, returns_one: bool):
        self._name = name
        self._grid = grid
        self._gate = grid.process.gate
        self._bound = BoundSchedule(name, schedule, grid)
        self._function = self._bound.function
        self._returns_one = returns_one
        keep_to_own_cores(grid, [step.operation.interface for step in schedule.steps if isinstance(step, Compute)])
        self._arguments = [_Argument(name, i, each, grid, takes_whole) for i, each in enumerate(schedule.arguments)]
        seen: set[int] = set()
        self._results = []
        for each, is_new in zip(schedule.results, self._bound.owned, strict=True):
            self._results.append(_Result(each, is_new and id(each) not in seen, grid))
            seen.add(id(each))
        self._has_views = not all(each.is_plain for each in self._results)
        self._tells = bool(self._bound.moves) and grid.size > 1
        self._first = self._first_of_all(self._bound.moves)
        self._agrees = self._tells and self._first is None  # on local arrays, before each run
        self._idle = [True]

    def run(self, arrays: Sequence[Any]) -> Any:
        """The results for ``arrays``.  Collective."""
        if not self._idle:
            self._gate.check()
            raise GridError(f"{self._name}: this process is in the middle of another run of the program")
        try:
            gate, token, found = self._gate, None, None  # reports of a second run look for these names
            token = self._idle.pop()
            local, is_sharded = self._known(arrays) or self._checked(arrays)
            found = self._function(*local)
            if self._has_views:
                returned = self._with_views(found, local, is_sharded)
            else:
                returned = [each.of(array, is_sharded) for each, array in zip(self._results, found)]
            self._idle.append(token)
            return returned[0] if self._returns_one else tuple(returned)
        except BaseException as error:
            # An exception of a signal's handler may come at any line above, the first and the last ones too.
            if not self._idle:
                self._idle.append(True)
            self._ended_early(error, locals().get("found") is not None)
            raise

    def _first_of_all(self, moves: Sequence[BoundMove | None]) -> OperationPlan | None:
        """The collective that the program begins its communication with, if all processes take part in it."""
        wide = {axis for axis, n in enumerate(self._grid.shape) if n > 1}
        first = moves[0] if moves else None
        return first.first if first is not None and wide <= set(first.axes) else None

    def _known(self, arrays: Sequence[Any]) -> tuple[list[np.ndarray], bool] | None:
        """As `_checked`, at once for local arrays as they must be and for layouts accepted before; None for others."""
        grid, local, is_sharded = self._grid, [], False
        if len(arrays) != len(self._arguments):
            return None
        for array, argument in zip(arrays, self._arguments):
            if type(array) is np.ndarray and not self._agrees:
                if array.shape != argument.shape or argument.slices is not None:
                    return None
            elif type(array) is ShardedArray and array.layout is argument.accepted and array.grid is grid:
                is_sharded, array = True, array.stored
            else:
                return None
            if array.dtype is not argument.dtype:
                return None
            local.append(array)
        return local, is_sharded

    def _checked(self, arrays: Sequence[Any]) -> tuple[list[np.ndarray], bool]:
        """The local arrays, and whether ShardedArrays were given.  Where one process alone refuses, all learn of it."""
        if len(arrays) != len(self._arguments):
            n = len(self._arguments)
            raise ShapeError(f"{self._name}: {len(arrays)} arrays are given; the program has {n} arguments")
        is_sharded, has_plain = False, False
        for array in arrays:
            if isinstance(array, ShardedArray):
                is_sharded = True
            else:
                has_plain = True
        error: SpmdError | None = None
        local: list[np.ndarray] = []
        try:
            local = [each.local(array) for each, array in zip(self._arguments, arrays)]
        except SpmdError as found:
            error = found
        if has_plain and self._tells:  # layouts are alike on all processes, plain arrays need not be
            self._tell(error)
        if error is not None:
            raise error
        return local, is_sharded

    def _tell(self, error: SpmdError | None) -> None:
        """Let all processes know of ``error``: in the first collective, where all take part in it, else before it."""
        if self._first is None:
            self._gate.run(f"program {self._name}", self._agree, error)
        elif error is not None:
            self._first.refuse(error)

    def _agree(self, error: SpmdError | None) -> None:
        axes = tuple(range(self._grid.ndim))
        if error is not None:
            error = _agreement.find_call(self._grid, axes, (self._name,)).blame(error)
        _agreement.agree(self._grid, axes, self._name, error)

    def _with_views(self, found: Sequence[Any], local: Sequence[np.ndarray], is_sharded: bool) -> list[Any]:
        """The results, where arrays may be views of arguments or of each other, which are copied."""
        taken = [*local, *[array for each, array in zip(self._results, found) if each.is_plain]]
        returned = []
        for each, array in zip(self._results, found):
            if not each.is_plain:
                array = owned(np.asarray(array).reshape(each.shape), each.shape, self._grid, taken)
                taken.append(array)
            returned.append(each.of(array, is_sharded))
        return returned

    def _ended_early(self, error: BaseException, is_over: bool) -> None:
        """Note on ``error`` where it arose, and refuse later operations where others would wait for this process.

        Errors that all processes raise alike come from steps that send, and from checks of arguments.
        """
        step = self._bound.step_of(error.__traceback__)
        where = f"program {self._name}" if step is None else self._bound.where(step)
        if step is not None:
            error.add_note(where)
        is_alike = isinstance(error, SpmdError) and not error.cuts_off and (step is None or self._bound.sends(step))
        if self._tells and not is_alike and not is_over and not self._bound.is_past_moves(step):
            self._gate.cut_off(where, error)
        else:
            self._bound.abandon()


class _Argument:
    """The check of one argument; the layout that was accepted last is known by its identity."""

    __slots__ = ("_expected", "_grid", "_title", "accepted", "dtype", "shape", "slices")

    def __init__(self, name: str, number: int, expected: LocalValue, grid: ProcessGrid, takes_whole: bool):
        self._title = f"{name}: argument {number} (%{expected.value.name})"
        self._expected = expected
        self._grid = grid
        self.dtype = expected.dtype
        self.slices = expected.sharding.core_slices(expected.shape, grid.own_coords) if takes_whole else None
        self.shape = expected.shape if takes_whole else expected.layout.local_shape(grid.own_coords)
        self.accepted: Layout | None = None

    def local(self, array: Any) -> np.ndarray:
        """The local array of the argument.  Raises ShapeError, DTypeError, ShardingError and GridError."""
        if isinstance(array, ShardedArray):
            if array.layout is not self.accepted or array.grid is not self._grid:
                self._check_layout(array)
                self.accepted = array.layout
            found = array.stored
        else:
            found = _as_array(self._title, array)
            if found.shape != self.shape:
                raise ShapeError(f"{self._title} has shape {found.shape}{self._due()}")
            if self.slices is not None:
                found = found[self.slices]
        if found.dtype != self.dtype:
            raise DTypeError(f"{self._title} has dtype {found.dtype}; the program was traced for {self.dtype}")
        return found

    def _due(self) -> str:
        if self.slices is not None:
            return f"; the program was traced for {self.shape}"
        return f" on this process; its shard has {self.shape}"

    def _check_layout(self, array: ShardedArray) -> None:
        expected = self._expected
        if array.shape != expected.shape:
            raise ShapeError(f"{self._title} has shape {array.shape}; the program was traced for {expected.shape}")
        self._grid.check_same_program(array.grid, self._title)
        if array.sharding != expected.sharding:
            raise ShardingError(
                f"{self._title} has sharding {array.sharding}; the program takes {expected.sharding}: reshard it"
            )


def _as_array(title: str, array: Any) -> np.ndarray:
    """A numpy array.  Raises DTypeError."""
    if type(array) is np.ndarray:
        return array
    try:
        return np.asarray(array)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"{title} is {type(array).__name__}, which is no array: {error}") from None


class _Result:
    """The way of one result to the caller.

    ``is_plain``: whether its array is new and in no other hands, or no array at all.
    """

    __slots__ = ("_grid", "_is_array", "_is_number", "_layout", "is_plain", "shape")

    def __init__(self, result: Any, is_new: bool, grid: ProcessGrid):
        self._grid = grid
        self._is_array = isinstance(result, LocalValue)
        self._is_number = self._is_array and not result.shape and not result.is_partial
        self._layout = result.layout if self._is_array else None
        self.shape = self._layout.local_shape(grid.own_coords) if self._layout is not None else ()
        self.is_plain = is_new or self._is_number or not self._is_array

    def of(self, array: Any, is_sharded: bool) -> Any:
        """The result from what was computed."""
        if not self._is_array:
            return array
        if self._is_number:
            return np.asarray(array).reshape(())[()]
        if type(array) is not np.ndarray or not array.flags.c_contiguous:
            array = np.array(array, order="C").reshape(self.shape)
        if is_sharded:
            assert self._layout is not None  # of an array
            return ShardedArray(array, self._layout, self._grid)
        return array
