"""The door for acts: nothing changes a cluster or a registry beside it, and each try asks again."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import gateway
from gateway.kafka.acts import CHANGES, ActRefused, guarded, is_change, own_act, permitted, require_permit
from gateway.kafka.admin import TopicConfigChange, alter_topic_configs, check_topic
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import CreateTopicsResponse, IncrementalAlterConfigsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_cluster import FakeCluster

ROOT = Path(gateway.__file__).parent

NO_ACTS = frozenset(
    {
        # they ask
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        # fenced by producer id and epoch: the mirror, the state topic, and transactions
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        # membership of the fleet's own group
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        # logins: as a client, under its own name
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        # of clients and brokers alone; a gateway never sends them on its own account
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2) as cluster:
        cluster.leaders["t"] = [1]
        yield cluster


def test_of_every_api_it_is_said_whether_it_is_an_act() -> None:
    assert CHANGES.isdisjoint(NO_ACTS)
    assert {*CHANGES, *NO_ACTS} == set(ApiKey)


# -- the code -------------------------------------------------------------------------------------------------------


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield str(path.relative_to(ROOT)), node


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def changing_requests() -> frozenset[str]:
    """Names of the classes of `protocol.messages` whose requests change a cluster."""
    return frozenset(f"{key.name.title().replace('_', '')}Request" for key in CHANGES)


def test_requests_that_change_a_cluster_are_made_by_its_client_alone() -> None:
    """So they leave by `Connection.request`, which asks. The fleet renews leases in its own group."""
    made = {(path, name_of(call.func)) for path, call in calls() if name_of(call.func) in changing_requests()}
    beside = {(path, name) for path, name in made if not path.startswith(("kafka/", "proxy/", "jobs/"))}
    assert beside == {("fleet/group.py", "LeaveGroupRequest"), ("fleet/group.py", "OffsetCommitRequest")}
    assert {path for path, _ in made} >= {"kafka/admin.py", "kafka/commits.py", "kafka/groups.py", "kafka/offsets.py"}


def test_bytes_are_sent_past_the_door_only_by_what_producer_ids_fence_or_what_asks() -> None:
    """`exchange` and `send` of a connection take bytes, and ask nobody."""
    sent = set()
    for path, call in calls():
        if name_of(call.func) in ("exchange", "send") and len(call.args) > 1:
            sent |= {(path, name_of(one)) for one in call.args if _is_api_key(one)}
    assert {ApiKey[name] for _, name in sent} <= NO_ACTS
    assert sent, "none found: is it still called so?"


def _is_api_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ApiKey"


def test_acts_without_a_record_are_those_of_a_gateway_on_its_own_behalf() -> None:
    places = {path for path, call in calls() if name_of(call.func) == "own_act"}
    assert places == {"fleet/group.py", "kafka/logs/compacted_log.py"}


def test_a_registry_is_changed_by_requests_that_ask() -> None:
    tree = ast.parse((ROOT / "schemas/registry.py").read_text())
    calls_there = [call for call in ast.walk(tree) if isinstance(call, ast.Call)]
    made = [call for call in calls_there if _method(call) not in ("", "GET")]
    asked = [(call, one) for call in calls_there for one in call.args if one in made]
    assert len(asked) == len(made) > 4, "a question that is not asked where it is made"
    beside = [call for call, _ in asked if name_of(call.func) != "_changed"]
    assert [ast.unparse(call.func) for call in beside] == ["self._or_absent"]  # `lookup` is a POST that asks


def _method(call: ast.Call) -> str:
    """Of a question to a registry."""
    first = call.args[0] if name_of(call.func) == "_Question" else None
    return str(first.value) if isinstance(first, ast.Constant) else ""


# -- the permit -----------------------------------------------------------------------------------------------------


async def test_in_a_gateway_nothing_is_changed_without_a_permit(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    with guarded():
        with pytest.raises(ActRefused, match="INCREMENTAL_ALTER_CONFIGS|IncrementalAlterConfigs"):
            await alter_topic_configs(cluster, {"t": TopicConfigChange({"retention.ms": "1"})})
        # as does a task that is begun there
        changing = asyncio.create_task(alter_topic_configs(cluster, {"t": TopicConfigChange({"retention.ms": "1"})}))
    with pytest.raises(ActRefused):
        await changing
    assert fake.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS) == []


async def test_a_question_needs_none(fake: FakeCluster, client: OpenCluster) -> None:
    kind = CreateTopicsResponse.CreatableTopicResult
    fake.on(
        ApiKey.CREATE_TOPICS,
        lambda _: CreateTopicsResponse(
            throttle_time_ms=0,
            topics=[
                kind(
                    name="t",
                    error_code=0,
                    error_message=None,
                    num_partitions=1,
                    replication_factor=1,
                    configs=[],
                    topic_config_error_code=0,
                    topic_id=None,
                )
            ],
        ),
    )
    cluster = await client(fake.bootstrap)
    with guarded():
        await check_topic(cluster, "t", partitions=1, replication_factor=1, configs={})
    assert len(fake.asked(ApiKey.CREATE_TOPICS)) == 1
    assert not is_change(fake.asked(ApiKey.CREATE_TOPICS)[0].message)


async def test_each_try_asks_again(fake: FakeCluster, client: OpenCluster) -> None:
    """A controller that has moved is asked for again; what the change was decided from may be over by then."""
    result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    asked = list[str]()

    def still_so() -> None:
        if len(asked) > 1:
            raise ActRefused("the topic was promoted meanwhile")
        asked.append("asked")

    fake.on(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda _: IncrementalAlterConfigsResponse(
            throttle_time_ms=0,
            responses=[
                result(error_code=ErrorCode.NOT_CONTROLLER, error_message=None, resource_type=2, resource_name="t")
            ],
        ),
    )
    cluster = await client(fake.bootstrap)
    with guarded(), permitted(still_so), pytest.raises(ActRefused, match=r"was not sent: the topic was promoted"):
        await alter_topic_configs(cluster, {"t": TopicConfigChange({"retention.ms": "1"})})
    assert len(fake.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)) == 1


def test_a_door_that_is_shut_is_not_even_entered() -> None:
    def shut() -> None:
        raise ActRefused("no")

    with pytest.raises(ActRefused, match="^no$"), permitted(shut):
        raise AssertionError("entered")


def test_whoever_is_no_gateway_acts_on_its_own() -> None:
    require_permit("anything")
    with guarded():
        with pytest.raises(ActRefused):
            require_permit("anything")
        with own_act():
            require_permit("anything")
    require_permit("anything")
