"""Random generators in a manifest: their states as JSON, and back, each number held against its range.

numpy takes the state of a bit generator as it is, and one with a position out of range reads memory beside its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from spmd_grid.errors import DamagedError
from spmd_grid.random import Generator

__all__ = ["BIT_GENERATORS", "generator_from", "numpy_generator_from", "state_words"]

_MOST_WORDS = 1 << 10  # of a seed, which is 4 as a rule
_MOST_POOL = 1 << 10  # words in which a seed is mixed, numpy's are 4
_WORD, _COUNT = 1 << 64, 1 << 63


def state_words(state: Any) -> Any:
    """The state of a generator as JSON: dicts, strings, whole numbers and arrays of them."""
    if isinstance(state, dict):
        return {key: state_words(each) for key, each in state.items()}
    if isinstance(state, np.ndarray):
        return {"dtype": state.dtype.str, "values": [int(each) for each in state.reshape(-1)]}
    if isinstance(state, list | tuple):
        return [state_words(each) for each in state]
    return int(state) if isinstance(state, np.integer) else state


def numpy_generator_from(op: str, words: Any) -> np.random.Generator:
    """The generator of numpy with a state that is not trusted.  Local.  Raises DamagedError."""
    name = words.get("bit_generator") if isinstance(words, dict) else None
    if not isinstance(name, str) or name not in _KINDS:
        raise DamagedError(f"{op}: {str(name)[:80]!r} is not a bit generator of numpy; those are {', '.join(_KINDS)}")
    kind, state_of = _KINDS[name]
    bits = kind()
    bits.state = {"bit_generator": name, **state_of(_Words(op, name, words, "bit_generator"))}
    return np.random.Generator(bits)


def generator_from(op: str, words: Any) -> Generator:
    """The generator of this package with a state that is not trusted.  Local.  Raises DamagedError."""
    found = _Words(op, "a generator", words)
    state = {
        "entropy": found.seed("entropy"),
        "spawn_key": tuple(found.numbers_of_any_length("spawn_key", 1 << 32)),
        "pool_size": found.number("pool_size", 4, _MOST_POOL + 1),
        "n_children_spawned": found.number("n_children_spawned", 0, _COUNT),
        "draws": found.number("draws", 0, _COUNT),
    }
    found.end()
    return Generator.from_state(state)


class _Words:
    """The entries of a state, each taken once and held against its range."""

    def __init__(self, op: str, of: str, words: Any, *taken: str):
        self._op, self._of = op, of
        if not isinstance(words, dict):
            self.refuse("its state", words, "a dict")
        self._words = {name: value for name, value in words.items() if name not in taken}

    def number(self, name: str, low: int, stop: int) -> int:
        """A whole number from ``low`` up to below ``stop``."""
        value = self._take(name)
        if type(value) is not int or not low <= value < stop:
            self.refuse(name, value, f"a whole number from {low} to {stop - 1}")
        return int(value)

    def array(self, name: str, n: int, dtype: str) -> np.ndarray:
        """An array of ``n`` whole numbers of a dtype."""
        value, most = self._take(name), np.iinfo(dtype).max
        if not isinstance(value, dict) or set(value) != {"dtype", "values"} or value["dtype"] != np.dtype(dtype).str:
            self.refuse(name, value, f"an array of dtype {np.dtype(dtype).str}")
        values = value["values"]
        if not isinstance(values, list) or len(values) != n or not _are_numbers(values, most + 1):
            self.refuse(name, values, f"{n} whole numbers from 0 to {most}")
        return np.array(values, dtype)

    def numbers_of_any_length(self, name: str, stop: int) -> list[int]:
        """A list of whole numbers from 0."""
        value = self._take(name)
        if not isinstance(value, list) or len(value) > _MOST_WORDS or not _are_numbers(value, stop):
            self.refuse(name, value, f"at most {_MOST_WORDS} whole numbers from 0 to {stop - 1}")
        return list(value)

    def seed(self, name: str) -> int | list[int] | None:
        """A whole number, a list of them, or None."""
        value, stop = self._words.get(name), 1 << 32 * _MOST_WORDS
        if isinstance(value, list):
            return self.numbers_of_any_length(name, stop)
        if value is None:
            return None if self._take(name) is None else 0
        return self.number(name, 0, stop)

    def inside(self, name: str) -> _Words:
        """The entries of a dict within the state."""
        return _Words(self._op, self._of, self._take(name))

    def end(self) -> None:
        """Refuse entries that were not taken."""
        if self._words:
            self.refuse("its state", sorted(self._words), "without these entries")

    def _take(self, name: str) -> Any:
        if name not in self._words:
            self.refuse(name, "missing", "there")
        return self._words.pop(name)

    def refuse(self, name: str, value: Any, required: str) -> NoReturn:
        """Raise DamagedError for the value of an entry."""
        raise DamagedError(f"{self._op}: {self._of}: {name} is {str(value)[:80]!r}; it must be {required}")


def _are_numbers(values: list[Any], stop: int) -> bool:
    return all(type(each) is int and 0 <= each < stop for each in values)


def _mersenne(words: _Words) -> dict[str, Any]:
    state = words.inside("state")
    found = {"key": state.array("key", 624, "uint32"), "pos": state.number("pos", 0, 625)}
    state.end()
    words.end()
    return {"state": found}


def _permuted(words: _Words) -> dict[str, Any]:
    state = words.inside("state")
    found = {"state": state.number("state", 0, _WORD**2), "inc": state.number("inc", 0, _WORD**2)}
    if found["inc"] % 2 == 0:
        state.refuse("inc", found["inc"], "odd")
    state.end()
    return {"state": found, **_half_used(words)}


def _philox(words: _Words) -> dict[str, Any]:
    state = words.inside("state")
    found = {"counter": state.array("counter", 4, "uint64"), "key": state.array("key", 2, "uint64")}
    state.end()
    buffer = {"buffer": words.array("buffer", 4, "uint64"), "buffer_pos": words.number("buffer_pos", 0, 5)}
    return {"state": found, **buffer, **_half_used(words)}


def _small_fast(words: _Words) -> dict[str, Any]:
    state = words.inside("state")
    found = {"state": state.array("state", 4, "uint64")}
    state.end()
    return {"state": found, **_half_used(words)}


def _half_used(words: _Words) -> dict[str, int]:
    """The half of a word that is left after a draw of 32 bits."""
    found = {"has_uint32": words.number("has_uint32", 0, 2), "uinteger": words.number("uinteger", 0, 1 << 32)}
    words.end()
    return found


_KINDS: dict[str, tuple[type[np.random.BitGenerator], Callable[[_Words], dict[str, Any]]]] = {
    "MT19937": (np.random.MT19937, _mersenne),
    "PCG64": (np.random.PCG64, _permuted),
    "PCG64DXSM": (np.random.PCG64DXSM, _permuted),
    "Philox": (np.random.Philox, _philox),
    "SFC64": (np.random.SFC64, _small_fast),
}
BIT_GENERATORS = tuple(_KINDS)
