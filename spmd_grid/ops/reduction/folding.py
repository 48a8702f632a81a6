"""Arrays combined one after the other, as numpy's ufuncs mean it, into one; averages are divided at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, copy_context

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import ReductionError
from spmd_grid.reduction_kind import ReductionKind

__all__ = ["Folding"]


class Folding:
    """Of ``size`` arrays of one shape and dtype, in order, as ``kind`` says, for the operation ``op``.  Local."""

    def __init__(self, kind: ReductionKind, size: int, op: str):
        self._kind, self._size, self._op = kind, size, op
        self._name = "sum" if kind.is_average else kind.name
        self._quiet = _quiet_context()

    def addresses(self, addresses: np.ndarray, part: np.ndarray) -> None:
        """Contiguous arrays of the size of ``part``, which they are folded into, by where they begin."""
        kernels.fold_addresses(self._name, addresses, part.size, part)
        self._divide(part)

    def stack(self, stack: np.ndarray, flat: np.ndarray) -> None:
        """The rows of a stack into ``flat``."""
        kernels.fold(self._name, stack, flat)
        self._divide(flat)

    def arrays(self, arrays: Sequence[np.ndarray], target: np.ndarray) -> None:
        """Arrays of any strides, by numpy: the fastest for small ones."""
        combine = self._kind.combine
        if len(arrays) == 1:
            target[...] = arrays[0]
        else:
            self._quiet.run(combine, arrays[0], arrays[1], out=target)
        for array in arrays[2:]:
            self._quiet.run(combine, target, array, out=target)
        self._divide(target)

    def by_callable(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The result of a function of the user's, which must keep shape and dtype; raises ReductionError."""
        shape, dtype = arrays[0].shape, arrays[0].dtype
        result = arrays[0].copy()
        for array in arrays[1:]:
            result = np.asarray(self._kind.combine(result, array.copy()))
            if result.shape != shape or not np.can_cast(result.dtype, dtype, "same_kind"):
                raise ReductionError(
                    f"{self._op}: the callable {self._kind.shown} turned two arrays of shape {shape} and dtype {dtype}"
                    f" into shape {result.shape} and dtype {result.dtype}; it must keep both"
                )
        return result.astype(dtype, copy=False)

    def _divide(self, target: np.ndarray) -> None:
        if self._kind.is_average:
            self._quiet.run(np.true_divide, target, self._size, out=target)


def _quiet_context() -> Context:
    """A context in which numpy does not warn: a warning on one member, made an error, would strand the others.

    Running a ufunc in it costs a tenth of a microsecond, entering ``np.errstate`` nearly one.
    """
    with np.errstate(all="ignore"):
        return copy_context()
