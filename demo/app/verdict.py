"""What the demo of applications must show, judged from both clusters' logs and what the clients logged.

- lost: acknowledged and not there, on either side; read by an application and not processed; never read by the group.
- duplicated: there twice, on either side; processed twice; counted twice; read twice by the group.
- torn: a transaction of which a part can be seen, on either side: of records that one transaction has written, by their
  tag; of Streams, a count in its changelog that is not the one in its output.
- counts_exact: each bucket's last count is how many records of it the input has, on both sides.
- forced: commands that were given `--force`.
- client_errors: what a client's application was shown. A transaction that a rebalance overtakes, and that its
  application aborts and does again, is none.
- rehearsed_stall_ms, pause_ms: the longest that a client waited in a rehearsal; the longest write pause of a promote.

What has no place in the last line makes a FAIL all the same: an order or a content that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from demo.app.cast import TOPIC_OF
from demo.app.look import Held, last_counts, size_of
from demo.app.settings import BILLING, BOOKED, CHANGELOG, CLICKS, COUNTS, ORDERS, PAYMENTS, WORDS
from demo.checker import TopicLog
from demo.checker.groups import find_reads
from demo.checker.logs import Finding, locate, name
from demo.history import History, Side
from demo.records import RecordId

BUCKETS = 10
"""As demo/app/java/Counter.java has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the judge is told beside the logs; as in `AppVerdict`."""

    forced: int
    rehearsed_stall_ms: int | None
    pause_ms: int | None
    undone: bool
    report_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVerdict:
    """`transactions`: of `booking`, that were seen on the target. `unequal`: differences of order and content.
    `examples`: the first few cases of each fault in words. A time is None where nothing was measured."""

    acknowledged: int
    transactions: int
    lost: int
    duplicated: int
    torn: int
    unequal: int
    counts_exact: bool
    forced: int
    rehearsed_stall_ms: int | None
    pause_ms: int | None
    undone: bool
    report_verified: bool
    errors: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when nothing is wrong, and everything was done."""
        faults = self.lost + self.duplicated + self.torn + self.unequal + self.forced + len(self.errors)
        measured = self.rehearsed_stall_ms is not None and self.pause_ms is not None
        done = self.counts_exact and self.undone and self.report_verified and measured
        return not faults and done and self.acknowledged > 0 and self.transactions > 0

    @property
    def counts(self) -> str:
        """For the last line."""
        return (
            f"lost={self.lost} duplicated={self.duplicated} torn={self.torn}"
            f" counts_exact={str(self.counts_exact).lower()} forced={self.forced} client_errors={len(self.errors)}"
            f" rehearsed_stall_ms={_ms(self.rehearsed_stall_ms)} pause_ms={_ms(self.pause_ms)}"
            f" undone={str(self.undone).lower()} report_verified={str(self.report_verified).lower()}"
        )


def judge_all(history: History, source: Held, target: Held, told: Told) -> AppVerdict:
    """Judge a run by what both clusters hold when the target has been written and mirrored back to its end."""
    sides = {Side.SOURCE: source, Side.TARGET: target}
    lost, duplicated, torn, unequal, wrong = Finding(), Finding(), Finding(), Finding(), Finding()
    for side, held in sides.items():
        _find_lost(history, held, side, lost)
        _find_twice(held, side, duplicated)
        _find_torn(held, side, torn)
        _find_processed(held, side, lost, unequal)
        _find_miscounted(held, side, wrong)
    _find_differences(source, target, unequal)
    places, _ = locate(target.logs[ORDERS])
    _, missed, reread, strange = find_reads(BILLING, history.reads.get(BILLING, []), places)
    findings = (lost, missed, duplicated, reread, torn, unequal, strange, wrong)
    return AppVerdict(
        acknowledged=sum(len(acks) for acks in history.acks.values()),
        transactions=len(target.transactions),
        lost=lost.count + missed.count,
        duplicated=duplicated.count + reread.count,
        torn=torn.count,
        unequal=unequal.count + strange.count,
        counts_exact=not wrong.count,
        forced=told.forced,
        rehearsed_stall_ms=told.rehearsed_stall_ms,
        pause_ms=told.pause_ms,
        undone=told.undone,
        report_verified=told.report_verified,
        errors=tuple(f"{error.client}: {error.message}" for error in history.errors),
        examples=(*(example for finding in findings for example in finding.examples), *_not_done(told)),
    )


def wanted_counts(words: TopicLog) -> Mapping[str, int]:
    """Bucket -> how many records of it the input has."""
    return Counter(f"bucket-{record.id.seq % BUCKETS}" for _, record in words.records())


def _find_lost(history: History, held: Held, side: Side, lost: Finding) -> None:
    there = {topic: _ids(log) for topic, log in held.logs.items()}
    for producer, acks in history.acks.items():
        topic = TOPIC_OF[producer]
        for ack in acks:
            record = RecordId(producer, ack.seq)
            if record not in there[topic]:
                lost.add(f"lost: {name(record)} of {topic} is not on the {side}")


def _find_twice(held: Held, side: Side, duplicated: Finding) -> None:
    """In the changelog counts come once, too, but an older one may have been compacted away: it is not looked at."""
    for topic in (WORDS, PAYMENTS, ORDERS, CLICKS, BOOKED, COUNTS):
        _, twice = locate(held.logs[topic])
        duplicated.count += twice.count
        duplicated.examples += [f"{topic} on the {side}: {example}" for example in twice.examples]


def _find_torn(held: Held, side: Side, torn: Finding) -> None:
    for tag, seen in held.transactions.items():
        if seen < size_of(tag):
            torn.add(f"torn: {seen} records of transaction {tag} can be seen on the {side}")
    kept, shown = last_counts(held.logs[CHANGELOG]), last_counts(held.logs[COUNTS])
    for bucket in sorted(kept.keys() | shown.keys()):
        if kept.get(bucket) != shown.get(bucket):
            both = f"{shown.get(bucket)} in {COUNTS}, {kept.get(bucket)} in the changelog"
            torn.add(f"torn: {bucket} is {both} on the {side}")


def _find_processed(held: Held, side: Side, lost: Finding, unequal: Finding) -> None:
    """What was read is what was written, in this order."""
    for partition, read in held.logs[PAYMENTS].partitions.items():
        ours = [record.id for record in read]
        theirs = [record.id for record in held.logs[BOOKED].partitions.get(partition, [])]
        there = set(theirs)
        for record in ours:
            if record not in there:
                lost.add(f"lost: {name(record)} of {PAYMENTS} was not processed on the {side}")
        common = there & set(ours)
        if len(common) < len(there):
            unequal.add(f"differs: {BOOKED}/{partition} on the {side} has what {PAYMENTS} has not")
        if [one for one in ours if one in common] != list(dict.fromkeys(one for one in theirs if one in common)):
            unequal.add(f"reordered: {BOOKED}/{partition} on the {side}")


def _find_miscounted(held: Held, side: Side, wrong: Finding) -> None:
    wanted, shown = wanted_counts(held.logs[WORDS]), last_counts(held.logs[COUNTS])
    if not wanted:
        wrong.add(f"{WORDS} is empty on the {side}: nothing was shown")
    for bucket in sorted(wanted.keys() | shown.keys()):
        if wanted.get(bucket) != shown.get(bucket):
            wrong.add(f"miscounted: {bucket} is {shown.get(bucket)} of {wanted.get(bucket)} on the {side}")


def _find_differences(source: Held, target: Held, unequal: Finding) -> None:
    """The same records with the same content in the same order; offsets differ where transactions are mirrored."""
    for topic in (WORDS, PAYMENTS, ORDERS, CLICKS, BOOKED, COUNTS):
        for partition, records in source.logs[topic].partitions.items():
            ours = [(record.id, record.digest) for record in records]
            theirs = [(record.id, record.digest) for record in target.logs[topic].partitions.get(partition, [])]
            if ours != theirs:
                unequal.add(f"differs: {topic}/{partition}: {len(ours)} on the source, {len(theirs)} on the target")


def _not_done(told: Told) -> Iterable[str]:
    if told.forced:
        yield f"{told.forced} command(s) with --force"
    if told.rehearsed_stall_ms is None:
        yield "no rehearsal came to its end with a client that waited"
    if told.pause_ms is None:
        yield "no write pause was told"
    if not told.undone:
        yield "the undo did not bring everything home"
    if not told.report_verified:
        yield "the report was not verified"


def _ids(log: TopicLog) -> set[RecordId]:
    return {record.id for _, record in log.records()}


def _ms(measured: int | None) -> str:
    return "none" if measured is None else str(measured)
