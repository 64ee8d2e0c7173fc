"""Where a mirror begins when the operator wants it to begin later than it was created to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from gateway.jobs.catch_up_ends import AllEnds
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.kafka.cluster import Cluster
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.log_start import plan_start, start_at
from gateway.state import link_config
from gateway.state.records import PartitionStart

StartSpec = int | Mapping[TopicPartition, int]
"""As in ListOffsets (-2 earliest, -1 latest, else milliseconds), or an offset for each partition that is named."""


def parse_start(text: str) -> StartSpec:
    """`earliest`, `latest`, an ISO-8601 time, milliseconds, or {"topic": {"0": 12}}.

    Raises:
        ValueError: none of these.
    """
    if not text.lstrip().startswith("{"):
        return link_config.parse({"mirror.start.offset.spec": text}).start_timestamp
    try:
        offsets = {(topic, int(index)): int(at) for topic, of in json.loads(text).items() for index, at in of.items()}
    except (ValueError, AttributeError):
        raise ValueError(f'{text!r} is not {{"topic": {{"0": 12}}}}') from None
    if any(at < 0 for at in offsets.values()):
        raise ValueError(f"{text!r}: an offset is not negative")
    return offsets


async def move_starts(source: Cluster, mirror: MirrorSpec, ends: AllEnds, spec: StartSpec) -> MirrorSpec:
    """The mirror with its starts moved up. One before the mirror's own is left where it is.

    Raises:
        ValueError: records below the new start were copied already.
        NetError: the source does not answer.
    """
    starts = list(mirror.starts)
    for index, wanted in (await _wanted(source, mirror, spec)).items():
        old = starts[index]
        if wanted.source_start <= old.source_start:
            continue
        if mirror.is_translated:
            raise ValueError(f"{mirror.mirror_topic}: it is of mode translate, which begins where it was created to")
        copied = ends[mirror.source_topic, index].target_end - old.pad_to
        if copied > 0 and ends[mirror.source_topic, index].target_end < wanted.pad_to:
            raise ValueError(
                f"{mirror.mirror_topic}-{index}: {copied} records from offset {old.pad_to} on were copied already; "
                f"it cannot begin at {wanted.source_start} any more"
            )
        if copied <= 0:
            starts[index] = wanted
    return replace(mirror, starts=tuple(starts))


async def _wanted(source: Cluster, mirror: MirrorSpec, spec: StartSpec) -> dict[int, PartitionStart]:
    topic, partitions = mirror.source_topic, range(len(mirror.starts))
    if isinstance(spec, int):
        return dict(enumerate(await plan_start(source, topic, spec, partitions=partitions)))
    chosen = {index: spec[topic, index] for index in partitions if (topic, index) in spec}
    return {index: await start_at(source, topic, index, offset) for index, offset in chosen.items()}
