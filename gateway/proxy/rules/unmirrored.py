"""Topics that clients ask for too early: they are on a source, and nobody mirrors them. Pure; clocks are arguments.

The client of such a topic sees UNKNOWN_TOPIC_OR_PARTITION, which its library asks about again some times a second until
it gives up without another word. So it is told here who asks and what to do: once per topic and minute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SAY_EVERY_S: Final = 60.0
RECENT_S: Final = 300.0
"""For how long one that asks no more is shown."""
_TOPICS: Final = 256


@dataclass(slots=True)
class _Asked:
    link: str
    client: str
    at: float
    said_at: float
    unsaid: int = 0


class Unmirrored:
    """The latest `_TOPICS` of them. `asked`: topic -> requests so far, for the metrics."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self._latest: OrderedDict[str, _Asked] = OrderedDict()

    def ask(self, topic: str, link: str, client: str, now: float) -> int | None:
        """A client asks for it: how many requests of the topic were not told of, when this one is to be; else None."""
        self.asked[topic] = self.asked.get(topic, 0) + 1
        before = self._latest.pop(topic, None)
        if before is None or now - before.said_at >= SAY_EVERY_S:
            self._keep(topic, _Asked(link, client, now, said_at=now))
            return 0 if before is None else before.unsaid
        self._keep(topic, _Asked(link, client, now, before.said_at, before.unsaid + 1))
        return None

    def _keep(self, topic: str, asked: _Asked) -> None:
        self._latest[topic] = asked
        if len(self._latest) > _TOPICS:
            self._latest.popitem(last=False)

    def recent(self, now: float) -> Mapping[str, tuple[str, str]]:
        """Topic -> link, and the client that asked last."""
        return {topic: (one.link, one.client) for topic, one in self._latest.items() if now - one.at < RECENT_S}
