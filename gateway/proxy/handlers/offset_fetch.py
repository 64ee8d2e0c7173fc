"""OffsetFetch: v0-9 (v10 names topics by id and is not advertised).

Behaviour: held at most 4 s for a group that may not read yet, then COORDINATOR_LOAD_IN_PROGRESS, both for the
group and on every partition: aiokafka looks at partitions only, and an answer without them would read as "no
committed offset", which ends in auto.offset.reset. From v8 on a request may name several groups: those that may read
are asked of the target then, and only the others are told to come again. Who may describe the group only waits without
counting as a waiter.

Who asks for all topics and not for stable offsets is a tool, which takes the answer for all groups that it names: told
to come again it would be blind for the others. So it is answered at once with what the group has committed on the
source (`groups/gated_offsets.py`), of topics that it may describe. A consumer names its partitions; the gateway of a
chain's next cluster asks for stable offsets, and waits: a group that is not promoted here must not be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gateway.groups.gate.rules.gates import GateStatus, GroupGates
from gateway.proxy.handlers.gating import pass_or_hold, passes, refused_right
from gateway.proxy.handlers.group_rights import Right, group_rights
from gateway.proxy.handlers.partly_refused import refuse
from gateway.proxy.produce.authorization import DESCRIBE, may_change
from gateway.proxy.rules.refusals import Refusal, of_those
from protocol.errors import ErrorCode
from protocol.messages import OffsetFetchResponse
from protocol.offset_fetch import SEVERAL_FROM, refused
from protocol.peek import first_array_size

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
_MOST_GROUPS = 100_000
"""Tools that look at lag name all groups of a cluster in one request; what may be decoded is bounded anyway."""
_ALL_TOPICS_FROM: Final = 2
HOLD_S = 4.0


class SourceOffsets(Protocol):
    """What a group that waits has committed on its source."""

    async def of(self, group: str) -> Mapping[tuple[str, int], Any] | None:
        """By (mirror topic, partition), soon; a value of None is not known. None: ask again."""


class OffsetFetchHandler:
    """See the module's docstring."""

    def __init__(
        self,
        *,
        gates: GroupGates,
        offsets: SourceOffsets,
        spawn: Callable[[asyncio.Task[None]], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._gates = gates
        self._offsets = offsets
        self._spawn = spawn
        self._loop = loop

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        if self._names_too_many(session, exchange):
            body, code = exchange.body, int(ErrorCode.INVALID_REQUEST)
            exchange.reply(refused(body, exchange.api_version, code, session.max_elements))
            return
        request = exchange.request()
        asked = request.groups if exchange.api_version >= 8 else [request]
        groups = [each.group_id for each in asked]
        if looked_at := self._looked_at(session, exchange, request, asked):
            self._look(session, exchange, request, looked_at)
            return
        pass_or_hold(
            self._gates,
            session,
            exchange,
            groups,
            HOLD_S,
            lambda codes: self._refuse(session, exchange, request, codes),
            right=Right.DESCRIBE,
            looks_at=frozenset(each.group_id for each in asked if not each.topics),
        )

    def _looked_at(self, session: Session, exchange: Exchange, request: Any, asked: Sequence[Any]) -> list[str]:
        """The groups whose offsets are the source's, if it is a tool that asks, and none of the others has to wait."""
        if exchange.api_version < _ALL_TOPICS_FROM or getattr(request, "require_stable", False):
            return []
        closed = [each for each in asked if not passes(self._gates, session, each.group_id)]
        if len(asked) > session.context.limits.groups_per_request or any(each.topics is not None for each in closed):
            return []
        known = all(self._gates.known_status(each.group_id) is GateStatus.CLOSED for each in closed)
        return list(dict.fromkeys(each.group_id for each in closed)) if known else []

    def _look(self, session: Session, exchange: Exchange, request: Any, groups: Sequence[str]) -> None:
        def allowed(rights: Mapping[str, Right | int]) -> None:
            denied = {group: code for group, found in rights.items() if (code := refused_right(found, Right.DESCRIBE))}
            session.stall()
            ask = [group for group in groups if group not in denied]
            self._spawn(self._loop.create_task(self._tell(session, exchange, request, ask, denied)))

        for group in groups:
            self._gates.saw(session.identity, group)
        if session.context.asks_login:
            group_rights(session, groups, allowed)
        else:
            allowed({})

    async def _tell(
        self, session: Session, exchange: Exchange, request: Any, groups: Sequence[str], denied: Mapping[str, int]
    ) -> None:
        answers = await asyncio.gather(*(self._offsets.of(group) for group in groups))
        held = dict(zip(groups, answers, strict=True))
        topics = {topic for found in answers for topic, _ in found or ()}

        def answer() -> None:
            seen = may_change(session, topics, DESCRIBE, lambda: session.again(answer)) if ask_topics else topics
            if seen is not None:
                self._answer(session, exchange, request, _Told(held, denied, frozenset(seen)))

        ask_topics = session.context.asks_login and topics
        session.again(answer)

    def _answer(self, session: Session, exchange: Exchange, request: Any, told: _Told) -> None:
        def waits(group: Any) -> bool:
            return group.group_id in told.held or group.group_id in told.denied

        def answer(groups: Sequence[Any]) -> OffsetFetchResponse:
            kind = OffsetFetchResponse.OffsetFetchResponseGroup
            entries = [told.entry(group.group_id, kind, kind.OffsetFetchResponseTopics) for group in groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=entries)

        if exchange.api_version >= SEVERAL_FROM:
            refusal = of_those(request.groups, waits, "groups", answer, most=_MOST_GROUPS)
        else:
            kind = OffsetFetchResponse
            one = told.entry(request.group_id, None, kind.OffsetFetchResponseTopic)
            refusal = Refusal(kind(throttle_time_ms=0, topics=one.topics, error_code=one.error_code))
        if refuse(exchange, request, refusal):
            exchange.forward()

    def _names_too_many(self, session: Session, exchange: Exchange) -> bool:
        """More groups than are decoded, and not so many that the request is refused whole."""
        if exchange.api_version < SEVERAL_FROM:
            return False
        count = first_array_size(exchange.body, flexible=True)
        return session.context.limits.groups_per_request < count <= session.max_elements

    def _refuse(self, session: Session, exchange: Exchange, request: Any, codes: Mapping[str, int]) -> None:
        def waits(group: Any) -> bool:
            return group.group_id in codes or not passes(self._gates, session, group.group_id)

        def answer(groups: Sequence[Any]) -> OffsetFetchResponse:
            refused = [_refused_group(group, codes.get(group.group_id, _LOADING)) for group in groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=refused)

        if exchange.api_version >= 8:
            refusal = of_those(request.groups, waits, "groups", answer, most=_MOST_GROUPS)
        else:
            code = codes.get(request.group_id, _LOADING)
            kind = OffsetFetchResponse.OffsetFetchResponseTopic
            topics = [_refused_topic(kind, topic, code) for topic in request.topics or ()]
            refusal = Refusal(OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code))
        if refuse(exchange, request, refusal):
            exchange.forward()


class _Told(NamedTuple):
    """What becomes of each group that a tool looks at. `topics`: that it may describe."""

    held: Mapping[str, Mapping[tuple[str, int], Any] | None]
    denied: Mapping[str, int]
    topics: frozenset[str]

    def entry(self, group: str, kind: Any, topic_kind: Any) -> Any:
        """Of a group; without `kind` what a version for one group has of it."""
        code, found = self.denied.get(group, 0), self.held.get(group)
        if not code and found is None:
            code = _LOADING
        topics = {} if code else _by_topic(found or {}, self.topics)
        topics_told = [_told_topic(topic_kind, name, parts) for name, parts in topics.items()]
        return (kind or SimpleNamespace)(group_id=group, topics=topics_told, error_code=code)


def _by_topic(found: Mapping[tuple[str, int], Any], seen: frozenset[str]) -> dict[str, dict[int, Any]]:
    topics: dict[str, dict[int, Any]] = {}
    for (topic, partition), value in found.items():
        if topic in seen:
            topics.setdefault(topic, {})[partition] = value
    return topics


def _told_topic(kind: Any, name: str, parts: Mapping[int, Any]) -> Any:
    part = getattr(kind, "OffsetFetchResponsePartition", None) or kind.OffsetFetchResponsePartitions
    return kind(
        name=name,
        partitions=[
            part(
                partition_index=index,
                committed_offset=-1 if value is None else value.offset,
                committed_leader_epoch=-1,
                metadata="" if value is None else value.metadata,
                error_code=_LOADING if value is None else 0,
            )
            for index, value in parts.items()
        ],
    )


def _refused_group(group: Any, code: int) -> Any:
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    topics = [_refused_topic(kind.OffsetFetchResponseTopics, topic, code) for topic in group.topics or ()]
    return kind(group_id=group.group_id, topics=topics, error_code=code)


def _refused_topic(kind: Any, topic: Any, code: int) -> Any:
    partition_kind = getattr(kind, "OffsetFetchResponsePartition", None) or kind.OffsetFetchResponsePartitions
    partitions = [
        partition_kind(
            partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
        )
        for index in topic.partition_indexes
    ]
    return kind(name=topic.name, partitions=partitions)
