"""What becomes of requests that name what is the gateway's own, and of answers that show it.

A request's own entries are taken out of it, and answered as a broker answers who has no right to them, in the places
that they had; the broker answers the rest. A request about one group or transactional id is refused whole. Errors are
the broker's: TOPIC_, GROUP_ or TRANSACTIONAL_ID_AUTHORIZATION_FAILED. `RULES` is for requests, `SHOWN` for answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gateway.proxy.rules.own_names import PREFIX, is_own
from gateway.proxy.rules.refusals import Refusal, bounded, class_of, parts_of, refused, taken
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES

_TOPIC = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_GROUP = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
_TRANSACTIONAL_ID = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_CODES_OF_CONFIGS = {2: _TOPIC, 32: _GROUP}  # by ConfigResource.Type
_TRANSACTIONS = 1  # key type of FindCoordinator
_PAST_OWN = PREFIX[:-1] + chr(ord(PREFIX[-1]) + 1)  # sorts right behind all names with the prefix


OwnId: TypeAlias = Callable[[Any], bool]
"""Whether a topic id (UUID or None) is that of one of the gateway's own topics."""
Rule: TypeAlias = Callable[[Any, OwnId], Refusal | None]


def without_own(key: int, answer: Any) -> Any:
    """A broker's answer without what is the gateway's own. `key`: of `SHOWN`."""
    SHOWN[ApiKey(key)](answer)
    return answer


# -- requests with a list of entries -----------------------------------------------------------------------------


def _entries(
    key: ApiKey,
    field: str,
    part: str,
    refuse: Callable[[Any, Any], Any],
    own: Callable[[Any], bool],
    asks: bool = False,
) -> Rule:
    """Args.

    field: the request's list. part: the answer's. refuse: (class of the answer's entries, entry) -> what it is
    answered. own: whether an entry names what is ours. asks: the broker is asked even for nothing.
    """
    response = RESPONSES[key]
    kind = class_of(response, part)

    def rule(request: Any, _own_id: OwnId) -> Refusal | None:
        entries = getattr(request, field)
        found, places = taken(entries, own) if entries else ([], [])
        if not found:
            return None
        return Refusal(response(**{part: [refuse(kind, e) for e in found]}), part, places, asks or bool(entries))

    return rule


def _named(entry: Any) -> bool:
    return is_own(entry.name if hasattr(entry, "name") else entry.topic)


def _topic(kind: Any, entry: Any) -> Any:
    return refused(kind, _TOPIC, name=entry.name)


def _topics(key: ApiKey, part: str = "topics", index: str = "partition_index") -> Rule:
    return _entries(key, "topics", part, parts_of(_TOPIC, index=index), _named)


def _group(kind: Any, group: str) -> Any:
    return refused(kind, _GROUP, group_id=group)


def _config(key: ApiKey, part: str) -> Rule:
    def refuse(kind: Any, entry: Any) -> Any:
        code = _CODES_OF_CONFIGS[entry.resource_type]
        return refused(kind, code, resource_type=entry.resource_type, resource_name=entry.resource_name)

    def own(entry: Any) -> bool:
        return entry.resource_type in _CODES_OF_CONFIGS and is_own(entry.resource_name)

    return _entries(key, "resources", part, refuse, own)


def _by_id(key: ApiKey, part: str, names: str = "", asks: bool = False) -> Rule:
    """Topics by name or by id. `names`: the list of names alone that old versions have."""
    old = _entries(key, names, part, lambda kind, name: refused(kind, _TOPIC, name=name), is_own) if names else None

    def rule(request: Any, own_id: OwnId) -> Refusal | None:
        def own(entry: Any) -> bool:
            return is_own(entry.name) if entry.name is not None else own_id(entry.topic_id)

        def refuse(kind: Any, entry: Any) -> Any:
            topic_id = None if entry.name is not None else entry.topic_id
            return refused(kind, _TOPIC, name=entry.name, topic_id=topic_id)

        if old is not None and request.version < 6:
            return old(request, own_id)
        return _entries(key, "topics", part, refuse, own, asks)(request, own_id)

    return rule


def _fetch(request: Any, own_id: OwnId) -> Refusal | None:
    response = RESPONSES[ApiKey.FETCH]
    kind = class_of(response, "responses")
    part = class_of(kind, "partitions")

    def own(topic: Any) -> bool:
        return own_id(topic.topic_id) if request.version >= 13 else is_own(topic.topic)

    found, places = taken(request.topics, own)
    if not found:
        return None
    parts = [
        [part(partition_index=p.partition, error_code=_TOPIC, high_watermark=-1, records=b"") for p in topic.partitions]
        for topic in found
    ]
    entries = [kind(topic=t.topic, topic_id=t.topic_id, partitions=p) for t, p in zip(found, parts, strict=True)]
    return Refusal(response(responses=entries), "responses", places, bool(request.topics))


# -- requests about one group or transactional id -----------------------------------------------------------------


def _whole(key: ApiKey, field: str = "group_id", code: int = _GROUP) -> Rule:
    """One error code answers the request."""

    def rule(request: Any, _own_id: OwnId) -> Refusal | None:
        name = getattr(request, field)
        return Refusal(RESPONSES[key](error_code=code)) if name is not None and is_own(name) else None

    return rule


def _whole_ofparts_of(key: ApiKey, field: str, code: int) -> Rule:
    """The same where the code stands at each partition."""
    topics = _entries(key, "topics", "topics", parts_of(code), lambda _: True)

    def rule(request: Any, own_id: OwnId) -> Refusal | None:
        if not is_own(getattr(request, field)):
            return None
        return topics(request, own_id) or Refusal(RESPONSES[key](topics=[]))

    return rule


def _any_of(*rules: Rule) -> Rule:
    """The first that finds something."""

    def rule(request: Any, own_id: OwnId) -> Refusal | None:
        return next((refusal for each in rules if (refusal := each(request, own_id)) is not None), None)

    return rule


def _find_coordinator(request: Any, own_id: OwnId) -> Refusal | None:
    code = _TRANSACTIONAL_ID if request.key_type == _TRANSACTIONS else _GROUP
    nobody: dict[str, Any] = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": None}
    if request.version < 4:
        return Refusal(RESPONSES[ApiKey.FIND_COORDINATOR](**nobody)) if is_own(request.key) else None
    rule = _entries(
        ApiKey.FIND_COORDINATOR,
        "coordinator_keys",
        "coordinators",
        lambda kind, name: kind(key=name, **nobody),
        is_own,
    )
    return rule(request, own_id)


def _of_own_group(entry: Any) -> bool:
    return is_own(entry.group_id)


def _offset_fetch(request: Any, own_id: OwnId) -> Refusal | None:
    if request.version >= 8:
        groups = _entries(
            ApiKey.OFFSET_FETCH, "groups", "groups", lambda kind, entry: _group(kind, entry.group_id), _of_own_group
        )
        return groups(request, own_id)
    if not is_own(request.group_id):
        return None
    response = RESPONSES[ApiKey.OFFSET_FETCH]
    kind = class_of(response, "topics")
    part = class_of(kind, "partitions")
    topics = [
        kind(
            name=topic.name,
            partitions=[
                part(partition_index=index, committed_offset=-1, metadata="", error_code=_GROUP)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return Refusal(response(topics=topics, error_code=_GROUP))


def _of_group(key: ApiKey, names_own: Callable[[Any, OwnId], bool]) -> Rule:
    """One group's request, refused whole; `names_own`: whether it names a topic of ours."""
    response = RESPONSES[key]

    def rule(request: Any, own_id: OwnId) -> Refusal | None:
        if request.group_id is not None and is_own(request.group_id):
            return Refusal(response(error_code=_GROUP))
        return Refusal(response(error_code=_TOPIC)) if names_own(request, own_id) else None

    return rule


def _subscribes(request: Any, _own_id: OwnId) -> bool:
    return any(is_own(name) for name in request.subscribed_topic_names or ())


def _by_topic_id(request: Any, own_id: OwnId) -> bool:
    forgotten = getattr(request, "forgotten_topics_data", None) or ()
    return any(own_id(topic.topic_id) for topic in (*(request.topics or ()), *forgotten))


def _by_topic_name(request: Any, _own_id: OwnId) -> bool:
    return any(is_own(topic.topic_name) for topic in request.topics or ())


def _in_topology(request: Any, _own_id: OwnId) -> bool:
    parts = () if request.topology is None else request.topology.subtopologies or ()
    return any(
        is_own(name)
        for part in parts
        for name in (
            *(part.source_topics or ()),
            *(part.repartition_sink_topics or ()),
            *(info.name for info in (*(part.repartition_source_topics or ()), *(part.state_changelog_topics or ()))),
        )
    )


def _add_partitions_to_txn(request: Any, _own_id: OwnId) -> Refusal | None:
    """All or nothing, as a broker does."""
    owned = is_own(request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics
    if not owned and not any(is_own(topic.name) for topic in topics):
        return None
    bounded(topics)
    response, part = RESPONSES[ApiKey.ADD_PARTITIONS_TO_TXN], "results_by_topic_v3_and_below"
    kind = class_of(response, part)
    untried = int(ErrorCode.OPERATION_NOT_ATTEMPTED)
    results = []
    for topic in topics:
        code = _TRANSACTIONAL_ID if owned else _TOPIC if is_own(topic.name) else untried
        results.append(parts_of(code, "results_by_partition", error="partition_error_code")(kind, topic))
    return Refusal(response(**{part: results}))


def _write_txn_markers(request: Any, _own_id: OwnId) -> Refusal | None:
    """Refused whole: only brokers send it."""
    if not any(is_own(topic.name) for marker in request.markers for topic in marker.topics):
        return None
    bounded(request.markers)
    response = RESPONSES[ApiKey.WRITE_TXN_MARKERS]
    kind = class_of(response, "markers")
    refuse, topic_kind = parts_of(_TOPIC), class_of(kind, "topics")
    markers = [
        kind(producer_id=m.producer_id, topics=[refuse(topic_kind, topic) for topic in m.topics])
        for m in request.markers
    ]
    return Refusal(response(markers=markers))


def _alter_replica_log_dirs(request: Any, _own_id: OwnId) -> Refusal | None:
    """Refused whole, since a topic may be in several folders."""
    topics = [topic for folder in request.dirs for topic in folder.topics]
    if not any(is_own(topic.name) for topic in topics):
        return None
    bounded(topics)
    response = RESPONSES[ApiKey.ALTER_REPLICA_LOG_DIRS]
    kind = class_of(response, "results")
    part = class_of(kind, "partitions")
    results = [
        kind(topic_name=t.name, partitions=[part(partition_index=index, error_code=_TOPIC) for index in t.partitions])
        for t in topics
    ]
    return Refusal(response(results=results))


def _describe_topic_partitions(request: Any, own_id: OwnId) -> Refusal | None:
    """An answer goes on at a cursor; one that is ours goes on behind all that is ours."""
    if request.cursor is not None and is_own(request.cursor.topic_name):
        request.cursor.topic_name, request.cursor.partition_index = _PAST_OWN, 0
        changed = Refusal(RESPONSES[ApiKey.DESCRIBE_TOPIC_PARTITIONS](topics=[]), "topics", (), rest=True)
    else:
        changed = None
    return _entries(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "topics", "topics", _topic, _named)(request, own_id) or changed


_K = ApiKey
RULES: Mapping[ApiKey, Rule] = {
    _K.FETCH: _fetch,
    _K.LIST_OFFSETS: _topics(_K.LIST_OFFSETS),
    _K.METADATA: _by_id(_K.METADATA, "topics", asks=True),
    _K.OFFSET_COMMIT: _any_of(_whole_ofparts_of(_K.OFFSET_COMMIT, "group_id", _GROUP), _topics(_K.OFFSET_COMMIT)),
    _K.OFFSET_FETCH: _offset_fetch,
    _K.FIND_COORDINATOR: _find_coordinator,
    _K.JOIN_GROUP: _whole(_K.JOIN_GROUP),
    _K.HEARTBEAT: _whole(_K.HEARTBEAT),
    _K.LEAVE_GROUP: _whole(_K.LEAVE_GROUP),
    _K.SYNC_GROUP: _whole(_K.SYNC_GROUP),
    _K.DESCRIBE_GROUPS: _entries(_K.DESCRIBE_GROUPS, "groups", "groups", _group, is_own),
    _K.CREATE_TOPICS: _entries(_K.CREATE_TOPICS, "topics", "topics", _topic, _named),
    _K.DELETE_TOPICS: _by_id(_K.DELETE_TOPICS, "responses", names="topic_names"),
    _K.DELETE_RECORDS: _topics(_K.DELETE_RECORDS),
    _K.INIT_PRODUCER_ID: _whole(_K.INIT_PRODUCER_ID, "transactional_id", _TRANSACTIONAL_ID),
    _K.OFFSET_FOR_LEADER_EPOCH: _topics(_K.OFFSET_FOR_LEADER_EPOCH, index="partition"),
    _K.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    _K.ADD_OFFSETS_TO_TXN: _any_of(
        _whole(_K.ADD_OFFSETS_TO_TXN, "transactional_id", _TRANSACTIONAL_ID), _whole(_K.ADD_OFFSETS_TO_TXN)
    ),
    _K.END_TXN: _whole(_K.END_TXN, "transactional_id", _TRANSACTIONAL_ID),
    _K.WRITE_TXN_MARKERS: _write_txn_markers,
    _K.TXN_OFFSET_COMMIT: _any_of(
        _whole_ofparts_of(_K.TXN_OFFSET_COMMIT, "transactional_id", _TRANSACTIONAL_ID),
        _whole_ofparts_of(_K.TXN_OFFSET_COMMIT, "group_id", _GROUP),
        _topics(_K.TXN_OFFSET_COMMIT),
    ),
    _K.DESCRIBE_CONFIGS: _config(_K.DESCRIBE_CONFIGS, "results"),
    _K.ALTER_CONFIGS: _config(_K.ALTER_CONFIGS, "responses"),
    _K.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    _K.CREATE_PARTITIONS: _entries(_K.CREATE_PARTITIONS, "topics", "results", _topic, _named),
    _K.DELETE_GROUPS: _entries(_K.DELETE_GROUPS, "groups_names", "results", _group, is_own),
    _K.ELECT_LEADERS: _entries(
        _K.ELECT_LEADERS,
        "topic_partitions",
        "replica_election_results",
        parts_of(_TOPIC, "partition_result", "partition_id"),
        _named,
    ),
    _K.INCREMENTAL_ALTER_CONFIGS: _config(_K.INCREMENTAL_ALTER_CONFIGS, "responses"),
    _K.ALTER_PARTITION_REASSIGNMENTS: _topics(_K.ALTER_PARTITION_REASSIGNMENTS, "responses"),
    _K.OFFSET_DELETE: _any_of(_whole(_K.OFFSET_DELETE), _topics(_K.OFFSET_DELETE)),
    _K.DESCRIBE_PRODUCERS: _topics(_K.DESCRIBE_PRODUCERS),
    _K.DESCRIBE_TRANSACTIONS: _entries(
        _K.DESCRIBE_TRANSACTIONS,
        "transactional_ids",
        "transaction_states",
        lambda kind, name: kind(transactional_id=name, error_code=_TRANSACTIONAL_ID),
        is_own,
    ),
    _K.CONSUMER_GROUP_HEARTBEAT: _of_group(_K.CONSUMER_GROUP_HEARTBEAT, _subscribes),
    _K.CONSUMER_GROUP_DESCRIBE: _entries(_K.CONSUMER_GROUP_DESCRIBE, "group_ids", "groups", _group, is_own),
    _K.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    _K.SHARE_GROUP_HEARTBEAT: _of_group(_K.SHARE_GROUP_HEARTBEAT, _subscribes),
    _K.SHARE_GROUP_DESCRIBE: _entries(_K.SHARE_GROUP_DESCRIBE, "group_ids", "groups", _group, is_own),
    _K.SHARE_FETCH: _of_group(_K.SHARE_FETCH, _by_topic_id),
    _K.SHARE_ACKNOWLEDGE: _of_group(_K.SHARE_ACKNOWLEDGE, _by_topic_id),
    _K.STREAMS_GROUP_HEARTBEAT: _of_group(_K.STREAMS_GROUP_HEARTBEAT, _in_topology),
    _K.STREAMS_GROUP_DESCRIBE: _entries(_K.STREAMS_GROUP_DESCRIBE, "group_ids", "groups", _group, is_own),
    _K.DESCRIBE_SHARE_GROUP_OFFSETS: _entries(
        _K.DESCRIBE_SHARE_GROUP_OFFSETS,
        "groups",
        "groups",
        lambda kind, entry: _group(kind, entry.group_id),
        _of_own_group,
    ),
    _K.ALTER_SHARE_GROUP_OFFSETS: _of_group(_K.ALTER_SHARE_GROUP_OFFSETS, _by_topic_name),
    _K.DELETE_SHARE_GROUP_OFFSETS: _of_group(_K.DELETE_SHARE_GROUP_OFFSETS, _by_topic_name),
}
"""By API: takes what is ours out of a request."""


# -- answers ---------------------------------------------------------------------------------------------------------


def _hide(part: str, name: str) -> Callable[[Any], None]:
    def hide(answer: Any) -> None:
        kept = [entry for entry in getattr(answer, part) if not is_own(getattr(entry, name))]
        setattr(answer, part, kept)

    return hide


def _hide_in_folders(answer: Any) -> None:
    for folder in answer.results:
        folder.topics = [topic for topic in folder.topics if not is_own(topic.name)]


def _hide_of_groups(answer: Any) -> None:
    for group in answer.groups:
        group.topics = [topic for topic in group.topics if not is_own(topic.topic_name)]


def _hide_partitions(answer: Any) -> None:
    answer.topics = [topic for topic in answer.topics if not is_own(topic.name)]
    if answer.next_cursor is not None and is_own(answer.next_cursor.topic_name):
        answer.next_cursor.topic_name, answer.next_cursor.partition_index = _PAST_OWN, 0


SHOWN: Mapping[ApiKey, Callable[[Any], None]] = {
    _K.LIST_GROUPS: _hide("groups", "group_id"),
    _K.DESCRIBE_LOG_DIRS: _hide_in_folders,
    _K.ELECT_LEADERS: _hide("replica_election_results", "topic"),
    _K.LIST_PARTITION_REASSIGNMENTS: _hide("topics", "name"),
    _K.LIST_TRANSACTIONS: _hide("transaction_states", "transactional_id"),
    _K.LIST_CONFIG_RESOURCES: _hide("config_resources", "resource_name"),
    _K.DESCRIBE_TOPIC_PARTITIONS: _hide_partitions,
    _K.DESCRIBE_SHARE_GROUP_OFFSETS: _hide_of_groups,
}
"""By API: takes what is ours out of an answer. Metadata's is patched with the brokers' addresses."""
