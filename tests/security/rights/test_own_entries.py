"""Every API that can name what is the gateway's own: it is refused as a broker refuses it, and the rest is served."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from gateway.proxy.rules.own_entries import RULES, SHOWN
from gateway.state.topic import TRANSACTIONAL_ID
from protocol import messages as m
from protocol.apis import ADVERTISED, APIS, ApiKey
from protocol.codec import decode_request, decode_response, encode_body, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header, response_body_offset

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

K = ApiKey
OWN, OWN_ID = "__lockgate_state", uuid.UUID(int=7)
TOPIC = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GROUP = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
TXN = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def class_of(message: Any, part: str) -> Any:
    return message._struct.fields[part].array_of.data_class


def topics(key: ApiKey, field: str = "topics", **more: Any) -> Callable[..., Any]:
    """A request of topics, each with partitions, if it has them."""

    def make(*names: str) -> Any:
        message = m.REQUESTS[key]
        kind = class_of(message, field)
        fields = kind._struct.fields
        name = "name" if "name" in fields else "topic"
        parts = next((part for part in ("partitions", "partition_indexes") if part in fields), None)
        inner: list[Any] = [0]
        if parts is not None and fields[parts].array_of.is_struct():
            part = fields[parts].array_of.data_class
            index = "partition" if "partition" in part._struct.fields else "partition_index"
            inner = [part(**{index: 0})]
        entries = [kind(**{name: each} | ({} if parts is None else {parts: inner})) for each in names]
        return message(**{field: entries}, **more)

    return make


def listed(key: ApiKey, field: str, **more: Any) -> Callable[..., Any]:
    return lambda *names: m.REQUESTS[key](**{field: list(names)}, **more)


def configs(key: ApiKey, resource_type: int) -> Callable[..., Any]:
    kind = class_of(m.REQUESTS[key], "resources")

    def make(*names: str) -> Any:
        return m.REQUESTS[key](resources=[kind(resource_type=resource_type, resource_name=n) for n in names])

    return make


def log_dirs(*names: str) -> Any:
    kind = class_of(m.AlterReplicaLogDirsRequest, "dirs")
    topic = class_of(kind, "topics")
    return m.AlterReplicaLogDirsRequest(dirs=[kind(path="/d", topics=[topic(name=n, partitions=[0]) for n in names])])


def markers(*names: str) -> Any:
    kind = class_of(m.WriteTxnMarkersRequest, "markers")
    topic = class_of(kind, "topics")
    return m.WriteTxnMarkersRequest(markers=[kind(topics=[topic(name=n, partition_indexes=[0]) for n in names])])


def fetched_groups(*names: str) -> Any:
    kind = class_of(m.OffsetFetchRequest, "groups")
    topic = class_of(m.OffsetFetchRequest, "topics")(name="t", partition_indexes=[0])
    groups = [kind(group_id=name, topics=None) for name in names]
    return m.OffsetFetchRequest(groups=groups, group_id=names[-1], topics=[topic])


def coordinators(key_type: int) -> Callable[..., Any]:
    return lambda *names: m.FindCoordinatorRequest(key=names[-1], key_type=key_type, coordinator_keys=list(names))


def one(key: ApiKey, field: str, **more: Any) -> Callable[..., Any]:
    """A request about one group or transactional id."""
    return lambda *names: m.REQUESTS[key](**{field: names[-1]}, **more)


def topology(*names: str) -> Any:
    """Of a streams group: one part for each way to name a topic."""
    kind = m.StreamsGroupHeartbeatRequest.Topology
    part = kind.Subtopology
    info = class_of(part, "state_changelog_topics")
    made = info(name=names[-1], partitions=1, replication_factor=1, topic_configs=[])
    lists = ("state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups")
    none: dict[str, Any] = {name: [] for name in ("source_topics", "source_topic_regex", *lists)}
    parts = [
        part(**{**none, field: value}, subtopology_id=field)
        for field, value in (("source_topics", list(names)), ("state_changelog_topics", [made]))
    ]
    return m.StreamsGroupHeartbeatRequest(group_id="g", topology=kind(epoch=0, subtopologies=parts))


def share_offsets(*names: str) -> Any:
    kind = class_of(m.DescribeShareGroupOffsetsRequest, "groups")
    return m.DescribeShareGroupOffsetsRequest(groups=[kind(group_id=name, topics=None) for name in names])


def topic_names(key: ApiKey) -> Callable[..., Any]:
    """A share group's request with topics by name."""
    kind = class_of(m.REQUESTS[key], "topics")
    more: dict[str, Any] = {"partitions": []} if "partitions" in kind._struct.fields else {}
    return lambda *names: m.REQUESTS[key](group_id="g", topics=[kind(topic_name=name, **more) for name in names])


CASES: list[tuple[str, ApiKey, Callable[..., Any], int, int]] = [  # API, request of names, error, first version
    ("fetch", K.FETCH, topics(K.FETCH), TOPIC, 0),
    ("list offsets", K.LIST_OFFSETS, topics(K.LIST_OFFSETS), TOPIC, 0),
    ("metadata", K.METADATA, topics(K.METADATA, allow_auto_topic_creation=False), TOPIC, 0),
    ("commit of a group", K.OFFSET_COMMIT, lambda *n: topics(K.OFFSET_COMMIT, group_id=n[-1])("t"), GROUP, 0),
    ("commit of a topic", K.OFFSET_COMMIT, topics(K.OFFSET_COMMIT, group_id="g"), TOPIC, 0),
    ("offset fetch", K.OFFSET_FETCH, fetched_groups, GROUP, 0),
    ("coordinator of a group", K.FIND_COORDINATOR, coordinators(0), GROUP, 0),
    ("coordinator of a transaction", K.FIND_COORDINATOR, coordinators(1), TXN, 1),
    ("join", K.JOIN_GROUP, one(K.JOIN_GROUP, "group_id"), GROUP, 0),
    ("heartbeat", K.HEARTBEAT, one(K.HEARTBEAT, "group_id"), GROUP, 0),
    ("leave", K.LEAVE_GROUP, one(K.LEAVE_GROUP, "group_id"), GROUP, 0),
    ("sync", K.SYNC_GROUP, one(K.SYNC_GROUP, "group_id"), GROUP, 0),
    ("describe groups", K.DESCRIBE_GROUPS, listed(K.DESCRIBE_GROUPS, "groups"), GROUP, 0),
    ("create topics", K.CREATE_TOPICS, topics(K.CREATE_TOPICS), TOPIC, 0),
    ("delete topics", K.DELETE_TOPICS, topics(K.DELETE_TOPICS), TOPIC, 6),
    ("delete topics by name", K.DELETE_TOPICS, listed(K.DELETE_TOPICS, "topic_names"), TOPIC, -5),
    ("delete records", K.DELETE_RECORDS, topics(K.DELETE_RECORDS), TOPIC, 0),
    ("init producer id", K.INIT_PRODUCER_ID, one(K.INIT_PRODUCER_ID, "transactional_id"), TXN, 0),
    ("epochs", K.OFFSET_FOR_LEADER_EPOCH, topics(K.OFFSET_FOR_LEADER_EPOCH), TOPIC, 0),
    (
        "add a transaction",
        K.ADD_PARTITIONS_TO_TXN,
        lambda *n: topics(K.ADD_PARTITIONS_TO_TXN, "v3_and_below_topics", v3_and_below_transactional_id=n[-1])("t"),
        TXN,
        0,
    ),
    ("add partitions", K.ADD_PARTITIONS_TO_TXN, topics(K.ADD_PARTITIONS_TO_TXN, "v3_and_below_topics"), TOPIC, 0),
    ("add offsets", K.ADD_OFFSETS_TO_TXN, one(K.ADD_OFFSETS_TO_TXN, "transactional_id", group_id="g"), TXN, 0),
    ("add a group", K.ADD_OFFSETS_TO_TXN, one(K.ADD_OFFSETS_TO_TXN, "group_id", transactional_id="t"), GROUP, 0),
    ("end", K.END_TXN, one(K.END_TXN, "transactional_id"), TXN, 0),
    ("markers", K.WRITE_TXN_MARKERS, markers, TOPIC, 0),
    (
        "transactional commit",
        K.TXN_OFFSET_COMMIT,
        lambda *n: topics(K.TXN_OFFSET_COMMIT, transactional_id=n[-1], group_id="g")("t"),
        TXN,
        0,
    ),
    (
        "transactional commit of a group",
        K.TXN_OFFSET_COMMIT,
        lambda *n: topics(K.TXN_OFFSET_COMMIT, transactional_id="t", group_id=n[-1])("t"),
        GROUP,
        0,
    ),
    ("transactional commit of a topic", K.TXN_OFFSET_COMMIT, topics(K.TXN_OFFSET_COMMIT), TOPIC, 0),
    ("describe configs", K.DESCRIBE_CONFIGS, configs(K.DESCRIBE_CONFIGS, 2), TOPIC, 0),
    ("describe configs of a group", K.DESCRIBE_CONFIGS, configs(K.DESCRIBE_CONFIGS, 32), GROUP, 0),
    ("alter configs", K.ALTER_CONFIGS, configs(K.ALTER_CONFIGS, 2), TOPIC, 0),
    ("alter log dirs", K.ALTER_REPLICA_LOG_DIRS, log_dirs, TOPIC, 0),
    ("create partitions", K.CREATE_PARTITIONS, topics(K.CREATE_PARTITIONS), TOPIC, 0),
    ("delete groups", K.DELETE_GROUPS, listed(K.DELETE_GROUPS, "groups_names"), GROUP, 0),
    ("elect leaders", K.ELECT_LEADERS, topics(K.ELECT_LEADERS, "topic_partitions"), TOPIC, 0),
    ("alter configs incrementally", K.INCREMENTAL_ALTER_CONFIGS, configs(K.INCREMENTAL_ALTER_CONFIGS, 2), TOPIC, 0),
    ("reassign", K.ALTER_PARTITION_REASSIGNMENTS, topics(K.ALTER_PARTITION_REASSIGNMENTS), TOPIC, 0),
    ("offset delete", K.OFFSET_DELETE, one(K.OFFSET_DELETE, "group_id", topics=[]), GROUP, 0),
    ("offset delete of a topic", K.OFFSET_DELETE, topics(K.OFFSET_DELETE, group_id="g"), TOPIC, 0),
    ("producers", K.DESCRIBE_PRODUCERS, topics(K.DESCRIBE_PRODUCERS), TOPIC, 0),
    ("transactions", K.DESCRIBE_TRANSACTIONS, listed(K.DESCRIBE_TRANSACTIONS, "transactional_ids"), TXN, 0),
    ("new heartbeat", K.CONSUMER_GROUP_HEARTBEAT, one(K.CONSUMER_GROUP_HEARTBEAT, "group_id"), GROUP, 0),
    (
        "new heartbeat with topics",
        K.CONSUMER_GROUP_HEARTBEAT,
        listed(K.CONSUMER_GROUP_HEARTBEAT, "subscribed_topic_names", group_id="g"),
        TOPIC,
        0,
    ),
    ("describe new groups", K.CONSUMER_GROUP_DESCRIBE, listed(K.CONSUMER_GROUP_DESCRIBE, "group_ids"), GROUP, 0),
    ("topic partitions", K.DESCRIBE_TOPIC_PARTITIONS, topics(K.DESCRIBE_TOPIC_PARTITIONS), TOPIC, 0),
    ("share heartbeat", K.SHARE_GROUP_HEARTBEAT, one(K.SHARE_GROUP_HEARTBEAT, "group_id"), GROUP, 0),
    (
        "share heartbeat with topics",
        K.SHARE_GROUP_HEARTBEAT,
        listed(K.SHARE_GROUP_HEARTBEAT, "subscribed_topic_names", group_id="g"),
        TOPIC,
        0,
    ),
    ("describe share groups", K.SHARE_GROUP_DESCRIBE, listed(K.SHARE_GROUP_DESCRIBE, "group_ids"), GROUP, 0),
    ("share fetch", K.SHARE_FETCH, one(K.SHARE_FETCH, "group_id"), GROUP, 0),
    ("share acknowledge", K.SHARE_ACKNOWLEDGE, one(K.SHARE_ACKNOWLEDGE, "group_id"), GROUP, 0),
    ("streams heartbeat", K.STREAMS_GROUP_HEARTBEAT, one(K.STREAMS_GROUP_HEARTBEAT, "group_id"), GROUP, 0),
    ("streams heartbeat with topics", K.STREAMS_GROUP_HEARTBEAT, topology, TOPIC, 0),
    ("describe streams groups", K.STREAMS_GROUP_DESCRIBE, listed(K.STREAMS_GROUP_DESCRIBE, "group_ids"), GROUP, 0),
    ("share offsets", K.DESCRIBE_SHARE_GROUP_OFFSETS, share_offsets, GROUP, 0),
    ("alter share offsets", K.ALTER_SHARE_GROUP_OFFSETS, one(K.ALTER_SHARE_GROUP_OFFSETS, "group_id"), GROUP, 0),
    ("alter share offsets of a topic", K.ALTER_SHARE_GROUP_OFFSETS, topic_names(K.ALTER_SHARE_GROUP_OFFSETS), TOPIC, 0),
    ("delete share offsets", K.DELETE_SHARE_GROUP_OFFSETS, one(K.DELETE_SHARE_GROUP_OFFSETS, "group_id"), GROUP, 0),
    (
        "delete share offsets of a topic",
        K.DELETE_SHARE_GROUP_OFFSETS,
        topic_names(K.DELETE_SHARE_GROUP_OFFSETS),
        TOPIC,
        0,
    ),
]


def versions(key: ApiKey, first: int) -> range:
    low, high = max(ADVERTISED[key][0], APIS[key].min_version), ADVERTISED[key][1]
    if key is K.FETCH:
        high = 12  # topic ids from then on
    return range(low, -first + 1) if first < 0 else range(max(low, first), high + 1)


def codes(found: Any) -> set[int]:
    """Every error code of an answer."""
    if isinstance(found, dict):
        here = {value for name, value in found.items() if name in ("error_code", "partition_error_code")}
        return here.union(*(codes(value) for value in found.values())) - {0}
    return set().union(*map(codes, found)) if isinstance(found, list) else set()


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


def test_every_rule_has_a_case() -> None:
    assert {key for _, key, *_ in CASES} == set(RULES)


@pytest.mark.parametrize(("key", "make", "code", "first"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
async def test_what_is_ours_is_refused(
    talk: Conversation, key: ApiKey, make: Callable[..., Any], code: int, first: int
) -> None:
    for version in versions(key, first):
        talk.says(encode_request(make(OWN), version, 7, "me"))
        if key is K.METADATA:  # clients want its brokers
            (frame,) = talk.broker.frames()
            assert OWN.encode() not in frame
            talk.session.upstream_data(encode_response(m.MetadataResponse(brokers=[], topics=[]), key, version, 7))
        assert talk.broker.take() == b""
        assert codes(answer(talk, key, version).to_dict()) == {code}


SERVED = [  # APIs of which the rest of a request is served, and where the answer's entries are
    (K.FETCH, "responses"),
    (K.LIST_OFFSETS, "topics"),
    (K.METADATA, "topics"),
    (K.DESCRIBE_GROUPS, "groups"),
    (K.CREATE_TOPICS, "topics"),
    (K.DELETE_TOPICS, "responses"),
    (K.DELETE_RECORDS, "topics"),
    (K.OFFSET_FOR_LEADER_EPOCH, "topics"),
    (K.DESCRIBE_CONFIGS, "results"),
    (K.ALTER_CONFIGS, "responses"),
    (K.INCREMENTAL_ALTER_CONFIGS, "responses"),
    (K.CREATE_PARTITIONS, "results"),
    (K.DELETE_GROUPS, "results"),
    (K.ELECT_LEADERS, "replica_election_results"),
    (K.ALTER_PARTITION_REASSIGNMENTS, "responses"),
    (K.DESCRIBE_PRODUCERS, "topics"),
    (K.DESCRIBE_TRANSACTIONS, "transaction_states"),
    (K.CONSUMER_GROUP_DESCRIBE, "groups"),
    (K.DESCRIBE_TOPIC_PARTITIONS, "topics"),
    (K.OFFSET_COMMIT, "topics"),
    (K.TXN_OFFSET_COMMIT, "topics"),
    (K.OFFSET_DELETE, "topics"),
    (K.OFFSET_FETCH, "groups"),
    (K.SHARE_GROUP_DESCRIBE, "groups"),
    (K.STREAMS_GROUP_DESCRIBE, "groups"),
    (K.DESCRIBE_SHARE_GROUP_OFFSETS, "groups"),
]


@pytest.mark.parametrize(("key", "part"), SERVED, ids=lambda value: str(getattr(value, "name", value)))
async def test_the_rest_is_served(talk: Conversation, key: ApiKey, part: str) -> None:
    """The broker sees nothing of ours, and each answer stands where its question stood."""
    make = next(
        make for name, k, make, *_ in reversed(CASES) if k is key and "by name" not in name and "of a group" not in name
    )
    version = versions(key, 0)[-1]
    talk.says(encode_request(make("a", OWN, "b"), version, 7, "me"))
    kind = class_of(m.RESPONSES[key], part)
    name = next(
        f for f in ("name", "topic", "group_id", "resource_name", "transactional_id") if f in kind._struct.fields
    )
    more: Any = {"brokers": []} if key is K.METADATA else {}
    served = m.RESPONSES[key](**{part: [kind(**{name: each}) for each in ("a", "b")]}, **more)
    for is_first in (True, False) if key is K.CREATE_TOPICS else (False,):  # may they be created? asked of the target
        await talk.run_pending()
        (frame,) = talk.broker.frames()
        assert OWN.encode() not in frame
        view = memoryview(frame)
        header = peek_request_header(view)
        asked = decode_request(key, version, view[header.body_offset :])
        wanted = make("a", "b")
        if is_first:
            wanted.validate_only = True
        assert encode_body(asked, version) == encode_body(wanted, version)
        talk.session.upstream_data(encode_response(served, key, version, header.correlation_id))
    found = getattr(answer(talk, key, version), part)
    assert [getattr(entry, name) for entry in found] == ["a", OWN, "b"]
    assert [bool(codes(entry.to_dict())) for entry in found] == [False, True, False]


@pytest.mark.parametrize(("key", "version"), [(K.FETCH, 15), (K.METADATA, 12), (K.DELETE_TOPICS, 6)])
async def test_by_id_too(talk: Conversation, key: ApiKey, version: int) -> None:
    talk.context.own_names.learn({OWN: OWN_ID.bytes, **{f"__lockgate_map.{n}": uuid.uuid4().bytes for n in range(20)}})
    for topic_id in talk.context.own_names.ids:
        kind = class_of(m.REQUESTS[key], "topics")
        more: Any = {"partitions": [class_of(kind, "partitions")(partition=0)]} if key is K.FETCH else {"name": None}
        entry = kind(topic_id=uuid.UUID(bytes=topic_id), **more)
        talk.says(encode_request(m.REQUESTS[key](topics=[entry]), version, 7, "me"))
        if key is K.METADATA:
            (frame,) = talk.broker.frames()
            assert topic_id not in frame
            talk.session.upstream_data(encode_response(m.MetadataResponse(brokers=[], topics=[]), key, version, 7))
        assert talk.broker.take() == b""
        assert codes(answer(talk, key, version).to_dict()) == {TOPIC}


def shown(key: ApiKey) -> tuple[Any, Any]:
    """A request, and an answer that shows what is ours beside what is the client's."""
    names, response = ("mine", OWN), m.RESPONSES[key]
    if key is K.DESCRIBE_LOG_DIRS:
        kind = class_of(response, "results")
        topic = class_of(kind, "topics")
        found = response(results=[kind(log_dir="/d", topics=[topic(name=name) for name in names])])
        return m.REQUESTS[key](topics=None), found
    if key is K.DESCRIBE_SHARE_GROUP_OFFSETS:
        kind = class_of(response, "groups")
        topic = class_of(kind, "topics")
        group = kind(group_id="g", topics=[topic(topic_name=name) for name in names])
        return share_offsets("g"), response(groups=[group])
    part, name = {
        K.LIST_GROUPS: ("groups", "group_id"),
        K.ELECT_LEADERS: ("replica_election_results", "topic"),
        K.LIST_PARTITION_REASSIGNMENTS: ("topics", "name"),
        K.LIST_TRANSACTIONS: ("transaction_states", "transactional_id"),
        K.LIST_CONFIG_RESOURCES: ("config_resources", "resource_name"),
        K.DESCRIBE_TOPIC_PARTITIONS: ("topics", "name"),
    }[key]
    found = response(**{part: [class_of(response, part)(**{name: each}) for each in names]})
    if key is K.DESCRIBE_TOPIC_PARTITIONS:
        found.next_cursor = response.Cursor(topic_name="__lockgate_map.west", partition_index=3)
    nothing: Any = {"topics": None} if key is K.LIST_PARTITION_REASSIGNMENTS else {}
    return m.REQUESTS[key](**({"topic_partitions": None} if key is K.ELECT_LEADERS else nothing)), found


@pytest.mark.parametrize("key", SHOWN)
async def test_answers_do_not_show_what_is_ours(talk: Conversation, key: ApiKey) -> None:
    for version in versions(key, 0):
        request, found = shown(key)
        talk.says(encode_request(request, version, 7, "me"))
        assert len(talk.broker.frames()) == 1
        talk.session.upstream_data(encode_response(found, key, version, 7))
        frame = talk.client.take()
        assert b"mine" in frame
        assert b"__lockgate" not in frame


async def test_a_cursor_at_what_is_ours_goes_on_behind_it(talk: Conversation) -> None:
    cursor = m.DescribeTopicPartitionsRequest.Cursor(topic_name=OWN, partition_index=0)
    talk.says(encode_request(m.DescribeTopicPartitionsRequest(topics=[], cursor=cursor), 0, 7, "me"))
    (frame,) = talk.broker.frames()
    view = memoryview(frame)
    asked = decode_request(K.DESCRIBE_TOPIC_PARTITIONS, 0, view[peek_request_header(view).body_offset :])
    assert asked.cursor.topic_name == "__lockgatf"
    assert asked.topics == []


async def test_requests_of_other_apis_may_have_the_letters(talk: Conversation) -> None:
    """A principal's name, say: nothing of the gateway's can be meant."""
    message = m.DescribeUserScramCredentialsRequest(
        users=[m.DescribeUserScramCredentialsRequest.UserName(name="__lockgate-user")]
    )
    data = encode_request(message, 0, 7, "me")
    talk.says(data)
    assert talk.broker.take() == data


def test_the_states_own_transactional_id_is_one_of_them() -> None:
    assert TRANSACTIONAL_ID.startswith("__lockgate")
