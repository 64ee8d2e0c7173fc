"""Takes the inventory: questions to the source, and to the target where one is named. Nothing is changed.

ACLs and transactional ids are lines for people.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from gateway.doctor.authorized import cluster_operations, topic_operations
from gateway.doctor.rules.rights import NOT_TOLD
from gateway.jobs.plan.facts import BatchSample, GroupFacts, Inventory, PlanFacts, TargetFacts
from gateway.jobs.plan.sampling import sample_topics
from gateway.jobs.plan.target_checks import refused_topics
from gateway.jobs.topic_ranges import LogRanges, log_ranges
from gateway.kafka.access.acls import every_acl
from gateway.kafka.admin import TopicConfigEntry, describe_topic_configs, log_sizes
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import committed_offsets
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError, UnsupportedVersion
from gateway.kafka.groups import DEAD, SHARE, STREAMS, describe_group, list_groups
from gateway.kafka.offsets import list_offsets
from gateway.kafka.rules.names import is_internal
from gateway.kafka.share_groups import share_offsets
from gateway.kafka.topic_partition import TopicPartition
from protocol.errors import ErrorCode, error_name
from protocol.messages import ListTransactionsRequest

_RESOURCES: Final = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id", 6: "delegation token", 7: "user"}
_PATTERNS: Final = {3: "", 4: "prefixed "}
_OPERATIONS: Final = (
    "unknown",
    "any",
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
_PERMISSIONS: Final = {2: "deny", 3: "allow"}


async def acl_lines(cluster: Cluster) -> tuple[str, ...]:
    """Every ACL, one line each; none on a cluster without an authorizer.

    Raises:
        BrokerError: it is not allowed to ask.
        ClusterUnavailable: no answer.
    """
    try:
        resources = await every_acl(cluster)
    except BrokerError as exc:
        if exc.code == ErrorCode.SECURITY_DISABLED:
            return ()
        raise
    lines: list[str] = []
    for resource in resources:
        kind = _RESOURCES.get(resource.resource_type, str(resource.resource_type))
        what = f"{_PATTERNS.get(resource.pattern_type, '')}{kind} {resource.resource_name}"
        lines.extend(
            f"{_PERMISSIONS.get(acl.permission_type, '?')} {acl.principal} from {acl.host}: "
            f"{_operation(acl.operation)} on {what}"
            for acl in resource.acls
        )
    return tuple(sorted(lines))


async def transactional_ids(cluster: Cluster) -> tuple[str, ...]:
    """Transactional ids that the cluster's coordinators know; none from brokers too old to tell (before 3.0).

    Raises:
        BrokerError: it is not allowed to ask.
        ClusterUnavailable: a broker does not answer.
    """
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    asked = (cluster.request(request, node_id=node) for node in tuple(cluster.view.brokers))
    answers: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
    found: set[str] = set()
    for answer in answers:
        if isinstance(answer, UnsupportedVersion):
            continue
        if isinstance(answer, BaseException):
            raise answer
        if answer.error_code:
            raise BrokerError(answer.error_code, f"ListTransactions: {error_name(answer.error_code)}")
        found.update(state.transactional_id for state in answer.transaction_states)
    return tuple(sorted(found))


def _operation(code: int) -> str:
    return _OPERATIONS[code] if 0 <= code < len(_OPERATIONS) else str(code)


T = TypeVar("T")

RATE_S: Final = 3600
_AT_ONCE: Final = 16
_CONFIGS_AT_ONCE: Final = 200
_SET_ON_TOPIC: Final = 1
_UNANSWERED: Final = 16
"""Groups without an answer, each of which took its whole deadline, after which the cluster does not answer."""

_NO_SIZES: Final = "how long the catch-up takes is not known; that takes DESCRIBE on the cluster"
_NO_RATES: Final = "what is written during the catch-up is not counted"
_NO_CONFIGS: Final = "compacted topics and LogAppendTime go unnoticed; that takes DESCRIBE_CONFIGS on the topics"
_NO_GROUPS: Final = "no group is in this plan"
_NO_GROUP: Final = "it is not in this plan"
_NO_ACLS: Final = "what must be allowed on the target is not listed; that takes DESCRIBE on the cluster"
_NO_IDS: Final = "transactional producers are known by samples of the logs only"
_NO_CREATES: Final = "a topic may be refused when its mirror is created"
_NO_RIGHTS: Final = "a mirror may fail for want of one"
_NO_TARGET_CONFIGS: Final = "configs that this target does not know are not named"


def offsets_of(ranges: LogRanges) -> dict[str, int]:
    """Offsets between the start and the end of the logs of each topic."""
    found: dict[str, int] = {}
    for (topic, _), (start, end) in ranges.items():
        found[topic] = found.get(topic, 0) + end - start
    return found


class InventoryGatherer:
    """One inventory. Questions that a cluster may refuse are noted in `untold`. `prefix`: of mirror topics."""

    def __init__(self, source: Cluster, now: Callable[[], float] = time.time, *, prefix: str = "") -> None:
        self._source = source
        self._prefix = prefix
        self._now = now
        self.untold: list[str] = []

    async def inventory(self, wanted: Collection[str], target: Cluster | None) -> tuple[Inventory, LogRanges]:
        """What is there, and the logs' ranges.

        Args:
            wanted: topics; all that are not internal when empty.

        Raises:
            ValueError: a topic that the source does not have.
            NetError: the source does not answer.
        """
        view = await self._source.refresh(None)
        names = sorted(
            wanted or (name for name, topic in view.topics.items() if not self._internal(name, topic.internal))
        )
        ranges = await log_ranges(self._source, names)
        sizes = await self._or("sizes of the source's logs", log_sizes(self._source, names), {}, _NO_SIZES)
        rates = await self._or("how fast the source is written", self._rates(ranges), {}, _NO_RATES)
        samples = await sample_topics(self._source, ranges)
        configs = await self._or("the source's topic configs", self._configs(self._source, names), {}, _NO_CONFIGS)
        written = offsets_of(ranges)
        topics = tuple(self._topic(name, written, sizes, rates, samples, configs.get(name, {})) for name in names)
        found = Inventory(
            cluster_id=view.cluster_id,
            brokers=len(view.brokers),
            topics=topics,
            groups=await self._or("the source's groups", self._groups(), (), _NO_GROUPS),
            acls=await self._or("the source's ACLs", acl_lines(self._source), (), _NO_ACLS),
            transactional_ids=await self._or(
                "the source's transactional ids", transactional_ids(self._source), (), _NO_IDS
            ),
            target=None if target is None else await self._target(target, topics),
            untold=tuple(self.untold),
        )
        return found, ranges

    @staticmethod
    def _internal(name: str, internal: bool) -> bool:
        return internal or is_internal(name)

    async def _or(self, what: str, question: Awaitable[T], otherwise: T, so: str) -> T:
        """`so`: what follows when it is not told, for people."""
        try:
            return await question
        except NetError as exc:
            self.untold.append(f"{what} ({exc}): {so}")
            return otherwise

    def _topic(
        self,
        name: str,
        written: Mapping[str, int],
        sizes: Mapping[TopicPartition, int],
        rates: Mapping[str, float],
        samples: Mapping[str, BatchSample],
        configs: Mapping[str, TopicConfigEntry],
    ) -> PlanFacts:
        partitions = self._source.view.topics[name].partitions
        return PlanFacts(
            name=name,
            partitions=len(partitions),
            replication_factor=max(len(part.replicas) for part in partitions.values()),
            bytes=sum(sizes.get((name, index), 0) for index in partitions) if sizes else -1,
            offsets=written.get(name, 0),
            offsets_per_s=rates.get(name, 0.0),
            largest_bytes=max((sizes.get((name, index), 0) for index in partitions), default=0) if sizes else -1,
            configs={key: entry.value for key, entry in configs.items() if entry.value is not None},
            own=frozenset(key for key, entry in configs.items() if entry.source == _SET_ON_TOPIC),
            sample=samples.get(name, BatchSample()),
        )

    async def _rates(self, ranges: LogRanges) -> dict[str, float]:
        """Offsets a second of each topic over the last hour, by the log's own timestamps."""
        since = int((self._now() - RATE_S) * 1000)
        wanted: dict[str, dict[int, int]] = {}
        for topic, index in ranges:
            wanted.setdefault(topic, {})[index] = since
        found = await list_offsets(self._source, wanted)
        rates: dict[str, float] = {}
        for key, answer in found.items():
            written = ranges[key][1] - answer.offset if answer.offset >= 0 else 0
            rates[key[0]] = rates.get(key[0], 0.0) + max(0, written) / RATE_S
        return rates

    async def _configs(self, cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, TopicConfigEntry]]:
        found: dict[str, dict[str, TopicConfigEntry]] = {}
        for at in range(0, len(names), _CONFIGS_AT_ONCE):
            found |= await describe_topic_configs(cluster, names[at : at + _CONFIGS_AT_ONCE])
        return found

    async def _groups(self) -> tuple[GroupFacts, ...]:
        listed = await list_groups(self._source)
        slots = asyncio.Semaphore(_AT_ONCE)
        refused: list[str] = []

        async def ask(name: str, protocol_type: str, kind: str) -> GroupFacts | None:
            try:
                async with slots:
                    view = await describe_group(self._source, name)
                    committed = await self._topics_of(name, protocol_type)
            except NetError as exc:  # of this one: a right that is missing, a transaction that hangs
                refused.append(f"group {name} ({exc}): {_NO_GROUP}")
                if isinstance(exc, ClusterUnavailable) and len(refused) >= _UNANSWERED:
                    raise
                return None
            if view.state == DEAD:  # it was deleted since it was listed
                return None
            return GroupFacts(
                name=name,
                type=view.type or kind,
                protocol_type=protocol_type,
                state=view.state,
                clients=tuple(sorted({f"{member.client_id} ({member.host})" for member in view.members})),
                topics=tuple(sorted(view.topics | committed)),
            )

        found = await asyncio.gather(*(ask(one.group, one.protocol_type, one.type) for one in listed))
        self.untold.extend(sorted(refused))
        return tuple(one for one in found if one is not None)

    async def _topics_of(self, group: str, protocol_type: str) -> frozenset[str]:
        """Those that it has committed offsets of, or a share group its start offsets."""
        if protocol_type == SHARE:
            return frozenset(topic for topic, _ in await share_offsets(self._source, group))
        if protocol_type in ("consumer", "", STREAMS):
            return frozenset(topic for topic, _ in await committed_offsets(self._source, group))
        return frozenset()

    async def _target(self, target: Cluster, topics: Sequence[PlanFacts]) -> TargetFacts:
        view = await target.refresh(None)
        there = {self._prefix + one.name: one.name for one in topics if self._prefix + one.name in view.topics}
        ranges = await log_ranges(target, list(there)) if there else {}
        held = dict.fromkeys(there.values(), 0)
        for (name, _), (start, end) in ranges.items():
            held[there[name]] += end - start
        wanted = {
            self._prefix + one.name: (one.partitions, min(one.replication_factor, len(view.brokers)))
            for one in topics
            if one.name not in held
        }
        refused = await self._or("whether the target creates topics", refused_topics(target, wanted), {}, _NO_CREATES)
        names = sorted(self._prefix + one.name for one in topics)
        operations = await self._or("rights on the target's topics", topic_operations(target, names), {}, _NO_RIGHTS)
        on_cluster = await self._or("rights on the target's cluster", cluster_operations(target), NOT_TOLD, _NO_RIGHTS)
        any_topic = list(there)[:1] or [name for name, topic in view.topics.items() if not topic.error][:1]
        configs = await self._or("the target's topic configs", self._configs(target, any_topic), {}, _NO_TARGET_CONFIGS)
        return TargetFacts(
            cluster_id=view.cluster_id,
            brokers=len(view.brokers),
            topics=held,
            config_names=frozenset(key for entries in configs.values() for key in entries),
            prefix=self._prefix,
            refused={name.removeprefix(self._prefix): why for name, why in refused.items()},
            operations={name.removeprefix(self._prefix): bits for name, bits in operations.items()},
            on_cluster=on_cluster,
        )
