"""What a migration does not carry over by itself, with what differs: so that nobody learns of it from clients. Pure.

* **Delegation tokens** are signed with the key of their cluster. Clients get new ones on the target.
* **Feature levels** (`metadata.version`, `group.version`, `share.version`, …) are a cluster's own state of upgrade.
* **Broker-side defaults** hold for topics and clients that say nothing themselves. Those that a client can notice are
  compared; what is set on a topic is the mirror's to copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

NOTICED: Final = (
    "auto.create.topics.enable",
    "compression.type",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "group.share.record.lock.duration.ms",
    "log.cleanup.policy",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.ms",
    "log.retention.hours",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.retention.minutes",
    "producer.id.expiration.ms",
    "transaction.max.timeout.ms",
    "transactional.id.expiration.ms",
    "unclean.leader.election.enable",
)
"""Configs of brokers that clients can notice."""
MOST_OWNERS: Final = 100
"""Owners of tokens that are named."""


class NotCopiedKind(StrEnum):
    """What is not copied."""

    DELEGATION_TOKENS = "DELEGATION_TOKENS"
    FEATURE_LEVEL = "FEATURE_LEVEL"
    BROKER_DEFAULT = "BROKER_DEFAULT"


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Of one cluster. `owners`: principal -> tokens of it that the gateway's principal may see. `features`: name ->
    level. `defaults`: those of `NOTICED` that a broker has. `unknown`: what could not be read, and why."""

    owners: Mapping[str, int] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[NotCopiedKind, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotCopied:
    """One thing. `source`, `target`: what each side has, '' for nothing. `detail`: what to do about it."""

    kind: NotCopiedKind
    name: str
    source: str
    target: str
    detail: str


_TOKENS: Final = "the target's are made anew there, by who uses them"
_FEATURE: Final = "a level of the cluster: `kafka-features.sh upgrade` where clients need it"
_DEFAULT: Final = "a default of brokers: set it on the target's, or on the topic, where clients count on it"


def not_copied(source: ClusterSettings, target: ClusterSettings) -> list[NotCopied]:
    """What differs, kind by kind, in order of names; and what could not be found out."""
    owners = [
        NotCopied(NotCopiedKind.DELEGATION_TOKENS, owner, str(count), "", _TOKENS)
        for owner, count in sorted(source.owners.items())[:MOST_OWNERS]
    ]
    rest = sum(source.owners.values()) - sum(int(one.source) for one in owners)
    if rest:
        owners.append(NotCopied(NotCopiedKind.DELEGATION_TOKENS, "others", str(rest), "", _TOKENS))
    features = {name: str(level) for name, level in source.features.items()}
    on_target = {name: str(level) for name, level in target.features.items()}
    return [
        *owners,
        *_differing(NotCopiedKind.FEATURE_LEVEL, features, on_target, _FEATURE),
        *_differing(NotCopiedKind.BROKER_DEFAULT, source.defaults, target.defaults, _DEFAULT),
        *_unknown(source, target),
    ]


def _differing(
    kind: NotCopiedKind, source: Mapping[str, str], target: Mapping[str, str], detail: str
) -> list[NotCopied]:
    return [
        NotCopied(kind, name, source.get(name, ""), target.get(name, ""), detail)
        for name in sorted({*source, *target})
        if source.get(name) != target.get(name)
    ]


def _unknown(source: ClusterSettings, target: ClusterSettings) -> list[NotCopied]:
    return [
        NotCopied(kind, "", "", "", f"not known of the {where}: {found.unknown[kind]}")
        for kind in NotCopiedKind
        for where, found in (("source", source), ("target", target))
        if kind in found.unknown
    ]
