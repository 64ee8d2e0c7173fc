"""The topic on a link's source that was mirrored once, as the ways back need to know it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.control.context import ControlContext, source_errors
from gateway.control.errors import Conflict
from gateway.control.source_ends import SourceEnds
from gateway.domain.per_partition import WrongLength
from gateway.domain.producer_ids import mirror_producer_id
from gateway.domain.records import MirrorRecord
from gateway.domain.way_back import late_records
from gateway.domain.way_back_snapshot import OldSource

_READ_S = 10.0


async def read_old_source(context: ControlContext, ends: SourceEnds, record: MirrorRecord) -> OldSource:
    """The topic as it is now, with who wrote what it holds beyond the flip.

    Raises:
        SourceUnreachable, Conflict: the source does not answer, or refuses.
    """
    link = context.link(record.link)
    access = await context.sources.reach(link)
    name = record.source_topic
    with source_errors(record.link):
        async with asyncio.timeout(_READ_S):
            topic = (await access.topics([name])).get(name)
    if topic is None:
        return OldSource(present=False)
    found = (await ends.read(link, {name: topic.partitions}, _READ_S))[name]
    tops = found.log_ends if found.log_ends is not None else found.high_watermarks
    source = OldSource(topic_id=topic.topic_id, ends=found.high_watermarks, tops=tops, ours=(False,) * len(tops))
    try:
        beyond = late_records(record, source)
    except WrongLength as exc:
        raise Conflict(str(exc)) from exc
    ours = list(source.ours)
    back = mirror_producer_id(link.link_id, record.mirror_id, record.generation, reverse=True)
    with source_errors(record.link):
        async with asyncio.timeout(_READ_S):
            for partition in beyond:
                ours[partition] = await access.last_writer(name, partition, tops[partition]) == back
    return replace(source, ours=tuple(ours))
