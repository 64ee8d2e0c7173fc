"""Events of transactions: a gateway is late with the end of one, and its client has gone on by another gateway.

A client asks a gateway to end its transaction (the next abort, or the next end of either kind), and the gateway loses a
cluster in the middle of that. The client's connection breaks, which the gateway hears, and no other one to it comes to
be; so the client ends the transaction by another gateway, and begins the next one. When all data of that one are sent,
and not its end, the gateway has its cluster back. A coordinator ends whatever is open: what the gateway would send now
hits the wrong transaction. The client is slow meanwhile, so that there is time for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Literal

from protocol.apis import ApiKey
from tests.simulation.faults.stage import Stage
from tests.simulation.kernel.network import Segment
from tests.simulation.plan import Event, EventKind
from tests.simulation.recorder import SOURCE, TARGET

_SLOW_S: Final = 0.04
_ASKED_S: Final = 0.02
"""From a client's request to the end of its connection."""
_PRODUCED_S: Final = 0.01
"""For so long after a batch nothing more comes, if it was the last one of its transaction: less than a client takes."""
_AFTER_S: Final = 0.5
"""From then on that the gateway has its cluster back until its client may come to it again."""
Answer = Literal["drop-connection"] | None


class LateEnds:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.table: Mapping[EventKind, Callable[[Event], str]] = {
            EventKind.END_HELD: lambda event: self._begun(event, ""),
            EventKind.END_ON_ITS_WAY: lambda event: self._begun(event, SOURCE),
            EventKind.END_PASSED_ON: lambda event: self._begun(event, TARGET),
        }

    def _begun(self, event: Event, on_its_way_to: str) -> str:
        late = _LateEnd(self._stage, on_its_way_to, any_end=bool(int(event.hold_s * 100) % 2))
        self._stage.soon(late.run(event.hold_s), "a late end")
        loses = f"gets no request through to the {on_its_way_to}" if on_its_way_to else "hears nothing of the target"
        return f"the next gateway that is asked to end a transaction {loses}, and its client goes on by another one"


class _LateEnd:
    """One of them. `on_its_way_to`: what is late is the request to this side (SOURCE, TARGET); "": what is asked before
    it."""

    def __init__(self, stage: Stage, on_its_way_to: str, *, any_end: bool) -> None:
        self._network, self._stage = stage.loop.network, stage
        self._to, self._any_end = on_its_way_to, any_end
        self._client = self._gateway = ""
        self._added = self._produced = 0  # partitions of the next transaction, and batches of theirs
        self._described: set[str] = set()  # brokers that the gateway has asked what is open
        self._asked, self._goes_on = asyncio.Event(), asyncio.Event()
        self._has_lost = False  # the gateway, a cluster
        self._broken = False  # the connection
        self._ended = False  # by another gateway
        self._cuts: list[tuple[str, str]] = []

    async def run(self, most_s: float) -> None:
        """From the client's request on for so long at most."""
        network = self._network
        network.on_segment.append(self._hook)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), most_s)
            if self._gateway:
                network.slow(self._client, "gw-*", _SLOW_S)
                await asyncio.sleep(_ASKED_S)
                self._broken = True
                network.reset(self._client, self._gateway)
                self._tell(f"connection of {self._client} to {self._gateway} breaks")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._goes_on.wait(), most_s)
                self._heal()
                await asyncio.sleep(_AFTER_S)
        finally:
            network.on_segment.remove(self._hook)
            network.fast(self._client, "gw-*")
            self._heal()

    def _hook(self, segment: Segment) -> Answer:
        if not self._gateway:
            self._look_for_an_end(segment)
        elif self._client in (segment.src, segment.dst):
            return self._of_client(segment)
        elif self._to and not self._has_lost and self._gateway in (segment.src, segment.dst):
            self._look_for_what_is_open(segment)
        return None

    def _look_for_an_end(self, segment: Segment) -> None:
        ends = segment.from_client and segment.dst.startswith("gw-") and _key(segment) == ApiKey.END_TXN
        if not ends or segment.src not in self._stage.producers() or not (self._any_end or _aborts(segment)):
            return
        self._client, self._gateway = segment.src, segment.dst
        self._tell(f"{self._client} asks {self._gateway} for an end")
        if not self._to:
            self._cut("target-*", self._gateway)
        self._asked.set()

    def _look_for_what_is_open(self, segment: Segment) -> None:
        """The answer to that is the last thing before the request to end it."""
        if (
            segment.from_client
            and segment.dst.startswith(f"{self._to}-")
            and _key(segment) == ApiKey.DESCRIBE_TRANSACTIONS
        ):
            self._described.add(segment.dst)
        elif not segment.from_client and segment.src in self._described:
            self._cut(self._gateway, f"{self._to}-*")

    def _of_client(self, segment: Segment) -> Answer:
        if self._gateway in (segment.src, segment.dst):
            return "drop-connection" if self._broken else None
        key = _key(segment) if segment.from_client else None
        self._ended |= key == ApiKey.END_TXN
        self._added += self._ended and key == ApiKey.ADD_PARTITIONS_TO_TXN
        if self._ended and key == ApiKey.PRODUCE:
            self._produced += 1
            self._stage.loop.call_later(_PRODUCED_S, self._look_whether_all_is_sent)
        return None

    def _look_whether_all_is_sent(self) -> None:
        if self._added == self._produced:
            self._goes_on.set()

    def _cut(self, a: str, b: str) -> None:
        self._has_lost = True
        self._cuts.append((a, b))
        self._network.cut(a, b)

    def _heal(self) -> None:
        for a, b in self._cuts:
            self._network.heal(a, b)
        self._cuts.clear()

    def _tell(self, what: str) -> None:
        self._stage.story.tell("EVENT", what)


def _key(segment: Segment) -> int:
    return int.from_bytes(segment.data[4:6], "big")


def _aborts(segment: Segment) -> bool:
    """`committed` is the last field of an EndTxn; from version 3 on an empty list of tags comes behind it."""
    version = int.from_bytes(segment.data[6:8], "big")
    return not segment.data[-2 if version >= 3 else -1]
