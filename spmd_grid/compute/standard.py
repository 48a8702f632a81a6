"""Methods and attributes of the array API standard that numpy's protocols do not ask for, as a base class."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from spmd_grid.compute.indexing import selection
from spmd_grid.errors import ArgumentError, DTypeError, ImplicitGatherError, ShapeError
from spmd_grid.parts import part

if TYPE_CHECKING:
    from spmd_grid.compute.splits import ArrayOnGrid as _Base
else:
    _Base = object

__all__ = ["StandardArray"]

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class StandardArray(_Base):
    """The part of an array by which programs for the array API standard know it."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in _VERSIONS:
            raise ArgumentError(f"api_version is {api_version!r}; it must be one of {_VERSIONS}, or None")
        return part("array_api")

    @property
    def device(self) -> str:
        """The device in the standard's sense: "cpu" for all arrays."""
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array itself, which is on the only device there is.  Local.  Raises ArgumentError for others."""
        if device != self.device or stream is not None:
            raise ArgumentError(f"to_device: device is {device!r}, stream {stream!r}; they must be 'cpu' and None")
        return self

    @property
    def mT(self) -> Any:
        """The array with its last two dimensions exchanged.  Collective."""
        if self.ndim < 2:
            raise ShapeError(f"mT: the array has shape {self.shape}; it must have two dimensions")
        return np.swapaxes(self, -2, -1)  # type: ignore[call-overload]  # by numpy's protocol

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> NoReturn:
        raise ImplicitGatherError(
            "DLPack describes an array that one process holds: use .local or .core for this process's cells, or"
            " .to_global() to gather all of it (collective)"
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU

    # -- numbers: of arrays without dimensions, which every process holds --------------------------------------------

    def __bool__(self) -> bool:
        if self.ndim:
            raise ImplicitGatherError(
                "the truth value of a ShardedArray is that of all its cells: use np.all or np.any, which give a bool"
            )
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        number = self._number()
        if number.dtype.kind not in "iu":
            raise DTypeError(f"an array of dtype {number.dtype} is no index; it must hold a whole number")
        return int(number)

    def _number(self) -> Any:
        if self.ndim:
            raise ImplicitGatherError(
                f"a ShardedArray of shape {self.shape} is not one number: select a cell, as a[0], or use .to_global()"
                " to gather all of it (collective)"
            )
        return selection.number_of(self)
