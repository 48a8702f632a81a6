"""The rows that benchmarks have in common: names to find them by, and a figure per contender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from spmd_grid.bench.common.timing import Times
from spmd_grid.exchange.transfer.distance import SLOW_WORD

__all__ = [
    "ARRAY_LIBRARIES",
    "CaseOnLinks",
    "LIBRARIES",
    "IN_PLACE",
    "LIMIT",
    "NUMBA_MPI",
    "OURS",
    "Figure",
    "NamedCase",
    "PROGRAM_LIBRARIES",
    "RESHARD_LIBRARIES",
    "Row",
    "STORAGE_LIBRARIES",
    "WAITING",
    "figures_of",
    "is_disturbed",
    "matching_cases",
]

OURS = "spmd_grid"  # our default variant; the names of our other variants begin with it
LIMIT = "numpy.copyto"  # a copy of the same number of bytes: the limit that memory sets
IN_PLACE = "in place"  # the same bytes copied from the others' memory, and two words: the limit that processors set
WAITING = "waiting"  # every rank posts a word and waits for the others' words
RESHARD_LIBRARIES = "mpi4py-fft", "heat", "DTensor", "JAX"
ARRAY_LIBRARIES = "heat", "DTensor", "dask"
PROGRAM_LIBRARIES = "DTensor", "JAX"
STORAGE_LIBRARIES = "numpy", "h5py", "zarr", "DCP"
LIBRARIES = *RESHARD_LIBRARIES, "dask"  # the names of other libraries' variants begin with these
NUMBA_MPI = "numba-mpi"  # its variants, which exist in compiled loops only
_DISTURBED = 1.3  # ratio of the upper quartile to the lower one, for half of the contenders


class NamedCase(Protocol):
    """The subject of a row, with the row's name."""

    @property
    def name(self) -> str: ...


class DataclassCase(NamedCase, Protocol):
    """A case whose fields are written to JSON."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Case = TypeVar("Case", bound=NamedCase)
FieldsCase = TypeVar("FieldsCase", bound=DataclassCase)


class CaseOnLinks(NamedTuple, Generic[Case]):
    """A case on links that have a name, which the name of its row begins with."""

    links: str
    case: Case

    @property
    def name(self) -> str:
        return f"{self.links}: {self.case.name}" if self.links else self.case.name


def matching_cases(cases: Sequence[Case], pattern: str) -> list[Case]:
    """The cases whose name contains ``pattern``, in which ``*`` and ``?`` are wildcards.

    >>> from spmd_grid.bench.halo.cases import all_cases
    >>> [case.name for case in matching_cases(all_cases(), "2-d 64^2 rows, 3*width 2")]
    ['2-d 64^2 rows, 3 fields, width 2, face 1 KiB']
    """
    return [case for case in cases if fnmatchcase(case.name, f"*{pattern}*")]


# -- figures ---------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """Microseconds per call: the median, the 10th and 90th percentiles (``low``, ``high``), and the quartiles.

    From all but ``raw``, the median as measured, the time of rewriting the source is subtracted.
    """

    us: float
    low: float
    high: float
    raw: float
    calls: int
    quartiles: tuple[float, float] = (0.0, 0.0)


def figures_of(times: Times[str], bases: Mapping[str, str]) -> dict[str, Figure]:
    """The figures of the contenders in ``bases``, less the median of each one's base."""
    figures = {}
    for name, base in bases.items():
        taken = 1e6 * times.median(base)
        median = 1e6 * times.median(name)
        low, lower, upper, high = (1e6 * times.percentile(name, percent) - taken for percent in (10, 25, 75, 90))
        figures[name] = Figure(median - taken, low, high, median, times.calls[name], (lower, upper))
    return figures


def is_disturbed(times: Times[str]) -> bool:
    """Whether other work used the processors: the times of most contenders changed from round to round."""
    quartiles = sorted(times.percentile(name, 75) / times.percentile(name, 25) for name in times.seconds)
    return quartiles[len(quartiles) // 2] > _DISTURBED


@dataclass
class Row(Generic[FieldsCase]):
    """The figures of one row, by contender.

    ``rewriting_us``: the times that were subtracted; ``plan``: our plan's description of itself; ``disturbed``: see
    `is_disturbed`; ``skipped``: the libraries that were skipped in this row, with the reasons; ``hop_ns``: time of a
    word from one processor to another, the longer one of before and after the row.
    """

    case: FieldsCase
    by_contender: dict[str, Figure]
    rewriting_us: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    plan: str = ""
    disturbed: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    hop_ns: float | None = None

    @property
    def far(self) -> bool:
        """Whether the processors shared no cache, as far as that was measured."""
        return self.hop_ns is not None and self.hop_ns > 1e9 * SLOW_WORD

    @classmethod
    def from_dict(cls, case_type: type[FieldsCase], figures: Mapping[str, Any]) -> Self:
        """The row whose `to_dict` gave ``figures``, read back from JSON."""
        known = [each.name for each in fields(case_type) if each.name in figures]  # older files lack newer fields
        case = case_type(**{name: _as_kept(figures[name]) for name in known})
        by_contender = {name: Figure(**figure) for name, figure in figures["contenders"].items()}
        return cls(case, by_contender, **{name: figures[name] for name in _KEPT if name in figures})

    def to_dict(self) -> dict[str, Any]:
        """All fields and the ratios that follow from them, for JSON."""
        return {
            "row": self.case.name,
            **asdict(self.case),
            **{name: getattr(self, name) for name in _KEPT},
            "best_peer": self.best(),
            "best_peer_over_ours": self.over_best,
            "contenders": {name: figure._asdict() for name, figure in self.by_contender.items()},
        }

    def us(self, name: str) -> float | None:
        figure = self.by_contender.get(name)
        return None if figure is None else figure.us

    def by_hand(self) -> list[str]:
        """The names of the hand-written contenders."""
        others = OURS, LIMIT, IN_PLACE, WAITING, NUMBA_MPI, *LIBRARIES
        return [name for name in self.by_contender if not name.startswith(others)]

    def best_of(self, library: str) -> str | None:
        """The name of the library's fastest variant, if it was measured."""
        variants = [name for name in self.by_contender if name.startswith(library)]
        return min(variants, key=lambda name: self.by_contender[name].us) if variants else None

    def best(self, beginning: str = "") -> str:
        """The name of the fastest hand-written contender among those whose name begins with ``beginning``."""
        peers = [name for name in self.by_hand() if name.startswith(beginning)]
        return min(peers, key=lambda name: self.by_contender[name].us)

    def ratio(self, name: str, over: str) -> float:
        """Time of ``name`` divided by the time of ``over``."""
        us, other = self.by_contender[name].us, self.by_contender[over].us
        return us / other if other > 0 else float("inf")

    @property
    def over_best(self) -> float:
        """Time of the best hand-written contender divided by ours."""
        return self.ratio(self.best(), OURS)


_KEPT = "rewriting_us", "rounds", "plan", "disturbed", "skipped", "hop_ns"  # the fields that JSON holds unchanged


def _as_kept(value: Any) -> Any:
    """The value of a field as the case had it: JSON turns tuples into lists."""
    return tuple(value) if isinstance(value, list) else value
