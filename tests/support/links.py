"""Models of links for tests: two processes on each node, and nothing takes time but what a test names."""

from __future__ import annotations

from typing import Any

from spmd_grid.links.model import LinkModel

__all__ = ["free_links"]

_FREE = 1e99  # bytes per second


def free_links(**costs: Any) -> LinkModel:
    """The model with the fields ``costs``; by the others, messages, copies and waits take no time.  Local."""
    free = dict.fromkeys(("node_latency", "network_latency", "message_seconds"), 0.0)
    free |= dict.fromkeys(("node_bandwidth", "memory_bandwidth", "network_bandwidth", "cable_bandwidth"), _FREE)
    return LinkModel(**({"node_size": 2} | free | costs))
