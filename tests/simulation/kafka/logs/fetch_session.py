"""Incremental fetch sessions (KIP-227) of one broker, as FetchSession.scala has them.

A full request (session epoch 0) opens a session when the cache has room; an incremental one names only what changed and
is answered only with what changed. Epoch -1 uses no session and closes the one it names.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias
from uuid import UUID

from protocol.errors import ErrorCode

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 0x7FFFFFFF
_EVICTION_S: Final = 120.0
_BY_ID_FROM: Final = 13

Key: TypeAlias = tuple[str | UUID | None, int]
"""(topic's name, or its id from v13 on; partition)"""


@dataclass(slots=True, eq=False)
class Wanted:
    """One partition of a fetch; in a session also what was last told of it."""

    topic: str | None
    topic_id: UUID | None
    index: int
    offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int
    told_high_watermark: int = -1
    told_log_start: int = -1

    def again(self, newer: Wanted) -> None:
        """The client asks for it anew."""
        self.offset, self.max_bytes = newer.offset, newer.max_bytes
        self.leader_epoch, self.last_epoch = newer.leader_epoch, newer.last_epoch


@dataclass(slots=True, eq=False)
class FetchSession:
    """A session: its partitions in the order in which they are read, and the epoch of the next request."""

    id: int
    by_id: bool
    partitions: dict[Key, Wanted]
    created: float
    used: float
    epoch: int = 1


@dataclass(slots=True)
class Context:
    """What a request comes to: the partitions to read, within a session or without."""

    wanted: dict[Key, Wanted] = field(default_factory=dict)
    session: FetchSession | None = None
    opens: bool = False
    error: ErrorCode = ErrorCode.NONE
    expected_epoch: int = 0


class FetchSessions:
    """The broker's cache of sessions; `slots` of them at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, slots: int) -> None:
        self._loop = loop
        self._rng = rng
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, version: int, message: Any, wanted: dict[Key, Wanted], forgotten: list[Key]) -> Context:
        """The partitions that a request is about."""
        session_id, epoch = (message.session_id, message.session_epoch) if version >= 7 else (NO_SESSION, FINAL_EPOCH)
        if epoch in (0, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            return Context(wanted, opens=epoch == 0)
        session = self._sessions.get(session_id)
        if session is None:
            return Context(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return Context(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (version >= _BY_ID_FROM):
            return Context(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        for key, newer in wanted.items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = newer
            else:
                known.again(newer)
        for key in forgotten:
            session.partitions.pop(key, None)
        if not session.partitions:
            del self._sessions[session_id]
            return Context(wanted)
        session.used = self._loop.time()
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return Context(session.partitions, session, expected_epoch=session.epoch)

    def open(self, version: int, partitions: dict[Key, Wanted]) -> int:
        """Keep a session for what has just been read; its id, 0 when there is no room."""
        now = self._loop.time()
        if len(self._sessions) >= self.slots and not self._evict(now, len(partitions)):
            return NO_SESSION
        session_id = self._rng.randrange(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, _LAST_EPOCH)
        self._sessions[session_id] = FetchSession(session_id, version >= _BY_ID_FROM, partitions, now, now)
        return session_id

    def _evict(self, now: float, size: int) -> bool:
        if not self._sessions:
            return False
        stale = min(self._sessions.values(), key=lambda session: (session.used, session.id))
        if now - stale.used <= _EVICTION_S:
            old = [session for session in self._sessions.values() if now - session.created > _EVICTION_S]
            if not old:
                return False
            stale = min(old, key=lambda session: (len(session.partitions), session.id))
            if len(stale.partitions) > size:
                return False
        del self._sessions[stale.id]
        return True
