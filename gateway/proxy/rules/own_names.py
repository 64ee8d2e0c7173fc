"""The names of what is the gateway's own on the target: topics, groups and transactional ids.

A request that mostly passes without being decoded is searched for them as bytes: a hit says no more than that it has to
be looked at. Topic ids stand beside names, since Fetch has only them from version 13 on; those of `SEARCHED` topics are
searched for (the state's and the producers' first), those of offset maps beyond that are hidden with their names alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

PREFIX = "__lockgate"
SEARCHED = 8


def is_own(name: str) -> bool:
    """The name of something of the gateway's."""
    return name.startswith(PREFIX)


class OwnNames:
    """What to search requests for. `topic_ids`: of the gateway's own topics on the target."""

    __slots__ = ("_needles", "topic_ids")

    def __init__(self) -> None:
        self.topic_ids: frozenset[str] = frozenset()
        self._needles: tuple[bytes, ...] = (PREFIX.encode(),)

    def learn(self, topics: Mapping[str, bytes]) -> None:
        """The topics of the target, and their ids; zeros where there is none."""
        own = sorted((name.startswith(f"{PREFIX}_map."), name, topics[name]) for name in topics if is_own(name))
        ids = [topic_id for _, _, topic_id in own if any(topic_id)]
        self.topic_ids = frozenset(str(uuid.UUID(bytes=each)) for each in ids)
        self._needles = (PREFIX.encode(), *ids[:SEARCHED])

    def in_bytes(self, data: bytes) -> bool:
        """Whether a request may name one of them."""
        for needle in self._needles:  # noqa: SIM110 - a generator would cost more than the search
            if needle in data:
                return True
        return False
