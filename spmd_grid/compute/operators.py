"""The operators of arrays that compute: as numpy's, with a short way where all operands have one layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from spmd_grid.compute.alike import on_equal_layouts
from spmd_grid.compute.splits import ArrayOnGrid

__all__ = ["Operators"]

if TYPE_CHECKING:

    class _Base(NDArrayOperatorsMixin, ArrayOnGrid):
        """The operators of an array that has all that functions need."""

else:
    _Base = NDArrayOperatorsMixin


class Operators(_Base):
    """numpy's operators, of which the arithmetic ones need not go through numpy's protocol."""

    __slots__ = ()


def _operator(name: str, ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    long_way = getattr(NDArrayOperatorsMixin, name)
    is_in_place, is_reflected = name.startswith("__i"), name.startswith("__r")

    def operator(self: Any, other: Any) -> Any:
        if self._grid.process.recorder is None:  # else plain operands may have to be compared
            inputs = (other, self) if is_reflected else (self, other)
            found = on_equal_layouts(ufunc, self, inputs, self if is_in_place else None)
            if found is not None:
                return found
        return long_way(self, other)

    operator.__name__ = name
    return operator


for _name, _ufunc in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide}.items():
    for _method in (f"__{_name}__", f"__r{_name}__", f"__i{_name}__"):
        setattr(Operators, _method, _operator(_method, _ufunc))
