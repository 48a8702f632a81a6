"""numba types of objects that compiled code takes as arguments: there, an object is the address of its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from spmd_grid.kernels.machine_code import digest_of
from spmd_grid.kernels.protocol import slots

__all__ = ["AddressType", "known_to_numba", "state_of"]


class AddressType(types.Type):
    """The numba type of objects that are one address; a kind of objects has a class of its own.

    ``attribute``: that of the objects with the address.  ``methods``: the file with the methods of compiled code.
    """

    def __init__(self, title: str, attribute: str, methods: str) -> None:
        # numba looks functions up by this name: cached functions of programs contain our slot numbers.
        digest = digest_of(Path(slots.__file__), Path(__file__), Path(methods))
        super().__init__(name=f"spmd_grid.{title}[{digest}]")
        self.attribute = attribute


class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.IntType(64))


@unbox(AddressType)
def _unbox(typ: Any, value: Any, c: Any) -> NativeValue:
    state = c.pyapi.object_getattr_string(value, typ.attribute)
    address = c.pyapi.long_as_longlong(state)
    c.pyapi.decref(state)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def known_to_numba(kind: type[AddressType]) -> type[AddressType]:
    """Registers a class of types; a decorator.  Local."""
    register_model(kind)(_Model)
    return kind


@intrinsic
def state_of(typingctx: Any, value: Any) -> tuple:
    """The address of an object's state, as its attribute said when compiled code got it."""
    return types.int64(value), lambda context, builder, signature, args: args[0]
