"""Which topic configs a mirror topic takes over from its source topic, and how they differ now. Pure.

The lists are Confluent's: some configs are always synced, some by default, unless `topic.config.sync.include`
leaves them out. What is synced is the *effective* value, since the defaults of two clusters differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

BEFORE_MAX = "message.timestamp.before.max.ms"
AFTER_MAX = "message.timestamp.after.max.ms"
DIFFERENCE_MAX = "message.timestamp.difference.max.ms"  # until Kafka 3.9; replaced by the two above (KIP-937)
TIMESTAMP_TYPE = "message.timestamp.type"
LONG_MAX = str(2**63 - 1)

INTERNAL: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "retention.ms": "-1", TIMESTAMP_TYPE: "LogAppendTime"}
)
"""Of the topics that lockgate keeps on the target. The broker stamps their records: with a gateway's own time, a broker
refuses what a clock that is more than an hour ahead has stamped."""


_DELETES_KEPT: Final = 24 * 3_600_000  # Kafka's default of delete.retention.ms
READ_WITHIN_S: Final = _DELETES_KEPT / 1000 / 4
"""Whoever follows a topic of our own and has read nothing of it for so long (stopped, or cut off) may miss a deletion
soon, whose record the cleaner removes `delete.retention.ms` later: it reads all of the topic anew."""


def durable(replicas: int) -> dict[str, str]:
    """What a topic of our own with so many replicas must have, so that what it decides is not lost with one disk.

    With `min.insync.replicas` 1 an append with acks=all is on one broker alone once the others are out of sync. What
    deletes a key is kept for as long as `READ_WITHIN_S` counts on.
    """
    return {
        "min.insync.replicas": str(min(2, replicas)),
        "unclean.leader.election.enable": "false",
        "delete.retention.ms": str(_DELETES_KEPT),
    }


def not_durable(configs: Mapping[str, str], replicas: int) -> dict[str, str]:
    """Of a topic with these configs, what is to be set: more than `durable` asks for is its administrator's choice."""
    wanted = durable(replicas)
    for name, default in (("min.insync.replicas", 1), ("delete.retention.ms", _DELETES_KEPT)):
        if int(configs.get(name) or default) >= int(wanted[name]):
            del wanted[name]
    if configs.get("unclean.leader.election.enable", "false").lower() == "false":
        del wanted["unclean.leader.election.enable"]
    return wanted


OWN = "<default>"
"""In place of a value to be set back: the topic had none of its own, so its cluster's default holds again."""

ALWAYS_SYNCED = ("max.message.bytes", "cleanup.policy", TIMESTAMP_TYPE, DIFFERENCE_MAX, BEFORE_MAX, AFTER_MAX)
DEFAULT_SYNCED = (
    "retention.bytes",
    "retention.ms",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)
OPTIONALLY_SYNCED = (
    "compression.type",
    "file.delete.delay.ms",
    "min.cleanable.dirty.ratio",
    "min.insync.replicas",
    "segment.bytes",
    "segment.jitter.ms",
    "segment.ms",
)
_TIMESTAMP_LIMITS = frozenset({DIFFERENCE_MAX, BEFORE_MAX, AFTER_MAX})

LIFTED = {
    # The mirror writes the source's timestamps; the target must not put its own in their place.
    TIMESTAMP_TYPE: "CreateTime",
    # A source's log may hold batches that are larger than its limit is now, or that grow when they are converted.
    "max.message.bytes": str(2**31 - 1),
    # Batches stay compressed as they are.
    "compression.type": "producer",
    # The target's segments end elsewhere than the source's: by its own retention it would delete records that the
    # source still has, and groups have committed offsets of. Its log start follows the source's instead.
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""What a mirror topic has while it is mirrored. The timestamp limits come on top, under the names the target knows."""

RETENTION: Final = ("retention.ms", "retention.bytes")
"""Lifted only where both are synced. With one of them left out of `topic.config.sync.include` the mirror topic's
retention is independent: its own values hold while it is mirrored, too, and log starts are not followed."""

CONCERNED: Final = tuple(dict.fromkeys((*ALWAYS_SYNCED, *DEFAULT_SYNCED, *OPTIONALLY_SYNCED, *LIFTED)))
"""All that is looked at here: a topic has twice as many configs."""


@dataclass(frozen=True, slots=True)
class SyncedConfigs:
    """What a mirror topic shall have: `apply` now, `restore` when it is promoted.

    Whatever would make the target change, refuse or delete what the mirror appends is lifted while mirrored; the real
    values wait in `restore`, where `OWN` stands for "no value of the topic's own".
    """

    apply: Mapping[str, str] = field(default_factory=dict)
    restore: Mapping[str, str] = field(default_factory=dict)

    def at_promote(self) -> dict[str, str | None]:
        """What `restore` sets back: None where the cluster's default holds again."""
        return {name: None if value == OWN else value for name, value in self.restore.items()}


def synced_configs(
    source: Mapping[str, str],
    target_names: Iterable[str],
    include: Iterable[str],
    own: Mapping[str, str] = MappingProxyType({}),
) -> SyncedConfigs:
    """The mirror topic's synced configs, from the source topic's effective ones.

    Args:
        source: the source topic's effective configs.
        target_names: the config names the target knows (they change between Kafka versions); others are left out.
        include: what is synced beside the configs that always are.
        own: what the lifted configs that are not synced shall be at promote; `OWN` for those it lacks.
    """
    known, include = frozenset(target_names), tuple(include)
    synced = {name: source[name] for name in (*ALWAYS_SYNCED, *include) if name in known and name in source}
    restore = {name: value for name, value in timestamp_limits(source).items() if name in known}
    if BEFORE_MAX not in known and DIFFERENCE_MAX in known:  # a target before 3.6
        restore = {DIFFERENCE_MAX: min(timestamp_limits(source).values(), key=int)}
    lift = [name for name in LIFTED if name in known and (name not in RETENTION or follows_log_starts(include))]
    lifted = {**{name: LIFTED[name] for name in lift}, **dict.fromkeys(restore, LONG_MAX)}
    apply = {name: value for name, value in synced.items() if name not in _TIMESTAMP_LIMITS}
    restore |= {name: synced.get(name, own.get(name, OWN)) for name in lift}
    return SyncedConfigs({**apply, **lifted}, restore)


def mirror_configs(
    source: Mapping[str, str],
    target_names: Iterable[str],
    include: Iterable[str],
    own: Mapping[str, str] = MappingProxyType({}),
    overrides: Mapping[str, str] = MappingProxyType({}),
) -> SyncedConfigs:
    """As `synced_configs`, of a topic that has configs of its own: those are not synced, whatever `include` says.

    One that is lifted while mirrored has its own value from the promote on.

    Args:
        overrides: what the topic was given at create; none that is always synced (`why_no_override`).
    """
    found = synced_configs(
        source, target_names, [name for name in include if name not in overrides], {**own, **overrides}
    )
    at_once = {name: value for name, value in overrides.items() if name not in found.restore}
    return SyncedConfigs({**found.apply, **at_once}, found.restore)


def why_no_override(overrides: Mapping[str, str], target_names: Iterable[str]) -> str:
    """Why a mirror topic cannot have these configs of its own, naming the first; '' when it can."""
    known = frozenset(target_names)
    for name in overrides:
        if name in ALWAYS_SYNCED:
            return (
                f"{name} cannot be given: it is always synced from the source topic, as are "
                f"{', '.join(other for other in ALWAYS_SYNCED if other != name)}"
            )
        if name not in known:
            return f"{name} is no topic config that the target knows"
    return ""


def follows_log_starts(include: Iterable[str]) -> bool:
    """Whether a copy deletes what its origin has deleted, and nothing else; False: it has a retention of its own."""
    return set(RETENTION) <= set(include)


def given_back(lifted: Mapping[str, str], wanted: SyncedConfigs) -> dict[str, str]:
    """What a mirror topic gets back at once, as `set_back` takes it: its retention, when that becomes independent.

    Args:
        lifted: what its record says is to be set back.
    """
    return {
        name: value
        for name, value in lifted.items()
        if name in RETENTION and name not in wanted.restore and name not in wanted.apply
    }


def configs_at_cutover(
    origin: Mapping[str, str], copy: Mapping[str, str], include: Iterable[str], lifted: Mapping[str, str]
) -> dict[str, str]:
    """All that is set on a copy at its cutover, as `set_back` takes it: what was lifted, and what is not synced yet.

    Args:
        origin, copy: the topics' effective configs.
        lifted: what the mirror's record says is to be set back.
    """
    wanted = synced_configs(origin, copy, include, lifted)
    late = {name: value for name, value in config_changes(wanted.apply, copy).items() if name not in wanted.restore}
    return {**late, **given_back(lifted, wanted), **wanted.restore}


def set_back(restore: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """What to set, and what to take back to the cluster's default, so that `restore` holds."""
    values = {name: value for name, value in restore.items() if value != OWN}
    return values, tuple(name for name, value in restore.items() if value == OWN)


def stamps_itself(restore: Mapping[str, str]) -> bool:
    """True when the topic gets its own timestamps again (LogAppendTime) at promote."""
    return restore.get(TIMESTAMP_TYPE) == "LogAppendTime"


def stamp_changes(restore: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Of what is set back on a topic that `stamps_itself`: what is set first, and what later.

    Both are told by a leader only once it has them; and when it tells of the later one, the first is in force in its
    logs (`topics/lifted_configs.py`). The later one is another value than the copy had, or empty.
    """
    later = {name: value for name, value in restore.items() if value not in (OWN, LIFTED.get(name))}
    first = {TIMESTAMP_TYPE: later.pop(TIMESTAMP_TYPE)}
    return first, dict([(name, value) for name, value in later.items() if name in LIFTED][:1])


def timestamp_limits(source: Mapping[str, str]) -> dict[str, str]:
    """The source's limits under the two names of Kafka 3.6 and later.

    Where both forms exist (3.6 to 3.9) the broker takes the old one when it is set at all (KIP-937).
    """
    difference = source.get(DIFFERENCE_MAX, LONG_MAX)
    if difference != LONG_MAX:
        return {BEFORE_MAX: difference, AFTER_MAX: difference}
    return {BEFORE_MAX: source.get(BEFORE_MAX, LONG_MAX), AFTER_MAX: source.get(AFTER_MAX, LONG_MAX)}


def config_changes(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The wanted configs whose present value differs. Lists are compared as sets: their order means nothing."""
    return {name: value for name, value in wanted.items() if _canonical(value) != _canonical(present.get(name))}


def _canonical(value: str | None) -> object:
    if value is None or "," not in value:
        return value
    return frozenset(item.strip() for item in value.split(","))


def unmirrorable(source: Mapping[str, str]) -> str:
    """Why a topic with these configs cannot be mirrored with equal offsets; '' when it can, as far as they tell."""
    policies = {policy.strip() for policy in source.get("cleanup.policy", "delete").split(",")}
    if "compact" in policies:
        return (
            "cleanup.policy is compact: its log has offset gaps, and a log with offset gaps cannot be "
            "written at equal offsets"
        )
    return ""
