"""A cluster: whether it serves this principal, what its brokers can, quotas, and lockgate's own topics on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from gateway.doctor.rules.facts import BrokerFacts, OwnTopicFacts, SeenCluster, Side
from gateway.doctor.rules.finding import DoctorFinding, bad, many, ok, warn
from gateway.doctor.rules.places import check_certificates, check_places
from gateway.doctor.rules.privileges import check_rights
from gateway.kafka.rules.names import some_of
from gateway.kafka.rules.quota import EntityType, QuotaKey
from gateway.kafka.rules.topic_configs import not_durable
from protocol.apis import APIS, ApiKey, api_name

REPLICAS: Final = 3
"""Of lockgate's own topics, where there are as many brokers."""

_EVERYWHERE: Final = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
)
_ON_TARGET: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.JOIN_GROUP,
    ApiKey.END_TXN,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DELETE_RECORDS,
)
"""Without a version of these in common nothing goes."""

_LEAST: Final = {
    ApiKey.DESCRIBE_CLUSTER: "rights on the cluster are not told, before 2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "open transactions are not seen before a promote, before 3.0",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "quotas cannot be read or carried over, before 2.6",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "users cannot be listed, before 2.7",
}
"""What lacks one of these serves, and does less."""

_OLDEST_FETCH: Final = 4
"""What a broker from 4.0 on has left (KIP-896)."""
_RELEASES: Final = (
    ("3.7 to 3.9", ApiKey.LIST_CONFIG_RESOURCES),
    ("3.0 to 3.6", ApiKey.DESCRIBE_TRANSACTIONS),
    ("2.8", ApiKey.DESCRIBE_CLUSTER),
    ("2.6 or 2.7", ApiKey.DESCRIBE_CLIENT_QUOTAS),
)
"""Brokers tell no release: what they can says about which one they are."""


def check_cluster(facts: SeenCluster, now: float) -> Iterator[DoctorFinding]:
    """All that is to be said of a cluster. `now`: seconds since the epoch."""
    yield from check_ways(facts, now)
    if facts.unasked:
        yield unasked(facts)
        return
    if facts.error:
        yield _unserved(facts)
        return
    yield ok("cluster", facts.name, f"id {facts.cluster_id or 'not told'}, {many(len(facts.brokers), 'broker')}")
    yield from check_logins(facts.name, facts.brokers)
    yield from check_versions(facts.name, facts.asked.side, facts.brokers)
    yield from check_rights(facts)
    for topic in facts.own_topics:
        yield from check_own_topic(facts.name, topic, len(facts.brokers))
    yield from check_quotas(facts)


def check_ways(facts: SeenCluster, now: float) -> Iterator[DoctorFinding]:
    """The address and certificate of each bootstrap server and broker, once."""
    told = {(place.host, place.port): place for place in (*facts.bootstrap, *(one.place for one in facts.brokers))}
    yield from check_places(facts.name, list(told.values()))
    yield from check_certificates(facts.name, list(told.values()), now, verifies_names=facts.verifies_names)


def unasked(facts: SeenCluster) -> DoctorFinding:
    """Nobody has logged in there from here."""
    option = "--through FILE" if facts.name.startswith("through") else "--source FILE"
    return warn(
        "login",
        facts.name,
        f"not tried from here: {facts.unasked}",
        f"give client properties that work from here: {option}",
    )


def _unserved(facts: SeenCluster) -> DoctorFinding:
    if facts.refused:
        who = f"user {facts.user}" if facts.user else "this login"
        return bad(
            "login",
            facts.name,
            facts.error,
            f"see that {who} is there, with this password and by this mechanism, and that the clock is right",
        )
    return bad("cluster", facts.name, facts.error, "see the lines above; then security.protocol and bootstrap.servers")


def check_logins(what: str, brokers: Iterable[BrokerFacts]) -> Iterator[DoctorFinding]:
    """Each broker serves by the address that it advertises."""
    for broker in brokers:
        if broker.error and broker.place.connects:
            yield bad(
                "broker",
                what,
                f"broker {broker.node_id}: {broker.error}",
                "each broker has to serve this login at the address that it advertises",
            )


def check_versions(what: str, side: Side, brokers: Sequence[BrokerFacts]) -> Iterator[DoctorFinding]:
    """Of the brokers that have told theirs."""
    seen = [broker for broker in brokers if broker.versions]
    if not seen:
        return
    needed = (*_EVERYWHERE, *(_ON_TARGET if side is Side.TARGET else ()))
    old = {broker.node_id: [key for key in needed if not _common(broker.versions, key)] for broker in seen}
    lacking = sorted({api_name(key) for keys in old.values() for key in keys})
    releases = sorted({release(broker.versions) for broker in seen})
    if lacking:
        yield bad(
            "versions",
            what,
            f"no version in common of {', '.join(lacking)} (Kafka {', '.join(releases)})",
            "a source takes Kafka 2.8 or later, a target a supported release: upgrade the brokers",
        )
        return
    if len(releases) > 1:
        yield warn(
            "versions",
            what,
            f"brokers are of different releases: Kafka {', '.join(releases)}",
            "end the upgrade first: what one broker can, the next one may not",
        )
    without = [f"{api_name(key)}: {so}" for key, so in _LEAST.items() if any(key not in one.versions for one in seen)]
    if without:
        yield warn("versions", what, "; ".join(without), "nothing, if you do without it; else upgrade the brokers")
    elif len(releases) == 1:
        yield ok("versions", what, f"Kafka {releases[0]}")


def _common(versions: Mapping[int, tuple[int, int]], key: int) -> bool:
    low, high = versions.get(key, (0, -1))
    return min(high, APIS[key].max_version) >= max(low, APIS[key].min_version)


def release(versions: Mapping[int, tuple[int, int]]) -> str:
    """About which release a broker is of, by its APIs."""
    if versions.get(ApiKey.FETCH, (0, 0))[0] >= _OLDEST_FETCH:
        return "4.0 or later"
    return next((name for name, key in _RELEASES if key in versions), "before 2.6")


def check_own_topic(what: str, topic: OwnTopicFacts, brokers: int) -> Iterator[DoctorFinding]:
    """A topic of lockgate's own is as durable as what it decides."""
    if not topic.partitions:
        if not topic.untold:
            yield ok("own topic", what, f"{topic.name} is not there yet: a gateway makes it")
        return
    found = list(_own_topic(what, topic, brokers))
    yield from found or [
        ok("own topic", what, f"{topic.name}: {many(topic.replicas, 'replica')}, compacted, min.insync.replicas kept")
    ]


def _own_topic(what: str, topic: OwnTopicFacts, brokers: int) -> Iterator[DoctorFinding]:
    wanted = min(REPLICAS, brokers)
    if topic.replicas < wanted:
        yield warn(
            "own topic",
            what,
            f"{topic.name} has {many(topic.replicas, 'replica')} on {many(brokers, 'broker')}",
            f"give it {wanted} (kafka-reassign-partitions)",
        )
    if topic.configs is None:
        yield warn(
            "own topic",
            what,
            f"configs of {topic.name} are not told ({topic.untold})",
            f"give the principal DescribeConfigs on topic {topic.name}",
        )
        return
    if topic.partitions != 1 or topic.configs.get("cleanup.policy") != "compact":
        yield bad(
            "own topic",
            what,
            f"{topic.name} has {many(topic.partitions, 'partition')} and cleanup.policy "
            f"{topic.configs.get('cleanup.policy', '')}: it is not lockgate's",
            "a gateway makes it with one partition, compacted: find out who has made this one",
        )
        return
    lacking = not_durable(topic.configs, topic.replicas)
    if lacking:
        added = ",".join(f"{name}={value}" for name, value in sorted(lacking.items()))
        yield bad(
            "own topic",
            what,
            f"{topic.name} may lose what is acknowledged: it lacks {added}",
            f"kafka-configs --alter --topic {topic.name} --add-config {added}",
        )
    least = int(topic.configs.get("min.insync.replicas") or 1)
    if 0 <= topic.in_sync < min(least, topic.replicas):
        yield bad(
            "own topic",
            what,
            f"{topic.name} has {topic.in_sync} of {many(topic.replicas, 'replica')} in sync, and takes {least}: "
            "nothing can be decided",
            "bring the broker that is behind back",
        )


_LIMITS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


def check_quotas(facts: SeenCluster) -> Iterator[DoctorFinding]:
    """What slows this principal down: quotas that are of it, and a throttle that it is under now."""
    for broker in facts.brokers:
        if broker.throttled_s > 0:
            yield warn(
                "quotas",
                facts.name,
                f"broker {broker.node_id} throttles this principal now, for {broker.throttled_s:.1f} s",
                "give it a larger quota",
            )
    if facts.quotas is None:
        if facts.quotas_untold:
            yield warn(
                "quotas",
                facts.name,
                f"quotas are not told ({facts.quotas_untold})",
                "give the principal DescribeConfigs on the cluster; or kafka-configs --describe --entity-type users",
            )
        return
    quotas = of_principal(facts.quotas, facts.user, facts.client_id)
    found = [f"{key.words} {quotas[key]:g}" for key in sorted(quotas, key=lambda key: key.order)]
    if found:
        yield warn(
            "quotas",
            facts.name,
            f"this principal has {some_of(found, 6)}",
            "a mirror is no faster than its quota: raise it for this user, or see that it is enough",
        )
    else:
        yield ok("quotas", facts.name, "none for this principal")


def of_principal(quotas: Mapping[QuotaKey, float], user: str, client_id: str) -> dict[QuotaKey, float]:
    """Those that count for a user and its client id, by Kafka's order: the most exact entity of each limit wins.

    `user` '' is somebody whose name is not known here: only quotas of everybody, and of the client id, are seen.
    """
    found: dict[QuotaKey, float] = {}
    for limit in _LIMITS:
        ranked = [
            (rank, key) for key in quotas if key.key == limit and (rank := _rank(key, user, client_id)) is not None
        ]
        if ranked:
            key = min(ranked)[1]
            found[key] = quotas[key]
    return found


def _rank(key: QuotaKey, user: str, client_id: str) -> int | None:
    """The smaller, the more exact (KIP-55); None when the quota is not of this principal."""
    if key.part(EntityType.IP) is not None:
        return None
    total = 0
    for kind, name, weight in ((EntityType.USER, user, 3), (EntityType.CLIENT_ID, client_id, 1)):
        part = key.part(kind)
        if part is None:
            total += 2 * weight
        elif part.name is None:
            total += weight
        elif not name or part.name != name:
            return None
    return total
