"""Fold arrays into one, in order, with the meaning of numpy's ufuncs; averages are divided at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import ReductionError
from spmd_grid.reduction_kind import ReductionKind

__all__ = ["Folding", "flat_target", "quiet_context"]


class Folding:
    """Folds ``size`` arrays of one shape and dtype by the reduction ``kind`` for the operation ``op``.

    ``nodes``: the members of each node, whose arrays are folded first, in order, and what comes out in the order of the
    nodes; none where all are folded one after the other.
    """

    def __init__(self, kind: ReductionKind, size: int, op: str, nodes: Sequence[Sequence[int]] = ()):
        self._kind, self._size, self._op, self._nodes = kind, size, op, nodes
        self._name = "sum" if kind.is_average else kind.name
        self._quiet = quiet_context()

    def addresses(self, addresses: np.ndarray, part: np.ndarray) -> None:
        """Fold contiguous arrays, given by their addresses, into ``part``, which has their size."""
        sums = []  # alive as long as they are read
        if self._nodes:
            given, addresses = addresses, addresses[[node[0] for node in self._nodes]]
            for number, node in enumerate(self._nodes):
                if len(node) > 1:
                    sums.append(np.empty(part.size, part.dtype))
                    self.partly(given[list(node)], sums[-1])
                    addresses[number] = kernels.address_of(sums[-1])
        self.partly(addresses, part)
        self.divide(part)

    def partly(self, addresses: np.ndarray, part: np.ndarray) -> None:
        """Fold some of the arrays, or of what has been folded, one after the other, as `addresses` does."""
        kernels.fold_addresses(self._name, addresses, part.size, part)

    def stack(self, stack: np.ndarray, flat: np.ndarray) -> None:
        """Fold the rows of a stack into ``flat``."""
        if self._nodes:
            self.addresses(np.array([kernels.address_of(row) for row in stack], np.int64), flat)
            return
        kernels.fold(self._name, stack, flat)
        self.divide(flat)

    def arrays(self, arrays: Sequence[np.ndarray] | np.ndarray, target: np.ndarray) -> None:
        """Fold arrays of any strides by numpy, which is the fastest for small ones."""
        given = arrays
        if self._nodes:
            arrays = [given[node[0]] if len(node) == 1 else np.empty_like(target) for node in self._nodes]
            for node, total in zip(self._nodes, arrays, strict=True):
                if len(node) > 1:
                    self._one_by_one([given[member] for member in node], total)
        self._one_by_one(arrays, target)
        self.divide(target)

    def _one_by_one(self, arrays: Sequence[np.ndarray] | np.ndarray, target: np.ndarray) -> None:
        combine = self._kind.combine
        if len(arrays) == 1:
            target[...] = arrays[0]
        else:
            self._quiet.run(combine, arrays[0], arrays[1], out=target)
        for array in arrays[2:]:
            self._quiet.run(combine, target, array, out=target)

    def by_callable(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Fold by the user's function, which must keep shape and dtype; raises ReductionError."""
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

    def divide(self, target: np.ndarray) -> None:
        """Divide a sum by the number of arrays, if the reduction is an average."""
        if self._kind.is_average:
            self._quiet.run(np.true_divide, target, self._size, out=target)


def quiet_context() -> Context:
    """A context in which numpy does not warn: a warning that is an error on one member would leave the others waiting.

    Running a ufunc in it costs a tenth of a microsecond, entering ``np.errstate`` nearly one.
    """
    with np.errstate(all="ignore"):
        return copy_context()


def flat_target(target: np.ndarray | None) -> tuple[Any, Callable[[], None] | None]:
    """A flat array to fill in place of ``target``, and a function that copies it there, or None if it is a view.

    Without a target (on members without a result) the array is None.
    """
    if target is None:
        return None, None
    if target.flags.c_contiguous:
        return target.reshape(-1), None
    flat = np.empty(target.size, target.dtype)

    def finish() -> None:
        target[...] = flat.reshape(target.shape)

    return flat, finish
