"""What is the gateway's own, asked for through a real gateway before a target without an authoriser; and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from gateway.devcluster import DevCluster
from protocol import messages as m
from protocol.errors import ErrorCode
from tests.support.clients.raw_client import RawClient
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
STATE = "__lockgate_state"
TOPIC, GROUP = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
TXN = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


@pytest.fixture(scope="module")
def gateway(target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    limits = {"connections_per_address": 12, "elements_per_request": 1_000}
    gateway = GatewayProcess(tmp_path_factory.mktemp("gateway"), target.bootstrap, limits=limits)
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.close()


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[RawClient]:
    client = RawClient(gateway.bootstrap)
    yield client
    client.close()


def names(entries: Any, name: str = "name") -> list[str]:
    return [getattr(entry, name) for entry in entries]


def when_loaded(client: RawClient, message: Any, version: int) -> Any:
    """The answer; None of a broker that has just begun to lead the logs of its coordinators."""
    answer = client.ask(message, version)
    return None if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else answer


def test_lists_do_not_show_it(client: RawClient, target: DevCluster) -> None:
    beside = RawClient(target.bootstrap)
    everything = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    assert STATE in names(beside.ask(everything, 12).topics)
    beside.close()
    found = client.ask(everything, 12)
    assert found.brokers
    assert not [name for name in names(found.topics) if name.startswith("__lockgate")]
    partitions = client.ask(m.DescribeTopicPartitionsRequest(topics=[], cursor=None, response_partition_limit=1), 0)
    assert not [name for name in names(partitions.topics) if name.startswith("__lockgate")]
    transactions = m.ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    for message, version, part, name in (
        (m.ListGroupsRequest(states_filter=[], types_filter=[]), 5, "groups", "group_id"),
        (transactions, 0, "transaction_states", "transactional_id"),
        (m.ListConfigResourcesRequest(resource_types=[]), 1, "config_resources", "resource_name"),
    ):
        answer = wait_until(
            partial(when_loaded, client, message, version), what="coordinators that have read their logs"
        )
        assert not answer.error_code
        assert not [each for each in names(getattr(answer, part), name) if each.startswith("__lockgate")]
    folders = client.ask(m.DescribeLogDirsRequest(topics=None), 4).results
    assert not [topic.name for folder in folders for topic in folder.topics if topic.name.startswith("__lockgate")]


def test_it_is_refused_and_the_rest_is_served(client: RawClient) -> None:
    kind = m.DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        kind(resource_type=2, resource_name=name, configuration_keys=None) for name in (STATE, "__consumer_offsets")
    ]
    results = client.ask(m.DescribeConfigsRequest(resources=resources), 4).results
    assert (results[0].resource_name, results[0].error_code) == (STATE, TOPIC)
    assert not results[0].configs

    listed = m.ListOffsetsRequest.ListOffsetsTopic
    part = listed.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = client.ask(m.ListOffsetsRequest(replica_id=-1, topics=[listed(name=STATE, partitions=[part])]), 7).topics
    assert topics[0].partitions[0].error_code == TOPIC

    def described() -> dict[str, int]:
        found = client.ask(m.DescribeGroupsRequest(groups=["mine", "__lockgate.fleet"]), 5).groups
        return {group.group_id: group.error_code for group in found}

    wait_until(lambda: described()["mine"] == 0, what="the coordinator of the group has begun")
    assert described() == {"mine": 0, "__lockgate.fleet": GROUP}
    groups = client.ask(m.DeleteGroupsRequest(groups_names=["__lockgate.fleet"]), 2).results
    assert [group.error_code for group in groups] == [GROUP]

    asked = m.MetadataRequest.MetadataRequestTopic
    found = client.ask(m.MetadataRequest(topics=[asked(name=STATE)], allow_auto_topic_creation=False), 12)
    assert found.brokers
    assert [(topic.name, topic.error_code) for topic in found.topics] == [(STATE, TOPIC)]

    deleted = m.DeleteTopicsRequest.DeleteTopicState
    responses = client.ask(m.DeleteTopicsRequest(topics=[deleted(name=STATE)], timeout_ms=5_000), 6).responses
    assert [response.error_code for response in responses] == [TOPIC]


def test_the_leader_is_not_fenced_by_a_client(client: RawClient, target: DevCluster) -> None:
    beside = RawClient(target.bootstrap)
    state = beside.ask(m.ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0).transaction_states
    beside.close()
    (own,) = [each.transactional_id for each in state if each.transactional_id.startswith("__lockgate")]
    answer = client.ask(m.InitProducerIdRequest(transactional_id=own, transaction_timeout_ms=60_000), 4)
    assert answer.error_code == TXN


def test_limits_of_the_settings_hold(gateway: GatewayProcess) -> None:
    many = RawClient(gateway.bootstrap)
    with pytest.raises(AssertionError, match="closed"):
        many.ask(m.FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{n}" for n in range(2_000)]), 4)
    found = [RawClient(gateway.bootstrap) for _ in range(16)]
    wait_until(lambda: _refused(gateway) > 0, what="a refused connection")
    for each in (many, *found):
        each.close()
    # Tests come in any order: the next one's connection is refused, too, until the gateway has noticed these ends.
    wait_until(lambda: _is_served(gateway), what="connections are accepted again")


def _is_served(gateway: GatewayProcess) -> bool:
    client = RawClient(gateway.bootstrap)
    try:
        return bool(client.ask(m.MetadataRequest(topics=[], allow_auto_topic_creation=False), 12).brokers)
    except (AssertionError, ConnectionError):
        return False
    finally:
        client.close()


def _refused(gateway: GatewayProcess) -> float:
    text = gateway.api.get("/metrics").text
    lines = [
        line for line in text.splitlines() if line.startswith('lockgate_connections_refused_total{limit="address"}')
    ]
    return float(lines[0].split()[-1]) if lines else 0.0
