"""What the state topic says, read straight from the target's log, and the invariants that its records keep.

* One term at a time: every record has the producer id of the writer record before it, epochs never go down, and each
  writer's is higher than all before. (Within a term an epoch goes up: a commit of unknown outcome was settled.)
* Epochs and generations of a mirror only grow, offsets that are translated stay so, partitions do not go away.
* A list with an entry per partition has one for every partition, where it stands for something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from gateway.state.codec import Record as StateRecord
from gateway.state.codec import StateFormatError, decode, values_of
from gateway.state.log import WRITER_KEY
from gateway.state.per_partition import with_tables_of
from gateway.state.promote_sets import name_of
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorMode, MirrorRecord, MirrorState
from gateway.state.topic import TOPIC
from tests.simulation.judge.findings import Findings
from tests.simulation.recorder import SOURCE, TARGET

_ON_TARGET: Final = (
    MirrorState.STOPPED,
    MirrorState.PENDING_SYNCHRONIZE,
    MirrorState.PENDING_SETUP_FOR_RESTORE,
    MirrorState.PENDING_RESTORE_MIRROR,
)


class LogRecord(Protocol):
    """A record of a cluster model."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def control(self) -> bool: ...
    @property
    def aborted(self) -> bool: ...


class Logs(Protocol):
    """What judges ask of a cluster model."""

    def records(self, topic: str, partition: int, committed_only: bool = False) -> Sequence[LogRecord]:
        """Of a partition, from its log start on."""

    def log_range(self, topic: str, partition: int) -> tuple[int, int, int, int]:
        """Log start, log end, high watermark, last stable offset."""

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """What a group has committed."""

    def topic_names(self) -> list[str]:
        """Of all topics but the brokers' own."""


class Snapshot:
    """A cluster at one instant: each log is decoded once."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._records: dict[tuple[str, int], Sequence[LogRecord]] = {}
        self.topics = cluster.topics
        self.log_range, self.committed = cluster.log_range, cluster.committed
        self.topic_names, self.partition = cluster.topic_names, cluster.partition

    def records(self, topic: str, partition: int, committed_only: bool = False) -> Sequence[LogRecord]:
        """As `Logs` says; committed records only."""
        assert committed_only
        found = self._records.get((topic, partition))
        if found is None:
            found = self._records[topic, partition] = self._cluster.records(topic, partition, committed_only=True)
        return found


class Entry(NamedTuple):
    """A record of the state topic. `record` is None for what was deleted."""

    offset: int
    key: str
    record: StateRecord | None
    before: StateRecord | None


@dataclass
class StateView:
    """The state topic, as far as it was read (`position`). `read` goes on. `end`: of its log, when that was asked.

    `links`: whose mirrors and groups are looked at; all when there are none.
    """

    target: Logs
    findings: Findings
    topic: str = TOPIC
    links: frozenset[str] = frozenset()
    latest: dict[str, StateRecord] = field(default_factory=dict)
    position: int = 0
    end: int = 0
    _writer: tuple[int, int] = (-1, -1)
    _listed: tuple[list[MirrorRecord], list[GroupRecord]] | None = None  # asked for far more often than it changes

    def read(self, now: float) -> list[Entry]:
        """What came since the last time, in order; its invariants are looked at."""
        if self.topic not in self.target.topic_names():
            return []
        _, self.end, _, stable = self.target.log_range(self.topic, 0)
        if stable <= self.position:
            return []
        found = []
        for record in self.target.records(self.topic, 0, committed_only=True):
            if not self.position <= record.offset < stable or record.control or record.aborted or record.key is None:
                continue
            self._look_at_writer(record, now)
            entry = self._entry(record, now)
            if entry is not None:
                found.append(entry)
        self.position = stable
        return found

    @property
    def mirrors(self) -> list[MirrorRecord]:
        """All that are there now, in order of their names."""
        return self._lists()[0]

    @property
    def groups(self) -> list[GroupRecord]:
        """The same."""
        return self._lists()[1]

    def _lists(self) -> tuple[list[MirrorRecord], list[GroupRecord]]:
        if self._listed is None:
            found = [each for _, each in sorted(self.latest.items()) if self.is_looked_at(each)]
            self._listed = (
                [each for each in found if isinstance(each, MirrorRecord)],
                [each for each in found if isinstance(each, GroupRecord)],
            )
        return self._listed

    def is_looked_at(self, record: StateRecord | None) -> bool:
        """It is no mirror or group of a link that is not looked at."""
        return not self.links or not isinstance(record, MirrorRecord | GroupRecord) or record.link in self.links

    def link_id(self, name: str) -> int:
        """Of a link; 0 when it is gone."""
        link = self.latest.get(f"link/{name}")
        return link.link_id if isinstance(link, LinkRecord) else 0

    def link_configs(self, name: str) -> Mapping[str, str]:
        """Options and client properties of a link; none when it is gone."""
        link = self.latest.get(f"link/{name}")
        return {**link.client, **link.configs} if isinstance(link, LinkRecord) else {}

    def _look_at_writer(self, record: LogRecord, now: float) -> None:
        key = (record.key or b"").decode()
        stamp = record.producer_id, record.producer_epoch
        if key == WRITER_KEY:
            if stamp[0] == self._writer[0] and stamp[1] <= self._writer[1]:
                self._broken(key, record.offset, f"a writer of epoch {stamp[1]} after one of {self._writer[1]}", now)
            self._writer = stamp
        elif self._writer != (-1, -1):
            if stamp[0] != self._writer[0] or stamp[1] < self._writer[1]:
                what = f"written by producer {stamp[0]} epoch {stamp[1]} after {self._writer[0]}/{self._writer[1]}"
                self._broken(key, record.offset, what, now)
            self._writer = max(self._writer, stamp)

    def _entry(self, record: LogRecord, now: float) -> Entry | None:
        key = (record.key or b"").decode()
        if key == WRITER_KEY:
            return None
        before = self.latest.get(key)
        self._listed = None
        if record.value is None:
            self.latest.pop(key, None)
            return Entry(record.offset, key, None, before)
        try:
            said = decode(key, record.value)
        except StateFormatError as error:
            self._broken(key, record.offset, str(error), now)
            return None
        if said is None:
            return None
        if isinstance(said, MirrorRecord):
            said = with_tables_of(said, self.latest)
        self.latest[key] = said
        if isinstance(said, MirrorRecord):
            same = before if isinstance(before, MirrorRecord) and before.mirror_id == said.mirror_id else None
            for what in (*_wrong_lengths(said), *(_went_back(same, said) if same else ())):
                self._broken(f"mirror {said.mirror_topic}", record.offset, what, now)
        return Entry(record.offset, key, said, before)

    def _broken(self, where: str, offset: int, what: str, now: float) -> None:
        self.findings.add("broken", f"{self.topic} offset {offset}, {where}", what, now)


def side_of(mirror: MirrorRecord) -> str:
    """The cluster on which a mirror topic is written."""
    return TARGET if mirror.is_reverse or mirror.state in _ON_TARGET else SOURCE


def group_side(group: GroupRecord) -> str:
    """The cluster on which a group reads."""
    return TARGET if group.state is GroupState.PROMOTED else SOURCE


def was_failed_over(entry: Entry) -> bool:
    """The record is that of a failover, the one before was not."""
    said, before = entry.record, entry.before
    if not isinstance(said, MirrorRecord) or not said.cutover.not_mirrored:
        return False
    return not isinstance(before, MirrorRecord) or not before.cutover.not_mirrored


def torn_sets(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Topics that a promote has taken to the other side without all of their set, groups too; and which is missing.

    `entries`: whole commits, as they were read.
    """
    moved = {
        said.mirror_topic: before
        for said, before in ((entry.record, entry.before) for entry in entries)
        if isinstance(said, MirrorRecord) and isinstance(before, MirrorRecord)
        if before.state is MirrorState.PENDING_STOPPED and side_of(said) != side_of(before)
        if not said.cutover.not_mirrored
    }
    groups = {
        name_of(said.group)
        for said, before in ((entry.record, entry.before) for entry in entries)
        if isinstance(said, GroupRecord) and isinstance(before, GroupRecord) and group_side(said) != group_side(before)
    }
    for topic, before in sorted(moved.items()):
        for other in before.cutover.promoted_with:
            if other not in moved and other not in groups:
                yield topic, other


def _went_back(before: MirrorRecord, now: MirrorRecord) -> Iterator[str]:
    """What only grows, and did not."""
    pairs = {
        "pause_epoch": (before.cutover.pause_epoch, now.cutover.pause_epoch),
        "failback_epoch": (before.failback.epoch, now.failback.epoch),
        "partitions": (len(before.starts), len(now.starts)),
    }
    for name, (old, new) in pairs.items():
        if new < old:
            yield f"{name} went from {old} back to {new}"
    if before.mode is MirrorMode.TRANSLATE and now.mode is MirrorMode.PRESERVE and not now.failback.reverse_starts:
        yield "its offsets were translated, and are said to be equal again"


def _wrong_lengths(mirror: MirrorRecord) -> Iterator[str]:
    """Lists that do not have an entry per partition."""
    count, values = len(mirror.starts), values_of(mirror)
    if mirror.cutover.tables.are_missing:
        yield "it names producer tables that are not there"
    for name in ("stopped_at", "stopped_copy_at", "producers", "handed_over_at", "handed_over_from", "not_mirrored"):
        length = len(values[name])
        added = name.startswith("handed_over") and length < count  # of partitions that came later
        if length and length != count and not added:
            yield f"{name} has {length} entries for {count} partitions"
    began, origin = len(mirror.failback.handed_over_at), len(mirror.failback.handed_over_from)
    if origin and origin != began:
        yield f"handed_over_at has {began} entries, ..._from {origin}"
    yield from _missing(mirror)
    for cutover in mirror.failback.cutovers:
        if len(cutover.source) != len(cutover.target):
            yield (
                f"a change of sides with {len(cutover.source)} offsets on the source, {len(cutover.target)} "
                f"on the target"
            )


def _missing(mirror: MirrorRecord) -> Iterator[str]:
    """Lists that are empty where they stand for something."""
    translated = mirror.mode is MirrorMode.TRANSLATE
    if mirror.state is MirrorState.STOPPED and mirror.starts:
        wanted = [
            "stopped_at",
            *(["stopped_copy_at"] if translated else []),
            *([] if mirror.cutover.not_mirrored else ["producers"]),
        ]
        for name in wanted:
            if not values_of(mirror)[name]:
                yield f"it is STOPPED without {name}"
    if (
        translated
        and any(mirror.failback.handed_over_at)
        and not mirror.failback.handed_over_from
        and not mirror.failback.reverse_starts
    ):
        yield "its offsets are translated, and handed_over_from is empty"
