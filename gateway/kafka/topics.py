"""Polls a cluster for many topics: which exist, and some of their configs.

Config sync asks for the configs of all mirrors every few seconds, at most a hundred topics per request. A broker nearly
always repeats its last answer. Such an answer is not parsed again (`protocol/asked_again.py`): then the same objects
are returned as before, so callers may compare by identity first. Topics with equal configs share one object.

The listing has all topics that this client may see, and whether it may read them: one Metadata request. It stays out of
the cluster's view, since nothing is routed by it, and is requested at most every few minutes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from gateway.kafka.admin import require_described, topic_configs_request
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.rules.names import topic_id_text
from gateway.kafka.view import ListedTopic
from protocol.asked_again import DescribeConfigsAgain
from protocol.errors import ErrorCode
from protocol.messages import MetadataRequest

_READ: Final = 1 << 3
"""AclOperation.READ as a bit of Metadata's `topic_authorized_operations` (KIP-430)."""

_NOT_TOLD: Final = -(2**31)
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


async def list_topics(cluster: Cluster, *, timeout_s: float | None = None) -> list[ListedTopic]:
    """The topics that this client may describe, by name. A topic that is still being created may be missing.

    Raises:
        ClusterUnavailable: no answer within the deadline.
    """
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    response = await cluster.request(request, timeout_s=timeout_s)
    if not response.brokers:
        raise ClusterUnavailable("Metadata without brokers")
    found = []
    for topic in response.topics:
        if not topic.name or topic.error_code in _GONE:
            continue
        topic_id = "" if topic.topic_id is None else topic_id_text(topic.topic_id.bytes)
        found.append(ListedTopic(topic.name, topic_id, bool(topic.is_internal), _readable(topic)))
    return sorted(found, key=lambda topic: topic.name)


def _readable(topic: object) -> bool | None:
    if getattr(topic, "error_code", 0) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return False
    operations = getattr(topic, "topic_authorized_operations", _NOT_TOLD)
    return None if operations in (None, _NOT_TOLD) else bool(operations & _READ)


AT_ONCE: Final = 100
"""Topics in one request: its answer has some 100 KB."""

_KEPT: Final = 256
"""How many questions' answers are recognized; for more topics than these cover, answers are parsed each time."""

Configs = Mapping[str, str]
_Question = tuple[tuple[str, ...], tuple[str, ...]]


class _ConfigsAnswer(NamedTuple):
    digest: bytes
    configs: Mapping[str, Configs]


class TopicConfigs:
    """Reads the topic configs of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: OrderedDict[_Question, _ConfigsAnswer] = OrderedDict()

    async def read(self, names: Iterable[str], only: Collection[str]) -> dict[str, Configs]:
        """The effective configs of each topic, `only` those named; leaves out configs that the cluster does not know,
        and sensitive ones, which topics do not have.

        Raises:
            AdminError: for the first topic that cannot be described, for example UNKNOWN_TOPIC_OR_PARTITION (3).
            ClusterUnavailable: no answer within the deadline.
        """
        ordered, keys = sorted(set(names)), tuple(only)
        found: dict[str, Configs] = {}
        for at in range(0, len(ordered), AT_ONCE):
            found |= await self._ask((tuple(ordered[at : at + AT_ONCE]), keys))
        return found

    async def _ask(self, question: _Question) -> Mapping[str, Configs]:
        known = self._known.get(question)
        request = topic_configs_request(*question)
        told = await self._cluster.request(DescribeConfigsAgain(request, b"" if known is None else known.digest))
        if told.message is None and known is not None:
            answer = known
        else:
            require_described(told.message)
            answer = _ConfigsAnswer(told.digest, _shared(told.message))
        if len(question[0]) > 1:  # a single topic is asked for on an event, not regularly
            self._known[question] = answer
            self._known.move_to_end(question)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return answer.configs


def _shared(response: Any) -> Mapping[str, Configs]:
    equal: dict[tuple[tuple[str, str], ...], Configs] = {}
    found: dict[str, Configs] = {}
    for result in response.results:
        pairs = tuple((entry.name, entry.value) for entry in result.configs if entry.value is not None)
        if pairs not in equal:
            equal[pairs] = MappingProxyType(dict(pairs))
        found[result.resource_name] = equal[pairs]
    return found
