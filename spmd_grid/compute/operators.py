"""The operators of arrays that compute: as numpy's, with a short way where all operands have one layout."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe, getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from spmd_grid.compute.alike import again, on_equal_layouts
from spmd_grid.compute.splits import ArrayOnGrid
from spmd_grid.compute.temporaries import REFERENCES, site_of

__all__ = ["Operators"]

_OF_SELF, _OF_OTHER = REFERENCES

if TYPE_CHECKING:

    class _Base(NDArrayOperatorsMixin, ArrayOnGrid):
        """The operators of an array that has all that functions need."""

else:
    _Base = NDArrayOperatorsMixin


class Operators(_Base):
    """numpy's operators, of which the arithmetic ones need not go through numpy's protocol, and reuse temporaries."""

    __slots__ = ()


def _operator(name: str, ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    long_way = getattr(NDArrayOperatorsMixin, name)
    is_reflected = name.startswith("__r")

    def operator(self: Any, other: Any) -> Any:
        if self._grid.process.recorder is not None:  # plain operands may have to be compared
            return long_way(self, other)
        is_array = type(other) is type(self)
        mark, into = 0, None
        if self._mark or (is_array and other._mark):
            site = site_of(_getframe(1))
            if site is not None:
                mine, its, result = (site[1], site[0], site[2]) if is_reflected else site
                if self._mark == mine:
                    mark = result
                    if getrefcount(self) <= _OF_SELF and self.is_alone:
                        into = self
                if is_array and other._mark == its:
                    mark = result
                    if into is None and getrefcount(other) <= _OF_OTHER and other.is_alone:
                        into = other
        x, y = (other, self) if is_reflected else (self, other)
        found = again(ufunc, self, x, y, into)
        if found is None:
            found = on_equal_layouts(ufunc, self, (x, y))
            if found is None:
                return long_way(self, other)
        found._mark = mark
        return found

    operator.__name__ = name
    return operator


def _operator_in_place(name: str, ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    long_way = getattr(NDArrayOperatorsMixin, name)

    def operator(self: Any, other: Any) -> Any:
        if self._grid.process.recorder is None:
            found = on_equal_layouts(ufunc, self, (self, other), self)
            if found is not None:
                return found
        return long_way(self, other)

    operator.__name__ = name
    return operator


for _name, _ufunc in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide}.items():
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(Operators, _method, _operator(_method, _ufunc))
    setattr(Operators, f"__i{_name}__", _operator_in_place(f"__i{_name}__", _ufunc))
