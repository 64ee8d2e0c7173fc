"""What a sequence knows of one side while it runs: names, ids, sequences, members, and requests that wait.

Steps decide by random numbers and by this state. As long as both sides answer alike it is the same on both, but for the
ids, so that the same steps make the same requests.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import (
    REQUESTS,
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from tests.broker_model.normal import Normal
from tests.broker_model.sides import CLOSED, Side
from tests.simulation.kafka.api_ranges import RANGES

Entry = tuple[str, Any]
"""What was asked, and the answer made comparable."""

TRANSIENT = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Answers that depend on the moment: asked again until they are over."""

_AGAIN_S = 0.02
_LIMIT_S = 20.0
_GROUP, _TRANSACTION = 0, 1
_CONSUMER, _DEBUGGING = -1, -2  # replica ids of ListOffsets: sees the high watermark, or the end of the leader's log


@dataclass(slots=True)
class TopicInfo:
    """A topic that was created."""

    name: str
    partitions: int
    topic_id: UUID | None = None
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Sent:
    """An idempotent batch that was sent: its sequence, how many records, whether it was taken."""

    sequence: int
    count: int
    epoch: int
    producer_id: int


@dataclass(slots=True)
class ProducerInfo:
    """A producer id that was given out, perhaps for a transactional id."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    last: tuple[int, int] = (-1, -1)
    sent: dict[tuple[str, int], list[Sent]] = field(default_factory=dict)
    partitions: set[tuple[str, int]] = field(default_factory=set)


@dataclass(slots=True)
class MemberInfo:
    """A member of a group, by the name of the connection that it uses."""

    name: str
    group: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    others: tuple[str, ...] = ()
    waits: bool = False


class Context:
    """See the module."""

    def __init__(self, side: Side, kafka: str, prefix: str) -> None:
        self.side = side
        self.kafka = kafka
        self.prefix = prefix
        self.base_ms = side.wall_ms()
        self.normal = Normal(prefix, self.base_ms)
        self.topics: dict[str, TopicInfo] = {}
        self.producers: list[ProducerInfo] = []
        self.members: dict[str, MemberInfo] = {}
        self.sessions: dict[int, list[int]] = {}
        self.era = 0
        self.trace: list[Entry] = []
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._heard: list[tuple[str, Any]] = []
        self.requests = 0

    @property
    def mine(self) -> str:
        """What the names of groups end with. They are other ones after a topic was deleted: when brokers delete the
        offsets of its partitions, and groups without any, is left to chance."""
        return f"@{self.prefix}{self.era}"

    # -- asking ---------------------------------------------------------------------------------------------------

    def version(self, rng: Random, key: int, highest: int = 99, lowest: int = 0) -> int:
        """A version that the broker serves and our messages have."""
        low, high = RANGES[self.kafka][key]
        codec = REQUESTS[key]
        low = max(low, codec.valid_versions[0], lowest)
        return rng.randint(min(low, high), max(low, min(high, codec.max_version, highest)))

    async def ask(self, label: str, node: int, key: int, version: int, message: Any, *, once: bool = False) -> Any:
        """Ask, again while the answer is a transient one (unless only `once`), and note the answer."""
        deadline = asyncio.get_running_loop().time() + _LIMIT_S
        while True:
            answer = await self._send(node, "main", key, version, message)
            if once or not is_transient(answer) or asyncio.get_running_loop().time() > deadline:
                break
            await _pause(_AGAIN_S)
        self.note(f"{label} v{version}", answer)
        return answer

    async def ask_everywhere(self, label: str, key: int, version: int, message: Any, lists: str) -> None:
        """Ask every broker for what it has; what is of this sequence is noted, wherever it was found."""
        answers = [await self._send(node, "main", key, version, message) for node in self.side.nodes]
        found = [each for answer in answers for each in getattr(answer, lists)]
        mine = [each for each in found if getattr(each, "group_id", self.mine).endswith(self.mine)]
        setattr(answers[0], lists, mine)
        self.note(f"{label} v{version}", answers[0])

    async def ask_filtered(self, label: str, node: int, key: int, version: int, message: Any) -> None:
        """Ask, and note the answer without what depends on where something lies."""
        answer = await self._send(node, "main", key, version, message)
        for found in (answer, *getattr(answer, "coordinators", ())):
            if getattr(found, "node_id", -1) > 0:
                found.node_id = 1
        self.note(f"{label} v{version}", answer)

    async def until_quiet(self) -> None:
        """Give the brokers a moment to hear of a change that no answer tells of."""
        await _pause(self.side.settle_s * len(self.side.nodes))

    async def until_replicated(self, topic: str, index: int) -> None:
        """Wait until the high watermark has reached the end of the leader's log."""
        while True:
            node = await self.leader(topic, index)
            ends = [await self._end(node, topic, index, replica) for replica in (_CONSUMER, _DEBUGGING)]
            if ends[0] == ends[1]:
                return
            await _pause(_AGAIN_S)

    async def _end(self, node: int, topic: str, index: int, replica: int) -> tuple[int, int]:
        part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=index, current_leader_epoch=-1, timestamp=-1
        )
        asked = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])
        message = ListOffsetsRequest(replica_id=replica, isolation_level=0, topics=[asked])
        answer = await self._send(node, "lookup", ApiKey.LIST_OFFSETS, 4, message)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset

    async def until_parked(self, member: MemberInfo) -> None:
        """Wait until a JoinGroup is answered, or the group is in the rebalance that it waits for."""
        node = await self.group_coordinator(member.group)
        message = DescribeGroupsRequest(groups=[member.group], include_authorized_operations=False)
        while member.waits:
            answer = await self._send(node, "lookup", ApiKey.DESCRIBE_GROUPS, 3, message)
            if answer.groups[0].group_state == "PreparingRebalance":
                return
            await _pause(_AGAIN_S)

    async def _send(self, node: int, connection: str, key: int, version: int, message: Any) -> Any:
        self.requests += 1
        return await self.side.send(node, connection, key, version, message)

    def note(self, label: str, answer: Any) -> None:
        """Write down what is compared."""
        self.trace.append((label, self.normal.of(answer)))

    def start(self, label: str, node: int, key: int, version: int, message: Any, member: MemberInfo) -> None:
        """Ask what may be answered much later; `come_to_rest` notes the answer when it has come."""

        async def run() -> None:
            answer = await self._send(node, member.name, key, version, message)
            self._heard.append((f"{label} v{version}", answer))
            member.waits = False

        member.waits = True
        self._waiting[member.name] = asyncio.get_running_loop().create_task(run())

    async def come_to_rest(self) -> list[tuple[str, Any]]:
        """Wait for whatever comes by itself; the answers that came, in order of their labels."""
        if self._waiting:
            await asyncio.wait(list(self._waiting.values()), timeout=self.side.settle_s)
            quiet = -1
            while quiet != len(self._heard):
                quiet = len(self._heard)
                await _pause(self.side.settle_s / 3)
        for name in [name for name, task in self._waiting.items() if task.done()]:
            self._waiting.pop(name).result()
        heard, self._heard = sorted(self._heard, key=lambda each: each[0]), []
        return heard

    async def close(self) -> None:
        """Drop what still waits."""
        for task in self._waiting.values():
            task.cancel()
        await self.side.close()

    # -- where ----------------------------------------------------------------------------------------------------

    async def leader(self, topic: str, partition: int) -> int:
        """The partition's leader; the first broker for one that does not exist."""
        message = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
        )
        answer = await self._send(self.side.nodes[0], "lookup", ApiKey.METADATA, 5, message)
        for found in answer.topics:
            for part in found.partitions:
                if part.partition_index == partition and part.leader_id > 0:
                    return int(part.leader_id)
        return self.side.nodes[0]

    async def coordinator(self, kind: int, name: str) -> int:
        """The broker that coordinates a group or a transactional id."""
        while True:
            message = FindCoordinatorRequest(key=name, key_type=kind)
            answer = await self._send(self.side.nodes[0], "lookup", ApiKey.FIND_COORDINATOR, 2, message)
            if not answer.error_code:
                return int(answer.node_id)
            await _pause(_AGAIN_S)

    async def group_coordinator(self, group: str) -> int:
        """The group's coordinator."""
        return await self.coordinator(_GROUP, group)

    async def txn_coordinator(self, transactional_id: str) -> int:
        """The transactional id's coordinator."""
        return await self.coordinator(_TRANSACTION, transactional_id)

    async def until_ended(self, transactional_id: str, state: str | None = None) -> None:
        """Wait until no marker of the transaction is missing, or until it is in a state."""
        node = await self.txn_coordinator(transactional_id)
        message = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        while True:
            answer = await self._send(node, "lookup", ApiKey.DESCRIBE_TRANSACTIONS, 0, message)
            found = answer.transaction_states[0].transaction_state
            if found == state or (state is None and not found.startswith("Prepare")):
                return
            await _pause(_AGAIN_S)

    async def until_empty(self, group: str) -> None:
        """Wait until a group has no members."""
        node = await self.group_coordinator(group)
        message = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        while True:
            answer = await self._send(node, "lookup", ApiKey.DESCRIBE_GROUPS, 3, message)
            if answer.groups[0].group_state == "Empty":
                return
            await _pause(_AGAIN_S)

    async def until_seen(self, topic: str, partitions: int) -> None:
        """Wait until every broker knows every partition and its leader; with 0 until none knows the topic."""
        message = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
        )
        for node in self.side.nodes:
            while True:
                answer = await self._send(node, "lookup", ApiKey.METADATA, 5, message)
                led = sum(part.leader_id > 0 for found in answer.topics for part in found.partitions)
                if led == partitions:
                    break
                await _pause(_AGAIN_S)
        for index in range(partitions):
            await self._until_led(topic, index)

    async def _until_led(self, topic: str, index: int) -> None:
        """Wait until the leader knows that it leads."""
        part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=index, current_leader_epoch=0, timestamp=-1
        )
        asked = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])
        message = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked])
        while True:
            node = await self.leader(topic, index)
            answer = await self._send(node, "lookup", ApiKey.LIST_OFFSETS, 4, message)
            if not answer.topics[0].partitions[0].error_code:
                return
            await _pause(_AGAIN_S)


async def _pause(seconds: float) -> None:
    """On the side's own clock: on the model's it takes no time."""
    await asyncio.sleep(seconds)  # noqa: TID251  (it asks again, or waits that nothing comes)


def is_transient(answer: Any) -> bool:
    """The answer says somewhere that it is a matter of the moment."""
    if answer is None or answer is CLOSED or isinstance(answer, (str, bytes, int, UUID)):
        return False
    if isinstance(answer, (list, tuple)):
        return any(is_transient(each) for each in answer)
    fields = getattr(answer, "fields", None)
    if not isinstance(fields, dict):
        return False
    return any(
        (name.endswith("error_code") and value in TRANSIENT) or is_transient(value)
        for name, value in ((name, getattr(answer, name)) for name in fields)
    )
