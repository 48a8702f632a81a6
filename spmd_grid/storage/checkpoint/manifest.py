"""The manifest of a checkpoint: what it holds, the checksum of every block, and its own digest.

A folder with a manifest whose digest is right is a whole checkpoint, as far as no file was damaged later: the manifest
is written last.  Manifests are the same bytes for every number of processes, grid and sharding.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from spmd_grid.errors import DamagedError
from spmd_grid.storage.checkpoint.dtypes import dtype_from_json, dtype_to_json
from spmd_grid.storage.checkpoint.tree import array_names, file_name, from_tree
from spmd_grid.storage.checksums import CHECKSUM, checksum, checksum_text
from spmd_grid.storage.npy_format import header_of, stored_dtype
from spmd_grid.storage.ranges.blocks import MOST_BLOCK_BYTES, Blocks
from spmd_grid.typing import Shape

__all__ = ["MANIFEST", "MOST_MANIFEST_BYTES", "VERSION", "Manifest", "StoredArray", "parse_manifest"]

MANIFEST = "manifest.json"
VERSION = 1
_FORMAT = "spmd_grid checkpoint"
MOST_MANIFEST_BYTES = 1 << 30  # of a manifest that is read
_MOST_BYTES = 2**63
_MOST_DIMS = 64
_HEX = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class StoredArray:
    """An array of a checkpoint: its file, its blocks and, once they are stored, their checksums."""

    name: str
    shape: Shape
    dtype: np.dtype
    block_bytes: int
    checksums: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """The name of the file."""
        return file_name(self.name)

    @cached_property
    def header(self) -> bytes:
        """The bytes of the file before those of the array."""
        return header_of(stored_dtype("checkpoint", self.dtype), self.shape)

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks that have a checksum each."""
        return Blocks(self.shape, self.dtype.itemsize, self.block_bytes)

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return len(self.header) + prod(self.shape) * self.dtype.itemsize

    def to_json(self) -> dict[str, Any]:
        """The array's entry in the manifest."""
        return {
            "file": self.file,
            "bytes": self.n_bytes,
            "shape": list(self.shape),
            "dtype": dtype_to_json("checkpoint", self.dtype),
            "header_checksum": checksum_text(checksum(self.header)),
            "block_bytes": self.block_bytes,
            "block_checksums": [checksum_text(each) for each in self.checksums],
        }


@dataclass(frozen=True)
class Manifest:
    """All that a checkpoint says of itself.  ``tree``: the state; ``arrays``: those in it, by name."""

    tree: Any
    arrays: dict[str, StoredArray]
    attributes: dict[str, Any]
    step: int | None = None

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        body = {
            "format": _FORMAT,
            "version": VERSION,
            "checksum": CHECKSUM,
            "step": self.step,
            "attributes": self.attributes,
            "state": self.tree,
            "arrays": {name: each.to_json() for name, each in self.arrays.items()},
        }
        return (json.dumps({**body, "digest": _digest(body)}, indent=1) + "\n").encode()


def parse_manifest(op: str, path: Path, data: bytes) -> Manifest:
    """The manifest in these bytes, of which nothing is trusted.  Local.  Raises DamagedError."""
    try:
        body = json.loads(data.decode())
        if not isinstance(body, dict) or body.get("format") != _FORMAT:
            raise ValueError(f"its format is not {_FORMAT!r}")
        version = body.get("version")
        if version != VERSION:
            newer = "it was written by a newer version of spmd_grid" if isinstance(version, int) else "it is none"
            raise ValueError(f"its version is {version!r}, and this program reads version {VERSION}: {newer}")
        digest = body.pop("digest", None)
        if digest != _digest(body):
            raise ValueError("its digest is wrong: it is incomplete or was altered")
        if body["checksum"] != CHECKSUM:
            raise ValueError(f"its checksums are {body['checksum']!r}; this program knows {CHECKSUM}")
        if not isinstance(body["attributes"], dict):
            raise ValueError("its attributes are not a dict")
        arrays = {name: _stored_array(op, name, entry) for name, entry in body["arrays"].items()}
        step, state = body["step"], from_tree(op, body["state"], lambda name, is_sharded: None, lambda name: True)
        if not isinstance(state, dict):
            raise ValueError(f"its state is a {type(state).__name__}; it must be a dict")
        if step is not None and type(step) is not int:
            raise ValueError(f"its step is {str(step)[:80]!r}; it must be a whole number, or null")
        if sorted(array_names(body["state"])) != sorted(arrays):
            raise ValueError("the arrays of its state are not those that it lists")
        return Manifest(body["state"], arrays, body["attributes"], step)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        text = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise DamagedError(f"{op}: {path} is not a valid manifest: {text}") from None


def _stored_array(op: str, name: str, entry: dict[str, Any]) -> StoredArray:
    """The array of an entry.  Its file has the one name that belongs to the array's, so no path leaves the folder."""
    shape, block_bytes = entry["shape"], entry["block_bytes"]
    if not isinstance(entry, dict):
        raise ValueError(f"the entry of array {name!r} is {str(entry)[:80]!r}; it must be a dict")
    if entry["file"] != file_name(name):
        raise ValueError(f"the file of array {name!r} is {entry['file']!r}; it must be {file_name(name)!r}")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMS or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"the shape of array {name!r} is {str(shape)[:200]}; it must list extents, integers from 0")
    dtype = dtype_from_json(op, entry["dtype"])
    if prod([max(n, 1) for n in shape]) * max(dtype.itemsize, 1) >= _MOST_BYTES:
        raise ValueError(f"array {name!r} of shape {shape} and dtype {dtype} has 2**63 bytes or more")
    if type(block_bytes) is not int or not 1 <= block_bytes <= MOST_BLOCK_BYTES:
        raise ValueError(
            f"the blocks of array {name!r} have {str(block_bytes)[:80]} bytes; it must be 1 to {MOST_BLOCK_BYTES}"
        )
    texts = entry["block_checksums"]
    if not isinstance(texts, list) or not all(isinstance(text, str) and _HEX.fullmatch(text) for text in texts):
        raise ValueError(f"the checksums of array {name!r} are not lists of 16 hexadecimal digits")
    found = StoredArray(name, tuple(shape), dtype, block_bytes, tuple([int(text, 16) for text in texts]))
    if len(texts) != len(found.blocks):
        raise ValueError(f"array {name!r} has {len(texts)} checksums; its shape makes it {len(found.blocks)}")
    if entry["bytes"] != found.n_bytes or entry["header_checksum"] != checksum_text(checksum(found.header)):
        raise ValueError(f"the file of array {name!r} has {entry['bytes']!r} bytes, or a header that does not fit it")
    return found


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()
