"""Membership in a group by the classic protocol, as the Java client's AbstractCoordinator: join, sync, heartbeat,
leave.

Assignor `range`, done by the member that the coordinator made the leader. Eager: a rebalance takes everything away
first. A gateway whose gate is closed answers UNKNOWN_MEMBER_ID after a while: the member joins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from gateway.kafka.cluster import Cluster, NetError
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
)
from protocol.errors import ErrorCode, error_name
from protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.simulation.clients.client import Client, Fatal, ended
from tests.simulation.clients.coordinator import GROUP, MOVED, Codes, Coordinator, GivenUp
from tests.simulation.clients.sequences import Key
from tests.simulation.clients.transactions import by_topic

_RANGE: Final = "range"
_BY_NAME: Final = 9  # the last version of OffsetCommit and OffsetFetch that names topics
_LOST: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID))
_PASSING: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        *MOVED,
    )
)


class Lost(Exception):
    """The group has gone on without this member, or goes on without it soon: join again.

    `certain`: the request had no effect.
    """

    def __init__(self, why: str, *, certain: bool = True) -> None:
        super().__init__(why)
        self.certain = certain


class Rewind(Exception):
    """Nothing of what was read counts: read on from what is committed."""


class Membership:
    """One member, over all its generations. `member_id` is "" before the coordinator gave one."""

    def __init__(self, client: Client, cluster: Cluster, group: str, topics: Collection[str]) -> None:
        self._client, self._cluster, self._group, self._topics = client, cluster, group, sorted(topics)
        self._timing = client.timing
        self._coordinator = Coordinator(cluster, group, GROUP, self._timing.request_timeout)
        self.member_id = ""
        self.generation = -1
        self._counts: dict[str, int] = {}
        self._leads = False

    # -- joining ---------------------------------------------------------------------------------------------

    async def join(self) -> list[Key] | None:
        """Join until there is an assignment; None when the client is to stop first."""
        while not self._client.stopping:
            try:
                answer = await self._until_stop(self._join())
                if answer is None:
                    return None
                assignment = await self._sync(answer)
            except NetError:
                await self._client.pause(self._timing.retry_backoff)
                continue
            if assignment is not None:
                return [(t, i) for t, indexes in sorted(assignment.items()) for i in sorted(indexes)]
        return None

    async def _join(self) -> Any:
        """JoinGroup until it is accepted."""
        while True:
            metadata = ConsumerProtocolSubscription(topics=self._topics, user_data=b"").encode(version=0)
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=int(self._timing.session_timeout * 1000),
                rebalance_timeout_ms=int(self._timing.max_poll_interval * 1000),
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=_RANGE, metadata=bytes(metadata))],
                reason="",
            )
            answer = await self._coordinator.ask(request, cap=7, timeout_s=self._timing.max_poll_interval + 5.0)
            code = answer.error_code
            if not code:
                self.member_id, self.generation = answer.member_id, answer.generation_id
                return answer
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif code in _LOST:
                self.forget()
            elif code in MOVED or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._coordinator.forget()
                await asyncio.sleep(self._timing.retry_backoff)
            elif code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise Fatal(f"JoinGroup {self._group}: {error_name(code)}")

    async def _sync(self, joined: Any) -> Mapping[str, Sequence[int]] | None:
        """The assignment; None: join again."""
        self._leads = joined.leader == self.member_id
        assignments = []
        if self._leads:
            assignments = await self._assigned(
                {each.member_id: decode_subscription(bytes(each.metadata)).topics for each in joined.members}
            )
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_RANGE,
            assignments=assignments,
        )
        answer = await self._coordinator.ask(request, cap=4, timeout_s=self._timing.max_poll_interval)
        code = answer.error_code
        if not code:
            return decode_assignment(bytes(answer.assignment)).partitions
        if code in _LOST:
            self.forget()
        elif code in MOVED or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._coordinator.forget()
            await asyncio.sleep(self._timing.retry_backoff)
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            raise Fatal(f"SyncGroup {self._group}: {error_name(code)}")
        return None

    async def _assigned(self, members: Mapping[str, Collection[str]]) -> list[Any]:
        topics = sorted({topic for wanted in members.values() for topic in wanted})
        await self._cluster.refresh(topics)
        self._counts = self._partition_counts(topics)
        given = range_assignment(members, self._counts)
        part = ConsumerProtocolAssignment.TopicPartition
        found = []
        for member_id in sorted(given):
            parts = [part(topic=topic, partitions=indexes) for topic, indexes in given[member_id].items()]
            data = bytes(ConsumerProtocolAssignment(assigned_partitions=parts, user_data=b"").encode(version=0))
            found.append(SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=data))
        return found

    def forget(self) -> None:
        """The coordinator does not know this member."""
        self.member_id, self.generation = "", -1

    # -- in the group ----------------------------------------------------------------------------------------

    async def heartbeat(self) -> None:
        """Heartbeats until the group wants something else.

        Raises:
            Lost: join again.
        """
        while True:
            await asyncio.sleep(self._timing.heartbeat_interval)
            request = HeartbeatRequest(
                group_id=self._group, generation_id=self.generation, member_id=self.member_id, group_instance_id=None
            )
            try:
                answer = await self._coordinator.ask(request, cap=3, timeout_s=self._timing.session_timeout)
            except NetError:
                continue
            code = answer.error_code
            if code in _LOST:
                self.forget()
                raise Lost(f"Heartbeat: {error_name(code)}")
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                raise Lost("a rebalance", certain=False)
            if code in MOVED or code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._coordinator.forget()
            elif code:
                raise Fatal(f"Heartbeat {self._group}: {error_name(code)}")
            if self._leads and self._counts != self._partition_counts(self._counts):
                raise Lost("partitions were added", certain=False)

    async def committed(self, keys: Collection[Key]) -> dict[Key, int]:
        """What the group has committed, as far as it has.

        Raises:
            Lost: join again.
        """
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = by_topic(keys)
        request = OffsetFetchRequest(
            group_id=self._group,
            topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name=t, partition_indexes=i) for t, i in topics],
            groups=[
                group(
                    group_id=self._group,
                    member_id=None,
                    member_epoch=-1,
                    topics=[group.OffsetFetchRequestTopics(name=t, partition_indexes=i) for t, i in topics],
                )
            ],
            require_stable=True,
        )
        answer = await self._ask_until("OffsetFetch", request, _fetched_codes, cap=8)
        found = answer.groups[0] if answer.groups else answer
        return {
            (topic.name, part.partition_index): part.committed_offset
            for topic in found.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    async def commit(self, offsets: Mapping[Key, int]) -> None:
        """Commit, as commitSync does.

        Raises:
            Lost: refused; join again.
        """
        part = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        part(
                            partition_index=index,
                            committed_offset=offsets[topic, index],
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets)
            ],
        )
        await self._ask_until("OffsetCommit", request, _committed_codes, cap=8)

    async def leave(self) -> None:
        """Say goodbye; nobody waits for long."""
        if not self.member_id:
            return
        one = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=None, reason="")
        request = LeaveGroupRequest(group_id=self._group, member_id=self.member_id, members=[one])
        with suppress(NetError):  # the session ends it
            await self._coordinator.ask(request, cap=4, timeout_s=self._timing.heartbeat_interval)
        self.forget()

    async def _ask_until(self, what: str, request: Any, codes_of: Any, cap: int) -> Any:
        def judge(codes: Codes, outcome_is_unknown: bool) -> None:
            why = f"{what}: {error_name(min(codes))}"
            if _LOST.intersection(codes):
                self.forget()
                raise Lost(why, certain=not outcome_is_unknown)
            if set(codes) == {ErrorCode.REBALANCE_IN_PROGRESS}:
                raise Lost(why, certain=not outcome_is_unknown)
            if not _PASSING.issuperset(codes):
                raise Fatal(f"{what} {self._group}: {error_name(min(codes))}")

        timing = self._timing
        try:
            return await self._coordinator.ask_again(
                request,
                cap=cap,
                codes_of=codes_of,
                judge=judge,
                patience_s=timing.api_timeout,
                pause_s=lambda _codes: timing.retry_backoff,
            )
        except GivenUp as error:
            raise Lost(f"{what}: {error}", certain=False) from None

    def _partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        view = self._cluster.view.topics
        return {topic: len(view[topic].partitions) for topic in topics if topic in view}

    async def _until_stop(self, coro: Any) -> Any:
        """The coroutine's result; None when the client is to stop first."""
        task = self._client.spawn(coro, "joins")
        stop = self._client.spawn(self._client.stop_asked(), "waits for the end")
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            await ended(task, stop)


def range_assignment(
    members: Mapping[str, Collection[str]], counts: Mapping[str, int]
) -> dict[str, dict[str, list[int]]]:
    """Topic by topic, neighbouring partitions to each member (RangeAssignor)."""
    given: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for topic, count in sorted(counts.items()):
        takers = sorted(member for member, topics in members.items() if topic in topics)
        if not takers:
            continue
        each, more = divmod(count, len(takers))
        at = 0
        for rank, member in enumerate(takers):
            size = each + (rank < more)
            if size:
                given[member][topic] = list(range(at, at + size))
            at += size
    return given


def _fetched_codes(answer: Any) -> list[int]:
    found = answer.groups[0] if answer.groups else answer
    return [found.error_code, *(part.error_code for topic in found.topics for part in topic.partitions)]


def _committed_codes(answer: Any) -> list[int]:
    return [part.error_code for topic in answer.topics for part in topic.partitions]
