"""The codecs that a zarr array may name: those that turn bytes into numbers, and none that makes Python objects.

zarr looks up a codec by the name that the file gives, and one of them unpickles, which runs any code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spmd_grid.errors import StorageError
from spmd_grid.file_text import text_of

__all__ = ["check_codecs"]

_FILES = ("zarr.json", ".zarray")  # of version 3, and of version 2
_MOST_BYTES = 64 << 20
_INNER = ("codecs", "index_codecs")  # of shards
_KNOWN = frozenset(
    "bytes endian transpose sharding_indexed crc32c crc32 adler32 fletcher32 jenkins_lookup3 blosc gzip zlib zstd bz2"
    " lzma lz4 delta fixedscaleoffset scale_offset cast_value quantize packbits bitround astype shuffle".split()
)


def check_codecs(op: str, folder: Path) -> None:
    """Refuse an array in whose metadata a codec is named that is not known to be harmless.  Local.

    Raises StorageError, also for metadata that cannot be read.
    """
    for name in _FILES:
        path = folder / name
        if not path.exists():
            continue
        try:
            found = _codecs(json.loads(text_of(path, _MOST_BYTES)))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise StorageError(f"{op}: {str(path)!r} is no metadata of zarr: {error}") from None
        for codec in found:
            if codec.removeprefix("numcodecs.") not in _KNOWN:
                raise StorageError(f"{op}: {str(folder)!r} has the codec {codec[:80]!r}, which is not read")


def _codecs(metadata: Any) -> list[str]:
    """The names of all codecs of an array."""
    if not isinstance(metadata, dict):
        raise ValueError("it is not a dict")
    filters, compressor = metadata.get("filters") or [], metadata.get("compressor")
    return [*_names(metadata.get("codecs") or []), *_names([*filters, *([compressor] if compressor else [])])]


def _names(codecs: Any) -> list[str]:
    found: list[str] = []
    for each in codecs:
        each = {"name": each} if isinstance(each, str) else each
        if not isinstance(each, dict):
            raise ValueError("a codec has no name")
        found += [str(each[key]) for key in ("name", "id") if key in each]
        inside = each.get("configuration")
        if isinstance(inside, dict):
            for key in _INNER:
                found += _names(inside.get(key) or [])
    return found
