"""Configurations of topics and brokers: their types, what values a broker takes, and the brokers' own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_LONG_MAX: Final = (1 << 63) - 1
_INT_MAX: Final = (1 << 31) - 1

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kafka's ConfigType as DescribeConfigs tells it."""


class Spec(NamedTuple):
    """One configuration: its type, the lowest and highest number, or the words it may be (or be made of, as a list)."""

    type: int
    low: float = 0
    high: float = _LONG_MAX
    words: tuple[str, ...] = ()

    def takes(self, value: str) -> bool:
        """A broker would accept the value."""
        if self.type == BOOLEAN:
            return value.lower() in ("true", "false")
        if self.type in (INT, LONG, DOUBLE):
            return self._takes_number(value)
        if self.type == LIST:
            return not self.words or all(part.strip() in self.words for part in value.split(",") if part.strip())
        return not self.words or value in self.words

    def _takes_number(self, value: str) -> bool:
        try:
            number = float(value) if self.type == DOUBLE else int(value)
        except ValueError:
            return False
        high = min(self.high, _INT_MAX) if self.type == INT else self.high
        return self.low <= number <= high


TOPIC_SPECS: Final[Mapping[str, Spec]] = {
    "cleanup.policy": Spec(LIST, words=("compact", "delete")),
    "compression.gzip.level": Spec(INT, -1, 9),
    "compression.lz4.level": Spec(INT, 1, 17),
    "compression.type": Spec(STRING, words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    "compression.zstd.level": Spec(INT, -131072, 22),
    "delete.retention.ms": Spec(LONG),
    "file.delete.delay.ms": Spec(LONG),
    "flush.messages": Spec(LONG, 1),
    "flush.ms": Spec(LONG),
    "follower.replication.throttled.replicas": Spec(LIST),
    "index.interval.bytes": Spec(INT),
    "leader.replication.throttled.replicas": Spec(LIST),
    "local.retention.bytes": Spec(LONG, -2),
    "local.retention.ms": Spec(LONG, -2),
    "max.compaction.lag.ms": Spec(LONG, 1),
    "max.message.bytes": Spec(INT),
    "message.downconversion.enable": Spec(BOOLEAN),
    "message.format.version": Spec(STRING),
    "message.timestamp.after.max.ms": Spec(LONG),
    "message.timestamp.before.max.ms": Spec(LONG),
    "message.timestamp.difference.max.ms": Spec(LONG),
    "message.timestamp.type": Spec(STRING, words=("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": Spec(DOUBLE, 0, 1),
    "min.compaction.lag.ms": Spec(LONG),
    "min.insync.replicas": Spec(INT, 1),
    "preallocate": Spec(BOOLEAN),
    "remote.log.copy.disable": Spec(BOOLEAN),
    "remote.log.delete.on.disable": Spec(BOOLEAN),
    "remote.storage.enable": Spec(BOOLEAN),
    "retention.bytes": Spec(LONG, -_LONG_MAX),
    "retention.ms": Spec(LONG, -1),
    "segment.bytes": Spec(INT, 14),
    "segment.index.bytes": Spec(INT, 4),
    "segment.jitter.ms": Spec(LONG),
    "segment.ms": Spec(LONG, 1),
    "unclean.leader.election.enable": Spec(BOOLEAN),
}
"""Topic configurations, by name."""

BROKER_DEFAULTS: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "1800000",
    "group.min.session.timeout.ms": "6000",
    "log.retention.ms": "604800000",
    "message.max.bytes": "1048588",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
}
"""Broker configurations that are shown, and Kafka's defaults."""
