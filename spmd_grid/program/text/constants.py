"""Constants in the dialect's text, so exact that they are read again as the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.program.text.types import dtype_text, tensor_type

__all__ = ["constant_text", "number_text", "value_text"]

_MOST_NUMBERS = 16  # longer constants are written as their bytes


def constant_text(value: Any) -> tuple[str, str]:
    """A constant as an operation, or as an attribute where there is no such operation, and its type.

    >>> constant_text(np.float32(0.5)), constant_text(np.array([1, 2], np.int8)), constant_text(True)
    (('arith.constant 5.000000e-01 : f32', 'f32'), ('arith.constant dense<[1, 2]> : tensor<2xi8>', 'tensor<2xi8>'), \
('arith.constant true', 'i1'))
    """
    array = np.asarray(value)
    kind = tensor_type(array.shape, array.dtype) if array.ndim else dtype_text(array.dtype)
    if value_text(array):
        return value_text(array), kind
    if array.dtype.kind == "c" and not array.ndim:
        of_parts = dtype_text(array.real.dtype)
        parts = [f"{number_text(part[()])} : {of_parts}" for part in (array.real, array.imag)]
        return f"complex.constant [{', '.join(parts)}] : {kind}", kind
    shown = _dense_text(array) if array.ndim else number_text(array[()])
    return f"arith.constant {shown}" + (f" : {kind}" if kind != "i1" else ""), kind


def value_text(value: Any) -> str:
    """A constant that `arith` has none of, as an attribute: unsigned numbers, or bytes of what is opaque; else "".

    >>> value_text(np.uint8(5)), value_text(np.timedelta64(1, "s")), value_text(np.ones(2, np.uint8))
    ('5 : ui8', '"0x0100000000000000"', 'dense<1> : tensor<2xui8>')
    """
    array = np.asarray(value)
    kind = dtype_text(array.dtype)
    if kind.startswith("!"):
        return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'
    if not kind.startswith("ui"):
        return ""
    if array.ndim:
        return f"{_dense_text(array)} : {tensor_type(array.shape, array.dtype)}"
    return f"{number_text(array[()])} : {kind}"


def number_text(x: Any) -> str:
    """A number with the digits that tell it from others of its type; bits where it has no digits.

    >>> number_text(np.float64(0.1)), number_text(np.float64(1 / 3)), number_text(np.float32("-inf")), number_text(True)
    ('1.000000e-01', '3.33333333333333315e-01', '0xFF800000', 'true')
    """
    if isinstance(x, bool | np.bool_):
        return str(bool(x)).lower()
    if not isinstance(x, float | np.floating):
        return str(x)
    exact = x if isinstance(x, np.floating) else np.float64(x)
    if not np.isfinite(exact):
        return f"0x{int.from_bytes(exact.tobytes(), 'little'):0{2 * exact.itemsize}X}"
    kind = type(exact)
    texts = [f"{exact:.{digits}e}" for digits in (6, 9, 17)]
    return next((text for text in texts if kind(text) == exact), texts[-1])


def _dense_text(array: np.ndarray) -> str:
    flat = array.reshape(-1)
    if not array.size:
        return "dense<>"
    if (flat[0] == flat).all():
        return f"dense<{_cell(flat[0])}>"
    if array.size <= _MOST_NUMBERS or array.dtype.kind in "bc":
        return f"dense<{_list_text(array)}>"
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return f'dense<"0x{little.tobytes().hex().upper()}">'


def _cell(x: Any) -> str:
    if isinstance(x, np.complexfloating):
        return f"({number_text(x.real)}, {number_text(x.imag)})"
    return number_text(x)


def _list_text(array: np.ndarray) -> str:
    cells = [_list_text(row) for row in array] if array.ndim > 1 else [_cell(x) for x in array]
    return f"[{', '.join(cells)}]"
