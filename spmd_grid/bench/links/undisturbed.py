"""The model of the machine's undisturbed moments: of several models, nearly the fastest figure of each kind.

What else runs on a machine only adds time: whoever has the second thread of a core takes nearly half of it, for a tenth
of a second or for many.  Models that are measured one after the other meet that now and then, and so do the operations
that they are compared with.  Of both the second fastest counts: what is fastest may be a chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from spmd_grid.links.model import LinkModel

__all__ = ["second", "undisturbed"]

_Copies = Sequence[tuple[float, float]]


def second(times: Iterable[float]) -> float:
    """The second shortest of ``times``, or the only one.  Local.

    >>> second([3.0, 1.0, 2.0]), second([3.0])
    (2.0, 3.0)
    """
    return sorted(times)[:2][-1]


def undisturbed(models: Sequence[LinkModel]) -> LinkModel:
    """The model with the second shortest times and the second largest bandwidths of ``models``, of the same processes.

    Of the factors of one way, which compare two bandwidths, the medians count.  Local.

    >>> found = undisturbed([LinkModel(node_latency=1e-6 * n, memory_bandwidth=1e9 * n) for n in (1, 2, 4)])
    >>> found.node_latency, found.memory_bandwidth
    (2e-06, 2000000000.0)
    """

    def least(of: Callable[[LinkModel], float]) -> float:
        return second(map(of, models))

    def most(of: Callable[[LinkModel], float]) -> float:
        return -second(-of(model) for model in models)

    def copies(of: Callable[[LinkModel], _Copies]) -> _Copies:
        return [(sizes[0][0], -second(-pace for _, pace in sizes)) for sizes in zip(*map(of, models), strict=True)]

    first, latency = models[0], least(lambda model: model.network_latency)
    return replace(
        first,
        node_latency=least(lambda model: model.node_latency),
        step_seconds=least(lambda model: model.step),
        node_bandwidth=most(lambda model: model.node_bandwidth),
        network_latency=latency,
        network_bandwidth=most(lambda model: model.network_bandwidth),
        memory_bandwidth=most(lambda model: model.memory_bandwidth),
        copies=copies(lambda model: model.copies),
        alone_copies=copies(lambda model: model.alone_copies),
        run_copies=copies(lambda model: model.run_copies),
        alone_run_copies=copies(lambda model: model.alone_run_copies),
        message_seconds=least(lambda model: model.message_seconds),
        call_seconds=least(lambda model: model.call_seconds),
        wake_seconds=max(0.0, least(lambda model: model.network_latency + model.wake_seconds) - latency),
        cable_bandwidth=first.cable_bandwidth and most(lambda model: model.cable),
        bus_bandwidth=first.bus_bandwidth and most(lambda model: model.bus),
        one_way=median(model.one_way for model in models),
        process_one_way=median(model.process_one_way for model in models),
    )
