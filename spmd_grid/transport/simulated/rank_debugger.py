"""``breakpoint()`` on a simulated rank: Python's debugger, one rank at the prompt at a time.

The others run on until they need this one; their output is shown after the prompt has been answered.
"""

from __future__ import annotations

import pdb
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["RankDebugger"]

_prompt = threading.RLock()


class RankDebugger(pdb.Pdb):
    """The debugger of one rank, whose prompt names the rank; ``alone()`` reserves the terminal for it."""

    def __init__(self, label: str, alone: Callable[[], AbstractContextManager[None]]):
        super().__init__(nosigint=True)
        self.prompt = f"(Pdb {label}) "
        self._alone = alone

    def interaction(self, *args: Any) -> None:
        with _prompt, self._alone():
            super().interaction(*args)
