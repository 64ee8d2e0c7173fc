"""A record that says `preserve` is believed as long as the offset map says nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.jobs import period_maps
from gateway.jobs.period_maps import PeriodMapReader
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.mirror.offset_map.rules.codec import PartitionKey
from gateway.state.records import MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import changed, mirror_record

RECORD = mirror_record(
    link="l", source_topic="t", mirror_topic="west.t", mirror_id=7, starts=(PartitionStart(0, 0),) * 3
)
ENDS = {("t", index): 9 for index in range(3)}


class MapTopic:
    """Has something of partition 1 alone. `asked`: how often it was read."""

    def __init__(self) -> None:
        self.asked = 0
        self.down = False

    async def catch_up(self) -> None:
        self.asked += 1
        if self.down:
            raise ClusterUnavailable("no answer")

    def is_used(self, of: PartitionKey) -> bool:
        return self.asked > 0 and of == PartitionKey(7, 0, 1)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> MapTopic:
    made = MapTopic()
    monkeypatch.setattr(period_maps, "ReadOnlyMaps", lambda *_: made)
    return made


def read(record: MirrorRecord) -> dict[Any, Any]:
    async def ask() -> dict[Any, Any]:
        maps = PeriodMapReader(None, None, "l")  # type: ignore[arg-type]
        return await maps.read({"t": record}, ENDS)

    return asyncio.run(ask())


@pytest.mark.parametrize("state", [MirrorState.ACTIVE, MirrorState.PAUSED])
def test_a_record_that_is_behind_its_map(topic: MapTopic, state: MirrorState) -> None:
    found = read(replace(RECORD, state=state))
    assert (found["t", 0], found["t", 2]) == ((), ())
    assert "'west.t' equal (mode preserve), and its offset map says that they differ" in found["t", 1]
    assert topic.asked == 1


def test_a_map_that_cannot_be_read_is_none_that_says_nothing(topic: MapTopic) -> None:
    topic.down = True
    assert set(read(RECORD).values()) == {"its offset map cannot be read: no answer"}
    assert topic.asked == 1


def test_where_a_mirror_has_ended_the_record_says_it(topic: MapTopic) -> None:
    ended = changed(RECORD, state=MirrorState.STOPPED, stopped_at=(9,) * 3, stopped_copy_at=(9,) * 3)
    assert set(read(ended).values()) == {()}
    assert topic.asked == 0
