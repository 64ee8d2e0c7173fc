"""What the mirror of any gateway tells comes to the leader, which alone can write it down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from gateway.fleet.peers.channel import Peers
from gateway.kafka.connection.errors import NetError
from gateway.mirror.interface import MirrorEvents
from gateway.state.records import MirrorError
from gateway.transport.background import kept_running

MIRROR_EVENT = "mirror_event"

_ASK_S = 5.0
_AGAIN_S = 1.0
_KEPT = 1000
_log = structlog.get_logger("lockgate.fleet")


class FleetEvents:
    """Implements `MirrorEvents`: handed on at once where this gateway leads, else told to who does.

    What could not be told is kept and told again, to the next leader too. `local`: of the term, None while following.
    """

    def __init__(self, peers: Peers, leader: Callable[[], str]) -> None:
        self._peers = peers
        self._leader = leader
        self._untold: dict[str, list[Any]] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._local: MirrorEvents | None = None
        peers.handlers[MIRROR_EVENT] = self._heard

    def start(self) -> None:
        """Begin to tell."""
        self._task = asyncio.get_running_loop().create_task(
            kept_running(self._run, "fleet events"), name="fleet events"
        )

    def lead(self, events: MirrorEvents | None) -> None:
        """A term begins: events are written down here. None: it has ended."""
        self._local = events
        if events is not None:
            for event in list(self._untold.values()):
                self._hand_on(*event)
            self._untold.clear()

    async def close(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- MirrorEvents --------------------------------------------------------------------------------------------

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        """See the port; so for the others."""
        self._tell("partition_failed", link, topic, partition, error.value, message)

    def source_available(self, link: str, available: bool, message: str) -> None:
        """The leader looks for itself."""
        if self._local is not None:
            self._local.source_available(link, available, message)

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """Counted once, however often it is told."""
        self._tell("records_lost", link, topic, partition, first, following)

    def topic_readable(self, link: str, topic: str) -> None:
        """All partitions that run here are padded; the leader runs all of a topic that is not settled yet."""
        self._tell("topic_readable", link, topic)

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """Offsets differ from here on."""
        self._tell("topic_translated", link, topic, reason)

    def _tell(self, what: str, *values: Any) -> None:
        if self._local is not None:
            self._hand_on(what, *values)
        elif len(self._untold) < _KEPT:
            self._untold[repr((what, *values))] = [what, *values]
            self._news.set()

    def _hand_on(self, what: str, *values: Any) -> None:
        events = self._local
        if events is None:
            raise NetError("this gateway does not lead")
        match what, values:
            case "partition_failed", (link, topic, partition, error, message):
                events.partition_failed(link, topic, partition, MirrorError(error), message)
            case "records_lost", (link, topic, partition, first, following):
                events.records_lost(link, topic, partition, first, following)
            case "topic_readable", (link, topic):
                events.topic_readable(link, topic)
            case "topic_translated", (link, topic, reason):
                events.topic_translated(link, topic, reason)

    async def _heard(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self._hand_on(*body["event"])
        return {}

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for key, event in list(self._untold.items()):
                try:
                    await self._peers.ask(self._leader(), MIRROR_EVENT, {"event": event}, _ASK_S)
                except NetError as exc:
                    _log.info("the leader was not told yet", news=event[0], reason=str(exc))
                    await asyncio.sleep(_AGAIN_S)
                    self._news.set()
                else:
                    self._untold.pop(key, None)
