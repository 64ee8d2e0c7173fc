"""Reads the offset maps of a topic, some partitions of which this process does not mirror."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.kafka.cluster import Cluster
from gateway.kafka.offsets import LATEST, list_offsets
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.mirror.rules.period import MirrorPeriod
from gateway.state.per_partition import stopped
from gateway.state.records import MirrorRecord


async def read_offset_maps(
    maps: LinkMaps, copies: Cluster, mirror: MirrorRecord, period: MirrorPeriod, kept: Mapping[int, OffsetMap]
) -> Sequence[OffsetMap]:
    """All maps of a mirror, up to the copy's log ends, or up to those at the cutover if there was one.

    Args:
        copies: the cluster that has the copy.
        kept: the live maps of a mirror in this process.

    Raises:
        NetError, ProtocolError: the maps could not be read.
        WrongLength: the record does not have the end of every partition.
    """
    partitions = range(len(period.starts))
    at_cutover = stopped(mirror)
    read_to: tuple[int, ...] | None = None
    if at_cutover is not None:
        read_to, ends = at_cutover
    else:
        found = await list_offsets(copies, {period.copy: dict.fromkeys(partitions, LATEST)})
        ends = tuple(found[period.copy, index].offset for index in partitions)
    result = dict(kept)
    for index in partitions:
        if index not in kept:
            known = None if read_to is None else read_to[index]
            result[index] = await read_offset_map(maps, copies, period, index, ends[index], known)
    return tuple(result[index] for index in partitions)


async def read_offset_map(
    maps: LinkMaps, copies: Cluster, period: MirrorPeriod, partition: int, end: int, read_to: int | None
) -> OffsetMap:
    """The map of one partition.

    Args:
        copies: the cluster that has the copy.
        end: the copy's log end, as read just before, or at the cutover that ended the mirror period.
        read_to: how far the origin was read at that time; None: as far as map and log tell.

    Raises:
        NetError, ProtocolError: the map could not be read.
        LookupError: the map does not match the log.
    """
    ledger = maps.ledger(period.map_key(partition), period.implied[partition])
    ledger.begin_run()  # nobody in this process appends under it
    await maps.decide(ledger, copies, period.copy, partition, end)
    ledger.map.advance(end, ledger.position(end) if read_to is None else read_to)
    return ledger.map
