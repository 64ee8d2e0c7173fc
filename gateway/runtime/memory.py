"""Gives back to the system what malloc holds free.

Large buffers that live for a moment (answers to Fetch, batches under way) leave free pieces in the heap of the C
library.
They are used again, but what a burst has touched stays: over hours a gateway would grow by a few MB each time.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 300.0
"""A look at 100 MB of free pieces takes 0.1 s, and a few ms when there is little; malloc waits for it meanwhile."""


def find_trim() -> Callable[[], None] | None:
    """glibc's `malloc_trim`; None in a C library that has none."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back


async def keep_trimmed(trim: Callable[[], None] | None, every_s: float = EVERY_S) -> None:
    """Until cancelled. In a thread, since the call lets other Python code run."""
    while trim is not None:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(trim)
