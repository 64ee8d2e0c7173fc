"""A mirror group's members, offsets and record, on both clusters: the I/O that promote and demote share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from gateway.control.context import ControlContext, source_errors, target_errors
from gateway.domain.group_promote import Partition
from gateway.domain.records import CarriedOffset, GroupRecord, GroupState
from gateway.net.cluster import Cluster
from gateway.net.commits import Committed, commit_offsets, committed_offsets
from gateway.net.errors import NetError
from gateway.net.groups import GroupView, describe_group
from gateway.net.offsets import EARLIEST, LATEST, OffsetAt, list_offsets

Offsets = Mapping[Partition, tuple[int, str]]  # offset and metadata
_log = structlog.get_logger("lockgate.control")


class GroupOffsets:
    """Reads and writes; decides nothing. Errors are ControlErrors, of the store StoreErrors."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def source(self, record: GroupRecord) -> Any:
        """The client of the link's source."""
        return (await self._context.sources.reach(self._context.link(record.link))).cluster

    async def on_source(self, record: GroupRecord) -> tuple[tuple[CarriedOffset, ...], list[str]]:
        """What is to be carried, and the topics whose offsets stay behind since they are not mirrored."""
        cluster = await self.source(record)
        with source_errors(record.link):
            committed = await committed_offsets(cluster, record.group)
        mirrored = {topic for link, topic in self._context.store.mirrors if link == record.link}
        carried = tuple(
            CarriedOffset(topic, partition, value.offset, value.offset, value.metadata)
            for (topic, partition), value in sorted(committed.items())
            if topic in mirrored and value.offset >= 0
        )
        return carried, sorted({topic for topic, _ in committed} - mirrored)

    async def source_ranges(
        self, record: GroupRecord, offsets: Iterable[CarriedOffset]
    ) -> Mapping[Partition, tuple[int, int]]:
        """(log start, log end) of the offsets' partitions; empty when the source does not tell."""
        cluster = await self.source(record)
        keys = [(offset.topic, offset.partition) for offset in offsets]
        try:
            starts, ends = await asyncio.gather(_list(cluster, keys, EARLIEST), _list(cluster, keys, LATEST))
        except NetError as error:
            _log.info("log ranges not read", link=record.link, group=record.group, reason=str(error))
            return {}
        return {key: (starts[key].offset, ends[key].offset) for key in keys}

    async def commit_on_source(self, record: GroupRecord, offsets: Offsets) -> Mapping[Partition, Committed]:
        """Commit, and read back what the source holds then."""
        cluster = await self.source(record)
        with source_errors(record.link):
            await commit_offsets(cluster, record.group, offsets)
            return await committed_offsets(cluster, record.group)

    async def commit_on_target(self, group: str, offsets: Offsets) -> None:
        """Commit; Conflict when the target refuses, as it does for a group with members."""
        with target_errors():
            await commit_offsets(self._context.target.cluster, group, offsets)

    async def on_target(self, group: str) -> Mapping[Partition, Committed]:
        """All that the group has committed on the target."""
        with target_errors():
            return await committed_offsets(self._context.target.cluster, group)

    async def target_members(self, record: GroupRecord) -> str:
        """Client ids and hosts of the group's members on the target, '' when there are none."""
        with target_errors():
            return _names(await describe_group(self._context.target.cluster, record.group))

    async def source_member_count(self, record: GroupRecord, timeout_s: float) -> int:
        """How many members the group has on the source now."""
        cluster = await self.source(record)
        with source_errors(record.link):
            return len((await describe_group(cluster, record.group, timeout_s=timeout_s)).members)

    async def source_members(self, record: GroupRecord) -> str:
        """As `target_members`, on the source."""
        cluster = await self.source(record)
        with source_errors(record.link):
            return _names(await describe_group(cluster, record.group))

    async def store(self, record: GroupRecord, state: GroupState, **changes: Any) -> GroupRecord:
        """Write the record in another state, if it is still what is stored."""
        values = {"error_message": "", **changes}
        new = replace(record, state=state, state_since_ms=self._context.now_ms(), **values)
        await self._context.store.replace(record, new)
        _log.info("group state", link=record.link, group=record.group, old=str(record.state), new=str(state))
        return new


def _names(view: GroupView) -> str:
    return ", ".join(sorted({f"{member.client_id} ({member.host})" for member in view.members}))


async def _list(cluster: Cluster, keys: Iterable[Partition], at: int) -> Mapping[Partition, OffsetAt]:
    wanted: dict[str, dict[int, int]] = {}
    for topic, partition in keys:
        wanted.setdefault(topic, {})[partition] = at
    return await list_offsets(cluster, wanted)
