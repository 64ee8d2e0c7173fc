"""An event of transactions: a producer gets its identity on the source late, right when its topics are to be promoted.

What a gateway decides for a client's request holds until the request is sent, or it must be decided anew: here seconds
go by between the two, and a write pause begins in them that knows nothing of the request yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from protocol.apis import ApiKey
from tests.simulation.faults.stage import Stage
from tests.simulation.kernel.network import Segment
from tests.simulation.plan import Event, EventKind

_LOOK_S: Final = 20.0
_ANSWERED_S: Final = 0.02
"""From the arrival of the request until its answer is on its way."""


class LateIdentities:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.table: Mapping[EventKind, Callable[[Event], str]] = {EventKind.IDENTITY_LATE: self._begun}

    def _begun(self, event: Event) -> str:
        self._stage.soon(_LateIdentity(self._stage, event.hold_s).run(), "a late identity")
        return f"the next identity that a gateway asks the source for takes {event.hold_s:g} s"


class _LateIdentity:
    """One of them."""

    def __init__(self, stage: Stage, takes_s: float) -> None:
        self._loop, self._network, self._story = stage.loop, stage.loop.network, stage.story
        self._takes_s = takes_s
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Until somebody has asked for one, or nobody does."""
        self._network.on_segment.append(self._hook)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _LOOK_S)
        finally:
            self._network.on_segment.remove(self._hook)

    def _hook(self, segment: Segment) -> None:
        asks = segment.from_client and segment.src.startswith("gw-") and segment.dst.startswith("source-")
        if self._asked.is_set() or not asks:
            return
        if int.from_bytes(segment.data[4:6], "big") == ApiKey.INIT_PRODUCER_ID:
            gateway, broker = segment.src, segment.dst
            self._network.slow(broker, gateway, self._takes_s)
            self._loop.call_later(_ANSWERED_S, self._network.fast, broker, gateway)
            self._story.tell("EVENT", f"{broker} gives {gateway} an identity, which takes {self._takes_s:g} s")
            self._asked.set()
