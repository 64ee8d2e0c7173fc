"""The offset map against the records: where it says that a record is, there it is.

`__lockgate_map.LINK` is read with the product's decoder and ledger; the batches of the copy tell which promises were
kept. Then every record that both clusters have must be found both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.mirror.offset_map.rules.codec import MapFormatError, PartitionKey, Value, decode_key, decode_value
from gateway.mirror.offset_map.rules.ledger import OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.mirror.offset_map.rules.periods import before
from gateway.mirror.offset_map.topic import map_topic
from gateway.mirror.rules.period import period_of
from gateway.state.per_partition import WrongLength
from gateway.state.records import MirrorMode, MirrorRecord, MirrorState
from protocol.batch.header import BatchHeader
from tests.simulation.judge.findings import Findings
from tests.simulation.judge.logs import Pair, identity, places
from tests.simulation.judge.state import LogRecord, Logs

Entries = dict[PartitionKey, list[tuple[int, int, int, Value | None]]]
"""Of each partition and way: (offset in the topic, base, writer, value)."""


def read_map(target: Logs, link: str, findings: Findings, now: float) -> tuple[Entries, int]:
    """The records of a link's map topic, and where it ends."""
    topic = map_topic(link)
    found: Entries = {}
    if topic not in target.topic_names():
        return found, 0
    for record in target.records(topic, 0, committed_only=True):
        if record.control or record.key is None:
            continue
        try:
            key = decode_key(record.key)
            value = None if record.value is None else decode_value(key, record.value)
        except MapFormatError as error:
            findings.add("broken", f"{topic} offset {record.offset}", str(error), now)
            continue
        found.setdefault(key.of, []).append((record.offset, key.base, key.writer, value))
    return found, target.log_range(topic, 0)[1]


class LinkMap(NamedTuple):
    """What a link's map topic says, and the clusters whose batches tell which promises were kept."""

    link_id: int
    entries: Entries
    seen: int
    source: Any
    target: Any

    def header_at(self, record: MirrorRecord, partition: int, offset: int) -> BatchHeader | None:
        """Of the batch of the copy that holds an offset, or of the next one."""
        cluster, topic = (self.source, record.source_topic) if record.is_reverse else (self.target, record.mirror_topic)
        batches = cluster.partition(topic, partition).best.log.batches_from(offset)
        return batches[0].header if batches else None


def judge_map(pair: Pair, link: LinkMap, findings: Findings, now: float) -> None:
    """Judge one partition: the present mirror period, and those before it as far as they are remembered."""
    try:
        for record, end in _periods(pair):
            _judge_period(pair, record, end, link, findings, now)
    except WrongLength as error:
        findings.add("broken", pair.where, str(error), now)


def _periods(pair: Pair) -> Iterator[tuple[MirrorRecord, int | None]]:
    """(the record of a way, where its copy ended); None: it goes on."""
    record: MirrorRecord | None = pair.mirror
    while record is not None and record.mode is MirrorMode.TRANSLATE:
        ended = record.cutover.stopped_copy_at if record.state is MirrorState.STOPPED else ()
        yield record, ended[pair.partition] if pair.partition < len(ended) else None
        record = before(record)


def _judge_period(
    pair: Pair,
    record: MirrorRecord,
    end: int | None,
    link: LinkMap,
    findings: Findings,
    now: float,
) -> None:
    period = period_of(record, link.link_id)
    of = period.map_key(pair.partition)
    origin, copy = (pair.target, pair.source) if record.is_reverse else (pair.source, pair.target)
    begin = period.handed_over_at[pair.partition]
    copied = [each for each in copy if each.offset >= begin and (end is None or each.offset < end)]
    at = places(origin)
    ledger = OffsetLedger(of, period.implied[pair.partition], lambda: 1)
    for entry in link.entries.get(of, ()):
        ledger.read(*entry)
    ledger.absorb(link.seen)
    if not ledger.used or not copied:
        return
    log_end = copied[-1].offset + 1
    true_source = {each.offset: origin[at[identity(each)]].offset for each in copied if identity(each) in at}
    undecided = ledger.undecided(log_end)
    lost = [each for each in undecided if not each.is_in(link.header_at(record, pair.partition, each.base))]
    ledger.decide_below(log_end, lost)
    for each in copied:
        if each.offset in true_source:
            _judge_record(pair, each, true_source[each.offset], ledger, findings, now)


def _judge_record(
    pair: Pair, record: LogRecord, origin_at: int, ledger: OffsetLedger, findings: Findings, now: float
) -> None:
    value = "a tombstone" if record.value is None else repr(record.value.decode(errors="replace"))
    back, there = ledger.map.to_source(record.offset), ledger.map.to_target(origin_at)
    if back.offset != origin_at:
        what = f"the map says that {value} at {record.offset} of the copy was at {back.offset}; it is at {origin_at}"
        findings.add("wrong_offsets", pair.where, what, now)
    elif there.offset != record.offset or there.rule is not TranslationRule.EXACT:
        what = f"the map says that {value} at {origin_at} is at {there.offset} of the copy; it is at {record.offset}"
        findings.add("wrong_offsets", pair.where, what, now)
