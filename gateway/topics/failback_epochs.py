"""Forgets failback epochs that are kept of deleted mirrors (`state/failback_records.py`), once nobody needs them.

Needed is one whose topic is on the target, by its id, or that a mirror goes on with. Of the others the latest are kept,
for a mirror of the same source topic. Whether a topic is gone is asked again right before, and of the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from gateway.kafka.connection.errors import NetError
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.records import Records
from gateway.state.codec import Record, key_of
from gateway.state.failback_records import FORGOTTEN, MAX_GONE, FailbackEpochRecord, to_forget
from gateway.state.records import SequenceRecord
from gateway.state.store import StoreError

LOOK_EVERY_S: Final = 600.0
_AT_ONCE: Final = 1000
"""Topics in one request; and epochs that are forgotten in one look."""
_log = structlog.get_logger("lockgate.control")


class ForgetsFailbackEpochs:
    """Of one term of leadership. `most`: how many are kept whose topic is gone from the target."""

    def __init__(self, *, records: Records, target: ClusterAccess, most: int = MAX_GONE) -> None:
        self._store = records.store
        self._target = target
        self._most = most

    async def look(self) -> None:
        """Forget those that are too many. A target that does not answer has said nothing."""
        store = self._store
        kept = [one for one in store.failback_epochs.values() if store.mirror_of(one.mirror_topic) is None]
        if len(kept) <= self._most:
            return
        try:
            gone = await self._gone(kept)
            forgotten = [one for one in to_forget(gone, self._most)[:_AT_ONCE] if await self._is_gone(one)]
        except (NetError, TimeoutError, OSError) as exc:
            _log.info("failback epochs of deleted mirrors are looked at again", reason=str(exc))
            return
        if forgotten:
            await self._forget(forgotten)

    async def _gone(self, kept: Sequence[FailbackEpochRecord]) -> list[FailbackEpochRecord]:
        found: list[FailbackEpochRecord] = []
        for at in range(0, len(kept), _AT_ONCE):
            some = kept[at : at + _AT_ONCE]
            topics = await self._target.topics([one.mirror_topic for one in some])
            for one in some:
                topic = topics.get(one.mirror_topic)
                if topic is None or (one.mirror_topic_id and topic.topic_id != one.mirror_topic_id):
                    found.append(one)
        return found

    async def _is_gone(self, one: FailbackEpochRecord) -> bool:
        topic = (await self._target.topics([one.mirror_topic])).get(one.mirror_topic)
        if topic is not None:  # another one has its name
            return bool(one.mirror_topic_id) and topic.topic_id != one.mirror_topic_id
        return await self._target.is_absent(one.mirror_topic)

    async def _forget(self, forgotten: Sequence[FailbackEpochRecord]) -> None:
        store, epochs = self._store, sum(one.epoch for one in forgotten)
        changes: list[tuple[str, Record | None]] = [(key_of(one), None) for one in forgotten]
        if epochs:
            counted = SequenceRecord(FORGOTTEN, store.forgotten_failbacks + epochs)
            changes.append((key_of(counted), counted))
        unchanged = store.unchanged(forgotten)

        def still_unneeded() -> None:
            unchanged()
            if any(store.mirror_of(one.mirror_topic) is not None for one in forgotten):
                raise StoreError("a topic is mirrored again meanwhile")

        try:
            await store.write(changes, still_unneeded)
        except StoreError as exc:
            _log.info("failback epochs of deleted mirrors are looked at again", reason=str(exc))
            return
        _log.info("failback epochs of deleted mirrors are kept no more", topics=len(forgotten), epochs=epochs)
