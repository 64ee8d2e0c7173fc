"""What handlers ask the sources about topics for a client: as many names as it may, and when it is its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from gateway.proxy.rules.asked_names import AskedNames
from gateway.proxy.session.stats import ProxyStats
from gateway.topics.interface import SourceTopics

if TYPE_CHECKING:
    from gateway.proxy.session.session import Session

_log: Final = structlog.get_logger("lockgate.proxy")


class SourceQuestions:
    """Of all sessions."""

    def __init__(self, source_topics: SourceTopics) -> None:
        self._source_topics = source_topics
        self._names = AskedNames()

    async def ask(self, session: Session, names: Sequence[str]) -> Mapping[str, str] | None:
        """See `SourceTopics.exists_unmirrored`. The session is stalled. None: it is over, or was closed."""
        if not names:
            return {}
        wait_s = self._names.turn(session.principal or session.host, len(names), session.context.clock())
        if wait_s is None:
            session.close("too many names of topics asked for")
            return None
        if wait_s:
            await asyncio.sleep(wait_s)
        found = await self._source_topics.exists_unmirrored(names)
        return None if session.closed else found


def tell_unmirrored(stats: ProxyStats, session: Session, on_source: Mapping[str, str]) -> None:
    """A client has asked for topics that are on a source (-> its link) and not mirrored: it gets none of them."""
    who = session.identity
    client = f"{who.client_id or 'a client without an id'} at {who.host}" + (
        f" ({who.principal})" if who.principal else ""
    )
    for topic, link in on_source.items():
        left_out = stats.unmirrored.ask(topic, link, client, session.context.clock())
        if left_out is not None:
            _log.warning(
                "a client asks for a topic that is on the source and not mirrored: it gets none",
                topic=topic,
                client=client,
                link=link,
                requests_since=left_out,
                remedy=f"lockgate mirror create {topic} --link {link}",
            )
