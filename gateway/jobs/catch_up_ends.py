"""How far both logs of each partition are: what is left to copy, and how that is shown.

An operator may want a mirror to begin later than it was created to (`move_starts`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gateway.jobs.errors import JobFailed
from gateway.jobs.link_map import MapReader
from gateway.jobs.source.mirrors import MirrorSpec
from gateway.kafka.cluster import Cluster
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.log_start import plan_start, start_at
from gateway.state import link_config
from gateway.state.records import PartitionStart


@dataclass(frozen=True, slots=True)
class Ends:
    """One partition. All offsets are of the source: `target_end` is the one to read on from, which in mode preserve is
    the target's log end and in mode translate what the offset map says for it."""

    source_start: int
    source_end: int
    target_end: int

    @property
    def missing(self) -> int:
        """Offsets that the target lacks."""
        return max(0, self.source_end - max(self.target_end, self.source_start))


AllEnds = dict[TopicPartition, Ends]
"""By source topic and partition."""


async def read_ends(
    source: Cluster,
    target: Cluster,
    mirrors: Collection[MirrorSpec],
    maps: MapReader | None,
    ids: tuple[Mapping[str, str], Mapping[str, str]],
) -> AllEnds:
    """Both logs of every partition.

    Args:
        ids: of the topics, on the source and on the target, as the gateway knows them.

    Raises:
        JobFailed: a topic is not the one any more that is mirrored.
        What `list_offsets` and `MapReader.positions` raise.
    """
    await require_same_topics("source", source, ids[0], [mirror.source_topic for mirror in mirrors])
    await require_same_topics("target", target, ids[1], [mirror.mirror_topic for mirror in mirrors])
    ours = {(mirror.source_topic, index) for mirror in mirrors for index in range(len(mirror.starts))}
    target_ends = await read_target_ends(target, mirrors, maps)
    timeout_s = _timeout_s(len(ours))
    # The source after the target, which is then never seen to be ahead; its end before its start.
    ends = await list_offsets(source, _wanted(ours, LATEST), read_committed=True, timeout_s=timeout_s)
    starts = await list_offsets(source, _wanted(ours, EARLIEST), timeout_s=timeout_s)
    return {key: Ends(starts[key].offset, ends[key].offset, target_ends[key]) for key in sorted(ours)}


async def require_same_topics(which: str, cluster: Cluster, ids: Mapping[str, str], topics: Collection[str]) -> None:
    """Offsets are asked for by name: those of a topic that was created anew would be taken for the other one's.

    Args:
        ids: by topic, "" where it is not known. One of a cluster that has none is not compared.

    Raises:
        JobFailed: a topic has another id.
    """
    view = await cluster.refresh(topics)
    for topic in topics:
        known = view.topics.get(topic)
        found, before = "" if known is None else known.id_text, ids.get(topic, "")
        if found and before and found != before:
            raise JobFailed(
                f"topic {topic} on the {which} was created anew: its topic id is {found}, the mirror is of {before}; "
                "once the job has ended, `lockgate mirror describe` names the way out"
            )


async def read_target_ends(
    target: Cluster, mirrors: Collection[MirrorSpec], maps: MapReader | None
) -> dict[TopicPartition, int]:
    """How far the target is in source offsets, by source topic and partition.

    Args:
        maps: of the link; without it offsets are equal on both clusters.
    """
    theirs = {
        (mirror.mirror_topic, index): (mirror.source_topic, index)
        for mirror in mirrors
        for index in range(len(mirror.starts))
    }
    found = await list_offsets(target, _wanted(theirs, LATEST), timeout_s=_timeout_s(len(theirs)))
    ends = {ours: found[key].offset for key, ours in theirs.items()}
    return ends if maps is None else await maps.positions(mirrors, ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is with one topic, or with all. Bytes are worked out from the size of the source's logs."""

    records_done: int = 0
    records_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    bytes_per_s: float = 0.0

    @property
    def eta_s(self) -> float:
        """Seconds to go at this pace, -1 when it is not known."""
        return (self.bytes_total - self.bytes_done) / self.bytes_per_s if self.bytes_per_s > 0 else -1.0

    def __add__(self, other: Progress) -> Progress:
        return Progress(
            records_done=self.records_done + other.records_done,
            records_total=self.records_total + other.records_total,
            bytes_done=self.bytes_done + other.bytes_done,
            bytes_total=self.bytes_total + other.bytes_total,
            bytes_per_s=self.bytes_per_s + other.bytes_per_s,
        )


class ProgressMeter:
    """Progress since the job began, from log ends read again and again.

    Args:
        began: the ends at that time.
        bytes_per_offset: of each partition, about.
    """

    def __init__(self, began: AllEnds, bytes_per_offset: Mapping[TopicPartition, float], now: float) -> None:
        self._began = {key: max(ends.target_end, ends.source_start) for key, ends in began.items()}
        self._goal = {key: ends.source_end for key, ends in began.items()}
        self._bytes_per = bytes_per_offset
        self._at = now
        self._speed: dict[str, float] = {}
        self._bytes: dict[str, int] = {}

    def goal(self, ends: AllEnds) -> None:
        """The source has grown: there is more to do."""
        self._goal = {key: max(self._goal[key], found.source_end) for key, found in ends.items()}

    def update(self, target_ends: Mapping[TopicPartition, int], now: float) -> dict[str, Progress]:
        """By source topic."""
        elapsed_s, self._at = max(1e-3, now - self._at), now
        sums: dict[str, Progress] = {}
        for key, end in target_ends.items():
            sums[key[0]] = sums.get(key[0], Progress()) + self._of(key, end)
        for topic, progress in sums.items():
            gained = (progress.bytes_done - self._bytes.get(topic, 0)) / elapsed_s
            self._bytes[topic] = progress.bytes_done
            self._speed[topic] = _smooth(self._speed.get(topic), gained)
            sums[topic] = replace(progress, bytes_per_s=self._speed[topic])
        return sums

    def _of(self, key: TopicPartition, end: int) -> Progress:
        done = max(0, min(end, self._goal[key]) - self._began[key])
        total = max(0, self._goal[key] - self._began[key])
        per = self._bytes_per.get(key, 0.0)
        return Progress(
            records_done=done, records_total=total, bytes_done=round(done * per), bytes_total=round(total * per)
        )


def _smooth(before: float | None, now: float) -> float:
    return now if before is None else 0.7 * before + 0.3 * now


def _wanted(partitions: Collection[TopicPartition], at: int) -> dict[str, dict[int, int]]:
    wanted: dict[str, dict[int, int]] = {}
    for topic, index in partitions:
        wanted.setdefault(topic, {})[index] = at
    return wanted


def _timeout_s(partitions: int) -> float:
    return max(15.0, partitions / 1000)


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
    for index, wanted in (await _positions_in(source, mirror, spec)).items():
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


async def _positions_in(source: Cluster, mirror: MirrorSpec, spec: StartSpec) -> dict[int, PartitionStart]:
    topic, partitions = mirror.source_topic, range(len(mirror.starts))
    if isinstance(spec, int):
        return dict(enumerate(await plan_start(source, topic, spec, partitions=partitions)))
    chosen = {index: spec[topic, index] for index in partitions if (topic, index) in spec}
    return {index: await start_at(source, topic, index, offset) for index, offset in chosen.items()}
