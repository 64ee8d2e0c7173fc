"""Checks in every fresh view of the source whether the topic is still the one that is mirrored. No I/O."""

from __future__ import annotations

from typing import Final

from gateway.state.records import MirrorError

MISSING_S: Final = 300.0
"""The default of `cluster.link.retry.timeout.ms`. A topic must be absent from fresh metadata, refused, or lack
partitions for this long: a broker that has just started may not know the topic yet, brokers learn of added partitions
with a delay, and an ACL removed by mistake can be put back."""

_NO_ID: Final = frozenset({"", "A" * 22})  # unknown, and the all-zero id of clusters without topic ids


class SourceTopicWatch:
    """Args: the topic, its id when the mirror was created ("" when unknown), and its number of partitions.

    Attributes:
        patience_s: how long the topic may be missing, or refused.
    """

    __slots__ = ("_fewer_since", "_missing_since", "_partitions", "_refused_since", "_topic", "_topic_id", "patience_s")

    def __init__(self, topic: str, topic_id: str, partitions: int, patience_s: float = MISSING_S) -> None:
        self.patience_s = patience_s
        self._refused_since: float | None = None
        self._topic = topic
        self._topic_id = topic_id
        self._partitions = partitions
        self._missing_since: float | None = None
        self._fewer_since: float | None = None

    def found(self, topic_id: str, partitions: int, now: float) -> tuple[MirrorError, str] | None:
        """The topic exists. Returns why it cannot be mirrored any more, or None."""
        self._missing_since = self._refused_since = None
        if self._topic_id not in _NO_ID and topic_id not in _NO_ID and topic_id != self._topic_id:
            ids = f"its topic id is {topic_id}, the mirrored one was {self._topic_id}"
            message = f"the source topic {self._topic} was deleted and created again: {ids}"
            return MirrorError.SOURCE_TOPIC_ID_CHANGED, message
        if partitions >= self._partitions:
            self._fewer_since = None
            return None
        if self._fewer_since is None:
            self._fewer_since = now
        if now - self._fewer_since < self.patience_s:
            return None
        return (
            MirrorError.SOURCE_PARTITIONS_DECREASED,
            f"the source topic {self._topic} has {partitions} partitions, its mirror has {self._partitions}",
        )

    def missing(self, now: float) -> tuple[MirrorError, str] | None:
        """Fresh metadata does not have the topic. Returns an error once this has lasted for `patience_s`."""
        self._refused_since = None
        if self._missing_since is None:
            self._missing_since = now
        gone_s = now - self._missing_since
        if gone_s < self.patience_s:
            return None
        return (
            MirrorError.SOURCE_TOPIC_MAY_BE_DELETED,
            f"the source has not known the topic {self._topic} for {gone_s:.0f} s",
        )

    def refused(self, now: float) -> tuple[MirrorError, str] | None:
        """The source refuses to describe the topic. Returns an error once this has lasted for `patience_s`."""
        self._missing_since = None  # a topic that is refused is not known to be missing
        if self._refused_since is None:
            self._refused_since = now
        lasts_s = now - self._refused_since
        if lasts_s < self.patience_s:
            return None
        return (
            MirrorError.AUTHORIZATION_ERROR,
            f"the source has refused to describe the topic {self._topic} to this link for {lasts_s:.0f} s",
        )

    @property
    def lacks_partitions(self) -> bool:
        """True when the last look found fewer partitions than are mirrored."""
        return self._fewer_since is not None
