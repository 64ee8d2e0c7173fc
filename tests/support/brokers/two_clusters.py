"""Two clusters as judges see them, and a small migration on them: made by hand, to be spoilt by hand.

`Scene` has a mirror topic `plain` (one partition, offsets preserved) and a group that reads it. Its methods do what a
client, the mirror or the control plane does, and record it as they would.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from gateway.mirror.offset_map.rules.codec import Chunk, MapKey, PartitionKey, encode_key, encode_value
from gateway.mirror.offset_map.topic import map_topic
from gateway.state.codec import Record, encode, key_of
from gateway.state.records import (
    CarriedOffset,
    GroupRecord,
    GroupState,
    LinkRecord,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    ProducerEntry,
)
from gateway.state.topic import TOPIC
from protocol.batch.header import BatchHeader
from tests.simulation.judge import Judge, Verdict
from tests.simulation.recorder import SOURCE, TARGET, Recorder
from tests.support.control.mirror_records import changed


@dataclass(frozen=True, slots=True)
class One:
    """A record of a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    control: bool = False
    aborted: bool = False


class _Batches:
    """What `Partition` of the broker model says of its batches."""

    def __init__(self, headers: Sequence[BatchHeader]) -> None:
        self._headers = headers
        self.best = self.log = self

    def batches_from(self, offset: int) -> list[SimpleNamespace]:
        """Those that end behind an offset."""
        return [SimpleNamespace(header=header) for header in self._headers if header.last_offset >= offset]


class Side:
    """A cluster: logs by topic and partition, committed offsets by group."""

    def __init__(self) -> None:
        self.topics: dict[str, SimpleNamespace] = {}
        self.groups: dict[str, dict[tuple[str, int], int]] = {}
        self.starts: dict[tuple[str, int], int] = {}
        self.batches: dict[tuple[str, int], list[BatchHeader]] = {}
        self.stable: dict[tuple[str, int], int] = {}  # where readers are given no more than that for now

    def create(self, topic: str, partitions: int = 1) -> None:
        """An empty topic."""
        self.topics[topic] = SimpleNamespace(partitions=[[] for _ in range(partitions)])

    def log(self, topic: str, partition: int = 0) -> list[One]:
        """Its records."""
        found: list[One] = self.topics[topic].partitions[partition]
        return found

    def end(self, topic: str, partition: int = 0) -> int:
        """The next offset."""
        log = self.log(topic, partition)
        return log[-1].offset + 1 if log else self.starts.get((topic, partition), 0)

    def append(self, topic: str, value: bytes | None, partition: int = 0, **more: Any) -> One:
        """One record."""
        record = One(more.pop("offset", self.end(topic, partition)), more.pop("key", None), value, **more)
        self.log(topic, partition).append(record)
        return record

    def records(self, topic: str, partition: int, committed_only: bool = False) -> Sequence[One]:
        """As `Logs` says."""
        return [r for r in self.log(topic, partition) if not (committed_only and (r.aborted or r.control))]

    def log_range(self, topic: str, partition: int) -> tuple[int, int, int, int]:
        """As `Logs` says."""
        end = self.end(topic, partition)
        stable = self.stable.get((topic, partition), end)
        return self.starts.get((topic, partition), 0), end, stable, stable

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """As `Logs` says."""
        return self.groups.get(group, {})

    def partition(self, topic: str, partition: int) -> Any:
        """Its batches, as far as they were given to `batches`."""
        found = self.batches.get((topic, partition), [])
        return _Batches(found)

    def topic_names(self) -> list[str]:
        """As `Logs` says."""
        return sorted(self.topics)


class Scene:
    """See the module. `send` acknowledges unless told otherwise; time goes on by one second with each call."""

    def __init__(self, **options: Any) -> None:
        """`options`: as `Judge`'s."""
        self.now = 1000.0
        self.source, self.target = Side(), Side()
        self.recorder = Recorder(lambda: self.now)
        self.judge = Judge(self.recorder, self.source, self.target, lambda: self.now, **options)
        self.target.create(TOPIC)
        self.mirror = MirrorRecord(
            link="l",
            source_topic="plain",
            mirror_topic="plain",
            mirror_id=1,
            starts=(PartitionStart(0, 0),),
            readable=True,
        )
        self._epoch = 0
        self._number = 0
        self.source.create("plain")
        self.target.create("plain")
        self.lead()
        self.store(LinkRecord(name="l", link_id=1, source_cluster_id="s", client={}))
        self.store(self.mirror)
        self.recorder.opened("p", TARGET)
        self.recorder.opened("m-source", SOURCE, group="g", reset="earliest")
        self.recorder.opened("m-target", TARGET, group="g", reset="earliest")
        self.recorder.write("ok", "m-source", "assign", ["plain/0"])

    # -- the control plane -----------------------------------------------------------------------------------

    def lead(self, epoch: int | None = None) -> None:
        """The next writer of the state topic."""
        self._epoch = self._epoch + 1 if epoch is None else epoch
        self._state("writer", json.dumps({"instance": f"i{self._epoch}"}).encode())

    def store(self, record: Record, epoch: int | None = None) -> None:
        """A record of the state topic."""
        self._state(key_of(record), encode(record), epoch)

    def change(self, **changes: Any) -> None:
        """The mirror's record."""
        self.mirror = changed(self.mirror, **changes)
        self.store(self.mirror)

    def promote(self, **changes: Any) -> None:
        """The cutover."""
        ends = (self.source.end("plain"),)
        producers = ((ProducerEntry(1, 0, 0, 0, 0),),)
        said = {"stopped_at": ends, "stopped_copy_at": (self.target.end("plain"),), "producers": producers, **changes}
        self.judge.look()
        self.change(state=MirrorState.STOPPED, **said)
        self.judge.look()

    def promote_group(self, source_offset: int, target_offset: int) -> None:
        """The group reads on the target from now on."""
        self.judge.look()
        offsets = (CarriedOffset("plain", 0, source_offset, target_offset),)
        self.store(GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=offsets))
        self.judge.look()

    def promise(self, base: int, records: int, *pairs: tuple[int, int], kept: bool = True, writer: int = 7) -> None:
        """A chunk of the offset map, for a batch that the copy holds, or not."""
        if kept:
            header = BatchHeader(base, 49, 0, 2, 0, 0, records - 1, 0, 0, 0, 0, 0, records)
            self.target.batches.setdefault(("plain", 0), []).append(header)
        topic = map_topic("l")
        if topic not in self.target.topics:
            self.target.create(topic)
        key = MapKey(PartitionKey(1, 0, 0), base, writer)
        self.target.append(topic, encode_value(Chunk.of(records, 0, pairs)), key=encode_key(key))

    def _state(self, key: str, value: bytes, epoch: int | None = None) -> None:
        self.now += 1
        stamp = self._epoch if epoch is None else epoch
        self.target.append(TOPIC, value, key=key.encode(), producer_id=5, producer_epoch=stamp)

    # -- clients ---------------------------------------------------------------------------------------------

    def send(self, *sides: Side, end: str = "ok", offset: int | None = None, **more: Any) -> str:
        """A record: to these sides (default: the source, and its copy on the target)."""
        self.now += 1
        self._number += 1
        value = f"p:{self._number}"
        self.recorder.write("invoke", "p", "send", [["send", "plain/0", value]], self._number)
        for side in sides or (self.source, self.target):
            side.append("plain", value.encode(), timestamp=int(self.now), **more)
        told: Any = [["send", "plain/0", [offset, value]]] if end == "ok" else [["send", "plain/0", value]]
        self.recorder.write(end, "p", "send", told, self._number)
        return value

    def transact(self, end: str, *places: tuple[Side, str, int], values: Mapping[str, Sequence[str]]) -> None:
        """A transaction: `values` by key; `places`: side, topic and how many of the topic's values are there."""
        self.now += 1
        self._number += 1
        parts = [["send", key, value] for key, each in values.items() for value in each]
        self.recorder.write("invoke", "p", "txn", parts, self._number)
        for side, topic, count in places:
            for value in values[f"{topic}/0"][:count]:
                side.append(topic, value.encode())
        told: Any = parts if end != "ok" else [[what, key, [None, value]] for what, key, value in parts]
        self.recorder.write(end, "p", "txn", told, self._number)

    def read(self, member: str, side: Side, at: int, to: int, *, commit: bool = True) -> None:
        """A poll of offsets `at` to below `to`, and its commit."""
        self.now += 1
        records = [[r.offset, (r.value or b"").decode()] for r in side.log("plain") if at <= r.offset < to]
        self.recorder.write("invoke", member, "poll", [["poll"]])
        self.recorder.write("ok", member, "poll", [["poll", {"plain/0": records}]])
        if commit:
            self.recorder.write("invoke", member, "commit", {"plain/0": to})
            self.recorder.write("ok", member, "commit", {"plain/0": to})
            side.groups.setdefault("g", {})["plain", 0] = to


def a_whole_migration(scene: Scene) -> None:
    """Three records over the source, a group that moves, a promote, three records over the target."""
    for _ in range(3):
        scene.send()
    scene.read("m-source", scene.source, 0, 2)
    scene.recorder.write("ok", "m-source", "revoke", ["plain/0"])
    scene.promote_group(2, 2)
    scene.recorder.write("ok", "m-target", "assign", ["plain/0"])
    scene.read("m-target", scene.target, 2, 3)
    scene.promote()
    for _ in range(3):
        scene.send(scene.target)
    scene.read("m-target", scene.target, 3, 6)


def found(verdict: Verdict, name: str) -> str:
    """The first example of a class, which must be the only one with a fault but for those that follow from it."""
    assert verdict.counts[name], f"{name} was not found: {verdict.numbers()} {verdict.first}"
    return verdict.examples[name][0]
