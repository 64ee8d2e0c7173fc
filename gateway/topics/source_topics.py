"""Which topics exist on a source without being mirrored: what the proxy must not create on the target."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.kafka.rules.names import is_internal
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.records import LinkRecord
from gateway.state.views import StateViews

_KNOWN_S = 5.0
_ANSWER_S = 1.8  # the port promises an answer within 2 s
_KEPT: Final = 10_000  # answers, the latest; more than are asked for in one question


class UnmirroredTopics:
    """Implements `SourceTopics`. Each answer is kept for 5 seconds per link and name, as long as there is room."""

    def __init__(self, store: StateViews, sources: Sources, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._sources = sources
        self._clock = clock
        self._seen: OrderedDict[tuple[str, str], tuple[float, bool]] = OrderedDict()

    async def exists_unmirrored(self, topics: Sequence[str]) -> Mapping[str, str]:
        """See the port. A source that does not answer counts as having every name it was not asked before.

        Names are the target's: a link with a prefix is asked only about those that begin with it.
        """
        mirrored = {topic for _, topic in self._store.mirrors}
        names = [topic for topic in dict.fromkeys(topics) if topic not in mirrored]
        links = list(self._store.links.values())
        if not names or not links:
            return {}
        found: dict[str, str] = {}
        answers = await asyncio.gather(*(self._existing(link, names) for link in links))
        for link, existing in zip(links, answers, strict=True):
            for name in existing:
                found.setdefault(name, link.name)
        return found

    async def _existing(self, link: LinkRecord, names: Sequence[str]) -> list[str]:
        now, config = self._clock(), link_config.parse(link.configs)
        names = [name for name in names if is_mirrorable(config.source_topic(name))]
        seen = {name: self._seen[link.name, name] for name in names if (link.name, name) in self._seen}
        known = {name: is_there for name, (at, is_there) in seen.items() if now - at < _KNOWN_S}
        if ask := [name for name in names if name not in known]:
            try:
                async with asyncio.timeout(_ANSWER_S):
                    present = await self._ask(link, ask)
            except (ControlError, NetError, TimeoutError, OSError):
                # Not remembered: once the source is back, the next question gets its answer. An older answer
                # of "absent" still counts: the topic was asked for before, and creating it was right then.
                return [name for name in names if seen.get(name, (now, True))[1]]
            self._remember(link.name, ask, present, now)
            known |= {name: name in present for name in ask}
        return [name for name in names if known[name]]

    async def _ask(self, link: LinkRecord, names: Sequence[str]) -> frozenset[str]:
        access = await self._sources.reach(link)
        config = link_config.parse(link.configs)
        there = await access.topics([config.source_topic(name) or name for name in names])
        return frozenset(config.mirror_topic(topic) for topic in there)

    def _remember(self, link: str, asked: Sequence[str], present: frozenset[str], now: float) -> None:
        seen = self._seen
        for name in asked:
            seen[link, name] = (now, name in present)
            seen.move_to_end((link, name))
        while len(seen) > _KEPT:
            seen.popitem(last=False)


def is_mirrorable(source_topic: str | None) -> bool:
    """False for None and for topics that are internal to a cluster."""
    return source_topic is not None and not is_internal(source_topic)
