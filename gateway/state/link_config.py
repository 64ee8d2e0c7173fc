"""The options of a cluster link: names, defaults, validation. Names are Confluent's where it has the option."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from gateway.close_names import did_you_mean
from gateway.kafka.rules.principal_mapping import DEFAULT
from gateway.kafka.rules.topic_configs import ALWAYS_SYNCED, DEFAULT_SYNCED, OPTIONALLY_SYNCED
from gateway.state.ack import Ack
from gateway.state.acls.acl_options import NO_ACLS, AclFilters, hosts, parse_acl_filters, principal_rules
from gateway.state.name_filters import ALL_NAMES, NO_NAMES, NameFilters, parse_filters
from gateway.state.schemas.schema_options import (
    ID_PLACES,
    SchemaGateMode,
    SchemaIds,
    SchemaVersions,
    id_places,
    schema_gate,
    schema_ids,
    schema_versions,
    subject_filters,
)

# Start offsets are timestamps as ListOffsets takes them (KIP-79): two negative ones have a meaning.
EARLIEST = -2
LATEST = -1

MIN_SYNC_MS = 1_000
AUTO_CREATE = "auto.create.mirror.topics.enable"
AUTO_CREATE_FILTERS = "auto.create.mirror.topics.filters"
AUTO_CREATE_LIMIT = "auto.create.mirror.topics.limit"
ACL_SYNC = "acl.sync.enable"
ACL_FILTERS = "acl.filters"
ACL_PRINCIPALS = "acl.sync.principal.mapping.rules"
ACL_WRITE_HOSTS = "acl.sync.write.hosts"
ACL_OWN_TOPICS = "acl.sync.own.topics.enable"
SCHEMA_SYNC = "schema.sync.enable"
SCHEMA_IDS = "schema.ids"
SCHEMA_TRANSLATE = "schema.translate.topic.filters"
LESS_DURABLE = "promote.less.durable.topic.filters"
MAX_PREFIX = 12  # Confluent's limit
MAX_RACK = 255
MAX_KEEP_MS = 365 * 86_400_000
_DURATION = re.compile(r"(\d{1,12})(s|m|h|d|)")
_UNITS_MS: Mapping[str, int] = {"": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PREFIX = re.compile(r"[a-zA-Z0-9._-]*")


class Offsets(StrEnum):
    """AUTO: equal on both clusters where that is possible, else translated. PRESERVE: equal, or the mirror fails."""

    AUTO = "auto"
    PRESERVE = "preserve"


class LinkIdentity(StrEnum):
    """As whom the source is asked for clients: as the link, or as the client itself, by a delegation token."""

    LINK = "link"
    CLIENT = "client"


class LinkConfigError(ValueError):
    """A link option that is unknown or has a bad value. One line, naming the option."""


class OnRecordsDeleted(StrEnum):
    """What becomes of a mirror whose source deletes records before they were mirrored: FAILED, or on without them."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """A link's options, parsed.

    `start_timestamp`: EARLIEST, LATEST, or milliseconds since the epoch. `throttle_bytes_per_second`: 0 = none.
    `replication_factor`: of mirror topics; None = the source's, at most the number of target brokers.
    `sync_ms`: how often topic configs are synced, in milliseconds. `sync_include`: configs synced beside the
    ones that always are. `prefix`: a mirror topic is named prefix + source topic; `prefix_groups`: mirror groups are
    named so too. `offset_sync`: commit translated offsets of the groups that pass `offset_sync_groups` every
    `offset_sync_ms` milliseconds, while they are not promoted. `client_topics`: the source topics that clients may
    write as the link's principal. `allow_unauthorized_target`: though the target has no authorizer that says who may.
    `identity`: as whom what clients write is sent to the source. `post_promote_watch_ms`: how long after its cutover a
    promoted topic's source is looked at for records that came too late, in milliseconds; 0 = not at all.
    `paused`: nothing of the link is mirrored or synced. `retry_timeout_ms`: how long what the source refuses is tried
    again before the link, or the mirror topic, counts as failed.
    `client_rack`: the source rack that is near; '' = the partitions' leaders are read (KIP-392).
    `auto_create`: mirror topics are created for the source topics that pass `auto_create_filters` (none while it is
    off), at most `auto_create_limit` of them in one round.
    `acl_sync`: the source's ACLs that pass `acl_filters` (none while it is off) are copied every `acl_sync_ms`
    milliseconds, with the principals that `acl_principals` makes of them (Kafka's mapping rules). `acl_write_hosts`:
    addresses from which mirror topics may be changed before they are promoted; `acl_own_topics`: ACLs that are about
    the gateways' own topics, too, are copied as well.
    `schema_sync`: schemas of subjects that pass `schema_subjects` are copied every `schema_sync_ms` milliseconds from
    the registry of the source to that of the target; which `schema_versions`, and with which `schema_ids`.
    `schema_deleted`: soft-deleted versions, too; `schema_normalize`: have the target normalize them.
    `schema_gate`: what a promote does while ids that records have are not known to the target's registry.
    `schema_translated`: source topics whose mirrors write the ids in their records anew, where `schema_places` says;
    for `schema_wait_ms` milliseconds a partition waits for an id that is not in the id map before its mirror fails.
    `failback_keep_ms`: for how long after a promote a mirror back is kept that begins by itself, in milliseconds; 0:
    none begins. It is given as a number, or with a unit: 90s, 30m, 24h, 7d.
    `less_durable`: source topics that may be promoted, or go home, though acks=all promises less on the other side.
    """

    ack: Ack = Ack.SOURCE
    start_timestamp: int = EARLIEST
    sync_include: tuple[str, ...] = DEFAULT_SYNCED
    sync_ms: int = 5_000
    throttle_bytes_per_second: int = 0
    replication_factor: int | None = None
    groups_auto_promote: bool = True
    prefix: str = ""
    prefix_groups: bool = False
    offset_sync: bool = False
    offset_sync_ms: int = 30_000
    offset_sync_groups: NameFilters = ALL_NAMES
    offsets: Offsets = Offsets.AUTO
    on_records_deleted: OnRecordsDeleted = OnRecordsDeleted.FAIL
    client_topics: NameFilters = ALL_NAMES
    allow_unauthorized_target: bool = False
    identity: LinkIdentity = LinkIdentity.LINK
    post_promote_watch_ms: int = 86_400_000
    paused: bool = False
    retry_timeout_ms: int = 300_000
    client_rack: str = ""
    auto_create: bool = False
    auto_create_filters: NameFilters = NO_NAMES
    auto_create_limit: int = 100
    acl_sync: bool = False
    acl_filters: AclFilters = NO_ACLS
    acl_sync_ms: int = 5_000
    acl_principals: str = DEFAULT
    acl_write_hosts: tuple[str, ...] = ()
    acl_own_topics: bool = False
    schema_sync: bool = False
    schema_sync_ms: int = 60_000
    schema_subjects: NameFilters = ALL_NAMES
    schema_versions: SchemaVersions = SchemaVersions.ALL
    schema_ids: SchemaIds = SchemaIds.FIXED
    schema_deleted: bool = True
    schema_normalize: bool = False
    schema_gate: SchemaGateMode = SchemaGateMode.WAIT
    schema_translated: NameFilters = NO_NAMES
    schema_places: tuple[str, ...] = ID_PLACES
    schema_wait_ms: int = 3_600_000
    failback_keep_ms: int = 0
    less_durable: NameFilters = NO_NAMES

    def mirror_topic(self, source_topic: str) -> str:
        """The mirror topic's name of a source topic."""
        return self.prefix + source_topic

    def source_topic(self, mirror_topic: str) -> str | None:
        """The source topic that a name on the target would mirror; None when it is no name of this link."""
        if not mirror_topic.startswith(self.prefix):
            return None
        return mirror_topic[len(self.prefix) :] or None

    def source_group(self, group: str) -> str | None:
        """The source group that a group's name on the target stands for; None when it is no name of this link."""
        if not self.prefix_groups:
            return group
        return self.source_topic(group)

    def target_group(self, source_group: str) -> str:
        """The name on the target of a group of the source."""
        return self.prefix + source_group if self.prefix_groups else source_group


def parse(configs: Mapping[str, str]) -> LinkConfig:
    """Parse and validate a link's options; absent ones get their default.

    Raises:
        LinkConfigError: an unknown option or a bad value.
    """
    return _parsed(tuple(configs.items()))


@lru_cache(maxsize=256)  # links; they are asked for with every record that changes
def _parsed(configs: tuple[tuple[str, str], ...]) -> LinkConfig:
    values: dict[str, Any] = {}
    for name, text in as_stored(dict(configs)).items():
        option = _OPTIONS.get(name)
        if option is None:
            near = did_you_mean(name, OPTION_NAMES)
            raise LinkConfigError(f"{name}: unknown link option{near}; known: {', '.join(sorted(OPTION_NAMES))}")
        attribute, read, _ = option
        try:
            values[attribute] = read(text.strip())
        except ValueError as exc:
            raise LinkConfigError(f"{name}: {exc}") from exc
    config = LinkConfig(**values)
    if config.prefix_groups and not config.prefix:
        raise LinkConfigError("consumer.group.prefix.enable: needs link.prefix")
    if config.paused and config.ack is Ack.BOTH:
        raise LinkConfigError(
            "cluster.link.paused: with ack=both clients' writes wait for the mirror, so they would time out; set "
            "ack=source first"
        )
    if config.auto_create and not config.auto_create_filters.filters:
        raise LinkConfigError(f"{AUTO_CREATE}: needs {AUTO_CREATE_FILTERS} with at least one filter")
    if config.auto_create_filters.filters and not config.auto_create:
        raise LinkConfigError(f"{AUTO_CREATE_FILTERS}: needs {AUTO_CREATE}=true")
    if config.acl_sync and not config.acl_filters.filters:
        raise LinkConfigError(f"{ACL_SYNC}: needs {ACL_FILTERS} with at least one filter")
    if config.acl_filters.filters and not config.acl_sync:
        raise LinkConfigError(f"{ACL_FILTERS}: needs {ACL_SYNC}=true")
    _require_id_map(config)
    return config


def _require_id_map(config: LinkConfig) -> None:
    """What mirrors that write ids anew need, and what cannot be with them."""
    if not config.schema_translated.filters:
        return
    if not config.schema_sync or config.schema_ids is not SchemaIds.TRANSLATE:
        raise LinkConfigError(f"{SCHEMA_TRANSLATE}: needs {SCHEMA_SYNC}=true and {SCHEMA_IDS}=translate")
    if config.ack is Ack.BOTH:
        raise LinkConfigError(
            f"{SCHEMA_TRANSLATE}: with ack=both clients' writes would wait for schemas, so they would time out; set "
            "ack=source first"
        )


def canonical(configs: Mapping[str, str]) -> dict[str, str]:
    """The options under their first names.

    Raises:
        LinkConfigError: an option is given twice, under two names.
    """
    found: dict[str, str] = {}
    for name, text in configs.items():
        first = _SAME_AS.get(name, name)
        if first in found or (first != name and first in configs):
            raise LinkConfigError(f"{name}: is given under another name too; it is the same as {first}")
        found[first] = text
    return found


def first_name(name: str) -> str:
    """The name under which an option is kept; of anything else the name itself."""
    return _SAME_AS.get(name, name)


def attribute_of(option: str) -> str:
    """The attribute of `LinkConfig` that an option sets; `option`: its first name."""
    return _OPTIONS[option][0]


def as_stored(configs: Mapping[str, str]) -> dict[str, str]:
    """The options under their first names, as they are stored: who switches auto-create or ACL sync off clears its
    filters.

    Raises:
        LinkConfigError: as `canonical`.
    """
    found = canonical(configs)
    if found.get(AUTO_CREATE, "").strip().lower() == "false":
        found.pop(AUTO_CREATE_FILTERS, None)
    if found.get(ACL_SYNC, "").strip().lower() == "false":
        found.pop(ACL_FILTERS, None)
    return found


def with_defaults(configs: Mapping[str, str]) -> dict[str, str]:
    """All options as text: the ones given, the others at their default; for `describe`."""
    given = as_stored(configs)
    return {name: given.get(name, default) for name, (_, _, default) in _OPTIONS.items()}


def synonyms(name: str) -> tuple[str, ...]:
    """The other names of an option, or of nothing."""
    return tuple(sorted(other for other, first in _SAME_AS.items() if first == name))


def _on_records_deleted(text: str) -> OnRecordsDeleted:
    try:
        return OnRecordsDeleted(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of fail, skip") from None


def _offsets(text: str) -> Offsets:
    try:
        return Offsets(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of auto, preserve") from None


def _identity(text: str) -> LinkIdentity:
    try:
        return LinkIdentity(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of link, client") from None


def _ack(text: str) -> Ack:
    try:
        return Ack(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of source, both") from None


def _start(text: str) -> int:
    if text == "earliest":
        return EARLIEST
    if text == "latest":
        return LATEST
    if re.fullmatch(r"\d{1,18}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not earliest, latest, an ISO-8601 time or milliseconds") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)  # as Confluent reads it
    milliseconds = int(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970")
    return milliseconds


def _include(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = {*ALWAYS_SYNCED, *DEFAULT_SYNCED, *OPTIONALLY_SYNCED}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} cannot be synced; possible: {', '.join(sorted(known))}")
    return names


def _prefix(text: str) -> str:
    if len(text) > MAX_PREFIX or not _PREFIX.fullmatch(text):
        raise ValueError(f"{text!r} is not up to {MAX_PREFIX} of the characters a-z A-Z 0-9 . _ -")
    if text.startswith(("__", "_confluent")):
        raise ValueError(f"{text!r} begins as the names of internal topics do")
    return text


def _rack(text: str) -> str:
    if len(text.encode()) > MAX_RACK:
        raise ValueError(f"{text[:20]!r}… is longer than {MAX_RACK} bytes")
    return text


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def duration_ms(text: str) -> int:
    """Milliseconds of a whole number of them, or of one with a unit: 90s, 30m, 24h, 7d. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if not found or (value := int(found[1]) * _UNITS_MS[found[2]]) > MAX_KEEP_MS:
        raise ValueError(f"{text!r} is not 0, milliseconds or a duration such as 30m, 24h or 7d, at most 365d")
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


def _group_filters(text: str) -> NameFilters:
    return parse_filters(text, "groupFilters") if text else ALL_NAMES


def _topic_filters(text: str) -> NameFilters:
    return parse_filters(text, "topicFilters") if text else ALL_NAMES


def _no_topics(text: str) -> NameFilters:
    return parse_filters(text, "topicFilters") if text else NO_NAMES


_ALL_TOPICS = '{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}'

# Every mirror group: unlike a cluster link's, they are gated, so that none of them is in use on the target.
_ALL_GROUPS = '{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}'

_ALL_SUBJECTS = '{"subjectFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}'

# option -> attribute of LinkConfig, reader, default as text
_OPTIONS: Mapping[str, tuple[str, Callable[[str], object], str]] = {
    "ack": ("ack", _ack, "source"),
    "client.rack": ("client_rack", _rack, ""),
    "mirror.on.records.deleted": ("on_records_deleted", _on_records_deleted, "fail"),
    "mirror.offsets": ("offsets", _offsets, "auto"),
    "mirror.start.offset.spec": ("start_timestamp", _start, "earliest"),
    "topic.config.sync.include": ("sync_include", _include, ",".join(DEFAULT_SYNCED)),
    "topic.config.sync.ms": ("sync_ms", _integer(MIN_SYNC_MS, 86_400_000), "5000"),
    "throttle.bytes.per.second": ("throttle_bytes_per_second", _integer(0, 2**50), "0"),
    "replication.factor": ("replication_factor", _integer(1, 32_767), ""),
    "groups.auto.promote": ("groups_auto_promote", _boolean, "true"),
    "link.prefix": ("prefix", _prefix, ""),
    "consumer.group.prefix.enable": ("prefix_groups", _boolean, "false"),
    "consumer.offset.sync.enable": ("offset_sync", _boolean, "false"),
    "consumer.offset.sync.ms": ("offset_sync_ms", _integer(MIN_SYNC_MS, 86_400_000), "30000"),
    "consumer.offset.group.filters": ("offset_sync_groups", _group_filters, _ALL_GROUPS),
    "link.client.topic.filters": ("client_topics", _topic_filters, _ALL_TOPICS),
    "link.identity": ("identity", _identity, "link"),
    "post.promote.watch.ms": ("post_promote_watch_ms", _integer(0, 2**50), "86400000"),
    "cluster.link.paused": ("paused", _boolean, "false"),
    "cluster.link.retry.timeout.ms": ("retry_timeout_ms", _integer(1_000, 604_800_000), "300000"),
    "link.allow.unauthorized.target": ("allow_unauthorized_target", _boolean, "false"),
    AUTO_CREATE: ("auto_create", _boolean, "false"),
    AUTO_CREATE_FILTERS: ("auto_create_filters", _no_topics, ""),
    AUTO_CREATE_LIMIT: ("auto_create_limit", _integer(1, 10_000), "100"),
    ACL_SYNC: ("acl_sync", _boolean, "false"),
    ACL_FILTERS: ("acl_filters", parse_acl_filters, ""),
    "acl.sync.ms": ("acl_sync_ms", _integer(MIN_SYNC_MS, 86_400_000), "5000"),
    ACL_PRINCIPALS: ("acl_principals", principal_rules, DEFAULT),
    ACL_WRITE_HOSTS: ("acl_write_hosts", hosts, ""),
    ACL_OWN_TOPICS: ("acl_own_topics", _boolean, "false"),
    SCHEMA_SYNC: ("schema_sync", _boolean, "false"),
    "schema.sync.ms": ("schema_sync_ms", _integer(MIN_SYNC_MS, 86_400_000), "60000"),
    "schema.subject.filters": ("schema_subjects", subject_filters, _ALL_SUBJECTS),
    "schema.versions": ("schema_versions", schema_versions, "all"),
    SCHEMA_IDS: ("schema_ids", schema_ids, "fixed"),
    "schema.include.deleted": ("schema_deleted", _boolean, "true"),
    "schema.normalize": ("schema_normalize", _boolean, "false"),
    "schema.gate": ("schema_gate", schema_gate, "wait"),
    SCHEMA_TRANSLATE: ("schema_translated", _no_topics, ""),
    "schema.translate.places": ("schema_places", id_places, ",".join(ID_PLACES)),
    "schema.translate.wait.ms": ("schema_wait_ms", _integer(1_000, 604_800_000), "3600000"),
    "failback.keep.ms": ("failback_keep_ms", duration_ms, "0"),
    LESS_DURABLE: ("less_durable", _no_topics, ""),
}

# Second names: what Confluent calls the option elsewhere, and short ones.
_SAME_AS: Mapping[str, str] = {
    "cluster.link.prefix": "link.prefix",
    "post.promote.watch": "post.promote.watch.ms",
    "failback.keep": "failback.keep.ms",
    "offset.sync.enable": "consumer.offset.sync.enable",
    "offset.sync.interval.ms": "consumer.offset.sync.ms",
    "offset.group.filters": "consumer.offset.group.filters",
}

OPTION_NAMES = frozenset({*_OPTIONS, *_SAME_AS})
