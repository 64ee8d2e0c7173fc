"""Some configs of many topics, asked again and again: so config sync does every few seconds, of all mirrors.

One question is about a hundred topics at most. A broker nearly always says what it said the last time. Such an answer
is not read again (`protocol/asked_again.py`): then the same objects are returned as before, and whoever compares may
compare the objects first. Topics with equal configs share one object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from gateway.kafka.admin import require_described, topic_configs_request
from gateway.kafka.cluster import Cluster
from protocol.asked_again import DescribeConfigsAgain

AT_ONCE: Final = 100
"""Topics in one request: its answer has some 100 KB."""

_KEPT: Final = 256
"""Questions whose answers are known again; of more topics than these have, the answers are read each time."""

Configs = Mapping[str, str]
_Question = tuple[tuple[str, ...], tuple[str, ...]]


class _Answer(NamedTuple):
    digest: bytes
    configs: Mapping[str, Configs]


class TopicConfigs:
    """Of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: OrderedDict[_Question, _Answer] = OrderedDict()

    async def read(self, names: Iterable[str], only: Collection[str]) -> dict[str, Configs]:
        """The effective configs of each topic, of these `only`; one that the cluster does not know is left out, and so
        are sensitive ones, which topics have none of.

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
            answer = _Answer(told.digest, _shared(told.message))
        if len(question[0]) > 1:  # one alone is asked for when something becomes of it
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
