"""The judge of `make demo-app`: a clean run passes, and each seeded fault is found under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from demo.app.acts import found_sets, longest_stall, pauses
from demo.app.clients.booking import booked_value
from demo.app.look import Held, last_counts, parse_booked
from demo.app.settings import BILLING, BOOKED, CHANGELOG, CLICKS, COUNTS, ORDERS, PAYMENTS, SETS, WORDS, AppSettings
from demo.app.verdict import AppVerdict, Told, judge_all, wanted_counts
from demo.checker import LogRecord, TopicLog
from demo.history import Ack, ClientError, History, ReadBatch, Side
from demo.outcome import last_line
from demo.records import RecordId

WRITERS = {
    WORDS: "words-librdkafka",
    PAYMENTS: "payments-librdkafka",
    ORDERS: "orders-librdkafka",
    CLICKS: "clicks-java",
}
RECORDS = 20
TAGS = {"booking-java.5.0/12": 12, "booking-librdkafka.7.3/8": 8}
TOLD = Told(forced=0, rehearsed_stall_ms=31, pause_ms=44, undone=True, report_verified=True)


def log_of(ids: list[RecordId]) -> TopicLog:
    return TopicLog({0: [LogRecord(offset, one, one.seq) for offset, one in enumerate(ids)]}, {0: len(ids)})


def ids_of(topic: str) -> list[RecordId]:
    return [RecordId(WRITERS[topic], number) for number in range(RECORDS)]


def counts() -> list[RecordId]:
    """Each of ten buckets, counted twice."""
    return [RecordId(f"bucket-{bucket}", count) for count in (1, 2) for bucket in range(10)]


def reads(numbers: range) -> ReadBatch:
    ids = [RecordId(WRITERS[ORDERS], number) for number in numbers]
    return ReadBatch("billing-librdkafka", Side.TARGET, 0, 0, list(numbers), ids)


def clean() -> Held:
    logs = {topic: log_of(ids_of(topic)) for topic in WRITERS}
    logs[BOOKED] = log_of(ids_of(PAYMENTS))
    logs[COUNTS] = log_of(counts())
    logs[CHANGELOG] = log_of(counts()[10:])  # compacted
    return Held(logs, TAGS)


@dataclass
class Scene:
    """Twenty records in each topic, of one partition."""

    history: History = field(default_factory=History)
    told: Told = TOLD
    sides: dict[Side, Held] = field(default_factory=lambda: {side: clean() for side in Side})

    def __post_init__(self) -> None:
        for producer in WRITERS.values():
            self.history.acks[producer] = [Ack(number, 0, number, 0) for number in range(RECORDS)]
        self.history.reads[BILLING] = [reads(range(12)), reads(range(12, RECORDS))]

    def verdict(self) -> AppVerdict:
        return judge_all(self.history, self.sides[Side.SOURCE], self.sides[Side.TARGET], self.told)

    def change(self, topic: str, change: Callable[[list[RecordId]], list[RecordId]], *sides: Side) -> None:
        for side in sides or Side:
            held = self.sides[side]
            changed = change([record.id for record in held.logs[topic].partitions[0]])
            self.sides[side] = replace(held, logs={**held.logs, topic: log_of(changed)})

    def tear(self, side: Side) -> None:
        tag = next(iter(TAGS))
        self.sides[side] = replace(self.sides[side], transactions={**TAGS, tag: TAGS[tag] - 1})

    def tell(self, **what: Any) -> None:
        self.told = replace(self.told, **what)


def test_a_clean_run_passes_and_says_so() -> None:
    verdict = Scene().verdict()
    assert verdict.passed, verdict.examples
    assert (verdict.acknowledged, verdict.transactions) == (4 * RECORDS, 2)
    assert last_line("demo-app", verdict, "") == (
        "demo-app: PASS lost=0 duplicated=0 torn=0 counts_exact=true forced=0 client_errors=0"
        " rehearsed_stall_ms=31 pause_ms=44 undone=true report_verified=true"
    )


def _without_last(ids: list[RecordId]) -> list[RecordId]:
    return ids[:-1]


def _twice(ids: list[RecordId]) -> list[RecordId]:
    return [*ids, ids[3]]


def _swapped(ids: list[RecordId]) -> list[RecordId]:
    return [ids[1], ids[0], *ids[2:]]


def _one_more(ids: list[RecordId]) -> list[RecordId]:
    return [*ids, RecordId("bucket-3", 3)]


def _other_content(scene: Scene) -> None:
    held = scene.sides[Side.TARGET]
    first, *rest = held.logs[CLICKS].partitions[0]
    log = TopicLog({0: [first._replace(digest=99), *rest]}, {0: RECORDS})
    scene.sides[Side.TARGET] = replace(held, logs={**held.logs, CLICKS: log})


def _miscounted(scene: Scene) -> None:
    for topic in (COUNTS, CHANGELOG):
        scene.change(topic, _one_more)


FAULTS: dict[str, tuple[Callable[[Scene], object], str]] = {
    **{
        f"a record of {topic} that is not on the {side}": (
            lambda s, topic=topic, side=side: s.change(topic, _without_last, side),  # type: ignore[misc]
            "lost",
        )
        for topic in (PAYMENTS, ORDERS, CLICKS)
        for side in Side
    },
    "a record that the group never read": (lambda s: s.history.reads[BILLING].pop(), "lost"),
    "a record that was not processed": (lambda s: s.change(BOOKED, _without_last), "lost"),
    "a record that is there twice": (lambda s: s.change(CLICKS, _twice, Side.SOURCE), "duplicated"),
    "a record that was processed twice": (lambda s: s.change(BOOKED, _twice), "duplicated"),
    "a count that was written twice": (lambda s: s.change(COUNTS, lambda ids: [*ids, ids[-1]]), "duplicated"),
    "a record that the group read again": (lambda s: s.history.reads[BILLING].append(reads(range(3, 4))), "duplicated"),
    "half a transaction on the source": (lambda s: s.tear(Side.SOURCE), "torn"),
    "half a transaction on the target": (lambda s: s.tear(Side.TARGET), "torn"),
    "a count that only the changelog has": (lambda s: s.change(CHANGELOG, _one_more, Side.TARGET), "torn"),
    "one record counted twice": (_miscounted, "counts_exact"),
    "a record that was not counted": (lambda s: s.change(COUNTS, _without_last), "counts_exact"),
    "nothing to count": (lambda s: s.change(WORDS, lambda _: []), "counts_exact"),
    "a command with --force": (lambda s: s.tell(forced=1), "forced"),
    "an error that a client was shown": (
        lambda s: s.history.errors.append(ClientError("booking-java", 0, "ProducerFencedException")),
        "errors",
    ),
    "no rehearsal": (lambda s: s.tell(rehearsed_stall_ms=None), "rehearsed_stall_ms"),
    "no write pause": (lambda s: s.tell(pause_ms=None), "pause_ms"),
    "an undo that brought not all home": (lambda s: s.tell(undone=False), "undone"),
    "a report that is not as it was signed": (lambda s: s.tell(report_verified=False), "report_verified"),
    "another order": (lambda s: s.change(ORDERS, _swapped, Side.SOURCE), "unequal"),
    "another order of what was processed": (lambda s: s.change(BOOKED, _swapped), "unequal"),
    "another content": (_other_content, "unequal"),
    "something processed that nobody wrote": (
        lambda s: s.change(BOOKED, lambda ids: [*ids, RecordId("nobody", 1)]),
        "unequal",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_found_under_its_name(fault: str) -> None:
    scene = Scene()
    seed, where = FAULTS[fault]
    seed(scene)
    verdict, expected = scene.verdict(), Scene().verdict()
    names = [one.name for one in fields(verdict) if one.name not in ("acknowledged", "examples")]
    assert not verdict.passed
    assert where in [name for name in names if getattr(verdict, name) != getattr(expected, name)]
    assert verdict.examples or verdict.errors


@pytest.mark.parametrize("what", ["acks", "transactions"])
def test_nothing_done_is_no_pass(what: str) -> None:
    scene = Scene()
    if what == "acks":
        scene.history.acks.clear()
    else:
        scene.sides = {side: replace(held, transactions={}) for side, held in scene.sides.items()}
    assert not scene.verdict().passed


def test_a_time_that_was_not_measured_is_said() -> None:
    scene = Scene()
    scene.tell(rehearsed_stall_ms=None, pause_ms=None)
    assert "rehearsed_stall_ms=none pause_ms=none" in scene.verdict().counts


def test_a_value_tells_its_record_and_its_transaction() -> None:
    value = booked_value(RecordId("payments-librdkafka", 7), "booking-java.5.0/12")
    assert parse_booked(value) == (RecordId("payments-librdkafka", 7), "booking-java.5.0/12")
    for bad in (b"payments 7 ", b"payments 7 booking-java.5.0/x ", b"payments 7 booking-java.5.0/0 ", None):
        with pytest.raises(ValueError, match="not "):
            parse_booked(bad)


def test_counts_are_those_of_the_last_record() -> None:
    assert last_counts(log_of(counts())) == {f"bucket-{bucket}": 2 for bucket in range(10)}
    assert wanted_counts(log_of(ids_of(WORDS))) == last_counts(log_of(counts()))


def test_the_longest_stall_and_the_pauses_are_those_that_are_told() -> None:
    def rehearsal(*stalls: int) -> dict[str, Any]:
        return {"rehearsal": {"stalls": [{"stall_ms": stall} for stall in stalls]}}

    told = {"applications": [rehearsal(3, 40), {"rehearsal": None}, rehearsal(7)]}
    assert longest_stall(told) == 40
    assert longest_stall({"applications": [rehearsal()]}) is None
    journal = [("REHEARSED", 90), ("PROMOTED", 12), ("APPLIED", None), ("PROMOTED", 30)]
    assert pauses({"journal": [{"what": what, "pause_ms": pause} for what, pause in journal]}) == [12, 30]


def test_sets_are_those_of_the_file() -> None:
    file = {
        "applications": [
            {"name": "any", "topics": sorted(one.topics), "groups": sorted(one.groups), "together": one.together}
            for one in SETS
        ]
    }
    assert found_sets(file) == set(SETS)
    del file["applications"][-1]["groups"], file["applications"][-1]["together"]
    assert found_sets(file) == set(SETS)


def test_settings_name_folders_of_their_own() -> None:
    settings = AppSettings()
    assert (settings.folder.name, settings.report.name) == ("demo-app", "demo-app.json")
