"""An incremental fetch session with one source broker (KIP-227), without I/O.

The broker remembers which partitions are fetched from which offset; a request names only changes: new partitions, moved
offsets, and partitions to forget. To pause a partition, leave it out of the session: then it is not fetched. So neither
side spends anything on an idle partition.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.fetch import OPEN_SESSION, FetchPartition, FetchSessionId, Topic

Key = tuple[Topic, int]
"""Topic (its name, or its id from Fetch v13 on) and partition."""


class SessionRequest(NamedTuple):
    """The content of the next request."""

    session: FetchSessionId
    topics: dict[Topic, list[FetchPartition]]
    forgotten: dict[Topic, list[int]]


class FetchSession:
    """One session. `want` and `leave` set what is fetched; call `request` and `answered` in turn, and `reset` when an
    answer was lost or refused.

    Attributes:
        wanted: every partition to fetch. Read only.
    """

    __slots__ = ("_changed", "_known", "_left", "_next", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[Key, FetchPartition] = {}
        self._next = FetchSessionId(epoch=OPEN_SESSION)
        self._known: set[Key] = set()  # to the broker
        self._changed: dict[Key, None] = {}
        self._left: dict[Key, None] = {}

    def want(self, key: Key, partition: FetchPartition) -> None:
        """Fetch a partition with these settings from the next request on."""
        if self.wanted.get(key) != partition:
            self.wanted[key] = partition
            self._changed[key] = None
        self._left.pop(key, None)

    def leave(self, key: Key) -> None:
        """Do not fetch a partition from the next request on."""
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            if key in self._known:
                self._left[key] = None

    def request(self) -> SessionRequest:
        """The request that makes the broker fetch exactly `wanted`."""
        opens = self._next.epoch == OPEN_SESSION
        topics: dict[Topic, list[FetchPartition]] = {}
        for key in self.wanted if opens else self._changed:
            topics.setdefault(key[0], []).append(self.wanted[key])
            self._known.add(key)
        forgotten: dict[Topic, list[int]] = {}
        for key in self._left:
            forgotten.setdefault(key[0], []).append(key[1])
            self._known.discard(key)
        self._changed.clear()
        self._left.clear()
        return SessionRequest(self._next, topics, forgotten)

    def answered(self, session_id: int) -> None:
        """A response without a whole-response error came; session id 0 means that the broker keeps no session."""
        if session_id == 0:
            self.reset()
        else:
            self._next = FetchSessionId(session_id, self._next.epoch).following

    def reset(self) -> None:
        """Open a new session with the next request."""
        self._next = FetchSessionId(epoch=OPEN_SESSION)
        self._known.clear()
        self._left.clear()
