"""A mirror group's members, offsets and record, on both clusters: the I/O that promote and demote share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from gateway.errors import Conflict
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.rules.kind import kind_now, unlike
from gateway.groups.rules.share_delivery import Delivery, delivery_note
from gateway.groups.share_offsets import held_offsets, set_offsets
from gateway.kafka.admin import describe_broker_configs
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import Committed
from gateway.kafka.connection.errors import NetError, PartitionErrors
from gateway.kafka.groups import GroupView, describe_group, remove_any_members
from gateway.kafka.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from gateway.kafka.share_groups import share_offsets
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.door import Door
from gateway.operations.fleet_wide import FleetWide
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth, Sources
from gateway.state.records import GroupKind, GroupRecord, GroupState, SourceOffset
from gateway.transport.background import Background

_VIEW_S = 5.0

Offsets = Mapping[TopicPartition, tuple[int, str]]  # offset and metadata
_log = structlog.get_logger("lockgate.control")


class GroupOffsets:
    """Reads and writes; decides nothing. Errors are ControlErrors, of the store StoreErrors."""

    def __init__(
        self,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        door: Door,
    ) -> None:
        self._records = records
        self._store = records.store
        self._sources = sources
        self._target = target
        self._door = door

    async def source(self, record: GroupRecord) -> Cluster:
        """The client of the link's source."""
        return (await self._sources.reach(self._records.link(record.link))).cluster

    async def on_source(self, record: GroupRecord) -> tuple[tuple[SourceOffset, ...], list[str]]:
        """What is to be carried, and the topics whose offsets stay behind since they are not mirrored."""
        cluster = await self.source(record)
        with source_errors(record.link):
            committed = await held_offsets(cluster, record.source_name, record.kind)
        names = self._mirror_topics(record.link)
        found = tuple(
            SourceOffset(names[topic], partition, value.offset, value.metadata)
            for (topic, partition), value in sorted(committed.items())
            if topic in names and value.offset >= 0
        )
        return found, sorted({topic for topic, _ in committed} - names.keys())

    def _mirror_topics(self, link: str) -> Mapping[str, str]:
        """Source topic -> mirror topic."""
        return {
            mirror.source_topic: mirror.mirror_topic
            for (name, _), mirror in self._store.mirrors.items()
            if name == link
        }

    def _source_topics(self, link: str) -> Mapping[str, str]:
        """Mirror topic -> source topic."""
        return {mirror: source for source, mirror in self._mirror_topics(link).items()}

    async def source_ranges(
        self, record: GroupRecord, offsets: Iterable[SourceOffset]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """(log start, log end) on the source of the offsets' partitions, as far as it tells."""
        cluster, names = await self.source(record), self._source_topics(record.link)
        asked = {(offset.topic, offset.partition): (names[offset.topic], offset.partition) for offset in offsets}
        keys = list(asked.values())
        try:
            starts, ends = await asyncio.gather(_told(cluster, keys, EARLIEST), _told(cluster, keys, LATEST))
        except NetError as error:
            _log.info("log ranges not read", link=record.link, group=record.group, reason=str(error))
            return {}
        told = {key: at for key, at in asked.items() if at in starts and at in ends}
        return {key: (starts[at].offset, ends[at].offset) for key, at in told.items()}

    async def ask_for_leaders(self, record: GroupRecord, topics: Iterable[str]) -> None:
        """What one of the source's brokers told of these mirror topics may be of the past: whom to ask next is asked of
        another broker."""
        cluster, names = await self.source(record), self._source_topics(record.link)
        for topic in topics:
            cluster.invalidate(names[topic])

    async def delivery(self, record: GroupRecord) -> Mapping[TopicPartition, Delivery]:
        """Of a share group on the source: what of its delivery state cannot be carried; by mirror topic."""
        cluster, names = await self.source(record), self._mirror_topics(record.link)
        with source_errors(record.link):
            keys = [key for key in await share_offsets(cluster, record.source_name) if key[0] in names]
            before = await _list(cluster, keys, LATEST)
            starts = await share_offsets(cluster, record.source_name)
            after = await _list(cluster, keys, LATEST)
        return {
            (names[key[0]], key[1]): Delivery(*starts[key], before[key].offset, after[key].offset)
            for key in keys
            if key in starts
        }

    async def said_of_delivery(self, record: GroupRecord) -> str:
        """Of a share group on the source: what of its delivery state is not carried; '' of another one."""
        return delivery_note(await self.delivery(record)) if record.kind is GroupKind.SHARE else ""

    async def commit_on_source(self, record: GroupRecord, offsets: Offsets) -> Mapping[TopicPartition, Committed]:
        """Commit, and read back what the source holds then of the link's topics; both by mirror topic."""
        cluster, names = await self.source(record), self._source_topics(record.link)
        with source_errors(record.link):
            there = {(names[topic], index): value for (topic, index), value in offsets.items()}
            with self._door.permit():
                await set_offsets(cluster, record.source_name, record.kind, there)
            held = await held_offsets(cluster, record.source_name, record.kind)
        back = self._mirror_topics(record.link)
        return {(back[topic], index): value for (topic, index), value in held.items() if topic in back}

    async def commit_on_target(self, record: GroupRecord, offsets: Offsets) -> None:
        """Commit; Conflict when the target refuses, as it does for a group with members."""
        with target_errors(), self._door.permit():
            await set_offsets(self._target.cluster, record.group, record.kind, offsets)

    async def on_target(self, record: GroupRecord) -> Mapping[TopicPartition, Committed]:
        """All that the group has committed on the target."""
        with target_errors():
            return await held_offsets(self._target.cluster, record.group, record.kind)

    async def target_view(self, record: GroupRecord) -> GroupView:
        """The group as it is on the target now."""
        with target_errors():
            return await describe_group(self._target.cluster, record.group)

    async def target_members(self, record: GroupRecord) -> str:
        """Client ids and hosts of the group's members on the target, '' when there are none."""
        return _names(await self.target_view(record))

    async def remove_from_target(self, group: str) -> str:
        """Remove the group's members on the target, whose gateways hold them; returns who is there all the same, ''
        for nobody: who comes beside the gateways joins again at once.
        """
        cluster = self._target.cluster
        with target_errors():
            view = await describe_group(cluster, group)
            if view.members:
                with self._door.permit():
                    await remove_any_members(cluster, group, view)
                view = await describe_group(cluster, group)
            return _names(view)

    async def target_retention_minutes(self) -> int | None:
        """The target's offsets.retention.minutes; None where it does not tell."""
        cluster = self._target.cluster
        try:
            configs = await describe_broker_configs(cluster, next(iter(cluster.view.brokers)), timeout_s=5.0)
            return int(configs["offsets.retention.minutes"].value or "")
        except (NetError, TimeoutError, OSError, KeyError, ValueError, StopIteration) as exc:
            _log.info("offsets.retention.minutes of the target not read", reason=str(exc))
            return None

    async def source_view(self, record: GroupRecord, timeout_s: float) -> GroupView:
        """The group as it is on the source now."""
        cluster = await self.source(record)
        with source_errors(record.link):
            return await describe_group(cluster, record.source_name, timeout_s=timeout_s)

    async def as_told(self, record: GroupRecord, *, home: bool) -> GroupRecord:
        """The record with the kind that the group has at its origin now: the source, or on the way home the target.

        It may have been deleted there and begun anew. Asked by another kind than its own it has no offsets, and by
        none it would begin as `auto.offset.reset` says: to be asked right before they are read to be carried.

        Raises:
            Conflict: the other cluster has a group of that name and of another kind.
        """
        there, here = await asyncio.gather(self.target_view(record), self.source_view(record, _VIEW_S))
        origin, told, where, other = ("target", there, "source", here) if home else ("source", here, "target", there)
        kind = kind_now(record.kind, told)
        if why := unlike(record.group, kind, origin, other, where):
            raise Conflict(why)
        return record if kind is record.kind else replace(record, kind=kind)

    async def source_members(self, record: GroupRecord) -> str:
        """As `target_members`, on the source."""
        cluster = await self.source(record)
        with source_errors(record.link):
            return _names(await describe_group(cluster, record.source_name))

    async def store(
        self, record: GroupRecord, state: GroupState, guard: Callable[[], None] = lambda: None, **changes: Any
    ) -> GroupRecord:
        """Write the record in another state, if it is still what is stored. `guard`: see `StateStore.put`."""
        values = {"error_message": "", **changes}
        new = replace(record, state=state, state_since_ms=self._records.now_ms(), **values)
        await self._store.replace(record, new, guard)
        _log.info("group state", link=record.link, group=record.group, old=str(record.state), new=str(state))
        return new


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTools:
    """What promotes and demotes use. `progress`: how far the mirrors are. `health`: by link name, as it is now.
    `clock`: monotonic seconds.
    """

    records: Records
    gates: GroupGates
    maps: OffsetMaps
    progress: MirrorProgress
    target: ClusterAccess
    offsets: GroupOffsets
    fleet: FleetWide
    background: Background
    health: Mapping[str, LinkHealth]
    clock: Callable[[], float]


def _names(view: GroupView) -> str:
    return ", ".join(sorted({f"{member.client_id} ({member.host})" for member in view.members}))


async def _list(cluster: Cluster, keys: Iterable[TopicPartition], at: int) -> Mapping[TopicPartition, OffsetAt]:
    wanted: dict[str, dict[int, int]] = {}
    for topic, partition in keys:
        wanted.setdefault(topic, {})[partition] = at
    return await list_offsets(cluster, wanted)


async def _told(cluster: Cluster, keys: Iterable[TopicPartition], at: int) -> Mapping[TopicPartition, OffsetAt]:
    """As `_list`, of those that tell: one whose leader is away hides no other."""
    try:
        return await _list(cluster, keys, at)
    except PartitionErrors as exc:
        _log.info("log ranges not read of some partitions", reason=str(exc))
        return exc.partial
