"""One mirror topic through its life: what is written, mirrored, promoted, reversed and failed back, as by the gateway.

The record changes by the gateway's own functions (`cutover/failback/rules/failback_promote.py`,
`mirror/offset_map/rules/periods.py`); the maps are its own, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from struct import pack_into
from typing import Final

from gateway.cutover.failback.rules.failback_promote import stopped
from gateway.jobs.audit.asked import LogState, PartitionFacts, Policy
from gateway.jobs.audit.asked_periods import periods
from gateway.jobs.audit.relation import Relation
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.offset_map.rules.periods import remembered
from gateway.mirror.rules.period import period_of
from gateway.state.records import MirrorDirection, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from protocol.batch.header import BatchHeader, iter_batches, rewrite_batch
from tests.support.control.mirror_records import changed
from tests.support.jobs.audit_logs import Log, Logs, given
from tests.support.mirror.source_log import TRANSACTIONAL, Given, records_in, v2_batch

KEPT_FOR_EVER: Final = Policy(deletes=True, compacts=False, retention_ms=-1, retention_bytes=-1)
NOT_PADDED: Final = -1


def header_of(batch: bytes) -> BatchHeader:
    """Of one batch."""
    return next(iter_batches(memoryview(batch)))[0]


def moved(batch: bytes, base: int) -> bytes:
    """The same batch at another offset."""
    copy = bytearray(batch)
    pack_into(">q", copy, 0, base)
    return bytes(copy)


@dataclass
class History:
    """Both logs of the topic's only partition, the mirror's record, and the maps of its ways."""

    mode: MirrorMode
    transactional: bool = False
    source: Log = field(default_factory=Log)
    target: Log = field(default_factory=Log)
    start: int = 0
    source_policy: Policy | None = KEPT_FOR_EVER
    target_policy: Policy | None = KEPT_FOR_EVER
    compacted: bool = False
    linked: bool = True
    given: Relation | None = None
    ids: tuple[str, str] = ("source-id", "target-id")

    def __post_init__(self) -> None:
        translated = self.mode is MirrorMode.TRANSLATE
        self.record = MirrorRecord(
            link="l",
            source_topic="t",
            mirror_topic="t",
            mirror_id=1,
            source_topic_id="source-id",
            mirror_topic_id="target-id",
            starts=(PartitionStart(self.start, NOT_PADDED if translated else self.start),),
            mode=self.mode,
            readable=True,
            compacted=self.compacted,
        )
        if not translated:
            self.target.start = self.start
        self.numbers = count()
        self.cutover = 0  # up to where the origin is mirrored
        self.position = self.start
        self.maps: list[OffsetMap] = []
        self._begin_period()

    # -- writes ----------------------------------------------------------------------------------------------

    @property
    def origin(self) -> Log:
        """Where the topic is written."""
        on_target = self.record.is_reverse or self.record.state is MirrorState.STOPPED
        return self.target if on_target else self.source

    @property
    def copy(self) -> Log:
        """Where the mirror writes, or wrote last."""
        return self.source if self.record.is_reverse else self.target

    def write(self, batches: int = 6, size: int = 7) -> History:
        """Some batches; where the topic is transactional each is a transaction, and each third one is aborted."""
        log = self.origin
        for number in range(batches):
            first = log.log_end
            aborted = self.transactional and number % 3 == 2
            records = [self._record(first + index) for index in range(size + number % 2)]
            if self.transactional:
                log.add(records, aborted=aborted, attributes=TRANSACTIONAL, producer_id=7)
                log.add_marker(abort=aborted)
            else:
                log.add(records)
        return self

    def _record(self, offset: int) -> Given:
        number = next(self.numbers)
        record = given(offset, number)
        if not self.compacted:
            return record
        return record._replace(key=b"key-%d" % (number * 7 % 13), value=None if number % 11 == 5 else b"v%d" % number)

    def clean(self, log: Log, below: int, *, tombstones: bool = False) -> History:
        """What a log cleaner does to a log below an offset; with its tombstones' time being over, or not."""
        records = log.records()
        latest = {record.key: record.offset for record in records}
        for record in records:
            is_old = latest[record.key] != record.offset
            if record.offset < below and (is_old or (tombstones and record.value is None)):
                drop(log, record.offset)
        return self

    # -- the mirror ------------------------------------------------------------------------------------------

    def _begin_period(self) -> None:
        implied = period_of(self.record, 0).implied[0]
        self.maps.append(OffsetMap([implied], end=implied.target))

    def mirror(self, upto: int = 1 << 62) -> History:
        """Copy what the origin has, up to an offset of it."""
        origin = self.target if self.record.is_reverse else self.source
        copy, known = self.copy, self.maps[-1]
        for batch, aborted in list(origin.batches):
            header = header_of(batch)
            if header.last_offset < self.position or header.last_offset >= upto:
                continue
            self.position = header.next_offset
            if self.mode is MirrorMode.PRESERVE:
                copy.batches.append((_copied(batch, header.base_offset), False))
            elif not aborted and not header.is_control:
                for piece in _dense(batch):
                    base = copy.log_end
                    known.append(header_of(piece).base_offset, base)
                    copy.batches.append((_copied(piece, base), False))
        known.advance(copy.log_end, self.position)
        return self

    # -- changes of sides ------------------------------------------------------------------------------------

    def promote(self) -> History:
        """Writes go to the target."""
        self.mirror()
        pending = replace(self.record, state=MirrorState.PENDING_STOPPED)
        self.record = stopped(pending, (self.source.log_end,), (self.target.log_end,), ((),), 1)
        return self

    def fail_over(self) -> History:
        """Writes go to the target, whatever the source has that was not mirrored."""
        left = sum(record.offset >= self.position for record in self.source.records())
        self.record = changed(
            self.record,
            state=MirrorState.STOPPED,
            stopped_at=(self.position,),
            stopped_copy_at=(self.target.log_end,),
            not_mirrored=(left,),
        )
        return self

    def reverse(self) -> History:
        """The target is mirrored back."""
        self.position = self.record.cutover.stopped_copy_at[0]
        self.record = changed(
            self.record,
            state=MirrorState.ACTIVE,
            direction=MirrorDirection.REVERSE,
            handed_over_at=self.record.cutover.stopped_at,
            handed_over_from=self.record.cutover.stopped_copy_at,
            cutovers=remembered(self.record),
        )
        self._begin_period()
        return self

    def home(self) -> History:
        """Writes go to the source again."""
        self.mirror()
        pending = replace(self.record, state=MirrorState.PENDING_STOPPED)
        self.record = stopped(pending, (self.target.log_end,), (self.source.log_end,), ((),), 1)
        self.record = replace(self.record, state=MirrorState.ACTIVE, mode=self.mode)
        self.position = self.source.log_end
        self._begin_period()
        return self

    # -- what an audit is told -------------------------------------------------------------------------------

    @property
    def logs(self) -> Logs:
        """Both."""
        return Logs(self.source, self.target)

    def facts(self) -> PartitionFacts:
        """As an audit gathers them."""
        known = len(periods(self.record))
        translated = self.mode is MirrorMode.TRANSLATE
        return PartitionFacts(
            topic="t",
            target_topic="t",
            partition=0,
            source=_state(self.source),
            target=_state(self.target),
            source_policy=self.source_policy,
            target_policy=self.target_policy,
            record=self.record if self.linked else None,
            maps=tuple(self.maps[-known:]) if translated and self.linked else (),
            given=self.given,
            is_mapped=self.given is not None,
            source_id=self.ids[0],
            target_id=self.ids[1],
        )


def _state(log: Log) -> LogState:
    return LogState(log.start, log.log_end, log.log_end)


def _copied(batch: bytes, base: int) -> bytes:
    return moved(bytes(rewrite_batch(memoryview(batch), producer_id=1 << 52, sequence=base % (1 << 31))), base)


def _dense(batch: bytes) -> list[bytes]:
    """A batch as it is, or, with gaps in it, one of each run of records."""
    header = header_of(batch)
    if header.is_dense:
        return [batch]
    runs: list[list[Given]] = []
    for record in records_in(batch):
        if not runs or runs[-1][-1].offset + 1 != record.offset:
            runs.append([])
        runs[-1].append(Given(*record))
    return [v2_batch(run) for run in runs]


def drop(log: Log, offset: int) -> None:
    """A record is gone; the others stay at their offsets."""
    index = next(n for n, (batch, _) in enumerate(log.batches) if header_of(batch).last_offset >= offset)
    batch, aborted = log.batches[index]
    header = header_of(batch)
    records = [Given(*record) for record in records_in(batch) if record.offset != offset]
    log.end = log.log_end
    if not records:
        del log.batches[index]
    else:
        attributes = header.attributes & TRANSACTIONAL
        whole = v2_batch(
            records,
            base=header.base_offset,
            last=header.last_offset,
            attributes=attributes,
            producer_id=header.producer_id if attributes else -1,
        )
        log.batches[index] = (whole, aborted)


STATES: Final = ("mirroring", "promoted", "reversed", "failed over", "back on the source")
MIRRORED: Final = ("mirroring", "reversed", "back on the source")
ON_TARGET: Final = ("promoted", "failed over")
MODES: Final = (MirrorMode.PRESERVE, MirrorMode.TRANSLATE)


def history(mode: MirrorMode, state: str, **more: object) -> History:
    """A topic in one mode and state; in mode translate it is transactional, or compacted."""
    transactional = mode is MirrorMode.TRANSLATE and not more.get("compacted")
    made = History(mode, transactional=transactional, **more)  # type: ignore[arg-type]
    made.write()
    if made.compacted:
        made.clean(made.source, 30)
    made.mirror().write().mirror()
    if state == "failed over":
        return made.fail_over().write(4)
    if state != "mirroring":
        made.promote().write(5)
    if state in ("reversed", "back on the source"):
        made.reverse().mirror().write(4).mirror()
    if state == "back on the source":
        made.home().write(5).mirror()
    return made


def compacted(state: str) -> History:
    """A compacted topic, whose logs were cleaned before, and since, and not alike."""
    policy = Policy(deletes=False, compacts=True, retention_ms=-1, retention_bytes=-1)
    made = history(MirrorMode.TRANSLATE, state, compacted=True, source_policy=policy, target_policy=policy)
    return made.clean(made.source, made.source.log_end // 2).clean(made.target, made.target.log_end // 4)


def without_link(*, mapped: bool) -> History:
    """Two clusters and nothing else; `mapped`: with a map from a file."""
    made = history(MirrorMode.TRANSLATE if mapped else MirrorMode.PRESERVE, "mirroring", linked=False)
    if mapped:
        made.given = Relation([*made.maps[0].segments(), (made.source.log_end, made.target.log_end, 0)])
    return made


SCENES: Final[Mapping[str, Callable[[], History]]] = {
    **{f"{mode}, {state}": partial(history, mode, state) for mode in MODES for state in STATES},
    **{f"compacted, {state}": partial(compacted, state) for state in STATES},
    "no link": partial(without_link, mapped=False),
    "no link, a map": partial(without_link, mapped=True),
}
