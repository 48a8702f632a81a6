"""A small timed model of this machine: whether it pays to copy an array into shared memory or to send it.

Timed once, between two processes of a node, in a few hundredths of a second; kept on disk by host and MPI library, and
measured again where it cannot be kept.
"""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, fields
from hashlib import blake2b
from pathlib import Path
from time import perf_counter

import numpy as np

from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["MachineModel", "cached_model", "keep_model", "measure_model"]

_LARGE = 1 << 19
_ROUNDS = 25
_TAG = tag_of("blocking movements")


@dataclass(frozen=True)
class MachineModel:
    """Seconds: to copy a byte within the caches, to send a message at all, and for each byte of it.

    >>> model = MachineModel(1e-10, 1e-6, 3e-10)
    >>> model.copied_bytes(4096, 1 << 19), MachineModel(1e-10, 1e-6, 1e-10).copied_bytes(4096, 1 << 19)
    (524288, 8192)
    """

    copy: float
    latency: float
    message: float

    def copied_bytes(self, least: int, most: int) -> int:
        """Up to which size it is as fast to copy an array and let others copy it again, as to send it.  Local."""
        found = least
        while found < most and 2 * (2 * found) * self.copy <= self.latency + (2 * found) * self.message:
            found *= 2
        return found

    def __str__(self) -> str:
        copies, messages = (f"{1e-9 / per_byte:.1f} GB/s" for per_byte in (self.copy, self.message))
        return f"copies {copies}, messages {1e6 * self.latency:.1f} us and {messages}"


def measure_model(comm: Communicator) -> MachineModel | None:
    """The model as the first two members time it; None on the others.  Collective over these two."""
    if comm.rank > 1:
        return None
    small, large, other = np.ones(8, np.uint8), np.ones(_LARGE, np.uint8), np.ones(_LARGE, np.uint8)
    copies, trips = [], {8: [], _LARGE: []}
    for _ in range(_ROUNDS):
        began = perf_counter()
        np.copyto(other, large)
        copies.append(perf_counter() - began)
    for buffer, rounds in ((small, 8 * _ROUNDS), (large, _ROUNDS)):  # the first ones also connect the two
        for _ in range(rounds):
            began = perf_counter()
            for turn in (0, 1):
                move = comm.isend if comm.rank == turn else comm.irecv
                comm.wait_all(move(buffer, 1 - comm.rank, _TAG))
            trips[len(buffer)].append((perf_counter() - began) / 2)
    # The least of each: whatever else runs here makes things slower, never faster.
    latency, copy = min(trips[8]), min(copies) / _LARGE
    return MachineModel(copy, latency, max((min(trips[_LARGE]) - latency) / _LARGE, copy))


def cached_model(library: str) -> MachineModel | None:
    """What has been kept for this host and MPI library.  Local."""
    with suppress(OSError, ValueError, TypeError):
        model = MachineModel(**json.loads(_file_of(library).read_text()))
        if all(type(value) is float and value > 0 for value in astuple(model)):
            return model
    return None


def keep_model(library: str, model: MachineModel) -> None:
    """Keeps it for later programs, where there is a folder for that.  Local."""
    with suppress(OSError):
        file = _file_of(library)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(model)))
        draft.replace(file)


def _file_of(library: str) -> Path:
    """The file's name has all that the times depend on."""
    shape = ",".join(field.name for field in fields(MachineModel))
    key = blake2b(f"{platform.node()}\n{platform.machine()}\n{library}\n{shape}".encode(), digest_size=8).hexdigest()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "spmd_grid" / f"machine-{key}.json"
