"""Is the topic that holds a mirror's copy still the one that the mirror made? Asked of fresh metadata. Pure.

What one broker says is no proof. Brokers hear of topics one after the other, and one that is cut off from the
controller says for long what was so once: that a topic is not there yet, or that it has the id of one that was deleted.
So a topic counts as another one only when it was seen so for `PATIENCE_S`, at every look, and as deleted when its
controller says so on top.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gateway.state.records import MirrorError, MirrorRecord, MirrorState

PATIENCE_S: Final = 30.0

WATCHED: Final = frozenset(
    {
        MirrorState.ACTIVE,
        MirrorState.PAUSED,
        MirrorState.SOURCE_UNAVAILABLE,
        MirrorState.LINK_FAILED,
        MirrorState.PENDING_STOPPED,
    }
)
"""States in which the copy is the mirror's alone, and no operation deletes or creates it. A promote whose copy is gone
would wait for it without end."""


class Look(StrEnum):
    """What a look at a topic has found. ASK: whether it is deleted is to be asked of the controller."""

    FINE = "fine"
    WAIT = "wait"
    ASK = "ask"
    ANOTHER = "another"


class CopyTopicWatch:
    """One mirror's copy. `topic_id`: that the record has; "" when it is not known."""

    __slots__ = ("_other_since", "seen_id", "topic_id")

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id
        self.seen_id = ""
        self._other_since: float | None = None

    def look(self, found_id: str | None, now: float) -> Look:
        """Metadata was read at `now`, monotonic seconds. `found_id`: None when it does not have the topic."""
        is_same = found_id is not None and (not self.topic_id or found_id in ("", self.topic_id))
        if is_same:
            self._other_since, self.seen_id = None, ""
            return Look.FINE
        if self._other_since is None or self.seen_id != (found_id or ""):
            self._other_since, self.seen_id = now, found_id or ""
        if now - self._other_since < PATIENCE_S:
            return Look.WAIT
        return Look.ASK if found_id is None else Look.ANOTHER

    @property
    def doubted(self) -> bool:
        """It was not seen as it should be at the last look."""
        return self._other_since is not None

    def there(self) -> None:
        """The controller has the topic, whatever that broker said: begin to wait anew."""
        self._other_since, self.seen_id = None, ""


def failure(record: MirrorRecord, look: Look, seen_id: str) -> tuple[MirrorError, str]:
    """Why the mirror FAILs, of a look that is ASK (and the controller has no such topic) or ANOTHER."""
    name, where, own = record.mirror_topic, "target", record.mirror_topic_id
    way_out = "`mirror repair`"
    if record.is_reverse:  # the copy is on the source
        name, where, own = record.source_topic, "source", record.source_topic_id
        way_out = "`mirror truncate-and-restore`"
    if look is Look.ASK:
        message = f"topic {name} was deleted on the {where} by others; {way_out} creates it anew"
        return MirrorError.TARGET_TOPIC_MAY_BE_DELETED, message
    message = (
        f"topic {name} was deleted on the {where} and created again by others: its topic id is {seen_id}, the "
        f"mirror's was {own}; {way_out} makes it the mirror's own again"
    )
    return MirrorError.TARGET_TOPIC_ID_CHANGED, message


def is_watched(record: MirrorRecord) -> bool:
    """The copy's topic is to be looked at."""
    return record.created and not record.deletion and record.state in WATCHED
