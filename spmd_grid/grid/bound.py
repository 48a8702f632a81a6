"""Objects that belong to the running processes."""

from __future__ import annotations

from typing import ClassVar, NoReturn, Self

__all__ = ["BoundToProcesses"]


class BoundToProcesses:
    """An object of the running processes: its copies are the object itself, and it cannot be pickled.

    So a copy of a container that holds it has it too, as copies hold modules and connections.  ``instead``: advice for
    those who pickle it.
    """

    __slots__ = ()
    instead: ClassVar[str]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} is bound to running processes and cannot be pickled; {self.instead}")
