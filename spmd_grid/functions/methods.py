"""numpy's methods and attributes that are its functions, as a base class of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.typing import Shape

__all__ = ["ArrayMethods"]

if TYPE_CHECKING:

    class _Base:
        """The attributes that the methods need."""

        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> np.dtype: ...
        @property
        def ndim(self) -> int: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any: ...

else:
    _Base = object


class ArrayMethods(_Base):
    """The part of an array that hands its methods to numpy's functions, and so to the protocols."""

    __slots__ = ()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __pow__(self, other: Any) -> Any:
        return np.square(self) if type(other) is int and other == 2 else np.power(self, other)  # as numpy's arrays

    def sort(self, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> None:
        """Sort the cells in place, as np.sort.  Collective."""
        self[...] = np.sort(self, axis, kind, stable=stable)

    def fill(self, value: Any) -> None:
        """Give all cells the value.  Collective."""
        self[...] = value

    @property
    def T(self) -> Any:
        """The array with its dimensions reversed.  Collective."""
        return np.transpose(self)

    @property
    def real(self) -> Any:
        """Real parts.  Collective."""
        return np.real(self) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """Imaginary parts.  Collective."""
        return np.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    @property
    def size(self) -> int:
        """Number of cells of the global array."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes per cell."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the global array, every cell counted once."""
        return self.size * self.itemsize

    def transpose(self, *axes: Any) -> Any:
        """As np.transpose.  Collective."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)) else axes or None
        return np.transpose(self, order)

    def copy(self) -> Any:
        """A copy without halos.  Collective."""
        return np.copy(self)

    def dot(self, b: Any) -> Any:
        """As np.dot.  Collective."""
        return np.dot(self, b)

    def conj(self) -> Any:
        """Complex conjugates.  Collective."""
        return np.conjugate(self)

    def round(self, decimals: int = 0) -> Any:
        """As np.round.  Collective."""
        return np.round(self, decimals)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """As np.clip.  Collective."""
        return np.clip(self, min, max)

    def squeeze(self, axis: Any = None) -> Any:
        """As np.squeeze.  Collective."""
        return np.squeeze(self, axis)

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        """As np.reshape in row-major order.  Collective."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)

    def ravel(self) -> Any:
        """As np.ravel in row-major order.  Collective."""
        return np.ravel(self)

    def flatten(self) -> Any:
        """As np.ravel, but a new array.  Collective."""
        return np.copy(np.ravel(self))

    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """As np.cumsum.  Collective."""
        return np.cumsum(self, axis, dtype)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Any:
        """As np.cumprod.  Collective."""
        return np.cumprod(self, axis, dtype)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """As np.trace.  Collective."""
        return np.trace(self, offset, axis1, axis2)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """As np.swapaxes.  Collective."""
        return np.swapaxes(self, axis1, axis2)
