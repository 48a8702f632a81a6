"""The metadata of zarr v3 arrays and groups, as its specification has them.

https://zarr-specs.readthedocs.io/en/latest/v3/core/v3.0.html: a folder per array with ``zarr.json`` and a file per
chunk, ``c/0/2``; chunks at the upper edges are as large as all others.  Chunks are raw cells, little-endian and in C
order, with a CRC-32C after them, which readers check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, StorageError

__all__ = ["METADATA", "array_metadata", "chunk_key", "group_metadata", "metadata_bytes", "zarr_dtype"]

METADATA = "zarr.json"
_NAMES = {np.dtype(name).name: name for name in ("bool", "float16", "float32", "float64", "complex64", "complex128")}
_NAMES |= {name: name for name in (f"{kind}{8 << n}" for kind in ("int", "uint") for n in range(4))}


def zarr_dtype(op: str, name: str, dtype: np.dtype) -> np.dtype:
    """The little-endian dtype of a zarr array.  Local.  Raises DTypeError for those that zarr v3 does not have."""
    if dtype.name not in _NAMES or dtype.kind not in "biufc":
        raise DTypeError(f"{op}: {name} has dtype {dtype}; zarr v3 has {', '.join(_NAMES)}; convert it with astype")
    return dtype.newbyteorder("<")


def array_metadata(
    shape: Sequence[int],
    dtype: np.dtype,
    chunks: Sequence[int],
    dimension_names: Sequence[str] | None,
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """The metadata of an array.  Local."""
    fill: Any = False if dtype.kind == "b" else [0.0, 0.0] if dtype.kind == "c" else 0.0 if dtype.kind == "f" else 0
    order = {"endian": "little"} if dtype.itemsize > 1 else {}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": [{"name": "bytes", "configuration": order}, {"name": "crc32c"}],
        "attributes": dict(attributes),
        **({} if dimension_names is None else {"dimension_names": list(dimension_names)}),
    }


def group_metadata(arrays: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a group and of all its ``arrays``, which programs such as xarray then read at once.  Local."""
    consolidated = {"kind": "inline", "must_understand": False, "metadata": dict(arrays)}
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": dict(attributes),
        "consolidated_metadata": consolidated,
    }


def metadata_bytes(op: str, metadata: Mapping[str, Any]) -> bytes:
    """The bytes of a metadata file.  Local.  Raises StorageError for attributes that JSON does not have."""
    try:
        return json.dumps(metadata, indent=2, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise StorageError(f"{op}: the attributes cannot be written as JSON: {error}") from None


def chunk_key(chunk: Sequence[int]) -> str:
    """The path of a chunk below its array.  Local.

    >>> chunk_key((0, 2)), chunk_key(())
    ('c/0/2', 'c')
    """
    return "/".join(["c", *map(str, chunk)])
