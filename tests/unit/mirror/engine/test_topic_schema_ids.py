"""A topic whose schema ids are written anew: by the link's map, as it grows, and what is told meanwhile."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.mirror.engine.topic import TopicMirror
from gateway.mirror.partition.rules.partition import PartitionMirror
from gateway.mirror.partition.runner import PartitionRunner
from gateway.state.records import MirrorDirection, MirrorError, MirrorFailback, MirrorRecord, PartitionStart
from protocol.batch.header import iter_batches
from protocol.batch.record_reader import read_records
from tests.support.mirror.source_log import Given, v2_batch

RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=2, starts=(PartitionStart(0, 0),), translates_ids=("value",)
)


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"x"


class Scene:
    """One partition that copies. `ids`: the map. `failed`: what the control plane was told."""

    def __init__(self, record: MirrorRecord = RECORD) -> None:
        self.ids: dict[int, int] = {}
        self.failed: list[MirrorError] = []
        dependencies: Any = SimpleNamespace(
            link="l", link_id=1, maps=None, skip_deleted=False, retry_s=300.0, wall_ms=lambda: 5_000,
            clock=lambda: 0.0, ids=lambda: self.ids, ids_patience_s=30.0,
            source=SimpleNamespace(invalidate=lambda name: None, available=False),
            progress=SimpleNamespace(advance=lambda *_: None),
            events=SimpleNamespace(
                topic_readable=lambda *_: None, partition_failed=lambda *told: self.failed.append(told[3])
            ),
            source_logs=SimpleNamespace(ask=lambda *_, **__: None), target_logs=SimpleNamespace(ask=lambda *_: None),
        )  # fmt: skip
        self.dependencies = dependencies
        self.topic = TopicMirror(record, dependencies, lambda runner: None)
        self.runner: PartitionRunner = self.topic.add(0)
        self.touched: list[PartitionRunner] = []
        self.runner.reader = SimpleNamespace(touch=self.touched.append)
        self.runner.begin()
        self.runner._do(self.runner.mirror.target_log, 0, 0, None, 0.0)
        self.runner._do(self.runner.mirror.source_log, 0, 10, 0.0)

    def read(self) -> None:
        batch = v2_batch([Given(0, 1_000, None, framed(7))])
        self.runner.fetched(memoryview(batch), 1, 0.0, self.runner.cursor.fetch_offset)


def test_it_waits_for_the_map_and_goes_on() -> None:
    scene = Scene()
    scene.read()
    (told,) = scene.topic.status()
    assert (told.missing_ids, told.lag, told.ids_written_total) == ((7,), 1, 0)
    assert told.waits_for.startswith("waiting for schema id 7 in the id map")
    assert not scene.runner.rest()
    assert not scene.runner.mirror.wants_fetch(1.0)
    scene.topic.look_at_ids(1.0)
    scene.ids[7] = 70
    scene.touched.clear()
    scene.topic.look_at_ids(2.0)
    assert scene.touched == [scene.runner]  # whoever fetches it looks again
    assert scene.runner.mirror.wants_fetch(2.0)
    scene.read()
    append = scene.runner.take()
    assert append is not None
    (found,) = iter_batches(memoryview(append.batch))
    assert [record.value for record in read_records(*found)] == [framed(70)]
    (told,) = scene.topic.status()
    assert (told.missing_ids, told.waits_for, told.ids_written_total) == ((), "", 1)


def test_how_long_it_waits_changes_while_it_runs() -> None:
    scene = Scene()
    scene.read()
    for now in range(29):
        scene.topic.look_at_ids(float(now))
    scene.dependencies.ids_patience_s = 5.0
    scene.topic.update(scene.dependencies)
    assert not scene.failed
    scene.topic.look_at_ids(29.0)
    assert scene.failed == [MirrorError.SCHEMA_ID_UNKNOWN]
    (told,) = scene.topic.status()
    assert (told.phase, told.missing_ids) == ("failed", ())


def test_others_are_copied_as_bytes() -> None:
    back = MirrorFailback(direction=MirrorDirection.REVERSE)
    for record in (replace(RECORD, translates_ids=()), replace(RECORD, failback=back)):
        scene = Scene(record)
        scene.read()
        assert scene.runner.mirror.rewriter is None
        assert scene.runner.take() is not None
        scene.topic.look_at_ids(1.0)


def test_a_repaired_mirror_goes_on_whatever_is_changed_of_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(replace(RECORD, goes_on=True))
    told: list[bool] = []
    monkeypatch.setattr(PartitionMirror, "skip", lambda _self, *, deleted: told.append(deleted))
    scene.topic.update(scene.dependencies)
    assert told == [True]
