"""A source that answers without records below its own end: an offset gap is believed when the batch after it is
known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.mirror.offset_map import partitions as topic_maps
from gateway.mirror.offset_map.partitions import TopicOffsetMaps
from gateway.mirror.partition.rules.commands import LookAhead
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.rules.source_side import EMPTY_ANSWERS
from tests.unit.mirror.partition.rules.test_records_lost import batch, started, written

END = 1_000_000


def asked() -> tuple[PartitionMirror, LookAhead]:
    """A mirror at 105 whose source says that it goes on to `END`, and sends nothing."""
    mirror, commands = started(100, (0, END))
    written(mirror, commands)
    mirror.fetched(batch(100, 5), END, now=0.0)
    found = [command for _ in range(EMPTY_ANSWERS) for command in mirror.fetched(memoryview(b""), END, now=0.0)]
    (ahead,) = found
    assert ahead == LookAhead(105, END)
    return mirror, ahead


def test_nothing_is_no_gap() -> None:
    mirror, ahead = asked()
    assert mirror.looked_ahead(ahead.offset, ahead.bound, following=None) == ()
    assert mirror.source.cursor.fetch_offset == 105
    assert "sends no records from offset 105 on" in mirror.source.last_error

    mirror.fetched(batch(105, 3), END, now=0.0)
    assert mirror.source.last_error == ""
    assert mirror.source.cursor.fetch_offset == 108


def test_the_batch_behind_it_proves_a_gap() -> None:
    mirror, ahead = asked()
    written(mirror, mirror.looked_ahead(ahead.offset, ahead.bound, following=END + 7))
    assert mirror.source.cursor.fetch_offset == END


def test_a_batch_inside_proves_none() -> None:
    mirror, ahead = asked()
    assert mirror.looked_ahead(ahead.offset, ahead.bound, following=END - 1) == ()
    assert mirror.source.cursor.fetch_offset == 105


@pytest.mark.parametrize(("header", "told"), [(None, None), (80, 100), (120, 120)])
async def test_what_is_told_of_the_look(monkeypatch, header, told):
    answers: list[Any] = []
    runner = SimpleNamespace(
        source_topic="s", partition=0, key=("t", 0), looked_ahead=lambda *said: answers.append(said)
    )

    async def look(*_: object, **__: object) -> object:
        return None if header is None else SimpleNamespace(base_offset=header)

    monkeypatch.setattr(topic_maps, "batch_at", look)
    maps = TopicOffsetMaps(None, None, None, None, lambda _, __: None)  # type: ignore[arg-type]
    await maps._look_ahead(runner, 100, END)  # type: ignore[arg-type]
    assert answers == [(100, END, told)]


async def test_a_look_that_fails_tells_nothing(monkeypatch):
    told = []

    async def look(*_: object, **__: object) -> object:
        raise ClusterUnavailable("no")

    monkeypatch.setattr(topic_maps, "batch_at", look)
    runner = SimpleNamespace(source_topic="s", partition=0, key=("t", 0), looked_ahead=lambda *said: told.append(said))
    maps = TopicOffsetMaps(None, None, None, None, lambda _, __: None)  # type: ignore[arg-type]
    await maps._look_ahead(runner, 100, END)  # type: ignore[arg-type]
    assert told == []
