"""Who may change a cluster now: the permits that a gateway's operations open the door for acts with (`kafka/acts.py`).

A permit says, each time that it is asked: this gateway still leads, in the term in which it decided; its lease is
valid, so no other one leads yet; and every record that the act was decided from is the very one that is stored. A
record is compared as a whole: its identity, epoch, direction, period and state are in it, and a change of anything else
is reason enough to decide again.

What concerns mirror topics is done under their locks (`mirror/TOPIC`), which a promote takes before it begins: so an
act is over, or its outcome unknown, before a topic can begin to change sides, and none is begun behind it.

    async with door.through(mirror):            # takes the locks, knows what became of the last write, asks once
        await copy.alter_topic_configs(...)     # asked again right before each try
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TypeAlias

from gateway.kafka.acts import ActRefused, Permit, permitted
from gateway.operations.records import Records
from gateway.state.codec import key_of
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord
from gateway.transport.locks import KeyedLocks

Basis: TypeAlias = MirrorRecord | LinkRecord | GroupRecord
"""A record that an act is decided from."""


class Door:
    """Of one term of leadership.

    Args:
        locks: of mirror topics, which promotes take as well.
        lease_valid: False when this gateway was not heard by its fleet for so long that another one may lead by now.
    """

    def __init__(self, records: Records, locks: KeyedLocks, lease_valid: Callable[[], bool]) -> None:
        self._store = records.store
        self._locks = locks
        self._lease_valid = lease_valid
        self._is_shut = False

    def shut(self) -> None:
        """The term is over: whatever still runs in it changes nothing any more."""
        self._is_shut = True

    def permit(self, *basis: Basis, also: Permit = lambda: None) -> AbstractContextManager[None]:
        """What is sent in this context is sent while all of `basis` is stored as it is given, and `also` agrees.

        For whoever holds the locks of the mirror topics concerned, or changes what no promote changes.

        Raises:
            ActRefused: on entering, when it may not even begin. So whatever `also` raises.
        """

        def require() -> None:
            self._require(basis)
            also()

        return permitted(require)

    @asynccontextmanager
    async def through(self, *mirrors: MirrorRecord) -> AsyncIterator[None]:
        """As `permit`, with the locks of these mirror topics held, and the outcome of the last write known.

        Raises:
            ActRefused: one of the records is not what is stored, or this gateway may not act now.
            StoreError: the outcome of the last write is not known.
        """
        async with self._locks.hold(*(f"mirror/{mirror.mirror_topic}" for mirror in mirrors)):
            await self._store.outcome_known()
            with self.permit(*mirrors):
                yield

    def _require(self, basis: tuple[Basis, ...]) -> None:
        if self._is_shut:
            raise ActRefused("this gateway does not lead any more")
        if not self._lease_valid():
            raise ActRefused(
                "this gateway was not heard by its fleet for too long, and another one may lead; ask again"
            )
        for record in basis:
            if self._store.get(key_of(record)) != record:
                raise ActRefused(f"{key_of(record)} was changed by another operation meanwhile; ask again")
