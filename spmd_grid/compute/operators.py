"""The operators of arrays that compute: as numpy's, with a short way where all operands have one layout."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe, getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from spmd_grid.compute.alike import again, first_of_site, kept_result, on_equal_layouts
from spmd_grid.compute.splits import ArrayOnGrid
from spmd_grid.compute.strict import CALM, error_state, is_strict
from spmd_grid.compute.temporaries import REFERENCES, SHIFT, read_site, sites
from spmd_grid.compute.views import bring_up_to_date
from spmd_grid.ops.outcome import note_failure

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

    def operator(self: Any, other: Any) -> Any:
        grid = self._grid
        # Plain operands may have to be compared, or the outcome agreed on.
        if grid.process.recorder is not None or (error_state() is not CALM and is_strict()):
            return long_way(self, other)
        try:
            is_array = type(other) is type(self)
            mark = self._mark
            if mark or (is_array and other._mark):
                frame = _getframe(1)
                site = sites.get(id(frame.f_code) + (frame.f_lasti << SHIFT)) or read_site(frame)
                frame_id, is_right = id(frame), False
                is_left = mark == frame_id + site.left
                if is_array:
                    is_right = other._mark == frame_id + site.right
                if is_left or is_right:
                    if not is_left and self._view is not None:
                        bring_up_to_date(self)
                    if is_array and not is_right and other._view is not None:
                        bring_up_to_date(other)
                    layout, of_self, of_other, dtype, run = site.known
                    a, b = self._local, other._local if is_array else other
                    if (
                        self._layout is layout
                        and a.dtype is of_self
                        and (
                            (other._layout is layout and b.dtype is of_other and other._grid is grid)
                            if is_array
                            else type(b) is of_other
                        )
                    ):
                        if (
                            is_left
                            and of_self is dtype
                            and not self._borrows
                            and getrefcount(self) <= _OF_SELF + self.is_kept
                        ):
                            into = self
                        elif (
                            is_right
                            and of_other is dtype
                            and not other._borrows
                            and getrefcount(other) <= _OF_OTHER + other.is_kept
                        ):
                            into = other
                        else:
                            into = kept_result(self, a, site, dtype)
                        run(a, b, into._local)
                        into._view = None
                        into._mark = frame_id + site.mark
                        return into
                    found = first_of_site(ufunc, site, self, (self, other))
                    if found is None:
                        return long_way(self, other)
                    found._mark = frame_id + site.mark
                    return found
            found = again(ufunc, self, self, other)
            if found is None:
                found = on_equal_layouts(ufunc, self, (self, other))
            return long_way(self, other) if found is None else found
        except Exception as error:
            note_failure(grid, ufunc.__name__, error)
            raise

    operator.__name__ = name
    return operator


def _operator_of_number(name: str, ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """The operator of another object on the left, and an array on the right."""
    long_way = getattr(NDArrayOperatorsMixin, name)

    def operator(self: Any, other: Any) -> Any:
        if self._grid.process.recorder is not None or (error_state() is not CALM and is_strict()):
            return long_way(self, other)
        try:
            if self._mark:
                frame = _getframe(1)
                site = sites.get(id(frame.f_code) + (frame.f_lasti << SHIFT)) or read_site(frame)
                frame_id = id(frame)
                if self._mark == frame_id + site.right:
                    layout, of_other, of_self, dtype, run = site.known
                    b = self._local
                    if self._layout is layout and b.dtype is of_self and type(other) is of_other:
                        if of_self is dtype and not self._borrows and getrefcount(self) <= _OF_SELF + self.is_kept:
                            into = self
                        else:
                            into = kept_result(self, b, site, dtype)
                        run(other, b, into._local)
                        into._view = None
                        into._mark = frame_id + site.mark
                        return into
                    found = first_of_site(ufunc, site, self, (other, self))
                    if found is None:
                        return long_way(self, other)
                    found._mark = frame_id + site.mark
                    return found
            found = again(ufunc, self, other, self)
            if found is None:
                found = on_equal_layouts(ufunc, self, (other, self))
            return long_way(self, other) if found is None else found
        except Exception as error:
            note_failure(self._grid, ufunc.__name__, error)
            raise

    operator.__name__ = name
    return operator


def _operator_in_place(name: str, ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    long_way = getattr(NDArrayOperatorsMixin, name)

    def operator(self: Any, other: Any) -> Any:
        try:
            if self._grid.process.recorder is None and (error_state() is CALM or not is_strict()):
                found = on_equal_layouts(ufunc, self, (self, other), self)
                if found is not None:
                    return found
            return long_way(self, other)
        except Exception as error:
            note_failure(self._grid, ufunc.__name__, error)
            raise

    operator.__name__ = name
    return operator


for _name, _ufunc in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide}.items():
    setattr(Operators, f"__{_name}__", _operator(f"__{_name}__", _ufunc))
    setattr(Operators, f"__r{_name}__", _operator_of_number(f"__r{_name}__", _ufunc))
    setattr(Operators, f"__i{_name}__", _operator_in_place(f"__i{_name}__", _ufunc))
