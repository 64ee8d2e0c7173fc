"""The judge lets a clean migration pass and fails each seeded fault, under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from demo.checker import Limits, TopicLog, check
from demo.history import Ack, ClientError, Departure, Side
from demo.records import RecordId
from tests.unit.demo.scene import GROUP, STEP_MS, Scene

LIMITS = Limits()


def test_a_clean_migration_passes() -> None:
    verdict = Scene().judge()
    assert verdict.faults(LIMITS) == []
    assert (verdict.acknowledged, verdict.found, verdict.unacknowledged) == (60, 60, 0)
    assert verdict.offsets_equal
    assert verdict.examples == ()


def drop_on_target(scene: Scene) -> None:
    del scene.target[1][3]


def drop_last_on_target(scene: Scene) -> None:
    del scene.target[2][-1]


def repeat_on_target(scene: Scene) -> None:
    again = scene.target[1][-1]
    scene.target[1].append(again._replace(offset=again.offset + 1))


def swap_before_the_cut(scene: Scene) -> None:
    log = scene.target[0]
    log[1], log[2] = log[2]._replace(offset=log[1].offset), log[1]._replace(offset=log[2].offset)


def swap_one_producer_after_the_cut(scene: Scene) -> None:
    log = scene.target[0]
    first, second = [i for i, record in enumerate(log) if record.id.producer == "one"][-2:]
    log[first], log[second] = (
        log[second]._replace(offset=log[first].offset),
        log[first]._replace(offset=log[second].offset),
    )


def shift_offsets(scene: Scene) -> None:
    scene.target[1] = [record._replace(offset=record.offset + 1) for record in scene.target[1]]


def change_content(scene: Scene) -> None:
    scene.target[1][2] = scene.target[1][2]._replace(digest=1)


def foreign_record_below_the_cut(scene: Scene) -> None:
    stranger = scene.target[2][1]._replace(id=RecordId("stranger", 0))
    scene.target[2].insert(1, stranger)


def acknowledge_elsewhere(scene: Scene) -> None:
    acks = scene.history.acks["two"]
    acks[-1] = acks[-1]._replace(offset=acks[-1].offset + 1)


def acknowledge_what_never_arrived(scene: Scene) -> None:
    scene.history.acks["one"].append(Ack(999, 0, 777, scene.promote.end_ms + 500))


def read_again(scene: Scene) -> None:
    scene.read_batches().append(scene.read_batches()[0]._replace(member="reader-2", side=Side.TARGET))


def read_again_within_one_batch(scene: Scene) -> None:
    batch = scene.read_batches()[3]
    batch.offsets.append(batch.offsets[0])
    batch.ids.append(batch.ids[0])


def miss_a_batch(scene: Scene) -> None:
    del scene.read_batches()[5]


def miss_the_last_record(scene: Scene) -> None:
    batch = scene.read_batches()[-1]
    batch.offsets.pop()
    batch.ids.pop()


def read_at_another_offset(scene: Scene) -> None:
    batch = scene.read_batches()[0]
    batch.offsets[0] += 1_000


def group_reads_nothing(scene: Scene) -> None:
    scene.history.reads.clear()


def group_never_switches(scene: Scene) -> None:
    scene.history.reads[GROUP] = [batch._replace(side=Side.SOURCE) for batch in scene.read_batches()]


def group_switches_late(scene: Scene) -> None:
    scene.history.departures[GROUP].append(Departure("reader-2", Side.SOURCE, scene.promote.end_ms - 60_100))
    scene.history.departures[GROUP] = scene.history.departures[GROUP][-1:]


def group_reads_on_both_sides(scene: Scene) -> None:
    scene.history.departures[GROUP].append(Departure("reader-1", Side.SOURCE, scene.promote.end_ms + 1))


def producer_waits(scene: Scene) -> None:
    acks = scene.history.acks["one"]
    acks[:] = [ack if ack.at_ms < scene.promote.start_ms else ack._replace(at_ms=ack.at_ms + 30_100) for ack in acks]


def producer_falls_silent(scene: Scene) -> None:
    acks = scene.history.acks["two"]
    acks[:] = [ack for ack in acks if ack.at_ms < scene.promote.end_ms]


def application_sees_an_error(scene: Scene) -> None:
    scene.history.errors.append(ClientError("one", 1, "timed out"))


FAULTS: dict[Callable[[Scene], None], str] = {
    drop_on_target: "1 lost",
    drop_last_on_target: "1 lost",
    repeat_on_target: "1 duplicated",
    swap_before_the_cut: "1 reordered",
    swap_one_producer_after_the_cut: "1 reordered",
    shift_offsets: "the offsets differ",
    change_content: "the offsets differ",
    foreign_record_below_the_cut: "the offsets differ",
    acknowledge_elsewhere: "the offsets differ",
    acknowledge_what_never_arrived: "1 lost",
    read_again: "4 reread",
    read_again_within_one_batch: "1 reread",
    miss_a_batch: "missed",
    miss_the_last_record: "1 missed",
    read_at_another_offset: "1 read where the target has no such record",
    group_reads_nothing: "60 missed",
    group_never_switches: "never read on the target",
    group_switches_late: "limit 60000",
    group_reads_on_both_sides: "before its last member left",
    producer_waits: "limit 30000",
    producer_falls_silent: "acknowledged nothing after",
    application_sees_an_error: "errors reached a client",
}


@pytest.mark.parametrize("seed_fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_seeded_fault_fails(seed_fault: Callable[[Scene], None]) -> None:
    scene = Scene()
    seed_fault(scene)
    faults = scene.judge().faults(LIMITS)
    assert any(FAULTS[seed_fault] in fault for fault in faults), faults


def test_a_missing_source_log_is_no_proof_of_equality() -> None:
    scene = Scene()
    scene.source = {}
    assert not scene.judge().offsets_equal


def test_a_run_without_a_migration_is_judged_without_source_and_switch() -> None:
    scene = Scene()
    verdict = check(scene.history, TopicLog({}), TopicLog(scene.target), live=("one", "two"), groups=(GROUP,))
    assert verdict.faults(LIMITS) == []
    assert (verdict.promote_gap_ms, verdict.group_switch_ms) == (0, 0)


def test_an_empty_target_never_passes() -> None:
    scene = Scene()
    verdict = check(type(scene.history)(), TopicLog({}), TopicLog({}))
    assert verdict.faults(LIMITS) == ["nothing was found on the target"]


def test_an_unacknowledged_record_on_the_target_is_no_fault() -> None:
    scene = Scene()
    del scene.history.acks["one"][4]
    verdict = scene.judge()
    assert verdict.unacknowledged == 1
    assert verdict.faults(LIMITS) == []


def test_a_duplicate_answer_without_an_offset_is_no_fault() -> None:
    scene = Scene()
    acks = scene.history.acks["one"]
    acks[10] = acks[10]._replace(offset=-1)
    assert scene.judge().faults(LIMITS) == []


def test_the_waits_are_measured() -> None:
    scene = Scene()
    verdict = scene.judge()
    assert verdict.promote_gaps_ms == {"one": 2 * STEP_MS, "two": 2 * STEP_MS}
    assert verdict.group_switch_ms == STEP_MS


def test_a_busy_machine_fails_no_run_and_what_never_ends_does() -> None:
    clean = Scene().judge()
    slow = replace(clean, promote_gaps_ms={"one": 1_900}, groups={GROUP: replace(clean.groups[GROUP], switch_ms=5_382)})
    assert slow.faults(LIMITS) == []
    assert len(slow.faults(Limits(promote_gap_ms=500, group_switch_ms=5_000))) == 2
    stuck = replace(clean, promote_gaps_ms={"one": LIMITS.promote_gap_ms + 1})
    assert len(stuck.faults(LIMITS)) == 1
