"""The names of what is the gateway's own on the target: topics, groups and transactional ids.

A Fetch has topic ids alone from version 13 on, so those of the gateway's own topics stand beside the names.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "__lockgate"
_PREFIX = PREFIX.encode()


def is_own(name: str) -> bool:
    """The name of something of the gateway's."""
    return name.startswith(PREFIX)


class OwnNames:
    """What to look for in requests. `ids`: of the gateway's own topics on the target, 16 bytes each."""

    __slots__ = ("_needles", "ids")

    def __init__(self) -> None:
        self.ids: frozenset[bytes] = frozenset()
        self._needles: tuple[bytes, ...] = (_PREFIX,)

    def learn(self, topics: Mapping[str, bytes]) -> None:
        """The topics of the target, and their ids; zeros where there is none."""
        self.ids = frozenset(topics[name] for name in topics if is_own(name) and any(topics[name]))
        self._needles = (_PREFIX, *self.ids)

    def in_bytes(self, data: bytes) -> bool:
        """Whether a request may name one of them."""
        return any(needle in data for needle in self._needles)
