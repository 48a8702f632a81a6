"""``breakpoint()`` on a simulated rank: Python's debugger, one rank at the prompt at a time.

The others run on until they need this one; what they print meanwhile comes when the prompt has got its answer.
"""

from __future__ import annotations

import pdb
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

__all__ = ["RankDebugger"]

_prompt = threading.RLock()


class RankDebugger(pdb.Pdb):
    """The debugger of one rank, which its prompt names; ``alone()`` keeps the terminal for it."""

    def __init__(self, label: str, alone: Callable[[], AbstractContextManager]):
        super().__init__(nosigint=True)
        self.prompt = f"(Pdb {label}) "
        self._alone = alone

    def interaction(self, *args) -> None:
        with _prompt, self._alone():
            super().interaction(*args)
