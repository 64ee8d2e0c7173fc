"""What the mirror of any gateway tells comes to the leader, which alone can write it down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import structlog

from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.mirror_news import FAILED, LOST, READABLE, TRANSLATED, MirrorNews
from gateway.kafka.connection.errors import NetError
from gateway.mirror.interface import MirrorEvents
from gateway.state.mirror_states import tag_of
from gateway.state.records import MirrorError, MirrorRecord
from gateway.transport.background import kept_running

MIRROR_EVENT = "mirror_event"

_ASK_S = 5.0
_AGAIN_S = 1.0
_UNWRITTEN_S = 5.0
_KEPT = 1000
_log = structlog.get_logger("lockgate.fleet")


class FleetEvents:
    """Implements `MirrorEvents`: handed on at once where this gateway leads, else told to who does.

    What its mirror's record does not say yet is told again and again, to the next leader too (`rules/mirror_news.py`).
    `local`: of the term, None while following.

    Args:
        records: of all mirrors, as read here, by (link, mirror topic).
    """

    def __init__(
        self, peers: Peers, leader: Callable[[], str], records: Callable[[], Mapping[tuple[str, str], MirrorRecord]]
    ) -> None:
        self._peers = peers
        self._leader = leader
        self._records = records
        self._kept: dict[MirrorNews, float] = {}  # until when it need not be told again
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
        self._kept = dict.fromkeys(self._kept, 0.0)
        if events is not None:
            for news in self._kept:
                _hand_on(events, news)
        self._news.set()

    async def close(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- MirrorEvents --------------------------------------------------------------------------------------------

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        """See the port; so for the others."""
        self._tell(FAILED, link, topic, partition, error.value, message)

    def source_available(self, link: str, available: bool, message: str, *, refused: bool = False) -> None:
        """The leader looks for itself."""
        if self._local is not None:
            self._local.source_available(link, available, message, refused=refused)

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """Counted once, however often it is told."""
        self._tell(LOST, link, topic, partition, first, following)

    def topic_readable(self, link: str, topic: str) -> None:
        """All partitions that run here are padded; the leader runs all of a topic that is not readable yet."""
        self._tell(READABLE, link, topic)

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """Offsets differ from here on."""
        self._tell(TRANSLATED, link, topic, reason)

    def _tell(self, what: str, link: str, topic: str, *values: Any) -> None:
        record = self._records().get((link, topic))
        news = MirrorNews(what, link, topic, values, "" if record is None else tag_of(record))
        if len(self._kept) < _KEPT:
            self._kept[news] = 0.0
        if self._local is not None:
            _hand_on(self._local, news)
        self._news.set()

    async def _heard(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._local is None:
            raise NetError("this gateway does not lead")
        news = MirrorNews.from_wire(body)
        if news.concerns(self._records().get((news.link, news.topic))):
            _hand_on(self._local, news)
        return {}

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S if self._kept else None):
                    await self._news.wait()
            self._news.clear()
            for news in [news for news, again_at in self._kept.items() if again_at <= loop.time()]:
                await self._tell_leader(news, loop.time())
            self._drop_written()

    async def _tell_leader(self, news: MirrorNews, now: float) -> None:
        again_s = _UNWRITTEN_S
        if self._local is None:
            try:
                await self._peers.ask(self._leader(), MIRROR_EVENT, news.to_wire(), _ASK_S)
            except NetError as exc:
                _log.info("the leader was not told yet", news=news.what, reason=str(exc))
                again_s = _AGAIN_S
        else:
            _hand_on(self._local, news)
        if news in self._kept:
            self._kept[news] = now + again_s

    def _drop_written(self) -> None:
        """Of what was told at least once: a record may not be read yet here when its mirror has something to tell."""
        records = self._records()
        for news in [news for news, again_at in self._kept.items() if again_at]:
            if news.is_written(records.get((news.link, news.topic))):
                del self._kept[news]


def _hand_on(events: MirrorEvents, news: MirrorNews) -> None:
    match news.what, news.values:
        case "partition_failed", (partition, error, message):
            events.partition_failed(news.link, news.topic, partition, MirrorError(error), message)
        case "records_lost", (partition, first, following):
            events.records_lost(news.link, news.topic, partition, first, following)
        case "topic_readable", ():
            events.topic_readable(news.link, news.topic)
        case "topic_translated", (reason,):
            events.topic_translated(news.link, news.topic, reason)
