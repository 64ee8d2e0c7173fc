"""Looks at one cluster, as one principal, from here: brokers, versions, rights, own topics, quotas. Changes nothing.

Each question has a deadline, and one that is refused or not answered is written down as such: nothing is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from gateway.doctor.authorized import cluster_operations, group_operations, topic_operations
from gateway.doctor.places import PATIENCE, Patience, look_at_places
from gateway.doctor.rules.facts import BrokerFacts, Inquiry, OwnTopicFacts, PlaceFacts, RightsFacts, SeenCluster
from gateway.doctor.rules.rights import NOT_TOLD
from gateway.kafka.access.quotas import describe_quotas
from gateway.kafka.admin import describe_topic_configs
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import OAUTHBEARER, ClusterConfig
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, NetError, UnsupportedVersion
from protocol.errors import ErrorCode, ProtocolError, error_name

TOPICS: Final = 1_000
GROUPS: Final = 100
"""Whose rights are asked at the most."""
_LANE: Final = "doctor"

T = TypeVar("T")


async def look_at_cluster(
    name: str, config: ClusterConfig, asked: Inquiry, patience: Patience = PATIENCE, *, in_depth: bool = True
) -> SeenCluster:
    """All that is asked of a cluster. Raises nothing.

    Args:
        name: how it is called in findings.
        in_depth: False: only whether each broker serves this login at the address that it advertises.
    """
    config = replace(
        config,
        connect_timeout_s=min(config.connect_timeout_s, patience.connect_s),
        request_timeout_s=min(config.request_timeout_s, patience.answer_s),
        api_timeout_s=min(config.api_timeout_s, patience.answer_s),
    )
    facts = SeenCluster(
        name=name,
        asked=asked,
        client_id=config.client_id,
        verifies_names=config.tls.verify_certificate and config.tls.verify_hostname,
    )
    bootstrap = await look_at_places(config.bootstrap, config, patience, advertised=False)
    facts = replace(facts, bootstrap=bootstrap)
    if not any(place.connects for place in bootstrap):
        return replace(facts, error="none of its bootstrap servers takes a connection")
    try:
        facts = replace(facts, user=_user(config))
        async with asyncio.timeout(patience.cluster_s):
            return await _ClusterQuestions(Cluster(config), facts, patience).all(in_depth=in_depth)
    except ValueError as exc:  # a secret that cannot be read; names the property
        return replace(facts, error=str(exc))
    except TimeoutError:
        return replace(facts, error=f"not all was answered within {patience.cluster_s:g} s")


def _user(config: ClusterConfig) -> str:
    """As quotas and ACLs most often call it. Raises ValueError when it cannot be read."""
    if not config.uses_sasl:
        return ""
    if config.sasl_mechanism == OAUTHBEARER:
        return config.oauth.client
    return config.resolve("sasl.username", config.sasl_username)


class _ClusterQuestions:
    """At one cluster, closed at the end."""

    def __init__(self, cluster: Cluster, facts: SeenCluster, patience: Patience) -> None:
        self._cluster = cluster
        self._facts = facts
        self._patience = patience
        self._untold: dict[str, str] = {}

    async def all(self, *, in_depth: bool) -> SeenCluster:
        try:
            await self._cluster.start(self._patience.answer_s, topics=())
        except NetError as exc:
            await self._cluster.close()
            return replace(self._facts, error=str(exc), refused=isinstance(exc, AuthenticationFailed))
        try:
            found = replace(self._facts, cluster_id=self._cluster.view.cluster_id, brokers=await self._brokers())
            return await self._in_depth(found) if in_depth else found
        finally:
            await self._cluster.close()

    async def _brokers(self) -> tuple[BrokerFacts, ...]:
        view = self._cluster.view.brokers
        nodes = sorted(view)
        where = [(view[node].host, view[node].port) for node in nodes]
        places = await look_at_places(where, self._cluster.config, self._patience, advertised=True)
        slots = asyncio.Semaphore(self._patience.at_once)

        async def look(node: int, place: PlaceFacts) -> BrokerFacts:
            if not place.connects:
                return BrokerFacts(node_id=node, place=place, error="nothing takes a connection there")
            async with slots:
                try:
                    connection = await self._cluster.connection(node, _LANE, self._patience.connect_s)
                except NetError as exc:
                    return BrokerFacts(node_id=node, place=place, error=str(exc))
            return BrokerFacts(
                node_id=node, place=place, versions=connection.versions, throttled_s=connection.rest.left_s
            )

        return tuple(await asyncio.gather(*(look(*each) for each in zip(nodes, places, strict=True))))

    async def _in_depth(self, found: SeenCluster) -> SeenCluster:
        own_topics = await self._own_topics(found.asked.own_topics)
        rights = await self._rights(found.asked)
        quotas, why = None, ""
        try:
            quotas = await describe_quotas(self._cluster, timeout_s=self._patience.answer_s)
        except UnsupportedVersion:
            pass  # the line of versions says so
        except (NetError, ProtocolError) as exc:
            why = str(exc)
        return replace(found, own_topics=own_topics, rights=rights, quotas=quotas, quotas_untold=why)

    # -- rights ------------------------------------------------------------------------------------------------------

    async def _rights(self, asked: Inquiry) -> RightsFacts:
        topics = (*asked.own_topics, *asked.topics)
        if len(topics) > TOPICS:
            self._untold[f"rights on {len(topics) - TOPICS} topics more"] = f"{TOPICS} are asked for"
        groups = tuple(name for name in (asked.fleet, *asked.groups) if name)
        if len(groups) > GROUPS:
            self._untold[f"rights on {len(groups) - GROUPS} groups more"] = f"{GROUPS} are asked for"
        return RightsFacts(
            on_cluster=await self._or("rights on the cluster", cluster_operations(self._cluster), NOT_TOLD),
            topics=await self._or("rights on topics", topic_operations(self._cluster, topics[:TOPICS]), {}),
            topic_configs=await self._policies(asked.topics[:TOPICS]),
            groups=await self._groups(groups[:GROUPS]),
            transactional_ids={name: await self._transactional_id(name) for name in asked.transactional_ids},
            untold=self._untold,
        )

    async def _or(self, question: str, answer: Awaitable[T], otherwise: T) -> T:
        try:
            return await answer
        except (NetError, ProtocolError) as exc:
            self._untold[question] = str(exc)
            return otherwise

    async def _policies(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """`cleanup.policy` of those that are there and may be described: whether records are deleted goes by it."""
        found: dict[str, dict[str, str]] = {}
        with suppress(NetError, ProtocolError):
            there = (await self._cluster.refresh(names)).topics if names else {}
            wanted = [name for name in names if name in there and not there[name].error]
            described = await describe_topic_configs(self._cluster, wanted, only=("cleanup.policy",))
            for name, configs in described.items():
                found[name] = {key: entry.value for key, entry in configs.items() if entry.value is not None}
        return found

    async def _groups(self, names: Iterable[str]) -> dict[str, int]:
        slots = asyncio.Semaphore(self._patience.at_once)

        async def ask(name: str) -> int:
            async with slots:
                return await self._or(f"rights on group {name}", group_operations(self._cluster, name), NOT_TOLD)

        wanted = tuple(names)
        found = await asyncio.gather(*(ask(name) for name in wanted))
        return {name: bits for name, bits in zip(wanted, found, strict=True) if bits != NOT_TOLD}

    async def _transactional_id(self, name: str) -> str:
        """Why it may not be looked at; '' when it may. (What may be written is known only by writing.)"""
        try:
            await self._cluster.transaction_coordinator(name, self._patience.answer_s)
        except BrokerError as exc:
            if exc.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                return error_name(exc.code)
            self._untold[f"rights on transactional id {name}"] = str(exc)
        except (NetError, ProtocolError) as exc:
            self._untold[f"rights on transactional id {name}"] = str(exc)
        return ""

    # -- own topics --------------------------------------------------------------------------------------------------

    async def _own_topics(self, names: Sequence[str]) -> tuple[OwnTopicFacts, ...]:
        if not names:
            return ()
        try:
            await self._cluster.refresh(names)
        except NetError as exc:
            return tuple(OwnTopicFacts(name=name, untold=str(exc)) for name in names)
        return tuple([await self._own_topic(name) for name in names])

    async def _own_topic(self, name: str) -> OwnTopicFacts:
        topic = self._cluster.view.topics.get(name)
        if topic is None:
            return OwnTopicFacts(name=name)
        if topic.error or not topic.partitions:
            return OwnTopicFacts(name=name, untold=error_name(topic.error))
        found = OwnTopicFacts(
            name=name,
            partitions=len(topic.partitions),
            replicas=min(len(each.replicas) for each in topic.partitions.values()),
            in_sync=min(each.in_sync for each in topic.partitions.values()),
        )
        try:
            configs = (await describe_topic_configs(self._cluster, (name,)))[name]
        except (NetError, ProtocolError) as exc:
            return replace(found, untold=str(exc))
        return replace(found, configs={key: one.value for key, one in configs.items() if one.value is not None})
