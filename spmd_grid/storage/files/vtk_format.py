"""Texts of ParaView's image files: one XML file for the whole, and one per block, with raw cells at its end.

https://docs.vtk.org/en/latest/design_documents/VTKFileFormats.html.  Extents count the points at the corners of cells,
with x first, along which neighbours in memory lie: the last dimension of our arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.grid.box import Box
from spmd_grid.typing import Shape

__all__ = ["Image", "piece_text", "vtk_dtype", "whole_text"]

_TYPES = {f"{kind}{8 << n}": f"{title}{8 << n}" for kind, title in (("int", "Int"), ("uint", "UInt")) for n in range(4)}
_TYPES |= {"float32": "Float32", "float64": "Float64", "bool": "UInt8"}
PIECE_END = b"\n  </AppendedData>\n</VTKFile>\n"


class Image(NamedTuple):
    """A grid of cells: its shape, the centre of its first cell and the distances of centres, by tensor dimension."""

    shape: Shape
    origin: Sequence[float]
    spacing: Sequence[float]

    def attributes(self) -> str:
        """Corner and size of the cells, x first."""
        corner = [start - step / 2 for start, step in zip(self.origin, self.spacing)]
        return f'Origin="{_xyz(corner, 0.0)}" Spacing="{_xyz(self.spacing, 1.0)}"'


def vtk_dtype(op: str, name: str, dtype: np.dtype) -> np.dtype:
    """The little-endian dtype of an array in the file; bools become bytes.  Local.  Raises DTypeError."""
    if dtype.name not in _TYPES:
        raise DTypeError(f"{op}: {name!r} has dtype {dtype}; VTK has {', '.join(_TYPES)}; convert it with astype")
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("<")


def piece_text(image: Image, box: Box, dtypes: Mapping[str, np.dtype]) -> bytes:
    """The file of one block, up to its cells: per array the number of its bytes, in 8 bytes, and its cells.  Local."""
    arrays, offset = [], 0
    for name, dtype in dtypes.items():
        arrays.append(f'        <DataArray {_array(name, dtype)} format="appended" offset="{offset}"/>')
        offset += 8 + box.size * dtype.itemsize
    extent = _extent(box)
    return (
        _lines(
            '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
            f'  <ImageData WholeExtent="{extent}" {image.attributes()}>',
            f'    <Piece Extent="{extent}">',
            "      <CellData>",
            *arrays,
            "      </CellData>",
            "    </Piece>",
            "  </ImageData>",
            '  <AppendedData encoding="raw">',
        )
        + b"   _"
    )


def whole_text(image: Image, pieces: Mapping[str, Box], dtypes: Mapping[str, np.dtype]) -> bytes:
    """The file that lists the blocks, by their paths.  Local."""
    return _lines(
        '<VTKFile type="PImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
        f'  <PImageData WholeExtent="{_extent(Box.from_shape(image.shape))}" GhostLevel="0" {image.attributes()}>',
        "    <PCellData>",
        *[f"      <PDataArray {_array(name, dtype)}/>" for name, dtype in dtypes.items()],
        "    </PCellData>",
        *[f'    <Piece Extent="{_extent(box)}" Source={quoteattr(path)}/>' for path, box in pieces.items()],
        "  </PImageData>",
        "</VTKFile>",
    )


def _array(name: str, dtype: np.dtype) -> str:
    return f'type="{_TYPES[dtype.name]}" Name={quoteattr(name)} NumberOfComponents="1"'


def _extent(box: Box) -> str:
    pairs = [*reversed(list(zip(box.starts, box.stops)))] + [(0, 0)] * (3 - box.ndim)
    return " ".join(f"{start} {stop}" for start, stop in pairs)


def _xyz(values: Sequence[float], rest: float) -> str:
    return " ".join(repr(float(value)) for value in [*reversed(values)] + [rest] * (3 - len(values)))


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in ('<?xml version="1.0"?>', *lines)).encode()
