from dataclasses import replace

import pytest

from gateway.doctor.rules.cluster import (
    check_cluster,
    check_own_topic,
    check_quotas,
    check_versions,
    of_principal,
    release,
)
from gateway.doctor.rules.facts import AddressFacts, BrokerFacts, Inquiry, OwnTopicFacts, PlaceFacts, SeenCluster, Side
from gateway.doctor.rules.finding import DoctorFinding, Level
from gateway.kafka.rules.quota import QuotaKey, entity_of
from protocol.apis import APIS, ApiKey

ALL = {int(api.key): (api.min_version, api.max_version) for api in APIS.values()}
PLACE = PlaceFacts(host="kafka-1", port=9092, addresses=(AddressFacts(address="10.0.0.1"),))
BROKER = BrokerFacts(node_id=1, place=PLACE, versions=ALL)
TARGET = Inquiry(side=Side.TARGET)
CLUSTER = SeenCluster(name="target", asked=TARGET, bootstrap=(PLACE,), cluster_id="c", brokers=(BROKER,), quotas={})
DURABLE = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "delete.retention.ms": "86400000",
}
STATE = OwnTopicFacts(name="__lockgate_state", partitions=1, replicas=3, in_sync=3, configs=DURABLE)


def quota(key: str, **entity: str | None) -> QuotaKey:
    found = entity_of((kind.replace("_", "-"), name) for kind, name in entity.items())
    assert found is not None
    return QuotaKey(found, key)


def without(*keys: int) -> dict[int, tuple[int, int]]:
    return {key: versions for key, versions in ALL.items() if key not in keys}


def levels(findings: object) -> list[Level]:
    return [one.level for one in findings]  # type: ignore[attr-defined]


def test_all_is_well() -> None:
    found = list(check_cluster(CLUSTER, 0.0))
    assert {one.level for one in found} == {Level.OK}
    assert [one.check for one in found] == ["address", "cluster", "versions", "quotas"]


def test_what_does_not_serve_is_not_judged_further() -> None:
    found = list(check_cluster(replace(CLUSTER, error="refused", refused=True, user="gateway"), 0.0))
    assert [(one.check, one.level) for one in found] == [("address", Level.OK), ("login", Level.FAIL)]
    assert "user gateway" in found[-1].remedy
    found = list(check_cluster(replace(CLUSTER, error="no answer"), 0.0))
    assert [(one.check, one.level) for one in found] == [("address", Level.OK), ("cluster", Level.FAIL)]


def test_where_nobody_has_logged_in() -> None:
    found = list(check_cluster(replace(CLUSTER, unasked="sasl.password is a secret"), 0.0))
    assert [(one.check, one.level) for one in found] == [("address", Level.OK), ("login", Level.WARN)]


def test_a_broker_that_does_not_serve_at_its_address() -> None:
    found = list(check_cluster(replace(CLUSTER, brokers=(replace(BROKER, error="kafka-1:9092: closed"),)), 0.0))
    assert [one.value for one in found if one.level is Level.FAIL] == ["broker 1: kafka-1:9092: closed"]


@pytest.mark.parametrize(
    ("versions", "wanted"),
    [
        (ALL, "4.0 or later"),
        ({**ALL, ApiKey.FETCH: (0, 17)}, "3.7 to 3.9"),
        ({**without(ApiKey.LIST_CONFIG_RESOURCES), ApiKey.FETCH: (0, 13)}, "3.0 to 3.6"),
        ({ApiKey.DESCRIBE_CLUSTER: (0, 0), ApiKey.FETCH: (0, 12)}, "2.8"),
        ({}, "before 2.6"),
    ],
)
def test_the_release_is_told_by_what_it_can(versions: dict[int, tuple[int, int]], wanted: str) -> None:
    assert release(versions) == wanted


def test_too_old_to_talk_to() -> None:
    old = BrokerFacts(node_id=1, place=PLACE, versions={**ALL, ApiKey.FETCH: (0, 3)})
    (found,) = check_versions("source", Side.SOURCE, [old])
    assert (found.level, "Fetch" in found.value) == (Level.FAIL, True)


def test_what_a_source_need_not_have() -> None:
    some = BrokerFacts(node_id=1, place=PLACE, versions=without(ApiKey.INCREMENTAL_ALTER_CONFIGS))
    assert levels(check_versions("source", Side.SOURCE, [some])) == [Level.OK]
    assert levels(check_versions("target", Side.TARGET, [some])) == [Level.FAIL]


def test_what_is_done_without() -> None:
    some = BrokerFacts(node_id=1, place=PLACE, versions=without(ApiKey.DESCRIBE_TRANSACTIONS))
    (found,) = check_versions("source", Side.SOURCE, [some])
    assert (found.level, "DescribeTransactions" in found.value) == (Level.WARN, True)


def test_brokers_of_different_releases() -> None:
    other = BrokerFacts(node_id=2, place=PLACE, versions={**ALL, ApiKey.FETCH: (0, 17)})
    assert levels(check_versions("source", Side.SOURCE, [BROKER, other])) == [Level.WARN]


def own(topic: OwnTopicFacts, brokers: int = 3) -> list[DoctorFinding]:
    return list(check_own_topic("target", topic, brokers))


def test_an_own_topic_that_is_durable() -> None:
    assert levels(own(STATE)) == [Level.OK]
    alone = replace(STATE, replicas=1, in_sync=1, configs={**DURABLE, "min.insync.replicas": "1"})
    assert levels(own(alone, brokers=1)) == [Level.OK]


def test_an_own_topic_that_is_not_there_yet() -> None:
    assert levels(own(OwnTopicFacts(name="__lockgate_state"))) == [Level.OK]
    assert own(OwnTopicFacts(name="__lockgate_state", untold="TOPIC_AUTHORIZATION_FAILED")) == []  # rights say so


@pytest.mark.parametrize(
    ("topic", "level", "words"),
    [
        (replace(STATE, replicas=1, in_sync=1), Level.WARN, "has 1 replica on 3 brokers"),
        (replace(STATE, in_sync=1), Level.FAIL, "1 of 3 replicas in sync"),
        (replace(STATE, configs={**DURABLE, "min.insync.replicas": "1"}), Level.FAIL, "lacks min.insync.replicas=2"),
        (replace(STATE, configs={**DURABLE, "unclean.leader.election.enable": "true"}), Level.FAIL, "lacks unclean"),
        (replace(STATE, configs={**DURABLE, "cleanup.policy": "delete"}), Level.FAIL, "it is not lockgate's"),
        (replace(STATE, partitions=2), Level.FAIL, "2 partitions"),
        (replace(STATE, configs=None, untold="not allowed"), Level.WARN, "are not told (not allowed)"),
    ],
)
def test_what_is_wrong_with_an_own_topic(topic: OwnTopicFacts, level: Level, words: str) -> None:
    found = own(topic)
    assert [(one.level, words in one.value) for one in found] == [(level, True)], found


def test_the_most_exact_quota_of_each_limit_counts() -> None:
    limit = "producer_byte_rate"
    everybody, of_user = quota(limit, user=None), quota(limit, user="gateway")
    both, other = quota(limit, user="gateway", client_id="lockgate"), quota(limit, user="alice")
    quotas = {everybody: 3.0, other: 4.0, of_user: 2.0, both: 1.0}
    assert of_principal(quotas, "gateway", "lockgate") == {both: 1.0}
    assert of_principal(quotas, "gateway", "app") == {of_user: 2.0}
    assert of_principal(quotas, "bob", "lockgate") == {everybody: 3.0}
    assert of_principal({quota(limit, ip="10.0.0.1"): 1.0}, "gateway", "lockgate") == {}


def test_quotas_of_this_principal_are_told() -> None:
    facts = replace(CLUSTER, user="gateway", quotas={quota("consumer_byte_rate", user="gateway"): 1_000_000.0})
    (found,) = check_quotas(facts)
    assert (found.level, found.value) == (Level.WARN, "this principal has user gateway: consumer_byte_rate 1e+06")


def test_quotas_that_are_not_told() -> None:
    (found,) = check_quotas(replace(CLUSTER, quotas=None, quotas_untold="CLUSTER_AUTHORIZATION_FAILED"))
    assert (found.level, "DescribeConfigs on the cluster" in found.remedy) == (Level.WARN, True)
    assert list(check_quotas(replace(CLUSTER, quotas=None))) == []  # too old for them


def test_who_is_throttled_now() -> None:
    found = list(check_quotas(replace(CLUSTER, brokers=(replace(BROKER, throttled_s=2.0),))))
    assert levels(found) == [Level.WARN, Level.OK]
