"""Reads the offset maps of a topic whose partitions are not all mirrored in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.domain.mirror_way import MirrorWay
from gateway.domain.offset_map import OffsetMap
from gateway.domain.per_partition import stopped
from gateway.domain.records import MirrorRecord
from gateway.net.cluster import Cluster
from gateway.net.offsets import LATEST, list_offsets
from gateway.replication.map_topic import LinkMaps


async def read_offset_maps(
    maps: LinkMaps, copies: Cluster, mirror: MirrorRecord, way: MirrorWay, kept: Mapping[int, OffsetMap]
) -> Sequence[OffsetMap]:
    """All maps of a mirror, up to the copy's log ends: those at the flip, where there was one.

    Args:
        copies: the cluster that has the copy.
        kept: those that a mirror in this process keeps.

    Raises:
        NetError, ProtocolError: they could not be read.
        WrongLength: the record does not say where all of its partitions ended.
    """
    partitions = range(len(way.starts))
    at_flip = stopped(mirror)
    read_to: tuple[int, ...] | None = None
    if at_flip is not None:
        read_to, ends = at_flip
    else:
        found = await list_offsets(copies, {way.copy: dict.fromkeys(partitions, LATEST)})
        ends = tuple(found[way.copy, index].offset for index in partitions)
    result = dict(kept)
    for index in partitions:
        if index in kept:
            continue
        ledger = maps.ledger(way.map_key(index), way.implied[index])
        ledger.begin_run()  # nobody in this process appends under it
        await maps.decide(ledger, copies, way.copy, index, ends[index])
        ledger.map.advance(ends[index], ledger.position(ends[index]) if read_to is None else read_to[index])
        result[index] = ledger.map
    return tuple(result[index] for index in partitions)
