"""What is asked of a cluster, and that nothing which it refuses ends the look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.doctor.cluster import look_at_cluster
from gateway.doctor.places import Patience
from gateway.doctor.rules.facts import Inquiry, SeenCluster, Side
from gateway.kafka.connection.config import ClusterConfig
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    DescribeClientQuotasResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
)
from tests.support.fakes.fake_broker import SILENCE, Request
from tests.support.fakes.fake_cluster import FakeCluster

PATIENT = Patience(connect_s=60.0, answer_s=60.0, cluster_s=240.0)
IMPATIENT = Patience(connect_s=60.0, answer_s=5.0, cluster_s=240.0)
ASKED = Inquiry(
    side=Side.TARGET,
    own_topics=("__lockgate_state", "__lockgate_producers"),
    fleet="__lockgate.fleet",
    transactional_ids=("__lockgate-state",),
    topics=("orders",),
    groups=("billing",),
)


def groups(request: Request) -> Any:
    (name,) = request.message.groups
    group = DescribeGroupsResponse.DescribedGroup(
        error_code=0,
        group_id=name,
        group_state="Dead",
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=0b1000 if name == "billing" else 0,
    )
    return DescribeGroupsResponse(throttle_time_ms=0, groups=[group])


def configs(request: Request) -> Any:
    kind = DescribeConfigsResponse.DescribeConfigsResult
    entry = kind.DescribeConfigsResourceResult(
        name="cleanup.policy",
        value="compact",
        read_only=False,
        config_source=1,
        is_sensitive=False,
        synonyms=[],
        config_type=0,
        documentation=None,
    )
    results = [
        kind(error_code=0, error_message=None, resource_type=2, resource_name=one.resource_name, configs=[entry])
        for one in request.message.resources
    ]
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    made = FakeCluster(brokers=2)
    made.leaders = {"__lockgate_state": [1], "orders": [1, 2]}
    made.replicas = {("__lockgate_state", 0): ([1, 2], [1])}
    made.on(ApiKey.DESCRIBE_GROUPS, groups)
    made.on(ApiKey.DESCRIBE_CONFIGS, configs)
    made.on(
        ApiKey.DESCRIBE_CLUSTER,
        lambda _: DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            cluster_id="fake",
            controller_id=1,
            brokers=[],
            cluster_authorized_operations=0b1_0000_0000,
        ),
    )
    made.on(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        lambda _: DescribeClientQuotasResponse(throttle_time_ms=0, error_code=0, error_message=None, entries=[]),
    )
    async with made:
        yield made


async def look(cluster: FakeCluster, patience: Patience = PATIENT, *, in_depth: bool = True) -> SeenCluster:
    config = ClusterConfig.from_client_properties({"bootstrap.servers": cluster.bootstrap})
    return await look_at_cluster("target", config, ASKED, patience, in_depth=in_depth)


async def test_all_that_is_asked(cluster: FakeCluster) -> None:
    found = await look(cluster)
    assert (found.error, found.cluster_id, found.quotas) == ("", "fake", {})
    assert [(one.node_id, one.error, one.place.connects, one.place.advertised) for one in found.brokers] == [
        (1, "", True, True),
        (2, "", True, True),
    ]
    assert all(one.versions for one in found.brokers)
    state, producers = found.own_topics
    assert (state.partitions, state.replicas, state.in_sync, state.configs) == (1, 2, 1, {"cleanup.policy": "compact"})
    assert (producers.partitions, producers.untold) == (0, "")
    assert found.rights.on_cluster == 0b1_0000_0000
    assert found.rights.groups == {"__lockgate.fleet": 0, "billing": 0b1000}
    assert found.rights.topic_configs == {"orders": {"cleanup.policy": "compact"}}
    assert found.rights.transactional_ids == {"__lockgate-state": ""}
    assert found.rights.untold == {}


async def test_what_is_refused_is_written_down(cluster: FakeCluster) -> None:
    denied = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    cluster.on(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        lambda _: DescribeClientQuotasResponse(throttle_time_ms=0, error_code=denied, error_message=None, entries=None),
    )
    cluster.on(
        ApiKey.FIND_COORDINATOR,
        lambda request: FindCoordinatorResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            node_id=-1,
            host="",
            port=-1,
            coordinators=[
                FindCoordinatorResponse.Coordinator(
                    key=key, node_id=-1, host="", port=-1, error_code=_denied(request), error_message=None
                )
                for key in request.message.coordinator_keys
            ],
        ),
    )
    cluster.topic_errors = {"__lockgate_state": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    found = await look(cluster)
    assert found.quotas is None
    assert "CLUSTER_AUTHORIZATION_FAILED" in found.quotas_untold
    assert found.rights.groups == {"__lockgate.fleet": 0, "billing": 0}
    assert found.rights.transactional_ids == {"__lockgate-state": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
    assert found.rights.topics == {"__lockgate_state": 0}
    assert found.own_topics[0].untold == "TOPIC_AUTHORIZATION_FAILED"


def _denied(request: Request) -> int:
    of_transactions = request.message.key_type == 1
    return int(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if of_transactions else ErrorCode.GROUP_AUTHORIZATION_FAILED
    )


async def test_a_question_without_an_answer_is_written_down(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_CLUSTER, lambda _: SILENCE)
    found = await look(cluster, IMPATIENT)
    assert list(found.rights.untold) == ["rights on the cluster"]


async def test_a_broker_that_is_gone_is_the_only_trouble(cluster: FakeCluster) -> None:
    await cluster.brokers[2].stop()
    found = await look(cluster, in_depth=False)
    assert found.error == ""
    assert [bool(one.error) for one in found.brokers] == [False, True]
    assert [one.place.connects for one in found.brokers] == [True, False]


async def test_where_nobody_listens_nobody_waits(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        await broker.stop()
    found = await look(cluster)
    assert found.error == "none of its bootstrap servers takes a connection"


async def test_on_the_way_through_a_gateway_nothing_more_is_asked(cluster: FakeCluster) -> None:
    await look(cluster, in_depth=False)
    assert {request.key for broker in cluster.brokers.values() for request in broker.requests} == {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
    }
