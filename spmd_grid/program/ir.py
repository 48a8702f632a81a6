"""Programs as data: values, the operations that compute them, and the annotations of the user.

A program is in static single assignment form: every value is computed once, by one operation, or is an argument.  An
operation says by its `Interface` which dimensions of operands and results belong together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, ShapeError, ShardingError
from spmd_grid.functions.interface import Interface
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.cut_lists import CutLists, as_cut_lists
from spmd_grid.typing import Shape

__all__ = ["Annotation", "ArraySpec", "CallSite", "Constant", "Lowering", "Operand", "Operation", "Program", "Value"]

MUTATION = "mutate"  # the origin of annotations that are mutations


class CallSite(NamedTuple):
    """The line of the user's function that an operation or an annotation comes from."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """The line with the name of the file alone."""
        return f"{self.file.replace(os.sep, '/').rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class ArraySpec:
    """The shape and the dtype of an argument of a program; ``name`` is that of the function's parameter by default.

    Plans only.  Raises ShapeError and DTypeError.
    """

    shape: Shape
    dtype: np.dtype
    name: str | None = None

    def __init__(self, shape: Sequence[int] | int, dtype: DTypeLike = "float64", name: str | None = None) -> None:
        found = as_ints((shape,) if isinstance(shape, int | np.integer) else shape)
        if found is None or min(found, default=0) < 0:
            raise ShapeError(f"ArraySpec: shape is {shape!r}; it must be whole numbers, at least 0")
        try:
            kind = np.dtype(dtype)
        except TypeError:
            raise DTypeError(f"ArraySpec: dtype is {dtype!r}; it must be a numpy dtype") from None
        if kind.hasobject:
            raise DTypeError(f"ArraySpec: dtype is {kind}; it must have a fixed size")
        object.__setattr__(self, "shape", found)
        object.__setattr__(self, "dtype", kind)
        object.__setattr__(self, "name", name)


@dataclass(frozen=True, eq=False)
class Value:
    """One array of a program, of a global shape.  ``site``: the line that computes it; None for arguments."""

    name: str
    shape: Shape
    dtype: np.dtype
    site: CallSite | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True, eq=False)
class Constant:
    """A number or a plain array that the function used; it is the same on all devices."""

    value: Any

    @property
    def shape(self) -> Shape:
        """Its shape: () for a number."""
        return getattr(self.value, "shape", ())

    def __repr__(self) -> str:
        return repr(self.value) if not self.shape else f"constant {self.value.dtype}{list(self.shape)}"


Operand = Value | Constant


class Lowering(Protocol):
    """The way of an operation, such as a slice, that is more than one computation on blocks.  A hashable value."""

    def lower(self, build: Any, operation: Operation, operands: Sequence[Any], splits: Any) -> Any:
        """The result as devices hold it, by computations and moves that ``build`` records.  Plans only.

        ``build``: see ``partition/builder.py``.  ``operands``: as devices hold them.  ``splits``: the axes that cut
        the iterators of the operation's interface.
        """


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of an array function.

    ``local`` computes blocks of the results from blocks of the operands, as in `Application`; what devices find along
    cut iterators that are reductions is combined by ``kind``.  ``key``: equal for calls of one function with equal
    plain arguments, None where this is not known.  ``function``: numpy's, where the operation is a plain call of it.
    ``lowering``: for operations whose blocks are not computed from the operands' blocks by one call of ``local``.
    """

    name: str
    operands: tuple[Operand, ...]
    results: tuple[Value, ...]
    interface: Interface
    local: Callable[..., Any] | None
    site: CallSite | None
    kind: str = ""
    located: bool = False
    key: Any = None
    function: Callable[..., Any] | None = None
    lowering: Lowering | None = None

    @property
    def title(self) -> str:
        """Its name, and the line that it comes from."""
        return f"{self.name} at {self.site}" if self.site else self.name

    @property
    def short_title(self) -> str:
        """The title with the name of the file alone, as in reports and traces."""
        return f"{self.name} at {self.site.short}" if self.site else self.name

    @property
    def values(self) -> list[Value]:
        """The operands that are values."""
        return [each for each in self.operands if isinstance(each, Value)]

    def __repr__(self) -> str:
        results, operands = (", ".join(map(repr, each)) for each in (self.results, self.operands))
        return f"{results} = {self.name}({operands})"


@dataclass(frozen=True, eq=False)
class Annotation:
    """A user's word on the sharding of a value.

    ``required``: it holds, or the program is refused; else it is a hint.  ``priority``: those of a lower number are
    propagated first.  ``replicated_axes``: grid axes that must not cut the value, also where a dimension is open.
    """

    value: Value
    sharding: Sharding
    required: bool = True
    priority: int = 0
    replicated_axes: tuple[int, ...] = ()
    site: CallSite | None = None
    origin: str = "constrain"

    def __str__(self) -> str:
        at = f" at {self.site}" if self.site else ""
        return f"{self.origin}{at}: %{self.value.name} as {self.sharding}"


@dataclass(frozen=True, eq=False)
class Program:
    """A traced function: ``arguments`` and ``results`` are values, ``operations`` in the order of the calls.

    ``groups``: values that must have one sharding, by the number of the group.  ``returns_one``: whether the function
    returned one array, and not a tuple of them.  ``mutations``: for operations whose cut is fixed, the grid axes that
    cut each iterator.
    """

    name: str
    arguments: tuple[Value, ...]
    operations: tuple[Operation, ...]
    results: tuple[Operand, ...]
    annotations: tuple[Annotation, ...] = ()
    groups: dict[Any, tuple[Value, ...]] = field(default_factory=dict)
    returns_one: bool = True
    mutations: dict[Operation, CutLists] = field(default_factory=dict)

    @property
    def values(self) -> list[Value]:
        """All values, arguments first."""
        return [*self.arguments, *(value for operation in self.operations for value in operation.results)]

    def mutate(self, which: Value | Operation | str | int, sharding: Any) -> Program:
        """The program with another sharding of a value, or another cut of an operation; this one stays as it is.

        Plans only.  ``sharding``: a `Sharding` is required of the value (of the first result, where ``which`` is an
        operation).  A list of grid axes per iterator, as the RFC's option on operations, fixes the cut of the
        operation, or of the one that computes the value: those of a product ``(m, k) @ (k, n)`` are m, n and k, so
        ``[[], [], [0]]`` sums over axis 0.  A later mutation replaces an earlier one.

        Raises ShardingError, and KeyError where there is no such value.

        >>> import numpy as np, spmd_grid as sg
        >>> grid = sg.Grid((2,))
        >>> program = sg.trace(lambda x, w: x @ w, sg.ArraySpec((4, 8)), sg.ArraySpec((8, 6)))
        >>> part = sg.partition(program.mutate(program.operations[0], [[], [], [0]]), grid)
        >>> part.sharding_of("x"), part.sharding_of("w")
        (Sharding(Grid((2,)), [[],[0]]), Sharding(Grid((2,)), [[0]]))
        """
        if isinstance(which, Operation) and which not in self.operations:
            raise ShardingError(f"mutate: {which!r} is not an operation of {self.name}")
        value = which.results[0] if isinstance(which, Operation) else self.value(which)
        if isinstance(sharding, Sharding):
            kept = [each for each in self.annotations if each.value is not value or each.origin != MUTATION]
            return replace(self, annotations=(*kept, Annotation(value, sharding, origin=MUTATION)))
        operation = next((each for each in self.operations if value in each.results), None)
        if operation is None:
            raise ShardingError(
                f"mutate: %{value.name} is an argument; sharding is {sharding!r}, it must be a Sharding"
            )
        cuts = as_cut_lists(operation.interface, sharding, operation.title)
        return replace(self, mutations={**self.mutations, operation: cuts})

    def without_mutation(self, operation: Operation) -> Program:
        """The program with the cut of an operation left to propagation again.  Plans only."""
        return replace(self, mutations={each: cuts for each, cuts in self.mutations.items() if each is not operation})

    def value(self, which: Value | str | int) -> Value:
        """The value itself, by its name, or the argument of a number.  Raises KeyError."""
        if isinstance(which, Value):
            return which
        if isinstance(which, int):
            return self.arguments[which]
        name = which.removeprefix("%")
        for value in self.values:
            if value.name == name:
                return value
        known = ", ".join(value.name for value in self.values)
        raise KeyError(f"the program has no value {which!r}; its values are {known}")
