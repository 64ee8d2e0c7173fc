"""Translates by a link's own maps: read on the driver, looked up by the executors (`link_offsets`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from gateway.domain.records import MirrorMode, MirrorRecord
from gateway.jobs.audit import asked_ways
from gateway.jobs.kafka import Loop
from gateway.jobs.link_plan import LinkPlan
from gateway.jobs.topic_ranges import LogRanges, log_ranges
from gateway.jobs.translate.link_offsets import EXACT, LinkOffsets
from gateway.jobs.translate.schemas import TRANSLATED
from gateway.jobs.way_maps import WayMaps
from gateway.net.cluster import Cluster
from gateway.net.routed import Partition

_COPIED: Final = ("group", "topic", "partition", "source_offset", "metadata")


class ByLink:
    """Of one link. `logs` is asked again each time, so that what is found is of one moment."""

    def __init__(self, plan: LinkPlan) -> None:
        self._plan = plan

    def __call__(self, offsets: DataFrame, logs: LogRanges) -> DataFrame:
        """OFFSETS -> TRANSLATED. Raises NetError, ValueError: a cluster, or the map, cannot be read."""
        return offsets.mapInArrow(_finder(self._known(logs)), TRANSLATED)

    def _known(self, logs: LogRanges) -> LinkOffsets:
        records = {record.source_topic: record for record in self._plan.records}
        with Loop() as loop:
            source, target = loop.connect(self._plan.source), loop.connect(self._plan.target)
            return loop.run(known(source, target, self._plan.link, records, logs))


async def known(
    source: Cluster, target: Cluster, link: str, records: dict[str, MirrorRecord], logs: LogRanges
) -> LinkOffsets:
    """All that the clusters tell of these topics.

    Args:
        records: by source topic.
        logs: the target's, by source topic.
    """
    ends: dict[Partition, int] = {key: end for key, (_, end) in logs.items() if key[0] in records}
    back = {
        topic for topic, one in records.items() if one.is_reverse and asked_ways.is_live(one) and _is_translated(one)
    }
    on_source = await log_ranges(source, sorted(back)) if back else {}
    copy_ends = {key: (on_source[key][1] if key in on_source else end) for key, end in ends.items()}
    maps = WayMaps(source, target, link)
    try:
        return LinkOffsets(
            records=records,
            maps=await maps.read(records, copy_ends),
            target_ends=ends,
            chains={topic: asked_ways.ways(record) for topic, record in records.items()},
        )
    finally:
        await maps.close()


def _is_translated(record: MirrorRecord) -> bool:
    return record.mode is MirrorMode.TRANSLATE


def _finder(known: LinkOffsets) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(TRANSLATED, timezone="UTC")
        for batch in batches:
            yield pa.RecordBatch.from_pylist([_row(known, row) for row in batch.to_pylist()], schema=schema)

    return find


def _row(known: LinkOffsets, row: dict[str, Any]) -> dict[str, Any]:
    found = known.find(row["topic"], row["partition"], row["source_offset"])
    return {
        **{name: row[name] for name in _COPIED},
        "target_offset": found.target_offset,
        "exact": found.rule in EXACT,
        "rule": found.rule,
        "lag": None,  # told of the target's log, when it is clamped to it
        "why": found.why,
    }
