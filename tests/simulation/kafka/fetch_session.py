"""Incremental fetch sessions (KIP-227) of one broker."""

from __future__ import annotations

import asyncio
from random import Random


class FetchSessions:
    """The broker's cache of sessions; `slots` of them at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, slots: int) -> None:
        self._loop = loop
        self._rng = rng
        self._slots = slots
