"""Which ranges are read: what is gone ends a query, or is skipped as it says; a topic created anew is another topic."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from gateway.jobs.schemas import RECORDS
from gateway.jobs.source import ranges, stream
from gateway.jobs.source.options import parse
from gateway.jobs.source.ranges import clip_to_log_starts, make_ranges, start_offsets
from gateway.jobs.source.records import read_rows
from gateway.jobs.source.stream import RangeStreamReader, from_json, ids_in, recreated, to_json
from gateway.jobs.source.writer import batch_bytes
from gateway.jobs.translate.spark_checkpoint import parse_offsets
from gateway.kafka.offsets import EARLIEST, LATEST, OffsetAt

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
T0, T1 = ("t", 0), ("t", 1)


class Here:
    """A cluster with topic t of two partitions."""

    def __init__(self, log: tuple[int, int] = (0, 100), topic_id: bytes = b"a" * 16) -> None:
        self.log = log
        partitions = {0: None, 1: None}
        topic = SimpleNamespace(topic_id=topic_id, partitions=partitions)
        self.view = SimpleNamespace(topics={"t": topic})
        self.young = 50
        self.now = 0.0

    async def refresh(self, topics: object) -> Any:
        return self.view

    async def offsets(self, _: object, wanted: dict[str, dict[int, int]], **__: object) -> dict[Any, OffsetAt]:
        def at(spec: int) -> int:
            if spec == EARLIEST:
                return self.log[0]
            return self.log[1] if spec == LATEST else (-1 if spec > self.young else spec)

        return {
            (topic, index): OffsetAt(at(spec), -1, -1) for topic, of in wanted.items() for index, spec in of.items()
        }


def a_stream(monkeypatch: pytest.MonkeyPatch, here: Here, **more: str) -> RangeStreamReader:
    for module in (ranges, stream):
        monkeypatch.setattr(module, "list_offsets", here.offsets)
    reader = RangeStreamReader(parse({**BASE, **more}), RECORDS, read_rows, lambda: here.now)
    loop = SimpleNamespace(run=asyncio.run)
    monkeypatch.setattr(reader, "_connected", lambda: (loop, here))
    return reader


def test_a_stream_begins_at_the_end_and_a_batch_query_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here((5, 100))
    assert from_json(a_stream(monkeypatch, here).initialOffset()) == {T0: 100, T1: 100}
    batch: Any = start_offsets(here, parse(BASE), [T0])  # type: ignore[arg-type]
    assert asyncio.run(batch) == {T0: 5}
    assert from_json(a_stream(monkeypatch, here, startingOffsets="earliest").initialOffset()) == {T0: 5, T1: 5}


def test_a_topic_that_was_created_anew_ends_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_stream(monkeypatch, Here((0, 100))).initialOffset()
    new = a_stream(monkeypatch, Here((0, 40), b"b" * 16))
    with pytest.raises(ValueError, match="topic t was deleted and created anew.*failOnDataLoss"):
        new.latestOffset(old, ReadAllAvailable())
    longer = a_stream(monkeypatch, Here((0, 400), b"b" * 16))
    with pytest.raises(ValueError, match="created anew"):
        longer.latestOffset(old, ReadAllAvailable())
    with pytest.raises(ValueError, match="created anew"):
        longer.partitions(old, old)


def test_or_it_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_stream(monkeypatch, Here((0, 100))).initialOffset()
    new = a_stream(monkeypatch, Here((0, 40), b"b" * 16), failOnDataLoss="false")
    end = new.latestOffset(old, ReadAllAvailable())
    assert from_json(end) == {T0: 40, T1: 40}
    assert ids_in(end) == {"t": (b"b" * 16).hex()}
    assert [(one.start, one.end) for one in new.partitions(old, end)] == [(0, 40), (0, 40)]  # type: ignore[attr-defined]
    assert new.partitions(old, old) == [], "offsets of the topic before"


def test_without_topic_ids_a_log_that_ends_below_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_stream(monkeypatch, Here((0, 100), bytes(16))).initialOffset()
    assert ids_in(old) == {}
    with pytest.raises(ValueError, match="offset 100 is gone, its log ends at 40"):
        a_stream(monkeypatch, Here((0, 40), bytes(16))).latestOffset(old, ReadAllAvailable())


PATTERN = {"subscribe": "", "subscribePattern": "[tu]"}


def of_pattern(monkeypatch: pytest.MonkeyPatch, here: Here, **more: str) -> RangeStreamReader:
    """A stream of t and u."""
    here.view.topics.setdefault("u", SimpleNamespace(topic_id=b"u" * 16, partitions={0: None}))
    reader = a_stream(monkeypatch, here)
    chosen = {key: value for key, value in {**BASE, **PATTERN, **more}.items() if value}
    monkeypatch.setattr(reader, "_options", parse(chosen))
    return reader


def test_a_topic_of_a_pattern_that_is_gone_ends_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out of the offsets it would be a new one when it is seen again, and be read from its start once more."""
    here = Here((0, 100))
    reader = of_pattern(monkeypatch, here)
    old = to_json({T0: 60, T1: 60, ("u", 0): 40}, {"u": (b"u" * 16).hex()})
    del here.view.topics["u"]
    for ask in (lambda: reader.latestOffset(old, ReadAllAvailable()), lambda: reader.partitions(old, old)):
        with pytest.raises(ValueError, match=r"u-0, read to offset 40, is not there.*failOnDataLoss"):
            ask()


def test_or_it_goes_on_where_it_was_should_it_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here((0, 100))
    reader = of_pattern(monkeypatch, here, failOnDataLoss="false")
    old = to_json({T0: 60, T1: 60, ("u", 0): 40}, {"u": (b"u" * 16).hex()})
    planned = reader.latestOffset(old, ReadAllAvailable())
    known = here.view.topics.pop("u")
    end = reader.latestOffset(old, ReadMaxRows(40))
    assert from_json(end) == {T0: 80, T1: 80, ("u", 0): 40}
    assert ids_in(end)["u"] == (b"u" * 16).hex()
    parts: list[Any] = list(reader.partitions(old, planned))
    assert [(one.topic, one.start, one.end) for one in parts] == [("t", 60, 100), ("t", 60, 100)], "a batch from before"
    here.view.topics["u"] = known
    again = reader.latestOffset(end, ReadAllAvailable())
    parts = list(reader.partitions(end, again))
    assert [(one.topic, one.start, one.end) for one in parts] == [("t", 80, 100), ("t", 80, 100), ("u", 40, 100)]


def test_a_topic_created_anew_with_fewer_partitions_keeps_no_offset_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Here((0, 40), b"b" * 16)
    del here.view.topics["t"].partitions[1]
    reader = a_stream(monkeypatch, here, failOnDataLoss="false")
    old = to_json({T0: 60, T1: 60}, {"t": (b"a" * 16).hex()})
    assert from_json(reader.latestOffset(old, ReadAllAvailable())) == {T0: 40}


def test_the_end_of_a_run_is_that_of_the_topic_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With AvailableNow ends are asked for once; records below those of the topic before would never be read."""
    here = Here((0, 1000))
    reader = a_stream(monkeypatch, here, failOnDataLoss="false")
    old = to_json({T0: 0, T1: 0}, {"t": (b"a" * 16).hex()})
    reader.prepareForTriggerAvailableNow()
    here.log = (0, 40)
    here.view.topics["t"].topic_id = b"b" * 16
    assert from_json(reader.latestOffset(old, ReadAllAvailable())) == {T0: 40, T1: 40}


def test_what_retention_took_ends_a_stream_too(monkeypatch: pytest.MonkeyPatch) -> None:
    old = to_json({T0: 10, T1: 90})
    with pytest.raises(ValueError, match="offset 10 is gone, its log begins at 60"):
        a_stream(monkeypatch, Here((60, 100))).latestOffset(old, ReadAllAvailable())
    lenient = a_stream(monkeypatch, Here((60, 100)), failOnDataLoss="false")
    parts = lenient.partitions(old, lenient.latestOffset(old, ReadAllAvailable()))
    assert [(one.start, one.end) for one in parts] == [(60, 100), (90, 100)]  # type: ignore[attr-defined]


def test_limits_of_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = a_stream(monkeypatch, Here((0, 100)), maxOffsetsPerTrigger="20")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert from_json(reader.latestOffset(to_json({T0: 0, T1: 0}), limit)) == {T0: 10, T1: 10}

    async def unknown(*_: object) -> dict[Any, float]:
        return {T0: 0.0, T1: 0.0}

    monkeypatch.setattr(stream, "bytes_per_offset", unknown)
    with pytest.raises(ValueError, match="maxBytesPerTrigger: the cluster does not tell.*maxOffsetsPerTrigger"):
        reader.latestOffset(to_json({T0: 0, T1: 0}), ReadMaxBytes(5))


def test_a_micro_batch_waits_for_enough_records_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here((0, 100))
    reader = a_stream(monkeypatch, here, minOffsetsPerTrigger="40", maxTriggerDelay="1m")
    start = reader.latestOffset(to_json({T0: 0, T1: 0}), ReadAllAvailable())
    assert from_json(start) == {T0: 100, T1: 100}, "the first one waits for nothing"
    here.log, here.now = (0, 119), 30.0
    assert from_json(reader.latestOffset(start, ReadAllAvailable())) == {T0: 100, T1: 100}
    here.log = (0, 120)
    start = reader.latestOffset(start, ReadAllAvailable())
    assert from_json(start) == {T0: 120, T1: 120}
    here.log, here.now = (0, 121), 89.0
    assert from_json(reader.latestOffset(start, ReadAllAvailable())) == {T0: 120, T1: 120}
    here.now = 90.0
    assert from_json(reader.latestOffset(start, ReadAllAvailable())) == {T0: 121, T1: 121}


def test_no_record_is_as_young(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here()
    with pytest.raises(ValueError, match="t-0: no record is as young as 60"):
        a_stream(monkeypatch, here, startingTimestamp="60").initialOffset()
    late = a_stream(monkeypatch, here, startingTimestamp="60", startingOffsetsByTimestampStrategy="latest")
    assert from_json(late.initialOffset()) == {T0: 100, T1: 100}
    of_one = a_stream(monkeypatch, here, startingOffsetsByTimestamp='{"t": {"1": 30}}')
    assert from_json(of_one.initialOffset()) == {T0: 100, T1: 30}


def test_kept() -> None:
    assert clip_to_log_starts({T0: 5}, {T0: 9}, {T0: 0}, fail=True) == {T0: 5}
    assert clip_to_log_starts({T0: 5}, {T0: 9}, {T0: 7}, fail=False) == {T0: 7}
    assert recreated({"t": "a"}, {}, fail=True) == frozenset(), "a topic that is not seen now"


def test_a_skewed_partition_is_split() -> None:
    parts = make_ranges({T0: 0, T1: 0}, {T0: 1000, T1: 10}, 0, 250)
    assert [(one.partition, one.size) for one in parts] == [(0, 250)] * 4 + [(1, 10)]


def test_a_checkpoint_with_ids_is_one_of_kafka() -> None:
    assert parse_offsets('{"t":{"0":12},"@ids":{"t":"00ff"}}') == {T0: 12}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_batches_of_either_arrow_type(kind: pa.DataType) -> None:
    assert bytes(batch_bytes(pa.array([b"no", b"one", b"two"], kind).slice(1))) == b"onetwo"
