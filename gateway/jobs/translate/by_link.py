"""Translates by a link's own maps: read on the driver, looked up by the executors (`link_offsets`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, Row

from gateway.jobs.audit import asked_periods
from gateway.jobs.kafka import Loop
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.period_maps import PeriodMapReader
from gateway.jobs.topic_ranges import LogRanges, log_ranges
from gateway.jobs.translate.link_offsets import EXACT, LinkOffsets, why_not
from gateway.jobs.translate.schemas import TRANSLATED
from gateway.kafka.cluster import Cluster
from gateway.kafka.topic_partition import TopicPartition
from gateway.state.records import MirrorMode, MirrorRecord

TranslatedRow = tuple[Any, ...]

_COPIED: Final = ("group", "topic", "partition", "source_offset", "metadata")


class ByLink:
    """Of one link. `logs` is asked again each time, so that what is found is of one moment."""

    def __init__(self, plan: LinkPlan) -> None:
        self._plan = plan

    def __call__(self, offsets: DataFrame, logs: LogRanges) -> DataFrame:
        """OFFSETS -> TRANSLATED. Raises NetError, ValueError: a cluster, or the map, cannot be read."""
        found = offsets.rdd.mapPartitions(_finder(self._known(logs)))
        return offsets.sparkSession.createDataFrame(found, TRANSLATED)

    def _known(self, logs: LogRanges) -> LinkOffsets:
        records = {record.source_topic: record for record in self._plan.records}
        with Loop() as loop:
            source, target = loop.connect(self._plan.source), loop.connect(self._plan.target)
            return loop.run(read_link_offsets(source, target, self._plan.link, records, logs))


async def read_link_offsets(
    source: Cluster, target: Cluster, link: str, records: dict[str, MirrorRecord], logs: LogRanges
) -> LinkOffsets:
    """All that the clusters tell of these topics.

    Args:
        records: by source topic.
        logs: the target's, by source topic.
    """
    ends: dict[TopicPartition, int] = {key: end for key, (_, end) in logs.items() if key[0] in records}
    back = {
        topic for topic, one in records.items() if one.is_reverse and asked_periods.is_live(one) and _is_translated(one)
    }
    on_source = await log_ranges(source, sorted(back)) if back else {}
    copy_ends = {key: (on_source[key][1] if key in on_source else end) for key, end in ends.items()}
    maps = PeriodMapReader(source, target, link)
    try:
        return LinkOffsets(
            records=records,
            maps=await maps.read(records, copy_ends),
            target_ends=ends,
            chains={topic: asked_periods.periods(record) for topic, record in records.items()},
            barred=await _barred(source, target, records),
        )
    finally:
        await maps.close()


async def _barred(source: Cluster, target: Cluster, records: dict[str, MirrorRecord]) -> dict[str, str]:
    here = (await source.refresh(tuple(records))).topics
    there = (await target.refresh(tuple(record.mirror_topic for record in records.values()))).topics
    ids = {
        topic: [found.id_text if found is not None else "" for found in (here.get(topic), there.get(one.mirror_topic))]
        for topic, one in records.items()
    }
    return {topic: why for topic, record in records.items() if (why := why_not(record, *ids[topic]))}


def _is_translated(record: MirrorRecord) -> bool:
    return record.mode is MirrorMode.TRANSLATE


def _finder(known: LinkOffsets) -> Callable[[Iterable[Row]], Iterator[TranslatedRow]]:
    return lambda rows: (_translated(known, row) for row in rows)


def _translated(known: LinkOffsets, row: Row) -> TranslatedRow:
    """A row of TRANSLATED; its lag is told of the target's log, when it is clamped to it."""
    found = known.find(row["topic"], row["partition"], row["source_offset"])
    copied = tuple(row[name] for name in _COPIED)
    return *copied, found.target_offset, found.rule in EXACT, found.rule, None, found.why
