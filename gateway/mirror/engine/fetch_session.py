"""An incremental fetch session with one source broker (KIP-227), without I/O.

The broker remembers which partitions are fetched from which offset; a request names only what changed: new
partitions, moved offsets, and partitions to forget. A partition that is left out of a session is not fetched, which is
how a partition pauses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from protocol.fetch import OPEN_SESSION, FetchPartition, Session, Topic

Key = tuple[Topic, int]
"""Topic (its name, or its id from Fetch v13 on) and partition."""


class SessionRequest(NamedTuple):
    """What the next request must say."""

    session: Session
    topics: dict[Topic, list[FetchPartition]]
    forgotten: dict[Topic, list[int]]


class FetchSession:
    """One session: `request`, then `answered`, in turn; `reset` when an answer was lost or refused."""

    __slots__ = ("_next", "_sent")

    def __init__(self) -> None:
        self._next = Session(epoch=OPEN_SESSION)
        self._sent: dict[Key, FetchPartition] = {}

    def request(self, wanted: Mapping[Key, FetchPartition]) -> SessionRequest:
        """The request that makes the broker fetch exactly `wanted`."""
        sent = self._sent
        topics: dict[Topic, list[FetchPartition]] = {}
        for key, partition in wanted.items():
            if sent.get(key) != partition:
                topics.setdefault(key[0], []).append(partition)
        forgotten: dict[Topic, list[int]] = {}
        if self._next.epoch != OPEN_SESSION:
            for topic, index in sent.keys() - wanted.keys():
                forgotten.setdefault(topic, []).append(index)
        self._sent = dict(wanted)
        return SessionRequest(self._next, topics, forgotten)

    def answered(self, session_id: int) -> None:
        """A response without a whole-response error came; session id 0 means that the broker keeps no session."""
        if session_id == 0:
            self.reset()
        else:
            self._next = Session(session_id, self._next.epoch).following

    def reset(self) -> None:
        """Open a new session with the next request."""
        self._next = Session(epoch=OPEN_SESSION)
        self._sent = {}
