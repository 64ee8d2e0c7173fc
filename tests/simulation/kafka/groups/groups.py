"""The group coordinators of a cluster: groups in memory on their brokers, records and offsets in the log.

What is in the log (`records`, `offsets`) outlives a move of the coordinator; `Groups`, what one broker keeps of the
groups of one partition, does not. A write counts at once when the partition's leader makes it and enough replicas are
in sync.
The handlers of the APIs are in `group_handlers.py`, `offset_handlers.py` and `group_admin.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from protocol.errors import ErrorCode
from tests.simulation.kafka.groups.classic_group import ClassicGroup, GroupRecord, GroupState
from tests.simulation.kafka.groups.group_offsets import GroupOffsets
from tests.simulation.kafka.groups.group_rules import GroupRules
from tests.simulation.kafka.shards import Shard, Shards
from tests.simulation.kafka.topics import GROUPS_TOPIC

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker
    from tests.simulation.kafka.cluster import ClusterModel

DEFAULTS: Final = {
    "group.initial.rebalance.delay.ms": 3000,
    "group.max.session.timeout.ms": 1800000,
    "group.max.size": 2147483647,
    "group.min.session.timeout.ms": 6000,
    "offset.metadata.max.bytes": 4096,
}
"""Broker configurations that the coordinators read, and Kafka's defaults."""


class Groups:
    """The groups of one partition of `__consumer_offsets`, as the broker that leads it has them in memory."""

    def __init__(self, owner: GroupCoordinators, shard: Shard[Groups]) -> None:
        self.owner = owner
        self.shard = shard
        self.rules: dict[str, GroupRules] = {}
        self.unseen: set[str] = set()
        index = shard.partition.index
        for group in sorted({*owner.records, *owner.offsets.committed, *owner.groups_with_pending()}):
            if owner.index(group) == index:
                record = owner.records.get(group)
                self._run(ClassicGroup(group) if record is None else ClassicGroup.load(group, record)).loaded()

    def _run(self, group: ClassicGroup) -> GroupRules:
        self.rules[group.group_id] = rules = GroupRules(
            group,
            self.shard.timers,
            partial(self._write, group.group_id),
            self.owner.new_member_id,
            self.owner.config("group.initial.rebalance.delay.ms"),
            self.owner.config("group.max.size"),
            self.owner.is_java,
        )
        return rules

    def _write(self, group: str, record: GroupRecord) -> int:
        error = self.shard.write_error
        if not error:
            self.owner.records[group] = record
            self.written()
        return error

    def get(self, group: str) -> GroupRules | None:
        """A group that exists."""
        return self.rules.get(group)

    def read(self, group: str) -> GroupRules | None:
        """A group that exists in the log, too: what readers see."""
        return None if group in self.unseen else self.rules.get(group)

    def written(self) -> None:
        """Something was written into the partition: with it, what came to be before."""
        self.unseen.clear()

    def get_or_create(self, group: str) -> GroupRules:
        """A group that exists, or a new and empty one."""
        known = self.rules.get(group)
        return known if known is not None else self._run(ClassicGroup(group))

    def delete(self, group: str) -> ErrorCode:
        """DeleteGroups: only empty groups go."""
        rules = self.rules.get(group)
        if rules is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if rules.group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        if self.shard.write_error:
            return self.shard.write_error
        del self.rules[group]
        self.written()
        self.owner.records.pop(group, None)
        self.owner.offsets.delete(group)
        return ErrorCode.NONE

    def drop_unused(self, groups: Iterable[str] | None = None) -> None:
        """The old coordinator forgets empty groups without offsets whenever it deletes offsets."""
        offsets = self.owner.offsets
        for group in list(self.rules) if groups is None else groups:
            empty = self.rules[group].group.state is GroupState.EMPTY
            if empty and not offsets.of(group) and not offsets.has_pending(group):
                self.delete(group)

    def end(self) -> None:
        """Another broker coordinates them now."""
        for rules in self.rules.values():
            rules.unloaded()


class GroupCoordinators:
    """All groups of a cluster."""

    def __init__(self, cluster: ClusterModel) -> None:
        self.cluster = cluster
        self.records: dict[str, GroupRecord] = {}
        self.offsets = GroupOffsets()
        self.producers: dict[tuple[int, int], int] = {}
        self.open: set[tuple[int, int]] = set()
        self.shards: Shards[Groups] = Shards(cluster, "group", GROUPS_TOPIC, partial(Groups, self), Groups.end)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """A group's offsets, for judges."""
        return {key: found.offset for key, found in sorted(self.offsets.of(group).items())}

    def config(self, name: str) -> int:
        """A broker configuration that is a number."""
        return int(self.cluster.configs.get(name, DEFAULTS[name]))

    @property
    def is_java(self) -> bool:
        """The coordinator is that of KIP-848's rewrite (4.x), which words some answers in another way."""
        return self.cluster.version.startswith("4.")

    def index(self, group: str) -> int:
        """The partition of `__consumer_offsets` that has the group."""
        return self.cluster.coordinator("group", group).index

    def new_member_id(self) -> str:
        """The random part of a member id."""
        return str(UUID(int=self.cluster.rng.getrandbits(128), version=4))

    def find(self, broker: Broker, group: str) -> Groups | ErrorCode:
        """The groups among which this one is, when this broker coordinates it."""
        shard = self.shards.find(broker, group)
        if not isinstance(shard, Shard):
            return shard
        assert shard.state is not None
        return shard.state

    def on(self, broker: Broker) -> Iterable[GroupRules] | ErrorCode:
        """Every group that the broker coordinates."""
        shards = self.shards.on(broker)
        if isinstance(shards, ErrorCode):
            return shards
        states = [shard.state for shard in shards if shard.state is not None]
        return [rules for state in states for name, rules in state.rules.items() if name not in state.unseen]

    def groups_with_pending(self) -> Iterable[str]:
        """Groups that open transactions have offsets of."""
        return {group for by_group in self.offsets.pending.values() for group in by_group}

    def complete_transaction(self, index: int, producer_id: int, epoch: int, commit: bool) -> ErrorCode:
        """A transaction's marker for one partition of `__consumer_offsets`."""
        if self.producers.get((index, producer_id), -1) > epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.producers[index, producer_id] = epoch
        self.open.discard((index, producer_id))
        self.offsets.complete(producer_id, commit, lambda group: self.index(group) == index)
        for shard in self.shards.all():
            if shard.partition.index == index and shard.state is not None:
                shard.state.written()
        return ErrorCode.NONE

    def topic_deleted(self, topic: str) -> None:
        """Offsets of a deleted topic are deleted; the old coordinator then looks for groups that are of no use."""
        self.offsets.delete_topic(topic)
        if not self.is_java:
            for shard in self.shards.all():
                if shard.state is not None:
                    shard.state.drop_unused()
