"""A topic: its id, its partitions, and its configuration with what the broker's version has as defaults."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.partition import Partition

NEVER: Final = 9223372036854775807
GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL: Final = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)

_COMMON: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": str(NEVER),
    "flush.ms": str(NEVER),
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": str(NEVER),
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(NEVER),
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
_V3_9: Final[Mapping[str, str]] = {
    **_COMMON,
    "message.downconversion.enable": "true",
    "message.format.version": "3.0-IV1",
    "message.timestamp.after.max.ms": str(NEVER),
    "message.timestamp.difference.max.ms": str(NEVER),
}
TOPIC_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {"3.9.1": _V3_9, "4.3.1": _COMMON}
"""Topic configurations that nobody set, by Kafka version."""

BROKER_NAMES: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The broker configuration that a topic configuration falls back to."""


@dataclass(frozen=True)
class Settings:
    """A topic's effective configuration, parsed once for the paths that need it often."""

    values: Mapping[str, str]

    def _int(self, name: str) -> int:
        return int(self.values[name])

    @cached_property
    def max_message_bytes(self) -> int:
        """Largest batch."""
        return self._int("max.message.bytes")

    @cached_property
    def log_append_time(self) -> bool:
        """The broker stamps the records."""
        return self.values["message.timestamp.type"] == "LogAppendTime"

    @cached_property
    def timestamp_before_max_ms(self) -> int:
        """How much older than the broker's clock a record may be."""
        limit = self._int("message.timestamp.before.max.ms")
        return min(limit, int(self.values.get("message.timestamp.difference.max.ms", limit)))

    @cached_property
    def timestamp_after_max_ms(self) -> int:
        """How much newer than the broker's clock a record may be."""
        limit = self._int("message.timestamp.after.max.ms")
        return min(limit, int(self.values.get("message.timestamp.difference.max.ms", limit)))

    @cached_property
    def min_insync_replicas(self) -> int:
        """Replicas that must have a record before acks=all is answered."""
        return self._int("min.insync.replicas")

    @cached_property
    def retention_ms(self) -> int:
        """Age of what retention deletes, -1 for never."""
        return self._int("retention.ms")

    @cached_property
    def retention_bytes(self) -> int:
        """Size that retention leaves, -1 for any."""
        return self._int("retention.bytes")

    @cached_property
    def segment_bytes(self) -> int:
        """Size of a segment: only whole segments are deleted or compacted, never the active one."""
        return self._int("segment.bytes")

    @cached_property
    def segment_ms(self) -> int:
        """Age of a segment after which the next append begins another."""
        return self._int("segment.ms")

    @cached_property
    def compacted(self) -> bool:
        """The cleaner keeps the last record of each key."""
        return "compact" in self.values["cleanup.policy"]

    @cached_property
    def deleted(self) -> bool:
        """Retention applies."""
        return "delete" in self.values["cleanup.policy"]


@dataclass(eq=False)
class Topic:
    """A topic that exists. `overrides` are the configurations set on it; `settings` what holds."""

    name: str
    id: UUID
    replication_factor: int
    defaults: Mapping[str, str]
    overrides: dict[str, str] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)
    deleted: bool = False
    settings: Settings = field(init=False)
    _heard: dict[int, Settings] = field(default_factory=dict)  # broker -> what holds there, if not `settings`

    def __post_init__(self) -> None:
        self.configure({})

    @property
    def is_internal(self) -> bool:
        """One of the broker's own."""
        return self.name in INTERNAL

    def configure(self, changes: Mapping[str, str | None]) -> None:
        """Set configurations; None takes one back to the default."""
        for name, value in changes.items():
            if value is None:
                self.overrides.pop(name, None)
            else:
                self.overrides[name] = value
        self.settings = Settings({**self.defaults, **self.overrides})

    def settings_at(self, broker: int) -> Settings:
        """What holds at a broker, which hears of a change after the controller has answered for it."""
        return self._heard.get(broker, self.settings) if self._heard else self.settings

    def unheard(self, broker: int, before: Settings) -> None:
        """A broker goes by what held `before` until it hears of a change."""
        self._heard.setdefault(broker, before)

    def heard(self, broker: int) -> None:
        """A broker has heard of all changes."""
        self._heard.pop(broker, None)


@functools.cache  # asked for the same few names with each request to a coordinator
def java_hash(text: str) -> int:
    """`Utils.abs(text.hashCode())` of Java: which partition of an internal topic a group or transactional id has."""
    value = 0
    data = text.encode("utf-16-be")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return value if value < 0x80000000 else 0x100000000 - value
